"""`Deploy`: CodeDeploy shifts the aliases step by step, and shifts them back if an alarm fires."""

from typing import Any

import pytest

from tests.template.cloudformation import Stack, references
from tests.template.conftest import SERVING, Translate

AT_ONCE = "AllAtOnce"
STEP_BY_STEP = (
    *(f"Canary10Percent{minutes}Minutes" for minutes in (5, 10, 15, 30)),
    "Linear10PercentEvery1Minute",
    *(f"Linear10PercentEvery{minutes}Minutes" for minutes in (2, 3, 10)),
)
ALARMS = {
    "McpFunction": ["ErrorsAlarm", "WorkerErrorsAlarm", "InternalErrorsAlarm"],
    "WorkerFunction": ["WorkerErrorsAlarm", "InternalErrorsAlarm"],
}


def stack_with(translate: Translate, kind: str) -> Stack:
    return Stack(translate(Deploy=kind), {"Deploy": kind})


def required_resources(stack: Stack, name: str) -> set[str]:
    """Return all resources that must exist, or be updated, before this one."""
    names, remaining = set[str](), {name}
    while remaining:
        new_names = references(stack.resources[remaining.pop()]) & stack.resources.keys()
        remaining |= new_names - names
        names |= new_names
    return names


def group_of(stack: Stack, name: str) -> Any:
    """Return the deployment group that updates the function's alias."""
    policy = stack.resources[f"{name}Aliaslive"]["UpdatePolicy"]["CodeDeployLambdaAliasUpdate"]
    assert stack.resources[policy["ApplicationName"]["Ref"]]["Properties"] == {"ComputePlatform": "Lambda"}
    return stack.resources[policy["DeploymentGroupName"]["Ref"]]["Properties"]


def test_every_deployment_type_is_declared(default: Stack) -> None:
    assert default.declared("Deploy")["AllowedValues"] == [AT_ONCE, *STEP_BY_STEP]


def test_by_default_the_aliases_move_at_once_and_codedeploy_is_not_used(translate: Translate, default: Stack) -> None:
    for stack in (default, stack_with(translate, AT_ONCE)):
        assert [body["Type"] for body in stack.resources.values() if "CodeDeploy" in body["Type"]] == []
        assert [name for name, body in stack.resources.items() if "UpdatePolicy" in body] == []
        assert "CodeDeployServiceRole" not in stack.resources


@pytest.mark.parametrize("kind", STEP_BY_STEP)
def test_codedeploy_moves_both_aliases_as_chosen(translate: Translate, kind: str) -> None:
    stack = stack_with(translate, kind)

    groups = [group_of(stack, name) for name in SERVING]
    assert [group["DeploymentConfigName"] for group in groups] == [f"CodeDeployDefault.Lambda{kind}"] * 2
    assert stack.dangling_references() == set()
    assert len(stack.order()) == len(stack.resources)


def test_alarms_for_errors_stop_a_deployment_and_roll_it_back(translate: Translate) -> None:
    stack = stack_with(translate, STEP_BY_STEP[0])

    for name, expected in ALARMS.items():
        group = group_of(stack, name)
        alarms = [alarm["Name"]["Ref"] for alarm in group["AlarmConfiguration"]["Alarms"]]
        assert (group["AlarmConfiguration"]["Enabled"], alarms) == (True, expected)
        assert {stack.resources[alarm]["Type"] for alarm in alarms} == {"AWS::CloudWatch::Alarm"}
        assert group["AutoRollbackConfiguration"]["Enabled"] is True
        assert {"DEPLOYMENT_FAILURE", "DEPLOYMENT_STOP_ON_ALARM"} <= set(group["AutoRollbackConfiguration"]["Events"])


@pytest.mark.parametrize("kind", [AT_ONCE, STEP_BY_STEP[0]])
def test_the_alias_of_the_worker_moves_before_the_function_of_requests_changes(translate: Translate, kind: str) -> None:
    stack = stack_with(translate, kind)

    assert "WorkerFunctionAliaslive" in required_resources(stack, "McpFunction")
    assert "McpFunction" not in required_resources(stack, "WorkerFunctionAliaslive")


def test_only_codedeploy_has_the_role_that_moves_aliases(translate: Translate) -> None:
    role = stack_with(translate, STEP_BY_STEP[0]).resources["CodeDeployServiceRole"]["Properties"]

    [statement] = role["AssumeRolePolicyDocument"]["Statement"]
    assert statement["Principal"] == {"Service": ["codedeploy.amazonaws.com"]}
    assert [arn.rpartition("/")[2] for arn in role["ManagedPolicyArns"]] == ["AWSCodeDeployRoleForLambda"]
