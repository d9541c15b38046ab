"""Continuations: a `tools/call` that names a task. Which step it is, and how its outcome is recorded
(docs/workflows.md, Going on)."""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from mcp_baton.exceptions import Conflict, OutcomeUnknown, StoreError, TaskFinished, TaskNotFound
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.server.asking.asker import Identity, identity_for_task
from mcp_baton.server.definitions.tool import Tool
from mcp_baton.server.execution import AskerFactory
from mcp_baton.server.request import Request
from mcp_baton.server.running.runner import CallOptions
from mcp_baton.server.schema.prompt_arguments import check_arguments
from mcp_baton.server.workflows.task_view import notes_meta, task_meta
from mcp_baton.tasks.ids import new_token
from mcp_baton.tasks.record import StepStatus, TaskRecord
from mcp_baton.tasks.store import Batch, Timing, write_decided
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.telemetry import RECORDINGS_LOST
from mcp_baton.workflow.approval import AFTER_APPROVAL, NotApproved
from mcp_baton.workflow.continuation import (
    Candidate,
    ContinuationCall,
    attempts_for,
    candidates,
    choose,
    continuation_batch,
    matching_step,
    workflow_if_ready,
)
from mcp_baton.workflow.definition import Workflow, random_fraction
from mcp_baton.workflow.definition_changes import declared_arguments
from mcp_baton.workflow.handoff import next_calls
from mcp_baton.workflow.host import NO_PLACE, Attempt, Failed, Outcome, Place
from mcp_baton.workflow.keys import step_key
from mcp_baton.workflow.placeholders import (
    CHANGED,
    PlaceholderLimits,
    ReplacedArguments,
    replace_placeholders,
    unknown_text,
)
from mcp_baton.workflow.plan import Plan
from mcp_baton.workflow.repeats import Repeat

logger = logging.getLogger(__name__)

UNKNOWN_TASK = "unknown task"
STORE_DOWN = "the task store is not available"
KEPT_CHANGING = "the task kept changing; make the call again"
UNKNOWN_OUTCOME = "the task store's answer was lost; look at the task before you make the call again"
NOTHING_RUN = "nothing was run"

type PlanOrMeta = Plan | dict[str, Json]
"""The plan of a live task, or the `_meta` that says why nothing can be recorded."""


class Recording(Struct, frozen=True):
    """Says whether a call was recorded: as members of the result's `_meta`, and as a text for models that do not see
    `_meta`."""

    meta: dict[str, Json]
    text: Callable[[], str]


class RefusedCall(Struct, frozen=True):
    """A call that is refused: its tool must not run."""

    outcome: Failed
    recording: Recording


class Continuation(Struct, frozen=True):
    """A call that names a task, before the tool runs.

    Attributes:
        call: The call, with values instead of placeholders.
        identity: The origin of its idempotency key.
        ranked: The steps that may be meant, for the task as it was read.
        at_ms: When the call starts, epoch milliseconds.
        began_s: The same on `Services.clock`.
        place: The place of the call in its workflow, for the guards of its tool.
        rng: Chooses a step after a lost race.
    """

    request: Request
    task: PlanOrMeta
    call: ContinuationCall
    identity: Identity
    variables: TaskVariables
    asking: AskerFactory
    ranked: Sequence[Candidate]
    at_ms: int
    began_s: float
    place: Place = NO_PLACE
    rng: Callable[[], float] = random_fraction

    @property
    def options(self) -> CallOptions:
        """How the tool runs. If its task was found, it finishes even if the client disconnects."""
        live = isinstance(self.task, Plan)
        attempt = Attempt(key=self.identity.key, place=self.place)
        return CallOptions(self.variables if live else None, stay=live, attempt=attempt)

    def record(self, outcome: Outcome) -> Recording:
        if not isinstance(self.task, Plan):
            return _failure_recording(self.task)
        if isinstance(outcome, Failed) and outcome.not_approved is not None:
            return _refused_recording(self.request, self.task.task.task_id, self.task, outcome.not_approved)
        request, plan, batches = self.request, self.task, list[Batch]()
        timing = Timing(self.at_ms, round((request.services.clock() - self.began_s) * 1000))

        def decide(current: TaskRecord) -> Batch:
            call, variables = self.call, self.variables
            if current is plan.task:
                batch = continuation_batch(plan, call, outcome, variables, ranked=self.ranked, timing=timing)
            else:
                now = plan_of(request, current)
                batch = continuation_batch(now, call, outcome, variables, self.rng, timing=timing)
            batches.append(batch)
            return batch

        attempts = attempts_for(plan, self.call.tool)
        try:
            store, _ = request.own_tasks()
            recorded = write_decided(store, plan.task, decide, attempts=attempts)
        except StoreError as error:
            return _failure_recording(_error_meta(request, plan.task.task_id, error), plan.workflow)
        after = plan_of(request, recorded.task)
        return _success_recording(request, after, batches[-1], recorded.oversized, self.call.arguments)


