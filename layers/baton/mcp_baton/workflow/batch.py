"""The batch that a run writes, decided on the task's present state. Pure: it is decided again after a lost race."""

import logging
from collections.abc import Container, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import cast

from mcp_baton.exceptions import StoreError
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.record import (
    CALL_PREFIX,
    EARLY_PREFIX,
    ELEMENTS_PREFIX,
    EXTRA_PREFIX,
    ITEMS_PREFIX,
    PROGRESS,
    RESULT_PREFIX,
    StepStatus,
    TaskRecord,
    is_early,
    paused_step,
    pauses_of,
    statuses_of,
    steps_of,
)
from mcp_baton.tasks.store import Batch, ListResult, ListWrite, StepWrite
from mcp_baton.tasks.values import list_in
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.tools.outcomes import Succeeded
from mcp_baton.workflow.definition_changes import Move, obsolete_variables, statuses_under
from mcp_baton.workflow.host import Skip, Skipped, status_of, stored_result
from mcp_baton.workflow.list_elements import ListElements, merged_with
from mcp_baton.workflow.pause import PauseReason
from mcp_baton.workflow.step_run import StepRun
from mcp_baton.workflow.stored_pauses import stored_pauses

logger = logging.getLogger(__name__)


def run_batch(
    task: TaskRecord,
    traces: Sequence[StepRun],
    pauses: Sequence[PauseReason],
    variables: TaskVariables,
    *,
    last: bool,
    move: Move | None = None,
    release: bool = False,
    items: Mapping[str, ListElements] = MappingProxyType({}),
) -> Batch:
    """The batch of a run, or of the part of it that has not been written yet.

    If a continuation has completed a step meanwhile, the step stays completed: a failure of this run is dropped with
    its pause, and so is a skip; a success of this run overwrites the result. But an answer or a callback that came
    before the condition of its step was decided is dropped if the condition is false.

    Args:
        traces: The steps that ran and have not been written.
        pauses: Why steps of this run have stopped, in the order of the steps.
        last: Whether the run has tried all steps that can run, so that no other step has stopped.
        move: The move to the run's definition, if the task was read with another one. If another request has moved the
            task meanwhile, it is not moved back: only the steps that it still has are written.
        items: The lists to write, with the results that the task has by now (`merged_items`).
    """
    move = move if move and move.concerns(task) else None
    statuses = statuses_under(task, move.workflow) if move else statuses_of(task)
    writes = tuple(_writes(task, traces, statuses, items, is_last=release))
    changed = variables.changed
    new_statuses = _statuses_after(task, statuses, writes, changed)
    completed = last and not pauses and all(status.settled for status in new_statuses.values())
    # A list whose condition is false since a deployment is skipped without its items.
    ended = {name for name in [*items, *(write.name for write in writes)] if _is_settled(new_statuses, name)}
    ended_items = {f"{prefix}{name}" for name in ended for prefix in (ITEMS_PREFIX, ELEMENTS_PREFIX)}
    changed |= _extras(task, writes)
    removed = variables.removed | outdated(writes) | (ended_items & task.variables.keys())
    if move:
        changed[PROGRESS] = cast("JsonObject", move.workflow.progress(list(statuses.values())))
        removed |= obsolete_variables(task, move.workflow, statuses)
    return Batch(
        steps=writes,
        unchanged=_unchanged(traces, writes, statuses),
        pauses=_new_pauses(task, pauses, new_statuses, last=last),
        variables=changed,
        removed=removed,
        lists=_lists(items, writes, ended),
        result=run_result(new_statuses) if completed else None,
        definition=move.workflow.fingerprint if move else None,
        release=release,
    )


def _lists(
    items: Mapping[str, ListElements], writes: Iterable[StepWrite], ended: Container[str]
) -> dict[str, ListWrite]:
    completed = {write.name for write in writes if isinstance(write.result, ListResult)}
    return {name: elements.to_write() for name, elements in items.items() if name not in ended or name in completed}


def _unchanged(
    traces: Iterable[StepRun], writes: Iterable[StepWrite], statuses: Mapping[str, StepStatus]
) -> dict[int, StepStatus]:
    """The steps that use answers of this write, by place. None of them may have run meanwhile."""
    names = {write.name for write in writes}
    users = {user for trace in traces if trace.step.name in names for user in trace.users} - names
    return {place: status for place, (name, status) in enumerate(statuses.items()) if name in users}


def _statuses_after(
    task: TaskRecord, statuses: Mapping[str, StepStatus], writes: Iterable[StepWrite], changed: JsonObject
) -> dict[str, StepStatus]:
    """The statuses after the write. A value that no step may use yet leaves its step open, also one that this run has
    brought."""
    after = {**statuses} | {write.name: write.status for write in writes}
    early = {name for name in after if changed.get(f"{EARLY_PREFIX}{name}", is_early(task.variables, name))}
    return {
        name: StepStatus.PENDING if name in early and status is StepStatus.COMPLETED else status
        for name, status in after.items()
    }


def merged_items(task: TaskRecord, items: Mapping[str, ListElements]) -> dict[str, ListElements]:
    """The lists of a run with the results that continuations have stored meanwhile. Stored results are kept.

    Raises:
        StoreError: the stored elements cannot be read.
    """
    return {
        name: step_items if step_items.version == task.version else merged_with(step_items, task.variables, name)
        for name, step_items in items.items()
    }


