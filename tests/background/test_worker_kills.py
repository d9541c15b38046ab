"""A long workflow with killed workers and lost or doubled events, and `baton serve` killed while it works."""

import sys
from collections import Counter
from pathlib import Path
from random import Random
from threading import Event

import httpx
import pytest

from mcp_baton import Server
from tests.background.stock import STEPS, Shop, call_as_task, cloud_of, state, steps_of, workflow_task_of
from tests.memory_dynamodb import MemoryDynamoDB, loopback_server
from tests.serving import served
from tests.support.client import Client, JsonDict, about_task
from tests.support.cloud import Kills, quick_table

pytestmark = pytest.mark.first


CHUNKS, SEEDS = 8, 25


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_long_workflow_completes_although_its_workers_are_killed_and_its_events_lost_or_doubled(chunk: int) -> None:
    runs = [Chaos(seed) for seed in range(chunk * SEEDS, (chunk + 1) * SEEDS)]
    for run in runs:
        run.run_to_end()
    assert sum(run.kills.count for run in runs) > SEEDS


class Chaos:
    """One run of a long workflow with killed workers and with lost and doubled events."""

    def __init__(self, seed: int) -> None:
        self.label, self.random = f"seed {seed}", Random(seed)
        self.shop, self.kills = Shop(), Kills()
        self.cloud = cloud_of(Server("none"), quick_table(self.kills), self.kills)
        self.cloud.deploy(self.shop.server(self.cloud.time.pass_s))
        self.shop.point = self.kills.point
        self.final_states: dict[str, tuple[str, int]] = {}

    def run_to_end(self) -> None:
        client = self.cloud.client(owner=self.label)
        calls = [call_as_task(client, "stock")]
        task_id = workflow_task_of(client, calls[0])
        for _ in range(500):
            self.check_ended(calls)
            if self.status(calls[-1]) == "failed":
                # Each of its workers was killed. The workflow's own task still exists.
                calls.append(call_as_task(client, "stock", {"task_id": task_id}))
            if self.status(calls[-1]) == "completed":
                break
            self.step(client, calls[-1])
        while self.cloud.queue:  # late deliveries change nothing
            self.cloud.deliver()
        self.check_ended(calls)
        assert self.status(calls[-1]) == "completed", self.label
        assert state(client, task_id)["status"] == "completed", self.label
        assert steps_of(client, task_id) == ["completed"] * STEPS, self.label
        assert Counter(self.shop.effects.values()) == Counter(range(0, STEPS, 2)), self.label
        assert set(self.shop.calls) == set(range(1, STEPS, 2)), self.label

    def step(self, client: Client, call_id: str) -> None:
        """Deliver an event. If none is queued, let some time pass and poll."""
        if not self.cloud.queue:
            self.cloud.time.pass_s(self.random.choice((5, 31, 61, 601)))
            state(client, call_id)
            return
        chance = self.random.random()
        if chance < 0.05:
            self.cloud.queue.pop(self.random.randrange(len(self.cloud.queue)))
        elif chance < 0.15:
            self.cloud.queue.append(self.random.choice(self.cloud.queue))
        if self.cloud.queue:
            if self.random.random() < 0.4:
                self.kills.points = self.random.randrange(40)
            self.cloud.deliver()

    def status(self, call_id: str) -> str:
        return str(self.cloud.table.item(call_id, self.label)["status"]["S"])

    def check_ended(self, calls: list[str]) -> None:
        for call_id in calls:
            item = self.cloud.table.item(call_id, self.label)
            status, version = item["status"]["S"], int(item["version"]["N"])
            if status != "working":
                assert self.final_states.setdefault(call_id, (status, version)) == (status, version), self.label
            assert status != "working" or call_id not in self.final_states, self.label


SERVED = f"{Path(__file__).with_name('served_stock.py')}:server"
BATON = "import sys; from mcp_baton.cli.app import main; sys.exit(main())"
AFTER_A_MINUTE = "import time, time_machine; time_machine.travel(time.time() + 60).start(); "
"""Starts the process a minute later, when the claims of the killed one are over."""
OPTIONS = ["--port", "0", "--worker-timeout", "8"]
SERVED_STEPS, FATAL = 12, 4
POLLS = 240


def ask(client: httpx.Client, method: str, mcp_name: str, **params: object) -> JsonDict:
    message, headers = about_task(method, mcp_name, params)
    answer: JsonDict = client.post("", json=message, headers=headers).raise_for_status().json()
    result: JsonDict = answer["result"]
    return result


def wait_for_end(client: httpx.Client, task: str) -> JsonDict:
    for _ in range(POLLS):
        task_state = ask(client, "tasks/get", task, taskId=task)
        if task_state["status"] != "working":
            return task_state
        Event().wait(0.5)
    raise AssertionError(f"the task does not end: {task_state}")


def test_a_workflow_completes_although_baton_serve_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOCK", str(tmp_path))
    monkeypatch.setenv("BATON_WRITE_RESERVE_MS", "500")
    database = loopback_server(MemoryDynamoDB())
    options = ["serve", SERVED, *OPTIONS, "--dynamodb", f"http://{database.address}"]
    command, later_command = ([sys.executable, "-c", code, *options] for code in (BATON, AFTER_A_MINUTE + BATON))
    with served(command, tmp_path / "log") as url, httpx.Client(base_url=url, timeout=60) as client:
        call = ask(client, "tools/call", "stock", name="stock", arguments={})
        with pytest.raises(httpx.TransportError):
            wait_for_end(client, call["taskId"])
    with served(later_command, tmp_path / "log") as url, httpx.Client(base_url=url, timeout=60) as client:
        task = wait_for_end(client, call["taskId"])
    database.close()

    assert (task["status"], task["result"]["structuredContent"]["task_status"]) == ("completed", "completed")
    numbers = sorted(int(path.name.split("-")[1]) for path in tmp_path.glob("done-*"))
    assert numbers == list(range(SERVED_STEPS))
    calls = Counter(map(int, (tmp_path / "calls").read_text().split()))
    assert calls[FATAL] > 1
