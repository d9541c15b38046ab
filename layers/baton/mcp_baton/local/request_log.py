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
from mcp_baton.protocol.json import JsonObject
from mcp_baton.server.asking.asker import InputRequired
from mcp_baton.server.methods import Method, call_method
from mcp_baton.server.request import Request
from mcp_baton.server.running.tool_threads import CallerGone
from mcp_baton.server.workflows.engine_host import START_MARGIN_MS
from mcp_baton.tasks.record import paused_step
from mcp_baton.transport.adapter import JOB
from mcp_baton.workflow.pause import DeadlineExceeded, parse_pause

if TYPE_CHECKING:
    from mcp_baton.local.gateway import InvocationContext
    from mcp_baton.local.http_server import LambdaHandler
    from mcp_baton.tasks.store import TaskStore

type Outcome = tuple[Status, str]


def outcome_of(method: str, result: Mapping[str, Any], recorded_as: str | None, time_over: str) -> Outcome:
    try:
        return _outcome(method, result, recorded_as, time_over)
    except (AttributeError, LookupError, TypeError):  # a client completed a task with a result of another form
        return (Status.FAILED, "failed") if result.get("isError") is True else (Status.DONE, "done")


def _outcome(method: str, result: Mapping[str, Any], recorded_as: str | None, time_over: str) -> Outcome:
    meta = result.get("_meta", {})
    if "recorded" in meta:
        return _of_recording(result, meta, recorded_as)
    if result.get("resultType") == "input_required":
        return Status.WAITING, f"asks for {', '.join(map(one_line, result.get('inputRequests', ()))) or 'input'}"
    if "taskId" in result or "task" in result:
        return _of_task(result.get("task", result))
    if result.get("isError") is True:
        return Status.FAILED, _text(result)
    if "task_status" in meta or "pause_reason" in meta:
        return _of_run(meta, time_over)
    if method.endswith("/list"):
        kind, count = method.split("/")[-2], sum(len(it) for it in result.values() if isinstance(it, list | tuple))
        return Status.DONE, f"1 {kind.removesuffix('s')}" if count == 1 else f"{count} {kind}"
    return Status.DONE, "done"


def task_of(result: Mapping[str, Any]) -> str:
    task, meta = result.get("task"), result.get("_meta")
    ids = [result.get("taskId")]
    ids += [task.get("taskId")] if isinstance(task, Mapping) else []
    ids += [meta.get("task_id")] if isinstance(meta, Mapping) else []
    return next((found for found in ids if isinstance(found, str)), "")


def pause_words(reason: JsonObject, time_over: str) -> str:
    """Return why a workflow is paused, such as `paused at refund: missing amount`."""
    pause = parse_pause(reason)
    cause = pause.short_form() if pause else reason.get("type")
    limit = f" ({time_over})" if isinstance(pause, DeadlineExceeded) else ""
    return f"paused at {_word(paused_step(reason))}: {_word(cause)}{limit}"


def _of_recording(result: Mapping[str, Any], meta: Mapping[str, Any], step: str | None) -> Outcome:
    failed = result.get("isError") is True
    if meta["recorded"] is not True:
        whether = "may not be recorded" if meta["recorded"] == "unknown" else "not recorded"
        error = f"; {_text(result)}" if failed else ""
        return Status.FAILED, f"{whether}: {_word(meta.get('record_error'))}{error}"
    where = f"recorded as step {step!r}" if step else "recorded as an extra call"
    if failed:
        return Status.FAILED, f"{where}, failed: {_text(result)}"
    steps = meta.get("steps", ())
    settled = sum(step["status"] in ("completed", "skipped") for step in steps)
    return Status.DONE, f"{where}, {settled} of {len(steps)} steps done" if steps else where


def _of_task(task: Mapping[str, Any]) -> Outcome:
    status = _word(task["status"])
    words = f"{status}: {_word(task['statusMessage'])}" if task.get("statusMessage") else status
    if status == "failed":
        return Status.FAILED, words
    return (Status.WAITING if status in ("input_required", "working") else Status.DONE), words


