"""A task in the words of the request's era (docs/http.md).

2025-11-25, schema `Task`; for the 2026 era the extension `io.modelcontextprotocol/tasks`, `Task`.
"""

from mcp_baton.exceptions import ProtocolError
from mcp_baton.protocol.codes import INTERNAL_ERROR
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.server.request import Request
from mcp_baton.tasks.record import TaskRecord, TaskStatus


def shown(request: Request, task: TaskRecord) -> dict[str, Json]:
    """A task in the words of the request's era, without its values."""
    made: dict[str, Json] = {
        "taskId": task.task_id,
        "status": task.status.value,
        "createdAt": task.created_at,
        "lastUpdatedAt": task.updated_at,
    }
    if task.status_message:
        made["statusMessage"] = task.status_message
    if not request.stateless:
        return made | {"ttl": task.ttl_ms, "pollInterval": task.poll_interval_ms}
    return made | {"ttlMs": task.ttl_ms, "pollIntervalMs": task.poll_interval_ms}


def details(request: Request, task: TaskRecord) -> dict[str, Json]:
    """What the 2026 era inlines besides the result: the questions that wait for an answer, or why the task failed."""
    if not request.stateless:
        return {}
    if task.status is TaskStatus.INPUT_REQUIRED and task.job is not None:
        return {"inputRequests": task.job.open}
    return {"error": task.error} if task.error is not None else {}


def failure_of(error: JsonObject) -> ProtocolError:
    """Why a task failed, as the answer to a request."""
    code, message = error.get("code"), error.get("message")
    return ProtocolError(
        code if isinstance(code, int) else INTERNAL_ERROR, str(message or "Internal error"), error.get("data")
    )
