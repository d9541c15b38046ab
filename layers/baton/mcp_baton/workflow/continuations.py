"""Continuations: a `tools/call` that names a task. Finds its step and records its outcome (docs/workflows.md, Going
on)."""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from mcp_baton.exceptions import Conflict, OutcomeUnknown, StoreError, TaskFinished, TaskNotFound
from mcp_baton.present.handoff import next_calls
from mcp_baton.present.task_view import notes_meta, task_meta, with_decision
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.ids import new_token
from mcp_baton.tasks.keys import step_key
from mcp_baton.tasks.record import StepStatus, TaskRecord, pause_of, paused_step, statuses_of
from mcp_baton.tasks.store import Batch, SetPause, Timing, write_decided
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.telemetry import RECORDINGS_LOST
from mcp_baton.tools.approval import AFTER_APPROVAL, NotApproved
from mcp_baton.tools.asking import Identity, identity_for_task
from mcp_baton.tools.calls import NO_PLACE, Attempt, Place
from mcp_baton.tools.outcomes import Failed, Failure, Outcome
from mcp_baton.tools.running.caller import AskerFactory
from mcp_baton.tools.running.runner import CallOptions
from mcp_baton.tools.schema.prompt_arguments import check_arguments
from mcp_baton.tools.secrets import oversized_secret
from mcp_baton.tools.tool import Tool
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
from mcp_baton.workflow.pause import approval_pause
from mcp_baton.workflow.placeholders import (
    CHANGED,
    PlaceholderLimits,
    ReplacedArguments,
    replace_placeholders,
    unknown_text,
)
from mcp_baton.workflow.plan import Plan
from mcp_baton.workflow.repeats import Repeat
from mcp_baton.workflow.request import Request
from mcp_baton.workflow.sources import PromptArg

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
        target: Where the call is recorded.
        call: The call, with values instead of placeholders.
        identity: The origin of its idempotency key.
        ranking: The steps that the call may mean, best first, for the task as it was read.
        at_ms: When the call starts, epoch milliseconds; `began_s` is the same on `Services.clock`.
        place: The place of the call in its workflow, for the guards of its tool.
        rng: Chooses a step after a lost race.
    """

    request: Request
    target: PlanOrMeta
    call: ContinuationCall
    identity: Identity
    variables: TaskVariables
    asker_factory: AskerFactory
    ranking: Sequence[Candidate]
    at_ms: int
    began_s: float
    place: Place = NO_PLACE
    rng: Callable[[], float] = random_fraction

    @property
    def options(self) -> CallOptions:
        """How the tool runs. If its task was found, it finishes even if the client disconnects."""
        is_live = isinstance(self.target, Plan)
        attempt = Attempt(key=self.identity.key, place=self.place)
        return CallOptions(self.variables if is_live else None, stay=is_live, attempt=attempt)

    def record(self, outcome: Outcome) -> Recording:
        if not isinstance(self.target, Plan):
            return _failure_recording(self.target)
        if isinstance(outcome, Failed) and outcome.is_refused:
            plan = self._with_denial(self.target, outcome.not_approved)
            return _refused_recording(self.request, plan.task.task_id, plan, outcome.not_approved, self.call)
        request, plan, batches = self.request, self.target, list[Batch]()
        timing = Timing(self.at_ms, round((request.services.clock() - self.began_s) * 1000))
        is_timed_out = isinstance(outcome, Failed) and outcome.kind is Failure.TIMED_OUT
        call, variables = replace(self.call, key=self.identity.key() if is_timed_out else None), self.variables

        def decide(current: TaskRecord) -> Batch:
            if current is plan.task:
                batch = continuation_batch(plan, call, outcome, variables, ranked=self.ranking, timing=timing)
            else:
                current_plan = plan_of(request, current)
                batch = continuation_batch(current_plan, call, outcome, variables, self.rng, timing=timing)
            batches.append(batch)
            return replace(batch, named=True)

        attempts = attempts_for(plan, self.call.tool)
        try:
            store, _ = request.own_tasks()
            result = write_decided(store, plan.task, decide, attempts=attempts)
        except StoreError as error:
            return _failure_recording(_error_meta(request, plan.task.task_id, error), plan.workflow)
        new_plan = plan_of(request, with_decision(result.task, store))
        return _success_recording(request, new_plan, batches[-1], result.oversized, self.call.arguments)

    def _with_denial(self, plan: Plan, refusal: NotApproved | None) -> Plan:
        """Note in the task that a person has denied the call of its step, so that no handoff suggests it again. Returns
        the plan after that; if it cannot be noted, the same one."""
        step, name = self.place.step, self.place.name
        if refusal is None or not refusal.is_denied or step is None or name is None:
            return plan

        def decide(current: TaskRecord) -> Batch:
            stored_pause = pause_of(current)
            is_paused_here = stored_pause is None or paused_step(stored_pause) == step.name
            if statuses_of(current).get(step.name, StepStatus.COMPLETED).settled:
                return Batch()
            pause = SetPause(approval_pause(step.name, refusal).to_json())
            return Batch(
                pause=pause if is_paused_here and not self.place.is_item else None, variables=self.variables.changed
            )

        try:
            store, _ = self.request.own_tasks()
            return plan_of(
                self.request, write_decided(store, plan.task, decide, attempts=attempts_for(plan, self.call.tool)).task
            )
        except StoreError:
            logger.warning("task %s: a denial could not be noted", plan.task.task_id, exc_info=True)
            return plan


def prepare(request: Request, tool: Tool, arguments: JsonObject, task_id: str) -> Continuation | RefusedCall:
    """Read the task that a call names, replace placeholders by values, and choose the idempotency key."""
    rounds = request.rounds()
    plan, target = _find(request, task_id)
    budget = request.budget
    replacement = replace_placeholders(
        arguments, plan, PlaceholderLimits(min(request.server.options.placeholder_bytes, budget.left), budget.unread)
    )
    budget.read(replacement.read_bytes)
    budget.take(replacement.inserted_bytes)
    if replacement.unknown:
        return RefusedCall(Failed(unknown_text(replacement.unknown)), _refused_recording(request, task_id, target))
    if problem := _oversized_secret(plan, tool, arguments):
        return RefusedCall(Failed(f"Nothing was run. {problem}"), _refused_recording(request, task_id, target))
    earlier_identity = identity_for_task(rounds.earlier_identity, task_id) if rounds else None
    if earlier_identity and earlier_identity.values != replacement.digest:
        return RefusedCall(Failed(CHANGED), _refused_recording(request, task_id, target))
    # This includes finished tasks: a late call is not recorded, but needs the same key, so that nothing is paid twice.
    ranking = candidates(plan, tool.name, replacement.arguments, replacement.names) if plan else []
    identity = earlier_identity or _identity(ranking, tool, replacement, task_id)
    place = place_of(target, tool, ranking, identity.step, identity.by) if isinstance(target, Plan) else NO_PLACE
    if rounds:
        rounds.identity = replace(identity, by=place.by or None)
    variables = TaskVariables(target.task.variables if isinstance(target, Plan) else {})
    # A call that was approved as one step is not recorded as another step, even after a lost race.
    step = identity.step or (place.name if isinstance(target, Plan) and _may_need_approval(target, tool) else None)
    call = ContinuationCall(tool.name, replacement.arguments, step, replacement.names)
    asker_factory, now_ms, now_s = request.asking(rounds), request.now_ms(), request.services.clock()
    return Continuation(request, target, call, identity, variables, asker_factory, ranking, now_ms, now_s, place)


def _oversized_secret(plan: Plan | None, tool: Tool, arguments: JsonObject) -> str | None:
    """Which of a call's arguments is a secret that is too large, as a sentence."""
    workflow = plan.workflow if plan else None
    if workflow is None or not workflow.secrets:
        return None
    for step in workflow.steps:
        for name, source in step.arguments.items() if step.tool == tool.name else ():
            if isinstance(source, PromptArg) and source.name in workflow.secrets and name in arguments:
                problem = oversized_secret(arguments[name], arguments[name])
                if problem:
                    return f"The argument '{name}' is secret, and {problem}."
    return None


