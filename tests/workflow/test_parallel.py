"""Steps that run at the same time (docs/workflows.md, Parallel steps).

The order of the steps and the end of each plan are tested in tests/model.
"""

import threading
from datetime import timedelta
from typing import Any

import pytest

from mcp_baton import (
    Callback,
    Context,
    ListStep,
    Server,
    ToolError,
    ToolStep,
    Wait,
    Workflow,
    ask_user,
    constant,
    exists,
    item,
    or_default,
    step,
    step_output,
    task_variable,
)
from mcp_baton.tasks.record import RENEW_MS
from mcp_baton.tasks.variables import MAX_VARIABLES_CHANGED
from mcp_baton.testing import connect
from mcp_baton.workflow.steps.step import Step
from tests.sent import Requests
from tests.support.client import Client, Table
from tests.support.handler import MakeClient

BOUND_S = 60


class Meeting:
    """A server whose tool `meet` returns when `expected` calls of it run at the same time."""

    def __init__(self, expected: int = 2) -> None:
        self.barrier = threading.Barrier(expected, timeout=BOUND_S)
        self.calls: list[str] = []
        self.errors: dict[str, int] = {}
        self.server = Server("together", task_ids="text")
        self.server.tool(self.meet)
        self.server.tool(self.work)

    def meet(self, ctx: Context, name: str) -> str:
        """Wait for the other calls."""
        self.calls.append(name)
        ctx.report_progress(0.5)
        ctx.log("info", f"{name} waits")
        self.barrier.wait()
        return name

    def work(self, ctx: Context, name: str, after: str = "") -> str:  # noqa: ARG002
        self.calls.append(name)
        if self.errors.get(name, 0):
            self.errors[name] -= 1
            raise ToolError(f"{name} is down")
        if ctx.task is not None:
            ctx.task[f"by_{name}"] = name
        return name

    def add(self, *steps: Step, parallel: int = 8) -> None:
        self.server.add_workflow(Workflow(name="flow", description="run", steps=steps, parallel=parallel))


def meet(name: str, **options: Any) -> Step:
    return ToolStep(name, {"name": constant(name)}, tool="meet", **options)


def work(name: str, uses: str | None = None, after_steps: tuple[str, ...] = (), **options: Any) -> Step:
    arguments: dict[str, Any] = {"name": constant(name), **({"after": step_output(uses)} if uses else {})}
    return ToolStep(name, arguments, tool="work", after=after_steps, **options)


def test_independent_steps_run_at_the_same_time(make_client: MakeClient) -> None:
    meeting = Meeting(3)
    meeting.add(meet("a"), meet("b"), work("last", "a"), meet("c"))
    client = make_client(meeting.server)

    run = client.get_prompt("flow", meta={"progressToken": 1})

    assert run.statuses == ["completed"] * 4
    assert meeting.calls[-1] == "last"
    progress = [params["progress"] for params in run.notifications if "progress" in params]
    assert progress == [1, 2, 3, 4]
    log_texts = [params["data"] for params in run.notifications if "data" in params]
    assert sorted(log_texts) == ["a waits", "b waits", "c waits"]


@pytest.mark.parametrize(
    "stopped", [work("stopped"), Wait("stopped", callback=Callback(str, timedelta(hours=1)))], ids=["fails", "waits"]
)
def test_each_step_is_announced_once_also_after_one_that_has_stopped(make_client: MakeClient, stopped: Step) -> None:
    meeting = Meeting()
    meeting.errors["stopped"] = 1
    meeting.add(stopped, meet("a"), meet("b"), parallel=2)

    run = make_client(meeting.server).get_prompt("flow", meta={"progressToken": 1})

    assert run.statuses[1:] == ["completed"] * 2
    messages = [params["message"] for params in run.notifications if "message" in params]
    assert messages == ["Step 1/3: stopped", "Step 2/3: a", "Step 3/3: b"]


def test_at_most_as_many_steps_run_at_the_same_time_as_the_workflow_allows() -> None:
    running_count, maximum, lock, three = 0, 0, threading.Lock(), threading.Barrier(3, timeout=BOUND_S)
    server = Server("s")

    @server.tool
    def count() -> None:
        """Count the running calls."""
        nonlocal running_count, maximum
        with lock:
            running_count += 1
            maximum = max(maximum, running_count)
        three.wait()
        threading.Event().wait(0.01)  # so that a fourth call would be counted
        with lock:
            running_count -= 1

    steps = [ToolStep(f"s{number}", tool="count") for number in range(12)]
    server.add_workflow(Workflow(name="flow", description="run", steps=steps, parallel=3))
    with connect(server) as client:
        assert client.call_workflow("flow").completed

    assert maximum == 3


@pytest.mark.parametrize("use", ["or_default", "condition", "each"])
def test_a_step_waits_only_for_the_tools_that_declare_its_variable(use: str) -> None:
    server = Server("s")
    calls: list[str] = []

    @server.tool(sets=["found"])
    def find(ctx: Context) -> str:
        assert ctx.task is not None
        ctx.task["found"] = [1]
        return "found"

    @server.tool
    def fail() -> None:
        raise ToolError("down")

    @server.tool
    def read(values: Any) -> str:
        calls.append(str(values))
        return "read"

    @server.workflow(parallel=3)
    def flow() -> None:
        """Read what was found."""
        found = task_variable("found")
        step("find")()
        step("fail")()
        match use:
            case "or_default":
                step("read")(values=or_default(found, 4))
            case "condition":
                step("read", when=exists(found))(values="there")
            case _:
                step("read", each=found)(values=item())

    with connect(server, owner="kim") as client:
        client.call_workflow("flow")

    assert calls == [{"or_default": "[1]", "condition": "there", "each": "1"}[use]]


