"""The log entry of each request: its outcome is read from the result before it is serialized."""

import json
import logging
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec import structs

from mcp_baton.exceptions import ProtocolError
from mcp_baton.local.log import Entry, Status, one_line, without_token
from mcp_baton.present.sentences import short_form
from mcp_baton.present.view import TaskView, view_in_meta
from mcp_baton.protocol.json import JsonObject
from mcp_baton.server.methods import Method, call_method
from mcp_baton.tools.asking import InputRequired
from mcp_baton.tools.running.tool_threads import CallerGone
from mcp_baton.transport.adapter import JOB
from mcp_baton.workflow.engine_host import START_MARGIN_MS
from mcp_baton.workflow.pause import DeadlineExceeded
from mcp_baton.workflow.request import Request

if TYPE_CHECKING:
    from mcp_baton.local.gateway import InvocationContext
    from mcp_baton.local.http_server import LambdaHandler
    from mcp_baton.tasks.store import TaskStore

type Outcome = tuple[Status, str]


def outcome_of(method: str, result: Mapping[str, Any], recorded_as: str | None, limit_text: str) -> Outcome:
    try:
        return _outcome(method, result, recorded_as, limit_text)
    except (AttributeError, LookupError, TypeError):  # a client completed a task with a result of another form
        return (Status.FAILED, "failed") if result.get("isError") is True else (Status.DONE, "done")


def _outcome(method: str, result: Mapping[str, Any], recorded_as: str | None, limit_text: str) -> Outcome:
    meta = result.get("_meta", {})
    if "recorded" in meta:
        return _recording_outcome(result, meta, recorded_as)
    if result.get("resultType") == "input_required":
        return Status.WAITING, f"asks for {', '.join(map(one_line, result.get('inputRequests', ()))) or 'input'}"
    if "taskId" in result or "task" in result:
        return _task_outcome(result.get("task", result))
    if result.get("isError") is True:
        return Status.FAILED, _text(result)
    if "task_status" in meta or "pause_reason" in meta:
        return _run_outcome(meta, limit_text)
    if method.endswith("/list"):
        kind = method.split("/")[-2]
        count = sum(len(items) for items in result.values() if isinstance(items, list | tuple))
        return Status.DONE, f"1 {kind.removesuffix('s')}" if count == 1 else f"{count} {kind}"
    return Status.DONE, "done"


def task_of(result: Mapping[str, Any]) -> str:
    task, meta = result.get("task"), result.get("_meta")
    ids = [result.get("taskId")]
    ids += [task.get("taskId")] if isinstance(task, Mapping) else []
    ids += [meta.get("task_id")] if isinstance(meta, Mapping) else []
    return next((task_id for task_id in ids if isinstance(task_id, str)), "")


def pause_words(view: TaskView, limit_text: str) -> str:
    """Return the reason of a pause, such as `paused at refund: missing amount`."""
    reason = view.reason
    cause = short_form(reason) if reason else (view.pause or {}).get("type")
    limit = f" ({limit_text})" if isinstance(reason, DeadlineExceeded) else ""
    return f"paused at {_short_text(view.step)}: {_short_text(cause)}{limit}"


def _recording_outcome(result: Mapping[str, Any], meta: Mapping[str, Any], step: str | None) -> Outcome:
    is_error = result.get("isError") is True
    if meta["recorded"] is not True:
        state = "may not be recorded" if meta["recorded"] == "unknown" else "not recorded"
        error = f"; {_text(result)}" if is_error else ""
        return Status.FAILED, f"{state}: {_short_text(meta.get('record_error'))}{error}"
    record = f"recorded as step {step!r}" if step else "recorded as an extra call"
    if is_error:
        return Status.FAILED, f"{record}, failed: {_text(result)}"
    view = view_in_meta(meta)
    return Status.DONE, f"{record}, {view.progress}" if view.steps else record


def _task_outcome(task: Mapping[str, Any]) -> Outcome:
    status = _short_text(task["status"])
    words = f"{status}: {_short_text(task['statusMessage'])}" if task.get("statusMessage") else status
    if status == "failed":
        return Status.FAILED, words
    return (Status.WAITING if status in ("input_required", "working") else Status.DONE), words


def _run_outcome(meta: Mapping[str, Any], limit_text: str) -> Outcome:
    view = view_in_meta(meta)
    words = pause_words(view, limit_text) if view.pause else _short_text(view.status)
    persistence = {False: "; not saved", "unknown": "; may not be saved"}.get(meta.get("persisted", True), "")
    if persistence or view.status == "failed" or (view.reason is not None and view.reason.is_failure):
        return Status.FAILED, words + persistence
    return (Status.WAITING if view.pause else Status.DONE), words


def _text(result: Mapping[str, Any]) -> str:
    return next((one_line(block["text"]) for block in result.get("content", ()) if "text" in block), "failed")


def _short_text(value: object) -> str:
    return one_line(value) if isinstance(value, str) else "?"


logger = logging.getLogger("baton.requests")

QUIET: Final = "ping"
"""The request with which hosts check that the server is running. It is logged at the debug level only."""

logged: ContextVar[bool] = ContextVar("logged", default=False)
"""Whether this thread has logged an entry for its HTTP request."""


