"""Progress while a step runs, and the end of the function's time (docs/workflows.md)."""

import asyncio
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import chain, repeat
from threading import Event, Semaphore
from typing import Annotated, Any

import pytest

from mcp_baton import Context, Depends, Fetch, ListStep, Server, ToolStep, Workflow, constant, item
from mcp_baton.exceptions import Abandoned
from mcp_baton.protocol.http import ClientGone
from mcp_baton.workflow.steps.step import Step
from tests.support.background import Background
from tests.support.client import BOUND_S, Answer, Client, Clock, Sink, Table, begin
from tests.support.handler import MakeClient, Submit

RESERVE_MS = 5_000
LISTENING = {"progressToken": "t", "io.modelcontextprotocol/logLevel": "debug"}


class DisconnectedSink(Sink):
    """A client that closes the connection at the first message."""

    def write(self, data: bytes) -> None:
        """Fail, because the connection is closed."""
        raise ClientGone(f"{len(data)} bytes were not sent")


def one_step(server: Server, tool: str) -> None:
    server.add_workflow(
        Workflow(name="flow", description="work", steps=[ToolStep("slow", tool=tool), ToolStep("next", tool=tool)])
    )


def test_a_step_is_announced_while_it_runs(make_client: MakeClient, submit: Submit) -> None:
    events = [Event(), Event()]
    gates, server, sink = iter(events), Server("s"), Sink()

    @server.tool
    def work() -> None:
        # The step ends only after the client has received the announcement.
        assert next(gates).wait(BOUND_S)

    one_step(server, "work")
    client = make_client(server)
    answer = submit(sink, lambda: client.get_prompt("flow", meta=LISTENING))
    for event, message in zip(events, ["Step 1/2: slow", "Step 2/2: next"], strict=True):
        assert sink.next_params()["message"] == message
        event.set()
    assert sink.next()["result"]["_meta"]["task_status"] == "completed"
    assert answer.result(BOUND_S).body == ""


@pytest.mark.parametrize("is_async", [False, True])
def test_a_tools_progress_arrives_while_it_runs(make_client: MakeClient, submit: Submit, is_async: bool) -> None:
    event, server, sink = Event(), Server("s"), Sink()

    def work(ctx: Context) -> bool:
        ctx.report_progress(1, 2, "half way")
        return event.wait(BOUND_S)

    async def work_async(ctx: Context) -> bool:
        ctx.report_progress(1, 2, "half way")
        return await asyncio.to_thread(event.wait, BOUND_S)

    server.tool(name="work")(work_async if is_async else work)
    client = make_client(server)
    submit(sink, lambda: client.call_tool("work", meta=LISTENING))
    assert sink.next_params() == {"progressToken": "t", "progress": 1, "total": 2, "message": "half way"}
    event.set()
    assert sink.next()["result"]["structuredContent"] == {"result": True}


def test_a_run_and_a_continuation_continue_after_the_client_closed_the_connection(
    make_client: MakeClient, submit: Submit, table: Table
) -> None:
    server, clock = Server("s"), Clock()

    @server.tool
    def work(ctx: Context) -> int:
        ctx.report_progress(1)
        return 1

    one_step(server, "work")
    client = make_client(server, remaining_ms=clock)
    task = begin(client, clock)
    submit(DisconnectedSink(), lambda: client.call_tool("work", task=task, meta=LISTENING)).result(BOUND_S)
    assert client.variables(task)["_workflow.result.slow"] == 1
    submit(DisconnectedSink(), lambda: client.get_prompt("flow", meta=LISTENING)).result(BOUND_S)
    assert sorted(table.statuses) == ["completed", "working"]


