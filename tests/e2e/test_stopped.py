"""A run whose task is over stops: it looks, light and seldom, and says what has become of the task."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from mcp_baton import Context, Server, Step, ToolError, Workflow
from mcp_baton.aws import dynamodb_store
from mcp_baton.server.endpoint import Endpoint
from mcp_baton.settings import Settings
from mcp_baton.telemetry import STEPS_RUN, Collector
from mcp_baton.transport.adapter import LambdaAdapter
from tests.e2e.conftest import MakeClient, Requests, Streaming
from tests.e2e.support import BOUND_S, Client, Era, Sink, Table

LISTENING = {"progressToken": "t"}
STEPS = ("one", "two", "three")


@dataclass(slots=True)
class Course:
    """What happens as a run goes on.

    Attributes:
        during: What happens, once, while a step runs.
        takes_s: How long a step takes, seconds.
        s: The time, seconds.
        ran: The steps that ran.
    """

    during: dict[str, Callable[[], object]] = field(default_factory=dict)
    takes_s: dict[str, float] = field(default_factory=dict)
    s: float = 0.0
    ran: list[str] = field(default_factory=list)

    def clock(self) -> float:
        """The time, seconds."""
        return self.s

    def run(self, step: str) -> str:
        """A step."""
        self.ran.append(step)
        self.s += self.takes_s.get(step, 0.0)
        self.during.pop(step, lambda: None)()
        return step


def three_steps(course: Course, *checkpoints: str, fails: str = "", durable: bool = True) -> Server:
    server = Server("s")
    for name in STEPS:

        @server.tool(name=name)
        def work(ctx: Context, name: str = name) -> str:
            done = course.run(name)
            if name == fails:
                raise ToolError("no")
            return done

    steps = [Step(name, tool=name, checkpoint=name in checkpoints) for name in STEPS]
    server.add_workflow(Workflow(name="flow", description="count", steps=steps, durable=durable))
    return server


def task_in(table: Table) -> str:
    [item] = table.items
    return item["sk"]["S"].removeprefix("TASK#")


def ending(client: Client, table: Table, how: str) -> Callable[[], object]:
    """What ends the only task in the table."""

    def end() -> None:
        match how:
            case "cancelled":
                client.task("cancel", task_in(table))
            case "completed":
                client.task("cancel", task_in(table), result={"by": "me"})
            case "deleted":
                table.delete(task_in(table))
            case _:
                table.expire(task_in(table))

    return end


EVENTS = {
    "cancelled": "The task was cancelled",
    "completed": "The task was completed by somebody else",
    "deleted": "The task expired or was deleted",
    "expired": "The task expired or was deleted",
}


@pytest.mark.parametrize("how", EVENTS)
def test_a_run_whose_task_is_ended_during_a_step_does_not_run_the_next(
    make_client: MakeClient, era: Era, table: Table, how: str
) -> None:
    course = Course(takes_s={"two": 2.0})
    client = make_client(three_steps(course), era=era, clock=course.clock)
    course.during["two"] = ending(client, table, how)
    answer = client.get_prompt("flow")
    assert course.ran == ["one", "two"]
    assert answer.handoff == (
        f"{EVENTS[how]} while this run was under way. Step 'two' ran last. These steps were not run: 'three'."
    )
    assert answer.meta["persisted"] is False
    assert answer.statuses == ["completed", "completed", "pending"]
    assert answer.meta.get("task_status") == (how if how in ("cancelled", "completed") else None)
    assert "pause_reason" not in answer.meta
    if how in ("cancelled", "completed"):
        assert table.statuses == [how]


@pytest.mark.parametrize("how", EVENTS)
def test_a_checkpoint_that_the_task_refuses_stops_the_run(
    make_client: MakeClient, era: Era, table: Table, how: str
) -> None:
    course = Course()
    client = make_client(three_steps(course, "two"), era=era, clock=course.clock)
    course.during["two"] = ending(client, table, how)
    answer = client.get_prompt("flow")
    assert course.ran == ["one", "two"]
    assert answer.handoff.startswith(f"{EVENTS[how]} while this run was under way. Step 'two' ran last.")
    assert answer.meta["persisted"] is False


def test_what_a_checkpoint_has_kept_is_not_said_to_be_lost(
    make_client: MakeClient, requests: Requests, table: Table
) -> None:
    course = Course()

    def remaining_ms() -> int:
        """Two seconds after the checkpoint the task is cancelled."""
        if "UpdateItem" in requests.take():
            course.s += 2.0
            ending(client, table, "cancelled")()
            requests.take()
        return 30_000

    client = make_client(three_steps(course, "one"), clock=course.clock, remaining_ms=remaining_ms)
    answer = client.get_prompt("flow")
    assert course.ran == ["one"]
    assert (answer.meta["task_status"], answer.statuses) == ("cancelled", ["completed", "pending", "pending"])
    assert "persisted" not in answer.meta
    assert client.variables(answer.task_id)["_workflow.result.one"] == "one"


def test_a_run_that_is_cancelled_in_its_last_step_hands_nothing_off(make_client: MakeClient, table: Table) -> None:
    course = Course()
    client = make_client(three_steps(course, fails="two"), clock=course.clock)
    course.during["two"] = ending(client, table, "cancelled")
    answer = client.get_prompt("flow")
    assert answer.meta["task_status"] == "cancelled"
    assert "make these tool calls" not in answer.body
    assert answer.handoff == (
        "The task was cancelled while this run was under way. Step 'two' ran last. These steps were not run: 'three'."
    )


@pytest.mark.parametrize("takes_s", [0.0, 2.0], ids=["at its end", "before a step"])
def test_a_run_that_was_stopped_is_no_run_that_completed_paused_or_was_lost(
    make_client: MakeClient, table: Table, takes_s: float
) -> None:
    course, collector = Course(takes_s={"two": takes_s}), Collector()
    settings = Settings(table=table.name)
    endpoint = Endpoint(
        three_steps(course),
        store=dynamodb_store(table.name, settings, connect=lambda: table.client),
        settings=settings,
        telemetry=collector,
        clock=course.clock,
    )
    course.during["two"] = ending(make_client(Server("other")), table, "cancelled")
    answer = Client(LambdaAdapter(endpoint, allow_anonymous=False, streaming=False)).get_prompt("flow")
    assert answer.meta["task_status"] == "cancelled"
    noted = [(measured.metric, measured.value) for measured in collector.take().measurements]
    assert noted == [(STEPS_RUN, len(course.ran))]


def test_a_resumed_run_stops_too(make_client: MakeClient, table: Table) -> None:
    course = Course()
    server = three_steps(course)
    client = make_client(server, clock=course.clock)
    without_time = make_client(server, clock=course.clock, remaining_ms=lambda: 0)
    task = without_time.get_prompt("flow").task_id
    course.takes_s = {"one": 3.0}
    course.during["one"] = ending(client, table, "cancelled")
    answer = client.get_prompt("flow", task=task)
    assert course.ran == ["one"]
    assert answer.meta["task_status"] == "cancelled"


@pytest.mark.parametrize(("takes_s", "looks"), [(1.9, 0), (2.0, 1)])
def test_a_run_of_less_than_two_seconds_does_not_look(
    make_client: MakeClient, requests: Requests, takes_s: float, looks: int
) -> None:
    course = Course(takes_s={"one": takes_s})
    client = make_client(three_steps(course), clock=course.clock)
    client.get_prompt("flow")
    assert course.ran == [*STEPS]
    assert requests.take() == ["PutItem", *["GetItem"] * looks, "UpdateItem"]


def test_the_progress_of_a_run_without_a_task_names_none(make_client: MakeClient, streaming: Streaming) -> None:
    sink, client = Sink(), make_client(three_steps(Course(), durable=False))
    streaming(sink, lambda: client.get_prompt("flow", meta=LISTENING)).result(BOUND_S)
    assert [("_meta" in sink.next_told()) for _ in STEPS] == [False] * 3


def test_the_first_progress_of_a_resume_names_its_task(make_client: MakeClient, streaming: Streaming) -> None:
    course, sink = Course(), Sink()
    server = three_steps(course, fails="two")
    client = make_client(server)
    task = client.get_prompt("flow").task_id
    streaming(sink, lambda: client.get_prompt("flow", task=task, meta=LISTENING)).result(BOUND_S)
    told = sink.next_told()
    assert (told["message"], told["_meta"]) == ("Step 2/3: two", {"task_id": task})
