"""A `tools/call` that names a task, beside the call itself: which call it is, and what becomes of its outcome
(docs/workflows.md, Going on)."""

import logging
from collections.abc import Callable, Sequence
from functools import partial

from mcp_baton.exceptions import Conflict, OutcomeUnknown, StoreError, TaskFinished, TaskNotFound
from mcp_baton.light_dataclasses import dataclass
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.server.asking.identity import Identity, carried_to
from mcp_baton.server.methods.task_meta import recorded_meta, unrecorded_meta
from mcp_baton.server.published.tool import Tool
from mcp_baton.server.request import Asking, Request
from mcp_baton.server.running.runner import Surroundings
from mcp_baton.server.schema.prompt_arguments import check_arguments
from mcp_baton.tasks.record import TaskRecord
from mcp_baton.tasks.recording import record_decided
from mcp_baton.tasks.store import Batch
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.telemetry import RECORDINGS_LOST
from mcp_baton.workflow.continuation import Call, attempts_for, continuation_batch
from mcp_baton.workflow.definition import Workflow
from mcp_baton.workflow.drift import declared_arguments
from mcp_baton.workflow.host import Attempt, Outcome
from mcp_baton.workflow.keys import step_key
from mcp_baton.workflow.matching import Candidate, candidates, meant
from mcp_baton.workflow.next_calls import next_calls
from mcp_baton.workflow.plan import Plan
from mcp_baton.workflow.retry import draw

logger = logging.getLogger(__name__)

UNKNOWN_TASK = "unknown task"
STORE_DOWN = "the task store is not available"
KEPT_CHANGING = "the task kept changing; make the call again"
UNKNOWN_OUTCOME = "the task store's answer was lost; look at the task before you make the call again"


@dataclass(frozen=True, slots=True)
class Continuation:
    """A call that names a task, before it is made.

    Attributes:
        task: The live task's plan as it was read; without one, the `_meta` that says why nothing can be recorded.
        call: The call.
        identity: What its idempotency key comes from.
        variables: The task's variables, for the tool.
        asking: Makes what its questions to the client go through.
        ranked: The steps that it may be, against the task as it was read.
        drawn: Gives a number from 0 up to 1, for the choice of a step after a lost race.
    """

    request: Request
    task: Plan | dict[str, Json]
    call: Call
    identity: Identity
    variables: TaskVariables
    asking: Asking
    ranked: Sequence[Candidate]
    drawn: Callable[[], float] = draw

    @property
    def surroundings(self) -> Surroundings:
        """What the tool runs in."""
        live = isinstance(self.task, Plan)
        return Surroundings(self.variables if live else None, stay=live, attempt=Attempt(key=self.identity.key))

    def record(self, outcome: Outcome) -> dict[str, Json]:
        """Record how the call ended; what the result's `_meta` says of the task."""
        if not isinstance(self.task, Plan):
            return self.task
        request, plan = self.request, self.task

        def decided(current: TaskRecord) -> Batch:
            if current is plan.task:
                return continuation_batch(plan, self.call, outcome, self.variables, ranked=self.ranked)
            return continuation_batch(_plan(request, current), self.call, outcome, self.variables, self.drawn)

        attempts = attempts_for(plan.steps, self.call.tool)
        try:
            if request.store is None:
                raise TaskNotFound
            recorded = record_decided(request.store, plan.task, decided, attempts=attempts)
        except StoreError as error:
            return _refused(request, plan.task.task_id, error)
        after = _plan(request, recorded.task)
        return recorded_meta(request, after, _next(request, after), recorded.oversized)


def begin(request: Request, tool: Tool, arguments: JsonObject, task_id: str) -> Continuation:
    """Read the task that a call names, and decide which idempotency key the call has.

    Raises:
        ProtocolError: the request continues earlier rounds in a way that cannot be.
    """
    rounds = request.rounds()
    found = _find(request, task_id)
    earlier = carried_to(rounds.earlier, task_id) if rounds else None
    ranked = candidates(found, tool.name, arguments) if isinstance(found, Plan) else []
    identity = earlier or _identity(ranked, tool, arguments, task_id)
    if rounds:
        rounds.identity = identity
    variables = TaskVariables(found.task.variables if isinstance(found, Plan) else {})
    call = Call(tool.name, arguments, identity.step)
    return Continuation(request, found, call, identity, variables, request.asking(rounds), ranked)


def _identity(ranked: Sequence[Candidate], tool: Tool, arguments: JsonObject, task_id: str) -> Identity:
    step = meant(ranked)
    if step is None:
        return Identity(task=task_id)
    return Identity(step_key(task_id, step, partial(tool.canonical, arguments)), task_id, step)


def _find(request: Request, task_id: str) -> Plan | dict[str, Json]:
    """The live task's plan, or the `_meta` that says why nothing can be recorded."""
    if request.store is None or request.owner is None:
        return unrecorded_meta(request, task_id, UNKNOWN_TASK)
    try:
        task = request.store.get(request.owner, task_id)
    except StoreError as error:
        return _refused(request, task_id, error)
    return _refused(request, task_id, TaskFinished(task)) if task.status.terminal else _plan(request, task)


def _plan(request: Request, task: TaskRecord) -> Plan:
    workflow = request.server.workflows.get(task.workflow or "")

    def canonical(tool: str, arguments: JsonObject) -> JsonObject:
        return request.server.tools[tool].canonical(arguments)

    return Plan(task, workflow, partial(_prompt_arguments, workflow), canonical)


def _prompt_arguments(workflow: Workflow | None, task: TaskRecord) -> tuple[dict[str, str], dict[str, Json]] | None:
    """The arguments of a task's first call; `None` where they cannot be had: the call is recorded all the same."""
    if workflow is None:
        return None
    try:
        kept = [argument for argument in workflow.arguments if not argument.secret]
        return check_arguments(kept, declared_arguments(workflow, task))
    except Exception:  # an argument's type is the author's and may raise anything
        logger.warning("task %s: its prompt arguments cannot be used", task.task_id, exc_info=True)
        return None


@dataclass(frozen=True, slots=True)
class _Tools:
    """Implements `handoff.Requirements`."""

    request: Request

    def required(self, tool: str) -> frozenset[str]:
        """The names of a tool's required arguments."""
        return self.request.server.tools[tool].signature.required


def _next(request: Request, plan: Plan) -> list[Json]:
    return [*next_calls(plan, _Tools(request))]


def _refused(request: Request, task_id: str, error: StoreError) -> dict[str, Json]:
    if not isinstance(error, TaskNotFound | TaskFinished):
        request.telemetry.add(RECORDINGS_LOST)
    match error:
        case TaskNotFound():
            return unrecorded_meta(request, task_id, UNKNOWN_TASK)
        case TaskFinished():
            return unrecorded_meta(request, task_id, str(error), error.current)
        case Conflict():
            logger.error("task %s: the call was not recorded, too many others were at the same time", task_id)
            following = _next(request, _plan(request, error.current))
            return unrecorded_meta(request, task_id, KEPT_CHANGING, error.current, following)
        case OutcomeUnknown():
            logger.error("task %s: whether the call was recorded is not known", task_id, exc_info=error)
            return unrecorded_meta(request, task_id, UNKNOWN_OUTCOME, recorded="unknown")
        case _:
            logger.error("task %s: the call was not recorded", task_id, exc_info=error)
            return unrecorded_meta(request, task_id, STORE_DOWN)
