"""The view of a task: in `tasks/get`, on streams, in lists, in the command line and in the console.

An answer has a budget. Values that do not fit are named only, and can be read as resources (docs/storage.md, Budgets).
"""

import logging
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field, structs

from mcp_baton.approvals.record import ApprovalState, approvals_of
from mcp_baton.exceptions import StoreError, StoreUnavailable, ValueLost
from mcp_baton.protocol.budget import Budget
from mcp_baton.protocol.envelope import RELATED_TASK_KEY
from mcp_baton.protocol.json import Json, JsonObject, json_size
from mcp_baton.tasks.record import (
    APPROVAL_PREFIX,
    EARLY_PREFIX,
    ITEMS_PREFIX,
    JOB,
    PAUSE_REASON,
    PAUSED,
    PROGRESS,
    RESULT_PREFIX,
    SALT,
    WAITED,
    WAITS,
    Job,
    StepProgress,
    StepStatus,
    TaskRecord,
    TaskStatus,
    epoch_ms,
    pause_of,
    statuses_of,
    steps_of,
)
from mcp_baton.tasks.store import TaskStore
from mcp_baton.tasks.values import FINAL_RESULT, Weight, list_in, read_ahead, weight_of
from mcp_baton.tools.content import with_meta
from mcp_baton.tools.resource import value_uri
from mcp_baton.workflow.execution import Execution
from mcp_baton.workflow.pause import (
    WAIT_BEGINS,
    ApprovalDenied,
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRequired,
    Interrupted,
    Waiting,
    parse_pause,
)
from mcp_baton.workflow.request import Request

if TYPE_CHECKING:
    from mcp_baton.workflow.repeats import Repeat

logger = logging.getLogger(__name__)

HIDDEN_PREFIXES: Final = (APPROVAL_PREFIX, EARLY_PREFIX, SALT, JOB)
"""The prefixes of variables that are not shown: they are notes of the engine."""

FACT_PREFIX: Final = "mcp-baton/"
VARIABLES_KEY: Final = f"{FACT_PREFIX}variables"
NEXT_KEY: Final = f"{FACT_PREFIX}next"
TIMINGS_KEY: Final = f"{FACT_PREFIX}timings"
ELEMENTS_KEY: Final = f"{FACT_PREFIX}elements"
RESULT_BY_KEY: Final = f"{FACT_PREFIX}result_by"
OMITTED_KEY: Final = "omitted"
ALL, NONE = "all", "none"
UNREADABLE = "this value cannot be read now; ask again"
ALWAYS_SHOWN = (PROGRESS, PAUSE_REASON)
"""The variables that every view shows."""

INTERVALS_MS: Final = ((10_000, 1_000), (60_000, 5_000), (math.inf, 15_000))
"""The poll interval by a task's age: pairs of greatest age and interval, milliseconds."""

WAIT_INTERVALS_MS: Final = (15_000, 900_000)
"""The shortest and the longest poll interval of a task that waits: half of the time that is left, milliseconds."""

PERSON_MS: Final = 60_000
"""The poll interval of a task that waits for its client's user, milliseconds."""

WAITING_MS: Final = 300_000
"""The poll interval of a task that waits for another person, milliseconds."""


_WAITS_FOR_APPROVAL: Final = re.compile(rf"{WAITS} of (.+) until (\S+Z)", re.DOTALL)
_WAITS: Final = re.compile(rf"(?:{WAITS} of .+ until|{'|'.join(WAIT_BEGINS)}) \S+Z(?: \(step .+\))?", re.DOTALL)
"""The status messages of background calls that wait. They stay in the item until the worker writes another one."""


class ViewOptions(Struct, frozen=True, kw_only=True):
    """How a task is shown.

    Attributes:
        now_ms: The time by which claims expire, epoch milliseconds.
        poll_interval_s: `None` to choose it by the task's age.
        values: `all` variables, `none`, or `None` for those in the task's item.
        next_calls: The suggested calls of a task. `None` if they are not asked for.
    """

    now_ms: Callable[[], int]
    stateless: bool = True
    poll_interval_s: float | None = None
    values: str | None = None
    next_calls: Callable[[TaskRecord], list[JsonObject]] | None = None
    budget: Budget = field(default_factory=Budget)


def options_of(
    request: Request, *, values: str | None = None, next_calls: Callable[[TaskRecord], list[JsonObject]] | None = None
) -> ViewOptions:
    return ViewOptions(
        now_ms=request.now_ms,
        stateless=request.stateless,
        poll_interval_s=request.server.options.poll_interval_s,
        values=values,
        next_calls=next_calls,
        budget=request.budget,
    )


