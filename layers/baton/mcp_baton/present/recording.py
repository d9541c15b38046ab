"""How a continuation was recorded: as members of the result's `_meta`, and as a text for models that do not see `_meta`
(docs/workflows.md, Going on)."""

from collections.abc import Sequence
from itertools import takewhile
from typing import Final

from mcp_baton.exceptions import Conflict, OutcomeUnknown, StoreError, TaskFinished
from mcp_baton.present.fit import MAX_EVENT_BYTES, cut
from mcp_baton.present.handoff import (
    MAX_CALLS_SHOWN,
    answer_text,
    call_text,
    call_that_shows,
    cancel_text,
    capitalized,
    resume_text,
)
from mcp_baton.present.pause_sentences import failure_hint
from mcp_baton.present.sentences import (
    NOT_MADE,
    all_done_text,
    is_settled,
    may_have_run,
    may_have_run_twice,
    skipped_count,
    unrecorded_reason,
)
from mcp_baton.present.stored_task import notes_meta, task_meta, view_of, with_decisions
from mcp_baton.protocol.json import Json, JsonObject, dumps_spaced
from mcp_baton.tasks.record import StepStatus, TaskRecord
from mcp_baton.tasks.step_ids import step_id
from mcp_baton.tasks.store import Batch
from mcp_baton.tools.approval import AFTER_APPROVAL
from mcp_baton.tools.arguments import TASK_ID
from mcp_baton.tools.quoting import quoted_error
from mcp_baton.workflow.continuation import ContinuationCall
from mcp_baton.workflow.continuations import NotMade, NotRecorded, Recorded, Recording, plan_of
from mcp_baton.workflow.execution import Execution
from mcp_baton.workflow.handle import Handle, handle_of
from mcp_baton.workflow.list_elements import ListElements
from mcp_baton.workflow.pause import StepFailed, pause_at
from mcp_baton.workflow.plan import Plan
from mcp_baton.workflow.remaining import next_calls
from mcp_baton.workflow.repeats import Repeat

CALL_MADE: Final = "The call itself was made."
EXTRA_CALL: Final = "Recorded as an extra call, not as a step"
RESULT_LOST: Final = "Its result could not be kept, so later calls cannot refer to it."


def show_recording(execution: Execution, recording: Recording, *, in_text: bool) -> tuple[dict[str, Json], str]:
    """Return the members of `_meta`; and the text, empty unless `in_text`."""
    match recording:
        case Recorded():
            plan = _plan(execution, recording.task)
            repeats = recording.repeats(plan)
            meta = recorded_meta(execution, plan, recording.oversized, repeats) | _ignored_meta(recording.call)
            if not in_text:
                return meta, ""
            handle = handle_of(execution.server, plan.workflow, plan.task) if plan.workflow else None
            following = next_calls(plan, execution.server, handle)
            return meta, recorded_text(recording, plan, following, handle, repeats)
        case NotRecorded(error=error):
            meta = _failure_meta(execution, recording.task_id, error)
            return meta, _failure_text(recording) if in_text else ""
        case NotMade(target=StoreError() as error):
            meta = _failure_meta(execution, recording.task_id, error)
        case NotMade(target=Plan() as target):
            # `next` does not name the call that was not made.
            plan = _plan(execution, target.task)
            calls = [entry for entry in _next_calls(execution, plan) if not _is_of_step(entry, recording.call)]
            meta = _state(execution, plan, calls) | {"recorded": False, "record_error": NOT_MADE}
            meta |= _ignored_meta(recording.call)
    return meta, _not_made_text(execution, recording, str(meta["record_error"])) if in_text else ""


def recorded_meta(
    execution: Execution, plan: Plan, oversized: Sequence[str], repeats: Sequence[Repeat] = ()
) -> dict[str, Json]:
    """Return the `_meta` of a continuation that was recorded: the task after the write."""
    meta = _state(execution, plan, _next_calls(execution, plan)) | {"recorded": True}
    return meta | notes_meta(plan.repeats(), repeats, oversized)


def _failure_meta(execution: Execution, task_id: str, error: StoreError) -> dict[str, Json]:
    """Return the `_meta` of a call that was not recorded, or may not have been. It has the task and its suggested calls
    if the state of the task is known."""
    meta: dict[str, Json] = {"task_id": task_id}
    if isinstance(error, TaskFinished | Conflict):
        plan = _plan(execution, error.current)
        meta = _state(execution, plan, _next_calls(execution, plan))
    recorded = "unknown" if isinstance(error, OutcomeUnknown) else False
    return meta | {"recorded": recorded, "record_error": unrecorded_reason(error)}


def _state(execution: Execution, plan: Plan, calls: Sequence[Json]) -> dict[str, Json]:
    view = view_of(plan.task, execution.now_ms(), steps=plan.steps)
    return task_meta(view, stateless=execution.stateless) | {"next": calls}


def _plan(execution: Execution, task: TaskRecord) -> Plan:
    return plan_of(execution.server, with_decisions(task, execution.store))


def _next_calls(execution: Execution, plan: Plan) -> list[JsonObject]:
    return next_calls(plan, execution.server, with_failed=False)


def _failure_text(recording: NotRecorded) -> str:
    if not isinstance(recording.error, OutcomeUnknown):
        return f"Not recorded: {unrecorded_reason(recording.error)}. {CALL_MADE}"
    check = call_that_shows(recording.task_id, recording.workflow)
    problem = f"It is not certain that the call was recorded: the task store's answer was lost. {CALL_MADE}"
    return f"{problem} Before you make it again, {check} to see whether it is recorded."