def prepare(request: Request, tool: Tool, arguments: JsonObject, task_id: str) -> Continuation | RefusedCall:
    """Read the task that a call names, replace placeholders by values, and choose the idempotency key."""
    rounds = request.rounds()
    plan, found = _find(request, task_id)
    budget = request.budget
    sent = replace_placeholders(
        arguments, plan, PlaceholderLimits(min(request.server.options.placeholder_bytes, budget.left), budget.unread)
    )
    budget.read(sent.read_bytes)
    budget.take(sent.inserted_bytes)
    if sent.unknown:
        return RefusedCall(Failed(unknown_text(sent.unknown)), _refused_recording(request, task_id, found))
    earlier = identity_for_task(rounds.earlier, task_id) if rounds else None
    if earlier and earlier.values != sent.digest:
        return RefusedCall(Failed(CHANGED), _refused_recording(request, task_id, found))
    # This includes finished tasks: a late call is not recorded, but needs the same key, so that nothing is paid twice.
    ranked = candidates(plan, tool.name, sent.arguments, sent.names) if plan else []
    identity = earlier or _identity(ranked, tool, sent, task_id)
    place = place_of(found, tool, ranked, identity.step, identity.by) if isinstance(found, Plan) else NO_PLACE
    if rounds:
        rounds.identity = replace(identity, by=place.by or None)
    variables = TaskVariables(found.task.variables if isinstance(found, Plan) else {})
    # A call that was approved as one step is never recorded as another, after a lost race.
    step = identity.step or (place.name if isinstance(found, Plan) and _may_need_approval(found, tool) else None)
    call = ContinuationCall(tool.name, sent.arguments, step, sent.names)
    asking, now_ms, now_s = request.asking(rounds), request.now_ms(), request.services.clock()
    return Continuation(request, found, call, identity, variables, asking, ranked, now_ms, now_s, place)


def place_of(plan: Plan, tool: Tool, ranked: Sequence[Candidate], step: str | None, before: str | None) -> Place:
    """Return the place of a call among the steps of its task. Only guards need the step.

    Args:
        step: The step whose idempotency key the call has, if there is one.
        before: The name of this call's attempt in an earlier round.
    """
    workflow = plan.workflow
    if not tool.only_in and not _may_need_approval(plan, tool):
        return Place(workflow, task=plan.task)
    chosen = next((it for it in ranked if it.name == step), None) or choose(ranked)
    if workflow is None or chosen is None:
        return Place(workflow, task=plan.task, by=f"call:{new_token()}", before=before)
    return Place(
        workflow,
        workflow.step(chosen.step["name"]),
        chosen.name,
        plan.task,
        is_turn=bool(tool.only_in) and workflow_if_ready(plan, ranked) is not None,
        is_item=chosen.item is not None,
        by=f"call:{new_token()}",
        before=before,
    )


def _may_need_approval(plan: Plan, tool: Tool) -> bool:
    steps = plan.workflow.steps if plan.workflow else ()
    return tool.approval is not None or any(it.tool == tool.name and it.approval for it in steps)


def _identity(ranked: Sequence[Candidate], tool: Tool, sent: ReplacedArguments, task_id: str) -> Identity:
    step = matching_step(ranked)
    if step is None:
        return Identity(task=task_id, values=sent.digest)
    key = step_key(task_id, step, partial(tool.canonical, sent.arguments))
    return Identity(key, task_id, step, sent.digest)


def _find(request: Request, task_id: str) -> tuple[Plan | None, PlanOrMeta]:
    """Return the plan of the task, which has the values for placeholders; and where the call can be recorded."""
    try:
        store, owner = request.own_tasks()
        task = store.get(owner, task_id)
    except StoreError as error:
        return None, _error_meta(request, task_id, error)
    plan = plan_of(request, task)
    return plan, _error_meta(request, task_id, TaskFinished(task)) if task.status.terminal else plan


def _success_recording(
    request: Request, after: Plan, batch: Batch, oversized: Sequence[str], arguments: JsonObject
) -> Recording:
    """Return the recording of a call that was recorded. `after` is the plan after the write."""
    done = [step.name for step in batch.steps if step.expected is not StepStatus.COMPLETED]
    twice = [it for name in done for it in after.repeated(name, arguments)]

    def text() -> str:
        from mcp_baton.server.workflows.task_ids import handle_of
        from mcp_baton.workflow.continuation import RecordedCall, recorded_text

        handle = handle_of(request.server, after.workflow, after.task.task_id) if after.workflow else None
        following = next_calls(after, request.server, handle)
        return recorded_text(RecordedCall(after, batch, following, handle, oversized, twice))

    return Recording(recorded_meta(request, after, oversized, twice), text)


