"""`tasks/*`, in both eras (docs/http.md).

2025-11-25, basic/utilities/tasks; for the 2026 era the extension `io.modelcontextprotocol/tasks` (SEP-2663).
"""

import logging
from collections.abc import Callable, Mapping
from typing import Final

from mcp_baton.exceptions import ProtocolError, StoreError, StoreUnavailable, TaskFinished, TaskNotFound, TooLarge
from mcp_baton.present.mcp_task import (
    ALL,
    NONE,
    VARIABLES_KEY,
    listed_view,
    poll_interval_ms,
    result_view,
    task_summary,
    task_view,
)
from mcp_baton.present.sentences import UNKNOWN_TASK, unchanged_text
from mcp_baton.present.stored_task import related_task, view_of
from mcp_baton.present.view import NEXT_KEY
from mcp_baton.protocol.envelope import TASKS_EXTENSION
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.protocol.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    InvalidParams,
    checked_object,
    missing_capability,
)
from mcp_baton.tasks.record import PROGRESS, TaskRecord, TaskStatus
from mcp_baton.tasks.store import TaskStore
from mcp_baton.tools.running.tool_threads import CallerGone
from mcp_baton.workflow.dispatching import WatchedTask, dispatch, redispatch_at_poll, wake_waiting_jobs
from mcp_baton.workflow.request import Request

logger = logging.getLogger(__name__)


def get_task(request: Request) -> JsonObject:
    """Return the view of a task: its variables are in `_meta`; in the 2026 era it contains the result."""
    values, following = _values_asked(request), _next_calls(request)

    def read(_store: TaskStore, _owner: str) -> JsonObject:
        task = redispatch_at_poll(request, request.own_task(request.task_id()))
        if task.status is TaskStatus.INPUT_REQUIRED and not request.stateless:
            from mcp_baton.background.task_questions import send_questions

            send_questions(request, task)
        return task_view(task, request, values=values, next_calls=following)

    return from_store(request, read)


def _values_asked(request: Request) -> str | None:
    meta = request.envelope.meta
    if VARIABLES_KEY not in meta:
        return None
    if (choice := meta[VARIABLES_KEY]) not in (ALL, NONE):
        raise InvalidParams(
            f'`_meta[\'{VARIABLES_KEY}\']` must be "{ALL}" or "{NONE}"; '
            "leave it out for the values that are kept with the task",
        )
    return str(choice)


def _next_calls(request: Request) -> Callable[[TaskRecord], list[JsonObject]] | None:
    """Return what suggests calls, if the client asks for them."""
    if request.envelope.meta.get(NEXT_KEY) is not True:
        return None
    from mcp_baton.workflow.continuations import plan_of
    from mcp_baton.workflow.remaining import next_calls

    # They are for people, who can correct a call that has failed.
    return lambda task: next_calls(plan_of(request.server, task), request.server, with_failed=True)


def list_tasks(request: Request) -> JsonObject:
    """List the owner's tasks, newest first. `_meta` has the state of a workflow's task, or the tool of a background job
    (docs/http.md)."""
    cursor = request.params.get("cursor")
    cursor = None if cursor == "" else cursor
    if cursor is not None and not isinstance(cursor, str):
        raise InvalidParams("`cursor` must be a string")
    if request.store is None or request.owner is None:
        return {"tasks": []}
    try:
        page = from_store(request, lambda _store, _owner: request.own_page(cursor))
    except ValueError as error:
        raise InvalidParams("`cursor` was not returned by this list") from error
    result: dict[str, Json] = {"tasks": [listed_view(task, request) for task in page.tasks]}
    return result | {"nextCursor": page.cursor} if page.cursor else result


def task_result(request: Request) -> JsonObject:
    """Return the result of a task. If a worker runs the task, wait for its end. A paused workflow waits for this
    client, so the answer is an error at once."""

    def read(store: TaskStore, _owner: str) -> JsonObject:
        task = request.own_task(request.task_id())
        if task.job is not None:
            task = _wait_for_end(request, store, task)
        if not task.status.terminal:
            data: dict[str, Json] = {"status": task.status.value, "progress": task.variables.get(PROGRESS)}
            raise ProtocolError(INVALID_REQUEST, "The task has no result yet: it waits for its client", data)
        return result_view(task, related_task(task.task_id), request.budget)

    return from_store(request, read)


def cancel_task(request: Request) -> JsonObject:
    """Cancel a task, or complete it if the params have a `result`."""
    task_id, result = request.task_id(), _client_result(request)

    def finish(store: TaskStore, owner: str) -> TaskRecord:
        request.check_own(task_id)
        finished_task = store.cancel(owner, task_id) if result is None else store.complete(owner, task_id, result)
        wake_waiting_jobs(request.services, store, finished_task)
        return finished_task

    try:
        task = from_store(request, finish)
    except TaskFinished as error:
        if request.stateless:
            return {}
        raise ProtocolError(INVALID_PARAMS, unchanged_text(error.current.status, "The task")) from error
    return {} if request.stateless else task_summary(task, request)


