"""The task store in DynamoDB: a head for each task, one conditional write a change (docs/storage.md)."""

import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Self

from mcp_baton.exceptions import OutcomeUnknown, StoreError, StoreUnavailable, TaskFinished, TaskNotFound, TooLarge
from mcp_baton.protocol.json import JsonObject
from mcp_baton.tasks.dynamodb.attributes import Item, encode_object
from mcp_baton.tasks.dynamodb.changes import Changes, all_stays, plan
from mcp_baton.tasks.dynamodb.clock import system_ms
from mcp_baton.tasks.dynamodb.expressions import Update, finish_update, hold, write_update
from mcp_baton.tasks.dynamodb.heads import Heads, recent_writes, stored_item
from mcp_baton.tasks.dynamodb.items import HEAD_MS, Limits, expired, new_item, stays_whole
from mcp_baton.tasks.dynamodb.patience import END, draw
from mcp_baton.tasks.dynamodb.sizes import excess, item_size, size, text_bytes
from mcp_baton.tasks.dynamodb.table import ConditionFailed, ItemTooLarge, TaskTable
from mcp_baton.tasks.dynamodb.tokens import first_token
from mcp_baton.tasks.ids import new_task_id, new_token
from mcp_baton.tasks.record import NewTask, TaskPage, TaskRecord, TaskStatus
from mcp_baton.tasks.store import Batch, Written
from mcp_baton.tasks.texts import VALUE_BYTES, ZipWithin
from mcp_baton.telemetry import SILENT, Telemetry

if TYPE_CHECKING:
    from mcp_baton.tasks.dynamodb.answers import DynamoDBAnswerStore
    from mcp_baton.tasks.dynamodb.jobs import DynamoDBJobStore
    from mcp_baton.tasks.dynamodb.moving import Mover
    from mcp_baton.tasks.dynamodb.outside import ObjectStore
    from mcp_baton.tasks.dynamodb.sending import Connect


RESULT_TOO_LARGE = "the result does not fit into the task's item"


