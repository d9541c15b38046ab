"""Many at once: nothing is lost, no status goes back, nothing leaves an end (docs/workflows.md, docs/storage.md)."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import pytest

from mcp_baton import Server, Step, ToolError, Workflow, constant
from mcp_baton.tasks.dynamodb.attributes import Item
from mcp_baton.tasks.dynamodb.table import TaskTable
from tests.e2e.conftest import ON_MINISTACK, Engine, MakeClient
from tests.e2e.race_worker import STEPS, steps_server
from tests.e2e.support import BOUND_S, Answer, Client, Clock, Table, begin

ROUNDS = 10
FEWER_ROUNDS = 5
PROCESSES = 4
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def pool() -> Iterator[ThreadPoolExecutor]:
    """Threads for as many calls as any test here makes at once, and a watcher."""
    with ThreadPoolExecutor(STEPS + 1) as made:
        yield made


def together(pool: ThreadPoolExecutor, calls: Sequence[Callable[[], Answer]]) -> list[Answer]:
    """Make these calls at the same moment."""
    start = Barrier(len(calls), timeout=BOUND_S)

    def make(call: Callable[[], Answer]) -> Answer:
        start.wait()
        return call()

    return list(pool.map(make, calls))


def step_statuses(item: Item) -> list[str]:
    return [step["M"]["status"]["S"] for step in item["variables"]["M"]["_workflow.progress"]["M"]["steps"]["L"]]


def step_results(client: Client, task: str) -> dict[str, Any]:
    prefix = "_workflow.result."
    variables = client.variables(task)
    return {name.removeprefix(prefix): value for name, value in variables.items() if name.startswith(prefix)}


def assert_all_recorded(client: Client, table: Table, task: str, texts: list[str], recorded: list[bool]) -> None:
    """Sixteen calls, sixteen completed steps, sixteen results, sixteen writes."""
    assert recorded == [True] * STEPS
    item = table.item(task)
    assert step_statuses(item) == ["completed"] * STEPS
    assert sorted(step_results(client, task).values()) == sorted(texts)
    # One write to create it, one for the pause, one a call: none was repeated, and none undone.
    assert item["version"] == {"N": str(2 + STEPS)}
    assert item["status"] == {"S": "working"}


@contextmanager
def worker(url: str, table: str) -> "Iterator[subprocess.Popen[str]]":
    """A process that makes calls when it is told to."""
    command = [sys.executable, "-m", "tests.e2e.race_worker", url, table]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def order(process: "subprocess.Popen[str]", task: str, texts: list[str]) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps({"task": task, "texts": texts}) + "\n")
    process.stdin.flush()


def line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline()


@ON_MINISTACK
def test_sixteen_calls_from_several_processes_complete_sixteen_steps(
    make_client: MakeClient, engine: Engine, table: Table
) -> None:
    clock = Clock()
    client = make_client(steps_server(), remaining_ms=clock)
    assert engine.url is not None
    with ExitStack() as stack:
        processes = [stack.enter_context(worker(engine.url, table.name)) for _ in range(PROCESSES)]
        assert [line(process) for process in processes] == ["ready\n"] * PROCESSES
        for round_ in range(ROUNDS):
            task = begin(client, clock)
            texts = [f"{round_}/{number}" for number in range(STEPS)]
            for place, process in enumerate(processes):
                order(process, task, texts[place::PROCESSES])
            recorded = [flag for process in processes for flag in json.loads(line(process))]
            assert_all_recorded(client, table, task, texts, recorded)


def tools_server() -> Server:
    """Six steps, each with a tool of its own; the engine's text makes the first of them fail in `stumbling`."""
    server = Server("tools")

    def say(text: str) -> str:
        if text == "fail":
            raise ToolError("cannot say that")
        return text

    for number in range(6):
        server.tool(name=f"t{number}")(say)

    def steps(first: str) -> list[Step]:
        texts = [first, *["engine"] * 5]
        return [Step(f"s{n}", tool=f"t{n}", arguments={"text": constant(text)}) for n, text in enumerate(texts)]

    server.add_workflow(Workflow(name="flow", description="talk", steps=steps("engine")))
    server.add_workflow(Workflow(name="stumbling", description="talk", steps=steps("fail")))
    return server


def calls_of_every_tool(client: Client, task: str) -> list[Callable[[], Answer]]:
    return [partial(client.call_tool, f"t{n}", {"text": f"client {n}"}, task=task) for n in range(6)]


@contextmanager
def watching(pool: ThreadPoolExecutor, table: Table, task: str) -> Iterator[None]:
    """Look at the task over and over, and fail if ever a completed step or a terminal task is so no more."""
    over = Event()

    def watch() -> list[Item]:
        seen = [table.item(task)]
        while not over.wait(0.005):
            seen.append(table.item(task))
        return [*seen, table.item(task)]

    looking = pool.submit(watch)
    try:
        yield
    finally:
        over.set()
    seen = looking.result(BOUND_S)
    for earlier, later in pairwise(seen):
        assert int(earlier["version"]["N"]) <= int(later["version"]["N"])
        pairs = zip(step_statuses(earlier), step_statuses(later), strict=True)
        assert all(after == "completed" for before, after in pairs if before == "completed")
        assert earlier["status"] == {"S": "working"} or earlier == later


def rounds(
    client: Client, clock: Clock, table: Table, pool: ThreadPoolExecutor, workflow: str = "flow"
) -> Iterator[tuple[str, AbstractContextManager[None]]]:
    """A new task for each round, of which no step has run, and what watches it."""
    for _ in range(FEWER_ROUNDS):
        task = begin(client, clock, workflow)
        yield task, watching(pool, table, task)


