"""Processes are killed around callbacks: an accepted callback becomes the result of its step, and each task ends."""

import json
import os
from contextlib import suppress
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

from mcp_baton.local.gateway import proxy_event
from tests.support.background import call, created_task
from tests.support.client import Client
from tests.support.killed import Killed, Processes, run_module

KILLS = int(os.environ.get("WAIT_KILLS", "20"))
"""The minimum number of killed processes. It is 200 each night, and should be after changes to callbacks or sweeps."""

MOST_STEPS = 200
LEASE_S = 46.0


class Run:
    """One workflow that waits, with its workers and its senders of callbacks."""

    def __init__(self, processes: Processes, seed: int) -> None:
        self.processes, self.owner, self.rng = processes, f"owner-{seed}", Random(seed)
        self.accepted: set[int] = set()
        """The bodies whose replies had the status 200."""

    def send(self, event: dict[str, Any], limit: int) -> Any:
        """Send an event to a process that may be killed at one of its first `limit` points."""
        self.processes.kill = self.rng.randrange(limit) if self.rng.random() < 0.5 else None
        try:
            return self.processes.handle(event, None)
        except Killed:
            self.processes.time.pass_s(self.rng.choice((0.0, LEASE_S)))
            raise

    def post(self, body: int, limit: int = 14) -> int:
        path = self.rng.choice(self.processes.lines(f"urls-{self.owner}"))
        data = json.dumps(body).encode()
        status: int = self.send(proxy_event("POST", path, [], data, request_id="c", owner_header=None), limit)[
            "statusCode"
        ]
        if status == 200:
            self.accepted.add(body)
        return status

    def run_to_end(self) -> None:
        client = Client(self.processes.handle, self.owner, "2026")
        task = created_task(call(client, "sign", {}))["taskId"]
        for _ in range(MOST_STEPS):
            with suppress(Killed):
                self.step()
            status = self.processes.table.item(task, self.owner)["status"]["S"]
            if status == "failed":  # each of its workers was killed
                workflow_task = client.task("get", task).result["_meta"]["_workflow.task_id"]
                task = created_task(call(client, "sign", {"task_id": workflow_task}))["taskId"]
            elif status != "working":
                break
        assert status == "completed", f"{self.owner}: the task is {status}"
        amounts = set(map(int, self.processes.lines(f"paid-{self.owner}")))
        self.processes.kill = None
        statuses = {body: self.post(body, 10_000) for body in (1, 2)}
        assert sorted(statuses.values()) == [200, 409], f"{self.owner}: {statuses}"
        assert self.accepted == amounts, f"{self.owner}: accepted {self.accepted}, paid {amounts}"

    def step(self) -> None:
        """Send a callback, deliver the queued events, or advance the clock and sweep."""
        if self.processes.lines(f"urls-{self.owner}") and self.rng.random() < 0.3:
            self.post(self.rng.choice((1, 2)))
        elif events := self.processes.lines("events"):
            (self.processes.folder / "events").unlink()
            for event in events:
                if self.rng.random() < 0.8:  # the other events are lost
                    self.send(json.loads(event), 40)
        else:
            self.processes.time.pass_s(61)
            self.send({"batonSweep": {}}, 12)


def test_an_accepted_callback_is_the_result_although_processes_are_killed(tmp_path: Path) -> None:
    with run_module("tests.callbacks.killed", tmp_path, Processes) as processes:
        for seed in count():
            Run(processes, seed).run_to_end()
            if processes.killed >= KILLS:
                break
