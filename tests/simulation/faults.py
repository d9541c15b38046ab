"""Chooses the faults of a simulation from its seed."""

from dataclasses import dataclass
from enum import Enum, auto
from random import Random


class Fault(Enum):
    """A fault that can hit a request to the store."""

    @property
    def description(self) -> str:
        """A description of the fault, for the counts of seeds."""
        return DESCRIPTIONS[self]

    LOST_REQUEST = auto()
    """The request never arrives. The client's request times out."""
    LOST_REPLY = auto()
    """The request is made. The client's request times out."""
    LATE = auto()
    """The client's request times out. The request is made some seconds later."""
    THROTTLED = auto()
    """The request is throttled."""
    HOT = auto()
    """The request is throttled because its partition is too busy for a few seconds."""
    BROKEN = auto()
    """DynamoDB answers 500. The client cannot know whether the request was made; in half of the cases it was."""
    KILLED_BEFORE = auto()
    """The process is killed when it sends the request."""
    KILLED_AFTER = auto()
    """The process is killed after the request was made, before the response arrives."""
    STALLED_BEFORE = auto()
    """The process stalls before it sends the request."""
    STALLED_AFTER = auto()
    """The process stalls after the request was made."""


DESCRIPTIONS = {
    Fault.LOST_REQUEST: "a request was lost",
    Fault.LOST_REPLY: "a response was lost",
    Fault.LATE: "a request arrived late",
    Fault.THROTTLED: "a request was throttled",
    Fault.HOT: "a partition was hot",
    Fault.BROKEN: "DynamoDB answered 500",
    Fault.KILLED_BEFORE: "a process was killed before a request or call",
    Fault.KILLED_AFTER: "a process was killed after a request or call",
    Fault.STALLED_BEFORE: "a process stalled",
    Fault.STALLED_AFTER: "a process stalled",
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
    """The probabilities of faults in one simulation. Most simulations have few kinds of faults, so each kind has
    effects.

    Attributes:
        kinds: The faults that a request can have, all equally likely.
        chance: The probability of a fault, for a request or a tool call.
        burst: After a fault, how many more requests of the process fail in the same way.
        freezes: Whether a process's clock can stop while the process stalls.
        stale: The probability that an eventually consistent read returns old data.
    """

    rng: Random
    kinds: tuple[Fault, ...]
    chance: float
    burst: int
    skewed: bool
    freezes: bool
    stale: float
    is_over: bool = False

    @classmethod
    def choose(cls, rng: Random) -> "Weather":
        """Choose the weather of a seed. One seed in sixteen has no faults."""
        groups = rng.choice(((LOSSES,), (LOSSES,), (KILLS,), (STALLS,), (LOSSES, KILLS), (KILLS, STALLS), GROUPS))
        kinds = [kind for group in groups for kind in group if rng.random() < 0.7]
        calm = rng.random() < 0.0625
        chance = 0.0 if calm else rng.choice((0.05, 0.1, 0.2, 0.35))
        skewed, freezes, stale = rng.random() < 0.25, rng.random() < 0.25, rng.choice((0.0, 0.3, 0.7))
        burst = rng.choice((0, 0, 0, 1, 2, 5))
        return cls(rng, tuple(kinds), chance, burst, skewed=skewed, freezes=freezes, stale=stale)

    def next_fault(self) -> Fault | None:
        """Return the fault of the next request, or `None`."""
        if self.is_over or not self.kinds or self.rng.random() >= self.chance:
            return None
        return self.rng.choice(self.kinds)

    def happens(self, faults: tuple[Fault, ...]) -> bool:
        """Choose whether one of these faults happens now."""
        kinds = [fault for fault in faults if fault in self.kinds]
        return bool(kinds) and not self.is_over and self.rng.random() < self.chance * len(kinds) / len(self.kinds)

    def lag_ms(self) -> float:
        """Choose the age of the data that an eventually consistent read returns, milliseconds."""
        return self.rng.choice(LAGS_MS) if self.rng.random() < self.stale else 0.0

    def skew_s(self) -> float:
        """Choose how far a process's clock is ahead, seconds."""
        return self.rng.choice(SKEWS_S) if self.skewed else 0.0

    def stall_s(self) -> float:
        """Choose how long a process stalls: less than a lease, about a lease, or much longer."""
        return self.rng.choice((1.0, 10.0, 20.0, 44.0, 46.0, 60.0, 120.0))
