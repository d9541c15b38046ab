"""Processes are killed between each request and effect of an approved call: no effect without a decision, and one at
most for each."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.e2e.approvals.killed import AMOUNTS, SETTINGS, Payments
from tests.e2e.approvals_support import approver, decide, waiting
from tests.e2e.background_support import Time, container
from tests.e2e.support import Client, JsonDict, Table
from tests.memory_dynamodb import MemoryDynamoDB, loopback_server, memory_client

KILLS = int(os.environ.get("APPROVAL_KILLS", "40"))
"""How many processes are killed at least: `APPROVAL_KILLS=200` for a change of the guard."""

MOST_STEPS = 60
LEASE_S = 46.0


class Killed(Exception):
    """The process that should have answered was killed."""


@dataclass
class Processes:
    """A server whose processes die, and the people who decide in front of another one.

    Attributes:
        kill: At which point from now the next process is killed.
    """

    table: Table
    folder: Path
    process: "subprocess.Popen[str]"
    time: Time = field(default_factory=Time)
    kill: int | None = None
    killed: int = 0

    def handle(self, event: JsonDict, _context: Any) -> JsonDict:
        kill, self.kill = self.kill, None
        order = {"event": event, "kill": kill, "time_s": self.time.s}
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        status = int(self.process.stdout.readline())
        if status == -signal.SIGKILL:
            self.killed += 1
            raise Killed
        assert status == 0, status
        answer: JsonDict = json.loads((self.folder / "answer").read_text())
        return answer

    def people(self, owner: str) -> Client:
        """The people who decide. Their processes live."""
        server = Payments(self.folder, self.table).server()
        return Client(container(server, self.table, SETTINGS, self.time), owner)

    def calls(self, owner: str) -> list[JsonDict]:
        file = self.folder / "calls"
        made = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        return [call for call in made if call["owner"] == owner]


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    memory = MemoryDynamoDB()
    memory.create("tasks")
    with closing(memory_client(memory)) as client, closing(loopback_server(memory)) as served:
        command = [sys.executable, "-m", "tests.e2e.approvals.killed", f"http://{served.address}", str(tmp_path)]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
            yield Processes(Table(client, "tasks"), tmp_path, process)
            assert process.stdin
            process.stdin.close()


def pay_all(processes: Processes, owner: str, rng: Random) -> "Counter[int]":
    """Run a workflow to its end, in processes that die, while people decide. Returns their decisions by amount."""
    decisions = Counter[int]()
    client, person = Client(processes.handle, owner), approver(processes.people("kim"), "kim")
    task = client.get_prompt("payments").task_id
    for _ in range(MOST_STEPS):
        if processes.table.item(task, owner)["status"]["S"] == "completed":
            return decisions
        for approval in waiting(person):
            if approval["owner"] == owner and rng.random() < 0.7:
                assert decide(person, approval).status == 200
                decisions[approval["arguments"]["amount"]] += 1
        processes.kill = rng.randrange(24) if rng.random() < 0.7 else None
        try:
            if rng.random() < 0.4:
                client.get_prompt("payments", task=task)
            else:
                client.call_tool("pay", {"amount": rng.choice((*AMOUNTS, 3, 3))}, task=task)
        except Killed:
            processes.time.pass_s(LEASE_S)
    raise AssertionError(f"{owner}: the workflow does not end")


def test_an_approved_effect_happens_once_for_each_decision_although_processes_are_killed(processes: Processes) -> None:
    for seed in count():
        owner = f"owner-{seed}"
        decisions = pay_all(processes, owner, Random(seed))
        calls = processes.calls(owner)
        for call in calls:
            assert call["used"], f"{owner}: {call} was made without a decision"
        effects = Counter(amount for amount, _ in {(call["amount"], call["key"]) for call in calls})
        assert effects <= decisions, f"{owner}: the effects {effects} of the decisions {decisions}"
        if processes.killed >= KILLS:
            break
