"""Which faults befall a simulation, drawn from its seed."""

from dataclasses import dataclass
from enum import Enum, auto
from random import Random


class Fault(Enum):
    """What can befall a request to the store."""

    @property
    def reported(self) -> str:
        """The fault in words, for counts of seeds."""
        return WORDS[self]

    LOST_REQUEST = auto()
    """It never arrives: the client waits, and hears nothing."""
    LOST_REPLY = auto()
    """It is made, and the client hears nothing."""
    LATE = auto()
    """The client hears nothing; the request is made some seconds later."""
    THROTTLED = auto()
    """It is refused for want of capacity."""
    HOT = auto()
    """It is refused since its partition is asked for too much, for a few seconds."""
    BROKEN = auto()
    """DynamoDB answers 500. Whether the request was made is anybody's guess: here it was, half of the time."""
    KILLED_BEFORE = auto()
    """The process ends as the request is sent."""
    KILLED_AFTER = auto()
    """The process ends when the request was made, before it hears so."""
    STALLED_BEFORE = auto()
    """The process stands still before it sends the request."""
    STALLED_AFTER = auto()
    """The process stands still when the request was made."""


WORDS = {
    Fault.LOST_REQUEST: "a request was lost",
    Fault.LOST_REPLY: "the answer to a request that was made was lost",
    Fault.LATE: "a request arrived late",
    Fault.THROTTLED: "a request was throttled",
    Fault.HOT: "a partition was hot",
    Fault.BROKEN: "DynamoDB answered 500",
    Fault.KILLED_BEFORE: "a process was killed before a request or call",
    Fault.KILLED_AFTER: "a process was killed after a request or call",
    Fault.STALLED_BEFORE: "a process stood still",
    Fault.STALLED_AFTER: "a process stood still",
}
LOSSES = (Fault.LOST_REQUEST, Fault.LOST_REPLY, Fault.LATE, Fault.THROTTLED, Fault.BROKEN)
KILLS = (Fault.KILLED_BEFORE, Fault.KILLED_AFTER)
STALLS = (Fault.STALLED_BEFORE, Fault.STALLED_AFTER)
GROUPS = (LOSSES, KILLS, STALLS)
LAGS_MS = (0.0, 0.0, 100.0, 1_000.0, 20_000.0)
HOT_MS = (0.0,) * 7 + (1_000.0, 3_000.0, 30_000.0)
SKEWS_S = (0.0, 0.0, 1.0, -1.0, 300.0, -300.0)


@dataclass(slots=True)
class Weather:
    """The chances of faults in one simulation. Most simulations have few kinds of them, so that each gets far.

    Attributes:
        kinds: The faults that a request can have, each as likely as the others.
        chance: Of a fault, for a request or a tool's call.
        burst: How many further requests of a process fail in the same way, once one has.
        freezes: Whether clocks can stand still with their processes.
        stale: The chance that a read which is not consistent returns old data.
    """

    rng: Random
    kinds: tuple[Fault, ...]
    chance: float
    burst: int
    skewed: bool
    freezes: bool
    stale: float
    over: bool = False

    @classmethod
    def drawn(cls, rng: Random) -> "Weather":
        """The weather of a seed: one seed in sixteen is calm."""
        groups = rng.choice(((LOSSES,), (LOSSES,), (KILLS,), (STALLS,), (LOSSES, KILLS), (KILLS, STALLS), GROUPS))
        kinds = [kind for group in groups for kind in group if rng.random() < 0.7]
        calm = rng.random() < 0.0625
        chance = 0.0 if calm else rng.choice((0.05, 0.1, 0.2, 0.35))
        skewed, freezes, stale = rng.random() < 0.25, rng.random() < 0.25, rng.choice((0.0, 0.3, 0.7))
        burst = rng.choice((0, 0, 0, 1, 2, 5))
        return cls(rng, tuple(kinds), chance, burst, skewed=skewed, freezes=freezes, stale=stale)

    def strikes(self) -> Fault | None:
        """The fault that befalls the next request, if one does."""
        if self.over or not self.kinds or self.rng.random() >= self.chance:
            return None
        return self.rng.choice(self.kinds)

    def among(self, faults: tuple[Fault, ...]) -> bool:
        """Whether one of these befalls what is about to happen."""
        known = [fault for fault in faults if fault in self.kinds]
        return bool(known) and not self.over and self.rng.random() < self.chance * len(known) / len(self.kinds)

    def lag_ms(self) -> float:
        """How old the data is that a read returns which is not consistent, milliseconds."""
        return self.rng.choice(LAGS_MS) if self.rng.random() < self.stale else 0.0

    def skew_s(self) -> float:
        """How far a process' clock is ahead, seconds."""
        return self.rng.choice(SKEWS_S) if self.skewed else 0.0

    def stall_s(self) -> float:
        """For how long a process stands still: below, about or far beyond a lease."""
        return self.rng.choice((1.0, 10.0, 20.0, 44.0, 46.0, 60.0, 120.0))
