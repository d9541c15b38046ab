"""Invariant 3: checks, from the task's item, which run holds the task."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.simulation.dynamodb.database import Change
from tests.simulation.dynamodb.paths import Item
from tests.simulation.heads import TERMINAL, claim_of, status_of
from tests.simulation.journal import Process, ToolCall

if TYPE_CHECKING:
    from tests.simulation.invariants import Judge


MARGIN_MS = 6_000
"""If a worker's last stall ended longer than this before a call, the worker has checked its claims since,
milliseconds."""


@dataclass(slots=True)
class Holder:
    """A run that has claimed the task.

    Attributes:
        released_ms: When a write of this run released the task; infinite if none did.
        ended_ms: When the run told its client that everything is stored; infinite if it did not.
    """

    claim: str
    released_ms: float = float("inf")
    ended_ms: float = float("inf")


@dataclass(slots=True)
class Claims:
    judge: "Judge"
    holders: dict[str, Holder] = field(default_factory=dict)

    def check_write(self, number: int, change: Change, process: Process, now_ms: float) -> None:
        before = claim_of(change.before) if change.before else None
        after = claim_of(change.after) if change.after else None
        if process.is_run:
            self._check_run_write(number, process, before, after)
            if self._is_release(change, after):
                self.holders[process.name].released_ms = now_ms
        if before is None or after is None or before[0] == after[0]:
            if before and after and after[1] < before[1]:
                self.judge.wrong(3, f"write #{number} decreases the claim's number from {before[1]} to {after[1]}")
            return
        if before[2]:
            self.judge.world.incidents.add("a claim that was not released was taken over")
        if after[1] != before[1] + 1:
            self.judge.wrong(
                3, f"write #{number} takes the claim and changes its number from {before[1]} to {after[1]}"
            )
        if before[2] >= process.wall_clock_ms(now_ms):
            self.judge.wrong(3, f"{process.name} takes a claim that lasts {before[2] - now_ms:.0f} ms longer")

    def _check_run_write(
        self, number: int, process: Process, before: tuple[str, int, int] | None, after: tuple[str, int, int] | None
    ) -> None:
        if after is not None and (before is None or before[0] != after[0]):
            self.holders[process.name] = Holder(after[0])
        elif before is not None and before[0] != self.holders[process.name].claim:
            self.judge.wrong(3, f"{process.name} makes write #{number} without holding the claim")

    @staticmethod
    def _is_release(change: Change, after: tuple[str, int, int] | None) -> bool:
        if change.after is None or status_of(change.after) in TERMINAL:
            return True
        return change.before is not None and after is not None and after[2] == 0

    def check_call(self, call: ToolCall) -> None:
        """Check that no other run has taken the task of a run that calls a tool. Exception: the run has stalled since
        it last checked its clock before the call."""
        process, head = call.process, self.judge.head
        if process.name not in self.holders or head is None or status_of(head) in TERMINAL:
            return
        claim = claim_of(head)
        holder = next((name for name, entry in self.holders.items() if claim and entry.claim == claim[0]), None)
        # Between its check of the workflow's task and the call, a worker also renews its claim on the call's task.
        margin_ms = MARGIN_MS if process.kind == "work" else 0
        has_stalled = process.stalled_ms > min(process.checked_ms, call.began_ms - margin_ms)
        if holder in {None, process.name} or has_stalled:
            return
        world = self.judge.world
        # A process with a fast clock takes a live claim, and a third process may then take the claim from it.
        if max(abs(process.skew_s), abs(world.processes[str(holder)].skew_s), world.fast_ms / 1000) <= 1:
            self.judge.wrong(3, f"{process.name} calls {call.tool}, but {holder} has taken over its task")

    def note_end(self, process: Process) -> None:
        if process.name not in self.holders or not isinstance(process.answer, Mapping):
            return
        # A run whose task arrives in the table late goes on without a task, and does not release it.
        has_task = process.kind != "start" or "task_id" in process.meta
        if has_task and process.meta.get("persisted") not in {False, "unknown"}:
            self.holders[process.name].ended_ms = self.judge.world.scheduler.now_ms

    def was_abandoned_before(self, process: Process) -> bool:
        """Return whether the most recent earlier run ended without a write that released the task."""
        earlier = [holder for name, holder in self.holders.items() if name != process.name]
        return bool(earlier) and earlier[-1].released_ms == float("inf")

    def check_refusal(self, process: Process) -> None:
        """Check a resume that was refused because another run holds the task."""
        *_, last_holder = self.holders.values()
        if min(last_holder.released_ms, last_holder.ended_ms) < process.asked_ms and self.judge.world.fast_ms <= 1_000:
            self.judge.wrong(
                10, f"{process.name} gets the reply that another run holds the task, but that run has ended"
            )

    @staticmethod
    def describe(item: Item) -> str:
        """Return a short form of the claim in an item."""
        claim = claim_of(item)
        return "" if claim is None else f"run {claim[0][:6]} n={claim[1]} u={claim[2] % 10**9}"
