"""`make smoke` against a deployed stack. Checks that the emulator does not support report "not checked"."""

import re
import subprocess
from collections.abc import Mapping

import pytest

from tests.deployed.deployment import Stack
from tests.deployed.machine import ROOT, environment

PYTHON = ROOT / ".venv" / "bin" / "python"
WITHIN_S = 600
PAUSES = ("--workflow", "refund_order", "order_id=A-17", "amount=300")


def copy_to_smoke(stack: Stack, name: str) -> Stack:
    """Copy the stack, with short subscription streams, because the emulator sends a stream only at its end."""
    return stack.copy(name, ListenMs="1000")


@pytest.fixture(scope="session")  # some of these tests run last, after those of other modules
def smoke_stack(stack: Stack) -> Stack:
    return copy_to_smoke(stack, "smoked")


def smoke(stack: Stack, key: str, **extra_variables: str) -> tuple[int, Mapping[str, list[str]]]:
    """Run the checks. Return the exit code, and the outcomes and texts by check."""
    target = [stack.endpoint, "--header", f"Host:{stack.host}", "--api-key", "env:SMOKE_KEY", "--stack", stack.name]
    variables = environment(AWS_ENDPOINT_URL=stack.emulator.url, SMOKE_KEY=key, **extra_variables)
    process = subprocess.run(
        [PYTHON, "-m", "tests.smoke", *target, *PAUSES],
        cwd=ROOT,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN_S,
    )
    reports: dict[str, list[str]] = {}
    for outcome, name, text in re.findall(r"^(held|failed|not checked) +(\w+): (.*)$", process.stdout, re.MULTILINE):
        reports.setdefault(name, []).append(f"{outcome}: {text}")
    assert reports, process.stderr
    return process.returncode, reports


@pytest.mark.last
def test_a_healthy_stack_passes_and_no_data_is_left_behind(smoke_stack: Stack) -> None:
    code, reports = smoke(smoke_stack, smoke_stack.api_key)

    outcomes = {name: [text.partition(":")[0] for text in texts] for name, texts in reports.items()}
    assert outcomes == {
        "endpoint": ["held"],
        "sign_in": ["not checked"],
        "authorizer": ["held", "held"],
        "tasks": ["held", "not checked"],
        "streaming": ["not checked"],
        "stack": ["held"],
        "DynamoDB": ["not checked"],
        "encryption": ["not checked"],
        "throttles": ["not checked"],
        "index": ["held"],
        "sweeps": ["held"],
        "end": ["held", "held"],
    }, reports
    assert code == 0
    items = smoke_stack.emulator.client("dynamodb").scan(TableName=smoke_stack.outputs["TaskTableName"])["Items"]
    assert {item["status"]["S"] for item in items if item["sk"]["S"].startswith("TASK#")} == {"cancelled"}
    assert [item for item in items if "baton-smoke" in item["pk"]["S"] or "listed_in" in item] == []


def test_a_broken_stack_fails_the_checks_of_its_faults(stack: Stack) -> None:
    broken = copy_to_smoke(stack, "broken")
    emulator = stack.emulator
    scheduler, [schedule] = emulator.client("scheduler"), broken.resources("AWS::Scheduler::Schedule").values()
    description = scheduler.get_schedule(Name=schedule)
    members = ("Name", "ScheduleExpression", "FlexibleTimeWindow", "Target")
    scheduler.update_schedule(State="DISABLED", **{member: description[member] for member in members})
    emulator.client("dynamodb").update_table(
        TableName=broken.outputs["TaskTableName"], GlobalSecondaryIndexUpdates=[{"Delete": {"IndexName": "lists"}}]
    )

    code, reports = smoke(broken, broken.api_key)

    assert code == 1
    assert reports["index"][0].startswith("failed: "), reports
    assert reports["sweeps"][0].startswith("failed: the schedule is DISABLED"), reports
    assert reports["authorizer"][0] == "held: a caller without credentials gets 403"


def test_with_wrong_credentials_only_checks_without_credentials_run(smoke_stack: Stack) -> None:
    code, reports = smoke(smoke_stack, "wrong")

    assert (code, list(reports)) == (1, ["endpoint", "sign_in"])
    assert "403" in reports["endpoint"][0]
    assert reports["sign_in"] == ["not checked: the 403 of a call without credentials names no metadata"]