def place_of(plan: Plan, tool: Tool, ranking: Sequence[Candidate], step: str | None, previous: str | None) -> Place:
    """Return the place of a call among the steps of its task. Only guards need the step.

    Args:
        step: The step whose idempotency key the call has, if there is one.
        previous: The name of this call's attempt in an earlier round.
    """
    workflow = plan.workflow
    if not tool.only_in and not _may_need_approval(plan, tool):
        return Place(workflow, task=plan.task)
    candidate = next((item for item in ranking if item.name == step), None) or choose(ranking)
    if workflow is None or candidate is None:
        return Place(workflow, task=plan.task, by=f"call:{new_token()}", before=previous)
    return Place(
        workflow,
        workflow.step(candidate.step["name"]),
        candidate.name,
        plan.task,
        is_turn=bool(tool.only_in) and workflow_if_ready(plan, ranking) is not None,
        is_item=candidate.item is not None,
        by=f"call:{new_token()}",
        before=previous,
    )


def _may_need_approval(plan: Plan, tool: Tool) -> bool:
    steps = plan.workflow.steps if plan.workflow else ()
    return tool.approval is not None or any(step.tool == tool.name and step.approval for step in steps)


def _identity(ranking: Sequence[Candidate], tool: Tool, replacement: ReplacedArguments, task_id: str) -> Identity:
    step = matching_step(ranking)
    if step is None:
        return Identity(task=task_id, values=replacement.digest)
    key = step_key(task_id, step, partial(tool.canonical, replacement.arguments))
    return Identity(key, task_id, step, replacement.digest)


def _find(request: Request, task_id: str) -> tuple[Plan | None, PlanOrMeta]:
    """Return the plan of the task, which has the values for placeholders; and where the call can be recorded."""
    try:
        task = request.own_task(task_id)
    except StoreError as error:
        return None, _error_meta(request, task_id, error)
    plan = plan_of(request, task)
    return plan, _error_meta(request, task_id, TaskFinished(task)) if task.status.terminal else plan


