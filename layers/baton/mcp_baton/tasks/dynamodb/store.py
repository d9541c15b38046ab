"""The task store in DynamoDB: a head for each task, one conditional write a change (docs/storage.md)."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING

from mcp_baton.exceptions import ClaimLost, Conflict, StoreError, TaskFinished, TaskHeld, TaskNotFound, TooLarge
from mcp_baton.protocol.json import JsonObject
from mcp_baton.tasks.dynamodb.attributes import encode_object, text_bytes
from mcp_baton.tasks.dynamodb.claims import claimed, take
from mcp_baton.tasks.dynamodb.expressions import Update, finish_update, guarded_update, hold
from mcp_baton.tasks.dynamodb.heads import Writes
from mcp_baton.tasks.dynamodb.items import RUN, Limits, claim_in, expired, number
from mcp_baton.tasks.dynamodb.retry_policy import CREATE, RENEW, random_fraction
from mcp_baton.tasks.dynamodb.table import ConditionFailed, ItemTooLarge, TaskTable, system_ms
from mcp_baton.tasks.dynamodb.values import size
from mcp_baton.tasks.ids import new_task_id, new_token
from mcp_baton.tasks.record import Claim, TaskPage, TaskRecord, TaskStanding, TaskStatus
from mcp_baton.tasks.store import Batch
from mcp_baton.tasks.texts import VALUE_BYTES, to_text
from mcp_baton.telemetry import SILENT, STORE_CONFLICTS, Telemetry

if TYPE_CHECKING:
    from mcp_baton.tasks.dynamodb.answers import DynamoDBAnswerStore
    from mcp_baton.tasks.dynamodb.attributes import Item
    from mcp_baton.tasks.dynamodb.jobs import DynamoDBJobStore
    from mcp_baton.tasks.dynamodb.overflow import ObjectStore, RecentWrites
    from mcp_baton.tasks.dynamodb.table import Connect

GLANCED_AT = ("status", "expires_at", "version", RUN)
"""The attributes that tell whether a task is live, whether it has changed, and who runs it."""

RESULT_TOO_LARGE = "the result does not fit into the task's item"


class DynamoDBTaskStore(Writes):
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
        random: Callable[[], float] = random_fraction,
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

    def look(self, owner: str, task_id: str) -> TaskStanding:
        """A task's status and claim: one `GetItem` of four attributes, eventually consistent.

        A task that it does not find may be too new for it, and one that has expired may have been prolonged since. So
        either is looked for once more, strongly consistent.
        """
        key = self._key(owner, task_id)
        standing = self._standing(task_id, self._table.glance(key, GLANCED_AT))
        standing = standing or self._standing(task_id, self._table.get(key))
        if standing is None:
            raise TaskNotFound
        return standing

    def _standing(self, task_id: str, item: "Item | None") -> TaskStanding | None:
        """What an item tells of a task; `None` if there is no item, or the task has expired."""
        if item is None:
            return None
        try:
            over = expired(item, self.now_ms())
            standing = TaskStanding(TaskStatus(item["status"]["S"]), claim_in(item), number(item, "version"))
        except (KeyError, TypeError, ValueError) as error:
            raise StoreError(f"the item of the task {task_id} is damaged: {error}") from error
        return None if over else standing

    def take(self, owner: str, task_id: str, workflow: str, claim: Claim) -> TaskRecord:
        """Claim a live task that nobody holds, and read it: one `UpdateItem`."""
        now_ms = self.now_ms()
        update = guarded_update(now_ms, new_token())
        take(update, to_text(workflow), claim, now_ms)
        try:
            item = self._table.update(self._key(owner, task_id), update, CREATE)
            taken = claimed(self._task_in(owner, item), claim, self.now_ms)
            return taken or self.take(owner, task_id, workflow, claim)
        except ConditionFailed as failure:
            current = self._live(owner, failure, workflow)
            if current.claim is not None and current.claim.id != claim.id and current.claim.holds_at(now_ms):
                raise TaskHeld(current.claim.until_ms, current) from failure
            self._telemetry.add(STORE_CONFLICTS)
            raise Conflict(current) from failure

    def renew(self, task: TaskRecord, claim: Claim) -> TaskRecord:
        """Lease on to a task until the claim's new end, or give it up: one `UpdateItem`, sent once."""
        update = guarded_update(self.now_ms(), None)
        hold(update, claim)
        key = self._key(task.owner, task.task_id)
        try:
            self._table.update(key, update, RENEW, whole=False)
        except ConditionFailed as failure:
            raise ClaimLost(self._live(task.owner, failure)) from failure
        return replace(task, claim=claim)

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

    def cancel(self, owner: str, task_id: str) -> TaskRecord:
        """Move a live task to `cancelled`: one `UpdateItem`."""
        return self._finish(owner, task_id, finish_update(self.now_ms(), new_token(), TaskStatus.CANCELLED))

    def complete(self, owner: str, task_id: str, result: JsonObject, *, by_client: bool = True) -> TaskRecord:
        """Move a live task to `completed`: one `UpdateItem`, after a `GetItem` and a put where the result must move."""
        encoded = encode_object("result", result, self._limits.compress_over_bytes)
        if text_bytes(encoded) > VALUE_BYTES:
            raise TooLarge(f"the result has {text_bytes(encoded)} bytes; a task keeps {VALUE_BYTES} at most")
        update = finish_update(self.now_ms(), new_token(), TaskStatus.COMPLETED, encoded, by_client=by_client)
        if size(encoded) <= self._limits.item_bytes:
            with suppress(ItemTooLarge):
                return self._finish(owner, task_id, update)
        return self._complete_moved(owner, task_id, Batch(result=result, by_client=by_client))

    def _complete_moved(self, owner: str, task_id: str, batch: Batch) -> TaskRecord:
        # The task is read first: no values are written for tasks that are over, or another's.
        task = self.get(owner, task_id)
        while not task.status.terminal:
            try:
                return self.write(task, batch).task
            except Conflict as prolonged:
                # It lives longer than when it was read, so the result must be kept longer, too.
                task = prolonged.current
            except TooLarge as error:
                raise TooLarge(RESULT_TOO_LARGE) from error
        raise TaskFinished(task)

    def _finish(self, owner: str, task_id: str, update: Update) -> TaskRecord:
        return self._task_in(owner, self._left(owner, task_id, self._write(owner, self._key(owner, task_id), update)))


def recent_writes(monotonic: Callable[[], float]) -> "RecentWrites":
    """What is remembered of values that were just written outside; loaded when there are some."""
    from mcp_baton.tasks.dynamodb.overflow import RecentWrites

    return RecentWrites(monotonic)
