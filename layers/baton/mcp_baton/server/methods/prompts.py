"""`prompts/get`: a function's messages, or a workflow that runs as far as it can (docs/workflows.md)."""

import logging

from mcp_baton.exceptions import (
    Conflict,
    ProtocolError,
    StoreBusy,
    StoreError,
    TaskFinished,
    TaskHeld,
    TaskNotFound,
    ValueLost,
)
from mcp_baton.protocol.codes import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST
from mcp_baton.protocol.envelope import TASK_ID_KEY
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.server.methods.engine_host import ServerHost
from mcp_baton.server.methods.task_meta import run_meta
from mcp_baton.server.published.prompt import Prompt
from mcp_baton.server.request import Request
from mcp_baton.server.running.runner import call
from mcp_baton.server.running.work import prompt_work
from mcp_baton.server.schema.prompt_arguments import check_arguments, stored_arguments
from mcp_baton.server.schema.schema import explain
from mcp_baton.tasks.record import PROGRESS, TaskRecord, timestamp
from mcp_baton.telemetry import PAUSES, RECORDINGS_LOST, RUNS_COMPLETED, STEP_RETRIES, STEPS_FAILED, STEPS_RUN
from mcp_baton.workflow.definition import Workflow
from mcp_baton.workflow.drift import declared_arguments, differing, given_secrets
from mcp_baton.workflow.engine import Engine
from mcp_baton.workflow.host import Failed, Mismatch
from mcp_baton.workflow.invocation import Invocation
from mcp_baton.workflow.run import RunRecord, Superseded, TaskOver
from mcp_baton.workflow.trace import Message, messages

logger = logging.getLogger(__name__)


def get_prompt(request: Request) -> JsonObject:
    """Get a prompt; run it when it is a workflow.

    Raises:
        ProtocolError: an unknown prompt, arguments that are missing, unknown or do not convert, or a task that this
            workflow cannot go on with. Nothing was run, and no task created.
    """
    name = request.text("name")
    if name in request.server.workflows:
        return _run_workflow(request, request.server.workflows[name])
    if name in request.server.prompts:
        return _get_messages(request, request.server.prompts[name])
    raise ProtocolError(INVALID_PARAMS, f"Unknown prompt: {name}")


def _get_messages(request: Request, prompt: Prompt) -> JsonObject:
    _, converted = check_arguments(prompt.arguments, request.object("arguments"))
    match call(request, prompt_work(prompt), converted):
        case Mismatch() as mismatch:
            raise ProtocolError(INVALID_PARAMS, f"Invalid params: {explain(mismatch)}")
        case Failed(error):
            raise ProtocolError(INTERNAL_ERROR, f"The prompt {prompt.name!r} failed: {error}")
        case made:
            return _result(prompt.labels.description or "", made)


def _run_workflow(request: Request, workflow: Workflow) -> JsonObject:
    host = ServerHost(request)
    with request.telemetry.span(f"workflow {workflow.name}"):
        run = _run(request, workflow, Engine(host, request.store, request.clock, sleep=request.sleep))
    _note(request, run)
    return _render(request, run, host)


def _run(request: Request, workflow: Workflow, engine: Engine) -> RunRecord:
    task_id = request.bound_task()
    try:
        if task_id is None:
            return engine.start(workflow, _invocation(request, workflow, request.object("arguments")))
        return _resume(request, workflow, engine, task_id)
    except StoreBusy as busy:
        data: Json = {"retryAfterMs": busy.retry_after_ms}
        raise ProtocolError(INTERNAL_ERROR, "busy; nothing was run", data) from busy


def _resume(request: Request, workflow: Workflow, engine: Engine, task_id: str) -> RunRecord:
    """Take the task, and go on with it. A claim under which nothing can be run is given back at once."""
    task = _taken(request, workflow, engine, task_id)
    try:
        _refuse_drift(workflow, task)
        given = stored_arguments(declared_arguments(workflow, task), request.object("arguments"))
        _refuse_lost_secrets(workflow, task, given)
        return engine.resume(workflow, _invocation(request, workflow, given), task)
    except Exception as error:
        engine.give_back(task)
        if isinstance(error, StoreError):
            raise _not_read(task_id, error) from error
        raise


def _note(request: Request, run: RunRecord) -> None:
    """What operators count of runs (docs/operating.md)."""
    ran = [trace.outcome for trace in run.traces if not trace.replayed]
    if ran:
        request.telemetry.add(STEPS_RUN, len(ran))
    if any(isinstance(outcome, Failed) for outcome in ran):  # a run stops at the first one
        request.telemetry.add(STEPS_FAILED)
    again = sum(max(trace.attempts - 1, 0) for trace in run.traces)
    if again:
        request.telemetry.add(STEP_RETRIES, again)
    if run.pause:
        request.telemetry.add(PAUSES, of=run.pause.type)
    elif run.stop is None:
        request.telemetry.add(RUNS_COMPLETED)
    refused = run.task is None and run.workflow.durable and request.store is not None and request.owner is not None
    over = isinstance(run.stop, TaskOver | Superseded)  # then no recording was lost
    if refused or (run.persisted is not True and not over):
        request.telemetry.add(RECORDINGS_LOST)


