"""A task that a request waits for (docs/background.md, Status and polling)."""

from mcp_baton.server.methods.jobs.dispatching import looked_after
from mcp_baton.server.request import Request
from mcp_baton.tasks.record import Standing, TaskRecord, TaskStatus
from mcp_baton.tasks.store import TaskStore


class Followed:
    """A task, looked at again and again by the cheapest read. Where that says that it has changed, or that nobody works
    on it, it is read in full; then another worker is sent for, as by any poll.

    Args:
        request: On whose behalf.
        store: Where it is kept.
        task: The task as it was read.

    Attributes:
        task: The task as it was read in full last.
    """

    def __init__(self, request: Request, store: TaskStore, task: TaskRecord) -> None:
        self._request = request
        self._store = store
        self.task = looked_after(request, task)

    def look(self) -> None:
        """Look at the task.

        Raises:
            TaskNotFound: it has expired.
            StoreError: it cannot be read.
        """
        if self.task.status.terminal:
            return
        standing = self._store.look(self.task.owner, self.task.task_id)
        if standing.version > self.task.version or self._is_deserted(standing):
            self.task = looked_after(self._request, self._store.get(self.task.owner, self.task.task_id))

    def _is_deserted(self, standing: Standing) -> bool:
        """Whether a worker is to be sent for, or the task to be given up, as far as a light look tells."""
        job, claim, now_ms = self.task.job, standing.claim, self._request.now_ms()
        if job is None or standing.status is not TaskStatus.WORKING:
            return False
        if claim is not None and claim.holds_at(now_ms):
            return False
        is_used_up = claim is not None and claim.number >= job.allowed
        return is_used_up or (job.due_ms < now_ms and self._request.dispatcher is not None)
