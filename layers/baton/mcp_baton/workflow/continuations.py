"""Continuations: a `tools/call` that names a task. Finds its step and records its outcome (docs/workflows.md, Going
on)."""

import logging
from collections.abc import Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from mcp_baton.exceptions import Conflict, OutcomeUnknown, StoreError, TaskFinished, TaskNotFound
from mcp_baton.protocol.json import Json, JsonObject, dumps_spaced
from mcp_baton.tasks.ids import new_token
from mcp_baton.tasks.keys import step_key
from mcp_baton.tasks.record import StepStatus, TaskRecord, statuses_of
from mcp_baton.tasks.step_ids import StepId, parse_step_id, step_id
from mcp_baton.tasks.store import Batch, Timing, write_decided
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.telemetry import RECORDINGS_LOST
from mcp_baton.tools.approval import NotApproved
from mcp_baton.tools.arguments import TASK_ID
from mcp_baton.tools.asking import Identity, identity_for_task
from mcp_baton.tools.calls import ONLY_CALL, ToolCall
from mcp_baton.tools.outcomes import Failed, Failure, Outcome
from mcp_baton.tools.running.caller import AskerFactory
from mcp_baton.tools.schema.prompt_arguments import check_arguments
from mcp_baton.tools.secrets import oversized_secret
from mcp_baton.tools.tool import Tool
from mcp_baton.workflow.continuation import (
    ContinuationCall,
    MadeCall,
    MatchedStep,
    attempts_for,
    is_turn,
    match_again,
    named_step,
)
from mcp_baton.workflow.definition import Workflow
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
from mcp_baton.workflow.server_view import ServerView
from mcp_baton.workflow.sources import PromptArg

logger = logging.getLogger(__name__)

type Target = Plan | StoreError
"""The plan of a live task, or why nothing can be recorded."""


class Recorded(Struct, frozen=True):
    """A call that was recorded.

    Attributes:
        task: The task after the write.
        oversized: The task variables whose values were too large to store.
    """

    task: TaskRecord
    batch: Batch
    oversized: Sequence[str]
    call: ContinuationCall

    def repeats(self, plan: Plan) -> list[Repeat]:
        """The recorded step, if a run may have run it before. `plan` is the plan after the write."""
        names = [step.name for step in self.batch.steps if step.expected is not StepStatus.COMPLETED]
        return [repeat for name in names for repeat in plan.repeated(name, self.call.arguments)]


class NotRecorded(Struct, frozen=True):
    """A call that was made, but that was not recorded, or may not have been."""

    task_id: str
    error: StoreError
    workflow: Workflow | None = None


class NotMade(Struct, frozen=True):
    """A call that was not made. Nothing was run.

    Attributes:
        refusal: What a person has not approved, if that is why.
        call: The call, if a guard of its tool has refused it.
    """

    task_id: str
    target: "Target"
    refusal: NotApproved | None = None
    call: ContinuationCall | None = None


type Recording = Recorded | NotRecorded | NotMade
"""Whether a call was recorded."""


class RefusedCall(Struct, frozen=True):
    """A call that is refused: its tool must not run."""

    outcome: Failed
    recording: NotMade


