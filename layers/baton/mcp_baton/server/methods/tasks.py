"""`tasks/*` for workflow tasks, in the words of both eras (contract section 6).

2025-11-25, basic/utilities/tasks; for the 2026 era the extension `io.modelcontextprotocol/tasks` (SEP-2663).
"""

import logging
from collections.abc import Callable, Mapping

from mcp_baton.exceptions import (
    ProtocolError,
    StoreError,
    StoreUnavailable,
    TaskFinished,
    TaskNotFound,
    TooLarge,
)
from mcp_baton.protocol.codes import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, MISSING_CLIENT_CAPABILITY
from mcp_baton.protocol.envelope import TASKS_EXTENSION
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.server.methods.task_meta import related_task
from mcp_baton.server.methods.task_values import result_of, wanted_values, with_values
from mcp_baton.server.request import Call
from mcp_baton.tasks.record import PROGRESS, TaskRecord
from mcp_baton.tasks.store import TaskStore

logger = logging.getLogger(__name__)


def get_task(call: Call) -> JsonObject:
    """The task as it stands, its variables in `_meta`, one key a variable; in the 2026 era with its result inlined."""
    wanted = wanted_values(call)

    def look(store: TaskStore, owner: str) -> JsonObject:
        task = store.get(owner, call.text("taskId"))
        return with_values(call, task, shown(call, task), wanted)

    return _from_store(call, look)


def list_tasks(call: Call) -> JsonObject:
    """The owner's tasks, newest first."""
    cursor = call.params.get("cursor")
    if cursor is not None and not isinstance(cursor, str):
        raise ProtocolError(INVALID_PARAMS, "Invalid params: `cursor` must be a string")
    if call.store is None or call.owner is None:
        return {"tasks": []}
    try:
        page = _from_store(call, lambda store, owner: store.list(owner, cursor))
    except ValueError as error:
        message = "Invalid params: `cursor` is not one that this list gave out"
        raise ProtocolError(INVALID_PARAMS, message) from error
    made: dict[str, Json] = {"tasks": [shown(call, task) for task in page.tasks]}
    return made | {"nextCursor": page.cursor} if page.cursor else made


def task_result(call: Call) -> JsonObject:
    """A finished task's result. A paused workflow waits for this very client, so it is answered at once."""

    def look(store: TaskStore, owner: str) -> JsonObject:
        task = store.get(owner, call.text("taskId"))
        if not task.status.terminal:
            data: dict[str, Json] = {"status": task.status.value, "progress": task.variables.get(PROGRESS)}
            raise ProtocolError(INVALID_REQUEST, "The task has no result yet: it waits for the client to go on", data)
        return result_of(call, task, related_task(task.task_id))

    return _from_store(call, look)


def cancel_task(call: Call) -> JsonObject:
    """Cancel a task, or complete it when the params carry a `result`."""
    task_id, result = call.text("taskId"), _completion(call)

    def finish(store: TaskStore, owner: str) -> TaskRecord:
        return store.cancel(owner, task_id) if result is None else store.complete(owner, task_id, result)

    try:
        task = _from_store(call, finish)
    except TaskFinished as error:
        if call.stateless:
            return {}
        raise ProtocolError(INVALID_PARAMS, f"The task is {error.current.status.value}: nothing changes it") from error
    return {} if call.stateless else shown(call, task)


def update_task(call: Call) -> JsonObject:
    """Take the client's answers to a task's input requests. A workflow task has asked nothing, so all are ignored."""
    responses = call.params.get("inputResponses")
    if not isinstance(responses, Mapping):
        raise ProtocolError(INVALID_PARAMS, "Invalid params: `inputResponses` must be an object")
    _from_store(call, lambda store, owner: store.get(owner, call.text("taskId")))
    return {}


def shown(call: Call, task: TaskRecord) -> dict[str, Json]:
    """A task in the words of the request's era, without its values."""
    made: dict[str, Json] = {
        "taskId": task.task_id,
        "status": task.status.value,
        "createdAt": task.created_at,
        "lastUpdatedAt": task.updated_at,
    }
    if task.status_message:
        made["statusMessage"] = task.status_message
    if not call.stateless:
        return made | {"ttl": task.ttl_ms, "pollInterval": task.poll_interval_ms}
    return made | {"ttlMs": task.ttl_ms, "pollIntervalMs": task.poll_interval_ms}


def _completion(call: Call) -> JsonObject | None:
    if "result" not in call.params:
        return None
    result = call.params["result"]
    if not isinstance(result, Mapping):
        raise ProtocolError(INVALID_PARAMS, "Invalid params: `result` must be an object, as every MCP result is")
    return result


def _from_store[T](call: Call, ask: Callable[[TaskStore, str], T]) -> T:
    """What the store says. A task that is unknown, expired or foreign gets one and the same answer."""
    if call.stateless and not call.envelope.speaks_tasks:
        data: Json = {"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}}
        raise ProtocolError(MISSING_CLIENT_CAPABILITY, "Missing required client capability", data)
    if call.store is None or call.owner is None:
        raise ProtocolError(INVALID_PARAMS, "Unknown task")
    try:
        return ask(call.store, call.owner)
    except TaskNotFound as error:
        raise ProtocolError(INVALID_PARAMS, "Unknown task") from error
    except TaskFinished:
        raise
    except TooLarge as error:
        raise ProtocolError(INVALID_PARAMS, f"Invalid params: {error}") from error
    except StoreError as error:
        # What it says names tables, endpoints and roles: that is for the log, and an id to find it by for the client.
        logger.exception("request %s: the task store failed", call.exchange.request_id)
        down = isinstance(error, StoreUnavailable)
        why = "is not available. Send the same request again." if down else "could not do this."
        data = {"correlationId": call.exchange.request_id}
        raise ProtocolError(INTERNAL_ERROR, f"The task store {why}", data) from error