def test_calls_at_the_same_time_share_the_limit_on_variables() -> None:
    barrier, errors = threading.Barrier(2, timeout=BOUND_S), list[str]()
    server = Server("s")

    @server.tool
    def fill(ctx: Context, name: str) -> None:
        """Set many variables."""
        barrier.wait()
        for number in range(30):
            try:
                ctx.task[f"{name}{number}"] = number  # type: ignore[index]
            except ValueError as error:
                errors.append(str(error))

    steps = [ToolStep(name, {"name": constant(name)}, tool="fill") for name in ("a", "b")]
    server.add_workflow(Workflow(name="flow", description="run", steps=steps, parallel=2))
    with connect(server) as client:
        run = client.call_workflow("flow")
        variables = client.task(run.task_id).variables

    assert run.completed
    assert len(errors) == 60 - MAX_VARIABLES_CHANGED
    assert sum(not name.startswith("_workflow.") for name in variables) == MAX_VARIABLES_CHANGED


def test_a_run_starts_no_more_steps_after_its_task_was_cancelled(make_client: MakeClient, table: Table) -> None:
    meeting = Meeting()
    clients: list[Client] = []

    @meeting.server.tool
    def cancel() -> None:
        clients[0].task("cancel", table.items[0]["sk"]["S"].removeprefix("TASK#"))

    last_step = work("last", after_steps=("cancel",))
    meeting.add(ToolStep("cancel", tool="cancel", checkpoint=True), work("a"), last_step, parallel=2)
    clients.append(make_client(meeting.server))

    run = clients[0].get_prompt("flow")

    assert "The task was cancelled while this run was under way." in run.handoff
    assert "last" not in meeting.calls


def test_the_claim_is_renewed_while_calls_run_in_other_threads(make_client: MakeClient, table: Table) -> None:
    meeting = Meeting()
    now_ms = 1_800_000_000_000
    extensions: list[int] = []

    def now() -> int:
        return now_ms

    def advance() -> None:
        nonlocal now_ms
        now_ms += RENEW_MS
        claim_renewed.wait(BOUND_S)

    claim_renewed = threading.Event()

    def watch(ctx: Context) -> None:
        """Wait until the claim is renewed."""
        end = table.items[0]["run"]["M"]["until"]["N"]
        clock_thread = threading.Thread(target=advance)
        clock_thread.start()
        while table.items[0]["run"]["M"]["until"]["N"] == end:
            ctx.log("info", "the request's thread renews the claim when it delivers this")
        extensions.append(int(table.items[0]["run"]["M"]["until"]["N"]) - int(end))
        claim_renewed.set()

    meeting.server.tool(watch)
    meeting.add(ToolStep("watch", tool="watch"), work("a"), parallel=2)
    client = make_client(meeting.server, now_ms=now)

    assert client.get_prompt("flow").statuses == ["completed", "completed"]
    assert extensions == [RENEW_MS]


def test_a_run_of_parallel_steps_costs_one_request_at_each_end(make_client: MakeClient, requests: Requests) -> None:
    meeting = Meeting()
    meeting.add(*(work(f"s{number}") for number in range(8)))
    client = make_client(meeting.server)

    client.get_prompt("flow")

    assert requests.take() == ["PutItem", "UpdateItem"]


def test_a_worker_runs_steps_and_elements_at_the_same_time() -> None:
    meeting = Meeting(2)
    list_step = ListStep(
        "listed", {"name": item()}, tool="meet", each=constant(["c", "d"]), parallel=2, after=("a", "b")
    )
    steps = [meet("a"), meet("b"), list_step]
    meeting.server.add_workflow(Workflow(name="later", description="run", steps=steps, parallel=2, background=True))
    with connect(meeting.server) as client:
        state = client.start_task("later").wait()

    assert state.result.structured is not None
    assert state.result.structured["steps"] == [{"name": name, "status": "completed"} for name in ("a", "b", "listed")]
    assert sorted(meeting.calls) == ["a", "b", "c", "d"]


def test_a_pause_lists_questions_whose_values_other_steps_have_given_meanwhile() -> None:
    server, asked = Server("s"), threading.Event()

    @server.tool
    def find(key: str) -> str:
        return key

    @server.tool
    def use(first: str, second: str) -> str:
        return first + second

    @server.workflow(parallel=2)
    def flow(key: str) -> None:
        found = step(find)(key=key)
        first = ask_user("first", "What comes first?")
        second = ask_user("second", "What comes after {found}?", found=found)
        step(use)(first=first, second=second)

    with connect(server) as client:
        client.answers(None)
        client.during("find", lambda: asked.wait(0.2))
        run = client.call_workflow("flow", {"key": "A"})
        reason: Any = run.meta["pause_reason"]
        assert [question["name"] for question in reason["questions"]] == ["first", "second"]


@pytest.mark.parametrize("parallel", [1, 8])
def test_a_step_that_cannot_continue_blocks_only_the_steps_that_need_it(parallel: int) -> None:
    meeting = Meeting()
    meeting.errors = {"b": 1, "c": 1}
    meeting.add(work("a"), work("b"), work("of_b", "b"), work("c"), work("of_a", "a"), parallel=parallel)
    with connect(meeting.server) as client:
        run = client.call_workflow("flow")
        second_run = client.call_workflow("flow", task=run.task_id)

    expected = {"a": "completed", "b": "failed", "of_b": "pending", "c": "failed", "of_a": "completed"}
    sequential = {"a": "completed", "b": "failed", "of_b": "pending", "c": "pending", "of_a": "pending"}
    assert run.steps == (sequential if parallel == 1 else expected)
    assert (run.pause.type, run.pause.step) == ("toolError", "b")
    assert second_run.completed == (parallel == 8)
