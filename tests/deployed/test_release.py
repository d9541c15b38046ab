"""A second `sam deploy`: a changed layer is published and served; an unchanged build publishes nothing; a stack of an
older release gets the index and the schedule and keeps its tasks.
"""

import re
import shutil
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.deployed.conversation import whole_conversation
from tests.deployed.deployment import Stack
from tests.deployed.test_background import create_without_event, item_of, wait_until

STACK = "released"


def live_version(stack: Stack) -> tuple[str, list[str]]:
    """Return the version that the alias points to, and that version's layers."""
    aws_lambda = stack.emulator.client("lambda")
    name = stack.outputs["FunctionName"]
    version = aws_lambda.get_alias(FunctionName=name, Name="live")["FunctionVersion"]
    layers = aws_lambda.get_function_configuration(FunctionName=name, Qualifier=version)["Layers"]
    return version, [layer["Arn"] for layer in layers]


def test_the_alias_serves_a_changed_layer_and_an_unchanged_build_publishes_nothing(
    stack: Stack, build: Path, tmp_path: Path
) -> None:
    first = live_version(stack.copy(STACK))
    assert live_version(stack.emulator.deploy(build, STACK)) == first

    changed = tmp_path / "build"
    shutil.copytree(build, changed, symlinks=True)
    title = changed / "BatonLayer" / "python" / "released.txt"
    title.write_text("a second release")
    released = stack.emulator.deploy(changed, STACK)
    version, layers = live_version(released)

    assert int(version) == int(first[0]) + 1
    assert layers != first[1]
    anyio.run(whole_conversation, released.endpoint, released.caller(x_api_key=released.api_key), "2026")


def without_clock(template: str) -> str:
    """Return the template of a release that had no schedule and no index in its table."""
    for block in (r" +GlobalSecondaryIndexes:\n", r" +Sweep:\n +Type: ScheduleV2\n"):
        [found] = re.finditer(f"(?m)^{block}", template)
        indent = len(found[0]) - len(found[0].lstrip())
        rest = template[found.end() :]
        # A list has the same indentation as its key.
        over = re.search(rf"(?m)^ {{0,{indent}}}(?![ -])", rest)
        assert over
        template = template[: found.start()] + rest[over.start() :]
    return re.sub(r" +- AttributeName: listed_\w+\n +AttributeType: S\n", "", template)


@pytest.fixture(scope="session")
def older(stack: Stack) -> Stack:
    """A stack of a release that had no schedule and no index."""
    older = stack.copy("older", change=without_clock)
    table = older.emulator.client("dynamodb").describe_table(TableName=older.outputs["TaskTableName"])["Table"]
    assert "GlobalSecondaryIndexes" not in table
    assert not older.resources("AWS::Scheduler::Schedule")
    return older


@pytest.fixture(scope="session")
def older_task(older: Stack) -> dict[str, Any]:
    """The item of a task that was created before the update, and for which the worker was not invoked."""
    return item_of(older, create_without_event(older))


@pytest.fixture(scope="session")
def updated(older: Stack, older_task: dict[str, Any], build: Path) -> Stack:
    """The older stack after an update."""
    return older.emulator.deploy(build, older.name)


def test_a_stack_without_a_schedule_can_be_updated_while_it_has_tasks(
    older: Stack, older_task: dict[str, Any], updated: Stack
) -> None:
    table = older.outputs["TaskTableName"]
    [index] = updated.emulator.client("dynamodb").describe_table(TableName=table)["Table"]["GlobalSecondaryIndexes"]
    assert (updated.outputs["TaskTableName"], index["IndexName"], index["IndexStatus"]) == (table, "lists", "ACTIVE")
    assert len(updated.resources("AWS::Scheduler::Schedule")) == 1
    assert item_of(updated, older_task["sk"]["S"])["created_at"] == older_task["created_at"]


@pytest.mark.last
def test_a_sweep_finds_a_task_from_before_the_update(older_task: dict[str, Any], updated: Stack) -> None:
    """The index includes items from before the update."""
    wait_until(lambda: item_of(updated, older_task["sk"]["S"])["status"]["S"] == "completed")