def _invocation(request: Request, workflow: Workflow, given: JsonObject) -> Invocation:
    texts, converted = check_arguments(workflow.arguments, given)
    return Invocation(texts, converted, request.owner, _requested_ttl(request))


def _requested_ttl(request: Request) -> int | None:
    """`task.ttl`, milliseconds (2025-11-25, basic/utilities/tasks); the store cuts it at its maximum."""
    ttl = request.object("task").get("ttl")
    if ttl is None:
        return None
    if not isinstance(ttl, int) or isinstance(ttl, bool) or ttl <= 0:
        raise ProtocolError(INVALID_PARAMS, "Invalid params: `task.ttl` must be a number of milliseconds above 0")
    return ttl


def _taken(request: Request, workflow: Workflow, engine: Engine, task_id: str) -> TaskRecord:
    """The live task of this very workflow that the request wants to go on with, claimed for it."""
    if request.store is None or request.owner is None:
        raise ProtocolError(INVALID_PARAMS, "Unknown task")
    try:
        return engine.take(workflow, request.owner, task_id)
    except TaskNotFound as error:
        raise ProtocolError(INVALID_PARAMS, "Unknown task") from error
    except TaskFinished as error:
        status = error.current.status.value
        raise ProtocolError(INVALID_PARAMS, f"The task is {status}; there is nothing to go on with") from error
    except TaskHeld as error:
        raise _held(error) from error
    except StoreBusy:
        raise
    except StoreError as error:
        if isinstance(error, Conflict) and error.current.workflow != workflow.name:
            message = f"Invalid params: `_meta.{TASK_ID_KEY}` is not a task of this workflow"
            raise ProtocolError(INVALID_PARAMS, message) from error
        raise _not_read(task_id, error) from error


def _held(error: TaskHeld) -> ProtocolError:
    task, until = error.current, timestamp(error.until_ms)
    data: Json = {
        "status": task.status.value,
        "progress": task.variables.get(PROGRESS),
        "runningUntil": until,
    }
    message = (
        f"Another run holds the task until {until} or longer; nothing was run: look at the task, or ask again then"
    )
    return ProtocolError(INVALID_REQUEST, message, data)


def _not_read(task_id: str, error: StoreError) -> ProtocolError:
    # Without the stored state a resume would run completed steps again, so nothing is run.
    logger.error("task %s: it could not be read, so it was not resumed", task_id, exc_info=error)
    if isinstance(error, ValueLost):
        message = f"The task cannot be resumed, since its arguments are gone: {error}. Nothing was run."
    else:
        message = "The task store is not available; nothing was run. Send the same request again."
    return ProtocolError(INTERNAL_ERROR, message)


def _refuse_drift(workflow: Workflow, task: TaskRecord) -> None:
    """A task goes on only where all that it has completed is still there, unchanged (docs/workflows.md)."""
    changed = differing(workflow, task)
    if changed:
        what = f"these steps are completed and differ now: {', '.join(changed)}"
        raise ProtocolError(INVALID_PARAMS, f"The workflow has changed since the task was started; {what}")


def _refuse_lost_secrets(workflow: Workflow, task: TaskRecord, given: JsonObject) -> None:
    lost = sorted(given_secrets(workflow, task) - given.keys())
    if lost:
        names = ", ".join(repr(name) for name in lost)
        message = f"Invalid params: secret arguments are not stored; give them again to resume the task: {names}"
        raise ProtocolError(INVALID_PARAMS, message)


def _render(request: Request, run: RunRecord, host: ServerHost) -> JsonObject:
    made = _result(run.workflow.description, [_message(item) for item in messages(run, host, host.describe)])
    meta = run_meta(request, run)
    return made | {"_meta": meta} if meta else made


def _result(description: str, made: list[Json]) -> dict[str, Json]:
    result: dict[str, Json] = {"messages": made}
    return {"description": description} | result if description else result


def _message(message: Message) -> Json:
    if message.blob is None:
        return {"role": message.role, "content": {"type": "text", "text": message.text}}
    resource: dict[str, Json] = {"uri": message.blob.uri, "blob": message.blob.blob}
    if message.blob.mime_type:
        resource["mimeType"] = message.blob.mime_type
    return {"role": message.role, "content": {"type": "resource", "resource": resource}}