def task_meta(execution: Execution, task: TaskRecord, steps: Sequence[StepProgress] | None = None) -> dict[str, Json]:
    """Return the members of a result's `_meta` about a task (docs/workflows.md)."""
    meta: dict[str, Json] = {
        "task_id": task.task_id,
        "task_status": task.status.value,
        "steps": [
            {"name": step["name"], "status": step["status"]} for step in (steps_of(task) if steps is None else steps)
        ],
    }
    pause = shown_pause(task, execution.now_ms)
    if pause is not None:
        meta["pause_reason"] = pause
    if task.by_client:
        meta["result_by"] = "client"
    return meta if execution.stateless else meta | related_task(task.task_id)


def related_task(task_id: str) -> dict[str, Json]:
    """Return the handshake era's standard reference to a task."""
    return {RELATED_TASK_KEY: {"taskId": task_id}}


def notes_meta(
    may_have_run: "Sequence[Repeat]", may_have_run_twice: "Sequence[Repeat]", oversized: Sequence[str]
) -> dict[str, Json]:
    """Return the members of `_meta` about steps that may have run more than once, with the idempotency keys of their
    calls (docs/workflows.md, When a run is killed), and about results that were too long to store (docs/storage.md)."""
    members: dict[str, Json] = {}
    for name, repeats in (("may_have_run", may_have_run), ("may_have_run_twice", may_have_run_twice)):
        if repeats:
            members[name] = [
                {"step": repeat.step} if repeat.key is None else {"step": repeat.step, "idempotency_key": repeat.key}
                for repeat in repeats
            ]
    return members | ({"oversized": [name.removeprefix(RESULT_PREFIX) for name in oversized]} if oversized else {})


def task_view(task: TaskRecord, options: ViewOptions) -> dict[str, Json]:
    """Return the result of `tasks/get`. `_meta` has a key for each variable, and the facts."""
    view = task_summary(task, options)
    if options.stateless:
        if task.status is TaskStatus.INPUT_REQUIRED and task.job is not None:
            view["inputRequests"] = task.job.open
        elif task.error is not None:
            view["error"] = task.error
    facts = facts_of(task)
    if options.next_calls is not None and task.workflow is not None:
        facts["next"] = options.next_calls(task)
    state = _stored_state(task, options) | with_fact_prefix(facts)
    names = (
        []
        if options.values == NONE
        else [name for name in task.variables if name not in ALWAYS_SHOWN and not name.startswith(HIDDEN_PREFIXES)]
    )
    if options.stateless and weight_of(task, FINAL_RESULT):
        names.insert(0, FINAL_RESULT)
    weights = {name: weight for name in names if (weight := weight_of(task, name))}
    remaining_bytes = options.budget.shown - json_size({**view, "_meta": state})
    omitted = _notes_for_omitted(task, weights, remaining_bytes, everything=options.values == ALL)
    # The list of what is left out, and the facts, take the place of variables with the same names. These can still be
    # read by their URIs.
    omitted |= {name: {} for name in (*state, *([OMITTED_KEY] if omitted else [])) if name in weights}
    included = [name for name in weights if name not in omitted]
    options.budget.read(sum(weights[name].text_bytes for name in included))
    read_ahead(task.variables, included)
    values = {name: omitted[name] if name in omitted else _value(task, name) for name in weights}
    if FINAL_RESULT in values:
        result = values.pop(FINAL_RESULT)
        if task.job is not None and FINAL_RESULT in omitted:
            result = link_to_result(omitted.pop(FINAL_RESULT))
        view["result"] = _as_returned(task, result)
    return {**view, "_meta": {**values, **state, **_omitted_names(omitted)}}


def task_summary(task: TaskRecord, options: ViewOptions) -> dict[str, Json]:
    """Return the view without variables: MCP's `Task`."""
    summary: dict[str, Json] = {
        "taskId": task.task_id,
        "status": task.status.value,
        "createdAt": task.created_at,
        "lastUpdatedAt": task.updated_at,
    }
    message = status_message_of(task, options.now_ms)
    if message:
        summary["statusMessage"] = message
    interval_ms = poll_interval_ms(task, options)
    if not options.stateless:
        return summary | {"ttl": task.ttl_ms, "pollInterval": interval_ms}
    return summary | {"ttlMs": task.ttl_ms, "pollIntervalMs": interval_ms}


def listed_view(task: TaskRecord, options: ViewOptions) -> dict[str, Json]:
    meta = listed_meta(task, options.now_ms)
    return task_summary(task, options) | ({"_meta": meta} if meta else {})