class Continuation(Struct, frozen=True):
    """A call that names a task, before the tool runs.

    Attributes:
        target: Where the call is recorded.
        call: The call, with values instead of placeholders.
        identity: The origin of its idempotency key.
        match: The step that the call means, for the task as it was read.
        at_ms: When the call starts, epoch milliseconds; `began_s` is the same on `Services.clock`.
        tool_call: Which call of its workflow it is, for the guards of its tool.
    """

    request: Request
    task_id: str
    target: Target
    call: ContinuationCall
    identity: Identity
    variables: TaskVariables
    asker_factory: AskerFactory
    match: MatchedStep | None
    at_ms: int
    began_s: float
    tool_call: ToolCall = ONLY_CALL

    def record(self, outcome: Outcome) -> Recording:
        if not isinstance(self.target, Plan):
            return NotRecorded(self.task_id, self.target)
        if isinstance(outcome, Failed) and outcome.kind is Failure.OUT_OF_TIME:
            return NotMade(self.task_id, self.target, call=replace(self.call, step=None))  # `next` has the call again
        if isinstance(outcome, Failed) and outcome.is_refused:
            plan = self._with_denial(self.target, outcome.not_approved)
            return NotMade(self.task_id, plan, outcome.not_approved, self.call)
        request, plan, batches = self.request, self.target, list[Batch]()
        timing = Timing(self.at_ms, round((request.services.clock() - self.began_s) * 1000))
        is_timed_out = isinstance(outcome, Failed) and outcome.kind is Failure.TIMED_OUT
        call, variables = replace(self.call, key=self.identity.key() if is_timed_out else None), self.variables

        def decide(current: TaskRecord) -> Batch:
            current_plan, match = plan, self.match
            if current is not plan.task:
                current_plan = plan_of(request.server, current)
                match = match_again(current_plan, call)
            batches.append(batch := MadeCall(current_plan, call, outcome, variables, match, timing).batch())
            return replace(batch, named=True)

        attempts = attempts_for(plan, self.call.tool)
        try:
            store, _ = request.own_tasks()
            task = write_decided(store, plan.task, decide, attempts=attempts)
        except StoreError as error:
            _note_lost(request, self.task_id, error)
            return NotRecorded(self.task_id, error, plan.workflow)
        return Recorded(task, batches[-1], task.oversized, self.call)

    def _with_denial(self, plan: Plan, refusal: NotApproved | None) -> Plan:
        """Note in the task that a person has denied the call of its step, so that no handoff suggests it again. Returns
        the plan after that; if it cannot be noted, the same one."""
        step, name = self.tool_call.step, self.tool_call.name
        if refusal is None or not refusal.is_denied or step is None or name is None:
            return plan

        def decide(current: TaskRecord) -> Batch:
            if statuses_of(current).get(step.name, StepStatus.COMPLETED).settled:
                return Batch()
            current_plan = plan_of(self.request.server, current)
            # Another step may have stopped the run. In a workflow without parallel steps, its reason stays.
            is_shown = not self.tool_call.is_item and (
                current_plan.is_parallel or all(pause.step == step.name for pause in current_plan.pauses)
            )
            pauses = current_plan.pauses_with(step.name, approval_pause(step.name, refusal)) if is_shown else None
            return Batch(pauses=pauses, variables=self.variables.changed)

        try:
            store, _ = self.request.own_tasks()
            attempts = attempts_for(plan, self.call.tool)
            return plan_of(self.request.server, write_decided(store, plan.task, decide, attempts=attempts))
        except StoreError:
            logger.warning("task %s: a denial could not be noted", plan.task.task_id, exc_info=True)
            return plan


def prepare(request: Request, tool: Tool, arguments: JsonObject, named: StepId) -> Continuation | RefusedCall:
    """Read the task that a call names, replace placeholders by values, and choose the step and its idempotency key."""
    rounds, task_id = request.rounds(), named.task_id
    plan, target = _find(request, task_id)
    if plan and (problem := _background_call(plan.task)):
        return RefusedCall(Failed(problem), NotMade(task_id, target))
    budget = request.budget
    replacement = replace_placeholders(
        arguments, plan, PlaceholderLimits(min(request.server.options.placeholder_bytes, budget.left), budget.unread)
    )
    budget.read(replacement.read_bytes)
    budget.take(replacement.inserted_bytes)
    if replacement.unknown:
        return RefusedCall(Failed(unknown_text(replacement.unknown)), NotMade(task_id, target))
    if problem := _oversized_secret(plan, tool, arguments):
        return RefusedCall(Failed(f"Nothing was run. {problem}"), NotMade(task_id, target))
    earlier_identity = identity_for_task(rounds.earlier_identity, task_id) if rounds else None
    if earlier_identity and earlier_identity.values != replacement.digest:
        return RefusedCall(Failed(CHANGED), NotMade(task_id, target))
    # This includes finished tasks: a late call is not recorded, but needs the same key, so that nothing is paid twice.
    match = named_step(plan, tool.name, named) if plan else None
    is_guarded = isinstance(target, Plan) and _may_need_approval(target, tool)
    call = ContinuationCall(
        tool.name,
        replacement.arguments,
        # A call that was approved as one step is not recorded as another one.
        is_fixed=match is not None or is_guarded,
        ignored=named.path if match is None else None,
        exact=replacement.names,
    )
    if plan is not None and match is None:
        earlier_step = earlier_identity.step if earlier_identity else None
        earlier_call = replace(call, step=parse_step_id(f"{task_id}/{earlier_step}") if earlier_step else None)
        match = match_again(plan, replace(earlier_call, is_fixed=False))
    if match is not None:
        call = replace(call, step=step_id(task_id, match.name, match.item))
    identity = earlier_identity or _identity(tool, replacement, task_id, match)
    variables = TaskVariables(target.task.variables if isinstance(target, Plan) else {})
    tool_call = ToolCall(key=identity.key)
    if isinstance(target, Plan):
        # The tool finishes even if the client disconnects.
        tool_call = tool_call_of(target, tool, call.arguments, match, identity)
        tool_call = replace(tool_call, variables=variables, stay=True)
    if rounds:
        rounds.identity = replace(identity, by=tool_call.by or None)
    asker, now_ms, now_s = request.asking(rounds), request.now_ms(), request.services.clock()
    return Continuation(request, task_id, target, call, identity, variables, asker, match, now_ms, now_s, tool_call)


