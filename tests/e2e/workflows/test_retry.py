"""Steps whose tools are called again, through the real handler; time passes when the test's clock says so.

What is tried again, and when, has its own tests: tests/unit/workflow/test_retry.py.
"""

from collections.abc import Callable
from typing import Any, cast

from mcp_baton import Context, Retry, Server, Step, ToolError, Workflow, constant
from mcp_baton.testing import Connect

EVEN = Retry(attempts=3, first_s=4, factor=2, jitter=False)


def flaky(step: Step, attempts: list[int], end: Callable[[int], object]) -> Server:
    """A workflow whose step's tool notes its attempts and ends as `end` has it."""
    server = Server("flaky")

    @server.tool
    def work(ctx: Context) -> Any:
        attempts.append(ctx.attempt)
        return end(ctx.attempt)

    @server.tool
    def after() -> str:
        return "done"

    server.add_workflow(Workflow(name="flow", description="work", steps=[step, Step("after", tool="after")]))
    return server


def failing(until: int, **how: Any) -> Callable[[int], object]:
    def end(number: int) -> object:
        if number < until:
            raise ToolError(f"attempt {number} failed", **how)
        return number

    return end


def test_a_step_that_succeeds_after_retries_completes(baton: Connect) -> None:
    attempts: list[int] = []
    server = flaky(Step("work", tool="work", retry=EVEN), attempts, failing(3))

    client = baton(server)
    before_s = client.clock.monotonic_s()
    assert client.get_prompt("flow").completed
    assert client.clock.monotonic_s() - before_s >= 12

    assert attempts == [1, 2, 3]


def test_a_run_pauses_after_the_last_attempt_and_a_resume_starts_again(baton: Connect) -> None:
    attempts: list[int] = []
    server = flaky(Step("work", tool="work", retry=EVEN, retryable=True), attempts, failing(9))

    client = baton(server)
    run = client.get_prompt("flow")
    assert (run.pause.error, run.pause.retryable) == ("attempt 3 failed", True)
    assert run.steps == {"work": "failed", "after": "pending"}
    client.resume(run.task_id)

    assert attempts == [1, 2, 3, 1, 2, 3]


def test_an_error_that_says_so_ends_the_attempts_and_the_reason_says_it_too(baton: Connect) -> None:
    attempts: list[int] = []
    step = Step("work", tool="work", retry=EVEN, retryable=True)

    run = baton(flaky(step, attempts, failing(9, retryable=False))).get_prompt("flow")
    assert (run.pause.retryable, attempts) == (False, [1])


def test_a_tool_whose_value_does_not_fit_is_not_called_again(baton: Connect) -> None:
    server, calls = Server("s"), list[int]()

    @server.tool
    def work() -> int:
        calls.append(1)
        unfit: Any = "no number"
        return cast("int", unfit)

    step = Step("work", tool="work", retry=Retry(on=(Exception,), first_s=0))
    server.add_workflow(Workflow(name="flow", description="work", steps=[step]))

    assert baton(server).get_prompt("flow").paused
    assert calls == [1]


def test_each_attempt_gets_arguments_that_no_earlier_one_has_changed(baton: Connect) -> None:
    server = Server("shop")
    seen: list[list[str]] = []

    @server.tool
    def pack(items: list[str]) -> int:
        seen.append(list(items))
        items.clear()
        if len(seen) < 3:
            raise ToolError("the box broke")
        return len(seen)

    step = Step("pack", tool="pack", arguments={"items": constant(["lamp", "desk"])}, retry=EVEN)
    server.add_workflow(Workflow(name="flow", description="pack", steps=[step]))

    assert baton(server).get_prompt("flow").completed
    assert seen == [["lamp", "desk"]] * 3
