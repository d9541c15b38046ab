"""The heads of tasks in a table: creating them, writing to them, and what a write that was refused means."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Self

from mcp_baton.exceptions import (
    ClaimLost,
    Conflict,
    OutcomeUnknown,
    StoreError,
    StoreUnavailable,
    TaskFinished,
    TaskNotFound,
    TooLarge,
)
from mcp_baton.tasks.dynamodb.attributes import Attribute, Item, text_bytes
from mcp_baton.tasks.dynamodb.changes import BOOKKEEPING_BYTES, Changes, all_stays, plan
from mcp_baton.tasks.dynamodb.claims import holds
from mcp_baton.tasks.dynamodb.expressions import (
    Update,
    finish_update,
    first_token,
    guarded_update,
    hold,
    live_update,
    require_held,
    write_update,
)
from mcp_baton.tasks.dynamodb.items import (
    HEAD_MS,
    RUN,
    Limits,
    expired,
    key_of,
    new_item,
    number,
    stays_whole,
    to_record,
)
from mcp_baton.tasks.dynamodb.retry_policy import CHECKPOINT, END, WRITE, RetryPolicy
from mcp_baton.tasks.dynamodb.table import ConditionFailed, ItemTooLarge, TaskTable
from mcp_baton.tasks.dynamodb.values import excess, item_size, size
from mcp_baton.tasks.ids import is_task_id, new_token
from mcp_baton.tasks.record import Claim, NewTask, TaskRecord, TaskStatus
from mcp_baton.tasks.store import Batch, Written
from mcp_baton.tasks.texts import VALUE_BYTES, ZipWithin, to_text
from mcp_baton.tasks.work import FIRST_DISPATCH_MS, LONGEST_DISPATCH_MS
from mcp_baton.telemetry import STORE_CONFLICTS, Telemetry

if TYPE_CHECKING:
    from mcp_baton.tasks.dynamodb.counting import LiveTasks
    from mcp_baton.tasks.dynamodb.moving import Mover
    from mcp_baton.tasks.dynamodb.overflow import ObjectStore, OverflowStore, RecentWrites


class TaskItems:
    """The heads of tasks in a table, and what all that writes to them shares."""

    _table: TaskTable
    _telemetry: Telemetry
    _objects: "ObjectStore | None"
    _written: "Callable[[], RecentWrites]"
    _limits: Limits
    now_ms: Callable[[], int]
    """The time by which claims end, epoch milliseconds. The clock itself: a run reads it many times."""

    def _write(
        self, owner: str, key: Item, update: Update, retry_policy: RetryPolicy = WRITE, claim: Claim | None = None
    ) -> Item:
        try:
            return self._table.update(key, update, retry_policy)
        except ConditionFailed as failure:
            if failure.item is None and failure.unsure:
                raise OutcomeUnknown("the task is gone: whether it was written before cannot be read") from failure
            current = self._live(owner, failure)
            if claim is not None and not holds(current, claim):
                raise ClaimLost(current) from failure
            self._telemetry.add(STORE_CONFLICTS)
            raise Conflict(current, (update.token, update.now_ms) if update.token else None) from failure

    def _live(self, owner: str, failure: ConditionFailed, workflow: str | None = None) -> TaskRecord:
        """The live task that a condition failed on.

        Raises:
            TaskNotFound, TaskFinished: there is none.
            Conflict: it is not of the workflow that it must be of.
        """
        if failure.item is None or expired(failure.item, self.now_ms()):
            raise TaskNotFound from failure
        current = self._task_in(owner, failure.item)
        if workflow is not None and current.workflow != workflow:
            raise Conflict(current) from failure
        if current.status.terminal:
            raise TaskFinished(current) from failure
        return current

    def _live_tasks(self) -> "LiveTasks | None":
        """What counts the owners' live tasks; `None` where their number is not limited."""
        allowed = self._limits.max_tasks_per_owner
        if allowed is None:
            return None
        from mcp_baton.tasks.dynamodb.counting import LiveTasks

        return LiveTasks(self._table, self._limits, allowed, self.now_ms)

    def _left(self, owner: str, task_id: str, item: Item) -> Item:
        """The item of a task that has ended, which is counted no more."""
        if live := self._live_tasks():
            live.leave(owner, task_id, item)
        return item

    def _outside(self) -> "OverflowStore":
        """Where values are that are not in the heads."""
        from mcp_baton.tasks.dynamodb.overflow import OverflowStore

        return OverflowStore(self._table, self._objects, self._written())

    def _task_in(self, owner: str, item: Item) -> TaskRecord:
        return to_record(owner, item, self._outside)

    def _key(self, owner: str, task_id: str) -> Item:
        if not is_task_id(task_id):
            raise TaskNotFound
        return key_of(owner, task_id)


