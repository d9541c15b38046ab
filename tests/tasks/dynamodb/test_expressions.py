"""The expressions of one write: actions, conditions, their length, and the tokens of writes."""

import re
from collections import Counter

import pytest

from mcp_baton.protocol.json import Json
from mcp_baton.tasks.dynamodb.attributes import Item
from mcp_baton.tasks.dynamodb.expressions import (
    MAX_EXPRESSION_BYTES,
    TOKEN_SET_MS,
    Update,
    first_token,
    old_set_at,
    set_at,
)
from mcp_baton.tasks.dynamodb.heads import MAX_VALUES_MOVED
from mcp_baton.tasks.dynamodb.items import Limits, new_item
from mcp_baton.tasks.dynamodb.table import has_token
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


@pytest.mark.parametrize("minute", range(30))
def test_the_dropped_set_is_fifteen_minutes_old(minute: int) -> None:
    now_ms = minute * TOKEN_SET_MS + 59_999
    assert old_set_at(now_ms) not in {set_at(now_ms - ago * TOKEN_SET_MS) for ago in range(15)}
    assert old_set_at(now_ms) == set_at(now_ms - 15 * TOKEN_SET_MS) == set_at(now_ms + 14 * TOKEN_SET_MS)


@pytest.mark.parametrize("ahead", [-10, -9, -5, -1, 0, 1, 5, 9, 10])
@pytest.mark.parametrize("now_ms", [0, 59_999])
def test_a_clock_that_differs_by_ten_minutes_drops_no_needed_token(now_ms: int, ahead: int) -> None:
    """One clock is five minutes fast, the other five minutes slow. A write's token may be up to a minute old."""
    now_ms += 60 * TOKEN_SET_MS
    first_set, second_set = set_at(now_ms), set_at(now_ms + ahead * TOKEN_SET_MS)
    for later_ms in (-60_000, -30_000, 0, 30_000, 60_000):
        assert old_set_at(now_ms + later_ms + ahead * TOKEN_SET_MS) != first_set
        assert old_set_at(now_ms + later_ms) != second_set


@pytest.mark.parametrize("now_ms", [0, 59_999, 60_000, 179_999])
def test_a_token_is_kept_through_the_next_minute(now_ms: int) -> None:
    """Retries end after 30 seconds."""
    assert all(old_set_at(now_ms + later) != set_at(now_ms) for later in (0, 30_000, 60_000))


@pytest.mark.parametrize("minutes", [1, 2, 5, 10, 13, 15, 20, 29, 30, 58, 60, 61, 120, 1_440])
def test_regular_writes_drop_all_old_sets(minutes: int) -> None:
    token_counts = Counter[str]()
    for write in range(10_000):
        now_ms = write * minutes * 60_000
        token_counts.pop(old_set_at(now_ms), None)
        token_counts[set_at(now_ms)] += 1
    assert token_counts.total() < 1_000


def test_a_token_is_found_in_any_set() -> None:
    for now_ms in (0, TOKEN_SET_MS, 2 * TOKEN_SET_MS):
        item = first_token(now_ms, "aa")
        assert (has_token(item, "aa"), has_token(item, "bb")) == (True, False)
    assert not has_token({}, "aa")