def update_task(request: Request) -> JsonObject:
    """Pass the client's answers to a task. After the last one the worker is invoked.

    Answers to questions that are not open are ignored, as are all answers to a finished task.
    """
    sent = checked_object(request.params.get("inputResponses"), "inputResponses")
    responses = {key: checked_object(response, f"inputResponses.{key}") for key, response in sent.items()}
    task_id = request.task_id()
    task = None

    def answer(store: TaskStore, owner: str) -> TaskRecord | None:
        request.check_own(task_id)
        return store.jobs.answer(owner, task_id, responses)

    if responses:
        try:
            task = from_store(request, answer)
        except TaskFinished:
            return {}
    if task is None:
        from_store(request, lambda _store, _owner: redispatch_at_poll(request, request.own_task(task_id)))
    elif task.status is TaskStatus.WORKING:
        dispatch(request.services, task)
    return {}


def _client_result(request: Request) -> JsonObject | None:
    if "result" not in request.params:
        return None
    result = request.params["result"]
    if not isinstance(result, Mapping):
        raise InvalidParams("`result` must be an object, as every MCP result is")
    return result


def check_extension(request: Request) -> None:
    """Raise `ProtocolError` if a client of the 2026 era has not declared the tasks extension."""
    if request.stateless and not request.envelope.speaks_tasks:
        raise missing_capability({"extensions": {TASKS_EXTENSION: {}}})


def from_store[T](request: Request, action: Callable[[TaskStore, str], T]) -> T:
    """Call `action` with the store and the owner. Unknown, expired and other owners' tasks have the same error."""
    check_extension(request)
    try:
        return action(*request.own_tasks())
    except TaskNotFound as error:
        raise ProtocolError(INVALID_PARAMS, UNKNOWN_TASK) from error
    except TaskFinished:
        raise
    except TooLarge as error:
        raise InvalidParams(str(error)) from error
    except StoreError as error:
        # The text names tables, endpoints and roles, so only the log has it. The client gets an id to find it there.
        logger.exception("request %s: the task store failed", request.exchange.request_id)
        is_down = isinstance(error, StoreUnavailable)
        problem = "is not available. Send the same request again." if is_down else "could not do this."
        raise request.internal_error(f"The task store {problem}") from error


RESULT_READ_S: Final = 1.0
"""How often a waiting request reads its task, seconds."""

MAX_UNSTREAMED_WAIT_S: Final = 25.0
"""The longest wait for an answer that is not streamed, seconds: API Gateway gives up after 29 s
(https://docs.aws.amazon.com/apigateway/latest/developerguide/api-gateway-execution-service-limits-table.html)."""


def _wait_for_end(request: Request, store: TaskStore, task: TaskRecord) -> TaskRecord:
    from mcp_baton.background.task_questions import ask_open_questions

    watched_task, since_s = WatchedTask(request, store, task), request.began_s
    while not watched_task.task.status.terminal:
        remaining_s = _remaining_s(request, since_s)
        if remaining_s <= 0:
            break
        if watched_task.task.status is TaskStatus.INPUT_REQUIRED:
            answered_task = ask_open_questions(request, watched_task.task)
            if answered_task is None:
                break
            # The time that the person needed does not count.
            watched_task.task, since_s = answered_task, request.services.clock()
            continue
        request.pause(min(RESULT_READ_S, remaining_s))
        if request.exchange.gone:
            raise CallerGone
        watched_task.refresh()
    _check_completed(request, watched_task.task)
    return watched_task.task


def _remaining_s(request: Request, since_s: float) -> float:
    limit_s = request.server.options.result_wait_s
    if not request.exchange.can_stream:
        limit_s = min(limit_s, MAX_UNSTREAMED_WAIT_S)
    remaining_s, function_remaining_s = limit_s - (request.services.clock() - since_s), request.left_s()
    return remaining_s if function_remaining_s is None else min(remaining_s, function_remaining_s)


def _check_completed(request: Request, task: TaskRecord) -> None:
    if task.error is not None:
        code, message = task.error.get("code"), str(task.error.get("message") or "Internal error")
        raise ProtocolError(code if isinstance(code, int) else INTERNAL_ERROR, message, task.error.get("data"))
    if task.status is TaskStatus.COMPLETED:
        return
    data: dict[str, Json] = {"status": task.status.value}
    if task.status.terminal:
        raise ProtocolError(INVALID_REQUEST, f"The task is {task.status.value}: it has no result", data)
    data["pollInterval"] = poll_interval_ms(task, view_of(task, request.now_ms()), request)
    if task.status is TaskStatus.INPUT_REQUIRED:
        raise ProtocolError(INVALID_REQUEST, "The task has no result yet: it waits for the client's answers", data)
    raise ProtocolError(INVALID_REQUEST, "The task has no result yet: poll `tasks/get` until it is over", data)