def _success_recording(
    request: Request, new_plan: Plan, batch: Batch, oversized: Sequence[str], arguments: JsonObject
) -> Recording:
    """Return the recording of a call that was recorded. `new_plan` is the plan after the write."""
    recorded_steps = [step.name for step in batch.steps if step.expected is not StepStatus.COMPLETED]
    repeats = [repeat for name in recorded_steps for repeat in new_plan.repeated(name, arguments)]

    def text() -> str:
        from mcp_baton.workflow.continuation import RecordedCall, recorded_text
        from mcp_baton.workflow.task_ids import handle_of

        handle = handle_of(request.server, new_plan.workflow, new_plan.task.task_id) if new_plan.workflow else None
        suggested_calls = next_calls(new_plan, request.server, handle)
        return recorded_text(RecordedCall(new_plan, batch, suggested_calls, handle, oversized, repeats))

    return Recording(recorded_meta(request, new_plan, oversized, repeats), text)


def recorded_meta(
    request: Request, plan: Plan, oversized: Sequence[str], repeats: Sequence[Repeat] = ()
) -> dict[str, Json]:
    """Return the `_meta` of a continuation that was recorded: the task after the write."""
    meta = task_meta(request, plan.task, plan.steps) | {"next": remaining_calls(request, plan), "recorded": True}
    return meta | notes_meta(plan.repeats(), repeats, oversized)


def _failure_recording(meta: dict[str, Json], workflow: Workflow | None = None) -> Recording:
    """Return the recording of a call whose tool ran, but which was not recorded, or may not have been."""

    def text() -> str:
        from mcp_baton.present.handoff import call_that_shows
        from mcp_baton.workflow.continuation import uncertain_text, unrecorded_text

        if meta["recorded"] == "unknown":
            return uncertain_text(call_that_shows(str(meta["task_id"]), workflow))
        return unrecorded_text(str(meta["record_error"]))

    return Recording(meta, text)


def _refused_recording(
    request: Request,
    task_id: str,
    target: PlanOrMeta,
    refusal: NotApproved | None = None,
    call: ContinuationCall | None = None,
) -> Recording:
    """Return the recording of a call that was not made. Its `next` does not name `call`."""

    def text() -> str:
        from mcp_baton.workflow.continuation import unrecorded_text
        from mcp_baton.workflow.task_ids import handle_of

        if refusal is not None and not refusal.is_denied:
            return f"Nothing was run or recorded. {AFTER_APPROVAL}"
        if refusal is not None and isinstance(target, Plan) and target.workflow:
            return f"Nothing was run or recorded. {handle_of(request.server, target.workflow, task_id).cancel_text()}"
        return unrecorded_text(str(meta["record_error"]), is_made=False)

    if isinstance(target, Plan):
        target = plan_of(request, with_decision(target.task, request.store))
        calls = [entry for entry in remaining_calls(request, target) if call is None or not _may_be(entry, call)]
        meta = unrecorded_meta(request, task_id, NOTHING_RUN, target.task, calls)
    else:
        meta = target
    return Recording(meta, text)


def _may_be(entry: JsonObject, call: ContinuationCall) -> bool:
    """Whether a suggested call may be this one: no argument of it is known to differ."""
    arguments = entry.get("arguments")
    if entry.get("tool") != call.tool or not isinstance(arguments, Mapping):
        return False
    return all(
        value == call.arguments[name] or (isinstance(value, str) and value.startswith(("<", "{{")))
        for name, value in arguments.items()
        if name in call.arguments
    )


def plan_of(request: Request, task: TaskRecord) -> Plan:
    workflow = request.server.workflows.get(task.workflow or "")

    def canonical(tool: str, arguments: JsonObject) -> JsonObject:
        return request.server.tools[tool].canonical(arguments)

    return Plan(task, workflow, partial(_prompt_arguments, workflow), canonical)


def remaining_calls(request: Request, plan: Plan, *, with_failed: bool = False) -> list[JsonObject]:
    return next_calls(plan, request.server, with_failed=with_failed)


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
            suggested_calls = remaining_calls(request, plan_of(request, error.current))
            return unrecorded_meta(request, task_id, KEPT_CHANGING, error.current, suggested_calls)
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
        readable_arguments = [argument for argument in workflow.arguments if not argument.secret]
        return check_arguments(readable_arguments, declared_arguments(workflow, task))
    except Exception:  # types of the author may raise anything
        logger.warning("task %s: its prompt arguments cannot be used", task.task_id, exc_info=True)
        return None


def unrecorded_meta(
    request: Request,
    task_id: str,
    error: str,
    task: TaskRecord | None = None,
    suggested_calls: Sequence[Json] = (),
    recorded: Literal[False, "unknown"] = False,
) -> dict[str, Json]:
    """Return the `_meta` of a continuation that was not recorded, or may not have been. It has the task and its
    suggested calls if the state of the task is known."""
    meta: dict[str, Json] = {"task_id": task_id}
    if task:
        meta = task_meta(request, task) | {"next": suggested_calls}
    return meta | {"recorded": recorded, "record_error": error}
