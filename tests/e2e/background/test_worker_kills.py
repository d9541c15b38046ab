"""Workers that are killed: one job each, over a DynamoDB that survives; a long workflow; and through `baton serve`.

The attempts of a job write a journal (`worker_functions/killed.py`). Whenever a worker is killed: every task ends once,
its result is that of its last attempt, and a tool that must not be repeated runs at most once.
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
from random import Random
from threading import Event
from typing import Any

import httpx
import pytest

from mcp_baton import Server
from mcp_baton.local.dynamodb import http_client
from mcp_baton.local.worker_pool import Pool
from mcp_baton.local.worker_process import Launch
from mcp_baton.protocol.envelope import CAPABILITIES_KEY, TASKS_EXTENSION, VERSION_KEY
from mcp_baton.protocol.json import JsonObject
from tests.e2e.background.stock import STEPS, Shop, cloud_of, opened, own_task, state, steps_of
from tests.e2e.background.worker_functions import killed
from tests.e2e.cloud import Cloud, Kills, quick_table
from tests.e2e.support import Client, JsonDict, about_task, proxy_event
from tests.fakes import FunctionContext
from tests.memory_dynamodb import MemoryDynamoDB, loopback_server
from tests.serving import served

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
    pool = Pool(lambda: launch, BOUND_S, (0.1, 0.2), at_once=4, command=WORKER)
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
    """Check the outcome of each task against its journal."""
    lives = Lives.told()
    for task_id, found in ended.items():
        number = tasks.numbers[task_id]
        begun = lives.begun.get(number, [])
        attempts = [attempt for _, attempt in begun]
        assert len(set(attempts)) == len(attempts), f"one attempt was begun twice: {begun}"
        if found["status"] == "completed":
            shown = found["result"]["structuredContent"]
            # No attempt begins after one whose result is there, and none that was taken over leaves one.
            assert (shown["pid"], shown["attempt"]) == max(begun, key=lambda one: one[1])
            assert lives.effects[number] >= 1
        else:
            assert found["status"] == "failed"
            assert "result" not in found
        if tools[task_id] == "once":
            assert len(begun) <= 1
            assert lives.effects[number] <= 1
        again = tasks.state(task_id)
        assert {**again, **MOVING} == {**found, **MOVING}
    return lives


def say(capsys: pytest.CaptureFixture[str], counts: str) -> None:
    """Print what was counted, whether or not the test passes."""
    with capsys.disabled():
        sys.stdout.write(f"\n{counts}\n")


def test_a_worker_is_killed_before_and_after_each_call_of_its_store(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plans = [f"{side} {call}" for side in ("before", "after") for call in range(1, MOST_CALLS + 1)]
    with tasks_over(database, tmp_path, monkeypatch, speed=10, doubled=False) as tasks:
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


@dataclass
class Counts:
    """What has happened over all seeds."""

    happened: Counter[str] = field(default_factory=Counter)

    def add(self, what: str, count: int = 1) -> None:
        self.happened[what] += count


CHUNKS, SEEDS = 8, 25


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_long_workflow_completes_although_its_workers_are_killed_and_its_events_lost_or_doubled(chunk: int) -> None:
    counts = Counts()
    for seed in range(chunk * SEEDS, (chunk + 1) * SEEDS):
        run_of_seed(seed).to_the_end(counts)
    # Shown with `-s`.
    print(f"seeds {chunk * SEEDS} to {(chunk + 1) * SEEDS - 1}: {dict(sorted(counts.happened.items()))}")  # noqa: T201
    assert counts.happened["calls completed"] == SEEDS
    assert counts.happened["workers killed"] > 2 * SEEDS


def run_of_seed(seed: int) -> "Chaos":
    shop, kills = Shop(), Kills()
    cloud = cloud_of(Server("none"), quick_table(kills), kills)
    cloud.deploy(shop.server(cloud.time.pass_s))
    shop.point = kills.point
    return Chaos(cloud, shop, Random(seed), f"seed {seed}")


@dataclass
class Chaos:
    """One long workflow whose workers die, and whose events are lost and doubled."""

    cloud: Cloud
    shop: Shop
    random: Random
    what: str
    ended: dict[str, tuple[str, int]] = field(default_factory=dict)

    def to_the_end(self, counts: Counts) -> None:
        client = self.cloud.client(owner=self.what)
        calls = [opened(client, "stock")]
        own = own_task(client, calls[0])
        for _ in range(500):
            self.look(calls)
            if self.status(calls[-1]) == "failed":
                # Its workers died each time. The workflow's own task is there all the same.
                counts.add("calls given up")
                calls.append(opened(client, "stock", {"task_id": own}))
            if self.status(calls[-1]) == "completed":
                break
            self.step(client, calls[-1], counts)
        self.finish(client, calls, own, counts)

    def step(self, client: Client, call: str, counts: Counts) -> None:
        """A delivery, or, where nothing is to be delivered, a poll some time later."""
        if not self.cloud.queue:
            self.cloud.time.pass_s(self.random.choice((5, 31, 61, 601)))
            before = len(self.cloud.sent)
            state(client, call)
            counts.add("dispatched by a poll", len(self.cloud.sent) - before)
            return
        self.disturb(counts)
        if not self.cloud.queue:
            return
        if self.random.random() < 0.4:
            self.cloud.kills.after = self.random.randrange(40)
        killed = self.cloud.kills.count
        outcome = self.cloud.deliver()
        counts.add("invocations")
        counts.add("workers killed", self.cloud.kills.count - killed)
        counts.add("hops", outcome == "handed over")

    def disturb(self, counts: Counts) -> None:
        chance = self.random.random()
        if chance < 0.05:
            self.cloud.queue.pop(self.random.randrange(len(self.cloud.queue)))
            counts.add("events lost")
        elif chance < 0.15:
            self.cloud.queue.append(self.random.choice(self.cloud.queue))
            counts.add("events doubled")

    def status(self, call: str) -> str:
        return str(self.cloud.table.item(call, self.what)["status"]["S"])

    def look(self, calls: list[str]) -> None:
        """What has ended never changes."""
        for call in calls:
            item = self.cloud.table.item(call, self.what)
            status, version = item["status"]["S"], int(item["version"]["N"])
            if call in self.ended:
                assert self.ended[call] == (status, version), self.what
            elif status != "working":
                self.ended[call] = (status, version)

    def finish(self, client: Client, calls: list[str], own: str, counts: Counts) -> None:
        while self.cloud.queue:  # late deliveries change nothing
            self.cloud.deliver()
        self.look(calls)
        assert self.status(calls[-1]) == "completed", self.what
        assert state(client, own)["status"] == "completed", self.what
        assert steps_of(client, own) == ["completed"] * STEPS, self.what
        assert Counter(self.shop.sold.values()) == Counter(range(0, STEPS, 2)), self.what
        assert set(self.shop.done) == set(range(1, STEPS, 2)), self.what
        counts.add("calls completed")
        counts.add("steps done once for their key", len(self.shop.sold))
        counts.add("steps without a key", len(self.shop.done))
        counts.add("steps without a key done again", self.shop.done.total() - len(self.shop.done))


SERVED = f"{Path(__file__).with_name('served_stock.py')}:server"
BATON = [sys.executable, "-c", "import sys; from mcp_baton.cli.app import main; sys.exit(main())", "serve"]
OPTIONS = ["--port", "0", "--worker-timeout", "8", "--worker-retries", "3,3,3,3,3"]
SERVED_STEPS, FATAL = 12, 4
META = {VERSION_KEY: "2026-07-28", CAPABILITIES_KEY: {"extensions": {TASKS_EXTENSION: {}}}}
POLLS = 60


def ask(client: httpx.Client, method: str, what: str, **params: object) -> JsonDict:
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": what}
    headers["Accept"] = "application/json, text/event-stream"
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}}
    answer: JsonDict = client.post("", json=body, headers=headers).raise_for_status().json()
    result: JsonDict = answer["result"]
    return result


def wait_for_end(client: httpx.Client, task: str) -> JsonDict:
    """Poll a task until it has ended."""
    for _ in range(POLLS):
        found = ask(client, "tasks/get", task, taskId=task)
        if found["status"] != "working":
            return found
        Event().wait(0.5)
    raise AssertionError(f"the task does not end: {found}")


def test_worker_processes_of_baton_serve_complete_a_workflow_although_one_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STOCK", str(tmp_path))
    monkeypatch.setenv("BATON_WRITE_RESERVE_MS", "500")
    with served([*BATON, SERVED, *OPTIONS], tmp_path / "log") as url, httpx.Client(base_url=url, timeout=60) as client:
        call = ask(client, "tools/call", "stock", name="stock", arguments={})
        task = wait_for_end(client, call["taskId"])

    assert (task["status"], task["result"]["structuredContent"]["task_status"]) == ("completed", "completed")
    done = sorted(int(path.name.split("-")[1]) for path in tmp_path.glob("done-*"))
    assert done == list(range(SERVED_STEPS))
    calls = Counter(map(int, (tmp_path / "calls").read_text().split()))
    assert calls[FATAL] > 1
    # The server itself, the worker process that was killed, and the one after it.
    assert len(list(tmp_path.glob("process-*"))) >= 3
