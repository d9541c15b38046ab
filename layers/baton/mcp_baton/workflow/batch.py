"""The batch that a run writes, decided on the task's present state. Pure: it is decided again after a lost race."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import cast

from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.record import (
    CALL_PREFIX,
    EARLY_PREFIX,
    ITEMS_PREFIX,
    PROGRESS,
    RESULT_PREFIX,
    Claim,
    StepStatus,
    TaskRecord,
    is_early,
    pause_of,
    paused_step,
    statuses_of,
)
from mcp_baton.tasks.store import Batch, ClearPause, PauseWrite, SetPause, StepWrite
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.tools.outcomes import Succeeded
from mcp_baton.workflow.definition_changes import Move, obsolete_variables, statuses_under
from mcp_baton.workflow.host import Skip, Skipped, status_of, stored_result
from mcp_baton.workflow.items import Items, stored_items
from mcp_baton.workflow.pause import PauseReason
from mcp_baton.workflow.run import StepTrace


def run_batch(
    task: TaskRecord,
    traces: Sequence[StepTrace],
    pause: PauseReason | None,
    variables: TaskVariables,
    *,
    finished: bool,
    move: Move | None = None,
    claim: Claim | None = None,
    release: bool = False,
    items: Mapping[str, Items] = MappingProxyType({}),
    same_version: bool = False,
    watched: Collection[str] = (),
) -> Batch:
    """The batch of a run, or of the part of it that has not been written yet.

    If a continuation has completed a step meanwhile, the step stays completed: a failure of this run is dropped with
    its pause, and so is a skip; a success of this run overwrites the result. But an answer or a callback that came
    before the condition of its step was decided is dropped if the condition is false.

    Args:
        traces: The steps that ran and have not been written.
        move: The move to the run's definition, if the task was read with another one. If another request has moved the
            task meanwhile, it is not moved back: only the steps that it still has are written.
        items: The lists to write, with the results that the task has by now (`merged_items`).
        watched: Steps whose statuses must be as they were read.
        same_version: Whether the task must be as it was read, because the batch depends on more than statuses.
    """
    pending_move = move if move and move.concerns(task) else None
    statuses = statuses_under(task, pending_move.workflow) if pending_move else statuses_of(task)
    completed_names = (name for name, status in statuses.items() if status is StepStatus.COMPLETED)
    early_names = {name for name in completed_names if is_early(task.variables, name)}
    still_early = {name for name in early_names if variables.changed.get(f"{EARLY_PREFIX}{name}") is not False}
    writes = tuple(_writes(traces, statuses, items, early_names))
    written_names = {write.name for write in writes}
    users = {user for trace in traces if trace.step.name in written_names for user in trace.users}
    unchanged = sorted((users.union(watched) - written_names) & statuses.keys())
    places = {name: index for index, name in enumerate(statuses)}
    new_statuses = statuses | dict.fromkeys(still_early, StepStatus.PENDING)
    new_statuses |= {write.name: write.status for write in writes}
    completed = finished and all(status.settled for status in new_statuses.values())
    names = {name: f"{ITEMS_PREFIX}{name}" for name in items}
    open_items = {names[name]: entry.to_json() for name, entry in items.items() if not _is_settled(new_statuses, name)}
    ended_items = {names[name] for name in items if _is_settled(new_statuses, name)} & task.variables.keys()
    return Batch(
        steps=writes,
        unchanged={places[name]: statuses[name] for name in unchanged},
        pause=_pause_write(task, pause, new_statuses, finished=finished),
        variables=variables.changed | open_items | (_progress(pending_move, statuses) if pending_move else {}),
        removed=variables.removed
        | outdated(writes)
        | ended_items
        | (obsolete_variables(task, pending_move.workflow, statuses) if pending_move else frozenset()),
        same_version=same_version,
        result=run_result(new_statuses) if completed else None,
        definition=pending_move.workflow.fingerprint if pending_move else None,
        claim=claim,
        release=release,
    )


def merged_items(task: TaskRecord, items: Mapping[str, Items]) -> dict[str, Items]:
    """The lists of a run with the results that continuations have stored meanwhile. Stored results are kept.

    Raises:
        StoreError: the stored results cannot be read.
    """
    return {name: _merged(task, name, step_items) for name, step_items in items.items()}


def _merged(task: TaskRecord, name: str, items: Items) -> Items:
    other = None if items.version == task.version else stored_items(task.variables, name)
    if other is None or len(other.elements) != len(items.elements):
        return items
    results = {index: value for index, value in other.results.items() if other.elements[index] == items.elements[index]}
    return Items(items.elements, items.results | results)


def _is_settled(statuses: Mapping[str, StepStatus], name: str) -> bool:
    return statuses.get(name, StepStatus.COMPLETED).settled


def _progress(move: Move, statuses: Mapping[str, StepStatus]) -> dict[str, Json]:
    return {PROGRESS: cast("JsonObject", move.workflow.progress(list(statuses.values())))}


def run_result(statuses: Mapping[str, StepStatus]) -> dict[str, Json]:
    """The completed task's result."""
    completed_count = sum(status is StepStatus.COMPLETED for status in statuses.values())
    return {"completed": True, "steps_completed": completed_count}


