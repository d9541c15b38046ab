"""A task as MCP's methods `tasks/*` show it, also on streams: its summary, its variables and its result.

An answer has a budget. Values that do not fit are named only, and can be read as resources (docs/storage.md, Budgets).
"""

import logging
import math
from collections.abc import Callable, Mapping
from typing import Final

from msgspec import structs

from mcp_baton.exceptions import StoreError, StoreUnavailable, ValueLost
from mcp_baton.present.fit import fit
from mcp_baton.present.stored_task import pause_members, view_of
from mcp_baton.present.view import FACT_PREFIX, OMITTED_KEY, RESULT_BY_KEY, TaskView
from mcp_baton.protocol.budget import Budget
from mcp_baton.protocol.json import Json, JsonObject, json_size
from mcp_baton.tasks.record import (
    APPROVAL_PREFIX,
    APPROVAL_WAIT,
    EARLY_PREFIX,
    ENGINE_PREFIX,
    ITEMS_PREFIX,
    PAUSE_REASONS,
    PROGRESS,
    REPEATED,
    SALT,
    WAITING_JOBS,
    TaskRecord,
    TaskStatus,
)
from mcp_baton.tasks.values import FINAL_RESULT, ValueSize, list_in, read_ahead, weight_of
from mcp_baton.tools.content import with_meta
from mcp_baton.tools.resource import value_uri
from mcp_baton.workflow.pause import Waiting
from mcp_baton.workflow.request import Request

logger = logging.getLogger(__name__)

HIDDEN_PREFIXES: Final = (APPROVAL_PREFIX, EARLY_PREFIX, REPEATED, SALT, WAITING_JOBS)
"""The prefixes of variables that are not shown: they are notes of the engine."""

VARIABLES_KEY: Final = f"{FACT_PREFIX}variables"
ALL, NONE = "all", "none"
UNREADABLE = "this value cannot be read now; ask again"
ALWAYS_SHOWN = (PROGRESS, PAUSE_REASONS)
"""The variables that every view shows."""

INTERVALS_MS: Final = ((10_000, 1_000), (60_000, 5_000), (math.inf, 15_000))
"""The poll interval by a task's age: pairs of greatest age and interval, milliseconds."""

WAIT_INTERVALS_MS: Final = (15_000, 900_000)
"""The shortest and the longest poll interval of a task that waits: half of the time that is left, milliseconds."""

PERSON_MS: Final = 60_000
"""The poll interval of a task that waits for its client's user, milliseconds."""

WAITING_MS: Final = 300_000
"""The poll interval of a task that waits for another person, milliseconds."""


def task_view(
    task: TaskRecord,
    request: Request,
    shown: TaskView | None = None,
    *,
    values: str | None = None,
    next_calls: Callable[[TaskRecord], list[JsonObject]] | None = None,
) -> dict[str, Json]:
    """Return the result of `tasks/get`. `_meta` has a key for each variable, and the facts.

    Args:
        shown: The task as it is shown, if the caller has it.
        values: `all` variables, `none`, or `None` for those in the task's item.
        next_calls: The suggested calls of a task. `None` if they are not asked for.
    """
    shown = shown or view_of(task, request.now_ms(), request.store)
    view = _summary(task, shown, request)
    if request.stateless:
        if task.status is TaskStatus.INPUT_REQUIRED and task.job is not None:
            view["inputRequests"] = task.job.open
        elif task.error is not None:
            view["error"] = task.error
    state = _state(task, shown, next_calls)
    names = [name for name in task.variables if name not in ALWAYS_SHOWN and not name.startswith(HIDDEN_PREFIXES)]
    names = [] if values == NONE else names
    if request.stateless and weight_of(task, FINAL_RESULT):
        names.insert(0, FINAL_RESULT)
    weights = {name: weight for name in names if (weight := weight_of(task, name))}
    room = request.budget.shown - json_size({**view, "_meta": state})
    omitted = _notes_for_omitted(task, weights, room, everything=values == ALL)
    # The list of omitted values, and the facts, replace variables with the same names. These can still be
    # read by their URIs.
    omitted |= {name: {} for name in (*state, *([OMITTED_KEY] if omitted else [])) if name in weights}
    included = [name for name in weights if name not in omitted]
    request.budget.read(sum(weights[name].text_bytes for name in included))
    read_ahead(task.variables, included)
    shown_values = {name: omitted[name] if name in omitted else _value(task, name) for name in weights}
    if FINAL_RESULT in shown_values:
        result = shown_values.pop(FINAL_RESULT)
        if task.job is not None and FINAL_RESULT in omitted:
            result = link_to_result(omitted.pop(FINAL_RESULT))
        view["result"] = _as_returned(task, result)
    return {**view, "_meta": {**shown_values, **state, **_omitted_names(omitted)}}


