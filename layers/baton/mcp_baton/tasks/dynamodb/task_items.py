"""The items of the tasks in a table, for the task store and the job store (docs/storage.md)."""

from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from mcp_baton.exceptions import Conflict, TaskFinished, TaskHeld, TaskNotFound
from mcp_baton.tasks.dynamodb.attributes import Item
from mcp_baton.tasks.dynamodb.items import Limits, expired, key_of, task_id_of, to_record
from mcp_baton.tasks.dynamodb.table import ConditionFailed, TaskTable
from mcp_baton.tasks.dynamodb.values import Reader, RecentWrites
from mcp_baton.tasks.ids import is_task_id
from mcp_baton.tasks.record import Claim, TaskRecord

if TYPE_CHECKING:
    from mcp_baton.tasks.dynamodb.counting import LiveTasks
    from mcp_baton.tasks.dynamodb.outside import Places
    from mcp_baton.tasks.dynamodb.s3 import ObjectStore


class TaskItems(Struct, frozen=True, eq=False):
    """The items of the tasks in a table. `objects` is S3, for large values; `None` if there is no bucket."""

    table: TaskTable
    limits: Limits = Limits()
    objects: "ObjectStore | None" = None
    recent: RecentWrites = field(default_factory=RecentWrites)

    def within(self, left_ms: Callable[[], int | None]) -> "TaskItems":
        return replace(self, table=replace(self.table, left_ms=left_ms))

    def now_ms(self) -> int:
        """The time by which claims end, epoch milliseconds."""
        return self.table.clock_ms()

    def key(self, owner: str, task_id: str) -> Item:
        """The primary key of a task's item. Raises `TaskNotFound` if the id is not a task id."""
        if not is_task_id(task_id):
            raise TaskNotFound
        return key_of(owner, task_id)

    def record(self, owner: str, item: Item) -> TaskRecord:
        return to_record(owner, item, cache(partial(self._reader, owner, task_id_of(item))))

    def _reader(self, owner: str, task_id: str) -> Reader:
        from mcp_baton.tasks.dynamodb.outside import Fetcher

        return Fetcher(self.places(), owner, task_id)

    def places(self) -> "Places":
        from mcp_baton.tasks.dynamodb.outside import Places

        return Places(self.table, self.objects, self.recent)

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
        if task.claim is None or task.claim.id == claim.id:
            return task
        if task.claim.holds_at(self.now_ms()):
            raise TaskHeld(task.claim.until_ms, task)
        return None

    def live_tasks(self) -> "LiveTasks | None":
        """Counts the owners' live tasks; `None` if their number is not limited."""
        allowed = self.limits.max_tasks_per_owner
        if allowed is None:
            return None
        from mcp_baton.tasks.dynamodb.counting import LiveTasks

        return LiveTasks(self.table, self.limits, allowed)

    def uncount(self, owner: str, task_id: str, item: Item) -> None:
        if live := self.live_tasks():
            live.leave(owner, task_id, item)


def may_claim(current: Claim, claim: Claim, now_ms: int) -> bool:
    """Whether a claim may replace the current one: both have the same id, or the current one has ended."""
    return current.id == claim.id or not current.holds_at(now_ms)


def has_claim(task: TaskRecord, claim: Claim) -> bool:
    return task.claim is not None and task.claim.id == claim.id and task.claim.until_ms > 0


def stored_item(task: TaskRecord) -> Item:
    """The item that a task was read from: by this store, and not by a list, which leaves out the values."""
    if not isinstance(task.source, dict) or "arguments" not in task.source:
        raise ValueError("a task must be read before it can be written against")
    return task.source