@ON_MINISTACK
def test_calls_of_different_steps_and_a_resume_at_once_all_stand(
    make_client: MakeClient, table: Table, pool: ThreadPoolExecutor
) -> None:
    clock = Clock()
    client = make_client(tools_server(), remaining_ms=clock)
    for task, watched in rounds(client, clock, table, pool):
        with watched:
            resumed, *called = together(
                pool, [partial(client.get_prompt, "flow", task=task), *calls_of_every_tool(client, task)]
            )
        item = table.item(task)
        assert item["status"] == {"S": "completed"}
        assert step_statuses(item) == ["completed"] * 6
        results = step_results(client, task)
        assert all(value in {"engine", f"client {name[1:]}"} for name, value in results.items())
        assert resumed.meta["task_status"] == "completed"
        assert "persisted" not in resumed.meta
        # A call that came too late was told so; one that was recorded was either overwritten by the run or stands.
        for answer in called:
            assert answer.meta["recorded"] or answer.meta["task_status"] == "completed"


@ON_MINISTACK
def test_calls_of_different_steps_at_once_never_meet(
    make_client: MakeClient, table: Table, pool: ThreadPoolExecutor
) -> None:
    clock = Clock()
    client = make_client(tools_server(), remaining_ms=clock)
    for task, watched in rounds(client, clock, table, pool):
        with watched:
            answers = together(pool, calls_of_every_tool(client, task))
        assert all(answer.meta["recorded"] for answer in answers)
        assert step_results(client, task) == {f"s{number}": f"client {number}" for number in range(6)}
        assert "_workflow.pause_reason" not in client.variables(task)


@ON_MINISTACK
def test_a_resume_that_fails_does_not_undo_the_step_that_a_call_completes_meanwhile(
    make_client: MakeClient, table: Table, pool: ThreadPoolExecutor
) -> None:
    clock = Clock()
    client = make_client(tools_server(), remaining_ms=clock)
    for task, watched in rounds(client, clock, table, pool, "stumbling"):
        with watched:
            _, called = together(
                pool,
                [
                    partial(client.get_prompt, "stumbling", task=task),
                    partial(client.call_tool, "t0", {"text": "client"}, task=task),
                ],
            )
        assert called.meta["recorded"] is True
        assert step_statuses(table.item(task))[0] == "completed"
        variables = client.variables(task)
        assert variables["_workflow.result.s0"] == "client"
        assert "_workflow.pause_reason" not in variables


@ON_MINISTACK
def test_two_resumes_at_once_complete_the_task_once(
    make_client: MakeClient, table: Table, pool: ThreadPoolExecutor
) -> None:
    clock = Clock()
    client = make_client(tools_server(), remaining_ms=clock)
    for task, watched in rounds(client, clock, table, pool):
        with watched:
            answers = together(pool, [partial(client.get_prompt, "flow", task=task)] * 2)
        item = table.item(task)
        assert item["status"] == {"S": "completed"}
        # Created, paused, and completed by one of the two: the other changed nothing.
        assert item["version"] == {"N": "3"}
        replies = [answer for answer in answers if "result" in answer.messages[0]]
        assert sum("persisted" not in answer.meta for answer in replies) == 1
        assert all(answer.meta["task_status"] == "completed" for answer in replies)
        # The other found the task held, or over.
        assert all(answer.error["code"] in {-32600, -32602} for answer in answers if answer not in replies)


@ON_MINISTACK
def test_a_call_is_recorded_before_the_task_is_cancelled_or_not_at_all(
    make_client: MakeClient, table: Table, pool: ThreadPoolExecutor
) -> None:
    clock = Clock()
    client = make_client(steps_server(), remaining_ms=clock)
    for task, watched in rounds(client, clock, table, pool):
        with watched:
            cancelled, *called = together(
                pool,
                [
                    partial(client.task, "cancel", task),
                    *[partial(client.call_tool, "work", {"text": str(n)}, task=task) for n in range(8)],
                ],
            )
        assert cancelled.result["status"] == "cancelled"
        assert table.item(task)["status"] == {"S": "cancelled"}
        recorded = {str(number) for number, answer in enumerate(called) if answer.meta["recorded"]}
        assert set(step_results(client, task).values()) == recorded
        refused = [answer for answer in called if not answer.meta["recorded"]]
        assert all(answer.meta["task_status"] == "cancelled" for answer in refused)


@ON_MINISTACK
def test_of_cancelling_and_completing_at_once_exactly_one_happens(
    make_client: MakeClient, table: Table, pool: ThreadPoolExecutor
) -> None:
    clock = Clock()
    client = make_client(tools_server(), remaining_ms=clock)
    for task, watched in rounds(client, clock, table, pool):
        with watched:
            answers = together(
                pool, [partial(client.task, "cancel", task), partial(client.task, "cancel", task, result={"by": "me"})]
            )
        [won] = [answer for answer in answers if "result" in answer.messages[0]]
        [lost] = [answer for answer in answers if "error" in answer.messages[0]]
        assert lost.error["code"] == -32602
        assert table.item(task)["status"] == {"S": won.result["status"]}


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
        calls = [partial(client.call_tool, "work", {"text": text.format(n)}, task=task) for n in range(MANY)]
        answers = list(pool.map(lambda call: call(), calls))

    assert [answer.meta["recorded"] for answer in answers] == [True] * MANY
    assert step_statuses(table.item(task)) == ["completed"] * MANY
    assert len(requests) < REQUESTS


def counted[**Given, Value](function: Callable[Given, Value], requests: list[str]) -> Callable[Given, Value]:
    """A function of the table's that notes each request."""

    def noting(*args: Given.args, **kwargs: Given.kwargs) -> Value:
        requests.append(function.__name__)
        return function(*args, **kwargs)

    return noting
