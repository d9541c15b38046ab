"""Steps whose tools are called again, through the real handler; time passes when the test's clock says so."""

from collections.abc import Callable
from typing import Any, cast

from mcp_baton import Context, Retry, Server, Step, ToolError, Workflow, constant
from mcp_baton.testing import Client, connect

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


def elapsed(client: Client, work: Callable[[], object]) -> float:
    before = client.clock.monotonic_s()
    work()
    return client.clock.monotonic_s() - before


def test_a_step_that_succeeds_at_last_completes_within_the_run_and_its_waits_pass() -> None:
    attempts: list[int] = []
    server = flaky(Step("work", tool="work", retry=EVEN), attempts, failing(3))

    with connect(server) as client:
        assert elapsed(client, lambda: client.get_prompt("flow")) >= 12
        run = client.get_prompt("flow")

    assert attempts == [1, 2, 3, 1, 2, 3]
    assert run.completed


def test_only_after_the_last_attempt_the_run_pauses_and_a_resume_counts_anew() -> None:
    attempts: list[int] = []
    server = flaky(Step("work", tool="work", retry=EVEN, retryable=True), attempts, failing(9))

    with connect(server) as client:
        run = client.get_prompt("flow")
        assert (run.pause.error, run.pause.retryable) == ("attempt 3 failed", True)
        assert run.steps == {"work": "failed", "after": "pending"}
        client.resume(run.task_id)

    assert attempts == [1, 2, 3, 1, 2, 3]


def test_an_error_that_says_so_ends_the_attempts_and_the_reason_says_it_too() -> None:
    attempts: list[int] = []
    step = Step("work", tool="work", retry=EVEN, retryable=True)

    with connect(flaky(step, attempts, failing(9, retryable=False))) as client:
        run = client.get_prompt("flow")
        assert run.pause.retryable is False

    assert attempts == [1]


def test_a_wait_that_would_pass_the_deadline_is_not_begun() -> None:
    attempts: list[int] = []

    with connect(flaky(Step("work", tool="work", retry=EVEN), attempts, failing(9))) as client:
        client.remaining_s(15)  # 5 s of which are kept for writing
        run = client.get_prompt("flow")

    assert attempts == [1, 2]
    assert run.paused


def test_a_tool_whose_value_does_not_fit_is_not_called_again() -> None:
    server, calls = Server("s"), list[int]()

    @server.tool
    def work() -> int:
        calls.append(1)
        unfit: Any = "no number"
        return cast("int", unfit)

    step = Step("work", tool="work", retry=Retry(on=(Exception,), first_s=0))
    server.add_workflow(Workflow(name="flow", description="work", steps=[step]))

    with connect(server) as client:
        assert client.get_prompt("flow").paused
    assert calls == [1]


def test_a_task_that_was_cancelled_meanwhile_gets_no_further_attempt() -> None:
    attempts: list[int] = []
    holder: list[Client] = []

    def end(number: int) -> object:
        if number == 2:
            holder[0].cancel(holder[0].tasks()[0].task_id)
        raise ToolError("no")

    with connect(flaky(Step("work", tool="work", retry=EVEN), attempts, end)) as client:
        holder.append(client)
        run = client.get_prompt("flow")

    assert attempts == [1, 2]
    assert run.meta["task_status"] == "cancelled"


def test_each_attempt_gets_arguments_that_no_earlier_one_has_changed() -> None:
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

    with connect(server) as client:
        assert client.get_prompt("flow").completed
    assert seen == [["lamp", "desk"]] * 3