class Stall:
    """A workflow whose tool is still running when the function's time ends. Afterwards, the tool runs `action`."""

    def __init__(self, make_client: MakeClient, action: Callable[[Context], object] = lambda _: None) -> None:
        self.clock, self.release, self.ended = Clock(), Event(), Event()
        self.action = action
        self.error: BaseException | None = None
        self.keys: list[str] = []
        server = Server("s")
        server.tool(self.work)
        one_step(server, "work")
        self.client = make_client(server, remaining_ms=self.clock)

    def work(self, ctx: Context) -> str:
        """Let the time run out, wait to be released, then use the context."""
        if self.release.is_set():
            return "in time"
        variables = ctx.task
        self.keys.append(ctx.idempotency_key)
        self.clock.ms = RESERVE_MS
        # A progress notification makes the request's thread check the clock.
        ctx.report_progress(1)
        assert self.release.wait(BOUND_S)
        try:
            self.action(ctx)
        except BaseException as error:
            self.error = error
            raise
        finally:
            # The variables are from the context, which is closed by now.
            with suppress(Abandoned):
                if variables is not None:
                    variables["late"] = True
            self.ended.set()
        return "late"

    def end(self) -> None:
        """Release the tool and wait for its end."""
        assert not self.ended.is_set()
        self.release.set()
        assert self.ended.wait(BOUND_S)


@pytest.fixture
def stall(make_client: MakeClient) -> Stall:
    return Stall(make_client)


TIMEOUT = (
    "timed out: it had 25 s, which is what was left of the function's time without the last 5 s, in which results are "
    "stored (raise FunctionTimeout, in the background WorkerTimeout; with baton serve --timeout, --worker-timeout); it "
    "may still have happened"
)
TIMED_OUT = {
    "type": "toolError",
    "failedStep": "slow",
    "error": TIMEOUT,
    "retryable": False,
    "suggestedTool": "work",
    "outcomeUnknown": True,
}


def timed_out(stall: Stall) -> dict[str, object]:
    """Return the pause reason of the call that the tool has begun."""
    return {**TIMED_OUT, "idempotencyKey": stall.keys[0]}


def check_text(stall: Stall) -> str:
    """Return what a model reads first after a timeout."""
    return f"It may still have happened: check whether it happened (idempotency key {stall.keys[0]})."


def test_a_tool_that_is_still_running_when_the_write_reserve_begins_is_abandoned(stall: Stall, table: Table) -> None:
    answer = stall.client.get_prompt("flow", meta=LISTENING)
    assert answer.meta["pause_reason"] == timed_out(stall)
    assert check_text(stall) in answer.handoff
    assert "If it did not happen, make these tool calls:" in answer.handoff
    assert answer.statuses == ["failed", "pending"]
    variables = stall.client.variables(answer.task_id)
    assert variables["_workflow.pause_reason"] == timed_out(stall)
    assert variables["_workflow.result.slow"] == {"error": TIMEOUT}

    item_before = table.item(answer.task_id)
    stall.end()
    assert table.item(answer.task_id) == item_before
    stall.clock.ms = 30_000
    assert stall.client.get_prompt("flow", task=answer.task_id).meta["task_status"] == "completed"
    variables = stall.client.variables(answer.task_id)
    assert variables["_workflow.result.slow"] == "in time"
    assert "late" not in variables


CONTEXT_USES: dict[str, Callable[[Context], object]] = {
    "report_progress": lambda ctx: ctx.report_progress(2),
    "log": lambda ctx: ctx.log("info", "still here"),
    "remaining_ms": lambda ctx: ctx.remaining_ms(),
    "task": lambda ctx: ctx.task,
}


@pytest.mark.parametrize("action", CONTEXT_USES.values(), ids=CONTEXT_USES)
def test_an_abandoned_tool_is_stopped_at_the_next_use_of_its_context(
    make_client: MakeClient, action: Callable[[Context], Any]
) -> None:
    stall = Stall(make_client, action)
    stall.client.get_prompt("flow", meta=LISTENING)
    assert stall.error is None
    stall.end()
    # It is not an `Exception`, so a tool that catches `Exception` does not catch it.
    assert (isinstance(stall.error, Abandoned), isinstance(stall.error, Exception)) == (True, False)


def test_a_continuation_that_does_not_end_is_recorded_as_timed_out(stall: Stall) -> None:
    task = begin(stall.client, stall.clock)
    answer = stall.client.call_tool("work", task=task, meta=LISTENING)
    assert answer.result["isError"] is True
    assert answer.result["content"] == [{"type": "text", "text": TIMEOUT}]
    assert answer.meta["recorded"] is True
    assert answer.meta["pause_reason"] == timed_out(stall)
    stall.end()


def test_the_text_after_a_continuation_that_does_not_end_says_what_to_check(stall: Stall) -> None:
    task = begin(stall.client, stall.clock)
    answer = stall.client.call_tool("work", {"task_id": task}, meta=LISTENING)
    assert check_text(stall) in str(answer.result["content"])
    stall.end()


