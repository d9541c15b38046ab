"""`tools/call`: a plain call, or a continuation of a task (contract section 5)."""

import logging
from collections.abc import Callable, Mapping

from mcp_baton.exceptions import Conflict, ProtocolError, StoreError, TaskFinished, TaskNotFound
from mcp_baton.protocol.codes import HEADER_MISMATCH, INVALID_PARAMS
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.server.methods.task_meta import recorded_meta, unrecorded_meta
from mcp_baton.server.published.param_headers import header_mismatch
from mcp_baton.server.published.tool import Tool
from mcp_baton.server.request import Call
from mcp_baton.tasks.record import TaskRecord
from mcp_baton.tasks.recording import record_decided
from mcp_baton.tasks.store import TaskStore
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.telemetry import RECORDINGS_LOST
from mcp_baton.workflow.continuation import attempts_for, continuation_batch
from mcp_baton.workflow.host import Failed, Outcome

logger = logging.getLogger(__name__)

UNKNOWN_TASK = "unknown task"
STORE_DOWN = "the task store is not available"


def call_tool(call: Call) -> JsonObject:
    """Call a tool; when the call names a task, record its outcome there.

    Raises:
        ProtocolError: an unknown tool, or params that are not of the right form.
    """
    name, arguments = call.text("name"), call.object("arguments")
    tool = call.server.tools.get(name)
    if tool is None:
        raise ProtocolError(INVALID_PARAMS, f"Unknown tool: {name}")
    _check_headers(call, tool, arguments)
    task_id = call.bound_task()
    if task_id is None:
        return result_of(tool, call.caller().call_tool(tool, arguments))
    return _continue(call, tool, arguments, task_id)


def _check_headers(call: Call, tool: Tool, arguments: JsonObject) -> None:
    if not call.stateless:
        return
    mismatch = header_mismatch(tool.mirrored, arguments, call.headers)
    if mismatch:
        raise ProtocolError(HEADER_MISMATCH, f"Header mismatch: {mismatch}")


def result_of(tool: Tool, outcome: Outcome) -> dict[str, Json]:
    """An outcome as a `CallToolResult`."""
    if isinstance(outcome, Failed):
        return {"content": [{"type": "text", "text": outcome.error}], "isError": True}
    return tool.result(outcome)


def _continue(call: Call, tool: Tool, arguments: JsonObject, task_id: str) -> JsonObject:
    """Run the tool exactly as without the task, then record. Recording never changes the tool's result."""
    found = _find(call, task_id)
    live = isinstance(found, TaskRecord)
    variables = TaskVariables(found.variables if isinstance(found, TaskRecord) else {})
    outcome = call.caller().call_tool(tool, arguments, variables if live else None, stay=live)
    meta = found if isinstance(found, dict) else _record(call, found, tool, outcome, variables)
    result = result_of(tool, outcome)
    own = result.get("_meta")
    return result | {"_meta": {**own, **meta} if isinstance(own, Mapping) else meta}


def _find(call: Call, task_id: str) -> TaskRecord | dict[str, Json]:
    """The live task, or the `_meta` that says why nothing can be recorded."""
    if call.store is None or call.owner is None:
        return unrecorded_meta(call, task_id, UNKNOWN_TASK)
    try:
        task = call.store.get(call.owner, task_id)
    except StoreError as error:
        return _refused(call, task_id, error)
    return _refused(call, task_id, TaskFinished(task)) if task.status.terminal else task


def _record(call: Call, task: TaskRecord, tool: Tool, outcome: Outcome, variables: TaskVariables) -> dict[str, Json]:
    store: TaskStore | None = call.store
    if store is None:
        return unrecorded_meta(call, task.task_id, UNKNOWN_TASK)
    retryable = _retryable(call, task)
    try:
        recorded = record_decided(
            store,
            task,
            lambda current: continuation_batch(current, tool.name, outcome, variables, retryable),
            attempts=attempts_for(task, tool.name),
        )
    except StoreError as error:
        return _refused(call, task.task_id, error)
    return recorded_meta(call, recorded.task, recorded.oversized)


def _refused(call: Call, task_id: str, error: StoreError) -> dict[str, Json]:
    if not isinstance(error, TaskNotFound | TaskFinished):
        call.telemetry.add(RECORDINGS_LOST)
    match error:
        case TaskNotFound():
            return unrecorded_meta(call, task_id, UNKNOWN_TASK)
        case TaskFinished():
            return unrecorded_meta(call, task_id, str(error), error.current)
        case Conflict():
            logger.error("task %s: the call was not recorded, too many others were at the same time", task_id)
            return unrecorded_meta(call, task_id, "the task kept changing; make the call again", error.current)
        case _:
            logger.error("task %s: the call was not recorded", task_id, exc_info=error)
            return unrecorded_meta(call, task_id, STORE_DOWN)


def _retryable(call: Call, task: TaskRecord) -> Callable[[str], bool]:
    workflow = call.server.workflows.get(task.workflow or "")
    steps = {step.name: step.retryable for step in workflow.steps} if workflow else {}
    return lambda name: steps.get(name, False)
