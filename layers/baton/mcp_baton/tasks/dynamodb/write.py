"""One write of a task's head: what it sets, what must still be true, how large the head becomes, and which values leave
it (docs/storage.md, Sizes).

DynamoDB charges every write for the whole head. So the head is bounded: large values are stored outside it, and if it
would still become too large, the largest others as well, new ones and stored ones.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, Final, Protocol

from msgspec.structs import replace

from mcp_baton.exceptions import StoreError
from mcp_baton.tasks.dynamodb.attributes import (
    Attribute,
    Item,
    encode_variable,
    encode_variables,
    not_kept,
    text_bytes,
)
from mcp_baton.tasks.dynamodb.expressions import (
    AttributePath,
    Update,
    enter_outbox,
    finish_update,
    live_update,
    note_named,
    renew_claim,
    set_message,
)
from mcp_baton.tasks.dynamodb.items import (
    ALWAYS_IN_ITEM,
    KEPT_UNTIL,
    LARGE_MAPS,
    MARGIN_S,
    NO_PROGRESS,
    TIMINGS,
    WAKES,
    WORK,
    Limits,
    Path,
    head_bytes,
    members,
    value_at,
)
from mcp_baton.tasks.dynamodb.lists import ListRecord, record_in
from mcp_baton.tasks.dynamodb.values import ELEMENT_BYTES, is_large, is_value, is_within, item_size, size
from mcp_baton.tasks.keys import made_once
from mcp_baton.tasks.record import (
    CALL_PREFIX,
    ELEMENTS_PREFIX,
    FIRST_DISPATCH_MS,
    ITEMS_PREFIX,
    PAUSE_REASONS,
    PROGRESS,
    RESULT_PREFIX,
    StepStatus,
    TaskStatus,
    paused_step,
)
from mcp_baton.tasks.store import Batch, ListResult, StepWrite
from mcp_baton.tasks.texts import MAX_STORED_BYTES, MAX_VALUE_BYTES, ZipWithin, from_text, to_text
from mcp_baton.tasks.values import FINAL_RESULT, elements_digest

type MoveValues = Callable[[Mapping[Path, Attribute]], Mapping[Path, Attribute]]
"""Writes values outside the head, and returns the pointers of those that could be written (`outside.Mover`)."""


class ValueMover(Protocol):
    """Writes values and results of lists outside the head: `outside.Mover`."""

    def move(self, values: Mapping[Path, Attribute]) -> Mapping[Path, Attribute]: ...

    def add_chunk(self, record: ListRecord) -> ListRecord: ...


MAX_STEPS_WRITTEN: Final = 50
"""A write of more steps and reasons replaces the whole progress: an expression has at most 4 KB and 300 operators."""

MAX_VALUES_MOVED: Final = 30
"""The most stored values that one write moves out of the head, for the same reason."""

MAX_INLINE_BYTES: Final = 1_536
"""The most bytes of small values in a head. If they would take more, all leave it together, with one request."""

MIN_MOVED_BYTES: Final = 100
"""The smallest value that is moved, bytes: a pointer is not much smaller."""

RESULT_ROOM_BYTES: Final = 1_024
"""The room for a client's result that is written without reading the head."""

POINTER_BYTES: Final = 40
"""About the size of a pointer, bytes."""

BOOKKEEPING_BYTES: Final = 64
"""The most bytes that each write adds to the head besides its values: a token, and longer numbers."""

STATUS_BYTES: Final = max(map(len, StepStatus))

EXCEEDS: Final = f"exceeds the task's size limit, {MAX_VALUE_BYTES} bytes; its tool should return less, or a link"
EXCEEDS_STORED: Final = (
    f"exceeds the task's size limit, {MAX_STORED_BYTES} bytes when compressed; its tool should return less, or a link"
)
NOT_WRITTEN: Final = "could not be written outside the task's item"


