"""The tasks of an owner that a caller may use (docs/tools.md, Scopes).

One owner may have several tokens with different scopes. A task that the caller may not use does not exist for it, in
any method.
"""

from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from mcp_baton.exceptions import TaskNotFound
from mcp_baton.protocol.json import JsonObject
from mcp_baton.server.view import ServerView
from mcp_baton.tasks.record import EXTRA_PREFIX, Claim, StepStatus, TaskPage, TaskRecord, steps_of
from mcp_baton.tasks.store import TaskStore

if TYPE_CHECKING:
    from mcp_baton.tasks.jobs import JobStore


def may_use(seen: ServerView, task: TaskRecord) -> bool:
    """Whether a caller may use a task: it must see the task's tool, or its workflow and so all tools of that.

    It must also see each tool whose result the task contains: those of steps of an earlier definition, and of other
    recorded calls. The scopes of a removed tool are unknown, so a caller who lacks any scope does not see it.

    Args:
        seen: The server as the caller sees it.
        task: The task. A task from a list does not have its other calls.
    """
    if task.workflow is not None and task.workflow not in seen.workflows:
        return False
    called = None if task.job is None else task.job.work.tool
    if called is not None and called not in seen.tools and called not in seen.workflow_tool_names:
        return False
    ran = {step["tool"] for step in steps_of(task) if "tool" in step and step["status"] != StepStatus.PENDING}
    extra = {name.removeprefix(EXTRA_PREFIX) for name in task.variables if name.startswith(EXTRA_PREFIX)}
    return ran | extra <= seen.tools.keys()


def callers_tasks(store: TaskStore, seen: ServerView) -> TaskStore:
    """The tasks in a store that a caller may use.

    Args:
        store: The store.
        seen: The server as the caller sees it.
    """
    return cast("TaskStore", CallersTasks(store, seen))


class CallersTasks:
    """A `TaskStore` for a caller who lacks scopes. Each method with a task id reads the task first. For writes this is
    one more `GetItem`. The tool and the workflow of a task never change."""

    def __init__(self, store: TaskStore, seen: ServerView) -> None:
        self._store = store
        self._seen = seen

    def __getattr__(self, name: str) -> Any:
        """What takes no task's id is the store's own, and so is `read_status`, which only tells the status."""
        return getattr(self._store, name)

    @property
    def jobs(self) -> "JobStore":
        """The jobs whose questions the caller may answer."""
        return cast("JobStore", CallersJobs(self._store.jobs, self))

    def get(self, owner: str, task_id: str) -> TaskRecord:
        """Read one task, as `TaskStore.get`."""
        task = self._store.get(owner, task_id)
        if not may_use(self._seen, task):
            raise TaskNotFound
        return task

    def list(self, owner: str, cursor: str | None = None) -> TaskPage:
        """One page, as `TaskStore.list`; tasks that the caller may not use are missing."""
        page = self._store.list(owner, cursor)
        return replace(page, tasks=[task for task in page.tasks if may_use(self._seen, task)])

    def take(self, owner: str, task_id: str, workflow: str, claim: Claim) -> TaskRecord:
        """Claim a task, as `TaskStore.take`."""
        self.get(owner, task_id)
        return self._store.take(owner, task_id, workflow, claim)

    def cancel(self, owner: str, task_id: str) -> TaskRecord:
        """Cancel a task, as `TaskStore.cancel`."""
        self.get(owner, task_id)
        return self._store.cancel(owner, task_id)

    def complete(self, owner: str, task_id: str, result: JsonObject, *, by_client: bool = True) -> TaskRecord:
        """Complete a task, as `TaskStore.complete`."""
        self.get(owner, task_id)
        return self._store.complete(owner, task_id, result, by_client=by_client)


class CallersJobs:
    """A `JobStore` for a caller who lacks scopes."""

    def __init__(self, jobs: "JobStore", tasks: CallersTasks) -> None:
        self._jobs = jobs
        self._tasks = tasks

    def __getattr__(self, name: str) -> Any:
        """Methods without a task id are those of the store. So is `claim`, which only a worker uses."""
        return getattr(self._jobs, name)

    def answer(self, owner: str, task_id: str, answers: JsonObject) -> TaskRecord | None:
        """Answer a job's questions, as `JobStore.answer`."""
        self._tasks.get(owner, task_id)
        return self._jobs.answer(owner, task_id, answers)
