"""One task behind a server."""

from collections.abc import Mapping
from typing import Any

from mcp_baton.cli.remote.client import Remote
from mcp_baton.cli.remote.ending import Failure
from mcp_baton.cli.remote.task import TaskState
from mcp_baton.cli.remote.tools import look


class ServedTasks:
    """The caller's tasks.

    Args:
        remote: The server.
    """

    def __init__(self, remote: Remote) -> None:
        self._remote = remote

    def state(self, task_id: str) -> TaskState:
        """A task as it stands."""
        return look(self._remote, task_id)

    def cancel(self, task_id: str) -> TaskState:
        """Cancel a task.

        Raises:
            Failure: it is over.
        """
        return self._ended(task_id, {}, "cancelled")

    def complete(self, task_id: str, result: dict[str, Any]) -> TaskState:
        """Complete a task with a result.

        Raises:
            Failure: it is over.
        """
        return self._ended(task_id, {"result": result}, "completed")

    def _ended(self, task_id: str, params: Mapping[str, Any], status: str) -> TaskState:
        # The 2026 era acknowledges either way, whether or not the task was over.
        before = look(self._remote, task_id)
        if not before.over:
            self._remote.request("tasks/cancel", {"taskId": task_id, **params})
            before = after = look(self._remote, task_id)
            if after.status == status and (not params or _supplied(after) == _bare(params["result"])):
                return after
        raise Failure(f"the task {task_id} is {before.status}: nothing changes it")


def _supplied(task: TaskState) -> Any:
    """The result that a client supplied; `None` where a tool or a run made it."""
    return _bare(task.result) if task.result_by else None


def _bare(result: Any) -> Any:
    """A result without what the server adds to that of a tool."""
    if not isinstance(result, Mapping):
        return result
    return {name: value for name, value in result.items() if name not in ("resultType", "_meta")}