def listed_meta(task: TaskRecord, now_ms: Callable[[], int]) -> dict[str, Json]:
    """Return the state of a listed task. `pause_reason` has no `error`, because an error can have any length;
    `tasks/get` has it."""
    if task.workflow is None:
        return {} if task.job is None else {"tool": task.job.work.tool}
    meta: dict[str, Json] = {"workflow": task.workflow}
    step = next((step["name"] for step in steps_of(task) if not StepStatus(step["status"]).settled), None)
    if step is not None:
        meta["step"] = step
    pause = shown_pause(task, now_ms)
    if pause is not None:
        meta["pause_reason"] = {name: value for name, value in pause.items() if name != "error"}
    return meta


def facts_of(task: TaskRecord) -> dict[str, Json]:
    """Return facts about a task that are not variables.

    - `timings`: when each step ran, `{"at": epoch milliseconds, "ms": milliseconds}` by the step's name.
    - `elements`: how many elements of an unfinished list have results, by the step's name.
    - `result_by`: `client`, if a client supplied the result.
    """
    facts = {"timings": _timings_of(task), "elements": _elements_of(task)}
    return {name: fact for name, fact in facts.items() if fact} | ({"result_by": "client"} if task.by_client else {})


def with_fact_prefix(facts: JsonObject) -> dict[str, Json]:
    return {f"{FACT_PREFIX}{name}": value for name, value in facts.items()}


def variables_in(meta: JsonObject) -> dict[str, Json]:
    """Return the variables in the `_meta` of a view, without the facts."""
    return {name: value for name, value in meta.items() if not name.startswith(FACT_PREFIX)}


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


def shown_pause(task: TaskRecord, now_ms: Callable[[], int]) -> JsonObject | None:
    """Return why a task is paused (docs/workflows.md, When a run is killed).

    A task is not paused while a run holds it. If a run's claim has expired and steps are not settled, the run was
    interrupted. This replaces the pause reason that an earlier run has stored.
    """
    claim = None if task.status.terminal else task.claim
    if claim is None:
        return pause_of(task)
    at_ms = now_ms()
    if claim.lapsed_at(at_ms):
        for step in steps_of(task):
            if not StepStatus(step["status"]).settled:
                return Interrupted(step["name"], step.get("tool", "")).to_json()
    return None if claim.holds_at(at_ms) else pause_of(task)


def with_decision(task: TaskRecord, store: TaskStore | None) -> TaskRecord:
    """Return the task as it is shown: if it waits for an approval that was decided or has expired, its pause reason
    says so; and if it is a background call, its status message. One `GetItem` for a task that waits for an approval;
    for a background call one `Query` or `GetItem`, and the requests for the task of its workflow."""
    if task.job is not None:
        return _with_decided_message(task, task.job, store)
    reason = parse_pause(pause_of(task))
    if store is None or task.status.terminal or not isinstance(reason, ApprovalRequired):
        return task
    try:
        record = approvals_of(store).get(reason.approval_id)
    except StoreError:
        logger.warning("task %s: its approval cannot be read", task.task_id, exc_info=True)
        return task
    if record is None or record.waits_at(store.now_ms()) or record.state is ApprovalState.WITHDRAWN:
        return task
    kind: type[ApprovalDenied | ApprovalExpired | ApprovalGranted] = ApprovalGranted
    if record.expired_at(store.now_ms()):
        kind = ApprovalExpired
    if record.state is ApprovalState.DENIED:
        kind = ApprovalDenied
    members = {**structs.asdict(reason), "reason": record.reason or ("" if kind is ApprovalDenied else None)}
    return structs.replace(task, decided_pause=kind(**members).to_json())


def _with_decided_message(task: TaskRecord, job: Job, store: TaskStore | None) -> TaskRecord:
    """Return the task of a background call with what became of the approval that its message names: a worker writes
    another message only when it has started."""
    waits = _WAITS_FOR_APPROVAL.fullmatch(task.status_message or "")
    if store is None or task.status is not TaskStatus.WORKING or waits is None:
        return task
    audience, until = waits.groups()
    message = f"the approval of {audience} {'has expired' if epoch_ms(until) <= store.now_ms() else 'was decided'}"
    try:
        workflow_task = job.work.workflow_task
        if workflow_task is None:
            if approvals_of(store).waiting(task.task_id):
                return task
            # Tasks in lists do not have it.
            read_job = store.get(task.owner, task.task_id).job
            workflow_task = read_job.work.workflow_task if read_job else None
        if workflow_task is not None:
            reason = parse_pause(pause_of(with_decision(store.get(task.owner, workflow_task), store)))
            if not isinstance(reason, ApprovalDenied | ApprovalGranted | ApprovalExpired):
                return task
            message = reason.short_form()
    except StoreError:
        logger.warning("task %s: its approval cannot be read", task.task_id, exc_info=True)
        return task
    return structs.replace(task, status_message=message)