def _of_run(meta: Mapping[str, Any], time_over: str) -> Outcome:
    reason, status = meta.get("pause_reason", {}), _word(meta.get("task_status", "working"))
    words = pause_words(reason, time_over) if reason else status
    lost = {False: "; not saved", "unknown": "; may not be saved"}.get(meta.get("persisted", True), "")
    pause = parse_pause(reason)
    if lost or status == "failed" or (pause is not None and pause.is_failure):
        return Status.FAILED, words + lost
    return (Status.WAITING if reason else Status.DONE), words


def _text(result: Mapping[str, Any]) -> str:
    return next((one_line(block["text"]) for block in result.get("content", ()) if "text" in block), "failed")


def _word(value: object) -> str:
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
        except InputRequired as asks:
            result = asks.result
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
                    status, words = outcome_of(name, result, recorder.step if recorder else None, time_over(request))
                task = (task_of(result) if result else "") or _named_task(request)
                ms, request_id = 1000 * (time.perf_counter() - began_s), request.exchange.request_id
                Entry(one_line(name), named(name, request.params), task, ms, status, words, request_id).log(logger)
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
        written = self._store.write(task, batch)
        if batch.claim is None:
            self.step = next((step.name for step in reversed(batch.steps)), None)
        return written


def named(method: str, params: JsonObject) -> str:
    """Return the tool, prompt or resource of a request, or the name of the client that initializes."""
    info = params.get("clientInfo") if method == "initialize" else None
    found = info.get("name") if isinstance(info, Mapping) else params.get("name", params.get("uri"))
    return one_line(found, 80) if isinstance(found, str) else ""


def time_over(request: Request) -> str:
    """Return the limit that left a workflow no time for its next step, and its setting."""
    budget_s, left_ms = request.server.options.reply_budget_s, request.left_ms()
    if request.reply.silent and request.elapsed_s() >= budget_s:
        return f"reply_budget_s={budget_s:g} of the Server, as the client listens to no progress"
    if left_ms is not None and left_ms <= START_MARGIN_MS:
        return "--timeout of baton serve, FunctionTimeout when deployed"
    return "no time for another attempt: reply_budget_s of the Server, --timeout"


def _named_task(request: Request) -> str:
    named = request.params.get("taskId")
    try:
        found = named if isinstance(named, str) else request.bound_task()
    except ProtocolError:
        found = None
    return one_line(found, 80) if found else ""


def with_refusals(handler: "LambdaHandler") -> "LambdaHandler":
    """Return a handler that logs an entry for each request that is refused before it reaches a method.

    Hosts probe for optional paths (`GET /.well-known/…`, `GET /mcp`). The HTTP server logs these at the debug level.
    """

    def answer(event: dict[str, Any], context: "InvocationContext") -> dict[str, Any]:
        logged.set(False)
        began_s = time.perf_counter()
        returned = handler(event, context)
        status = int(returned.get("statusCode", 0))
        is_mistake = event["httpMethod"] == "POST" or status == HTTPStatus.FORBIDDEN
        if status >= 400 and is_mistake and not logged.get():
            method, words = (
                one_line(without_token(f"{event['httpMethod']} {event['path']}"), 80),
                one_line(f"{status} {_why(returned)}"),
            )
            ms = 1000 * (time.perf_counter() - began_s)
            Entry(method, "", "", ms, Status.FAILED, words, context.aws_request_id).log(logger)
        return returned

    return answer


def _why(returned: dict[str, Any]) -> str:
    try:
        error = json.loads(returned.get("body") or "")["error"]
    except (ValueError, KeyError, TypeError):
        return ""
    return str(error.get("message", "")) if isinstance(error, dict) else str(error)


def with_entries[Context](
    handler: Callable[[dict[str, Any], Context], dict[str, Any]],
) -> Callable[[dict[str, Any], Context], dict[str, Any]]:
    """Return a handler that logs an entry for each task that it has worked on."""

    def work(event: dict[str, Any], context: Context) -> dict[str, Any]:
        began_s = time.perf_counter()
        done = handler(event, context)
        outcome = str(done.get("outcome", "done"))
        Entry(
            method="worker",
            name="",
            task=str(event.get(JOB, {}).get("taskId", "")),
            ms=1000 * (time.perf_counter() - began_s),
            status=Status.FAILED if outcome.startswith(("failed", "given up")) else Status.DONE,
            words=one_line(outcome),
            request_id=str(getattr(context, "aws_request_id", "")),
        ).log(logger)
        return done

    return work