class Writes(TaskItems):
    """Creating tasks, and writing batches to them. The part of `DynamoDBTaskStore` that a run needs."""

    _monotonic: Callable[[], float]
    _new_id: Callable[[int, int], str]
    _left_ms: Callable[[], int | None] | None

    def within(self, left_ms: Callable[[], int | None]) -> Self:
        """The same store for one request: nothing is tried again when the function would be stopped meanwhile."""
        made: Self = object.__new__(type(self))
        vars(made).update(vars(self), _table=self._table.within(left_ms), _left_ms=left_ms)
        return made

    def create(self, task: NewTask) -> TaskRecord:
        """Create a `working` task: one `PutItem`, after `LiveTasks.enter` where their number is limited.

        Two creations at the same moment may both pass that count: the limit is approximate.
        """
        began_s, now_ms, token = self._monotonic(), self.now_ms(), new_token()
        task_id = self._new_id(now_ms, self._limits.shards)
        item = new_item(task, task_id, now_ms, self._limits) | first_token(now_ms, token)
        whole = stays_whole(item, self._limits.item_bytes)
        if not whole and text_bytes(item["arguments"]) > VALUE_BYTES:
            raise StoreError(f"the task is too large: its arguments have {text_bytes(item['arguments'])} bytes")
        # Counted before its values are written: nobody fills the table or the bucket for a task that is one too many.
        live = self._live_tasks()
        if live:
            live.enter(task.owner, task_id, item)
        try:
            if not whole:
                item = self._fitted(task, task_id, item, began_s)
            self._put(item, token)
        except OutcomeUnknown as error:
            raise OutcomeUnknown(str(error), self._task_in(task.owner, item)) from error
        except StoreError:
            if live:
                live.leave(task.owner, task_id, item)
            raise
        return self._task_in(task.owner, item)

    def _fitted(self, task: NewTask, task_id: str, item: Item, began_s: float) -> Item:
        from mcp_baton.tasks.dynamodb.moving import fitted_new

        limit = self._limits.item_bytes
        item = fitted_new(item, limit, self._mover(task.owner, task_id, item, began_s))
        if excess(item, limit) > 0:
            raise StoreError(f"the task is too large: {item_size(item)} bytes")
        return item

    def _put(self, item: Item, token: str) -> None:
        try:
            self._table.put(item, token)
        except ConditionFailed as error:
            raise StoreError("the new task's id is taken") from error
        except ItemTooLarge as error:
            raise StoreError(f"the task is too large: {item_size(item)} bytes") from error

    def write(self, task: TaskRecord, batch: Batch) -> Written:
        """Write a batch: one `UpdateItem`, after what is kept outside the head.

        The item's size is computed beforehand from what was read. Writers who came in between may have made it
        larger: then DynamoDB refuses, and values of this batch give way.
        """
        began_s, now_ms, stored, limits = self._monotonic(), self.now_ms(), stored_item(task), self._limits
        name = batch.token or (new_token(), now_ms)
        zip_within = cache(partial(ZipWithin, limits.zip_ms / 1000, self._monotonic))

        def zips(text: bytes) -> bytes:
            return zip_within()(text)  # few writes have anything to zip

        changes = plan(stored, batch, limits.compress_over_bytes, zips)
        stays = all_stays(stored, changes, limits.item_bytes)
        if stays:
            with suppress(ItemTooLarge):
                return self._write_batch(task, stored, changes, batch, name, now_ms)
        return self._write_less(task, changes, batch, name, began_s, refused=stays)

    def _write_less(
        self, task: TaskRecord, planned: Changes, batch: Batch, name: tuple[str, int], began_s: float, *, refused: bool
    ) -> Written:
        """Write a batch some of whose values are kept outside the head, or give way."""
        from mcp_baton.tasks.dynamodb.moving import fitted, lighter

        stored, limit = stored_item(task), self._limits.item_bytes
        mover = self._mover(task.owner, task.task_id, stored, began_s)
        changes = lighter(planned, mover) if refused else fitted(stored, planned, limit, mover, batch.open_steps)
        while changes is not None:
            try:
                return self._write_batch(task, stored, changes, batch, name, self.now_ms(), moved=True)
            except ItemTooLarge:
                changes = lighter(changes, mover)
        if mover.failed:
            raise StoreUnavailable("the values of this write could not be kept outside the task's item")
        raise TooLarge("the task's item is full: DynamoDB takes 409,600 bytes, and no value is left to replace")

    def _mover(self, owner: str, task_id: str, item: Item, began_s: float) -> "Mover":
        """What moves the values of a write that began then, by the monotonic clock, for the task in an item."""
        from mcp_baton.tasks.dynamodb.moving import Mover, Target

        until_s = began_s + self._limits.values_ms / 1000
        left_ms = self._left_ms() if self._left_ms else None
        if left_ms is not None:
            until_s = min(until_s, self._monotonic() + (left_ms - HEAD_MS) / 1000)
        target = Target(owner, task_id, number(item, "expires_at"), self.now_ms())
        return Mover(self._outside(), target, until_s, self._monotonic)

    def _write_batch(
        self,
        task: TaskRecord,
        stored: Item,
        changes: Changes,
        batch: Batch,
        name: tuple[str, int],
        now_ms: int,
        *,
        moved: bool = False,
    ) -> Written:
        update = write_update(stored, changes, now_ms, name[0])
        update.now_ms = name[1]
        if moved:
            from mcp_baton.tasks.dynamodb.overflow import MARGIN_S

            # The values outside are kept as long as the task lived when it was read, and a day more.
            latest = update.value({"N": str(number(stored, "expires_at") + MARGIN_S)})
            update.require(f"{update.name('expires_at')}<={latest}")
        if batch.message is not None:
            say(update, batch.message)
        key: Item = {"pk": stored["pk"], "sk": stored["sk"]}
        if batch.claim is None:
            item = self._write(task.owner, key, update)
        else:
            hold(update, batch.claim, release=batch.release)
            item = self._write(task.owner, key, update, END if batch.release else CHECKPOINT, batch.claim)
        if changes.result is not None:
            self._left(task.owner, task.task_id, item)
        return Written(self._task_in(task.owner, item), changes.oversized)