def _state(
    task: TaskRecord, shown: TaskView, next_calls: Callable[[TaskRecord], list[JsonObject]] | None
) -> dict[str, Json]:
    """Return the members of `_meta` that every view of a task has."""
    facts = facts_of(task) | ({"waits_for": list(shown.waits_for)} if shown.waits_for else {})
    if next_calls is not None and task.workflow is not None:
        # If an approval was decided or a run was interrupted since, the stored pause reasons do not count. While a run
        # holds the task, the calls would be refused.
        is_held = shown.running_until is not None
        facts["next"] = [] if is_held else next_calls(structs.replace(task, shown_pauses=shown.pauses))
        facts |= {"running_until": shown.running_until} if is_held else {}
    state: dict[str, Json] = {PROGRESS: read_variable(task, PROGRESS)} if PROGRESS in task.variables else {}
    # A stored pause reason may be older than the run that holds the task, or that was killed.
    state |= pause_members(shown, ENGINE_PREFIX)
    return state | {f"{FACT_PREFIX}{name}": value for name, value in facts.items()}


def task_summary(task: TaskRecord, request: Request) -> dict[str, Json]:
    """Return the view without variables: MCP's `Task`."""
    return _summary(task, view_of(task, request.now_ms(), request.store), request)


def _summary(task: TaskRecord, view: TaskView, request: Request) -> dict[str, Json]:
    summary: dict[str, Json] = {
        "taskId": view.task_id,
        "status": view.status,
        "createdAt": view.created,
        "lastUpdatedAt": view.updated,
    }
    if view.message:
        summary["statusMessage"] = view.message
    interval_ms = poll_interval_ms(task, view, request)
    if not request.stateless:
        return summary | {"ttl": view.ttl_ms, "pollInterval": interval_ms}
    return summary | {"ttlMs": view.ttl_ms, "pollIntervalMs": interval_ms}


def listed_view(task: TaskRecord, request: Request) -> dict[str, Json]:
    view = view_of(task, request.now_ms(), request.store)
    meta = listed_meta(view)
    return _summary(task, view, request) | ({"_meta": meta} if meta else {})


def listed_meta(view: TaskView) -> dict[str, Json]:
    """Return the state of a listed task. `pause_reason` and `pause_reasons` have no `error`, because an error can have
    any length; `tasks/get` has it."""
    if view.workflow is None:
        return {} if view.tool is None else {"tool": view.tool}
    meta: dict[str, Json] = {"workflow": view.workflow}
    if view.open_step is not None:
        meta["step"] = view.open_step
    short_pauses = tuple({name: value for name, value in pause.items() if name != "error"} for pause in view.pauses)
    return meta | pause_members(structs.replace(view, pauses=short_pauses))


def facts_of(task: TaskRecord) -> dict[str, Json]:
    """Return facts about a task that are not variables.

    - `timings`: when each step ran, `{"at": epoch milliseconds, "ms": milliseconds}` by the step's name.
    - `elements`: how many elements of an unfinished list have results, by the step's name.
    - `tool`: the tool of a background call.
    - `result_by`: `client`, if a client supplied the result.
    """
    facts: dict[str, Json] = {"timings": _timings_of(task), "elements": _elements_of(task)}
    facts |= {"tool": task.job.work.tool if task.job else None, "result_by": "client" if task.by_client else None}
    return {name: fact for name, fact in facts.items() if fact}


def _timings_of(task: TaskRecord) -> JsonObject:
    if "timings" not in task.large_values:
        return {}
    from mcp_baton.tasks.store import timings_of

    try:
        return {name: {"at": timing.at_ms, "ms": timing.ms} for name, timing in timings_of(task).items()}
    except StoreError:
        logger.exception("task %s: its timings cannot be read", task.task_id)
        return {}


def _elements_of(task: TaskRecord) -> JsonObject:
    """Return how many elements of each unfinished list have results."""
    counts: dict[str, Json] = {}
    for step in (name.removeprefix(ITEMS_PREFIX) for name in task.variables if name.startswith(ITEMS_PREFIX)):
        try:
            stored = list_in(task.variables, step)
        except StoreError:
            logger.exception("task %s: the elements of step %s cannot be read", task.task_id, step)
            continue
        if stored is not None:
            counts[step] = {"done": len(stored.done), "total": stored.total}
    return counts


def result_mark(task: TaskRecord) -> dict[str, Json]:
    """Return the member of a result's `_meta` that says that a client supplied the result."""
    return {RESULT_BY_KEY: "client"} if task.by_client else {}


