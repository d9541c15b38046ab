"""What a batch changes in a stored item, and how it is made to fit (docs/storage.md, Sizes)."""

from collections.abc import Callable, Mapping
from typing import Any

from mcp_baton.exceptions import StoreError
from mcp_baton.light_dataclasses import dataclass, replace
from mcp_baton.tasks.dynamodb.attributes import Attribute, Item, encode_variable, item_size, size, text_bytes
from mcp_baton.tasks.dynamodb.items import encode_object, members
from mcp_baton.tasks.dynamodb.offload import Mover
from mcp_baton.tasks.dynamodb.overflow import pointer_in
from mcp_baton.tasks.record import CALL_PREFIX, PAUSE_REASON, PROGRESS, RESULT_PREFIX, StepStatus, oversized_value
from mcp_baton.tasks.store import Batch, ClearPause, SetPause, StepWrite
from mcp_baton.tasks.texts import VALUE_BYTES, to_text

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
        replaceable: Names of the variables whose values may give way when the item is too large: may be moved
            elsewhere, or where that is not possible, be replaced by a note.
        oversized: Names of those that were replaced by a note.
        definition: The task's new definition, where it gets one.
    """

    steps: tuple[StepWrite, ...]
    variables: Mapping[str, Attribute]
    removed: frozenset[str]
    required: Mapping[str, Attribute]
    result: Attribute | None
    replaceable: frozenset[str]
    oversized: tuple[str, ...] = ()
    definition: Attribute | None = None


def plan(stored: Item, batch: Batch, compress_over: int) -> Changes:
    """Encode a batch that is to be written against a stored item.

    Steps are written and guarded one by one, so that writers of different steps never meet. A batch that replaces the
    progress as a whole, or has so many steps that the paths would outgrow an expression (4 KB and 300 operators),
    writes it in one piece and is guarded by the whole of what was read.

    Raises:
        StoreError: a value is not JSON.
    """
    values = {**batch.variables, **{RESULT_PREFIX + step.name: step.result for step in batch.steps}}
    values |= {CALL_PREFIX + step.name: step.call for step in batch.steps if step.call is not None}
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
    definition: Attribute | None = None if batch.definition is None else {"S": batch.definition}
    return Changes(steps, variables, removed, required, result, replaceable, definition=definition)


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
    if changes.definition is not None:
        item["definition"] = changes.definition
    longer_statuses = len(changes.steps) * max(map(len, StepStatus))
    return item_size(item) + longer_statuses + BOOKKEEPING_BYTES


def fitted(stored: Item, changes: Changes, limit: int, mover: Mover) -> Changes:
    """The changes with as many values given way, the largest first, as bring the item under the limit.

    Values that are too long to be read back give way whatever they weigh. When all that is not enough the rest is left
    to DynamoDB, whose own limit is a little higher.
    """
    changes = without_unreadable(changes, mover)
    over = size_after(stored, changes) - limit
    while over > 0:
        smaller = lighter(changes, mover)
        if smaller is None:
            return changes
        over -= weight(changes) - weight(smaller)
        changes = smaller
    return changes


def without_unreadable(changes: Changes, mover: Mover) -> Changes:
    """The changes with every value given way that is longer than a value that is read back (`VALUE_BYTES`)."""
    for name in sorted(changes.replaceable):
        value = changes.variables[name]
        if text_bytes(value) > VALUE_BYTES:
            pointer = mover.move(value)
            changes = noted(changes, name) if pointer is None else with_variable(changes, name, pointer)
    return changes


def lighter(changes: Changes, mover: Mover) -> Changes | None:
    """The changes with the largest value moved, or where nothing can be moved, replaced by a note.

    `None` when that would save nothing.
    """
    if mover.ready:
        smaller = without_largest_moved(changes, mover)
        if smaller is not None or mover.ready:
            return smaller
    return without_largest(changes)


def without_largest_moved(changes: Changes, mover: Mover) -> Changes | None:
    """The changes with a pointer in the place of the largest value; `None` when none can be moved or is worth it."""
    values = {name: changes.variables[name] for name in changes.replaceable}
    largest = max(values, key=by_size(changes), default=None)
    result = changes.result
    if result is not None and pointer_in(result) is None and (largest is None or size(result) > size(values[largest])):
        pointer = mover.move(result)
        return None if pointer is None else replace(changes, result=pointer)
    if largest is None:
        return None
    pointer = mover.move(values[largest])
    if pointer is None:
        return None
    return with_variable(changes, largest, pointer)


def without_largest(changes: Changes) -> Changes | None:
    """The changes with the largest variable replaced by a note; `None` when a note would save nothing."""
    largest = max(changes.replaceable, key=by_size(changes), default=None)
    if largest is None:
        return None
    smaller = noted(changes, largest)
    return smaller if size(smaller.variables[largest]) < size(changes.variables[largest]) else None


def noted(changes: Changes, name: str) -> Changes:
    """The changes with a note in the place of a variable's value, that it was not kept."""
    note = encode_variable(name, oversized_value(text_bytes(changes.variables[name])), 0)
    return replace(with_variable(changes, name, note), oversized=(*changes.oversized, name))


def with_variable(changes: Changes, name: str, value: Attribute) -> Changes:
    """The changes with something small in the place of a variable's value, which does not give way again."""
    return replace(
        changes, variables={**changes.variables, name: value}, replaceable=changes.replaceable.difference({name})
    )


def by_size(changes: Changes) -> Callable[[str], tuple[int, str]]:
    """Order variables by what they take in the item; the name decides between equals, so that runs agree."""
    return lambda name: (size(changes.variables[name]), name)


def weight(changes: Changes) -> int:
    """What the variables to set and the result take in the item, bytes."""
    return sum(map(size, changes.variables.values())) + (size(changes.result) if changes.result is not None else 0)