class Write:
    """The write of a batch to a task. Names of variables are stored names, except in `oversized`.

    Steps are written and guarded one by one, so that writers of different steps do not conflict. A batch that replaces
    the progress, or that has too many steps for one expression, writes the progress as a whole and requires that it is
    the one that was read.

    Attributes:
        variables: The variables that it sets.
        result: The final result that it sets.
        moved: The pointers of stored values that it moves out of the head. They must be the ones that were read.
        lists: The results of lists' elements, by step.
        oversized: The names of the variables that were not stored.
        kept_until_s: Until when the values that it moves are kept, epoch seconds; `None` if it moves none.
    """

    def __init__(self, item: Item, batch: Batch, limits: Limits, monotonic: Callable[[], float]) -> None:
        self.item, self.batch, self._limits = item, batch, limits
        self.moved: dict[Path, Attribute] = {}
        self.oversized: tuple[str, ...] = ()
        self.kept_until_s: int | None = None
        self._required: dict[str, Attribute] = {}
        self._removed = batch.removed
        values = self._values()
        zip_within = made_once(partial(ZipWithin, limits.zip_ms / 1000, monotonic))

        def zips(text: bytes) -> bytes:
            return zip_within()(text)  # made at first use, because few writes compress anything

        self.variables = encode_variables(values, limits.compress_over_bytes, zips)
        self.result = self.variables.pop(FINAL_RESULT, None)
        self._removed = frozenset(map(to_text, self._removed.difference(values)))
        self._too_long: dict[str, int] = {}
        self.lists = self._records()
        self._set_lists()
        self._steps, self._timings = batch.steps, self._encoded_timings()
        # One by one, writers of different steps do not conflict. As a whole, the write has no limit of steps.
        count = len(batch.steps) + len(batch.pauses or ())
        self._replaces_progress = PROGRESS in self.variables or count > MAX_STEPS_WRITTEN
        self._sets_all_timings = self._replaces_progress or TIMINGS not in item
        self._set_progress()

    def _values(self) -> dict[str, Any]:
        """The variables that the batch sets, and the final result. Notes what it removes and requires."""
        batch = self.batch
        # A completed list becomes its step's result in `_set_lists`, when its record is known.
        results = {
            RESULT_PREFIX + step.name: step.result
            for step in batch.steps
            if step.status is not StepStatus.SKIPPED and not isinstance(step.result, ListResult)
        }
        elements = {
            ELEMENTS_PREFIX + step: list(write.elements)
            for step, write in batch.lists.items()
            if write.elements is not None and ELEMENTS_PREFIX + step not in batch.removed
        }
        calls = {CALL_PREFIX + step.name: step.call for step in batch.steps if step.call is not None}
        values: dict[str, Any] = {**batch.variables, **elements, **results, **calls}
        if batch.pauses:
            values[PAUSE_REASONS] = list(batch.pauses)
        elif batch.pauses is not None and PAUSE_REASONS in members(self.item, "variables"):
            self._removed |= {PAUSE_REASONS}
        return values if batch.result is None else {**values, FINAL_RESULT: batch.result}

    def _records(self) -> dict[str, ListRecord]:
        """The lists after the write, by step."""
        stored, records = members(self.item, "variables"), dict[str, ListRecord]()
        for step, write in self.batch.lists.items():
            attribute = stored.get(to_text(ITEMS_PREFIX + step))
            record = (record_in(attribute) if attribute else None) or ListRecord.new(write.total)
            if write.elements is not None:
                record = replace(record, total=write.total, digest=elements_digest(list(write.elements)))
            record = record.without(write.dropped).including(write.results)
            if record.text_bytes > MAX_VALUE_BYTES:  # it could not be read as a whole
                self._too_long[step] = record.text_bytes
            else:
                records[step] = record
        return records

    def _set_lists(self) -> None:
        """Set the variables of the lists. A completed list becomes the result of its step."""
        completed = {step.name for step in self.batch.steps if isinstance(step.result, ListResult)}
        for step, length in self._too_long.items():
            name = (RESULT_PREFIX if step in completed else ITEMS_PREFIX) + step
            self.variables[to_text(name)] = not_kept(length, EXCEEDS)
            self.oversized = tuple({**dict.fromkeys(self.oversized), name: None})
        for step, record in self.lists.items():
            name = to_text((RESULT_PREFIX if step in completed else ITEMS_PREFIX) + step)
            if step in completed and not record.chunks and not record.is_full:
                self.variables[name] = encode_variable(name, record.in_order(()), self._limits.compress_over_bytes)
            else:
                self.variables[name] = record.attribute()

    def _encoded_timings(self) -> dict[str, Attribute]:
        timings = [(write.name, write.timing) for write in self.batch.steps if write.timing]
        if not timings:
            return {}
        created_ms = round(datetime.fromisoformat(self.item["created_at"]["S"]).timestamp() * 1000)
        return {to_text(name): {"S": f"{timing.at_ms - created_ms}+{timing.ms}"} for name, timing in timings}

    def _set_progress(self) -> None:
        stored = members(self.item, "variables").get(PROGRESS, NO_PROGRESS)
        progress = self.variables.get(PROGRESS, stored)
        for step in self._steps:
            if step.index >= len(progress["M"]["steps"]["L"]):
                raise StoreError(f"the task's progress has no step {step.index} ({step.name!r})")
        if self._replaces_progress:
            self._required[PROGRESS] = stored
            self.variables[PROGRESS] = new_progress = with_statuses(progress, self._steps)
            self._steps = ()
            names = {step["M"]["name"]["S"] for step in new_progress["M"]["steps"]["L"]}
            timings = {**members(self.item, TIMINGS), **self._timings}
            self._timings = {name: timing for name, timing in timings.items() if name in names}

    # Sizes

    def fit(self, outside: ValueMover) -> None:
        """Let values leave the head, so that it stays within its bound.

        A value that cannot be written outside stays in the head. If the head would then exceed what DynamoDB takes,
        notes replace the largest values.
        """
        # A list writes its new results once, outside: in the head, each later write would be charged for them again.
        for step, record in self.lists.items():
            if record.is_full:
                self.lists[step] = outside.add_chunk(record)
        self._set_lists()
        # These cannot be stored anywhere, so they need no room outside.
        for name in [path[-1] for path, value in self.new_values.items() if exceeds_limits(value)]:
            if name in self.variables:
                self.leave_out(name)
        # Stored values leave, too: a head can be full of values that were small enough one by one.
        new, stored = self.new_values, self.stored_values
        if paths := paths_to_move(new, stored, self.excess(), is_last=self.result is not None):
            self.place(outside.move({path: (new | stored)[path] for path in paths}))
        self._move_lists(outside)
        # Only if values could not be moved. The statuses of steps are worth more than a value.
        while self.excess(self._limits.item_bytes) > 0 and self.leave_out_largest():
            pass

    def _move_lists(self, outside: ValueMover) -> None:
        """Make chunks of the results in lists' records, the longest first, while the head exceeds its bound."""
        values = {**self.stored_values, **self.new_values}
        records = [(path, record) for path, value in values.items() if (record := record_in(value))]
        for path, record in sorted(records, key=lambda each: -each[1].inline_bytes):
            if self.excess() <= 0 or record.inline_bytes < MIN_MOVED_BYTES:
                break
            self.place({path: outside.add_chunk(record).attribute()})

    @property
    def fits(self) -> bool:
        """Whether no value has to leave the head."""
        new = self.new_values
        if any(record.is_full for record in self.lists.values()):
            return False
        if any(is_large(value) and is_value(value) for value in new.values()):
            return False
        head = self.head()
        if not is_within(head, self._room(head)):
            return False
        return self.result is not None or inline_bytes({**self.stored_values, **new}) <= MAX_INLINE_BYTES

    def head(self) -> Item:
        """The head after the write, unless another write comes first, without the bookkeeping."""
        stored = members(self.item, "variables")
        variables = {name: value for name, value in stored.items() if name not in self._removed}
        head: Item = dict(self.item)
        for path, pointer in self.moved.items():
            match path:
                case ("variables", name):
                    variables[name] = pointer
                case (map_name, name):
                    head[map_name] = {"M": {**members(head, map_name), name: pointer}}
                case (name,):
                    head[name] = pointer
        head["variables"] = {"M": {**variables, **self.variables}}
        if self._timings:
            head[TIMINGS] = {"M": {**({} if self._sets_all_timings else members(self.item, TIMINGS)), **self._timings}}
        if self.result is not None:
            head["result"] = self.result
        if self.batch.definition is not None:
            head["definition"] = {"S": self.batch.definition}
        if self.batch.message is not None:
            head["status_message"] = {"S": self.batch.message}
        return head

    def excess(self, bound: int | None = None) -> int:
        """By how many bytes the head after the write exceeds its bound, or another one."""
        head = self.head()
        return item_size(head) - self._room(head, bound)

    def _room(self, head: Item, bound: int | None = None) -> int:
        """The bytes that the head may have without the bookkeeping."""
        if bound is None:
            bound = head_bytes(head, self._limits.head_bytes) - RESULT_ROOM_BYTES
        return bound - len(self._steps) * STATUS_BYTES - len(self._timings) * ELEMENT_BYTES - BOOKKEEPING_BYTES

    @property
    def new_values(self) -> dict[Path, Attribute]:
        """The values of this write that may leave the head."""
        values: dict[Path, Attribute] = {} if self.result is None else {("result",): self.result}
        variables = self.variables.items()
        return values | {("variables", name): value for name, value in variables if name not in ALWAYS_IN_ITEM}

    @property
    def stored_values(self) -> dict[Path, Attribute]:
        """The stored values that may leave the head, without those that this write replaces or removes."""
        gone = self.variables.keys() | self._removed
        stored = values_in(self.item).items()
        values = {path: value for path, value in stored if path[0] != "variables" or path[-1] not in gone}
        return {path: value for path, value in values.items() if path not in self.moved}

    def place(self, pointers: Mapping[Path, Attribute]) -> None:
        """Replace values by their pointers."""
        for path, pointer in pointers.items():
            if path == ("result",) and self.result is not None:
                self.result = pointer
            elif path[0] == "variables" and path[-1] in self.variables:
                self.variables[path[-1]] = pointer
            else:
                self.moved[path] = pointer

    def leave_out(self, name: str) -> None:
        """Replace the value of a variable by a note that says why it is not stored."""
        value = self.variables[name]
        length = text_bytes(value)
        cause = NOT_WRITTEN
        if length > MAX_VALUE_BYTES:
            cause = EXCEEDS
        elif exceeds_limits(value):
            cause = EXCEEDS_STORED
        self.variables[name] = not_kept(length, cause)
        self.oversized = (*self.oversized, from_text(name))

    def shrink(self, move: MoveValues) -> bool:
        """Make the head smaller, because another write has made it larger than DynamoDB takes. Returns whether this was
        possible."""
        before = self.excess(0)
        self.place(move({path: value for path, value in self.new_values.items() if can_move(value)}))
        return self.excess(0) < before or self.leave_out_largest()

    def leave_out_largest(self) -> bool:
        """Leave out the largest variable. Returns whether this makes the head smaller."""
        names = [name for name, value in self.variables.items() if name not in ALWAYS_IN_ITEM and is_value(value)]
        largest = max(names, key=lambda name: (size(self.variables[name]), name), default=None)
        if largest is None:
            return False
        before = size(self.variables[largest])
        if size(not_kept(text_bytes(self.variables[largest]), NOT_WRITTEN)) >= before:
            return False
        self.leave_out(largest)
        return True

    # The request

    def update(self, task_id: str, now_ms: int, token: tuple[str, int]) -> Update:
        """The request, with all conditions on which the write was decided."""
        batch = self.batch
        update = (
            live_update(now_ms, token[0])
            if self.result is None
            else finish_update(now_ms, token[0], TaskStatus.COMPLETED, self.result, by_client=batch.by_client)
        )
        # A repeated attempt has the time of its token: it is looked for in the set of that time.
        update.now_ms = token[1]
        self._write_steps(update)
        # The places of the steps were read from the progress of this definition.
        as_read = [*(["definition"] if self.variables else []), *(["version"] if batch.same_version else [])]
        for name in self.item.keys() & as_read:
            update.require(name, "=", self.item[name])
        if batch.definition is not None:
            update.set("definition", batch.definition)
        for name, attribute in self._required.items():
            update.require(("variables", name), "=", attribute)
        for name, attribute in self.variables.items():
            update.set(("variables", name), attribute)
        self._write_timings(update)
        update.remove(*(("variables", name) for name in sorted(self._removed)))
        if PAUSE_REASONS in self.variables and PROGRESS not in self.variables:
            # Otherwise a step that a continuation completes meanwhile would be the cause of a pause.
            self._require_stopped_steps(update)
        if batch.steps or batch.pauses is not None:
            self._require_same_pauses(update)
        self._write_moved(update)
        self._write_notes(update, task_id, now_ms)
        return update

    def _write_steps(self, update: Update) -> None:
        for step in self._steps:
            status = _status_path(step.index)
            update.require(status, "=", step.expected)
            if step.status != step.expected:
                update.set(status, step.status)
        for index, old in ({} if self._replaces_progress else self.batch.unchanged).items():
            update.require(_status_path(index), "=", old)

    def _write_timings(self, update: Update) -> None:
        if self._timings and self._sets_all_timings:
            update.set(TIMINGS, {"M": dict(self._timings)})
            return
        for name, attribute in self._timings.items():
            update.set((TIMINGS, name), attribute)

    def _require_stopped_steps(self, update: Update) -> None:
        """Require that the steps of the new pause reasons still have the statuses that were read."""
        names = {str(paused_step(reason)) for reason in self.batch.pauses or ()}
        indexes = {step.index for step in self._steps}
        progress = members(self.item, "variables").get(PROGRESS, NO_PROGRESS)
        for index, step in enumerate(progress["M"]["steps"]["L"]):
            if from_text(step["M"]["name"]["S"]) in names and index not in indexes:
                update.require(_status_path(index), "=", step["M"]["status"]["S"])

    def _require_same_pauses(self, update: Update) -> None:
        """Require that no other writer has changed the pause reasons: each changes those of its own steps only."""
        path, pauses = ("variables", PAUSE_REASONS), members(self.item, "variables").get(PAUSE_REASONS)
        if pauses is None:
            update.require_missing(path)
        else:
            update.require(path, "=", pauses)

    def _write_moved(self, update: Update) -> None:
        """Replace stored values by pointers, if they are still the ones that were read, and note how long values are
        kept."""
        for path, pointer in self.moved.items():
            update.require(path, "=", value_at(self.item, path))
            update.set(path, pointer)
        if self.kept_until_s is not None:
            note_kept(update, self.kept_until_s)

    def _write_notes(self, update: Update, task_id: str, now_ms: int) -> None:
        batch = self.batch
        if batch.message is not None:
            set_message(update, batch.message)
        if batch.named:
            note_named(update)
        if batch.wakes:
            update.set(WAKES, " ".join(batch.wakes))
            enter_outbox(update, task_id, now_ms + FIRST_DISPATCH_MS)
        if batch.claim is not None:
            renew_claim(update, batch.claim, release=batch.release)


