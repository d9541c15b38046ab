"""A batch, encoded as changes of a stored item (docs/storage.md, Writers at the same time)."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct, field

from mcp_baton.exceptions import StoreError
from mcp_baton.tasks.dynamodb.attributes import Attribute, Item, Zips, encode_variable, encode_variables
from mcp_baton.tasks.dynamodb.items import ALWAYS_IN_ITEM, TIMINGS, members
from mcp_baton.tasks.dynamodb.values import ELEMENT_BYTES, at_most, is_large, item_size
from mcp_baton.tasks.record import CALL_PREFIX, PAUSE_REASON, PROGRESS, RESULT_PREFIX, StepStatus
from mcp_baton.tasks.store import Batch, ClearPause, SetPause, StepWrite
from mcp_baton.tasks.texts import to_text, zipped
from mcp_baton.tasks.values import FINAL_RESULT

STEPWISE_LIMIT = 75
BOOKKEEPING_BYTES = 64
STATUS_BYTES = max(map(len, StepStatus))
NO_PROGRESS: Attribute = {"M": {"steps": {"L": []}}}


class Changes(Struct, frozen=True):
    """The changes of a batch. Names are stored names, except in `oversized`.

    Attributes:
        steps: Steps whose status is set, and guarded, by its path in the stored progress.
        required: Variables that must still have these values.
        replaceable: Names of the variables that may be stored outside the item, or if that is impossible and the item
            is too large, be replaced by a note.
        oversized: Names of the variables that were replaced by a note.
        all_timings: Whether `timings` replace all stored ones; otherwise timings of other steps stay.
    """

    steps: tuple[StepWrite, ...]
    variables: Mapping[str, Attribute]
    removed: frozenset[str]
    required: Mapping[str, Attribute]
    result: Attribute | None
    replaceable: frozenset[str]
    oversized: tuple[str, ...] = ()
    by_client: bool = False
    definition: Attribute | None = None
    timings: Mapping[str, Attribute] = field(default_factory=dict)
    all_timings: bool = False
    unchanged: Mapping[int, StepStatus] = field(default_factory=dict)
    same_version: bool = False


def plan(item: Item, batch: Batch, compress_over: int, zips: Zips = zipped) -> Changes:
    """Encode a batch as changes of a stored item.

    Steps are written and guarded one by one, so that writers of different steps do not conflict. A batch that replaces
    the progress, or that has too many steps for one expression (4 KB and 300 operators), writes the progress as a whole
    and requires that it is the one that was read.
    """
    values = {
        **batch.variables,
        **{RESULT_PREFIX + step.name: step.result for step in batch.steps if step.status is not StepStatus.SKIPPED},
    }
    values |= {CALL_PREFIX + step.name: step.call for step in batch.steps if step.call is not None}
    required: dict[str, Attribute] = {}
    removed = batch.removed.difference(values)
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
    if batch.result is not None:
        values[FINAL_RESULT] = batch.result
    variables = encode_variables(values, compress_over, zips)
    result = variables.pop(FINAL_RESULT, None)
    replaceable = frozenset(variables) - ALWAYS_IN_ITEM
    steps, timings = batch.steps, _timings(batch.steps, item)
    old_progress = members(item, "variables").get(PROGRESS, NO_PROGRESS)
    progress = variables.get(PROGRESS, old_progress)
    for step in steps:
        if step.index >= len(progress["M"]["steps"]["L"]):
            raise StoreError(f"the task's progress has no step {step.index} ({step.name!r})")
    replaces_progress = PROGRESS in variables or len(steps) > STEPWISE_LIMIT
    all_timings = replaces_progress or TIMINGS not in item
    if replaces_progress:
        required[PROGRESS] = old_progress
        variables[PROGRESS] = new_progress = with_statuses(progress, steps)
        steps = ()
        names = {step["M"]["name"]["S"] for step in new_progress["M"]["steps"]["L"]}
        timings = {name: timing for name, timing in {**members(item, TIMINGS), **timings}.items() if name in names}
    definition: Attribute | None = None if batch.definition is None else {"S": batch.definition}
    return Changes(
        steps,
        variables,
        frozenset(map(to_text, removed)),
        required,
        result,
        replaceable,
        by_client=batch.by_client,
        definition=definition,
        timings=timings,
        all_timings=all_timings,
        unchanged={} if replaces_progress else batch.unchanged,
        same_version=batch.same_version,
    )


def _timings(writes: tuple[StepWrite, ...], item: Item) -> dict[str, Attribute]:
    timings = [(write.name, write.timing) for write in writes if write.timing]
    if not timings:
        return {}
    created_ms = round(datetime.fromisoformat(item["created_at"]["S"]).timestamp() * 1000)
    return {to_text(name): {"S": f"{timing.at_ms - created_ms}+{timing.ms}"} for name, timing in timings}


def with_statuses(progress: Attribute, writes: tuple[StepWrite, ...]) -> Attribute:
    """A stored progress with the statuses of these steps."""
    fields: dict[str, Any] = dict(progress["M"])
    steps = [dict(step["M"]) for step in fields["steps"]["L"]]
    for write in writes:
        steps[write.index]["status"] = {"S": write.status}
    return {"M": {**fields, "steps": {"L": [{"M": step} for step in steps]}}}


def fits(item: Item, changes: Changes, limit: int) -> bool:
    """Whether no value has to leave the item: none is large, and the item stays within a limit, bytes."""
    values = [changes.variables[name] for name in changes.replaceable]
    if changes.result is not None:
        values.append(changes.result)
    return not any(map(is_large, values)) and excess_after(item, changes, limit) <= 0


def size_after(item: Item, changes: Changes) -> int:
    """An upper bound of the item's size after the write, bytes, unless another write comes first."""
    variables = {name: value for name, value in members(item, "variables").items() if name not in changes.removed}
    variables |= changes.variables
    new_item: Item = {**item, "variables": {"M": variables}, **_added_attributes(changes)}
    return item_size(new_item) + item_size(changes.timings) + _overhead_bytes(changes)


def excess_after(item: Item, changes: Changes, limit: int) -> int:
    """By how many bytes `size_after` exceeds a limit. If it clearly does not, any number up to 0."""
    surplus = (
        at_most(item, changes.variables, changes.timings, _added_attributes(changes)) + _overhead_bytes(changes) - limit
    )
    return surplus if surplus <= 0 else size_after(item, changes) - limit


def _added_attributes(changes: Changes) -> Item:
    """The attributes that are written, besides the variables and the timings."""
    added: Item = {} if changes.result is None else {"result": changes.result}
    return added if changes.definition is None else {**added, "definition": changes.definition}


def _overhead_bytes(changes: Changes) -> int:
    """An upper bound of what longer statuses and the bookkeeping of each write add, bytes."""
    return len(changes.steps) * STATUS_BYTES + len(changes.timings) * ELEMENT_BYTES + BOOKKEEPING_BYTES
