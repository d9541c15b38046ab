"""A long workflow whose workers die and whose events are lost or doubled; and a killed worker of a local server."""

import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import Event

import httpx
import pytest

from mcp_baton import Server
from mcp_baton.protocol.envelope import CAPABILITIES_KEY, TASKS_EXTENSION, VERSION_KEY
from tests.e2e.background.stock import STEPS, Shop, cloud_of, opened, own_task, state, steps_of
from tests.e2e.cloud import Cloud, Kills, quick_table
from tests.e2e.support import Client, JsonDict
from tests.serving import served

pytestmark = pytest.mark.first


@dataclass
class Counts:
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