class DynamoDBTaskStore(Heads):
    """A `TaskStore` in one DynamoDB table with `pk`, `sk` and, as its TTL attribute, `expires_at`.

    Args:
        table: The table's name.
        connect: Makes what asks DynamoDB; called at most once, at the first request, so that a cold start does not
            pay for what it does not use.
        limits: What owners may have and how large a task may grow.
        objects: S3, for values that are cheaper there than in the table; `None` where there is no bucket.
        now_ms: The wall clock, epoch milliseconds.
        monotonic: Seconds, from any moment on: how long a request has been sent again is measured by it.
        sleep: Lets so many seconds pass, between two attempts.
        random: Gives a number from 0 up to 1, for those pauses.
        new_id: Makes a task id for a time, epoch milliseconds, in one of so many shards.
        telemetry: Takes the requests' times, failures, and lost races.
    """

    def __init__(
        self,
        table: str,
        connect: "Connect",
        *,
        limits: Limits | None = None,
        objects: "ObjectStore | None" = None,
        now_ms: Callable[[], int] = system_ms,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        random: Callable[[], float] = draw,
        new_id: Callable[[int, int], str] = new_task_id,
        telemetry: Telemetry = SILENT,
    ) -> None:
        self._table = TaskTable(
            table, connect, telemetry, clock_ms=now_ms, monotonic=monotonic, sleep=sleep, rng=random
        )
        self._telemetry = telemetry
        self._limits = limits or Limits()
        self._objects = objects
        self._monotonic = monotonic
        self._left_ms: Callable[[], int | None] | None = None
        self.now_ms = now_ms
        self._new_id = new_id
        self._written = cache(partial(recent_writes, monotonic))

    @property
    def answers(self) -> "DynamoDBAnswerStore":
        """Questions to clients and their answers, in the same table."""
        from mcp_baton.tasks.dynamodb.answers import DynamoDBAnswerStore

        return DynamoDBAnswerStore(self._table, now_ms=self.now_ms)

    @property
    def jobs(self) -> "DynamoDBJobStore":
        """What is done to tasks that workers work on, in the same table."""
        from mcp_baton.tasks.dynamodb.jobs import DynamoDBJobStore

        places = self._table, self._objects, self._written
        return DynamoDBJobStore(*places, self._limits, self.now_ms, self._telemetry)

    def within(self, left_ms: Callable[[], int | None]) -> Self:
        """The same store for one request: nothing is tried again when the function would be stopped meanwhile."""
        made: Self = object.__new__(type(self))
        vars(made).update(vars(self), _table=self._table.within(left_ms), _left_ms=left_ms)
        return made

    def create(self, task: NewTask) -> TaskRecord:
        """Create a `working` task: one `PutItem`, after `LiveTasks.enter` where their number is limited.

        Two creations at the same moment may both pass that count: the limit is a brake, not a quota.
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
        from mcp_baton.tasks.dynamodb.fitting import fitted_new

        grows, limit = task.work is not None or task.workflow is not None, self._limits.item_bytes
        mover = self._mover(task.owner, task_id, self._limits.ttl_ms(task.ttl_ms), began_s, grows=grows)
        item = fitted_new(item, limit, mover)
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

    def get(self, owner: str, task_id: str) -> TaskRecord:
        """Read one task: one `GetItem`, strongly consistent."""
        item = self._table.get(self._key(owner, task_id))
        if item is None or expired(item, self.now_ms()):
            raise TaskNotFound
        return self._task_in(owner, item)

    def list(self, owner: str, cursor: str | None = None) -> TaskPage:
        """One page of the owner's tasks, newest first: one `Query` a shard, or some more."""
        from mcp_baton.tasks.dynamodb.listing import page_of

        return page_of(self._table, owner, cursor, self.now_ms(), self._limits)

    def write(self, task: TaskRecord, batch: Batch) -> Written:
        """Write a batch: one `UpdateItem`, after what is kept outside the head.

        The item's size is computed beforehand from what was read. Writers who came in between may have made it
        larger: then DynamoDB refuses, and values of this batch give way.
        """
        began_s, stored, limits = self._monotonic(), stored_item(task), self._limits
        changes = plan(stored, batch, limits.compress_over_bytes, ZipWithin(limits.zip_ms / 1000, self._monotonic))
        stays = all_stays(stored, changes, limits.item_bytes)
        if stays:
            with suppress(ItemTooLarge):
                return self._write_batch(task, stored, changes, batch)
        return self._write_less(task, stored, changes, batch, began_s, refused=stays)

    def _write_less(
        self, task: TaskRecord, stored: Item, planned: Changes, batch: Batch, began_s: float, *, refused: bool
    ) -> Written:
        """Write a batch some of whose values are kept outside the head, or give way."""
        from mcp_baton.tasks.dynamodb.fitting import fitted, lighter

        grows = task.job is not None or task.workflow is not None
        mover, limit = self._mover(task.owner, task.task_id, task.ttl_ms, began_s, grows=grows), self._limits.item_bytes
        changes = lighter(planned, mover) if refused else fitted(stored, planned, limit, mover, batch.open_steps)
        while changes is not None:
            try:
                return self._write_batch(task, stored, changes, batch)
            except ItemTooLarge:
                changes = lighter(changes, mover)
        if mover.failed:
            raise StoreUnavailable("the values of this write could not be kept outside the task's item")
        raise TooLarge("the task's item is full: DynamoDB takes 409,600 bytes, and no value is left to replace")

    def cancel(self, owner: str, task_id: str) -> TaskRecord:
        """Move a live task to `cancelled`: one `UpdateItem`."""
        return self._finish(owner, task_id, finish_update(self.now_ms(), new_token(), TaskStatus.CANCELLED))

    def complete(self, owner: str, task_id: str, result: JsonObject) -> TaskRecord:
        """Move a live task to `completed`: one `UpdateItem`, after a `GetItem` and a put where the result must move."""
        encoded = encode_object("result", result, self._limits.compress_over_bytes)
        if text_bytes(encoded) > VALUE_BYTES:
            raise TooLarge(f"the result has {text_bytes(encoded)} bytes; a task keeps {VALUE_BYTES} at most")
        update = finish_update(self.now_ms(), new_token(), TaskStatus.COMPLETED, encoded)
        if size(encoded) <= self._limits.item_bytes:
            with suppress(ItemTooLarge):
                return self._finish(owner, task_id, update)
        return self._complete_moved(owner, task_id, result)

    def _complete_moved(self, owner: str, task_id: str, result: JsonObject) -> TaskRecord:
        # The task is looked at first: nobody writes values for tasks that are over, or another's.
        task = self.get(owner, task_id)
        if task.status.terminal:
            raise TaskFinished(task)
        try:
            return self.write(task, Batch(result=result)).task
        except TooLarge as error:
            raise TooLarge(RESULT_TOO_LARGE) from error

    def _finish(self, owner: str, task_id: str, update: Update) -> TaskRecord:
        return self._task_in(owner, self._left(owner, task_id, self._write(owner, task_id, update)))

    def _mover(self, owner: str, task_id: str, ttl_ms: int, began_s: float, *, grows: bool) -> "Mover":
        """What moves the values of a write that began then, by the monotonic clock. A worker makes its task, and that
        of a workflow which it runs, live longer: such a task grows."""
        from mcp_baton.tasks.dynamodb.moving import Mover, target_of

        longest_ms, until_s = self._limits.max_ttl_ms, began_s + self._limits.values_ms / 1000
        left_ms = self._left_ms() if self._left_ms else None
        if left_ms is not None:
            until_s = min(until_s, self._monotonic() + (left_ms - HEAD_MS) / 1000)
        needed_ms = max(ttl_ms, longest_ms) if grows else ttl_ms
        target = target_of(owner, task_id, needed_ms, longest_ms, self.now_ms())
        return Mover(self._outside(), target, until_s, self._monotonic)

    def _write_batch(self, task: TaskRecord, stored: Item, changes: Changes, batch: Batch) -> Written:
        now_ms = self.now_ms()
        token, named_ms = batch.token or (new_token(), now_ms)
        update = write_update(stored, changes, now_ms, token)
        update.now_ms = named_ms
        if batch.message is not None:
            from mcp_baton.tasks.dynamodb.job_writes import say

            say(update, batch.message)
        if batch.claim is None:
            item = self._write(task.owner, task.task_id, update)
        else:
            hold(update, batch.claim, release=batch.release, job="tool" in stored)
            item = self._write(task.owner, task.task_id, update, END, batch.claim)
        if changes.result is not None:
            self._left(task.owner, task.task_id, item)
        return Written(self._task_in(task.owner, item), changes.oversized)
