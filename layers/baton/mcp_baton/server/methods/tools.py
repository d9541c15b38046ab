"""`tools/call`: a plain call, or a continuation of a task (docs/workflows.md)."""

import logging
from collections.abc import Callable, Mapping

from mcp_baton.exceptions import Conflict, OutcomeUnknown, ProtocolError, StoreError, TaskFinished, TaskNotFound
from mcp_baton.protocol.codes import HEADER_MISMATCH, INVALID_PARAMS
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.server.methods.task_meta import recorded_meta, unrecorded_meta
from mcp_baton.server.published.param_headers import header_mismatch
from mcp_baton.server.published.tool import Tool
from mcp_baton.server.request import Request
from mcp_baton.server.running.runner import ALONE, Surroundings, call
from mcp_baton.server.running.work import tool_work
from mcp_baton.server.schema.schema import explain
from mcp_baton.tasks.record import TaskRecord, steps_of
from mcp_baton.tasks.recording import record_decided
from mcp_baton.tasks.store import Batch, TaskStore
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.telemetry import RECORDINGS_LOST
from mcp_baton.workflow.continuation import attempts_for, continuation_batch
from mcp_baton.workflow.host import Failed, Mismatch, Outcome

logger = logging.getLogger(__name__)

UNKNOWN_TASK = "unknown task"
WORD_LOST = "the task store did not answer: this call may have been recorded. Look at the task before you make it again"
STORE_DOWN = "the task store is not available"


def call_tool(request: Request) -> JsonObject:
    """Call a tool; when the call names a task, record its outcome there.

    Raises:
        ProtocolError: an unknown tool, or params that are not of the right form.
    """
    name, arguments = request.text("name"), request.object("arguments")
    tool = request.server.tools.get(name)
    if tool is None:
        raise ProtocolError(INVALID_PARAMS, f"Unknown tool: {name}")
    _check_headers(request, tool, arguments)
    task_id = request.bound_task()
    if task_id is None:
        return result_of(tool, outcome_of(request, tool, arguments))
    return _continue(request, tool, arguments, task_id)


def _check_headers(request: Request, tool: Tool, arguments: JsonObject) -> None:
    if not request.stateless:
        return
    mismatch = header_mismatch(tool.mirrored, arguments, request.headers)
    if mismatch:
        raise ProtocolError(HEADER_MISMATCH, f"Header mismatch: {mismatch}")


def outcome_of(request: Request, tool: Tool, arguments: JsonObject, surroundings: Surroundings = ALONE) -> Outcome:
    """How a call of a tool ends."""
    ended = call(request, tool_work(tool), arguments, surroundings)
    if isinstance(ended, Mismatch):
        return Failed(f"Invalid arguments for tool {tool.name}: {explain(ended)}")
    return ended


def result_of(tool: Tool, outcome: Outcome) -> dict[str, Json]:
    """An outcome as a `CallToolResult`."""
    if isinstance(outcome, Failed):
        return {"content": [{"type": "text", "text": outcome.error}], "isError": True}
    return tool.result(outcome)


def _continue(request: Request, tool: Tool, arguments: JsonObject, task_id: str) -> JsonObject:
    """Run the tool exactly as without the task, then record. Recording never changes the tool's result."""
    found = _find(request, task_id)
    live = isinstance(found, TaskRecord)
    variables = TaskVariables(found.variables if isinstance(found, TaskRecord) else {})
    surroundings = Surroundings(variables if live else None, stay=live)
    outcome = outcome_of(request, tool, arguments, surroundings)
    meta = found if isinstance(found, dict) else _record(request, found, tool, outcome, variables)
    result = result_of(tool, outcome)
    own = result.get("_meta")
    return result | {"_meta": {**own, **meta} if isinstance(own, Mapping) else meta}


def _find(request: Request, task_id: str) -> TaskRecord | dict[str, Json]:
    """The live task, or the `_meta` that says why nothing can be recorded."""
    if request.store is None or request.owner is None:
        return unrecorded_meta(request, task_id, UNKNOWN_TASK)
    try:
        task = request.store.get(request.owner, task_id)
    except StoreError as error:
        return _refused(request, task_id, error)
    return _refused(request, task_id, TaskFinished(task)) if task.status.terminal else task


def _record(
    request: Request, task: TaskRecord, tool: Tool, outcome: Outcome, variables: TaskVariables
) -> dict[str, Json]:
    store: TaskStore | None = request.store
    if store is None:
        return unrecorded_meta(request, task.task_id, UNKNOWN_TASK)
    retryable, steps = _retryable(request, task), steps_of(task)

    def decided(current: TaskRecord) -> Batch:
        known = steps if current is task else steps_of(current)
        return continuation_batch(current, known, tool.name, outcome, variables, retryable)

    try:
        recorded = record_decided(store, task, decided, attempts=attempts_for(steps, tool.name))
    except StoreError as error:
        return _refused(request, task.task_id, error)
    return recorded_meta(request, recorded.task, recorded.oversized)


def _refused(request: Request, task_id: str, error: StoreError) -> dict[str, Json]:
    if not isinstance(error, TaskNotFound | TaskFinished):
        request.telemetry.add(RECORDINGS_LOST)
    match error:
        case TaskNotFound():
            return unrecorded_meta(request, task_id, UNKNOWN_TASK)
        case TaskFinished():
            return unrecorded_meta(request, task_id, str(error), error.current)
        case Conflict():
            logger.error("task %s: the call was not recorded, too many others were at the same time", task_id)
            return unrecorded_meta(request, task_id, "the task kept changing; make the call again", error.current)
        case OutcomeUnknown():
            logger.error("task %s: whether the call was recorded is not known", task_id, exc_info=error)
            return unrecorded_meta(request, task_id, WORD_LOST, unknown=True)
        case _:
            logger.error("task %s: the call was not recorded", task_id, exc_info=error)
            return unrecorded_meta(request, task_id, STORE_DOWN)


def _retryable(request: Request, task: TaskRecord) -> Callable[[str], bool]:
    workflow = request.server.workflows.get(task.workflow or "")
    steps = {step.name: step.retryable for step in workflow.steps} if workflow else {}
    return lambda name: steps.get(name, False)
