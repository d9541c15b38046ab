"""The expressions of one write: actions, conditions and their length."""

import re

import pytest

from mcp_baton.protocol.json import Json
from mcp_baton.tasks.dynamodb.attributes import Item
from mcp_baton.tasks.dynamodb.expressions import MAX_EXPRESSION_BYTES, Update, base36, guarded_update
from mcp_baton.tasks.dynamodb.items import Limits, new_item
from mcp_baton.tasks.dynamodb.write import MAX_VALUES_MOVED, Write
from mcp_baton.tasks.record import PAUSE_REASONS, PROGRESS, NewTask, StepStatus
from mcp_baton.tasks.store import Batch, StepWrite, Timing

PENDING, COMPLETED, FAILED = StepStatus.PENDING, StepStatus.COMPLETED, StepStatus.FAILED
TOKEN = "0123456789abcdef"
STORED = bytes.fromhex(TOKEN)


def task_item(steps: int, definition: str | None = None) -> Item:
    step_states: list[Json] = [{"name": f"s{index}", "status": "pending"} for index in range(steps)]
    progress: Json = {"goal": "flow", "steps": step_states, "schemaVersion": 1}
    return new_item(NewTask("owner", {PROGRESS: progress}, definition=definition), "0" * 34, 0, Limits())


def update(batch: Batch, steps: int, definition: str | None = None) -> Update:
    item = task_item(steps, definition)
    return update_of(item, batch)


def update_of(item: Item, batch: Batch, moved: int = 0) -> Update:
    write = Write(item, batch, Limits(), lambda: 0.0)
    write.kept_until_s = 1 if moved else None
    write.place({("variables", f"{'m' * 200}{number}"): {"S": "V"} for number in range(moved)})
    return write.update("0" * 37, 5_000, (TOKEN, 5_000))


def expand(text: str, source: Update) -> str:
    """Replace the placeholders in an expression by names and values."""
    values = {place: next(iter(value.values())) for place, value in source.values.items()}
    return re.sub(r"[#:]\w+", lambda match: str({**source.names, **values}[match[0]]), text)


def test_a_write_that_is_sent_once_has_no_token() -> None:
    write = guarded_update(5_000, None)
    write.set(write.name("note"), write.text("x"))
    assert expand(write.expression(), write) == "SET note=x"
    assert (
        expand(write.condition(), write)
        == "attribute_exists(pk) AND expires_at>5 AND status IN (input_required,working)"
    )


def test_a_write_that_does_not_change_the_pause_requires_the_stored_pause_reason() -> None:
    write = update(Batch(steps=(StepWrite(1, "s1", PENDING, COMPLETED, "r"),)), 2)
    assert " AND attribute_not_exists(variables._workflow.pause_reasons)" in expand(write.condition(), write)
    item = task_item(2)
    item["variables"] = {"M": {**item["variables"]["M"], PAUSE_REASONS: {"L": [{"M": {"type": {"S": "x"}}}]}}}
    batch = Batch(steps=(StepWrite(1, "s1", PENDING, COMPLETED, "r"),))
    write = update_of(item, batch)
    assert " AND variables._workflow.pause_reasons=[{'M': {'type': {'S': 'x'}}}]" in expand(write.condition(), write)


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
    write = update(batch, 100, "old")
    assert len(write.expression()) < MAX_EXPRESSION_BYTES
    assert len(write.condition()) < MAX_EXPRESSION_BYTES


def test_an_unchanged_status_is_required_and_not_set() -> None:
    write = update(Batch(steps=(StepWrite(0, "s0", COMPLETED, COMPLETED, 1),)), 1)
    assert "steps[0]" in expand(write.condition(), write)
    assert "steps[0]" not in expand(write.expression(), write)


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


def test_placeholders_are_short_and_differ() -> None:
    placeholders = [base36(number) for number in range(1296)]
    assert len(set(placeholders)) == 1296
    assert max(map(len, placeholders)) == 2
