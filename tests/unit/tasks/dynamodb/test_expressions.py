"""The expressions of one write: actions, conditions and their length."""

import re

import pytest

from mcp_baton.protocol.json import Json
from mcp_baton.tasks.dynamodb.attributes import Item
from mcp_baton.tasks.dynamodb.changes import plan
from mcp_baton.tasks.dynamodb.expressions import EXPRESSION_BYTES, Update, base36, guarded_update, write_update
from mcp_baton.tasks.dynamodb.items import Limits, new_item
from mcp_baton.tasks.record import PAUSE_REASON, PROGRESS, NewTask, StepStatus
from mcp_baton.tasks.store import Batch, SetPause, StepWrite, Timing

PENDING, COMPLETED, FAILED = StepStatus.PENDING, StepStatus.COMPLETED, StepStatus.FAILED
TOKEN = "0123456789abcdef"
STORED = bytes.fromhex(TOKEN)


def stored(steps: int, definition: str | None = None) -> Item:
    listed: list[Json] = [{"name": f"s{index}", "status": "pending"} for index in range(steps)]
    progress: Json = {"goal": "flow", "steps": listed, "schemaVersion": 1}
    return new_item(NewTask("owner", {PROGRESS: progress}, definition=definition), "0" * 34, 0, Limits())


def update(batch: Batch, steps: int, definition: str | None = None) -> Update:
    item = stored(steps, definition)
    return write_update(item, plan(item, batch, 8192), 5_000, TOKEN)


def spelled(text: str, of: Update) -> str:
    """Replace the placeholders in an expression by names and values."""
    values = {place: next(iter(value.values())) for place, value in of.values.items()}
    return re.sub(r"[#:]\w+", lambda match: str({**of.names, **values}[match[0]]), text)


def test_a_write_that_is_sent_once_has_no_token() -> None:
    made = guarded_update(5_000, None)
    made.set(made.name("note"), made.text("x"))
    assert spelled(made.expression(), made) == "SET note=x"
    assert (
        spelled(made.condition(), made)
        == "attribute_exists(pk) AND expires_at>5 AND status IN (input_required,working)"
    )


def test_a_write_that_does_not_change_the_pause_requires_the_stored_pause_reason() -> None:
    unpaused = update(Batch(steps=(StepWrite(1, "s1", PENDING, COMPLETED, "r"),)), 2)
    assert " AND attribute_not_exists(variables._workflow.pause_reason)" in spelled(unpaused.condition(), unpaused)
    item = stored(2)
    item["variables"] = {"M": {**item["variables"]["M"], PAUSE_REASON: {"M": {"type": {"S": "x"}}}}}
    batch = Batch(steps=(StepWrite(1, "s1", PENDING, COMPLETED, "r"),))
    paused = write_update(item, plan(item, batch, 8192), 5_000, TOKEN)
    assert " AND variables._workflow.pause_reason={'type': {'S': 'x'}}" in spelled(paused.condition(), paused)


def test_the_largest_change_of_definition_fits_one_expression() -> None:
    names = [f"step {index}" for index in range(100)]
    progress: Json = {"goal": "g", "steps": [{"name": name, "status": "pending"} for name in names]}
    batch = Batch(
        steps=tuple(StepWrite(index, name, PENDING, COMPLETED, index) for index, name in enumerate(names)),
        pause=SetPause({"type": "x"}),
        variables={PROGRESS: progress, **{f"v{index}": index for index in range(50)}},
        removed=frozenset(f"_workflow.result.s{index}" for index in range(100)),
        definition="new",
    )
    made = update(batch, 100, "old")
    assert len(made.expression()) < EXPRESSION_BYTES
    assert len(made.condition()) < EXPRESSION_BYTES


def test_an_unchanged_status_is_required_and_not_set() -> None:
    made = update(Batch(steps=(StepWrite(0, "s0", COMPLETED, COMPLETED, 1),)), 1)
    assert "steps[0]" in spelled(made.condition(), made)
    assert "steps[0]" not in spelled(made.expression(), made)


@pytest.mark.parametrize("steps", [60, 75, 76, 100, 200])
def test_both_expressions_fit_with_long_names(steps: int) -> None:
    batch = Batch(
        steps=tuple(
            StepWrite(i, f"{i:0200}", PENDING, [COMPLETED, FAILED][i % 2], {}, timing=Timing(i, i))
            for i in range(steps)
        ),
        variables={f"{'v' * 200}{index}": index for index in range(50)},
        removed=frozenset({"gone"}),
        pause=SetPause({"type": "x"}),
        result={"completed": True},
    )
    item: Item = {**stored(steps), "timings": {"M": {}}}
    made = write_update(item, plan(item, batch, 8192), 5_000, TOKEN)
    assert len(made.expression()) <= EXPRESSION_BYTES
    assert len(made.condition()) <= EXPRESSION_BYTES
    assert operators(made.condition()) <= 300
    assert operators(made.expression()) <= 300


def operators(expression: str) -> int:
    """Count the operators and functions that DynamoDB limits to 300. The `=` of a `SET` does not count."""
    if expression.startswith("SET"):
        return expression.count("+")
    return len(re.findall(r"AND|=|>| IN |attribute_exists|NOT|contains", expression))


def test_placeholders_are_short_and_differ() -> None:
    placeholders = [base36(number) for number in range(1296)]
    assert len(set(placeholders)) == 1296
    assert max(map(len, placeholders)) == 2
