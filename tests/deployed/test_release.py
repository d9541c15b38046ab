"""A second `sam deploy`: a changed layer is published and served; an unchanged build publishes nothing; a stack of an
older release gets the index and the schedule and keeps its tasks.
"""

import re
import shutil
from pathlib import Path

import anyio

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


def test_a_stack_without_a_schedule_can_be_updated_while_it_has_tasks(stack: Stack, build: Path) -> None:
    older = stack.copy("older", change=without_clock)
    dynamodb, table = older.emulator.client("dynamodb"), older.outputs["TaskTableName"]
    assert "GlobalSecondaryIndexes" not in dynamodb.describe_table(TableName=table)["Table"]
    assert not older.resources("AWS::Scheduler::Schedule")
    waiting = create_without_event(older)
    created = item_of(older, waiting)["created_at"]

    updated = older.emulator.deploy(build, "older")
    [index] = dynamodb.describe_table(TableName=table)["Table"]["GlobalSecondaryIndexes"]
    assert (updated.outputs["TaskTableName"], index["IndexName"], index["IndexStatus"]) == (table, "lists", "ACTIVE")
    assert len(updated.resources("AWS::Scheduler::Schedule")) == 1
    assert item_of(updated, waiting)["created_at"] == created
    # The schedule finds the task in the index, which includes items from before the update.
    wait_until(lambda: item_of(updated, waiting)["status"]["S"] == "completed")
