"""The attempts of one call: a failed tool is called again as its step says (docs/workflows.md, Trying again)."""

from collections.abc import Callable
from typing import TypeGuard

from msgspec import structs

from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.tools.calls import ToolCall
from mcp_baton.tools.outcomes import Failed, Failure, Outcome, Prepared
from mcp_baton.workflow.host import Host
from mcp_baton.workflow.lease import Lease, ThreadLease
from mcp_baton.workflow.step_run import StepRun
from mcp_baton.workflow.steps.retry import system_random_fraction
from mcp_baton.workflow.steps.step import Step


def attempt(
    this: StepRun,
    host: Host,
    call: Prepared,
    tool_call: ToolCall,
    variables: TaskVariables | None,
    lease: Lease | ThreadLease | None,
    rng: Callable[[], float] = system_random_fraction,
) -> Outcome:
    """Call a step's tool until it succeeds, or until it must not or cannot be called again.

    Notes in `this` the number of attempts. If the run cannot write to its task any more, it makes no further attempt
    and notes why (`stop`). If the wait before the next attempt is too long for this invocation, it notes the wait
    (`retry_s`).

    Args:
        variables: The task's variables; `None` without a task.
    """
    step = this.step
    outcome = host.run(call, variables, tool_call)
    if _was_not_called(outcome):
        # The claim is renewed just before a call. The renewal may show that the task is over or has another run.
        this.attempts, this.stop = 0, lease.over if lease else None
        return outcome
    this.attempts = tool_call.number
    while isinstance(outcome, Failed) and _may_retry(step, outcome, this.attempts):
        wait_s = step.retry.wait_s(this.attempts, rng) if step.retry else 0.0
        if not host.may_start(wait_s):
            this.retry_s = wait_s
            return outcome
        host.wait(wait_s)
        this.stop = lease.check() if lease else None
        if this.stop:
            return outcome
        if not host.may_start() or (lease and not lease.is_safe()):
            this.retry_s = wait_s
            return outcome
        next_outcome = host.run(call, variables, structs.replace(tool_call, number=this.attempts + 1))
        if isinstance(next_outcome, Failed) and next_outcome.not_approved is not None:
            return next_outcome  # the approval has expired, or was used up
        if _was_not_called(next_outcome):
            this.retry_s = wait_s if next_outcome.kind is Failure.OUT_OF_TIME else None
            return outcome
        outcome = next_outcome
        this.attempts += 1
    return outcome


def _was_not_called(outcome: Outcome) -> TypeGuard[Failed]:
    return isinstance(outcome, Failed) and not outcome.was_made


def _may_retry(step: Step, failed: Failed, attempts: int) -> bool:
    """Whether the call may be made again. A call that timed out may have happened: only a retryable step repeats it."""
    if step.retry is None or attempts >= step.retry.attempts or failed.asks_client:
        return False
    match failed.kind:
        case Failure.RAISED:
            return isinstance(failed.cause, step.retry.on) and not failed.is_final
        case Failure.TIMED_OUT:
            return step.retryable
        case _:
            return False
