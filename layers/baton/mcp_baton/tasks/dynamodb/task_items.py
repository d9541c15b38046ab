"""The items of the tasks in a table, for the task store and the job store (docs/storage.md)."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Self

from msgspec import Struct
from msgspec.structs import replace

from mcp_baton.exceptions import ClaimLost, Conflict, OutcomeUnknown, TaskFinished, TaskHeld, TaskNotFound
from mcp_baton.tasks.dynamodb.attributes import Item
from mcp_baton.tasks.dynamodb.expressions import Update
from mcp_baton.tasks.dynamodb.items import ITEM_MS, Limits, expired, key_of, task_id_of, to_record
from mcp_baton.tasks.dynamodb.retries import WRITE, ConditionFailed, RetryPolicy
from mcp_baton.tasks.dynamodb.table import TaskTable
from mcp_baton.tasks.dynamodb.values import Reader
from mcp_baton.tasks.ids import is_task_id, new_task_id
from mcp_baton.tasks.keys import made_once
from mcp_baton.tasks.record import Claim, TaskRecord
from mcp_baton.telemetry import STORE_CONFLICTS

if TYPE_CHECKING:
    from mcp_baton.tasks.dynamodb.counting import LiveTasks
    from mcp_baton.tasks.dynamodb.outside import Mover

ITEM_FULL = "the task's item is full: DynamoDB takes 409,600 bytes"


class TaskItems(Struct, frozen=True, eq=False):
    """The items of the tasks in one DynamoDB table with `pk`, `sk` and, as its TTL attribute, `expires_at`.

    Attributes:
        new_id: Creates a task id from a time (epoch milliseconds).
    """

    table: TaskTable
    limits: Limits = Limits()
    new_id: Callable[[int], str] = new_task_id

    def within(self, left_ms: Callable[[], int | None]) -> Self:
        return replace(self, table=replace(self.table, left_ms=left_ms))

    def now_ms(self) -> int:
        return self.table.clock_ms()

    def update(
        self, owner: str, task_id: str, update: Update, retry_policy: RetryPolicy = WRITE, claim: Claim | None = None
    ) -> TaskRecord:
        """Make a write and return the task after it. Raises as `update_item`."""
        return self.record(owner, self.update_item(owner, task_id, update, retry_policy, claim))

    def update_item(
        self,
        owner: str,
        task_id: str,
        update: Update,
        retry_policy: RetryPolicy,
        claim: Claim | None,
        *,
        complete: bool = True,
    ) -> Item:
        """Make a write and return the item after it.

        Raises:
            ClaimLost: the task does not have this claim any more.
            Conflict: another condition does not hold.
        """
        try:
            return self.table.update(self.key(owner, task_id), update, retry_policy, complete=complete)
        except ConditionFailed as failure:
            if failure.item is None and failure.unsure:
                raise OutcomeUnknown("the task is gone: whether it was written before cannot be read") from failure
            current = self.live(owner, failure)
            if claim is not None and not has_claim(current, claim):
                raise ClaimLost(current) from failure
            raise self.conflict(current, update) from failure

    def conflict(self, current: TaskRecord, update: Update | None = None) -> Conflict:
        self.table.telemetry.add(STORE_CONFLICTS)
        return Conflict(current, (update.token, update.now_ms) if update and update.token else None)

    def key(self, owner: str, task_id: str) -> Item:
        """The primary key of a task's item. Raises `TaskNotFound` if the id is not a task id."""
        if not is_task_id(task_id):
            raise TaskNotFound
        return key_of(owner, task_id)

    def mover(self, owner: str, task_id: str, item: Item, began_s: float) -> "Mover":
        """The mover for a write that began then, on `monotonic`, to the task with this head."""
        from mcp_baton.tasks.dynamodb.outside import Mover

        until_s = began_s + self.limits.values_ms / 1000
        left_ms = self.table.left_ms()
        if left_ms is not None:
            until_s = min(until_s, self.table.monotonic() + (left_ms - ITEM_MS) / 1000)
        return Mover(self.table, owner, task_id, item, until_s)

    def record(self, owner: str, item: Item) -> TaskRecord:
        def reader() -> Reader:
            from mcp_baton.tasks.dynamodb.read import Fetcher

            return Fetcher(self.table, owner, task_id_of(item))

        return to_record(owner, item, made_once(reader))

    def ended(self, task: TaskRecord) -> TaskRecord:
        """The same task, after the write that ended it. It is not counted as live any more."""
        if counter := self.live_tasks():
            counter.leave(task.owner, task.task_id, stored_item(task))
        return task

    def live(self, owner: str, failure: ConditionFailed, workflow: str | None = None) -> TaskRecord:
        """The live task on which a condition failed.

        Raises:
            TaskNotFound: there is none.
            Conflict: it is not a task of this workflow.
            TaskFinished: it is terminal.
        """
        if failure.item is None or expired(failure.item, self.now_ms()):
            raise TaskNotFound from failure
        current = self.record(owner, failure.item)
        if workflow is not None and current.workflow != workflow:
            raise Conflict(current) from failure
        if current.status.terminal:
            raise TaskFinished(current) from failure
        return current

    def claimed(self, owner: str, item: Item, claim: Claim) -> TaskRecord | None:
        """The task in an item after a write that claimed it; `None` if the claim was lost and is free now.

        If the response to that write was lost, and the function was frozen before the retry, another run may have taken
        the task over: `TaskHeld`.
        """
        task = self.record(owner, item)
        if task.status.terminal:
            raise TaskFinished(task)
        if error := held_error(task, claim, self.now_ms()):
            raise error
        return task if task.claim is None or task.claim.id == claim.id else None

    def live_tasks(self) -> "LiveTasks | None":
        """Counts the owners' live tasks; `None` if their number is not limited."""
        allowed = self.limits.max_tasks_per_owner
        if allowed is None:
            return None
        from mcp_baton.tasks.dynamodb.counting import LiveTasks

        return LiveTasks(self.table, self.limits, allowed)


def held_error(current: TaskRecord, claim: Claim, now_ms: int) -> TaskHeld | None:
    """The error if a claim with another id, which has not ended, prevents this one."""
    other_claim = current.claim
    if other_claim is None or other_claim.id == claim.id or not other_claim.holds_at(now_ms):
        return None
    return TaskHeld(other_claim.until_ms, current)


def has_claim(task: TaskRecord, claim: Claim) -> bool:
    return task.claim is not None and task.claim.id == claim.id and task.claim.until_ms > 0


def stored_item(task: TaskRecord) -> Item:
    """The item that a task was read from: by this store, and not by a list, which leaves out the values."""
    if not isinstance(task.source, dict) or "arguments" not in task.source:
        raise ValueError("a task must be read before it can be written against")
    return task.source