def _background_call(task: TaskRecord) -> str | None:
    """Why a call cannot continue a task that is a call in the background, and what to do: it has no steps. `None` for
    the task of a workflow."""
    if task.job is None:
        return None
    workflow_task = task.job.work.workflow_task
    remedy = f"without {TASK_ID}" if workflow_task is None else f"with {dumps_spaced({TASK_ID: workflow_task})}"
    return (
        f"This task is a call of {task.job.work.tool} in the background. Nothing was run: make the same call {remedy}."
    )


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


def tool_call_of(
    plan: Plan, tool: Tool, arguments: JsonObject, match: MatchedStep | None, identity: Identity
) -> ToolCall:
    """Return which call of its task this is. Only guards need the step."""
    workflow = plan.workflow
    tool_call = ToolCall(workflow, task=plan.task, key=identity.key)
    if not tool.only_in and not _may_need_approval(plan, tool):
        return tool_call
    hidden = plan.hidden(match.name if match else None, tool.name, arguments)
    tool_call = replace(tool_call, by=f"call:{new_token()}", before=identity.by, hidden=hidden)
    step = workflow.step(match.name) if workflow and match else None
    if workflow and not (match and match.is_certain) and not (step and step.approval):
        # The call may be meant for another step, whose approval it must not avoid.
        approvals = (user.approval for user in workflow.steps if user.tool == tool.name)
        tool_call = replace(tool_call, other_approval=next(filter(None, approvals), None))
    if workflow is None or match is None:
        return tool_call
    return replace(
        tool_call,
        step=step,
        name=None if tool_call.other_approval else match.call_name,
        is_turn=bool(tool.only_in) and is_turn(plan, match),
        is_item=match.item is not None,
    )


def _may_need_approval(plan: Plan, tool: Tool) -> bool:
    steps = plan.workflow.steps if plan.workflow else ()
    return tool.approval is not None or any(step.tool == tool.name and step.approval for step in steps)


def _identity(tool: Tool, replacement: ReplacedArguments, task_id: str, match: MatchedStep | None) -> Identity:
    if match is None:
        return Identity(task=task_id, values=replacement.digest)
    key = step_key(task_id, match.call_name, partial(tool.canonical, replacement.arguments))
    return Identity(key, task_id, step_id(task_id, match.name, match.item).path, replacement.digest)


def _find(request: Request, task_id: str) -> tuple[Plan | None, Target]:
    """Return the plan of the task, which has the values for placeholders; and where the call can be recorded."""
    try:
        task = request.own_task(task_id)
    except StoreError as error:
        _note_lost(request, task_id, error)
        return None, error
    plan = plan_of(request.server, task)
    return plan, TaskFinished(task) if task.status.terminal else plan


def plan_of(server: ServerView, task: TaskRecord) -> Plan:
    workflow = server.workflows.get(task.workflow or "")

    def canonical(tool: str, arguments: JsonObject) -> JsonObject:
        return server.tools[tool].canonical(arguments)

    return Plan(task, workflow, partial(_prompt_arguments, workflow), canonical)


def _note_lost(request: Request, task_id: str, error: StoreError) -> None:
    """Log a call that could not be recorded, and count it."""
    if isinstance(error, TaskNotFound | TaskFinished):
        return
    request.services.telemetry.add(RECORDINGS_LOST)
    match error:
        case Conflict():
            logger.error("task %s: the call was not recorded: too many concurrent calls", task_id)
        case OutcomeUnknown():
            logger.error("task %s: it is unknown whether the call was recorded", task_id, exc_info=error)
        case _:
            logger.error("task %s: the call was not recorded", task_id, exc_info=error)


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
