"""Callbacks: results that external systems send to waiting steps (docs/waiting.md).

A step gives its address to another system (`ctx.callback_url`). A request to the address settles the waiting step, as a
continuation settles a step with a tool: by one conditional write, without a claim.
"""

import logging
from secrets import token_urlsafe
from typing import Final

from msgspec import Struct, to_builtins

from mcp_baton.exceptions import (
    BatonError,
    Conflict,
    EventError,
    StoreError,
    TaskFinished,
    TaskNotFound,
    TooLarge,
    ToolError,
)
from mcp_baton.hints import did_you_mean
from mcp_baton.protocol.http import CALLBACKS_PATH, HttpRequest, HttpResponse
from mcp_baton.protocol.json import MAX_DEPTH, Json, JsonObject, is_deeper_than, json_size
from mcp_baton.tasks.ids import text_digest
from mcp_baton.tasks.keys import digest_of
from mcp_baton.tasks.record import (
    CALL_PREFIX,
    EARLY_PREFIX,
    WAIT_PREFIX,
    StepStatus,
    TaskRecord,
    steps_of,
    waiting_jobs,
)
from mcp_baton.tasks.store import Batch, CallbackTarget, StepWrite, TaskStore, write_decided
from mcp_baton.tools.approval import AFTER_WAITS_MS
from mcp_baton.tools.calls import ToolCall
from mcp_baton.tools.schema.prompt_arguments import convert
from mcp_baton.tools.schema.schema import InvalidArguments
from mcp_baton.transport.exchange import Exchange
from mcp_baton.transport.json_api import Refused, json_in, reply
from mcp_baton.workflow.dispatching import wake
from mcp_baton.workflow.execution import Execution
from mcp_baton.workflow.services import Services
from mcp_baton.workflow.steps.step import Step

logger = logging.getLogger(__name__)

MAX_CALLBACK_BYTES: Final = 262_144
CALLBACK_WRITE_ATTEMPTS: Final = 10
UNKNOWN_CALLBACK: Final = "There is no such callback."


class ReceivedCallback(Struct, frozen=True):
    """A callback that was received.

    Attributes:
        digests: The digests of its JSON and of the sender's key. Two requests with a digest in common are the same
            callback.
    """

    body: Json
    digests: JsonObject


# The address


def callback_url(execution: Execution, call: ToolCall, name: str) -> str:
    """Make a new address for a waiting step of the call's task: one `PutItem`. Only a digest of the address is stored.

    Raises:
        ToolError: the call belongs to no stored task.
        BatonError: its workflow has no such step, or the API's address is not known. No other call of the model
            corrects that, so the text is for the log.
    """
    store, task = execution.store, call.task
    workflow = None if call.workflow is None else execution.server.workflows.get(call.workflow.name)
    step = workflow.callbacks.get(name) if workflow else None
    if store is None or task is None or workflow is None:
        raise ToolError(f"callback_url({name!r}): this call is not one of a stored task", retryable=False)
    if step is None:
        names = list(workflow.callbacks)
        hint = did_you_mean(name, names) or f"; add wait_for_callback({name!r}, …) to it"
        cause = f"the workflow {workflow.name!r} has no step of this name that waits for a callback{hint}"
        raise BatonError(f"callback_url({name!r}): {cause}")
    if not execution.base_url:
        cause = "the address of the API is not known; set PublicUrl (BATON_BASE_URL)"
        raise BatonError(f"callback_url({name!r}): {cause}")
    token = token_urlsafe(32)
    ends_ms = max(task.created_ms + task.ttl_ms, execution.now_ms() + step.longest_wait_ms + AFTER_WAITS_MS)
    store.callbacks.add(text_digest(token), CallbackTarget(task.owner, task.task_id, name, execution.job_id), ends_ms)
    return f"{execution.base_url}{CALLBACKS_PATH}{token}"


# Requests


def answer(services: Services, request: HttpRequest, exchange: Exchange) -> HttpResponse:
    """Answer a request to a callback's address. The token in it is the only credential."""
    if request.method != "POST":
        return reply(405, {"error": "Method not allowed: use POST"}).allowing("POST")
    token, key = request.path.removeprefix(CALLBACKS_PATH), request.headers.get("idempotency-key")
    try:
        _deliver(services, exchange, token, json_in(request, MAX_CALLBACK_BYTES), key)
    except Refused as error:
        return error.response
    except StoreError:
        logger.exception("request %s: a callback could not be stored", exchange.request_id)
        return reply(503, {"error": "The callback was not stored. Send it again.", "requestId": exchange.request_id})
    return reply(200, {"accepted": True})


def deliver_event(services: Services, event: JsonObject, exchange: Exchange) -> JsonObject:
    """Deliver the callback of an event: `{"token": …, "id": …, "payload": …}`. Returns the outcome, for the log.

    Raises:
        EventError: the callback is refused. Lambda delivers an asynchronous event twice more, and then drops it.
        StoreError: the callback was not stored. Lambda delivers the event again in the same way.
    """
    token, key = event.get("token"), event.get("id")
    if not isinstance(token, str) or not (key is None or isinstance(key, str)) or "payload" not in event:
        raise EventError("the event's `batonCallback` needs `token`, a string, and `payload`; `id` is a string")
    if is_deeper_than(event["payload"], MAX_DEPTH):
        raise EventError(f"the callback's payload is nested deeper than {MAX_DEPTH} levels")
    try:
        is_large = json_size(event["payload"]) > MAX_CALLBACK_BYTES
    except ValueError as error:  # Lambda's runtime reads NaN and infinities
        raise EventError(f"the callback's `payload` is not JSON: {error}") from None
    if is_large:
        raise EventError(f"the callback's payload has more than {MAX_CALLBACK_BYTES} bytes")
    try:
        _deliver(services, exchange, token, event["payload"], key)
    except Refused as error:
        raise EventError(f"the callback is refused with {error.response.status}: {error}") from None
    return {"accepted": True}


