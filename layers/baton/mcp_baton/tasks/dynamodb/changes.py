"""What a batch changes in a stored item (docs/storage.md, Writers at the same time)."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from mcp_baton.exceptions import StoreError
from mcp_baton.light_dataclasses import dataclass, field
from mcp_baton.tasks.dynamodb.attributes import (
    ELEMENT_BYTES,
    Attribute,
    Item,
    Zips,
    at_most,
    encode_variable,
    item_size,
)
from mcp_baton.tasks.dynamodb.items import TIMINGS, encode_object, members
from mcp_baton.tasks.record import CALL_PREFIX, PAUSE_REASON, PROGRESS, RESULT_PREFIX, StepStatus
from mcp_baton.tasks.store import Batch, ClearPause, SetPause, StepWrite, Timing
from mcp_baton.tasks.texts import to_text, zipped

STEPWISE_LIMIT = 75
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
        replaceable: Names of the variables whose values may be kept outside the item, or where that is not possible
            and the item too large, be replaced by a note.
        oversized: Names of those that were replaced by a note.
        definition: The task's new definition, where it gets one.
        timings: When steps ran, by stored name.
        all_timings: Whether these are all that there are to be; otherwise those of other steps are left alone.
    """

    steps: tuple[StepWrite, ...]
    variables: Mapping[str, Attribute]
    removed: frozenset[str]
    required: Mapping[str, Attribute]
    result: Attribute | None
    replaceable: frozenset[str]
    oversized: tuple[str, ...] = ()
    definition: Attribute | None = None
    timings: Mapping[str, Attribute] = field(default_factory=dict)
    all_timings: bool = False


def plan(stored: Item, batch: Batch, compress_over: int, zips: Zips = zipped) -> Changes:
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
    variables = {name: encode_variable(name, value, compress_over, zips) for name, value in values.items()}
    steps = batch.steps
    before = members(stored, "variables").get(PROGRESS, NO_PROGRESS)
    after = with_statuses(variables.get(PROGRESS, before), steps)
    in_one_piece = PROGRESS in variables or len(steps) > STEPWISE_LIMIT
    if in_one_piece:
        required[PROGRESS] = before
        variables[PROGRESS] = after
        steps = ()
    timings = {to_text(write.name): _timing(write.timing, stored) for write in batch.steps if write.timing}
    all_timings = in_one_piece or TIMINGS not in stored
    if in_one_piece:
        named = {step["M"]["name"]["S"] for step in after["M"]["steps"]["L"]}
        timings = {name: timing for name, timing in {**members(stored, TIMINGS), **timings}.items() if name in named}
    result = None if batch.result is None else encode_object("result", batch.result, compress_over, zips)
    definition: Attribute | None = None if batch.definition is None else {"S": batch.definition}
    return Changes(
        steps,
        variables,
        removed,
        required,
        result,
        replaceable,
        definition=definition,
        timings=timings,
        all_timings=all_timings,
    )


def _timing(timing: Timing, stored: Item) -> Attribute:
    created_ms = round(datetime.fromisoformat(stored["created_at"]["S"]).timestamp() * 1000)
    return {"S": f"{timing.at_ms - created_ms}+{timing.ms}"}


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
    return item_size(item) + _besides(changes)


def excess_after(stored: Item, changes: Changes, limit: int) -> int:
    """By how many bytes `size_after` is above a limit; where it clearly is not, some number that is not above 0."""
    # As JSON, a name is as long as the quoted form in which some are stored.
    added = dict(changes.variables)
    added |= {} if changes.result is None else {"result": changes.result}
    added |= {} if changes.definition is None else {"definition": changes.definition}
    over = at_most(stored) + at_most(added) + _besides(changes) - limit
    return over if over <= 0 else size_after(stored, changes) - limit


def _besides(changes: Changes) -> int:
    """What statuses that grow longer, and what each write notes, add at most, bytes."""
    timings = item_size(changes.timings) + len(changes.timings) * ELEMENT_BYTES
    return len(changes.steps) * max(map(len, StepStatus)) + timings + BOOKKEEPING_BYTES
