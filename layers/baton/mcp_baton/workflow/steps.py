"""A run's way through its steps: fetch, decide, call, and take down how each one ended (docs/workflows.md)."""

import logging
from collections.abc import Callable, Mapping

from mcp_baton.light_dataclasses import replace
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.workflow.attempts import Tried, attempt
from mcp_baton.workflow.decide import Ready, decide
from mcp_baton.workflow.definition import Step
from mcp_baton.workflow.fetching import Fetched, fetch_after, fetch_before
from mcp_baton.workflow.host import Attempt, Failed, Host, Prepared, Succeeded
from mcp_baton.workflow.invocation import Run
from mcp_baton.workflow.kept_calls import kept_call
from mcp_baton.workflow.keys import Key, own_key, step_key
from mcp_baton.workflow.pause import DeadlineExceeded, ToolFailed, without_secrets
from mcp_baton.workflow.run import Blocked, Content, Over, StepTrace, Stop
from mcp_baton.workflow.secrets import hidden_in

logger = logging.getLogger(__name__)


class Steps:
    """Runs a workflow's steps.

    Args:
        host: The server's tools, resources, clock and the client's ear.
        drawn: Gives a number from 0 up to 1, for the waits between attempts.
        checkpoint: Writes what has not been written; says why the run must stop, if it must.
    """

    def __init__(self, host: Host, drawn: Callable[[], float], checkpoint: Callable[[Run], Over | None]) -> None:
        self._host = host
        self._drawn = drawn
        self._checkpoint = checkpoint

    def advance(self, run: Run) -> Stop | None:
        """Run steps in order as far as they go; why the run stops, if it does before the last one."""
        for number, step in enumerate(run.workflow.steps, 1):
            if run.statuses[step.name].settled:
                continue
            before = len(run.traces)
            stop = self._begin_safely(run, number, step)
            if run.timing and len(run.traces) > before:
                run.traces[-1] = replace(run.traces[-1], timing=run.timing())
            if stop is None and step.checkpoint:
                stop = self._checkpoint(run)
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
            return self._failed(run, step, None, (), words, step.tool or "")

    def _begin(self, run: Run, number: int, step: Step) -> Stop | None:
        run.timing = None
        if not self._host.may_start():
            return DeadlineExceeded(step.name, step.tool or "")
        hold = run.hold
        over = hold.look() if hold else None
        if over:
            return over
        if hold and not hold.is_sure():
            return DeadlineExceeded(step.name, step.tool or "")
        run.timing = hold.begin() if hold else None
        self._host.announce(number, len(run.workflow.steps), step.name, hold.task.task_id if hold else None)
        fetched = fetch_before(step, run.workflow, run.known, self._host)
        if fetched.error is not None:
            return self._failed(run, step, None, fetched.contents, fetched.error, step.tool or "", read=fetched.read)
        decision = decide(step, run.workflow, run.known, self._host)
        if not isinstance(decision, Ready):
            run.blocked = Blocked(step, fetched.contents, fetched.read)
            return without_secrets(decision, run.secrets.hide_text)
        return self._perform(run, step, decision.call, fetched)

    def _perform(self, run: Run, step: Step, call: Prepared | None, fetched: Fetched) -> Stop | None:
        if call is None:
            run.settle(StepTrace(step, None, fetched.contents, Succeeded(None)))
            return None
        tried = self._attempt(run, step, call)
        if isinstance(tried.outcome, Failed):
            error, read = tried.outcome.error, fetched.read
            pause = self._failed(run, step, call.arguments, fetched.contents, error, call.name, read=read)
            run.traces[-1] = replace(run.traces[-1], attempts=tried.attempts)
            # A call that the client makes may ask, so the same call may succeed.
            retryable = tried.outcome.by_itself or (pause.retryable and not tried.outcome.final)
            return tried.over or replace(pause, by_itself=tried.outcome.by_itself, retryable=retryable)
        kept = _kept(run, step, call.arguments)
        run.settle(StepTrace(step, call.arguments, fetched.contents, tried.outcome, attempts=tried.attempts, kept=kept))
        # The tool has done its work: a resource that cannot be fetched now must not make anybody call it again.
        after = fetch_after(step, run.workflow, run.known, self._host)
        if after:
            run.traces[-1] = replace(run.traces[-1], after=after)
        return None

    def _attempt(self, run: Run, step: Step, call: Prepared) -> Tried:
        """Call the step's tool, again if its `Retry` says so. What tells the calls apart is the `Attempt`."""
        variables, key = run.variables if run.hold else None, self._key(run, step, call)
        return attempt(
            step,
            self._host,
            lambda made: self._host.run(call, variables, Attempt(made.number, key)),
            lambda: run.hold.look() if run.hold else None,
            self._drawn,
            is_sure=lambda: run.hold is None or run.hold.is_sure(),
        )

    def _key(self, run: Run, step: Step, call: Prepared) -> Key:
        """The step's idempotency key; a run without a task is all that its calls belong to."""
        if run.hold is None:
            return own_key()
        return step_key(run.hold.task.task_id, step.name, lambda: self._host.canonical(call.name, call.arguments))

    def _failed(
        self,
        run: Run,
        step: Step,
        arguments: Mapping[str, Json] | None,
        resources: tuple[Content, ...],
        error: str,
        tool: str,
        *,
        read: frozenset[str] = frozenset(),
    ) -> ToolFailed:
        # An error may quote what the tool was called with, and it is stored.
        error = run.secrets.hide_text(error)
        run.settle(StepTrace(step, arguments, resources, Failed(error), read=read, kept=_kept(run, step, arguments)))
        return ToolFailed(step.name, error, step.retryable, tool)


def _kept(run: Run, step: Step, arguments: Mapping[str, Json] | None) -> JsonObject | None:
    """What is kept of a call's arguments: nothing, unless a person has given some of them."""
    if arguments is None or step.name not in run.invocation.answers:
        return None
    return kept_call(arguments, hidden_in(arguments, step.arguments, run.workflow.secrets))
