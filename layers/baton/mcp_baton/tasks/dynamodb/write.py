"""One write of a task's head: what it sets, what must still be true, and which values leave the head."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from mcp_baton.exceptions import StoreError
from mcp_baton.tasks.dynamodb.attributes import (
    Attribute,
    Item,
    attributes,
    encode_arguments,
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
    note_kept,
    note_named,
    renew_claim,
    set_message,
)
from mcp_baton.tasks.dynamodb.heads import (
    BOOKKEEPING_BYTES,
    MIN_MOVED_BYTES,
    MoveValues,
    can_move,
    exceeds_limits,
    head_room,
    is_fitting,
    paths_to_move,
    values_in,
    with_values,
)
from mcp_baton.tasks.dynamodb.items import (
    ALWAYS_IN_ITEM,
    NO_PROGRESS,
    TIMINGS,
    WAKES,
    Limits,
    Path,
    members,
    value_at,
)
from mcp_baton.tasks.dynamodb.lists import ListRecord, record_in
from mcp_baton.tasks.dynamodb.values import ELEMENT_BYTES, is_value, item_size, size
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
    epoch_ms,
    paused_step,
)
from mcp_baton.tasks.store import Batch, ListResult, StepWrite
from mcp_baton.tasks.texts import MAX_STORED_BYTES, MAX_VALUE_BYTES, ZipWithin, from_text, to_text
from mcp_baton.tasks.values import FINAL_RESULT, elements_digest

if TYPE_CHECKING:
    from mcp_baton.tasks.dynamodb.outside import Mover

MAX_STEPS_WRITTEN: Final = 50
"""A write of more steps and reasons replaces the whole progress: an expression has at most 4 KB and 300 operators."""

RESULT: Final[Path] = ("result",)
ARGUMENTS: Final[Path] = ("arguments",)
REQUIRED_VALUES: Final = (RESULT, ARGUMENTS)
"""The values without which nothing is written. Notes replace only variables."""

PROGRESS_PATH: Final[Path] = ("variables", PROGRESS)
PAUSES_PATH: Final[Path] = ("variables", PAUSE_REASONS)

STATUS_BYTES: Final = max(map(len, StepStatus))

EXCEEDS: Final = f"exceeds the task's size limit, {MAX_VALUE_BYTES} bytes; its tool should return less, or a link"
EXCEEDS_STORED: Final = (
    f"exceeds the task's size limit, {MAX_STORED_BYTES} bytes when compressed; its tool should return less, or a link"
)
NOT_WRITTEN: Final = "could not be written outside the task's item"


class Write:
    """The write of a batch to a task.

    Steps are written and guarded one by one, so that writers of different steps do not conflict. A batch that replaces
    the progress, or that has too many steps for one expression, writes the progress as a whole and requires that it is
    the one that was read.

    Attributes:
        values: The variables and the final result that it sets, by their places.
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
        self._stored = members(item, "variables")
        self._stored_progress = self._stored.get(PROGRESS, NO_PROGRESS)
        self._is_last = batch.result is not None
        self.values = self._encoded_values(monotonic)
        self._removed = {_variable(name) for name in batch.removed} - self.values.keys()
        if batch.pauses == () and PAUSE_REASONS in self._stored:
            self._removed.add(PAUSES_PATH)
        self._completed_lists = {step.name for step in batch.steps if isinstance(step.result, ListResult)}
        self.lists = self._records()
        self._set_lists()
        self._steps, self._timings = batch.steps, self._encoded_timings()
        # One by one, writers of different steps do not conflict. As a whole, the write has no limit of steps.
        count = len(batch.steps) + len(batch.pauses or ())
        self._replaces_progress = PROGRESS_PATH in self.values or count > MAX_STEPS_WRITTEN
        self._sets_all_timings = self._replaces_progress or TIMINGS not in item
        self._set_progress()

    def _encoded_values(self, monotonic: Callable[[], float]) -> dict[Path, Attribute]:
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
        if batch.result is not None:
            values[FINAL_RESULT] = batch.result
        zips = ZipWithin(self._limits.zip_ms / 1000, monotonic)
        compress_over = self._limits.compress_over_bytes
        encoded = encode_variables(values, compress_over, zips)
        paths = {RESULT if name == FINAL_RESULT else ("variables", name): value for name, value in encoded.items()}
        return paths | ({ARGUMENTS: encode_arguments(batch.arguments, compress_over)} if batch.arguments else {})

    def _records(self) -> dict[str, ListRecord]:
        """The lists after the write, by step. One that could not be read as a whole is left out."""
        records: dict[str, ListRecord] = {}
        for step, write in self.batch.lists.items():
            attribute = self._stored.get(to_text(ITEMS_PREFIX + step))
            record = (record_in(attribute) if attribute else None) or ListRecord.new(write.total)
            if write.elements is not None:
                record = replace(record, total=write.total, digest=elements_digest(list(write.elements)))
            record = record.without(write.dropped).including(write.results)
            if record.text_bytes > MAX_VALUE_BYTES:
                self._leave_out(self._list_path(step), record.text_bytes, EXCEEDS)
            else:
                records[step] = record
        return records

    def _list_path(self, step: str) -> Path:
        """The variable of a list. A completed list becomes the result of its step."""
        return _variable((RESULT_PREFIX if step in self._completed_lists else ITEMS_PREFIX) + step)

    def _set_lists(self) -> None:
        for step, record in self.lists.items():
            value = record.attribute()
            if step in self._completed_lists and not record.chunks and not record.is_full:
                value = encode_variable(RESULT_PREFIX, record.in_order(()), self._limits.compress_over_bytes)
            self.values[self._list_path(step)] = value

    def _encoded_timings(self) -> dict[str, Attribute]:
        timings = [(write.name, write.timing) for write in self.batch.steps if write.timing]
        created_ms = epoch_ms(self.item["created_at"]["S"]) if timings else 0
        return {to_text(name): {"S": f"{timing.at_ms - created_ms}+{timing.ms}"} for name, timing in timings}

    def _set_progress(self) -> None:
        progress = self.values.get(PROGRESS_PATH, self._stored_progress)
        for step in self._steps:
            if step.index >= len(progress["M"]["steps"]["L"]):
                raise StoreError(f"the task's progress has no step {step.index} ({step.name!r})")
        if self._replaces_progress:
            self.values[PROGRESS_PATH] = new_progress = with_statuses(progress, self._steps)
            self._steps = ()
            names = {step["M"]["name"]["S"] for step in new_progress["M"]["steps"]["L"]}
            timings = {**members(self.item, TIMINGS), **self._timings}
            self._timings = {name: timing for name, timing in timings.items() if name in names}

    # Sizes

    def fit(self, outside: "Mover") -> None:
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
        for path, value in self.new_values.items():
            if path not in REQUIRED_VALUES and exceeds_limits(value):
                length = text_bytes(value)
                self._leave_out(path, length, EXCEEDS if length > MAX_VALUE_BYTES else EXCEEDS_STORED)
        # Stored values leave, too: a head can be full of values that were small enough one by one.
        new, stored = self.new_values, self.stored_values
        if paths := paths_to_move(new, stored, self.excess(), is_last=self._is_last):
            self.place(outside.move({path: (new | stored)[path] for path in paths}))
        self._move_lists(outside)
        # Only if values could not be moved. The statuses of steps are worth more than a value.
        while self.excess(self._limits.item_bytes) > 0 and self.leave_out_largest():
            pass

    def _move_lists(self, outside: "Mover") -> None:
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
        if any(record.is_full for record in self.lists.values()):
            return False
        head, stored = self.head(), {} if self._is_last else self.stored_values
        return is_fitting(head, self._room(head), self.new_values, stored, is_last=self._is_last)

    def head(self) -> Item:
        """The head after the write, unless another write comes first, without the bookkeeping."""
        stored = {name: value for name, value in self._stored.items() if ("variables", name) not in self._removed}
        head = with_values({**self.item, "variables": {"M": stored}}, {**self.moved, **self.values})
        if self._timings:
            head[TIMINGS] = {"M": {**({} if self._sets_all_timings else members(self.item, TIMINGS)), **self._timings}}
        return head | attributes(
            definition=self.batch.definition,
            status_message=self.batch.message,
        )

    def excess(self, bound: int | None = None) -> int:
        """By how many bytes the head after the write exceeds its bound, or another one."""
        head = self.head()
        return item_size(head) - self._room(head, bound)

    def _room(self, head: Item, bound: int | None = None) -> int:
        """The bytes that the head may have without the bookkeeping."""
        bound = head_room(head, self._limits) if bound is None else bound
        return bound - len(self._steps) * STATUS_BYTES - len(self._timings) * ELEMENT_BYTES - BOOKKEEPING_BYTES

    @property
    def new_values(self) -> dict[Path, Attribute]:
        """The values of this write that may leave the head."""
        return {path: value for path, value in self.values.items() if path[-1] not in ALWAYS_IN_ITEM}

    @property
    def stored_values(self) -> dict[Path, Attribute]:
        """The stored values that may leave the head, without those that this write replaces, removes or moves."""
        gone = self.values.keys() | self._removed | self.moved.keys()
        return {path: value for path, value in values_in(self.item).items() if path not in gone}

    def place(self, pointers: Mapping[Path, Attribute]) -> None:
        """Replace values by their pointers."""
        for path, pointer in pointers.items():
            (self.values if path in self.values else self.moved)[path] = pointer

    def _leave_out(self, path: Path, length: int, cause: str) -> None:
        """Set a note instead of a variable. It says why the variable is not stored."""
        self.values[path] = not_kept(length, cause)
        self.oversized = (*self.oversized, from_text(path[-1]))

    def shrink(self, move: MoveValues) -> bool:
        """Make the head smaller, because another write has made it larger than DynamoDB takes. Returns whether this was
        possible."""
        before = self.excess(0)
        self.place(move({path: value for path, value in self.new_values.items() if can_move(value)}))
        return self.excess(0) < before or self.leave_out_largest()

    def leave_out_largest(self) -> bool:
        """Leave out the largest variable. Returns whether this makes the head smaller."""
        values = {path: value for path, value in self.new_values.items() if path not in REQUIRED_VALUES}
        sizes = {path: size(value) for path, value in values.items() if is_value(value)}
        path = max(sizes, key=lambda path: (sizes[path], path), default=None)
        if path is None:
            return False
        length = text_bytes(self.values[path])
        if size(not_kept(length, NOT_WRITTEN)) >= sizes[path]:
            return False
        self._leave_out(path, length, NOT_WRITTEN)
        return True

    # The request

    def update(self, task_id: str, now_ms: int, token: tuple[str, int]) -> Update:
        """The request, with all conditions on which the write was decided."""
        batch = self.batch
        if batch.result is None:
            update = live_update(now_ms, token[0])
        else:
            update = finish_update(now_ms, token[0], TaskStatus.COMPLETED, by_client=batch.by_client)
        # A repeated attempt has the time of its token: it is looked for in the set of that time.
        update.now_ms = token[1]
        self._write_steps(update)
        if self.values.keys() - {RESULT} and "definition" in self.item:
            # The places of the steps were read from the progress of this definition.
            update.require("definition", "=", self.item["definition"])
        if batch.same_version:
            update.require("version", "=", self.item["version"])
        if batch.definition is not None:
            update.set("definition", batch.definition)
        if self._replaces_progress:
            update.require(PROGRESS_PATH, "=", self._stored_progress)
        for path, value in self.values.items():
            update.set(path, value)
        self._write_timings(update)
        update.remove(*sorted(self._removed))
        self._require_pauses(update)
        for path, pointer in self.moved.items():
            # Only if the value is still the one that was read.
            update.require(path, "=", value_at(self.item, path))
            update.set(path, pointer)
        if self.kept_until_s is not None:
            note_kept(update, self.kept_until_s)
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

    def _require_pauses(self, update: Update) -> None:
        """Require that the pause reasons, and the steps of new ones, are as they were read."""
        if PAUSES_PATH in self.values and PROGRESS_PATH not in self.values:
            # Otherwise a step that a continuation completes meanwhile would be the cause of a pause.
            names = {str(paused_step(reason)) for reason in self.batch.pauses or ()}
            indexes = {step.index for step in self._steps}
            for index, step in enumerate(self._stored_progress["M"]["steps"]["L"]):
                if from_text(step["M"]["name"]["S"]) in names and index not in indexes:
                    update.require(_status_path(index), "=", step["M"]["status"]["S"])
        if not self.batch.steps and self.batch.pauses is None:
            return
        # Each writer changes the reasons of its own steps only.
        if PAUSE_REASONS in self._stored:
            update.require(PAUSES_PATH, "=", self._stored[PAUSE_REASONS])
        else:
            update.require_missing(PAUSES_PATH)

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


def _variable(name: str) -> Path:
    return ("variables", to_text(name))


def _status_path(index: int) -> AttributePath:
    return (*PROGRESS_PATH, "steps", index, "status")


def with_statuses(progress: Attribute, writes: Iterable[StepWrite]) -> Attribute:
    """A stored progress with the statuses of these steps."""
    fields: dict[str, Any] = dict(progress["M"])
    steps = [dict(step["M"]) for step in fields["steps"]["L"]]
    for write in writes:
        steps[write.index]["status"] = {"S": write.status}
    return {"M": {**fields, "steps": {"L": [{"M": step} for step in steps]}}}