def test_a_tool_without_progress_is_abandoned_too(make_client: MakeClient) -> None:
    server, release, started = Server("s"), Event(), Event()

    def remaining_ms() -> int:
        """Return 30 s until the tool runs, then 20 ms and 10 ms more than the reserve, then just the reserve."""
        return next(remaining_times) if started.is_set() else 30_000

    remaining_times = iter([RESERVE_MS + 20, RESERVE_MS + 10, *[RESERVE_MS] * 100])

    @server.tool
    def work(ctx: Context) -> None:
        started.set()
        ctx.report_progress(1)
        release.wait(BOUND_S)

    one_step(server, "work")
    answer = make_client(server, remaining_ms=remaining_ms).get_prompt("flow", meta=LISTENING)
    assert answer.meta["pause_reason"].items() >= TIMED_OUT.items()
    release.set()


def test_an_abandoned_coroutine_is_cancelled(make_client: MakeClient) -> None:
    server, clock, cancelled = Server("s"), Clock(), Event()

    @server.tool
    async def work(ctx: Context) -> None:
        clock.ms = RESERVE_MS
        ctx.report_progress(1)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    one_step(server, "work")
    answer = make_client(server, remaining_ms=clock).get_prompt("flow", meta=LISTENING)
    assert answer.meta["pause_reason"].items() >= TIMED_OUT.items()
    assert cancelled.wait(BOUND_S)


def test_a_tool_with_ten_lost_threads_is_not_called(make_client: MakeClient, caplog: pytest.LogCaptureFixture) -> None:
    server, clock, starts, release_all, ends = Server("s"), Clock(), Semaphore(0), Event(), Semaphore(0)

    @server.tool
    def hang(ctx: Context) -> str:
        starts.release()
        if not release_all.is_set():
            clock.ms = RESERVE_MS
            ctx.report_progress(1)
            release_all.wait(BOUND_S)
            ends.release()
        return "in time"

    client = make_client(server, remaining_ms=clock)

    def call() -> str:
        clock.ms = 30_000
        text: str = client.call_tool("hang", meta=LISTENING).result["content"][0]["text"]
        return text

    assert [call().startswith("timed out: ") for _ in range(10)] == [True] * 10
    assert [starts.acquire(timeout=BOUND_S) for _ in range(10)] == [True] * 10
    assert call().startswith("not started: 10 earlier calls of this function timed out and still run.")
    assert "tool hang is not called any more" in caplog.text
    assert not starts.acquire(blocking=False)
    release_all.set()
    assert [ends.acquire(timeout=BOUND_S) for _ in range(10)] == [True] * 10
    # One of the threads is about to end.
    assert "in time" in (call() for _ in range(10_000))


class Blocking:
    """Two async tools: `block` blocks the event loop until it is released, and `wait` awaits a sleep."""

    def __init__(self, requires: Sequence[str] = ()) -> None:
        self.blocked, self.released, self.started = Event(), Event(), Event()
        self.server = Server("s")
        self.server.tool(requires=requires)(self.block)
        self.server.tool(self.wait)

    async def block(self) -> None:
        self.blocked.set()
        self.released.wait(BOUND_S)

    async def wait(self) -> None:
        self.started.set()
        await asyncio.sleep(BOUND_S)

    def remaining_ms(self) -> int:
        """Return the remaining time, which is over when the loop is blocked."""
        return RESERVE_MS if self.blocked.is_set() else RESERVE_MS + 10


def call_as_admin(client: Client, tool: str) -> Answer:
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool}}
    context = {"requestId": "api-1", "authorizer": {"claims": {"sub": "alice", "scope": "admin"}}}
    return client.post(json.dumps(call), {"MCP-Protocol-Version": "2025-11-25"}, requestContext=context)


BLOCKER = "tool block blocks the event loop, on which all async functions run (write it as a plain def, or await in it)"