def outdated(writes: Iterable[StepWrite]) -> frozenset[str]:
    """The stored calls of continuations for the steps that a run writes itself, and the values of skipped steps, as
    errors and early callbacks. A `pending` step has neither. The digests of a callback stay, so that its repetition is
    accepted."""
    rewritten = [write for write in writes if write.expected is not StepStatus.PENDING]
    values = (f"{RESULT_PREFIX}{write.name}" for write in rewritten if write.status is StepStatus.SKIPPED)
    drops_early = [
        write for write in rewritten if (write.expected, write.status) == (StepStatus.COMPLETED, StepStatus.SKIPPED)
    ]
    return frozenset(f"{CALL_PREFIX}{write.name}" for write in rewritten if write not in drops_early).union(values)


def _writes(
    traces: Sequence[StepTrace],
    statuses: Mapping[str, StepStatus],
    items: Mapping[str, Items],
    early_names: Collection[str],
) -> list[StepWrite]:
    places = {name: index for index, name in enumerate(statuses)}
    trace_names = {trace.step.name for trace in traces}
    writes = []
    for trace in traces:
        name, old_status, status = trace.step.name, statuses.get(trace.step.name), status_of(trace.outcome)
        is_result_kept = old_status is StepStatus.COMPLETED and not isinstance(trace.outcome, Succeeded)
        if old_status is None or (is_result_kept and not (name in early_names and _is_skipped_by_condition(trace))):
            continue
        if old_status is StepStatus.COMPLETED and any(
            user not in trace_names and statuses.get(user) not in (None, StepStatus.PENDING) for user in trace.users
        ):
            continue  # a later call has used the answer that this one would replace
        result = stored_result(trace.outcome)
        if name in items and status is StepStatus.FAILED and not items[name].open:
            status, result = StepStatus.COMPLETED, items[name].in_order  # continuations have supplied the rest
        writes.append(StepWrite(places[name], name, old_status, status, result, trace.stored_call, trace.timing))
    for name, step_items in items.items():
        if name not in trace_names and not step_items.open and not _is_settled(statuses, name):
            writes.append(StepWrite(places[name], name, statuses[name], StepStatus.COMPLETED, step_items.in_order))
    return writes


def _is_skipped_by_condition(trace: StepTrace) -> bool:
    return isinstance(trace.outcome, Skipped) and trace.outcome.why is Skip.CONDITION


def _pause_write(
    task: TaskRecord, pause: PauseReason | None, new_statuses: Mapping[str, StepStatus], *, finished: bool
) -> PauseWrite:
    if pause and not new_statuses.get(pause.step, StepStatus.COMPLETED).settled:
        return SetPause(pause.to_json())
    stored_pause = pause_of(task)
    if stored_pause is None:
        return None
    step_name = paused_step(stored_pause)
    # The paused step is settled, or does not exist any more.
    if finished or (step_name is not None and new_statuses.get(str(step_name), StepStatus.COMPLETED).settled):
        return ClearPause(stored_pause)
    return None
