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
    first_version = live_version(stack.copy(STACK))
    assert live_version(stack.emulator.deploy(build, STACK)) == first_version

    changed_build = tmp_path / "build"
    shutil.copytree(build, changed_build, symlinks=True)
    title = changed_build / "BatonLayer" / "python" / "released.txt"
    title.write_text("a second release")
    new_stack = stack.emulator.deploy(changed_build, STACK)
    version, layers = live_version(new_stack)

    assert int(version) == int(first_version[0]) + 1
    assert layers != first_version[1]
    anyio.run(whole_conversation, new_stack.endpoint, new_stack.caller(x_api_key=new_stack.api_key), "2026")


def without_clock(template: str) -> str:
    """Return the template of a release that had no schedule and no index in its table."""
    for block in (r" +GlobalSecondaryIndexes:\n", r" +Sweep:\n +Type: ScheduleV2\n"):
        [match] = re.finditer(f"(?m)^{block}", template)
        indent = len(match[0]) - len(match[0].lstrip())
        rest = template[match.end() :]
        # A list has the same indentation as its key.
        block_end = re.search(rf"(?m)^ {{0,{indent}}}(?![ -])", rest)
        assert block_end
        template = template[: match.start()] + rest[block_end.start() :]
    return re.sub(r" +- AttributeName: listed_\w+\n +AttributeType: S\n", "", template)


@pytest.fixture(scope="session")
def old_stack(stack: Stack) -> Stack:
    """A stack of a release that had no schedule and no index."""
    old_stack = stack.copy("older", change=without_clock)
    table = old_stack.emulator.client("dynamodb").describe_table(TableName=old_stack.outputs["TaskTableName"])["Table"]
    assert "GlobalSecondaryIndexes" not in table
    assert not old_stack.resources("AWS::Scheduler::Schedule")
    return old_stack


@pytest.fixture(scope="session")
def older_task(old_stack: Stack) -> dict[str, Any]:
    """The item of a task that was created before the update, and for which the worker was not invoked."""
    return item_of(old_stack, create_without_event(old_stack))


@pytest.fixture(scope="session")
def new_stack(old_stack: Stack, older_task: dict[str, Any], build: Path) -> Stack:
    """The older stack after an update."""
    return old_stack.emulator.deploy(build, old_stack.name)


def test_a_stack_without_a_schedule_can_be_updated_while_it_has_tasks(
    old_stack: Stack, older_task: dict[str, Any], new_stack: Stack
) -> None:
    table = old_stack.outputs["TaskTableName"]
    [index] = new_stack.emulator.client("dynamodb").describe_table(TableName=table)["Table"]["GlobalSecondaryIndexes"]
    assert (new_stack.outputs["TaskTableName"], index["IndexName"], index["IndexStatus"]) == (table, "lists", "ACTIVE")
    assert len(new_stack.resources("AWS::Scheduler::Schedule")) == 1
    assert item_of(new_stack, older_task["sk"]["S"])["created_at"] == older_task["created_at"]


@pytest.mark.last
def test_a_sweep_finds_a_task_from_before_the_update(older_task: dict[str, Any], new_stack: Stack) -> None:
    """The index includes items from before the update."""
    wait_until(lambda: item_of(new_stack, older_task["sk"]["S"])["status"]["S"] == "completed")
