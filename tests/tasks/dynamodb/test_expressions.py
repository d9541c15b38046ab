"""The expressions of one write: actions, conditions and their length."""

import re

import pytest

from mcp_baton.protocol.json import Json
from mcp_baton.tasks.dynamodb.attributes import Item
from mcp_baton.tasks.dynamodb.expressions import MAX_EXPRESSION_BYTES, Update
from mcp_baton.tasks.dynamodb.heads import MAX_VALUES_MOVED
from mcp_baton.tasks.dynamodb.items import Limits, new_item
from mcp_baton.tasks.dynamodb.write import Write
from mcp_baton.tasks.record import PROGRESS, NewTask, StepStatus
from mcp_baton.tasks.store import Batch, StepWrite, Timing

PENDING, COMPLETED, FAILED = StepStatus.PENDING, StepStatus.COMPLETED, StepStatus.FAILED
TOKEN = "0123456789abcdef"


def task_item(steps: int, definition: str | None = None) -> Item:
    step_states: list[Json] = [{"name": f"s{index}", "status": "pending"} for index in range(steps)]
    progress: Json = {"goal": "flow", "steps": step_states, "schemaVersion": 1}
    return new_item(NewTask("owner", {PROGRESS: progress}, definition=definition), "0" * 34, 0, Limits())


def update_of(item: Item, batch: Batch, moved: int = 0) -> Update:
    write = Write(item, batch, Limits(), lambda: 0.0)
    write.kept_until_s = 1 if moved else None
    write.place({("variables", f"{'m' * 200}{number}"): {"S": "V"} for number in range(moved)})
    return write.update("0" * 37, 5_000, (TOKEN, 5_000))


def test_the_largest_change_of_definition_fits_one_expression() -> None:
    names = [f"step {index}" for index in range(100)]
    progress: Json = {"goal": "g", "steps": [{"name": name, "status": "pending"} for name in names]}
    batch = Batch(
        steps=tuple(StepWrite(index, name, PENDING, COMPLETED, index) for index, name in enumerate(names)),
        pauses=({"type": "x"},),
        variables={PROGRESS: progress, **{f"v{index}": index for index in range(50)}},
        removed=frozenset(f"_workflow.result.s{index}" for index in range(100)),
        definition="new",
    )
    write = update_of(task_item(100, "old"), batch)
    assert len(write.expression()) < MAX_EXPRESSION_BYTES
    assert len(write.condition()) < MAX_EXPRESSION_BYTES


@pytest.mark.parametrize("steps", [40, 50, 51, 100, 200])
def test_both_expressions_fit_with_long_names(steps: int) -> None:
    batch = Batch(
        steps=tuple(
            StepWrite(index, f"{index:0200}", PENDING, [COMPLETED, FAILED][index % 2], {}, timing=Timing(index, index))
            for index in range(steps)
        ),
        variables={f"{'v' * 200}{index}": index for index in range(50)},
        removed=frozenset({"gone"}),
        pauses=({"type": "x"},),
        result={"completed": True},
    )
    item: Item = {**task_item(steps), "timings": {"M": {}}}
    stored: Item = {f"{'m' * 200}{number}": {"S": "x"} for number in range(MAX_VALUES_MOVED)}
    item["variables"] = {"M": {**item["variables"]["M"], **stored}}
    write = update_of(item, batch, MAX_VALUES_MOVED)
    assert len(write.expression()) <= MAX_EXPRESSION_BYTES
    assert len(write.condition()) <= MAX_EXPRESSION_BYTES
    assert operators(write.condition()) <= 300
    assert operators(write.expression()) <= 300


def operators(expression: str) -> int:
    """Count the operators and functions that DynamoDB limits to 300. The `=` of a `SET` does not count."""
    if expression.startswith("SET"):
        return expression.count("+")
    return len(re.findall(r"AND|=|>| IN |attribute_exists|NOT|contains", expression))
