"""What is done with one task's head alone: claims, light looks, and what a write that was refused means."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from mcp_baton.exceptions import ClaimLost, Conflict, StoreError, TaskFinished, TaskHeld, TaskNotFound
from mcp_baton.light_dataclasses import replace
from mcp_baton.tasks.dynamodb.attributes import Item
from mcp_baton.tasks.dynamodb.expressions import Update, guarded_update, hold, take
from mcp_baton.tasks.dynamodb.items import RUN, Limits, claim_in, expired, key_of, number, to_record
from mcp_baton.tasks.dynamodb.patience import CREATE, RENEW, WRITE, Patience
from mcp_baton.tasks.dynamodb.table import ConditionFailed, TaskTable
from mcp_baton.tasks.ids import is_task_id, new_token
from mcp_baton.tasks.record import Claim, Standing, TaskRecord, TaskStatus
from mcp_baton.tasks.texts import to_text
from mcp_baton.telemetry import STORE_CONFLICTS, Telemetry

if TYPE_CHECKING:
    from mcp_baton.tasks.dynamodb.counting import LiveTasks
    from mcp_baton.tasks.dynamodb.outside import ObjectStore, Outside, RecentWrites

GLANCED_AT = ("status", "expires_at", "version", RUN)
"""The attributes that tell whether a task is live, whether it has changed, and who runs it."""


class Heads:
    """The heads of tasks in a table. The part of `DynamoDBTaskStore` that changes nothing but claims."""

    _table: TaskTable
    _telemetry: Telemetry
    _objects: "ObjectStore | None"
    _written: "Callable[[], RecentWrites]"
    _limits: Limits
    now_ms: Callable[[], int]
    """The time by which claims end, epoch milliseconds. The clock itself: a run reads it many times."""

    def look(self, owner: str, task_id: str) -> Standing:
        """A task's status and claim: one `GetItem` of four attributes, eventually consistent.

        A task that it does not find may be too new for it, so it is looked for once more, strongly consistent.
        """
        key = self._key(owner, task_id)
        item = self._table.glance(key, GLANCED_AT) or self._table.get(key)
        if item is None:
            raise TaskNotFound
        try:
            over = expired(item, self.now_ms())
            standing = Standing(TaskStatus(item["status"]["S"]), claim_in(item), number(item, "version"))
        except (KeyError, TypeError, ValueError) as error:
            raise StoreError(f"the item of the task {task_id} is damaged: {error}") from error
        if over:
            raise TaskNotFound
        return standing

    def take(self, owner: str, task_id: str, workflow: str, claim: Claim) -> TaskRecord:
        """Claim a live task that nobody holds, and read it: one `UpdateItem`."""
        now_ms = self.now_ms()
        update = guarded_update(now_ms, new_token())
        take(update, to_text(workflow), claim, now_ms)
        try:
            taken = self._claimed(owner, self._table.update(self._key(owner, task_id), update, CREATE), claim)
            return taken or self.take(owner, task_id, workflow, claim)
        except ConditionFailed as failure:
            current = self._live(owner, failure, workflow)
            if current.claim is not None and current.claim.id != claim.id and current.claim.holds_at(now_ms):
                raise TaskHeld(current.claim.until_ms, current) from failure
            self._telemetry.add(STORE_CONFLICTS)
            raise Conflict(current) from failure

    def _claimed(self, owner: str, item: Item, claim: Claim) -> TaskRecord | None:
        """The task that was claimed. Where the answer to that was lost, and was asked for again by a function that had
        stood still, another one may have taken it over since.

        Returns:
            The task; `None` where it was taken over, and nobody holds it any more.

        Raises:
            TaskHeld: another one holds it.
            TaskFinished: it is over.
        """
        task = self._task_in(owner, item)
        if task.status.terminal:
            raise TaskFinished(task)
        if task.claim is None or task.claim.id == claim.id:
            return task
        if task.claim.holds_at(self.now_ms()):
            raise TaskHeld(task.claim.until_ms, task)
        return None

    def renew(self, task: TaskRecord, claim: Claim) -> TaskRecord:
        """Hold on to a task until the claim's new end, or give it up: one `UpdateItem`, sent once."""
        update = guarded_update(self.now_ms(), new_token())
        hold(update, claim, job=task.job is not None)
        key = self._key(task.owner, task.task_id)
        try:
            self._table.update(key, update, RENEW, whole=False)
        except ConditionFailed as failure:
            raise ClaimLost(self._live(task.owner, failure)) from failure
        return replace(task, claim=claim)

    def _write(
        self, owner: str, task_id: str, update: Update, patience: Patience = WRITE, claim: Claim | None = None
    ) -> Item:
        try:
            return self._table.update(self._key(owner, task_id), update, patience)
        except ConditionFailed as failure:
            current = self._live(owner, failure)
            if claim is not None and not _holds(current, claim):
                raise ClaimLost(current) from failure
            self._telemetry.add(STORE_CONFLICTS)
            raise Conflict(current) from failure

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

    def _move(self, task: TaskRecord, before: Item, after: Item) -> None:
        """Count a task by its new end, whose life was made longer."""
        if live := self._live_tasks():
            live.move(task.owner, task.task_id, before, after)

    def _outside(self) -> "Outside":
        """Where values are that are not in the heads."""
        from mcp_baton.tasks.dynamodb.outside import Outside

        return Outside(self._table, self._objects, self._written())

    def _task_in(self, owner: str, item: Item) -> TaskRecord:
        return to_record(owner, item, self._outside)

    def _key(self, owner: str, task_id: str) -> Item:
        if not is_task_id(task_id):
            raise TaskNotFound
        return key_of(owner, task_id)


def _holds(task: TaskRecord, claim: Claim) -> bool:
    if task.claim is None or task.claim.id != claim.id:
        return False
    return task.job is None or task.claim.until_ms > 0


def stored_item(task: TaskRecord) -> Item:
    """The item that a task was read from.

    Raises:
        ValueError: it was read by a listing, which leaves out the values, or by another store.
    """
    if not isinstance(task.source, dict) or "arguments" not in task.source:
        raise ValueError("a task must be read before it can be written against")
    return task.source


def recent_writes(monotonic: Callable[[], float]) -> "RecentWrites":
    """What is remembered of values that were just written outside; loaded when there are some."""
    from mcp_baton.tasks.dynamodb.outside import RecentWrites

    return RecentWrites(monotonic)