def poll_interval_ms(task: TaskRecord, view: TaskView, request: Request) -> int:
    """Return how long the client should wait before it reads the task again (docs/background.md, Status and
    polling)."""
    if (interval_s := request.server.options.poll_interval_s) is not None:
        return max(1, round(interval_s * 1000))
    if task.status is TaskStatus.INPUT_REQUIRED:
        return PERSON_MS
    now_ms = request.now_ms()
    until_ms = min((reason.until_ms for reason in view.reasons if isinstance(reason, Waiting)), default=None)
    if task.job is not None and view.waits_for:
        if view.waits_for == (APPROVAL_WAIT,):
            return WAITING_MS
        until_ms = task.job.due_ms
    if until_ms is not None:
        shortest, longest = WAIT_INTERVALS_MS
        return min(max((until_ms - now_ms) // 2, shortest), longest)
    return next(interval for until, interval in INTERVALS_MS if now_ms - task.created_ms < until)


def result_view(task: TaskRecord, meta: dict[str, Json], budget: Budget) -> dict[str, Json]:
    """Return a task's result as the answer to `tasks/result`. `meta` has more members of its `_meta`."""
    meta = {**meta, **result_mark(task)}
    weight = weight_of(task, FINAL_RESULT)
    if weight is None:
        return {"result": None, "_meta": meta}
    omitted = _notes_for_omitted(task, {FINAL_RESULT: weight}, budget.shown, everything=True)
    budget.read(0 if omitted else weight.text_bytes)
    if task.job is not None and omitted:
        return {**link_to_result(omitted[FINAL_RESULT]), "_meta": meta}
    result = omitted[FINAL_RESULT] if omitted else _value(task, FINAL_RESULT)
    if task.job is not None and isinstance(result, Mapping):
        # The result of the call itself.
        return with_meta(result, meta)
    return {"result": result, "_meta": {**meta, **_omitted_names(omitted)}}


def link_to_result(note: Mapping[str, Json]) -> dict[str, Json]:
    """Return a text with a link in place of a call's result that is larger than an answer may be."""
    size, uri = note["bytes"], note["uri"]
    text = f"The result has {size} bytes, which is more than an answer may have. Read the resource {uri}."
    return {"content": [{"type": "text", "text": text}]}


def read_variable(task: TaskRecord, name: str) -> Json:
    """Return the value of a variable. If it cannot be read, return the reason: the other values and the status are
    shown anyway."""
    try:
        return task.variables[name]
    except StoreUnavailable:
        logger.exception("the task variable %r cannot be read", name)
        return {"error": UNREADABLE}
    except StoreError as error:
        return {"error": str(error)}


def _as_returned(task: TaskRecord, result: Json) -> Json:
    """Return a job's result as the call would have returned it. In the 2026 era every result names its type (MCP
    2026-07-28, basic/index)."""
    if task.job is None or not isinstance(result, Mapping):
        return result
    full_result = {"resultType": "complete", **result}
    return with_meta(full_result, result_mark(task)) if task.by_client else full_result


def _value(task: TaskRecord, name: str) -> Json:
    if name != FINAL_RESULT:
        return read_variable(task, name)
    try:
        return task.result
    except ValueLost as error:
        # The status is shown although the result is lost.
        return {"error": str(error)}


def _notes_for_omitted(
    task: TaskRecord, weights: Mapping[str, ValueSize], room: int, *, everything: bool
) -> dict[str, dict[str, Json]]:
    """Return notes in place of the values that do not fit. The result has priority, then the smallest values.

    Args:
        room: The bytes of the answer that the values may take.
        everything: Whether large values are shown, too. A result always is.
    """
    notes: dict[str, dict[str, Json]] = {
        name: {"bytes": weight.text_bytes, "uri": value_uri(task.task_id, name)} for name, weight in weights.items()
    }
    may_show = [name for name in weights if everything or name == FINAL_RESULT or not weights[name].large]
    may_show.sort(key=lambda name: (name != FINAL_RESULT, weights[name].text_bytes, name))
    room -= sum(map(_entry_bytes, notes, notes.values()))
    shown = fit(([name] for name in may_show), room, lambda name: weights[name].text_bytes - json_size(notes[name]))
    return {name: note for name, note in notes.items() if name not in shown}


def _entry_bytes(name: str, note: dict[str, Json]) -> int:
    # The name appears twice: as a key, and in the list of omitted values. Each has quotation marks and a separator.
    return 2 * json_size(name) + json_size(note) + 3


def _omitted_names(omitted: Mapping[str, Json]) -> dict[str, Json]:
    return {OMITTED_KEY: list(omitted)} if omitted else {}
