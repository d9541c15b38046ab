"""Approved calls while processes are killed at each point: every effect has a decision, and no decision has two
effects."""

import json
import os
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from random import Random

import pytest

from tests.approvals.killed import AMOUNTS, DIES_AFTER_EFFECTS, SETTINGS, Payments
from tests.support.approvals import approvals_of, approver, decide
from tests.support.background import container
from tests.support.client import Client, JsonDict
from tests.support.killed import Killed, Processes, run_module

KILLS = int(os.environ.get("APPROVAL_KILLS", "20"))
"""The minimum number of killed processes. It is 200 each night, and should be after changes to the approval gate."""

MOST_STEPS = 60
LEASE_S = 46.0


class Payers(Processes):
    """A server whose processes are killed, and the people who decide."""

    def people(self, owner: str) -> Client:
        """Return a client for the people who decide. Its requests run in this process, which is not killed."""
        server = Payments(self.folder, self.table).server()
        return Client(container(server, self.table, SETTINGS, self.time), owner)

    def calls(self, owner: str) -> list[JsonDict]:
        calls = [json.loads(line) for line in self.lines("calls")]
        return [call for call in calls if call["owner"] == owner]


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Payers]:
    with run_module("tests.approvals.killed", tmp_path, Payers) as payers:
        yield payers


def pay_all(processes: Payers, owner: str, rng: Random) -> "Counter[int]":
    """Run a workflow to its end while its processes are killed. Return the number of decisions by amount."""
    decisions = Counter[int]()
    client, person = Client(processes.handle, owner), approver(processes.people("kim"), "kim")
    task = client.get_prompt("payments").task_id
    for _ in range(MOST_STEPS):
        if processes.table.item(task, owner)["status"]["S"] == "completed":
            return decisions
        for approval in approvals_of(person):
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


def test_an_approved_effect_happens_once_for_each_decision_although_processes_are_killed(processes: Payers) -> None:
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


@pytest.mark.parametrize(("continues", "effects"), [(False, 2), (True, 1)], ids=["resumes", "continuations"])
def test_an_approval_has_at_most_two_effects_although_each_process_dies_after_the_effect(
    processes: Payers, effects: int, *, continues: bool
) -> None:
    """Only the claim of a run shows that its process has died. So a continuation needs a new approval at once."""
    client, person = Client(processes.handle, "owner"), approver(processes.people("kim"), "kim")
    task = client.get_prompt("payments").task_id
    (processes.folder / DIES_AFTER_EFFECTS).touch()
    for decisions in (1, 2):
        [approval] = approvals_of(person)
        assert decide(person, approval).status == 200
        for _ in range(6):
            try:
                if continues:
                    client.call_tool("pay", {"amount": AMOUNTS[0]}, task=task)
                else:
                    client.get_prompt("payments", task=task)
            except Killed:
                processes.time.pass_s(LEASE_S)
        calls = processes.calls("owner")
        assert [call["amount"] for call in calls] == [AMOUNTS[0]] * effects * decisions
        assert len({call["key"] for call in calls}) == 1
    assert processes.killed == 2 * effects
