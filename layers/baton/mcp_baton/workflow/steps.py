"""A run's way through its steps: fetch, decide, call, and take down how each one ended (docs/workflows.md).

A tool is called once, or as often as its `Retry` says and the function's time allows.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

from msgspec import Struct

from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.record import StepStatus
from mcp_baton.tasks.store import Timing
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.workflow.definition import Step
from mcp_baton.workflow.fetching import NOTHING_FETCHED, Fetched, fetch_after, fetch_before
from mcp_baton.workflow.holding import Began, Hold
from mcp_baton.workflow.host import Attempt, Failed, Failure, Host, Outcome, Prepared, Succeeded
from mcp_baton.workflow.invocation import Run
from mcp_baton.workflow.kept_calls import kept_call
from mcp_baton.workflow.keys import Key, own_key, step_key
from mcp_baton.workflow.pause import DeadlineExceeded, ToolFailed, without_secrets
from mcp_baton.workflow.resolve import Ready, decide
from mcp_baton.workflow.retry import draw
from mcp_baton.workflow.run import Blocked, Content, Over, StepTrace, Stop
from mcp_baton.workflow.secrets import hidden_in

logger = logging.getLogger(__name__)


class Tried(Struct, frozen=True):
    """How the calls of a step's tool ended.

    Attributes:
        outcome: That of the last call that was begun.
        attempts: How many were begun.
        over: The task came to an end, or was taken over, meanwhile, so that there was no further attempt.
    """

    outcome: Outcome
    attempts: int
    over: Over | None = None


class Steps:
    """Runs a workflow's steps.

    Args:
        host: The server's tools, resources and clock, and its notifications to the client.
        clock: Seconds, from any moment on.
        drawn: Gives a number from 0 up to 1, for the waits between attempts.
    """

    def __init__(self, host: Host, clock: Callable[[], float], drawn: Callable[[], float]) -> None:
        self._host = host
        self._clock = clock
        self._drawn = drawn

    def advance(self, run: Run, checkpoint: Callable[[Run], Over | None]) -> Stop | None:
        """Run steps in order as far as they go; why the run stops, if it does before the last one.

        Args:
            run: The run.
            checkpoint: Writes what has not been written; says why the run must stop, if it must.
        """
        for number, step in enumerate(run.workflow.steps, 1):
            status = run.statuses[step.name]
            if status is not StepStatus.PENDING and status.settled:
                continue
            stop = self._begin_safely(run, number, step)
            if stop is None and step.checkpoint:
                stop = checkpoint(run)
            if stop:
                return stop
        return None

    def _begin_safely(self, run: Run, number: int, step: Step) -> Stop | None:
        """No stop is ever silent: even a fault of Baton's own leaves a pause reason, and the batch is still written."""
        try:
            return self._begin(run, number, step)
        except Exception as error:
            words = run.secrets.hide_text(self._host.words(step.tool or step.name, error))
            logger.exception("workflow %s: step %s: %s", run.workflow.name, step.name, words)
            failed = Failed(words, error_id=self._host.error_id(error))
            return self._failed(run, step, None, (), failed, step.tool or "")

    def _begin(self, run: Run, number: int, step: Step) -> Stop | None:
        run.began = None
        if not self._host.may_start():
            return DeadlineExceeded(step.name, step.tool or "")
        hold = run.hold
        if hold is not None:
            began = hold.begin()
            if began is None:
                return DeadlineExceeded(step.name, step.tool or "")
            if not isinstance(began, Began):
                return began
            run.began = began
        if self._host.announces:
            self._host.announce(number, len(run.workflow.steps), step.name, hold.task.task_id if hold else None)
        fetched = fetch_before(step, run.workflow, run.known, self._host) if step.resources else NOTHING_FETCHED
        if fetched.error is not None:
            failed = Failed(fetched.error, error_id=fetched.error_id)
            tool, uri = step.tool or "", fetched.uri
            return self._failed(run, step, None, fetched.contents, failed, tool, read=fetched.read, unread=uri)
        decision = decide(step, run.workflow, run.known, self._host)
        if not isinstance(decision, Ready):
            run.blocked = Blocked(step, fetched.contents, fetched.read)
            return without_secrets(decision, run.secrets.hide_text)
        return self._perform(run, step, decision.call, fetched)

    def _perform(self, run: Run, step: Step, call: Prepared | None, fetched: Fetched) -> Stop | None:
        if call is None:
            run.settle(StepTrace(step, None, fetched.contents, Succeeded(None), timing=self._timing(run)))
            return None
        key, variables = self._key(run, step, call), run.variables if run.hold else None
        tried = attempt(step, self._host, call, key, variables, run.hold, self._drawn)
        outcome, attempts = tried.outcome, tried.attempts
        if tried.over and not attempts:
            return tried.over
        if isinstance(outcome, Failed):
            pause = self._failed(
                run, step, call.arguments, fetched.contents, outcome, call.name, read=fetched.read, attempts=attempts
            )
            # A call that the client makes may ask, so the same call may succeed.
            retryable = outcome.by_itself or (pause.retryable and not outcome.final)
            return tried.over or replace(pause, by_itself=outcome.by_itself, retryable=retryable)
        kept, timing = _kept(run, step, call.arguments), self._timing(run)
        run.settle(StepTrace(step, call.arguments, fetched.contents, outcome, attempts, kept, timing))
        if step.resources:
            # The tool has done its work: what cannot be fetched now must not make anybody call it again.
            after = fetch_after(step, run.workflow, run.known, self._host)
            run.traces[-1] = replace(run.traces[-1], after=after, timing=self._timing(run))
        return None

    def _timing(self, run: Run) -> Timing | None:
        """Of the present step, which has ended; `None` where no task notes it."""
        began = run.began
        return None if began is None else Timing(began.at_ms, round((self._clock() - began.at_s) * 1000))

    def _key(self, run: Run, step: Step, call: Prepared) -> Key | None:
        """The step's idempotency key; a run without a task is all that its calls belong to. A call that is made once
        gets its own, when it asks for it."""
        if run.hold is None:
            return own_key() if step.retry else None
        task_id, canonical, made = run.hold.task.task_id, self._host.canonical, list[Key]()

        def key() -> str:
            if not made:
                made.append(step_key(task_id, step.name, lambda: canonical(call.name, call.arguments)))
            return made[0]()

        return key

    def _failed(
        self,
        run: Run,
        step: Step,
        arguments: Mapping[str, Json] | None,
        resources: tuple[Content, ...],
        failed: Failed,
        tool: str,
        *,
        read: frozenset[str] = frozenset(),
        attempts: int = 0,
        unread: str | None = None,
    ) -> ToolFailed:
        # An error may quote what the tool was called with, and it is stored.
        error = run.secrets.hide_text(failed.error)
        kept, timing = _kept(run, step, arguments), self._timing(run)
        outcome = Failed(error)
        run.settle(StepTrace(step, arguments, resources, outcome, attempts, kept, timing, read=read, unread=unread))
        return ToolFailed(step.name, error, step.retryable, tool, error_id=failed.error_id, resource=unread)


