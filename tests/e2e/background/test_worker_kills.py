"""Workers that are killed by signal 9, in processes of their own, over a DynamoDB that outlives them.

What an attempt does is in a journal that outlives it (`worker_functions/killed.py`). Whatever is killed and whenever:
every task ends once, what it ends with is of its last attempt, and what must not be repeated happens once at most.
"""

import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mcp_baton.local.dynamodb import http_client
from mcp_baton.local.workers.event_queue import Retries
from mcp_baton.local.workers.function import Launch
from mcp_baton.local.workers.pool import Policy, Pool
from mcp_baton.protocol.json import JsonObject
from tests.e2e.background.worker_functions import killed
from tests.e2e.support import about_task, proxy_event
from tests.fakes import FunctionContext
from tests.memory_dynamodb import MemoryDynamoDB, loopback_server

pytestmark = pytest.mark.first

BOUND_S = 60
WORKER = (sys.executable, killed.__file__)
LOOK_S = 0.1
KILLS = 200
AT_ONCE = 12
"""Tasks that go on at the same time: enough for four workers, who are each given one twice."""
MOST_CALLS = 6
"""More store calls than an invocation makes."""

MOVING = {"lastUpdatedAt": "", "pollIntervalMs": 0}
"""What says when a task was looked at, and not how it stands."""

TERMINAL = {"completed", "failed", "cancelled"}


@dataclass
class Tasks:
    """A client of the server, whose worker's events it sees first.

    Attributes:
        pool: The workers.
        folder: Where the plans are.
        doubled: Whether each event is delivered twice, so that two workers race for the task.
        numbers: The number of each task's call, by its id.
    """

    pool: Pool
    folder: Path
    doubled: bool
    numbers: dict[str, int] = field(default_factory=dict)
    plan: str | None = None

    def __post_init__(self) -> None:
        self.handler = killed.make(self, http_client(os.environ["DATABASE"]))

    def dispatch(self, event: JsonObject) -> None:
        """Lay a task's plan down, and hand its event on."""
        named: Any = event["batonTask"]
        if self.plan is not None:
            (self.folder / named["taskId"]).write_text(self.plan)
            self.plan = None
        for _ in range(1 + self.doubled):
            self.pool.dispatch(event)

    def start(self, tool: str, plan: str | None = None) -> str:
        """Call a tool; its task's id."""
        self.plan = plan
        number = len(self.numbers)
        task_id = str(self.request("tools/call", tool, name=tool, arguments={"number": number})["taskId"])
        self.numbers[task_id] = number
        return task_id

    def state(self, task_id: str) -> Any:
        """A task as a poll finds it."""
        return self.request("tasks/get", task_id, taskId=task_id)

    def request(self, method: str, named: str, **params: Any) -> Any:
        message, headers = about_task(method, named, params)
        event = proxy_event(json.dumps(message), "kim", headers)
        return json.loads(self.handler(event, FunctionContext(lambda: 30_000))["body"])["result"]

    def end_all(self) -> dict[str, Any]:
        """Poll all tasks until each is over; how they ended, by id."""
        ended: dict[str, Any] = {}
        until = time.monotonic() + BOUND_S
        while len(ended) < len(self.numbers):
            for task_id in self.numbers.keys() - ended.keys():
                state = self.state(task_id)
                if state["status"] in TERMINAL:
                    ended[task_id] = state
            assert time.monotonic() < until, f"{len(self.numbers) - len(ended)} tasks have not ended"
            time.sleep(LOOK_S)
        return ended


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    """The URL of a DynamoDB in this process, which nobody kills."""
    memory = MemoryDynamoDB()
    memory.create(killed.TABLE)
    server = loopback_server(memory)
    yield f"http://{server.address}"
    server.close()


@contextmanager
def tasks_over(database: str, folder: Path, patch: pytest.MonkeyPatch, *, speed: int, doubled: bool) -> Iterator[Tasks]:
    """A server with workers. The store's time goes so many times faster than the machine's."""
    for name in ("taken", "random"):
        (folder / name).mkdir()
    for name, value in {
        "DATABASE": database,
        "JOURNAL": str(folder / "journal"),
        "PLANS": str(folder),
        "EPOCH_MS": str(int(time.time() * 1000)),
        "SPEED": str(speed),
    }.items():
        patch.setenv(name, value)
    launch = Launch(killed.__file__, killed.TABLE, database, allow_anonymous=True)
    pool = Pool(lambda: launch, Policy(BOUND_S, Retries((0.1, 0.2)), at_once=4), WORKER)
    try:
        yield Tasks(pool, folder, doubled)
    finally:
        pool.stop(0)


