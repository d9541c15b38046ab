"""The task store in DynamoDB: a head for each task, one conditional write a change (docs/storage.md)."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from mcp_baton.exceptions import OutcomeUnknown, StoreError, StoreUnavailable, TaskFinished, TaskNotFound, TooLarge
from mcp_baton.protocol.json import JsonObject
from mcp_baton.tasks.dynamodb.answers import DynamoDBAnswerStore
from mcp_baton.tasks.dynamodb.attributes import Item, excess, item_size, size, text_bytes
from mcp_baton.tasks.dynamodb.changes import Changes, plan
from mcp_baton.tasks.dynamodb.claiming import hold
from mcp_baton.tasks.dynamodb.counting import LiveTasks
from mcp_baton.tasks.dynamodb.cursors import to_cursor
from mcp_baton.tasks.dynamodb.expressions import Update, finish_update, write_update
from mcp_baton.tasks.dynamodb.fitting import fitted, fitted_new, lighter
from mcp_baton.tasks.dynamodb.heads import Heads, stored_item
from mcp_baton.tasks.dynamodb.items import (
    Limits,
    encode_object,
    expired,
    new_item,
    system_ms,
    to_record,
)
from mcp_baton.tasks.dynamodb.moving import Moving
from mcp_baton.tasks.dynamodb.outside import Outside, RecentWrites
from mcp_baton.tasks.dynamodb.overflow import ObjectStore
from mcp_baton.tasks.dynamodb.patience import END, draw
from mcp_baton.tasks.dynamodb.queries import page_of
from mcp_baton.tasks.dynamodb.table import ConditionFailed, ItemTooLarge, TaskTable
from mcp_baton.tasks.dynamodb.tokens import first_token
from mcp_baton.tasks.ids import new_task_id, new_token
from mcp_baton.tasks.record import NewTask, TaskPage, TaskRecord, TaskStatus
from mcp_baton.tasks.store import Batch, Written
from mcp_baton.tasks.texts import VALUE_BYTES
from mcp_baton.telemetry import SILENT, Telemetry

if TYPE_CHECKING:
    from mcp_baton.tasks.dynamodb.jobs import DynamoDBJobStore
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
        objects: ObjectStore | None = None,
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
        self._outside = Outside(self._table, objects, RecentWrites(monotonic))
        self._moving = Moving(self._outside, self._limits, now_ms, monotonic)
        self._now_ms = now_ms
        self._new_id = new_id
        self._answers = DynamoDBAnswerStore(self._table, now_ms=now_ms)
        self._live_tasks = LiveTasks(self._table, self._limits, now_ms)

    @property
    def answers(self) -> DynamoDBAnswerStore:
        """Questions to clients and their answers, in the same table."""
        return self._answers

    @property
    def jobs(self) -> "DynamoDBJobStore":
        """What is done to tasks that workers work on, in the same table."""
        from mcp_baton.tasks.dynamodb.jobs import DynamoDBJobStore

        common = (self._table, self._outside, self._live_tasks, self._limits, self._now_ms, self._telemetry)
        return DynamoDBJobStore(*common)

    def within(self, left_ms: Callable[[], int | None]) -> Self:
        """The same store for one request: nothing is tried again when the function would be stopped meanwhile."""
        made: Self = object.__new__(type(self))
        table = self._table.within(left_ms)
        outside = Outside(table, self._outside.bucket, self._outside.written)
        moving = self._moving.within(outside, left_ms)
        answers = DynamoDBAnswerStore(table, now_ms=self._now_ms)
        live_tasks = LiveTasks(table, self._limits, self._now_ms)
        vars(made).update(
            vars(self), _table=table, _outside=outside, _moving=moving, _answers=answers, _live_tasks=live_tasks
        )
        return made

    def now_ms(self) -> int:
        """The time by which claims end, epoch milliseconds."""
        return self._now_ms()

    def create(self, task: NewTask) -> TaskRecord:
        """Create a `working` task: one `PutItem`, after `LiveTasks.enter` where their number is limited.

        Two creations at the same moment may both pass that count: the limit is a brake, not a quota.
        """
        now_ms, token = self._now_ms(), new_token()
        task_id = self._new_id(now_ms, self._limits.shards)
        item = new_item(task, task_id, now_ms, self._limits)
        kept_ms = self._kept_ms(
            self._limits.ttl_ms(task.ttl_ms), grows=task.work is not None or task.workflow is not None
        )
        if text_bytes(item["arguments"]) > VALUE_BYTES:
            raise StoreError(f"the task is too large: its arguments have {text_bytes(item['arguments'])} bytes")
        item |= first_token(now_ms, token)
        # Counted before its values are written: nobody fills the table or the bucket for a task that is one too many.
        self._live_tasks.enter(task.owner, task_id, item)
        try:
            item = fitted_new(item, self._limits.item_bytes, self._moving.begin(task.owner, task_id, kept_ms))
            if excess(item, self._limits.item_bytes) > 0:
                raise StoreError(f"the task is too large: {item_size(item)} bytes")
            self._put(item, token)
        except OutcomeUnknown as error:
            raise OutcomeUnknown(str(error), self._task_in(task.owner, item)) from error
        except StoreError:
            self._live_tasks.leave(task.owner, task_id, item)
            raise
        return self._task_in(task.owner, item)

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
        if item is None or expired(item, self._now_ms()):
            raise TaskNotFound
        return self._task_in(owner, item)

    def list(self, owner: str, cursor: str | None = None) -> TaskPage:
        """One page of the owner's tasks, newest first: one `Query` a shard, or some more."""
        page = page_of(self._table, owner, cursor, self._now_ms(), self._limits)
        return TaskPage(
            tasks=tuple(to_record(owner, item) for item in page.items),
            cursor=None if page.end is None else to_cursor(page.end),
        )

    def write(self, task: TaskRecord, batch: Batch) -> Written:
        """Write a batch: one `UpdateItem`, after what is kept outside the head.

        The item's size is computed beforehand from what was read. Writers who came in between may have made it
        larger: then DynamoDB refuses, and values of this batch give way.
        """
        stored, limits = stored_item(task), self._limits
        mover = self._moving.begin(
            task.owner,
            task.task_id,
            self._kept_ms(task.ttl_ms, grows=task.job is not None or task.workflow is not None),
        )
        planned = plan(stored, batch, limits.compress_over_bytes, self._moving.zips())
        changes: Changes | None = fitted(stored, planned, limits.item_bytes, mover, batch.open_steps)
        while changes is not None:
            try:
                item = self._write_batch(task, stored, changes, batch)
            except ItemTooLarge:
                changes = lighter(changes, mover)
            else:
                if changes.result is not None:
                    self._live_tasks.leave(task.owner, task.task_id, item)
                return Written(self._task_in(task.owner, item), changes.oversized)
        if mover.failed:
            raise StoreUnavailable("the values of this write could not be kept outside the task's item")
        raise TooLarge("the task's item is full: DynamoDB takes 409,600 bytes, and no value is left to replace")

    def cancel(self, owner: str, task_id: str) -> TaskRecord:
        """Move a live task to `cancelled`: one `UpdateItem`."""
        return self._finish(owner, task_id, finish_update(self._now_ms(), new_token(), TaskStatus.CANCELLED))

    def complete(self, owner: str, task_id: str, result: JsonObject) -> TaskRecord:
        """Move a live task to `completed`: one `UpdateItem`, after a `GetItem` and a put where the result must move."""
        encoded = encode_object("result", result, self._limits.compress_over_bytes)
        if text_bytes(encoded) > VALUE_BYTES:
            raise TooLarge(f"the result has {text_bytes(encoded)} bytes; a task keeps {VALUE_BYTES} at most")
        update = finish_update(self._now_ms(), new_token(), TaskStatus.COMPLETED, encoded)
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
        item = self._write(owner, task_id, update)
        self._live_tasks.leave(owner, task_id, item)
        return self._task_in(owner, item)

    def _kept_ms(self, ttl_ms: int, *, grows: bool) -> int:
        """How long a task's values may be needed, milliseconds. A worker makes its task, and that of a workflow which
        it runs, live longer."""
        return max(ttl_ms, self._limits.max_ttl_ms) if grows else ttl_ms

    def _write_batch(self, task: TaskRecord, stored: Item, changes: Changes, batch: Batch) -> Item:
        token, named_ms = batch.token or (new_token(), self._now_ms())
        update = write_update(stored, changes, self._now_ms(), token)
        update.now_ms = named_ms
        if batch.message is not None:
            from mcp_baton.tasks.dynamodb.job_writes import say

            say(update, batch.message)
        if batch.claim is None:
            return self._write(task.owner, task.task_id, update)
        hold(update, batch.claim, release=batch.release, job="tool" in stored)
        return self._write(task.owner, task.task_id, update, END, batch.claim)
