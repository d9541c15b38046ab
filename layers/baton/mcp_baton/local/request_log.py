"""The log entry of each request: its outcome is read from the result before it is serialized."""

import json
import logging
import time
from collections.abc import Mapping
from contextvars import ContextVar
from http import HTTPStatus
from typing import Any, Final

from mcp_baton.exceptions import ProtocolError
from mcp_baton.local.gateway import InvocationContext
from mcp_baton.local.log import Entry, Status, one_line, without_token
from mcp_baton.local.worker_pool import LambdaHandler
from mcp_baton.present.pause_sentences import short_form
from mcp_baton.present.view import TaskView, view_in_meta
from mcp_baton.protocol.json import JsonObject
from mcp_baton.server.methods import call_method
from mcp_baton.tasks.record import paused_step
from mcp_baton.tasks.step_ids import parse_step_id
from mcp_baton.tools.asking import InputRequired
from mcp_baton.tools.running.tool_threads import CallerGone
from mcp_baton.transport.adapter import JOB_EVENT
from mcp_baton.workflow.request import Request
from mcp_baton.workflow.stored_pauses import parse_pause

logger = logging.getLogger("baton.requests")

QUIET: Final = "ping"
"""The request with which hosts check that the server is running. It is logged at the debug level only."""

logged: ContextVar[bool] = ContextVar("logged", default=False)
"""Whether this thread has logged an entry for its HTTP request."""

type Outcome = tuple[Status, str]


def logged_call(request: Request) -> JsonObject:
    """Call the method of a request, and log an entry for it."""
    began_s, outcome, result = time.perf_counter(), (Status.FAILED, ""), None
    name = request.message.method
    try:
        result = call_method(request)
    except InputRequired as questions:
        result = questions.result
        raise
    except Exception as error:
        text = f"internal error: {type(error).__name__}: {error}"
        text = error.message if isinstance(error, ProtocolError) else text
        outcome = Status.FAILED, "the client went away" if isinstance(error, CallerGone) else one_line(text)
        raise
    finally:
        logged.set(True)
        if name != QUIET or logger.isEnabledFor(logging.DEBUG):
            status, words = outcome if result is None else outcome_of(name, result)
            task = (_task_in(result) if result else "") or _requested_task(request)
            _log(one_line(name), _target(name, request.params), task, began_s, status, words)
    return result


def _log(method: str, name: str, task: str, began_s: float, status: Status, words: str) -> None:
    Entry(method, name, task, 1000 * (time.perf_counter() - began_s), status, words).log(logger)


def outcome_of(method: str, result: Mapping[str, Any]) -> Outcome:
    try:
        return _outcome(method, result)
    except (AttributeError, LookupError, TypeError):  # a client completed a task with a result of another form
        return (Status.FAILED, "failed") if result.get("isError") is True else (Status.DONE, "done")


def _outcome(method: str, result: Mapping[str, Any]) -> Outcome:
    meta = result.get("_meta", {})
    if "recorded" in meta:
        return _recording_outcome(result, meta)
    if result.get("resultType") == "input_required":
        return Status.WAITING, f"asks for {', '.join(map(one_line, result.get('inputRequests', ()))) or 'input'}"
    if "taskId" in result or "task" in result:
        return _task_outcome(result.get("task", result))
    if result.get("isError") is True:
        return Status.FAILED, _text(result)
    if "task_status" in meta or "pause_reason" in meta:
        return _run_outcome(meta)
    if method.endswith("/list"):
        kind = method.split("/")[-2]
        count = sum(len(items) for items in result.values() if isinstance(items, list | tuple))
        return Status.DONE, f"1 {kind.removesuffix('s')}" if count == 1 else f"{count} {kind}"
    return Status.DONE, "done"


def _recording_outcome(result: Mapping[str, Any], meta: Mapping[str, Any]) -> Outcome:
    failure = _text(result) if result.get("isError") is True else ""
    if meta["recorded"] is not True:
        state = "may not be recorded" if meta["recorded"] == "unknown" else "not recorded"
        return Status.FAILED, f"{state}: {_short_text(meta.get('record_error'))}{f'; {failure}' if failure else ''}"
    if failure:
        return Status.FAILED, f"recorded, failed: {failure}"
    view = view_in_meta(meta)
    return Status.DONE, f"recorded, {view.progress}" if view.steps else "recorded"


