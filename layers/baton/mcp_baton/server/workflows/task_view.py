"""Which of a task's values an answer shows, and which it only names: it has a budget (docs/storage.md, Budgets)."""

import logging
import math
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from mcp_baton.exceptions import ProtocolError, StoreError, StoreUnavailable, ValueLost
from mcp_baton.protocol.envelope import TASKS_EXTENSION
from mcp_baton.protocol.json import Json, JsonObject, dumps
from mcp_baton.protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, MISSING_CLIENT_CAPABILITY
from mcp_baton.server.definitions.resource import value_uri
from mcp_baton.server.request import Request
from mcp_baton.server.workflows.task_meta import shown_pause, status_message_of
from mcp_baton.tasks.record import PAUSE_REASON, PROGRESS, TaskRecord, TaskStatus
from mcp_baton.tasks.values import FINAL_RESULT, Weight, read_ahead, weight_of

logger = logging.getLogger(__name__)

VARIABLES_KEY: Final = "mcp-baton/variables"
TIMINGS_KEY: Final = "mcp-baton/timings"
NEXT_KEY: Final = "mcp-baton/next"
RESULT_BY_KEY: Final = "mcp-baton/result_by"
OMITTED_KEY: Final = "omitted"
ALL, NONE = "all", "none"
UNREADABLE = "this value cannot be read now; ask again"
ALWAYS = (PROGRESS, PAUSE_REASON)
"""What every `tasks/get` shows: the state itself."""


def wanted_values(request: Request) -> str | None:
    """What a `tasks/get` asks for in `_meta`: `all`, `none`, or `None` for the values that are in the task's item.

    Raises:
        ProtocolError: it asks for something else.
    """
    if VARIABLES_KEY not in request.envelope.meta:
        return None
    wanted = request.envelope.meta[VARIABLES_KEY]
    if wanted not in (ALL, NONE):
        raise ProtocolError(
            INVALID_PARAMS,
            f'Invalid params: `_meta[\'{VARIABLES_KEY}\']` must be "{ALL}" or "{NONE}"; '
            "leave it out for the values that are kept with the task",
        )
    return str(wanted)


def with_values(request: Request, task: TaskRecord, made: dict[str, Json], wanted: str | None) -> dict[str, Json]:
    """A task with its variables in `_meta`, one key a variable, and in the 2026 era its result.

    Args:
        call: The request.
        task: The task.
        made: What is said of it besides.
        wanted: As `wanted_values`.

    Raises:
        StoreUnavailable: its result cannot be read now.
    """
    state = _state(request, task) | timings_shown(task) | _next(request, task) | result_mark(task)
    names = [] if wanted == NONE else [name for name in task.variables if name not in ALWAYS]
    if request.stateless and weight_of(task, FINAL_RESULT):
        names.insert(0, FINAL_RESULT)
    weights = {name: weight for name in names if (weight := weight_of(task, name))}
    left = request.budget.shown - len(dumps({**made, "_meta": state}).encode())
    omitted = _left_out(task, weights, left, everything=wanted == ALL)
    if omitted and OMITTED_KEY in weights:
        # The list stands where a variable of this name would. It can be read by its URI.
        omitted[OMITTED_KEY] = {}
    omitted |= {key: {} for key in (TIMINGS_KEY, NEXT_KEY, RESULT_BY_KEY) if key in state and key in weights}
    whole = [name for name in weights if name not in omitted]
    request.budget.read(sum(weights[name].text_bytes for name in whole))
    read_ahead(task.variables, whole)
    values = {name: omitted[name] if name in omitted else _value(task, name) for name in weights}
    shown = {"result": _as_returned(task, values.pop(FINAL_RESULT))} if FINAL_RESULT in values else {}
    if task.job is not None and FINAL_RESULT in omitted:
        shown = {"result": _as_returned(task, linked(omitted.pop(FINAL_RESULT)))}
    return {**made, **shown, "_meta": {**state, **values, **_naming(omitted)}}


def result_mark(task: TaskRecord) -> dict[str, Json]:
    """What `_meta` says of a result that a client supplied; nothing of one that a tool or a run made."""
    return {RESULT_BY_KEY: "client"} if task.by_client else {}