def with_request_log(method: Method = call_method) -> Method:

    def call(request: Request) -> JsonObject:
        began_s, recorder, result, failure = time.perf_counter(), None, None, ""
        if request.store is not None and request.message.method == "tools/call":
            recorder = _Recorder(request.store)
            request = structs.replace(request, store=cast("TaskStore", recorder))
        try:
            result = method(request)
        except InputRequired as questions:
            result = questions.result
            raise
        except ProtocolError as error:
            failure = error.message
            raise
        except CallerGone:
            failure = "the client went away"
            raise
        except Exception as error:
            failure = f"internal error: {type(error).__name__}: {error}"
            raise
        finally:
            logged.set(True)
            name = request.message.method
            if name != QUIET or logger.isEnabledFor(logging.DEBUG):
                status, words = Status.FAILED, one_line(failure)
                if result is not None:
                    recorded_as = recorder.step if recorder else None
                    status, words = outcome_of(name, result, recorded_as, time_limit_text(request))
                task = (task_of(result) if result else "") or _requested_task(request)
                ms, request_id = 1000 * (time.perf_counter() - began_s), request.exchange.request_id
                target = target_name(name, request.params)
                Entry(one_line(name), target, task, ms, status, words, request_id).log(logger)
        return result

    return call


class _Recorder:
    """A store that notes the step as which a continuation is recorded."""

    def __init__(self, store: "TaskStore") -> None:
        self._store = store
        self.step: str | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def write(self, task: Any, batch: Any) -> Any:
        """Write a batch, and note its step if it is not from a run."""
        result = self._store.write(task, batch)
        if batch.claim is None:
            self.step = next((step.name for step in reversed(batch.steps)), None)
        return result


def target_name(method: str, params: JsonObject) -> str:
    """Return the tool, prompt or resource of a request, or the name of the client that initializes."""
    info = params.get("clientInfo") if method == "initialize" else None
    name = info.get("name") if isinstance(info, Mapping) else params.get("name", params.get("uri"))
    return one_line(name, 80) if isinstance(name, str) else ""


def time_limit_text(request: Request) -> str:
    """Return the limit that stopped a workflow before its next step, and its setting."""
    budget_s, remaining_ms = request.server.options.reply_budget_s, request.left_ms()
    if request.exchange.silent and request.elapsed_s() >= budget_s:
        return f"reply_budget_s={budget_s:g} of the Server, as the client listens to no progress"
    if remaining_ms is not None and remaining_ms <= START_MARGIN_MS:
        return "--timeout of baton serve, FunctionTimeout when deployed"
    return "no time for another attempt: reply_budget_s of the Server, --timeout"


def _requested_task(request: Request) -> str:
    task_id = request.params.get("taskId")
    try:
        bound_id = task_id if isinstance(task_id, str) else request.bound_task()
    except ProtocolError:
        bound_id = None
    return one_line(bound_id, 80) if bound_id else ""


def with_refusal_log(handler: "LambdaHandler") -> "LambdaHandler":
    """Return a handler that logs an entry for each request that is refused before it reaches a method.

    Hosts probe for optional paths (`GET /.well-known/…`, `GET /mcp`). The HTTP server logs these at the debug level.
    Events that are no HTTP requests, such as the clock's, have no entry.
    """

    def answer(event: dict[str, Any], context: "InvocationContext") -> dict[str, Any]:
        if "httpMethod" not in event:
            return handler(event, context)
        logged.set(False)
        began_s = time.perf_counter()
        response = handler(event, context)
        status = int(response.get("statusCode", 0))
        is_mistake = event["httpMethod"] == "POST" or status == HTTPStatus.FORBIDDEN
        if status >= 400 and is_mistake and not logged.get():
            method, words = (
                one_line(without_token(f"{event['httpMethod']} {event['path']}"), 80),
                one_line(f"{status} {_error_message(response)}"),
            )
            ms = 1000 * (time.perf_counter() - began_s)
            Entry(method, "", "", ms, Status.FAILED, words, context.aws_request_id).log(logger)
        return response

    return answer


def _error_message(response: dict[str, Any]) -> str:
    try:
        error = json.loads(response.get("body") or "")["error"]
    except (ValueError, KeyError, TypeError):
        return ""
    return str(error.get("message", "")) if isinstance(error, dict) else str(error)


def with_task_log[Context](
    handler: Callable[[dict[str, Any], Context], dict[str, Any]],
) -> Callable[[dict[str, Any], Context], dict[str, Any]]:
    """Return a handler that logs an entry for each task that it has worked on."""

    def work(event: dict[str, Any], context: Context) -> dict[str, Any]:
        began_s = time.perf_counter()
        result = handler(event, context)
        outcome = str(result.get("outcome", "done"))
        Entry(
            method="worker",
            name="",
            task=str(event.get(JOB, {}).get("taskId", "")),
            ms=1000 * (time.perf_counter() - began_s),
            status=Status.FAILED if outcome.startswith(("failed", "given up")) else Status.DONE,
            words=one_line(outcome),
            request_id=str(getattr(context, "aws_request_id", "")),
        ).log(logger)
        return result

    return work
