"""One run at a time: no two resumes run a step twice, and a run that was killed is taken over (docs/workflows.md)."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Barrier, Lock
from typing import Any

import pytest

from mcp_baton import Server, Step, ToolError, Workflow
from mcp_baton.tasks.record import LEASE_MS, timestamp
from mcp_baton.testing import JsonRpcError, connect
from tests.e2e.background import Time
from tests.e2e.conftest import ON_MINISTACK, MakeClient
from tests.e2e.support import Answer, Table
from tests.sent import Requests

STEPS = ("one", "two", "three")


@dataclass(slots=True)
class Course:
    """What happens as a run goes on.

    Attributes:
        during: What happens, once, while a step runs.
        errors: Steps that fail.
        ran: The steps that ran, in order.
    """

    during: dict[str, Callable[[], object]] = field(default_factory=dict)
    errors: set[str] = field(default_factory=set)
    ran: list[str] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    def run(self, step: str) -> str:
        """A step."""
        with self._lock:
            self.ran.append(step)
        self.during.pop(step, lambda: None)()
        if step in self.errors:
            raise ToolError("no")
        return step

    def take(self) -> list[str]:
        """The steps that ran since the last look."""
        taken, self.ran = self.ran, []
        return taken


def three_steps(course: Course, *checkpoints: str) -> Server:
    server = Server("s", reply_budget_s=10_000)
    for name in STEPS:

        @server.tool(name=name)
        def work(name: str = name) -> str:
            return course.run(name)

    steps = [Step(name, tool=name, checkpoint=name in checkpoints) for name in STEPS]
    server.add_workflow(Workflow(name="flow", description="count", steps=steps))
    return server


def task_in(table: Table) -> str:
    [item] = table.items
    return item["sk"]["S"].removeprefix("TASK#")


def paused_at_one(course: Course, client: Any) -> str:
    course.errors = {"one"}
    task: str = client.get_prompt("flow").task_id
    course.errors = set()
    course.take()
    return task


@ON_MINISTACK
def test_two_resumes_at_once_run_no_step_twice(make_client: MakeClient, table: Table) -> None:
    course = Course()
    client = make_client(three_steps(course))
    with ThreadPoolExecutor(3) as pool:
        for _ in range(12):
            task, barrier = paused_at_one(course, client), Barrier(3)

            def resume(_: int, task: str = task, barrier: Barrier = barrier) -> Answer:
                barrier.wait(60)
                return client.get_prompt("flow", task=task)

            answers = list(pool.map(resume, range(3)))
            assert course.take() == [*STEPS]
            assert table.item(task)["status"]["S"] == "completed"
            assert sum("result" in answer.messages[-1] for answer in answers) == 1
            refused = [answer.error for answer in answers if "error" in answer.messages[-1]]
            assert {error["code"] for error in refused} <= {-32600, -32602}


def test_a_resume_of_a_task_that_a_run_holds_runs_nothing_and_says_until_when(
    make_client: MakeClient, table: Table
) -> None:
    course, wall, refused = Course(), Time(), list[Answer]()
    client = make_client(three_steps(course), now_ms=wall.now_ms, remaining_ms=lambda: 600_000)
    course.during["two"] = lambda: refused.append(client.get_prompt("flow", task=task_in(table)))
    assert client.get_prompt("flow").statuses == ["completed"] * 3
    assert course.ran == [*STEPS]
    [answer] = refused
    assert answer.error["code"] == -32600
    data = answer.error["data"]
    assert (data["status"], data["runningUntil"]) == ("working", timestamp(wall.ms + LEASE_MS))
    assert [step["status"] for step in data["progress"]["steps"]] == ["pending"] * 3


def test_a_claim_ends_with_the_function_at_the_latest(make_client: MakeClient, table: Table) -> None:
    course, wall = Course(), Time()
    client = make_client(three_steps(course), now_ms=wall.now_ms, remaining_ms=lambda: 20_000)
    seen: list[str] = []
    course.during["one"] = lambda: seen.append(table.item(task_in(table))["run"]["M"]["u"]["N"])
    client.get_prompt("flow")
    assert seen == [str(wall.ms + 20_000)]


def test_a_run_that_ends_gives_its_claim_up(make_client: MakeClient, table: Table) -> None:
    course = Course()
    client = make_client(three_steps(course))
    task = paused_at_one(course, client)
    assert table.item(task)["run"]["M"]["u"]["N"] == "0"
    assert client.get_prompt("flow", task=task).statuses == ["completed"] * 3


def test_a_run_that_was_taken_over_stops_and_says_so(make_client: MakeClient, table: Table) -> None:
    """The function stood still for longer than its claim lasts."""
    course, wall, other = Course(), Time(), list[Answer]()
    server = three_steps(course)
    times: dict[str, Any] = {"now_ms": wall.now_ms, "remaining_ms": lambda: 600_000}
    late = make_client(server, clock=wall.monotonic, **times)
    client = make_client(server, **times)

    def stall() -> None:
        wall.pass_s(LEASE_MS / 1000 + 1)
        other.append(client.get_prompt("flow", task=task_in(table)))

    course.during["two"] = stall
    answer = late.get_prompt("flow")
    assert course.ran == ["one", "two", "one", "two", "three"]
    assert other[0].statuses == ["completed"] * 3
    assert table.statuses == ["completed"]
    assert answer.meta["persisted"] is False
    assert "superseded" in answer.handoff or answer.meta["task_status"] == "completed"


@pytest.mark.parametrize("at", ["a step", "its end", "a checkpoint"])
def test_a_late_run_whose_task_another_one_holds_is_superseded(make_client: MakeClient, table: Table, at: str) -> None:
    course, wall = Course(), Time()
    server = three_steps(course, *(["two"] if at == "a checkpoint" else []))
    times: dict[str, Any] = {"now_ms": wall.now_ms, "remaining_ms": lambda: 600_000}
    late, client = make_client(server, clock=wall.monotonic, **times), make_client(server, **times)
    during = "three" if at == "its end" else "two"

    def stall() -> None:
        """Another run takes over, and fails at the first step."""
        wall.pass_s(LEASE_MS / 1000 + 1)
        course.errors = {"one"}
        client.get_prompt("flow", task=task_in(table))
        course.errors = set()

    course.during[during] = stall
    answer = late.get_prompt("flow")
    assert answer.meta["superseded"] is True
    assert answer.meta["persisted"] is False
    assert answer.handoff.startswith("This run was superseded: it was late, and another run has taken the task over.")
    assert course.ran == [*STEPS[: 3 if at == "its end" else 2], "one"]
    stored = client.variables(task_in(table))
    assert "_workflow.result.two" not in stored
    assert stored["_workflow.pause_reason"]["failedStep"] == "one"


def test_a_run_renews_its_claim_before_a_step_when_it_is_time_to(
    make_client: MakeClient, table: Table, requests: Requests
) -> None:
    course, wall = Course(), Time()
    client = make_client(three_steps(course), now_ms=wall.now_ms, clock=wall.monotonic, remaining_ms=lambda: 600_000)
    course.during["one"] = lambda: wall.pass_s(15)
    course.during["two"] = lambda: wall.pass_s(LEASE_MS / 1000 + 20)
    answer = client.get_prompt("flow")
    assert requests.take() == ["PutItem", "UpdateItem", "UpdateItem", "UpdateItem"]
    assert (answer.statuses, table.statuses) == (["completed"] * 3, ["completed"])


def test_a_run_that_cannot_renew_its_claim_begins_no_further_step(
    make_client: MakeClient, table: Table, requests: Requests
) -> None:
    course, wall = Course(), Time()
    client = make_client(three_steps(course), now_ms=wall.now_ms, clock=wall.monotonic, remaining_ms=lambda: 600_000)
    events = table.client.meta.events

    def cut() -> None:
        wall.pass_s(LEASE_MS / 1000 - 4)
        events.register_last("before-call.dynamodb.UpdateItem", fail)

    from botocore.exceptions import EndpointConnectionError

    def fail(params: dict[str, Any], **_: object) -> None:
        # However often it is tried: a write that is not of the claim alone counts the version.
        if b"version" not in params["body"]:
            raise EndpointConnectionError(endpoint_url="")

    course.during["one"] = cut
    answer = client.get_prompt("flow")
    events.unregister("before-call.dynamodb.UpdateItem", fail)
    assert course.ran == ["one"]
    assert answer.meta["pause_reason"]["type"] == "deadlineExceeded"
    assert answer.statuses == ["completed", "pending", "pending"]
    assert "persisted" not in answer.meta


@pytest.mark.parametrize("paused_before", [False, True])
def test_a_run_that_was_killed_is_interrupted_once_its_claim_has_run_out_and_then_taken_over(
    paused_before: bool,
) -> None:
    course = Course()
    with connect(three_steps(course)) as client:
        course.errors = {"one"} if paused_before else set()
        if paused_before:
            task = client.get_prompt("flow").task_id
            course.errors = set()
        with client.killed_after("two"):
            client.get_prompt("flow", task=task if paused_before else None)
        [listed] = client.tasks()
        task = listed.task_id
        # While the claim lasts nobody can know that the run is dead, and an older pause says nothing of it.
        assert "_workflow.pause_reason" not in client.task(task).variables
        with pytest.raises(JsonRpcError) as held:
            client.get_prompt("flow", task=task)
        assert held.value.code == -32600
        client.clock.advance(LEASE_MS / 1000 + 1)
        reason = {"type": "interrupted", "blockedStep": "one", "suggestedTool": "one"}
        assert client.task(task).variables["_workflow.pause_reason"] == reason
        told = client.call_tool("one", task=task)
        assert told.recorded
        assert told.meta["pause_reason"] == {**reason, "blockedStep": "two", "suggestedTool": "two"}
        course.take()
        run = client.get_prompt("flow", task=task)
        assert (run.completed, course.ran) == (True, ["two", "three"])


def test_a_task_that_was_interrupted_and_whose_steps_calls_have_settled_is_not_interrupted() -> None:
    course = Course()
    with connect(three_steps(course)) as client:
        with client.killed_after("two"):
            client.get_prompt("flow")
        [task] = client.tasks()
        client.clock.advance(LEASE_MS / 1000 + 1)
        metas = [client.call_tool(name, task=task.task_id).meta for name in STEPS]
        assert ["pause_reason" in meta for meta in metas] == [True, True, False]
        assert "_workflow.pause_reason" not in client.task(task.task_id).variables


def test_a_call_with_a_task_is_not_held_up_by_the_run_that_holds_it(make_client: MakeClient, table: Table) -> None:
    course, called = Course(), list[Answer]()
    client = make_client(three_steps(course))
    course.during["one"] = lambda: called.append(client.call_tool("two", task=task_in(table)))
    assert client.get_prompt("flow").statuses == ["completed"] * 3
    assert called[0].meta["recorded"] is True
    assert "pause_reason" not in called[0].meta
