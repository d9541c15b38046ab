"""`tasks/cancel` while a worker in another container runs the task (docs/background.md, Cancelling)."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from mcp_baton import Context, Server
from mcp_baton.background import job
from mcp_baton.workflow import lease
from tests.support.background import Background, MakeBackground
from tests.support.client import BOUND_S, Era, Table


class Work:
    """The state of the tools that are cancelled.

    Attributes:
        ended: Set when a tool was stopped by the cancellation.
        released: Set at the end of the test, so that a tool that was not stopped ends.
        meanwhile: Runs in the tool that ignores the cancellation.
    """

    def __init__(self) -> None:
        self.started, self.ended, self.released = Event(), Event(), Event()
        self.meanwhile: Callable[[], object] = lambda: None


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture
def jobs(background: MakeBackground, work: Work, monkeypatch: pytest.MonkeyPatch) -> Background:
    """Tools that run until they are cancelled, and one that ignores cancellation. Workers check often, which keeps
    tests short."""
    monkeypatch.setattr(lease, "CHECK_AFTER_S", 0.0)
    monkeypatch.setattr(job, "CHECK_AFTER_S", 0.01)
    server = Server("s")

    @server.tool(task="optional")
    def steps(ctx: Context) -> None:
        work.started.set()
        try:
            while not work.released.wait(0.001):
                ctx.remaining_ms()
        except BaseException:
            work.ended.set()
            raise

    @server.tool(task="optional")
    async def waits() -> None:
        work.started.set()
        try:
            await asyncio.sleep(2 * BOUND_S)
        except asyncio.CancelledError:
            work.ended.set()
            raise

    @server.tool(task="optional")
    def heedless(ctx: Context) -> str:
        assert ctx.task is not None
        ctx.task["left"] = "behind"
        work.meanwhile()
        return "too late"

    return background(server)


@pytest.mark.parametrize("tool", ["steps", "waits"], ids=["a def at its next Context call", "an async def at once"])
def test_a_cancellation_reaches_a_tool_in_another_container(jobs: Background, work: Work, tool: str, era: Era) -> None:
    task = jobs.begin(tool, era=era)
    with ThreadPoolExecutor(1) as worker:
        outcome = worker.submit(jobs.work)
        try:
            assert work.started.wait(BOUND_S)
            jobs.client(era).task("cancel", task)
            assert outcome.result(BOUND_S) == "stopped: it is over, or another worker's"
            assert work.ended.wait(BOUND_S)
        finally:
            work.released.set()
    assert jobs.status(task, era) == "cancelled"


def test_a_result_that_comes_after_the_cancellation_is_dropped(jobs: Background, work: Work, table: Table) -> None:
    task, client = jobs.begin("heedless"), jobs.client()
    work.meanwhile = lambda: client.task("cancel", task)
    jobs.work()
    state = client.task("get", task).result
    assert (state["status"], "result" in state, "left" in state["_meta"]) == ("cancelled", False, False)
    assert "result" not in table.item(task)


def test_a_task_that_is_cancelled_before_a_worker_starts_never_runs(jobs: Background, work: Work) -> None:
    task = jobs.begin("steps")
    jobs.client().task("cancel", task)
    assert jobs.work() == "over: cancelled"
    assert not work.started.is_set()


def test_a_cancelled_task_has_no_result(jobs: Background) -> None:
    task = jobs.begin("steps", era="2025")
    jobs.client("2025").task("cancel", task)
    answer = jobs.client("2025").task("result", task)
    assert answer.refusal == (200, -32600)
    assert answer.error["data"] == {"status": "cancelled"}


def test_a_cancellation_with_a_result_completes_the_task_and_drops_the_workers_result(
    jobs: Background, work: Work, era: Era
) -> None:
    task, client = jobs.begin("heedless", era=era), jobs.client(era)
    result = {"content": [{"type": "text", "text": "done by hand"}]}
    work.meanwhile = lambda: client.task("cancel", task, result=result)
    jobs.work()
    state = jobs.client("2026").task("get", task).result
    meta = {"mcp-baton/result_by": "client"}
    assert (state["status"], state["result"]) == ("completed", {"resultType": "complete", **result, "_meta": meta})
    assert jobs.client("2025").task("result", task).result["content"] == result["content"]


def test_a_cancellation_reaches_a_task_that_waits_for_the_client(jobs: Background, table: Table) -> None:
    task = jobs.begin("heedless")
    table.replace({**table.item(task), "status": {"S": "input_required"}})
    jobs.client().task("cancel", task)
    assert jobs.status(task) == "cancelled"
    assert jobs.work() == "over: cancelled"
