"""`tasks/*` for clients with the official Python SDK's session, which supports custom requests but no tasks."""

from typing import Any

import mcp_types as types
from mcp import ClientSession
from mcp.shared.exceptions import MCPError
from pydantic import ConfigDict, TypeAdapter

EXTENSION = "io.modelcontextprotocol/tasks"
COMPLETION = {"resultType": "complete", "content": [{"type": "text", "text": "Refunded"}]}
RESULT: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])


class TaskParams(types.RequestParams):
    """Any params; `taskId` names the task."""

    model_config = ConfigDict(extra="allow")


class TaskRequest(types.Request[TaskParams, str]):
    """A `tasks/*` request. The task's id is in the header `Mcp-Name` too."""

    params: TaskParams

    name_param = "taskId"


class ListRequest(types.Request[TaskParams, str]):
    """`tasks/list`, which names no task."""


class Tasks:
    def __init__(self, session: ClientSession) -> None:
        self._session = session

    async def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the result, or the error's code as `{"error": code}`."""
        kind = TaskRequest if "taskId" in params else ListRequest
        request = kind(method=method, params=TaskParams(**params))
        try:
            result: dict[str, Any] = await self._session.send_request(request, RESULT)
        except MCPError as error:
            return {"error": error.code}
        return result

    async def use_tasks(self, task_id: str, second_task_id: str) -> dict[str, Any]:
        """Read one task, complete it, and cancel another."""
        return {
            "task": await self.send("tasks/get", taskId=task_id),
            "listed": await self.send("tasks/list"),
            "completed": await self.send("tasks/cancel", taskId=task_id, result=COMPLETION),
            "after": await self.send("tasks/get", taskId=task_id),
            "result": await self.send("tasks/result", taskId=task_id),
            "cancelled": await self.send("tasks/cancel", taskId=second_task_id),
            "gone": await self.send("tasks/get", taskId=second_task_id),
            "unknown": await self.send("tasks/get", taskId="0" * 34),
        }