def _kept(run: Run, step: Step, arguments: Mapping[str, Json] | None) -> JsonObject | None:
    """What is kept of a call's arguments: nothing, unless a person has given some of them."""
    if arguments is None or step.name not in run.invocation.answers:
        return None
    return kept_call(arguments, hidden_in(arguments, step.arguments, run.workflow.secrets))


def attempt(
    step: Step,
    host: Host,
    call: Prepared,
    key: Key | None,
    variables: TaskVariables | None,
    hold: Hold | None,
    drawn: Callable[[], float] = draw,
) -> Tried:
    """Call a step's tool until it succeeds, or must not or cannot be called again. What tells the calls apart is the
    `Attempt`.

    Args:
        step: The step.
        host: Has the tool; its clock says whether there is time for a wait and for a call after it.
        call: What it is called with.
        key: The idempotency key of all calls.
        variables: The task's variables; `None` without a task.
        hold: The run's hold on its task; `None` for a run without one.
        drawn: Gives a number from 0 up to 1, for the jitter.
    """
    outcome = host.run(call, variables, Attempt(1, key))
    if _was_not_begun(outcome):
        # The claim is renewed just before a call, which may tell that the task is over, or another run's.
        return Tried(outcome, 0, hold.over if hold else None)
    tried = Tried(outcome, 1)
    while isinstance(tried.outcome, Failed) and _may_pass(step, tried.outcome, tried.attempts):
        wait_s = step.retry.wait_s(tried.attempts, drawn) if step.retry else 0.0
        if not host.may_start(wait_s):
            break
        host.wait(wait_s)
        over = hold.look() if hold else None
        if over or not host.may_start() or (hold and not hold.is_sure()):
            return Tried(tried.outcome, tried.attempts, over)
        again = host.run(call, variables, Attempt(tried.attempts + 1, key))
        if _was_not_begun(again):
            break
        tried = Tried(again, tried.attempts + 1)
    return tried


def _was_not_begun(outcome: Outcome) -> bool:
    return isinstance(outcome, Failed) and outcome.kind is Failure.NOT_BEGUN


def _may_pass(step: Step, failed: Failed, attempts: int) -> bool:
    """Whether the call may be made again. One that timed out may have happened, so the step must say that it may."""
    if step.retry is None or attempts >= step.retry.attempts or failed.by_itself:
        return False
    match failed.kind:
        case Failure.RAISED:
            return step.retry.wants(failed.cause)
        case Failure.TIMED_OUT:
            return step.retryable
        case _:
            return False