def _status_path(index: int) -> AttributePath:
    return ("variables", PROGRESS, "steps", index, "status")


def note_kept(update: Update, until_s: int) -> None:
    """Let a write of pointers note until when their values are kept, epoch seconds."""
    # A longer life of the task needs values that are kept longer than these.
    update.require_any(update.missing(KEPT_UNTIL), update.compared(KEPT_UNTIL, "<=", until_s))
    update.require("expires_at", "<=", until_s - MARGIN_S)
    update.set_expression(KEPT_UNTIL, f"if_not_exists({update.path(KEPT_UNTIL)},{update.value(until_s)})")


def fit_new(item: Item, limits: Limits, move: MoveValues) -> Item:
    """The head of a new task after values have left it, so that it stays within its bound."""
    values = values_in(item)
    excess = item_size(item) - head_bytes(item, limits.head_bytes) + RESULT_ROOM_BYTES
    pointers = move({path: values[path] for path in paths_to_move(values, {}, excess)})
    variables = {path[1]: pointer for path, pointer in pointers.items() if len(path) > 1}
    attributes = {path[0]: pointer for path, pointer in pointers.items() if len(path) == 1}
    return {**item, **attributes, "variables": {"M": {**item["variables"]["M"], **variables}}}


def fits_new(item: Item, limits: Limits) -> bool:
    """Whether no value has to leave the head of a new task."""
    bound = head_bytes(item, limits.head_bytes) - RESULT_ROOM_BYTES
    values = values_in(item)
    return (
        not any(map(is_large, values.values())) and is_within(item, bound) and inline_bytes(values) <= MAX_INLINE_BYTES
    )