def _as_returned(task: TaskRecord, result: Json) -> Json:
    """A job's result as the call would have returned it: in the 2026 era every result names its type (MCP 2026-07-28,
    basic/index)."""
    if task.job is None or not isinstance(result, Mapping):
        return result
    made = {"resultType": "complete", **result}
    own = result.get("_meta")
    return (
        {**made, "_meta": {**(own if isinstance(own, Mapping) else {}), **result_mark(task)}}
        if task.by_client
        else made
    )


def _state(request: Request, task: TaskRecord) -> dict[str, Json]:
    state = {name: readable(task, name) for name in ALWAYS if name in task.variables}
    if task.claim is None or not task.claim.until_ms:
        return state
    # A pause reason that is stored may be older than the run that holds the task, or that was killed.
    state.pop(PAUSE_REASON, None)
    pause = shown_pause(task, request.now_ms)
    return state if pause is None else {**state, PAUSE_REASON: pause}


def timings_shown(task: TaskRecord) -> dict[str, Json]:
    """When the task's steps ran: `{"mcp-baton/timings": {step: {"at": epoch ms, "ms": milliseconds}}}`; nothing of a
    task of which that is not known."""
    if "timings" not in task.kept:
        return {}
    from mcp_baton.tasks.timings import timings_of

    try:
        timings = timings_of(task)
    except StoreError:
        logger.exception("task %s: its timings cannot be read", task.task_id)
        return {}
    shown: JsonObject = {name: {"at": timing.at_ms, "ms": timing.ms} for name, timing in timings.items()}
    return {TIMINGS_KEY: shown} if shown else {}


def _next(request: Request, task: TaskRecord) -> dict[str, Json]:
    """What remains to be done of a workflow's task, where the request asks for it: as a continuation's `next`."""
    if task.workflow is None or request.envelope.meta.get(NEXT_KEY) is not True:
        return {}
    from mcp_baton.server.workflows.recording import plan_of, remaining

    return {NEXT_KEY: remaining(request, plan_of(request, task))}


def result_of(request: Request, task: TaskRecord, meta: dict[str, Json]) -> dict[str, Json]:
    """A task's result in the answer to `tasks/result`, as far as the budget goes.

    Raises:
        StoreUnavailable: it cannot be read now.
    """
    meta = {**meta, **result_mark(task)}
    weight = weight_of(task, FINAL_RESULT)
    if weight is None:
        return {"result": None, "_meta": meta}
    omitted = _left_out(task, {FINAL_RESULT: weight}, request.budget.shown, everything=True)
    request.budget.read(0 if omitted else weight.text_bytes)
    result = omitted[FINAL_RESULT] if omitted else _value(task, FINAL_RESULT)
    if task.job is not None and omitted:
        return {**linked(omitted[FINAL_RESULT]), "_meta": meta}
    if task.job is not None and isinstance(result, Mapping):
        # What the call would have returned.
        own = result.get("_meta")
        return {**result, "_meta": {**own, **meta} if isinstance(own, Mapping) else meta}
    return {"result": result, "_meta": {**meta, **_naming(omitted)}}


def linked(note: Mapping[str, Json]) -> dict[str, Json]:
    """A call's result that is longer than an answer, as a result that links to it."""
    size, uri = note["bytes"], note["uri"]
    text = f"The result has {size} bytes, which is more than an answer holds. Read the resource {uri}."
    link: dict[str, Json] = {"type": "resource_link", "uri": uri, "name": "result", "mimeType": "application/json"}
    return {"content": [{"type": "text", "text": text}, link]}


def readable(task: TaskRecord, name: str) -> Json:
    """A variable's value; in the place of one that cannot be had, why: it costs neither the others nor the status."""
    try:
        return task.variables[name]
    except StoreUnavailable:
        logger.exception("the task variable %r cannot be read", name)
        return {"error": UNREADABLE}
    except StoreError as error:
        return {"error": str(error)}


def _value(task: TaskRecord, name: str) -> Json:
    if name != FINAL_RESULT:
        return readable(task, name)
    try:
        return task.result
    except ValueLost as lost:
        # That it is lost does not hide that the task is over.
        return {"error": str(lost)}