@dataclass
class Lives:
    """What the journal says of each call, by its number."""

    begun: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    effects: Counter[int] = field(default_factory=Counter)
    killed: list[tuple[str, int]] = field(default_factory=list)

    @classmethod
    def told(cls) -> "Lives":
        lives = cls()
        for what, *said in killed.read_journal():
            if what == "begun":
                lives.begun.setdefault(said[0], []).append((said[1], said[2]))
            elif what == "effect":
                lives.effects[said[0]] += 1
            else:
                lives.killed.append((said[1], said[2]))
        return lives


def check(tasks: Tasks, tools: dict[str, str], ended: dict[str, Any]) -> Lives:
    """Hold what became of all tasks to what must never be otherwise."""
    lives = Lives.told()
    for task_id, state in ended.items():
        number = tasks.numbers[task_id]
        begun = lives.begun.get(number, [])
        attempts = [attempt for _, attempt in begun]
        assert len(set(attempts)) == len(attempts), f"one attempt was begun twice: {begun}"
        if state["status"] == "completed":
            shown = state["result"]["structuredContent"]
            # No attempt begins after one whose result is there, and none that was taken over leaves one.
            assert (shown["pid"], shown["attempt"]) == max(begun, key=lambda one: one[1])
            assert lives.effects[number] >= 1
        else:
            assert state["status"] == "failed"
            assert "result" not in state
        if tools[task_id] == "once":
            assert len(begun) <= 1
            assert lives.effects[number] <= 1
        again = tasks.state(task_id)
        assert {**again, **MOVING} == {**state, **MOVING}
    return lives


def say(capsys: pytest.CaptureFixture[str], counts: str) -> None:
    """Print what was counted, whether or not the test passes."""
    with capsys.disabled():
        sys.stdout.write(f"\n{counts}\n")


def test_a_worker_is_killed_before_and_after_each_call_of_its_store(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plans = [f"{side} {call}" for side in ("before", "after") for call in range(1, MOST_CALLS + 1)]
    with tasks_over(database, tmp_path, monkeypatch, speed=20, doubled=False) as tasks:
        tools = {tasks.start(tool, plan): tool for plan in plans for tool in ("repeatable", "once")}
        lives = check(tasks, tools, ended := tasks.end_all())
    by_plan = {(tools[task_id], plan): ended[task_id]["status"] for task_id, plan in _planned(tools, plans)}
    calls = max(call for _, call in lives.killed)
    say(capsys, f"killed before and after each of {calls} calls, of 2 tools: {dict(Counter(by_plan.values()))}")
    assert 2 <= calls < MOST_CALLS, "the sweep must pass the last call"
    assert Counter(lives.killed) == {(side, call): 2 for side in ("before", "after") for call in range(1, calls + 1)}
    assert {status for (tool, _), status in by_plan.items() if tool == "repeatable"} == {"completed"}
    # Killed before its claim, or when all is written, it is as if nothing had happened.
    assert by_plan["once", "before 1"] == by_plan["once", f"after {calls}"] == "completed"
    assert by_plan["once", "after 1"] == by_plan["once", f"before {calls}"] == "failed"


def _planned(tools: dict[str, str], plans: list[str]) -> list[tuple[str, str]]:
    return list(zip(tools, (plan for plan in plans for _ in range(2)), strict=True))


def test_workers_are_killed_two_hundred_times_while_two_race_for_each_task(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with tasks_over(database, tmp_path, monkeypatch, speed=100, doubled=True) as tasks:
        for number in range(KILLS):
            (tmp_path / "random" / str(number)).touch()
        tools: dict[str, str] = {}
        going_on: list[str] = []
        # A worker that ends otherwise puts back what it was to be killed by.
        while any((tmp_path / "random").iterdir()) or len(Lives.told().killed) < KILLS:
            going_on = [task_id for task_id in going_on if tasks.state(task_id)["status"] not in TERMINAL]
            while len(going_on) < AT_ONCE:
                tool = random.choice(("repeatable", "repeatable", "once"))
                going_on.append(tasks.start(tool))
                tools[going_on[-1]] = tool
            time.sleep(LOOK_S)
        ended = tasks.end_all()
        lives = check(tasks, tools, ended)
    statuses = Counter((tools[task_id], state["status"]) for task_id, state in ended.items())
    attempts = sum(map(len, lives.begun.values()))
    effects = Counter((tool, lives.effects[tasks.numbers[task_id]]) for task_id, tool in tools.items())
    say(capsys, f"{len(lives.killed)} kills, {len(tools)} tasks, {attempts} attempts: {dict(statuses)}")
    say(capsys, f"how often each had its effect: {dict(effects)}")
    assert len(lives.killed) == KILLS
    assert statuses["repeatable", "completed"] > 0
    assert statuses["once", "completed"] > 0
    # Kills have come before claims, and while tools ran.
    assert statuses["once", "failed"] > 0
    assert attempts > len(tools)
