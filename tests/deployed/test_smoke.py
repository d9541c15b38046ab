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


@pytest.fixture(scope="session")  # some of these tests run last, after those of other modules
def smoked(stack: Stack) -> Stack:
    """A stack whose subscription streams are short, because the emulator sends a stream only at its end."""
    return stack.copy("smoked", ListenMs="1000")


def smoke(stack: Stack, key: str, **more: str) -> tuple[int, Mapping[str, list[str]]]:
    """Run the checks. Return the exit code, and the outcomes and texts by check."""
    where = [stack.endpoint, "--header", f"Host:{stack.host}", "--api-key", "env:SMOKE_KEY", "--stack", stack.name]
    variables = environment(AWS_ENDPOINT_URL=stack.emulator.url, SMOKE_KEY=key, **more)
    done = subprocess.run(
        [PYTHON, "-m", "tests.smoke", *where, *PAUSES],
        cwd=ROOT,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN_S,
    )
    found: dict[str, list[str]] = {}
    for outcome, name, text in re.findall(r"^(held|failed|not checked) +(\w+): (.*)$", done.stdout, re.MULTILINE):
        found.setdefault(name, []).append(f"{outcome}: {text}")
    assert found, done.stderr
    return done.returncode, found


@pytest.mark.last
def test_a_healthy_stack_passes_and_no_data_is_left_behind(smoked: Stack) -> None:
    code, found = smoke(smoked, smoked.api_key)

    outcomes = {name: [text.partition(":")[0] for text in texts] for name, texts in found.items()}
    assert outcomes == {
        "endpoint": ["held"],
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
    }, found
    assert code == 0
    items = smoked.emulator.client("dynamodb").scan(TableName=smoked.outputs["TaskTableName"])["Items"]
    assert {item["status"]["S"] for item in items if item["sk"]["S"].startswith("TASK#")} == {"cancelled"}
    assert [item for item in items if "baton-smoke" in item["pk"]["S"] or "listed_in" in item] == []


@pytest.mark.last
def test_a_broken_stack_fails_the_checks_of_its_faults(smoked: Stack) -> None:
    emulator = smoked.emulator
    scheduler, [schedule] = emulator.client("scheduler"), smoked.resources("AWS::Scheduler::Schedule").values()
    described = scheduler.get_schedule(Name=schedule)
    kept = ("Name", "ScheduleExpression", "FlexibleTimeWindow", "Target")
    scheduler.update_schedule(State="DISABLED", **{member: described[member] for member in kept})
    emulator.client("dynamodb").update_table(
        TableName=smoked.outputs["TaskTableName"], GlobalSecondaryIndexUpdates=[{"Delete": {"IndexName": "lists"}}]
    )

    code, found = smoke(smoked, smoked.api_key)

    assert code == 1
    assert found["index"][0].startswith("failed: "), found
    assert found["sweeps"][0].startswith("failed: the schedule is DISABLED"), found
    assert found["authorizer"][0] == "held: a caller without credentials gets 403"


def test_wrong_credentials_fail_and_no_other_check_runs(smoked: Stack) -> None:
    code, found = smoke(smoked, "wrong")

    assert (code, list(found)) == (1, ["endpoint"])
    assert "403" in found["endpoint"][0]
