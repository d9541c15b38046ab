"""What a batch changes in a stored item, and how it is made to fit (contract section 7: item limit 400 KB)."""

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from mcp_baton.exceptions import StoreError
from mcp_baton.tasks.attributes import Attribute, Item, encode_variable, item_size, size, to_text
from mcp_baton.tasks.items import encode_object, members
from mcp_baton.tasks.record import PAUSE_REASON, PROGRESS, RESULT_PREFIX, StepStatus
from mcp_baton.tasks.store import Batch, ClearPause, SetPause, StepWrite

STEPWISE_LIMIT = 100
BOOKKEEPING_BYTES = 64
NO_PROGRESS: Attribute = {"M": {"steps": {"L": []}}}


@dataclass(frozen=True, slots=True)
class Changes:
    """A batch, encoded.

    Attributes:
        steps: Steps whose status is addressed by its path in the stored progress, and guarded there.
        variables: Variables to set, by name.
        removed: Names of variables to remove.
        required: Variables that must still have these values.
        result: The task's final result; with one the task becomes `completed`.
        replaceable: Names of the variables whose values may give way when the item is too large.
        oversized: Names of those that did.
    """

    steps: tuple[StepWrite, ...]
    variables: Mapping[str, Attribute]
    removed: frozenset[str]
    required: Mapping[str, Attribute]
    result: Attribute | None
    replaceable: frozenset[str]
    oversized: tuple[str, ...] = ()


def plan(stored: Item, batch: Batch, compress_over: int) -> Changes:
    """Encode a batch that is to be written against a stored item.

    Steps are written and guarded one by one, so that writers of different steps never meet. A batch that replaces the
    progress as a whole, or has so many steps that the paths would outgrow an expression (4 KB and 300 operators),
    writes it in one piece and is guarded by the whole of what was read.

    Raises:
        StoreError: a value is not JSON.
    """
    values = {**batch.variables, **{RESULT_PREFIX + step.name: step.result for step in batch.steps}}
    required: dict[str, Attribute] = {}
    removed = batch.removed.difference(values)
    replaceable = frozenset(values) - {PROGRESS, PAUSE_REASON}
    match batch.pause:
        case SetPause(reason):
            values[PAUSE_REASON] = reason
            removed -= {PAUSE_REASON}
        case ClearPause(expected):
            values.pop(PAUSE_REASON, None)
            required[PAUSE_REASON] = encode_variable(PAUSE_REASON, expected, compress_over)
            removed |= {PAUSE_REASON}
        case None:
            pass
    variables = {name: encode_variable(name, value, compress_over) for name, value in values.items()}
    steps = batch.steps
    before = members(stored, "variables").get(PROGRESS, NO_PROGRESS)
    after = with_statuses(variables.get(PROGRESS, before), steps)
    if PROGRESS in variables or len(steps) > STEPWISE_LIMIT:
        required[PROGRESS] = before
        variables[PROGRESS] = after
        steps = ()
    result = None if batch.result is None else encode_object("result", batch.result, compress_over)
    return Changes(steps, variables, removed, required, result, replaceable)


def with_statuses(progress: Attribute, writes: tuple[StepWrite, ...]) -> Attribute:
    """A stored progress with these steps' statuses.

    Raises:
        StoreError: it has no such step.
    """
    fields: dict[str, Any] = dict(progress["M"])
    steps = [dict(step["M"]) for step in fields["steps"]["L"]]
    for write in writes:
        if write.index >= len(steps):
            raise StoreError(f"the task's progress has no step {write.index} ({write.name!r})")
        steps[write.index]["status"] = {"S": write.status}
    return {"M": {**fields, "steps": {"L": [{"M": step} for step in steps]}}}


def size_after(stored: Item, changes: Changes) -> int:
    """The bytes that the item will have, at most, when nobody else writes meanwhile."""
    gone = {to_text(name) for name in changes.removed}
    variables = {name: value for name, value in members(stored, "variables").items() if name not in gone}
    variables |= {to_text(name): value for name, value in changes.variables.items()}
    item: Item = {**stored, "variables": {"M": variables}}
    if changes.result is not None:
        item["result"] = changes.result
    longer_statuses = len(changes.steps) * max(map(len, StepStatus))
    return item_size(item) + longer_statuses + BOOKKEEPING_BYTES


def fitted(stored: Item, changes: Changes, limit: int) -> Changes:
    """The changes with as many values replaced, the largest first, as bring the item under the limit.

    When that is not enough the rest is left to DynamoDB, whose own limit is a little higher.
    """
    over = size_after(stored, changes) - limit
    while over > 0:
        smaller = without_largest(changes)
        if smaller is None:
            return changes
        over -= weight(changes) - weight(smaller)
        changes = smaller
    return changes


def without_largest(changes: Changes) -> Changes | None:
    """The changes with the largest value replaced by a note; `None` when a note would save nothing."""
    largest = max(changes.replaceable, key=by_size(changes), default=None)
    if largest is None:
        return None
    value = changes.variables[largest]
    note = encode_variable(largest, {"error": f"result of {text_bytes(value)} bytes exceeds the task's size limit"}, 0)
    if size(note) >= size(value):
        return None
    return replace(
        changes,
        variables={**changes.variables, largest: note},
        replaceable=changes.replaceable - {largest},
        oversized=(*changes.oversized, largest),
    )


def by_size(changes: Changes) -> Callable[[str], tuple[int, str]]:
    """Order variables by what they take in the item; the name decides between equals, so that runs agree."""
    return lambda name: (size(changes.variables[name]), name)


def weight(changes: Changes) -> int:
    """What the variables to set take in the item, bytes."""
    return sum(size(value) for value in changes.variables.values())


def text_bytes(value: Attribute) -> int:
    """The length of the JSON text behind an encoded value, bytes."""
    match value:
        case {"B": bytes() as compressed}:
            return len(zlib.decompress(compressed))
        case _:
            return size(value)