@pytest.mark.parametrize(("requires", "name"), [((), "tool block"), (("admin",), "another function")])
def test_an_async_tool_does_not_start_while_another_one_blocks_the_loop(
    make_client: MakeClient, caplog: pytest.LogCaptureFixture, requires: Sequence[str], name: str
) -> None:
    tools = Blocking(requires)
    blocking_client, client = make_client(tools.server), make_client(tools.server, remaining_ms=tools.remaining_ms)
    with ThreadPoolExecutor(1) as pool:
        block_call = pool.submit(call_as_admin, blocking_client, "block")
        assert tools.blocked.wait(BOUND_S)
        answer = client.call_tool("wait").result
        tools.released.set()
        assert "isError" not in block_call.result(BOUND_S).result
    problem = BLOCKER.replace("tool block", name)
    assert (
        answer["content"][0]["text"] == f"not started: the time for this request was over: {problem}. Nothing was run."
    )
    assert "tool block blocks the event loop" in caplog.text
    assert call_as_admin(blocking_client, "block").result["content"] == [{"type": "text", "text": "Done."}]
    assert not tools.started.is_set()


def test_a_started_async_tool_times_out_if_another_one_blocks_the_loop(make_client: MakeClient) -> None:
    tools = Blocking()
    blocking_client, client = make_client(tools.server), make_client(tools.server, remaining_ms=tools.remaining_ms)
    with ThreadPoolExecutor(2) as pool:
        wait_call = pool.submit(client.call_tool, "wait")
        assert tools.started.wait(BOUND_S)
        block_call = pool.submit(blocking_client.call_tool, "block")
        [content] = wait_call.result(BOUND_S).result["content"]
        tools.released.set()
        block_call.result(BOUND_S)
    assert content["text"].startswith("timed out: it had 0.01 s")
    assert content["text"].endswith(f"; {BLOCKER}; it may still have happened")


def test_the_error_of_an_async_tool_says_that_it_blocks_the_loop(make_client: MakeClient) -> None:
    tools = Blocking()
    answer = make_client(tools.server, remaining_ms=tools.remaining_ms).call_tool("block").result
    tools.released.set()
    assert (
        "; it blocks the event loop (write it as a plain def, or await in it); it may" in answer["content"][0]["text"]
    )


NOT_STARTED = "not started: the time for this request was over. Nothing was run."


@pytest.mark.parametrize("is_async", [False, True])
def test_a_tool_is_not_started_when_the_time_is_over(make_client: MakeClient, is_async: bool) -> None:
    server, calls = Server("s"), list[str]()

    def work() -> None:
        calls.append("work")

    async def work_async() -> None:
        calls.append("work")

    server.tool(name="work")(work_async if is_async else work)
    clock = Clock(RESERVE_MS)
    client = make_client(server, remaining_ms=clock)
    answer = client.call_tool("work")
    assert answer.result["isError"] is True
    assert answer.result["content"] == [{"type": "text", "text": NOT_STARTED}]
    clock.ms = RESERVE_MS + 10_000
    assert "isError" not in client.call_tool("work").result
    assert calls == ["work"]


class SlowDependency:
    """A tool, `work`, and its dependency, whose first use after another call takes all the time of its invocation.

    Attributes:
        calls: The elements or steps for which the tool ran.
    """

    def __init__(self) -> None:
        self.clock, self.release, self.is_slow, self.calls = Clock(), Event(), True, list[str]()
        self.server = Server("s")

        def connect(ctx: Context) -> None:
            if self.is_slow and self.calls:
                self.is_slow, self.clock.ms = False, RESERVE_MS
                ctx.log("slow")  # a message makes the request's thread check the clock
                self.release.wait(BOUND_S)

        @self.server.resource("docs://{page}")
        def docs(page: str) -> str:
            self.clock.ms = RESERVE_MS if page == "slow" and self.clock.ms == 30_000 else self.clock.ms
            return page

        @self.server.tool
        def work(name: str, db: Annotated[None, Depends(connect)]) -> str:
            self.calls.append(name)
            return name

    def add(self, *steps: Step, **options: Any) -> None:
        self.server.add_workflow(Workflow(name="flow", description="work", steps=steps, **options))


def work_step(name: str, **options: Any) -> ToolStep:
    return ToolStep(name, tool="work", arguments={"name": constant(name)}, **options)


def list_step(elements: str, **options: Any) -> ListStep:
    return ListStep("slow", tool="work", each=constant(list(elements)), arguments={"name": item()}, **options)