def _task_outcome(task: Mapping[str, Any]) -> Outcome:
    status = _short_text(task["status"])
    words = f"{status}: {_short_text(task['statusMessage'])}" if task.get("statusMessage") else status
    if status == "failed":
        return Status.FAILED, words
    return (Status.WAITING if status in ("input_required", "working") else Status.DONE), words


def _run_outcome(meta: Mapping[str, Any]) -> Outcome:
    view = view_in_meta(meta)
    words = pause_words(view) if view.pause else _short_text(view.status)
    persistence = {False: "; not saved", "unknown": "; may not be saved"}.get(meta.get("persisted", True), "")
    if persistence or view.status == "failed" or (any(reason.is_failure for reason in view.reasons)):
        return Status.FAILED, words + persistence
    return (Status.WAITING if view.pause else Status.DONE), words


def pause_words(view: TaskView) -> str:
    """Return the reasons of a pause, such as `paused at refund: missing amount`."""
    texts = []
    for pause in view.pauses:
        reason = parse_pause(pause)
        cause = short_form(reason) if reason else pause.get("type")
        texts.append(f"{_short_text(paused_step(pause))}: {_short_text(cause)}")
    return f"paused at {'; at '.join(texts)}"


def _text(result: Mapping[str, Any]) -> str:
    return next((one_line(block["text"]) for block in result.get("content", ()) if "text" in block), "failed")


def _short_text(value: object) -> str:
    return one_line(value) if isinstance(value, str) else "?"


def _task_in(result: Mapping[str, Any]) -> str:
    places = [(result, "taskId"), (result.get("task"), "taskId"), (result.get("_meta"), "task_id")]
    ids = (place.get(name) for place, name in places if isinstance(place, Mapping))
    return next((task_id for task_id in ids if isinstance(task_id, str)), "")


def _requested_task(request: Request) -> str:
    task_id = request.params.get("taskId")
    try:
        named = parse_step_id(task_id) if isinstance(task_id, str) else request.bound_step()
    except ProtocolError:
        named = None
    return one_line(named.task_id, 80) if named else ""


def _target(method: str, params: JsonObject) -> str:
    """Return the tool, prompt or resource of a request, or the name of the client that initializes."""
    info = params.get("clientInfo") if method == "initialize" else None
    name = info.get("name") if isinstance(info, Mapping) else params.get("name", params.get("uri"))
    return one_line(name, 80) if isinstance(name, str) else ""


def with_refusal_log(handler: LambdaHandler) -> LambdaHandler:
    """Return a handler that logs an entry for each request that is refused before it reaches a method.

    Hosts probe for optional paths (`GET /.well-known/…`, `GET /mcp`). The HTTP server logs these at the debug level.
    """

    def answer(event: dict[str, Any], context: InvocationContext) -> dict[str, Any]:
        if "httpMethod" not in event:
            return handler(event, context)
        logged.set(False)
        began_s = time.perf_counter()
        response = handler(event, context)
        status = int(response.get("statusCode", 0))
        is_mistake = event["httpMethod"] == "POST" or status == HTTPStatus.FORBIDDEN
        if status >= 400 and is_mistake and not logged.get():
            line = one_line(without_token(f"{event['httpMethod']} {event['path']}"), 80)
            _log(line, "", "", began_s, Status.FAILED, one_line(f"{status} {_error_message(response)}"))
        return response

    return answer


def _error_message(response: dict[str, Any]) -> str:
    try:
        error = json.loads(response.get("body") or "")["error"]
    except (ValueError, KeyError, TypeError):
        return ""
    return str(error.get("message", "")) if isinstance(error, dict) else str(error)


def with_task_log(handler: LambdaHandler) -> LambdaHandler:
    """Return a handler that logs an entry for each task that it has worked on."""

    def work(event: dict[str, Any], context: InvocationContext) -> dict[str, Any]:
        began_s = time.perf_counter()
        result = handler(event, context)
        outcome, task = str(result.get("outcome", "done")), str(event.get(JOB_EVENT, {}).get("taskId", ""))
        status = Status.FAILED if outcome.startswith(("failed", "given up")) else Status.DONE
        _log("worker", "", task, began_s, status, one_line(outcome))
        return result

    return work
