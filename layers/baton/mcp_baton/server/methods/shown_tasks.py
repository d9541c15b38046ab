"""A task in the words of the request's era (docs/http.md).

2025-11-25, schema `Task`; for the 2026 era the extension `io.modelcontextprotocol/tasks`, `Task`.
"""

import math
from datetime import datetime
from typing import Final

from mcp_baton.exceptions import ProtocolError
from mcp_baton.protocol.codes import INTERNAL_ERROR, MISSING_CLIENT_CAPABILITY
from mcp_baton.protocol.envelope import TASKS_EXTENSION
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.server.methods.task_meta import status_message_of
from mcp_baton.server.request import Request
from mcp_baton.tasks.record import TaskRecord, TaskStatus

INTERVALS_MS: Final = ((10_000, 1_000), (60_000, 5_000), (math.inf, 15_000))
"""Until which age of a task it is to be looked at how often, milliseconds."""

PERSON_MS: Final = 60_000
"""How often a task is to be looked at that waits for a person, milliseconds."""


def shown(request: Request, task: TaskRecord) -> dict[str, Json]:
    """A task in the words of the request's era, without its values."""
    made: dict[str, Json] = {
        "taskId": task.task_id,
        "status": task.status.value,
        "createdAt": task.created_at,
        "lastUpdatedAt": task.updated_at,
    }
    message = status_message_of(task, request.now_ms)
    if message:
        made["statusMessage"] = message
    interval_ms = poll_interval_ms(request, task)
    if not request.stateless:
        return made | {"ttl": task.ttl_ms, "pollInterval": interval_ms}
    return made | {"ttlMs": task.ttl_ms, "pollIntervalMs": interval_ms}


def poll_interval_ms(request: Request, task: TaskRecord) -> int:
    """How long the client is asked to wait before it looks at a task again, milliseconds."""
    chosen = request.server.poll_interval_s
    return interval_ms(task, request.now_ms()) if chosen is None else max(1, round(chosen * 1000))


def interval_ms(task: TaskRecord, now_ms: int) -> int:
    """The same by the task's age: what takes long is looked at seldom (docs/background.md, Status and polling)."""
    if task.status is TaskStatus.INPUT_REQUIRED:
        return PERSON_MS
    age_ms = now_ms - datetime.fromisoformat(task.created_at).timestamp() * 1000
    return next(interval for until, interval in INTERVALS_MS if age_ms < until)


def check_extension(request: Request) -> None:
    """Refuse what is about tasks to a client of the 2026 era that has not declared the extension.

    Raises:
        ProtocolError: it has not.
    """
    if request.stateless and not request.envelope.speaks_tasks:
        data: Json = {"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}}
        raise ProtocolError(MISSING_CLIENT_CAPABILITY, "Missing required client capability", data)


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