def paths_to_move(
    new: Mapping[Path, Attribute], stored: Mapping[Path, Attribute], excess: int, *, is_last: bool = False
) -> list[Path]:
    """The values that leave a head: the large ones of a write. The others leave it, too, if they would take more than
    `MAX_INLINE_BYTES`, or if the head would still exceed its bound (by `excess` bytes if nothing is moved).

    The last write of a task moves them only for the bound: no later write is charged for them.
    """
    sizes = {path: size(value) for path, value in {**stored, **new}.items() if can_move(value)}
    large = [path for path in new if path in sizes and is_large(new[path])]
    others = sorted(sizes.keys() - large, key=lambda path: (-sizes[path], path))
    excess -= sum(sizes[path] - POINTER_BYTES for path in large)
    if excess <= 0 and (is_last or sum(sizes[path] for path in others) <= MAX_INLINE_BYTES):
        return large
    worthwhile = [path for path in others if sizes[path] >= MIN_MOVED_BYTES]
    old = [path for path in worthwhile if path not in new][:MAX_VALUES_MOVED]
    return [*large, *old, *(path for path in worthwhile if path in new)]


def inline_bytes(values: Mapping[Path, Attribute]) -> int:
    """The bytes of the values that are in the head and can leave it."""
    return sum(size(value) for value in values.values() if can_move(value))