def recorded_meta(
    request: Request, after: Plan, oversized: Sequence[str], twice: Sequence[Repeat] = ()
) -> dict[str, Json]:
    """Return the `_meta` of a continuation that was recorded: the task after the write."""
    meta = task_meta(request, after.task, after.steps) | {"next": remaining(request, after), "recorded": True}
    return meta | notes_meta(after.repeats(), twice, oversized)


def _failure_recording(meta: dict[str, Json], workflow: Workflow | None = None) -> Recording:
    """Return the recording of a call whose tool ran, but which was not recorded, or may not have been."""

    def text() -> str:
        from mcp_baton.workflow.continuation import uncertain_text, unrecorded_text
        from mcp_baton.workflow.handoff import call_that_shows

        if meta["recorded"] == "unknown":
            return uncertain_text(call_that_shows(str(meta["task_id"]), workflow))
        return unrecorded_text(str(meta["record_error"]))

    return Recording(meta, text)


def _refused_recording(
    request: Request, task_id: str, found: PlanOrMeta, refused: NotApproved | None = None
) -> Recording:

    def text() -> str:
        from mcp_baton.server.workflows.task_ids import handle_of
        from mcp_baton.workflow.continuation import unrecorded_text

        if refused is not None and not refused.is_denied:
            return f"Nothing was run or recorded. {AFTER_APPROVAL}"
        if refused is not None and isinstance(found, Plan) and found.workflow:
            return f"Nothing was run or recorded. {handle_of(request.server, found.workflow, task_id).cancel_text()}"
        return unrecorded_text(str(meta["record_error"]), is_made=False)

    if isinstance(found, Plan):
        meta = unrecorded_meta(request, task_id, NOTHING_RUN, found.task, remaining(request, found))
    else:
        meta = found
    return Recording(meta, text)


def plan_of(request: Request, task: TaskRecord) -> Plan:
    workflow = request.server.workflows.get(task.workflow or "")

    def canonical(tool: str, arguments: JsonObject) -> JsonObject:
        return request.server.tools[tool].canonical(arguments)

    return Plan(task, workflow, partial(_prompt_arguments, workflow), canonical)


def remaining(request: Request, plan: Plan) -> list[JsonObject]:
    return next_calls(plan, request.server)


def _error_meta(request: Request, task_id: str, error: StoreError) -> dict[str, Json]:
    if not isinstance(error, TaskNotFound | TaskFinished):
        request.services.telemetry.add(RECORDINGS_LOST)
    match error:
        case TaskNotFound():
            return unrecorded_meta(request, task_id, UNKNOWN_TASK)
        case TaskFinished():
            return unrecorded_meta(request, task_id, str(error), error.current)
        case Conflict():
            logger.error("task %s: the call was not recorded: too many concurrent calls", task_id)
            following = remaining(request, plan_of(request, error.current))
            return unrecorded_meta(request, task_id, KEPT_CHANGING, error.current, following)
        case OutcomeUnknown():
            logger.error("task %s: it is unknown whether the call was recorded", task_id, exc_info=error)
            return unrecorded_meta(request, task_id, UNKNOWN_OUTCOME, recorded="unknown")
        case _:
            logger.error("task %s: the call was not recorded", task_id, exc_info=error)
            return unrecorded_meta(request, task_id, STORE_DOWN)


def _prompt_arguments(workflow: Workflow | None, task: TaskRecord) -> tuple[dict[str, str], dict[str, Json]] | None:
    """Return the prompt arguments of the task. `None` if they cannot be read: the call is recorded anyway."""
    if workflow is None:
        return None
    try:
        kept = [argument for argument in workflow.arguments if not argument.secret]
        return check_arguments(kept, declared_arguments(workflow, task))
    except Exception:  # types of the author may raise anything
        logger.warning("task %s: its prompt arguments cannot be used", task.task_id, exc_info=True)
        return None


def unrecorded_meta(
    request: Request,
    task_id: str,
    error: str,
    task: TaskRecord | None = None,
    following: Sequence[Json] = (),
    recorded: Literal[False, "unknown"] = False,
) -> dict[str, Json]:
    """Return the `_meta` of a continuation that was not recorded, or may not have been. It has the task and its
    suggested calls, if the task's state is known."""
    meta: dict[str, Json] = {"task_id": task_id}
    if task:
        meta = task_meta(request, task) | {"next": following}
    return meta | {"recorded": recorded, "record_error": error}