def _is_settled(statuses: Mapping[str, StepStatus], name: str) -> bool:
    return statuses.get(name, StepStatus.COMPLETED).settled


def run_result(statuses: Mapping[str, StepStatus]) -> dict[str, Json]:
    """The completed task's result."""
    completed_count = sum(status is StepStatus.COMPLETED for status in statuses.values())
    return {"completed": True, "steps_completed": completed_count}


def _extras(task: TaskRecord, writes: Iterable[StepWrite]) -> dict[str, Json]:
    """The results of calls that came before the condition of their step was decided, which is false."""
    skipped = {write.name for write in writes if drops_value(write)}
    tools = {step["name"]: step["tool"] for step in steps_of(task) if step["name"] in skipped and "tool" in step}
    try:
        return {f"{EXTRA_PREFIX}{tool}": task.variables[f"{RESULT_PREFIX}{name}"] for name, tool in tools.items()}
    except StoreError:
        logger.warning("task %s: the results of %s cannot be read", task.task_id, list(tools), exc_info=True)
        return {}


def drops_value(write: StepWrite) -> bool:
    """Whether a step is skipped that had a value, which came before its condition was decided."""
    return (write.expected, write.status) == (StepStatus.COMPLETED, StepStatus.SKIPPED)


def outdated(writes: Iterable[StepWrite]) -> frozenset[str]:
    """The stored calls of continuations for the steps that a run writes itself, and the values of skipped steps, as
    errors and early callbacks. A `pending` step has neither. The digests of a callback stay, so that its repetition is
    accepted."""
    rewritten = [write for write in writes if write.expected is not StepStatus.PENDING]
    values = (f"{RESULT_PREFIX}{write.name}" for write in rewritten if write.status is StepStatus.SKIPPED)
    return frozenset(f"{CALL_PREFIX}{write.name}" for write in rewritten if not drops_value(write)).union(values)


def _writes(
    task: TaskRecord,
    traces: Sequence[StepRun],
    statuses: Mapping[str, StepStatus],
    items: Mapping[str, ListElements],
    *,
    is_last: bool,
) -> list[StepWrite]:
    places = {name: index for index, name in enumerate(statuses)}
    trace_names = {trace.step.name for trace in traces}
    writes = []
    for trace in traces:
        name, old_status, status = trace.step.name, statuses.get(trace.step.name), status_of(trace.outcome)
        is_result_kept = old_status is StepStatus.COMPLETED and not isinstance(trace.outcome, Succeeded)
        is_dropped = is_result_kept and trace.outcome == Skipped(Skip.CONDITION) and is_early(task.variables, name)
        if old_status is None or (is_result_kept and not is_dropped):
            continue
        if old_status is StepStatus.COMPLETED and any(
            user not in trace_names and statuses.get(user) not in (None, StepStatus.PENDING) for user in trace.users
        ):
            continue  # a later call has used the answer that this one would replace
        if old_status is StepStatus.COMPLETED and _has_ended(task, name, items):
            continue  # a continuation has completed the list, with the results of this run
        result: Json | ListResult = stored_result(trace.outcome)
        if name in items and status is StepStatus.FAILED and not items[name].open:
            status, result = StepStatus.COMPLETED, _result_of(items[name])  # continuations have supplied the rest
        elif name in items and status is StepStatus.COMPLETED:
            result = _result_of(items[name])
        writes.append(StepWrite(places[name], name, old_status, status, result, trace.stored_call, trace.timing))
    # A checkpoint leaves a list that has all its results to the end of the step.
    for name, step_items in items.items() if is_last else ():
        if name not in trace_names and not step_items.open and not _is_settled(statuses, name):
            writes.append(StepWrite(places[name], name, statuses[name], StepStatus.COMPLETED, _result_of(step_items)))
    return writes


def _result_of(items: ListElements) -> Json | ListResult:
    """The result of a completed list. If it is stored, its results are not written again."""
    return items.in_order if items.stored is None else ListResult()


def _has_ended(task: TaskRecord, name: str, items: Mapping[str, ListElements]) -> bool:
    """Whether the task has no list any more that was stored for a step."""
    return name in items and items[name].stored is not None and list_in(task.variables, name) is None


def _new_pauses(
    task: TaskRecord, pauses: Sequence[PauseReason], new_statuses: Mapping[str, StepStatus], *, last: bool
) -> tuple[JsonObject, ...] | None:
    """The reasons after the write. A step that is settled, or does not exist any more, has not stopped. Before its last
    write, a run knows only some of the stopped steps."""
    open_steps = [name for name, status in new_statuses.items() if not status.settled]
    new = {pause.step: pause.to_json() for pause in pauses if pause.step in open_steps}
    stored = pauses_of(task)
    kept = {str(paused_step(reason)): reason for reason in stored}
    if last:
        # A call may have failed meanwhile, while another one has completed the step at which this run has stopped.
        kept = {
            name: reason for name, reason in kept.items() if not new and new_statuses.get(name) is StepStatus.FAILED
        }
    reasons = kept | new
    changed = stored_pauses([reasons[name] for name in open_steps if name in reasons])
    # The last write requires the statuses of the stopped steps: another request may have completed one.
    return None if changed == stored and not (last and changed) else changed