def can_move(value: Attribute) -> bool:
    """Whether a value can be moved: this makes the head smaller, it is not outside yet, and it can be read back."""
    return size(value) > POINTER_BYTES and is_value(value) and not exceeds_limits(value)


def exceeds_limits(value: Attribute) -> bool:
    """Whether a value is too large to be stored."""
    return size(value) > MAX_STORED_BYTES or (size(value) > POINTER_BYTES and text_bytes(value) > MAX_VALUE_BYTES)


def values_in(item: Item) -> dict[Path, Attribute]:
    """The values in a head that may leave it."""
    values: dict[Path, Attribute] = {(name,): item[name] for name in ("arguments", "result") if name in item}
    if WORK in item and is_large(item[WORK]):  # a worker reads it with each event, so it stays if it is small
        values[WORK,] = item[WORK]
    maps = {(name, key): value for name in LARGE_MAPS for key, value in members(item, name).items()}
    return values | {path: value for path, value in maps.items() if path[1] not in ALWAYS_IN_ITEM}


def with_statuses(progress: Attribute, writes: Iterable[StepWrite]) -> Attribute:
    """A stored progress with the statuses of these steps."""
    fields: dict[str, Any] = dict(progress["M"])
    steps = [dict(step["M"]) for step in fields["steps"]["L"]]
    for write in writes:
        steps[write.index]["status"] = {"S": write.status}
    return {"M": {**fields, "steps": {"L": [{"M": step} for step in steps]}}}