def _deliver(services: Services, exchange: Exchange, token: str, body: Json, key: str | None) -> None:
    """Store a callback and wake its task. Raises `Refused` or `StoreError`."""
    waits = any(workflow.callbacks for workflow in services.server.workflows.values())
    store = services.store.within(exchange.remaining_ms) if services.store and waits else None
    pointer = store.callbacks.find(text_digest(token)) if store else None
    if store is None or pointer is None:
        raise Refused(404, UNKNOWN_CALLBACK)
    digests: JsonObject = {"digest": digest_of(body)}
    callback = ReceivedCallback(body, digests if key is None else {**digests, "key": text_digest(key)})
    try:
        task = store.get(pointer.owner, pointer.task_id)
        if _is_new(task, pointer, callback, store.now_ms()):
            task = _store(services, store, task, pointer, callback)
    except TaskNotFound:
        raise Refused(404, UNKNOWN_CALLBACK) from None
    except TaskFinished as error:
        task = error.current
        _is_new(task, pointer, callback, store.now_ms())
    logger.info("task %s: the callback of the step %s was accepted", pointer.task_id, pointer.step)
    for job_id in task.wakes:
        wake(services, store, pointer.owner, job_id)


def _is_new(task: TaskRecord, pointer: CallbackTarget, callback: ReceivedCallback, now_ms: int) -> bool:
    """Whether a callback is the first one; `False` for a repetition. Raises `Refused` if it is too late, or if another
    callback was accepted."""
    step = next((step for step in steps_of(task) if step["name"] == pointer.step), None)
    accepted_digests = task.variables.get(f"{CALL_PREFIX}{pointer.step}")
    # The step of an accepted callback may be skipped later, because its condition is false.
    if step is not None and StepStatus(step["status"]).settled and isinstance(accepted_digests, dict):
        if any(accepted_digests.get(name) == value for name, value in callback.digests.items()):
            return False
        raise Refused(409, "Another callback was accepted before.")
    until_ms = task.variables.get(f"{WAIT_PREFIX}{pointer.step}")
    timed_out = isinstance(until_ms, int) and until_ms <= now_ms
    if step is None or timed_out or task.status.terminal or step["status"] != StepStatus.PENDING:
        raise Refused(410, "The task no longer waits for this callback.")
    return True


def _store(
    services: Services, store: TaskStore, task: TaskRecord, pointer: CallbackTarget, callback: ReceivedCallback
) -> TaskRecord:
    workflow = services.server.workflows.get(task.workflow or "")
    step = workflow.callbacks.get(pointer.step) if workflow else None
    if step is None:
        raise Refused(410, "The task no longer waits for this callback.")
    value = _convert_body(step, callback.body)
    is_always_due = step.when is None and (workflow is None or workflow.parallel == 1 or not workflow.needs(step))

    def decide(current: TaskRecord) -> Batch:
        if not _is_new(current, pointer, callback, store.now_ms()):
            raise _AlreadyStored(current)
        index, stored = next(pair for pair in enumerate(steps_of(current)) if pair[1]["name"] == pointer.step)
        expected = StepStatus(stored["status"])
        write = StepWrite(index, pointer.step, expected, StepStatus.COMPLETED, value, callback.digests)
        # The jobs that wait, or the job that has created the address. A continuation may have created it, too.
        jobs = waiting_jobs(current.variables) or ((pointer.job_id,) if pointer.job_id else ())
        # A worker may suspend the workflow at this moment. Then its job must be woken.
        is_unsure = not jobs and workflow is not None and workflow.background
        is_reached = is_always_due or f"{WAIT_PREFIX}{pointer.step}" in current.variables
        variables: JsonObject = {} if is_reached else {f"{EARLY_PREFIX}{pointer.step}": True}
        return Batch(steps=(write,), variables=variables, wakes=jobs, same_version=is_unsure)

    try:
        return write_decided(store, task, decide, attempts=CALLBACK_WRITE_ATTEMPTS, sleep=services.sleep)
    except _AlreadyStored as error:
        return error.current
    except Conflict as error:
        raise StoreError("other writers changed the task during each attempt") from error
    except TooLarge as error:
        raise Refused(413, "Content too large: the task has no room for it") from error


class _AlreadyStored(Exception):
    """The same callback was stored meanwhile."""

    def __init__(self, current: TaskRecord) -> None:
        super().__init__()
        self.current = current


def _convert_body(step: Step, body: Json) -> Json:
    """Convert the body to the type of its step. Raises `Refused`, which names the invalid fields."""
    try:
        return convert(body, step.returns)
    except InvalidArguments as error:
        fields: list[Json] = [{"field": name, "problem": "it is missing"} for name in error.mismatch.missing]
        fields += to_builtins(error.mismatch.invalid)
        raise Refused(422, f"The body does not match its type: {error}", invalidFields=fields) from None
