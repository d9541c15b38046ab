"""A `tools/call` that names a task, beside the call itself: which call it is, and what becomes of its outcome
(docs/workflows.md, Going on)."""

from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct

from mcp_baton.exceptions import StoreError, TaskFinished, TaskNotFound
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.server.asking.asker import Identity, carried_to
from mcp_baton.server.definitions.tool import Tool
from mcp_baton.server.execution import Asking
from mcp_baton.server.request import Request
from mcp_baton.server.running.runner import CallOptions
from mcp_baton.server.workflows.recording import (
    UNKNOWN_TASK,
    Recording,
    not_made,
    plan_of,
    refused,
    unrecorded,
    written,
)
from mcp_baton.server.workflows.result_meta import unrecorded_meta
from mcp_baton.tasks.record import TaskRecord
from mcp_baton.tasks.store import Batch, Timing, write_decided
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.workflow.continuation import Call, Candidate, attempts_for, candidates, continuation_batch, meant
from mcp_baton.workflow.definition import random_fraction
from mcp_baton.workflow.host import Attempt, Failed, Outcome
from mcp_baton.workflow.keys import step_key
from mcp_baton.workflow.placeholders import CHANGED, Replaced, Room, refusal, replaced
from mcp_baton.workflow.plan import Plan

type Found = Plan | dict[str, Json]
"""A live task's plan, or the `_meta` that says why nothing can be recorded."""


class NotMade(Struct, frozen=True):
    """A call that must not be made."""

    outcome: Failed
    recording: Recording


class Continuation(Struct, frozen=True):
    """A call that names a task, before it is made.

    Attributes:
        task: The task as it was read.
        call: The call, with values in the place of placeholders.
        identity: What its idempotency key comes from.
        variables: The task's variables, for the tool.
        asking: Makes what its questions to the client go through.
        ranked: The steps that it may be, against the task as it was read.
        at_ms: When it begins, epoch milliseconds.
        began_s: The same by the request's clock, seconds.
        rng: Gives a number from 0 up to 1, for the choice of a step after a lost race.
    """

    request: Request
    task: Found
    call: Call
    identity: Identity
    variables: TaskVariables
    asking: Asking
    ranked: Sequence[Candidate]
    at_ms: int
    began_s: float
    rng: Callable[[], float] = random_fraction

    @property
    def options(self) -> CallOptions:
        """What the tool runs in."""
        live = isinstance(self.task, Plan)
        return CallOptions(self.variables if live else None, stay=live, attempt=Attempt(key=self.identity.key))

    def record(self, outcome: Outcome) -> Recording:
        """Record how the call ended."""
        if not isinstance(self.task, Plan):
            return unrecorded(self.task)
        request, plan, batches = self.request, self.task, list[Batch]()
        timing = Timing(self.at_ms, round((request.services.clock() - self.began_s) * 1000))

        def decided(current: TaskRecord) -> Batch:
            batches.append(self._batch(plan, current, outcome, timing))
            return batches[-1]

        attempts = attempts_for(plan.steps, self.call.tool)
        try:
            if request.store is None:
                raise TaskNotFound
            recorded = write_decided(request.store, plan.task, decided, attempts=attempts)
        except StoreError as error:
            return unrecorded(refused(request, plan.task.task_id, error), plan.workflow)
        after = plan_of(request, recorded.task)
        return written(request, after, batches[-1], recorded.oversized, self.call.arguments)

    def _batch(self, plan: Plan, current: TaskRecord, outcome: Outcome, timing: Timing) -> Batch:
        call, variables = self.call, self.variables
        if current is plan.task:
            return continuation_batch(plan, call, outcome, variables, ranked=self.ranked, timing=timing)
        return continuation_batch(plan_of(self.request, current), call, outcome, variables, self.rng, timing=timing)


def begin(request: Request, tool: Tool, arguments: JsonObject, task_id: str) -> Continuation | NotMade:
    """Read the task that a call names, put values in the place of placeholders, and decide which idempotency key the
    call has.

    Raises:
        ProtocolError: the request continues earlier rounds in a way that cannot be.
    """
    rounds = request.rounds()
    plan, found = _find(request, task_id)
    budget = request.budget
    sent = replaced(arguments, plan, Room(min(request.server.options.placeholder_bytes, budget.left), budget.unread))
    budget.read(sent.read)
    budget.take(sent.put_in)
    if sent.unknown:
        return NotMade(Failed(refusal(sent.unknown)), not_made(request, task_id, found))
    earlier = carried_to(rounds.earlier, task_id) if rounds else None
    if earlier and earlier.values != sent.digest:
        return NotMade(Failed(CHANGED), not_made(request, task_id, found))
    # Of a task that is over, too: a call that comes too late is recorded nowhere, and must not be paid twice.
    ranked = candidates(plan, tool.name, sent.arguments, sent.names) if plan else []
    identity = earlier or _identity(ranked, tool, sent, task_id)
    if rounds:
        rounds.identity = identity
    variables = TaskVariables(found.task.variables if isinstance(found, Plan) else {})
    call = Call(tool.name, sent.arguments, identity.step, sent.names)
    return Continuation(
        request,
        found,
        call,
        identity,
        variables,
        request.asking(rounds),
        ranked,
        request.now_ms(),
        request.services.clock(),
    )


def _identity(ranked: Sequence[Candidate], tool: Tool, sent: Replaced, task_id: str) -> Identity:
    step = meant(ranked)
    if step is None:
        return Identity(task=task_id, values=sent.digest)
    key = step_key(task_id, step, partial(tool.canonical, sent.arguments))
    return Identity(key, task_id, step, sent.digest)


def _find(request: Request, task_id: str) -> tuple[Plan | None, Found]:
    """The task's plan, which the values of placeholders come from, and what can be recorded with it."""
    if request.store is None or request.owner is None:
        return None, unrecorded_meta(request, task_id, UNKNOWN_TASK)
    try:
        task = request.store.get(request.owner, task_id)
    except StoreError as error:
        return None, refused(request, task_id, error)
    plan = plan_of(request, task)
    return plan, refused(request, task_id, TaskFinished(task)) if task.status.terminal else plan
