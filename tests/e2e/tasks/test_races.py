"""Many at once: nothing is lost, no status goes back, nothing leaves an end (docs/workflows.md, docs/storage.md)."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from threading import Barrier, Event
from typing import Any

import pytest

from mcp_baton import Server, Step, Workflow, constant
from mcp_baton.tasks.dynamodb.attributes import Item
from mcp_baton.tasks.dynamodb.table import TaskTable
from tests.e2e.conftest import ON_MINISTACK, MakeClient
from tests.e2e.support import BOUND_S, Answer, Client, Clock, Table, begin

ROUNDS = 5
STEPS = 6


def step_statuses(item: Item) -> list[str]:
    return [step["M"]["status"]["S"] for step in item["variables"]["M"]["_workflow.progress"]["M"]["steps"]["L"]]


def step_results(client: Client, task: str) -> dict[str, Any]:
    prefix = "_workflow.result."
    variables = client.variables(task)
    return {name.removeprefix(prefix): value for name, value in variables.items() if name.startswith(prefix)}


def tools_server() -> Server:
    """Each step has a tool of its own, which says the text that it is given."""
    server, steps = Server("tools"), list[Step]()

    def say(text: str) -> str:
        return text

    for number in range(STEPS):
        server.tool(name=f"t{number}")(say)
        steps.append(Step(f"s{number}", tool=f"t{number}", arguments={"text": constant("engine")}))
    server.add_workflow(Workflow(name="flow", description="talk", steps=steps))
    return server


@dataclass(frozen=True, slots=True)
class Race:
    """Calls at the same moment about one task after the other, of none of which a step has run."""

    client: Client
    clock: Clock
    table: Table
    pool: ThreadPoolExecutor

    def run(self, calls: Callable[[str], list[Callable[[], Answer]]]) -> Iterator[tuple[str, Item, list[Answer]]]:
        """Each task, what is stored of it after its calls, and their answers."""
        for _ in range(ROUNDS):
            task = begin(self.client, self.clock)
            with self._watching(task):
                answers = self._together(calls(task))
            yield task, self.table.item(task), answers

    def calls_of_every_tool(self, task: str) -> list[Callable[[], Answer]]:
        return [partial(self.client.call_tool, f"t{n}", {"text": f"client {n}"}, task=task) for n in range(STEPS)]

    def _together(self, calls: list[Callable[[], Answer]]) -> list[Answer]:
        start = Barrier(len(calls), timeout=BOUND_S)

        def make(call: Callable[[], Answer]) -> Answer:
            start.wait()
            return call()

        return list(self.pool.map(make, calls))

    @contextmanager
    def _watching(self, task: str) -> Iterator[None]:
        """Look at the task over and over, and fail if ever a completed step or a terminal task is so no more."""
        over = Event()

        def watch() -> list[Item]:
            seen = [self.table.item(task)]
            while not over.wait(0.005):
                seen.append(self.table.item(task))
            return [*seen, self.table.item(task)]

        looking = self.pool.submit(watch)
        try:
            yield
        finally:
            over.set()
        for earlier, later in pairwise(looking.result(BOUND_S)):
            assert int(earlier["version"]["N"]) <= int(later["version"]["N"])
            pairs = zip(step_statuses(earlier), step_statuses(later), strict=True)
            assert all(after == "completed" for before, after in pairs if before == "completed")
            assert earlier["status"] == {"S": "working"} or earlier == later


@pytest.fixture
def race(make_client: MakeClient, table: Table) -> Iterator[Race]:
    clock = Clock()
    with ThreadPoolExecutor(STEPS + 2) as pool:
        yield Race(make_client(tools_server(), remaining_ms=clock), clock, table, pool)


@ON_MINISTACK
def test_calls_of_different_steps_and_a_resume_at_once_all_stand(race: Race) -> None:
    resume = partial(race.client.get_prompt, "flow")
    for task, item, (resumed, *called) in race.run(
        lambda task: [partial(resume, task=task), *race.calls_of_every_tool(task)]
    ):
        assert item["status"] == {"S": "completed"}
        assert step_statuses(item) == ["completed"] * STEPS
        results = step_results(race.client, task)
        assert all(value in {"engine", f"client {name[1:]}"} for name, value in results.items())
        assert resumed.meta["task_status"] == "completed"
        assert "persisted" not in resumed.meta
        # A call that came too late was told so; one that was recorded was either overwritten by the run or stands.
        for answer in called:
            assert answer.meta["recorded"] or answer.meta["task_status"] == "completed"


@ON_MINISTACK
def test_two_resumes_at_once_complete_the_task_once(race: Race) -> None:
    resume = partial(race.client.get_prompt, "flow")
    for _, item, answers in race.run(lambda task: [partial(resume, task=task)] * 2):
        assert item["status"] == {"S": "completed"}
        # Created, paused, and completed by one of the two: the other changed nothing.
        assert item["version"] == {"N": "3"}
        replies = [answer for answer in answers if "result" in answer.messages[0]]
        assert sum("persisted" not in answer.meta for answer in replies) == 1
        assert all(answer.meta["task_status"] == "completed" for answer in replies)
        # The other found the task held, or over.
        assert all(answer.error["code"] in {-32600, -32602} for answer in answers if answer not in replies)


@ON_MINISTACK
def test_a_call_is_recorded_before_the_task_is_cancelled_or_not_at_all(race: Race) -> None:
    cancel = partial(race.client.task, "cancel")
    for task, item, (cancelled, *called) in race.run(
        lambda task: [partial(cancel, task), *race.calls_of_every_tool(task)]
    ):
        assert cancelled.result["status"] == "cancelled"
        assert item["status"] == {"S": "cancelled"}
        recorded = {f"s{n}": f"client {n}" for n, answer in enumerate(called) if answer.meta["recorded"]}
        assert step_results(race.client, task) == recorded
        refused = [answer for answer in called if not answer.meta["recorded"]]
        assert all(answer.meta["task_status"] == "cancelled" for answer in refused)


MANY = 32
REQUESTS = 150


@pytest.mark.parametrize("text", ["as planned", "otherwise {}"])
def test_many_calls_of_one_tool_at_once_take_few_requests(
    make_client: MakeClient, table: Table, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    all_have_read, requests = Barrier(MANY, timeout=BOUND_S), list[str]()
    server = Server("many")

    @server.tool
    def work(text: str) -> str:
        all_have_read.wait()
        return text

    steps = [Step(f"s{number}", tool="work", arguments={"text": constant("as planned")}) for number in range(MANY)]
    server.add_workflow(Workflow(name="flow", description="work", steps=steps))
    clock = Clock()
    client = make_client(server, remaining_ms=clock)
    task = begin(client, clock)
    for name in ("get", "update"):
        monkeypatch.setattr(TaskTable, name, counted(getattr(TaskTable, name), requests))

    with ThreadPoolExecutor(MANY) as pool:
        texts = [text.format(number) for number in range(MANY)]
        answers = list(pool.map(lambda said: client.call_tool("work", {"text": said}, task=task), texts))

    assert len(requests) < REQUESTS
    assert [answer.meta["recorded"] for answer in answers] == [True] * MANY
    item = table.item(task)
    assert step_statuses(item) == ["completed"] * MANY
    assert sorted(step_results(client, task).values()) == sorted(texts)
    # One write to create it, one for the pause, one a call: none was repeated, and none undone.
    assert item["version"] == {"N": str(2 + MANY)}


def counted[**Given, Value](function: Callable[Given, Value], requests: list[str]) -> Callable[Given, Value]:
    """A function of the table's that notes each request."""

    def noting(*args: Given.args, **kwargs: Given.kwargs) -> Value:
        requests.append(function.__name__)
        return function(*args, **kwargs)

    return noting
