"""`Retry`: its fields, its waits, and the failures after which a tool is called again."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, cast

import pytest
from msgspec import structs

from mcp_baton import RegistrationError, Retry, Server, ToolError, ToolStep, Workflow
from mcp_baton.tasks.record import TaskStatus
from mcp_baton.testing import Connect
from mcp_baton.tools.calls import ONLY_CALL, ToolCall
from mcp_baton.tools.outcomes import Failed, Failure, Outcome, Prepared, Succeeded
from mcp_baton.workflow.host import Host
from mcp_baton.workflow.lease import TaskOver
from mcp_baton.workflow.step_run import StepRun, Stop
from mcp_baton.workflow.steps.retry import system_random_fraction
from mcp_baton.workflow.steps.tool_step import attempt

EVEN = Retry(attempts=4, first_s=0.5, factor=2, max_s=30, jitter=False)
OVER = TaskOver(TaskStatus.CANCELLED)


def tool_failure(error: BaseException | None = None) -> Failed:
    return Failed("no", cause=error or ToolError("no"))


@dataclass
class FakeHost:
    """A host and a lease for retries. Calls end with these outcomes; the last one repeats."""

    outcomes: Sequence[Outcome]
    remaining_s: float = 1000.0
    over_after: int | None = None
    check_takes_s: float = 0.0
    is_claim_safe: bool = True
    over: TaskOver | None = None
    log: list[str] = field(default_factory=list)

    @property
    def lease(self) -> Self:
        return self

    def may_start(self, after_s: float = 0.0) -> bool:
        return self.remaining_s - after_s > 0

    def wait(self, seconds: float) -> None:
        self.log.append(f"wait {seconds:g}")
        self.remaining_s -= seconds

    def run(self, _call: Prepared, tool_call: ToolCall) -> Outcome:
        self.log.append(f"call {tool_call.number}")
        return self.outcomes[min(tool_call.number, len(self.outcomes)) - 1]

    def check(self) -> TaskOver | None:
        self.log.append("check")
        self.remaining_s -= self.check_takes_s
        return OVER if self.log.count("check") == self.over_after else None

    def run_step(
        self, retry: Retry | None, *, retryable: bool = False, fraction: Callable[[], float] = lambda: 0.5
    ) -> tuple[Outcome, int, Stop | None]:
        """Return the outcome, the number of attempts, and why there could be no further one."""
        this = StepRun(ToolStep("s", tool="t", retry=retry, retryable=retryable))
        call = Prepared("t", {}, {})
        outcome = attempt(this, cast("Host", self), call, ONLY_CALL, fraction)
        return outcome, this.attempts, this.stop

    def is_safe(self) -> bool:
        return self.is_claim_safe

    @property
    def calls(self) -> int:
        return sum(entry.startswith("call") for entry in self.log)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("attempts", value) for value in (0, -1, 101, 2.0, True, "3", None)],
        *[("first_s", value) for value in (-0.1, math.nan, math.inf, 1e300, 34_560_001, "1", None, True)],
        *[("factor", value) for value in (0.9, -2, math.inf, math.nan, 10**400, "2")],
        *[("max_s", value) for value in (0.4, math.nan, math.inf, 1e300, 34_560_001, None)],
        *[("jitter", value) for value in (0, "yes", None)],
        *[("on", value) for value in ((), "ToolError", (5,), (BaseException,), (ToolError("x"),), None, 5)],
    ],
)
def test_an_invalid_retry_is_refused(field: str, value: Any) -> None:
    server = Server("s")
    server.add_tool(lambda: None, name="t")
    steps = [ToolStep("s", tool="t", retry=Retry(**{field: value}))]
    server.add_workflow(Workflow(name="w", description="d", steps=steps))

    with pytest.raises(RegistrationError, match=rf"step 's': Retry\({field}="):
        server.check()


def test_on_accepts_one_exception_type_or_several() -> None:
    single: Any = OSError
    several: Any = [OSError, ToolError]

    assert Retry(on=single).on == (OSError,)
    assert Retry(on=several).on == (OSError, ToolError)


@pytest.mark.parametrize("retry", [3, {"attempts": 3}, Retry])
def test_a_steps_retry_must_be_a_retry(retry: Any) -> None:
    server = Server("s")
    server.add_tool(lambda: None, name="t")
    server.add_workflow(Workflow(name="w", description="d", steps=[ToolStep("s", tool="t", retry=retry)]))

    with pytest.raises(RegistrationError, match="step 's': retry="):
        server.check()


def test_a_retry_counts_for_equality_but_not_for_the_fingerprint() -> None:
    without_retry, with_retry = ToolStep("s", tool="t"), ToolStep("s", tool="t", retry=Retry())

    assert without_retry != with_retry
    assert with_retry == ToolStep("s", tool="t", retry=Retry())
    assert without_retry.fingerprint == with_retry.fingerprint


def test_waits_grow_up_to_the_maximum() -> None:
    retry = structs.replace(EVEN, max_s=3)

    assert [retry.wait_s(number) for number in (1, 2, 3, 4, 5)] == [0.5, 1, 2, 3, 3]
    assert Retry(attempts=100, factor=1e300, jitter=False).wait_s(99) == 30


def test_jitter_is_a_random_part_of_the_wait() -> None:
    retry = structs.replace(EVEN, jitter=True)

    assert [retry.wait_s(3, iter([part]).__next__) for part in (0.0, 0.25, 0.5)] == [0, 0.5, 1]
    fractions = {system_random_fraction() for _ in range(20)}
    assert len(fractions) > 1
    assert all(0 <= number < 1 for number in fractions)


def test_there_is_no_further_attempt_if_another_run_may_have_the_task() -> None:
    fake = FakeHost([tool_failure()], is_claim_safe=False)
    assert fake.run_step(Retry(attempts=3)) == (tool_failure(), 1, None)


def test_a_failing_tool_is_called_again_until_it_succeeds() -> None:
    fake = FakeHost([tool_failure(), tool_failure(), Succeeded(1)])

    assert fake.run_step(EVEN) == (Succeeded(1), 3, None)
    assert fake.log == ["call 1", "wait 0.5", "check", "call 2", "wait 1", "check", "call 3"]


@pytest.mark.parametrize(
    ("retry", "failure"),
    [
        pytest.param(None, tool_failure(), id="no retry"),
        pytest.param(Retry(attempts=1), tool_failure(), id="one attempt"),
        pytest.param(EVEN, tool_failure(ToolError("no", retryable=False)), id="a final error"),
        pytest.param(EVEN, tool_failure(OSError()), id="an exception that is not listed"),
        pytest.param(EVEN, Failed("no", kind=Failure.INVALID, cause=ToolError("no")), id="a value that does not fit"),
        pytest.param(EVEN, Failed("no", kind=Failure.TIMED_OUT), id="a time-out"),
        pytest.param(EVEN, Failed("ask", asks_client=True, cause=ToolError("no")), id="a question"),
        pytest.param(EVEN, Failed("no"), id="no exception"),
    ],
)
def test_some_failures_are_not_retried(retry: Retry | None, failure: Failed) -> None:
    fake = FakeHost([failure])

    assert fake.run_step(retry) == (failure, 1, None)
    assert fake.log == ["call 1"]


def test_other_exceptions_are_retried_if_they_are_listed() -> None:
    retry = structs.replace(EVEN, on=(OSError,))

    assert FakeHost([tool_failure(ConnectionError()), Succeeded(1)]).run_step(retry) == (Succeeded(1), 2, None)
    assert FakeHost([tool_failure(), Succeeded(1)]).run_step(retry)[1] == 1


def test_a_timeout_is_retried_if_the_step_is_retryable() -> None:
    fake = FakeHost([Failed("late", kind=Failure.TIMED_OUT), Succeeded(1)])

    assert fake.run_step(EVEN, retryable=True) == (Succeeded(1), 2, None)


@pytest.mark.parametrize(("remaining_s", "calls"), [(0.5, 1), (0.6, 2), (1.5, 2), (1.6, 3)])
def test_no_wait_exceeds_the_deadline(remaining_s: float, calls: int) -> None:
    fake = FakeHost([tool_failure()], remaining_s=remaining_s)

    assert fake.run_step(EVEN)[1] == fake.calls == calls
    assert fake.remaining_s > 0


def test_no_call_is_made_if_the_check_of_the_task_took_the_time() -> None:
    fake = FakeHost([tool_failure()], remaining_s=1, check_takes_s=0.6)

    assert fake.run_step(EVEN) == (tool_failure(), 1, None)
    assert fake.calls == 1


def test_a_call_that_did_not_begin_is_not_an_attempt() -> None:
    not_started = Failed("not started", kind=Failure.NOT_STARTED)

    assert FakeHost([not_started]).run_step(EVEN) == (not_started, 0, None)
    assert FakeHost([not_started], over=OVER).run_step(EVEN) == (not_started, 0, OVER)
    assert FakeHost([tool_failure(), not_started]).run_step(EVEN) == (tool_failure(), 1, None)


def test_an_attempt_that_did_not_start_in_time_waits_for_the_next_invocation() -> None:
    late = Failed("not started", kind=Failure.OUT_OF_TIME)
    this = StepRun(ToolStep("s", tool="t", retry=EVEN))
    fake = FakeHost([tool_failure(), late])
    outcome = attempt(this, cast("Host", fake), Prepared("t", {}, {}), ONLY_CALL, lambda: 0.5)

    assert (outcome, this.attempts, this.retry_s) == (tool_failure(), 1, EVEN.first_s)


def test_a_tool_that_returns_a_wrong_type_is_not_retried(baton: Connect) -> None:
    server = Server("shop")

    @server.tool
    def work() -> int:
        text: Any = "no number"
        return cast("int", text)

    steps = [ToolStep("work", tool="work", retry=Retry(on=(Exception,), first_s=0))]
    server.add_workflow(Workflow(name="flow", description="work", steps=steps))
    client = baton(server)

    assert client.get_prompt("flow").paused
    assert len(client.calls("work")) == 1