def stored_item(task: TaskRecord) -> Item:
    """The item that a task was read from.

    Raises:
        ValueError: it was read by a listing, which leaves out the values, or by another store.
    """
    if not isinstance(task.source, dict) or "arguments" not in task.source:
        raise ValueError("a task must be read before it can be written against")
    return task.source


MESSAGE_CHARACTERS = 1_000
"""How much of a status message is kept: every later write of the task is paid by all of its item."""


def claiming(claim: Claim, dispatch: int, now_ms: int, token: str) -> Update:
    """A worker begins an attempt, which is counted here and not where it is dispatched."""
    update = guarded_update(now_ms, token)
    _require_working(update)
    _require_attempts(update)
    held_by, number, until, came_by = (update.path(RUN, member) for member in ("i", "n", "u", "d"))
    mine = update.text(claim.id)
    update.require(f"({until}<{_number(update, now_ms)} OR {held_by}={mine})")
    update.set(held_by, mine)
    update.set(number, f"{number}+{_number(update, 1)}")
    update.set(until, _number(update, claim.until_ms))
    update.set(came_by, _number(update, dispatch))
    return update


def dispatching_again(dispatches: int, now_ms: int, token: str) -> Update:
    """A poll dispatches a job that nobody works on; whoever comes later finds that it is not due any more."""
    update = guarded_update(now_ms, token)
    _require_working(update)
    _require_attempts(update)
    _require_free(update, now_ms)
    update.require(f"{update.name('due')}<{_number(update, now_ms)}")
    _dispatch(update, now_ms + again_after_ms(dispatches))
    return update


def again_after_ms(dispatches: int) -> int:
    """How long after one more dispatch than these a poll may dispatch again, milliseconds."""
    return min(FIRST_DISPATCH_MS << min(dispatches, 16), LONGEST_DISPATCH_MS)


def giving_up(error: Attribute, message: str, now_ms: int, token: str) -> Update:
    """A poll or a worker ends a job whose attempts are used up."""
    update = _failing(error, message, now_ms, token)
    _require_working(update)
    _require_free(update, now_ms)
    update.require(f"{update.path(RUN, 'n')}>={update.name('allowed')}")
    return update


def failing(claim: Claim, error: Attribute, message: str, now_ms: int, token: str) -> Update:
    """A worker ends its job as failed."""
    update = _failing(error, message, now_ms, token)
    hold(update, claim, release=True)
    return update


def asking(claim: Claim, questions: Mapping[str, Attribute], attempts: int, now_ms: int, token: str) -> Update:
    """A worker leaves its job to the client, who has questions to answer."""
    update = live_update(now_ms, token)
    hold(update, claim, release=True)
    update.set(update.name("status"), update.text(TaskStatus.INPUT_REQUIRED))
    _count_anew(update, attempts)
    for key, question in questions.items():
        update.set(update.path("asked", to_text(key)), update.value(question))
    return update