PAGES = ["docs://slow", "docs://fast"]
NOT_STARTED_STEPS: dict[str, tuple[list[Step], int, list[str]]] = {
    "after a slow dependency": ([work_step("a"), work_step("slow")], 1, ["a", "slow"]),
    "after slow resources": ([work_step("slow", resources=PAGES[:1])], 1, ["slow"]),
    "before the last resource": ([work_step("slow", resources=PAGES)], 1, ["slow"]),
    "resources only": ([Fetch("slow", resources=PAGES)], 1, []),
    "in a list": ([list_step("ab")], 1, ["a", "b"]),
    "in a parallel list": ([list_step("abc", parallel=2)], 1, ["a", "b", "c"]),
    "of two parallel steps": ([work_step("a"), work_step("slow", after=["a"])], 2, ["a", "slow"]),
}


@pytest.mark.parametrize(("steps", "parallel", "calls"), NOT_STARTED_STEPS.values(), ids=NOT_STARTED_STEPS)
def test_a_step_whose_call_did_not_start_in_time_stays_pending_and_a_resume_makes_the_call(
    make_client: MakeClient, steps: Sequence[Step], parallel: int, calls: list[str]
) -> None:
    slow = SlowDependency()
    slow.add(*steps, parallel=parallel)
    client = make_client(slow.server, remaining_ms=slow.clock)
    answer = client.get_prompt("flow", meta=LISTENING)
    assert answer.meta["pause_reason"]["type"] == "deadlineExceeded"
    assert answer.statuses[-1] == "pending"
    slow.clock.ms = 30_001
    assert client.get_prompt("flow", task=answer.task_id).meta["task_status"] == "completed"
    assert sorted(slow.calls) == calls
    slow.release.set()


def test_a_workflow_in_the_background_makes_a_call_that_did_not_start_in_time_later(table: Table) -> None:
    slow = SlowDependency()
    slow.add(work_step("a"), work_step("slow"), background=True)
    jobs = Background(slow.server, table)
    call_task = jobs.begin("flow")
    assert jobs.work(remaining_ms=slow.clock) == "handed over"
    slow.clock.ms = 30_000
    assert jobs.work(remaining_ms=slow.clock) == "completed"
    assert (jobs.client().task("get", call_task).result["status"], slow.calls) == ("completed", ["a", "slow"])
    slow.release.set()


def test_a_worker_is_not_invoked_again_and_again_for_a_call_that_never_starts(table: Table) -> None:
    slow = SlowDependency()
    slow.add(work_step("slow"), background=True)
    slow.calls.append("a")
    jobs = Background(slow.server, table)
    call_task = jobs.begin("flow")
    assert jobs.work(remaining_ms=slow.clock) == "completed"
    result = jobs.client().task("get", call_task).result["result"]
    assert (result["structuredContent"]["pause_reason"]["type"], jobs.queue.events) == ("deadlineExceeded", [])
    slow.release.set()


def test_a_continuation_that_did_not_start_in_time_is_not_recorded_as_failed(make_client: MakeClient) -> None:
    slow = SlowDependency()
    slow.add(work_step("slow"))
    client = make_client(slow.server, remaining_ms=slow.clock)
    task = begin(client, slow.clock)
    slow.calls.append("a")
    answer = client.call_tool("work", {"name": "slow"}, task=task, meta=LISTENING)
    assert answer.result["content"][0]["text"].startswith("not started: the time for this request was over: its depend")
    assert (answer.meta["recorded"], answer.meta["next"][0]["tool"]) == (False, "flow")
    slow.clock.ms = 30_000
    assert client.get_prompt("flow", task=task).statuses == ["completed"]
    slow.release.set()


def test_a_step_fails_and_names_the_function_that_blocks_the_event_loop(make_client: MakeClient) -> None:
    tools = Blocking()
    one_step(tools.server, "wait")
    with ThreadPoolExecutor(1) as pool:
        block_call = pool.submit(make_client(tools.server).call_tool, "block")
        assert tools.blocked.wait(BOUND_S)
        remaining_times = chain(repeat(30_000, 3), repeat(RESERVE_MS))
        answer = make_client(tools.server, remaining_ms=lambda: next(remaining_times)).get_prompt("flow")
        tools.released.set()
        block_call.result(BOUND_S)
    assert answer.statuses == ["failed", "pending"]
    assert BLOCKER in answer.meta["pause_reason"]["error"]
