"""The log entry of each request: its outcome is read from the result before it is serialized."""

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec import structs

from mcp_baton.exceptions import ProtocolError
from mcp_baton.local.log import Entry, Status, one_line
from mcp_baton.protocol.json import Json, JsonObject
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

LISTS: Final = {
    "tools/list": ("tools", "tool"),
    "prompts/list": ("prompts", "prompt"),
    "resources/list": ("resources", "resource"),
    "resources/templates/list": ("resourceTemplates", "template"),
    "tasks/list": ("tasks", "task"),
}
"""For each method that lists: the result's member, and the singular of its entries."""

WAITING_STATUSES: Final = ("input_required", "working")


def outcome_of(method: str, result: JsonObject, recorded_as: str | None, time_over: str) -> Outcome:
    """Return the outcome of a request that has a result."""
    meta = _object(result.get("_meta"))
    if "recorded" in meta:
        return _of_recording(result, meta, recorded_as)
    if result.get("resultType") == "input_required":
        return Status.WAITING, f"asks for {_keys(result.get('inputRequests')) or 'input'}"
    if "taskId" in result or "task" in result:
        return _of_task(_object(result.get("task")) or result)
    if result.get("isError") is True:
        return Status.FAILED, _text(result)
    if "task_status" in meta or "pause_reason" in meta:
        return _of_run(meta, time_over)
    if method in LISTS:
        member, noun = LISTS[method]
        found = result.get(member)
        count = len(found) if isinstance(found, Sequence) else 0
        return Status.DONE, f"1 {noun}" if count == 1 else f"{count} {noun}s"
    return Status.DONE, "done"


def task_of(result: JsonObject) -> str:
    for holder in (result, _object(result.get("task"))):
        if isinstance(holder.get("taskId"), str):
            return str(holder["taskId"])
    found = _object(result.get("_meta")).get("task_id")
    return found if isinstance(found, str) else ""


def pause_words(reason: JsonObject, time_over: str) -> str:
    """Return why a workflow is paused, such as `paused at refund: missing amount`."""
    pause = parse_pause(reason)
    cause = pause.short_form() if pause else reason.get("type")
    limit = f" ({time_over})" if isinstance(pause, DeadlineExceeded) else ""
    return f"paused at {_word(paused_step(reason))}: {_word(cause)}{limit}"


def _of_recording(result: JsonObject, meta: JsonObject, step: str | None) -> Outcome:
    failed = result.get("isError") is True
    if meta["recorded"] is True:
        where = f"recorded as step {step!r}" if step else "recorded as an extra call"
        words = f"{where}, failed: {_text(result)}" if failed else f"{where}{_all_done(meta)}"
        return (Status.FAILED if failed else Status.DONE), words
    whether = "may not be recorded" if meta["recorded"] == "unknown" else "not recorded"
    error = f"; {_text(result)}" if failed else ""
    return Status.FAILED, f"{whether}: {_word(meta.get('record_error'))}{error}"


def _all_done(meta: JsonObject) -> str:
    steps = meta.get("steps")
    if not isinstance(steps, Sequence) or isinstance(steps, str) or not steps:
        return ""
    settled = sum(_object(step).get("status") in ("completed", "skipped") for step in steps)
    return f", {settled} of {len(steps)} steps done"


def _of_task(task: JsonObject) -> Outcome:
    status = _word(task.get("status"))
    message = task.get("statusMessage")
    words = f"{status}: {_word(message)}" if isinstance(message, str) and message else status
    if status == "failed":
        return Status.FAILED, words
    return (Status.WAITING if status in WAITING_STATUSES else Status.DONE), words


def _of_run(meta: JsonObject, time_over: str) -> Outcome:
    reason = _object(meta.get("pause_reason"))
    status = _word(meta.get("task_status", "working"))
    words = pause_words(reason, time_over) if reason else status
    lost = {False: "; not saved", "unknown": "; may not be saved"}.get(meta.get("persisted", True), "")
    pause = parse_pause(reason)
    failed = bool(lost) or (pause is not None and pause.is_failure) or status == "failed"
    if failed:
        return Status.FAILED, words + lost
    return (Status.WAITING if reason else Status.DONE), words


def _text(result: JsonObject) -> str:
    content = result.get("content")
    blocks = content if isinstance(content, Sequence) and not isinstance(content, str) else ()
    texts = (_object(block).get("text") for block in blocks)
    return next((one_line(text) for text in texts if isinstance(text, str)), "failed")


def _object(value: Json) -> JsonObject:
    return value if isinstance(value, Mapping) else {}


def _keys(value: Json) -> str:
    return ", ".join(map(one_line, _object(value)))


def _word(value: object) -> str:
    return one_line(value) if isinstance(value, str) else "?"


logger = logging.getLogger("baton.requests")

NAMES: Final = ("name", "uri")
QUIET: Final = frozenset({"ping"})
"""Requests with which hosts check that the server is running. They are logged at the debug level only."""

logged: ContextVar[bool] = ContextVar("logged", default=False)
"""Whether this thread has logged an entry for its HTTP request."""


def watched(method: Method = call_method) -> Method:
    """Return a method that logs an entry for each request."""

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
            if name not in QUIET or logger.isEnabledFor(logging.DEBUG):
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
    if method == "initialize":
        info = params.get("clientInfo")
        client = info.get("name") if isinstance(info, dict) else None
        return one_line(client, 40) if isinstance(client, str) else ""
    found = next((params[name] for name in NAMES if isinstance(params.get(name), str)), "")
    return one_line(str(found), 80)


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
        if status >= 400 and not logged.get() and _is_mistake(event, status):
            _entry(event, returned, context.aws_request_id, 1000 * (time.perf_counter() - began_s)).log(logger)
        return returned

    return answer


def _is_mistake(event: dict[str, Any], status: int) -> bool:
    return event["httpMethod"] == "POST" or status == HTTPStatus.FORBIDDEN


def _entry(event: dict[str, Any], returned: dict[str, Any], request_id: str, ms: float) -> Entry:
    method = one_line(f"{event['httpMethod']} {event['path']}", 80)
    words = f"{returned['statusCode']} {_why(returned)}"
    return Entry(method, "", "", ms, Status.FAILED, one_line(words), request_id)


def _why(returned: dict[str, Any]) -> str:
    try:
        error = json.loads(returned.get("body") or "")["error"]
    except (ValueError, KeyError, TypeError):
        return ""
    return str(error.get("message", "")) if isinstance(error, dict) else str(error)


FAILURES: Final = ("failed", "given up")


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
            status=Status.FAILED if outcome.startswith(FAILURES) else Status.DONE,
            words=one_line(outcome),
            request_id=str(getattr(context, "aws_request_id", "")),
        ).log(logger)
        return done

    return work