def answering(version: int, answers: Mapping[str, Attribute], *, last: bool, now_ms: int, token: str) -> Update:
    """A client answers. Which questions are open, and whether these are the last, was decided on this version of the
    task: two who answer at once must not both leave the last answer to the other."""
    update = live_update(now_ms, token)
    require_version(update, version)
    for key, answer in answers.items():
        update.set(update.path("answers", to_text(key)), update.value(answer))
    if last:
        update.set(update.name("status"), update.text(TaskStatus.WORKING))
        _dispatch(update, now_ms + FIRST_DISPATCH_MS)
    return update


def reporting(claim: Claim, message: str, now_ms: int) -> Update:
    """A worker says how far it is, and holds on to its job. Sent once."""
    update = live_update(now_ms, None)
    hold(update, claim)
    say(update, message)
    return update


def handing_over(claim: Claim, attempts: int, expires_s: int, ttl_ms: int, now_ms: int, token: str) -> Update:
    """A worker leaves its job to a fresh one."""
    update = live_update(now_ms, token)
    hold(update, claim, release=True)
    _count_anew(update, attempts)
    _dispatch(update, now_ms + FIRST_DISPATCH_MS)
    _live_until(update, expires_s, ttl_ms)
    return update


def extending(task: TaskRecord, expires_s: int, ttl_ms: int, now_ms: int, token: str) -> Update:
    """A worker lets a task live longer: its own, or that of the workflow which it runs."""
    update = guarded_update(now_ms, token)
    if task.claim is not None:
        require_held(update, task.claim)
    update.require(f"{update.name('expires_at')}<{_number(update, expires_s)}")
    _live_until(update, expires_s, ttl_ms)
    return update


def pointing(pointers: Mapping[tuple[str, ...], Attribute], version: int, now_ms: int) -> Update:
    """A worker replaces pointers, named by their paths, by others to the same values. A repetition does no harm."""
    update = guarded_update(now_ms, None)
    require_version(update, version)
    for path, pointer in pointers.items():
        update.set(update.path(*path), update.value(pointer))
    return update


def require_version(update: Update, version: int) -> None:
    """The task has not changed since it was read."""
    update.require(f"{update.name('version')}={_number(update, version)}")


def check_room(item: Item, texts: Mapping[str, Attribute], most: int, what: str) -> None:
    """Make sure that these texts fit into an item.

    Raises:
        TooLarge: they do not.
    """
    added = sum(size({"S": to_text(key)}) + 1 + size(text) for key, text in texts.items())
    after = item_size(item) + added + BOOKKEEPING_BYTES
    if after > most:
        raise TooLarge(f"the {what} have {added} bytes and do not fit: the task's item would have {after} of {most}")


def _failing(error: Attribute, message: str, now_ms: int, token: str) -> Update:
    update = finish_update(now_ms, token, TaskStatus.FAILED)
    update.set(update.name("error"), update.value(error))
    say(update, message)
    return update


def _require_working(update: Update) -> None:
    update.require(f"{update.name('status')}={update.text(TaskStatus.WORKING)}")


def _require_attempts(update: Update) -> None:
    """Some are left. A task that is no job has no number of them, and fails this as well."""
    update.require(f"{update.path(RUN, 'n')}<{update.name('allowed')}")


def _require_free(update: Update, now_ms: int) -> None:
    update.require(f"{update.path(RUN, 'u')}<{_number(update, now_ms)}")


def _dispatch(update: Update, due_ms: int) -> None:
    dispatches = update.name("dispatches")
    update.set(dispatches, f"{dispatches}+{_number(update, 1)}")
    update.set(update.name("due"), _number(update, due_ms))


def _count_anew(update: Update, attempts: int) -> None:
    update.set(update.name("allowed"), f"{update.path(RUN, 'n')}+{_number(update, attempts)}")


def say(update: Update, message: str) -> None:
    """Set the status message, as much of it as is kept."""
    update.set(update.name("status_message"), update.value({"S": to_text(shortened(message))}))


def shortened(message: str) -> str:
    """As much of a message as is kept."""
    return message if len(message) <= MESSAGE_CHARACTERS else message[: MESSAGE_CHARACTERS - 1] + "…"


def _live_until(update: Update, expires_s: int, ttl_ms: int) -> None:
    update.set(update.name("expires_at"), _number(update, expires_s))
    update.set(update.name("ttl_ms"), _number(update, ttl_ms))


def _number(update: Update, number: int) -> str:
    return update.value({"N": str(number)})