def _not_made_text(execution: Execution, recording: NotMade, reason: str) -> str:
    refusal, target = recording.refusal, recording.target
    text = f"Not recorded: {reason}."
    if refusal is not None and not refusal.is_denied:
        text = f"Nothing was run or recorded. {AFTER_APPROVAL}"
    elif refusal is not None and isinstance(target, Plan) and target.workflow:
        handle = handle_of(execution.server, target.workflow, target.task)
        text = f"Nothing was run or recorded. {cancel_text(handle)}"
    return " ".join([*_ignored_text(recording.call), text])


def _is_of_step(entry: JsonObject, call: ContinuationCall | None) -> bool:
    """Whether a suggested call is that of the same step."""
    return call is not None and call.step is not None and entry.get(TASK_ID) == call.step.text


def _ignored_meta(call: ContinuationCall | None) -> dict[str, Json]:
    return {} if call is None or call.ignored is None else {"ignored_step": cut(call.ignored, MAX_EVENT_BYTES)}


def _ignored_text(call: ContinuationCall | None) -> list[str]:
    """The sentence about a name that was ignored. It is the caller's text, so it is quoted."""
    if call is None or call.ignored is None:
        return []
    return [f"This task has no call {quoted_error(call.ignored)} of {call.tool}: that name was ignored."]


def recorded_text(
    recorded: Recorded,
    plan: Plan,
    following: Sequence[JsonObject],
    handle: Handle | None,
    repeats: Sequence[Repeat] = (),
) -> str:
    """The text of a recorded call: the step, and the next call.

    Args:
        plan: The plan after the write.
        following: The suggested calls.
        handle: Names the task in calls; `None` if the server does not have its workflow any more.
        repeats: The recorded step, if a run may have run it before.
    """
    batch, statuses = recorded.batch, _statuses(plan)
    count = sum(map(is_settled, statuses))
    is_over = count == len(statuses)
    position = f"{_position_text(plan, batch)} ({count} of {len(statuses)} done{skipped_count(statuses)})."
    sentences = _ignored_text(recorded.call) + ([] if is_over and batch.steps else [position])
    sentences += _open_elements(recorded, plan)
    sentences += may_have_run_twice(repeats, plan.was_interrupted)
    failed = [step.name for step in batch.steps if step.status is StepStatus.FAILED]
    name = next(iter(failed or ([] if batch.steps else batch.lists)), "")
    pause = pause_at(name, plan.pauses)
    if isinstance(pause, StepFailed):
        sentences.append(failure_hint(pause))
    if recorded.oversized:
        sentences.append(RESULT_LOST)
    if not is_over:
        sentences += may_have_run(plan.repeats(), plan.was_interrupted)
    if pause and pause.is_for_the_operator:
        sentences.append(resume_text(handle, None, begin="When the cause is corrected, ") if handle else "")
    else:
        sentences.append(_completion_text(following, statuses) if is_over else _next_text(plan, following, handle))
    return " ".join(filter(None, sentences))


def _statuses(plan: Plan) -> list[StepStatus]:
    """The statuses of the workflow's steps; without a workflow, those of the task's steps."""
    if plan.known is not None:
        return list(plan.known.statuses.values())
    return [StepStatus(step["status"]) for step in plan.steps]


def _position_text(plan: Plan, batch: Batch) -> str:
    name = next((step for step in batch.lists if not batch.steps), None)
    if name is not None:
        items = plan.items_of(name) or ListElements([], {})
        progress = f"{len(items.done)} of its {len(items.elements)} elements have results"
        return f"Recorded as a call of step '{name}': {progress}"
    if not batch.steps:
        return EXTRA_CALL
    [write] = batch.steps
    suffix = ", which failed" if write.status is StepStatus.FAILED else ""
    return f"Recorded as step '{write.name}'{suffix}"


def _open_elements(recorded: Recorded, plan: Plan) -> list[str]:
    """The ids of the open elements, if a call that named no element of their list is recorded as none of them."""
    call, batch = recorded.call, recorded.batch
    is_named = call.is_fixed and call.step is not None
    names = [step["name"] for step in plan.steps if step.get("tool") == call.tool and not is_settled(step["status"])]
    sentences = []
    for name in names if not is_named else ():
        items = plan.items_of(name)
        if items and items.open and name not in batch.lists:
            ids = [dumps_spaced(step_id(plan.task.task_id, name, index).text) for index in items.open[:MAX_CALLS_SHOWN]]
            more = len(items.open) - len(ids)
            rest = f" and {more} more" if more else ""
            sentences.append(f"A call of an element of step '{name}' names it by {TASK_ID}: {', '.join(ids)}{rest}.")
    return sentences


def _completion_text(following: Sequence[JsonObject], statuses: Sequence[StepStatus]) -> str:
    text = all_done_text(statuses)
    if following:
        return f"{text}. {capitalized(call_text(following[0]))} to finish."
    return f"{text}; the client completes the task."


def _next_text(plan: Plan, following: Sequence[JsonObject], handle: Handle | None) -> str:
    """The next call, after the resources that must be read before it."""
    resources = [f"read the resource {entry['resource']}" for entry in takewhile(_is_resource, following)]
    call = next((entry for entry in following if not _is_resource(entry)), None)
    if call is not None:
        guidance = call.get("guidance")
        note = f"\nNote: {guidance}" if guidance else ""
        is_workflow_tool = plan.workflow is not None and call["tool"] == plan.workflow.name
        suffix = ": the server continues." if is_workflow_tool else ""
        return f"Next: {', then '.join([*resources, call_text(call)])}{suffix}{note}"
    if not resources:
        return ""
    resume_calls = handle.call() if handle else []
    if resume_calls:
        return f"Next: {', then '.join(resources)}. {answer_text(resume_calls[0])}"
    return f"Next: {', then '.join(resources)}. No call is left; the client completes the task."


def _is_resource(entry: JsonObject) -> bool:
    return "resource" in entry