def _left_out(
    task: TaskRecord, weights: Mapping[str, Weight], left: int, *, everything: bool
) -> dict[str, dict[str, Json]]:
    """What stands in the place of those values that are not shown: the smallest are shown first, before all the result.

    Args:
        task: The task.
        weights: Its values' weights, by name.
        left: The answer's bytes that are left for them.
        everything: Whether values that are kept outside the item are to be shown, too; a result always is.
    """
    notes: dict[str, dict[str, Json]] = {
        name: {"bytes": weight.text_bytes, "uri": value_uri(task.task_id, name)} for name, weight in weights.items()
    }
    left -= sum(map(_entry_bytes, notes, notes.values()))
    for name in sorted(weights, key=lambda name: (name != FINAL_RESULT, weights[name].text_bytes, name)):
        more = weights[name].text_bytes - len(dumps(notes[name]).encode())
        if more <= left and (everything or name == FINAL_RESULT or not weights[name].outside):
            left -= more
            del notes[name]
    return notes


def _entry_bytes(name: str, note: dict[str, Json]) -> int:
    # The name stands twice, as a key and in the list of what was left out, with colon, commas and quotation marks.
    return 2 * len(dumps(name).encode()) + len(dumps(note).encode()) + 3


def _naming(omitted: Mapping[str, Json]) -> dict[str, Json]:
    return {OMITTED_KEY: list(omitted)} if omitted else {}


INTERVALS_MS: Final = ((10_000, 1_000), (60_000, 5_000), (math.inf, 15_000))
"""Until which age of a task it is to be looked at how often, milliseconds."""

PERSON_MS: Final = 60_000
"""How often a task is to be looked at that waits for a person, milliseconds."""


def shown(request: Request, task: TaskRecord) -> dict[str, Json]:
    """A task in the words of the request's era, without its values."""
    made: dict[str, Json] = {
        "taskId": task.task_id,
        "status": task.status.value,
        "createdAt": task.created_at,
        "lastUpdatedAt": task.updated_at,
    }
    message = status_message_of(task, request.now_ms)
    if message:
        made["statusMessage"] = message
    interval_ms = poll_interval_ms(request, task)
    if not request.stateless:
        return made | {"ttl": task.ttl_ms, "pollInterval": interval_ms}
    return made | {"ttlMs": task.ttl_ms, "pollIntervalMs": interval_ms}


def poll_interval_ms(request: Request, task: TaskRecord) -> int:
    """How long the client is asked to wait before it looks at a task again, milliseconds."""
    chosen = request.server.options.poll_interval_s
    return interval_ms(task, request.now_ms()) if chosen is None else max(1, round(chosen * 1000))


def interval_ms(task: TaskRecord, now_ms: int) -> int:
    """The same by the task's age: what takes long is looked at seldom (docs/background.md, Status and polling)."""
    if task.status is TaskStatus.INPUT_REQUIRED:
        return PERSON_MS
    age_ms = now_ms - datetime.fromisoformat(task.created_at).timestamp() * 1000
    return next(interval for until, interval in INTERVALS_MS if age_ms < until)


def check_extension(request: Request) -> None:
    """Refuse what is about tasks to a client of the 2026 era that has not declared the extension.

    Raises:
        ProtocolError: it has not.
    """
    if request.stateless and not request.envelope.speaks_tasks:
        data: Json = {"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}}
        raise ProtocolError(MISSING_CLIENT_CAPABILITY, "Missing required client capability", data)


def details(request: Request, task: TaskRecord) -> dict[str, Json]:
    """What the 2026 era inlines besides the result: the questions that wait for an answer, or why the task failed."""
    if not request.stateless:
        return {}
    if task.status is TaskStatus.INPUT_REQUIRED and task.job is not None:
        return {"inputRequests": task.job.open}
    return {"error": task.error} if task.error is not None else {}


def failure_of(error: JsonObject) -> ProtocolError:
    """Why a task failed, as the answer to a request."""
    code, message = error.get("code"), error.get("message")
    return ProtocolError(
        code if isinstance(code, int) else INTERNAL_ERROR, str(message or "Internal error"), error.get("data")
    )
