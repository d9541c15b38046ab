"""The schedule that invokes the function each minute to check background tasks (docs/background.md, The clock)."""

import json
from typing import Any

import pytest

from mcp_baton.transport.adapter import SWEEP_EVENT
from tests.template.cloudformation import Stack
from tests.template.conftest import MakeStack


def test_the_schedule_invokes_the_alias_each_minute_with_a_sweep_event(default: Stack) -> None:
    schedule = default.single("AWS::Scheduler::Schedule")
    target = schedule["Target"]

    assert (schedule["ScheduleExpression"], schedule["FlexibleTimeWindow"]) == ("rate(1 minute)", {"Mode": "OFF"})
    assert json.loads(target["Input"]) == {SWEEP_EVENT: {}}
    assert target["RetryPolicy"] == {"MaximumRetryAttempts": 0, "MaximumEventAgeInSeconds": 60}
    assert target["Arn"] == {"Ref": "McpFunctionAliaslive"}
    # The schedules of two stacks in an account must have different names.
    assert "Name" not in schedule


def test_the_schedule_may_invoke_the_alias_and_do_nothing_else(default: Stack) -> None:
    role = default.single("AWS::Scheduler::Schedule")["Target"]["RoleArn"]["Fn::GetAtt"][0]
    properties: Any = default.resources[role]["Properties"]
    [statement] = properties["AssumeRolePolicyDocument"]["Statement"]
    [policy] = properties["Policies"]

    assert statement["Principal"] == {"Service": ["scheduler.amazonaws.com"]}
    assert [(right["Action"], right["Resource"]) for right in policy["PolicyDocument"]["Statement"]] == [
        ("lambda:InvokeFunction", {"Ref": "McpFunctionAliaslive"})
    ]
    assert "ManagedPolicyArns" not in properties


@pytest.mark.parametrize(("switch", "state", "alarms"), [("on", "ENABLED", 1), ("off", "DISABLED", 0)])
def test_a_parameter_turns_the_schedule_off(stack: MakeStack, switch: str, state: str, alarms: int) -> None:
    variant = stack(Sweep=switch)
    wake_alarms = [alarm for alarm in variant.of_type("AWS::CloudWatch::Alarm") if alarm["MetricName"] == "WakeUpDelay"]

    assert variant.single("AWS::Scheduler::Schedule")["State"] == state
    assert [alarm["Threshold"] for alarm in wake_alarms] == [180_000] * alarms
