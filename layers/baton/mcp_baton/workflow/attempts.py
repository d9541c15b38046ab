"""Calling a step's tool: once, or as often as its `Retry` says and the function's time allows (docs/workflows.md)."""

from collections.abc import Callable

from mcp_baton.light_dataclasses import dataclass
from mcp_baton.workflow.definition import Step
from mcp_baton.workflow.host import Attempt, Failed, Failure, Host, Outcome
from mcp_baton.workflow.retry import draw
from mcp_baton.workflow.run import Over


@dataclass(frozen=True, slots=True)
class Tried:
    """How the calls of a step's tool ended.

    Attributes:
        outcome: That of the last call that was begun.
        attempts: How many were begun.
        over: The task came to an end, or was taken over, meanwhile, so that there was no further attempt.
    """

    outcome: Outcome
    attempts: int
    over: Over | None = None


def attempt(
    step: Step,
    host: Host,
    call: Callable[[Attempt], Outcome],
    look: Callable[[], Over | None],
    drawn: Callable[[], float] = draw,
    is_sure: Callable[[], bool] = lambda: True,
) -> Tried:
    """Call a step's tool until it succeeds, or must not or cannot be called again.

    Args:
        step: The step.
        host: Whose clock says whether there is time for a wait and for a call after it.
        call: Calls the tool; each call is the same but for its number.
        look: What has become of the task.
        drawn: Gives a number from 0 up to 1, for the jitter.
        is_sure: Whether the run is sure to hold the task for the next seconds.
    """
    tried = _first(call(Attempt(1)))
    while isinstance(tried.outcome, Failed) and _may_pass(step, tried.outcome, tried.attempts):
        wait_s = step.retry.wait_s(tried.attempts, drawn) if step.retry else 0.0
        if not host.may_start(wait_s):
            break
        host.wait(wait_s)
        over = look()
        if over or not host.may_start() or not is_sure():
            return Tried(tried.outcome, tried.attempts, over)
        again = call(Attempt(tried.attempts + 1))
        if _was_not_begun(again):
            break
        tried = Tried(again, tried.attempts + 1)
    return tried


def _first(outcome: Outcome) -> Tried:
    return Tried(outcome, 0 if _was_not_begun(outcome) else 1)


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
