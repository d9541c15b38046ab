"""Invariant 3: who holds a run, by the item where it says so, and by what runs do in any case."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.simulation.dynamodb.database import Change
from tests.simulation.dynamodb.paths import Item
from tests.simulation.heads import TERMINAL, claim_of, status_of
from tests.simulation.journal import Called, Process

if TYPE_CHECKING:
    from tests.simulation.invariants import Judge

MARGIN_MS = 6_000
"""A run begins nothing within 5 s of an end of its lease that is not confirmed; a second is for clocks."""


@dataclass(slots=True)
class Holder:
    """A run as long as it holds its task.

    Attributes:
        since_ms: When the store last heard of it.
        claim: The id of its claim, where there are claims.
        holds: Whether it holds it, as far as it knows.
        released_ms: When it gave the task up by a write; infinite where it did not.
        ended_ms: When it told its client that all it did is kept; infinite where it did not.
    """

    since_ms: float
    claim: str | None = None
    holds: bool = True
    released_ms: float = float("inf")
    ended_ms: float = float("inf")


@dataclass(slots=True)
class Claims:
    """Follows who holds the task."""

    judge: "Judge"
    holders: dict[str, Holder] = field(default_factory=dict)

    def changed(self, number: int, change: Change, process: Process, now_ms: float) -> None:
        """A process wrote the head."""
        before = claim_of(change.before) if change.before else None
        after = claim_of(change.after) if change.after else None
        if process.is_run:
            self._run_wrote(number, process, before, after, now_ms)
            holder = self.holders.get(process.name)
            if holder is not None and self._gives_up(change, before, after):
                holder.holds, holder.released_ms = False, now_ms
        if before is None or after is None or before[0] == after[0]:
            if before and after and after[1] < before[1]:
                self.judge.wrong(3, f"write #{number} counts takers down, from {before[1]} to {after[1]}")
            return
        if before[2]:
            self.judge.world.struck.add("a claim that was not given up was taken over")
        if after[1] != before[1] + 1:
            self.judge.wrong(3, f"write #{number} takes the claim, and counts takers from {before[1]} to {after[1]}")
        if before[2] >= now_ms + process.skew_s * 1000:
            self.judge.wrong(3, f"{process.name} takes a claim that lives for {before[2] - now_ms:.0f} ms more")

    def _run_wrote(
        self,
        number: int,
        process: Process,
        before: tuple[str, int, int] | None,
        after: tuple[str, int, int] | None,
        now_ms: float,
    ) -> None:
        holder = self.holders.get(process.name)
        if after is not None and (before is None or before[0] != after[0]):
            self.holders[process.name] = Holder(now_ms, after[0])
        elif holder is None:
            self.holders[process.name] = Holder(now_ms)
        else:
            holder.since_ms = now_ms
            if before is not None and before[0] != holder.claim:
                self.judge.wrong(3, f"{process.name} makes write #{number} without holding the claim")

    @staticmethod
    def _gives_up(change: Change, before: object, after: tuple[str, int, int] | None) -> bool:
        if change.after is None or status_of(change.after) in TERMINAL:
            return True
        return change.before is not None and (after is None or (before is not None and after[2] == 0))

    def read(self, process: Process) -> None:
        """A process read the head. Where there are no claims, a resume begins so."""
        head = self.judge.head
        if process.kind == "resume" and head is not None and claim_of(head) is None:
            self.holders[process.name] = Holder(self.judge.world.scheduler.now_ms)

    def began(self, call: Called) -> None:
        """A tool begins. Where a run calls it, no other run may be under way."""
        process = call.process
        if not process.is_run or process.name not in self.holders:
            return
        head = self.judge.head
        if head is None or status_of(head) in TERMINAL:
            return
        claim = claim_of(head)
        if claim is None:
            self._began_unclaimed(call, process)
        else:
            self._began_claimed(call, process, claim)

    def _began_claimed(self, call: Called, process: Process, claim: tuple[str, int, int]) -> None:
        """A run may only call while nobody else has taken its task, unless it stood still since it last made sure."""
        holder = next((name for name, other in self.holders.items() if other.claim == claim[0]), None)
        if (
            holder in {None, process.name}
            or claim[2] <= call.began_ms
            or call.began_ms - process.stalled_ms < MARGIN_MS
        ):
            return
        world = self.judge.world
        # One whose clock is fast takes what others hold, and a third may take it from that one.
        if max(abs(process.skew_s), abs(world.processes[str(holder)].skew_s), world.fast_ms / 1000) <= 1:
            self.judge.wrong(3, f"{process.name} calls {call.tool} while {holder} holds the run")

    def _began_unclaimed(self, call: Called, process: Process) -> None:
        """Where items say nothing of claims, runs hold the task from their beginning until they have written."""
        mine = self.holders[process.name]
        mine.holds, mine.since_ms, mine.released_ms = True, call.began_ms, float("inf")
        for name, other in self.holders.items():
            rival = self.judge.world.processes[name]
            is_old = call.began_ms - other.since_ms > self.judge.lease_ms - MARGIN_MS
            if name != process.name and other.holds and not rival.actor.killed and not is_old:
                self.judge.wrong(3, f"{process.name} calls {call.tool} while {name} holds the run")

    def ended(self, process: Process) -> None:
        """A process ended."""
        if process.name in self.holders:
            self.holders[process.name].holds = False
            if isinstance(process.answer, Mapping) and process.meta.get("persisted") not in {False, "unknown"}:
                self.holders[process.name].ended_ms = self.judge.world.scheduler.now_ms

    @property
    def abandoned(self) -> bool:
        """Whether the run that began last did not end by a write."""
        return bool(self.holders) and [*self.holders.values()][-1].released_ms == float("inf")

    def refused(self, process: Process) -> None:
        """A resume was told that another run holds the task."""
        *_, last = self.holders.values()
        if min(last.released_ms, last.ended_ms) < process.asked_ms and self.judge.world.fast_ms <= 1_000:
            self.judge.wrong(10, f"{process.name} is told that another run holds the task, and that has ended")

    @staticmethod
    def told(item: Item) -> str:
        """The claim in an item, in short."""
        claim = claim_of(item)
        return "" if claim is None else f"run {claim[0][:6]} n={claim[1]} u={claim[2] % 10**9}"