def status_message_of(task: TaskRecord, now_ms: Callable[[], int]) -> str | None:
    """Return the worker's report, or that the task is paused."""
    if task.job is not None and task.status.terminal and _WAITS.fullmatch(task.status_message or ""):
        return None
    if task.status_message or task.status is not TaskStatus.WORKING:
        return task.status_message
    reason = parse_pause(shown_pause(task, now_ms))
    if isinstance(reason, Waiting) and not is_waiting(task, reason, now_ms()):
        return WAITED
    if isinstance(reason, ApprovalRequired | ApprovalDenied | ApprovalGranted | ApprovalExpired | Waiting):
        return f"paused: {reason.short_form()}"
    return PAUSED if shown_pause(task, now_ms) else None


def is_waiting(task: TaskRecord, reason: Waiting, now_ms: int) -> bool:
    """Whether a task still waits: its callback has not arrived, and its time has not come."""
    status = statuses_of(task).get(reason.step)
    return reason.until_ms > now_ms and not (status and status.settled)


def poll_interval_ms(task: TaskRecord, options: ViewOptions) -> int:
    """Return how long the client should wait before it reads the task again (docs/background.md, Status and
    polling)."""
    if options.poll_interval_s is not None:
        return max(1, round(options.poll_interval_s * 1000))
    if task.status is TaskStatus.INPUT_REQUIRED:
        return PERSON_MS
    reason = parse_pause(shown_pause(task, options.now_ms))
    message = task.status_message or ""
    if task.job is not None and message.startswith(WAITS):
        return WAITING_MS
    until_ms = None
    if isinstance(reason, Waiting) and is_waiting(task, reason, options.now_ms()):
        until_ms = reason.until_ms
    elif task.job is not None and message.startswith(WAIT_BEGINS):
        until_ms = task.job.due_ms
    if until_ms is not None:
        shortest, longest = WAIT_INTERVALS_MS
        return min(max((until_ms - options.now_ms()) // 2, shortest), longest)
    age_ms = options.now_ms() - task.created_ms
    return next(interval for until, interval in INTERVALS_MS if age_ms < until)


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
    """Return a link in place of a call's result that is larger than an answer may be."""
    size, uri = note["bytes"], note["uri"]
    text = f"The result has {size} bytes, which is more than an answer may have. Read the resource {uri}."
    link: dict[str, Json] = {"type": "resource_link", "uri": uri, "name": "result", "mimeType": "application/json"}
    return {"content": [{"type": "text", "text": text}, link]}


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


def _stored_state(task: TaskRecord, options: ViewOptions) -> dict[str, Json]:
    state = {name: read_variable(task, name) for name in ALWAYS_SHOWN if name in task.variables}
    if task.decided_pause is None and (task.claim is None or not task.claim.until_ms):
        return state
    # A stored pause reason may be older than the run that holds the task, or that was killed.
    state.pop(PAUSE_REASON, None)
    pause = shown_pause(task, options.now_ms)
    return state if pause is None else {**state, PAUSE_REASON: pause}


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
    task: TaskRecord, weights: Mapping[str, Weight], remaining_bytes: int, *, everything: bool
) -> dict[str, dict[str, Json]]:
    """Return notes in place of the values that do not fit. The result has priority, then the smallest values.

    Args:
        remaining_bytes: The bytes of the answer that the values may take.
        everything: Whether large values are shown, too. A result always is.
    """
    notes: dict[str, dict[str, Json]] = {
        name: {"bytes": weight.text_bytes, "uri": value_uri(task.task_id, name)} for name, weight in weights.items()
    }
    remaining_bytes -= sum(map(_entry_bytes, notes, notes.values()))
    for name in sorted(weights, key=lambda name: (name != FINAL_RESULT, weights[name].text_bytes, name)):
        added_bytes = weights[name].text_bytes - json_size(notes[name])
        if added_bytes <= remaining_bytes and (everything or name == FINAL_RESULT or not weights[name].large):
            remaining_bytes -= added_bytes
            del notes[name]
    return notes


def _entry_bytes(name: str, note: dict[str, Json]) -> int:
    # The name appears twice, as a key and in the list of what is left out, with colon, commas and quotation marks.
    return 2 * json_size(name) + json_size(note) + 3


def _omitted_names(omitted: Mapping[str, Json]) -> dict[str, Json]:
    return {OMITTED_KEY: list(omitted)} if omitted else {}
