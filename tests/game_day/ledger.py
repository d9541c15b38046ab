"""The ledger records the effects of the tools outside of Baton, and tells each container its clock."""

import json
import random
import threading
from dataclasses import dataclass, field
from typing import Any

from emulators.answering import Answer, Request

LOST_ANSWER_SHARE = 0.02
"""The share of effects that happen although the tool gets no answer."""
WRONG_CLOCK_SHARE = 0.3
"""The share of containers whose clock is wrong."""


@dataclass
class Effect:
    """The effect of a provider for one idempotency key."""

    receipt: int
    tool: str
    order: str
    details: dict[str, Any]
    calls: int = 1


@dataclass
class Ledger:
    """The effects, and the clocks of the containers.

    Attributes:
        max_ms: By how much a clock may be wrong.
        address: Where containers find the ledger.
        effects: Each effect, by its idempotency key.
        mixed_keys: Keys that came with two different calls.
        addresses: The addresses to which the supplier has not sent a callback yet, with their orders.
        answers_lost: How many tools got no answer about their effect.
        wrong_clocks: How many times a clock was set wrong.
        healed: Every tool gets its answer, and the right time.
    """

    rng: random.Random
    max_ms: int
    address: str = ""
    effects: dict[str, Effect] = field(default_factory=dict)
    mixed_keys: list[str] = field(default_factory=list)
    addresses: list[tuple[str, str]] = field(default_factory=list)
    answers_lost: int = 0
    wrong_clocks: int = 0
    healed: bool = False
    _clocks: dict[str, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def receive(self, report: Request) -> Answer | None:
        """Receive a report of a tool. Return the answer, or None if the answer must be lost."""
        body = json.loads(report.body)
        with self._lock:
            answer = {"clock_ms": 0 if self.healed else self._clock_error(report.headers["x-container"])}
            if report.target == "/addresses":
                self.addresses.append((body["order"], body["address"]))
            elif report.target == "/effects":
                answer["receipt"] = self._record_effect(**body).receipt
                if not self.healed and self.rng.random() < LOST_ANSWER_SHARE:
                    self.answers_lost += 1
                    return None
            return Answer.json(answer)

    def move_clocks(self) -> None:
        """Give each container another clock, from its next report on."""
        with self._lock:
            self._clocks.clear()

    def heal(self) -> None:
        """Answer every tool, and set right the clock of every new container."""
        self.healed = True

    def _clock_error(self, container: str) -> int:
        if container not in self._clocks:
            is_wrong = self.rng.random() < WRONG_CLOCK_SHARE
            self._clocks[container] = self.rng.randint(-self.max_ms, self.max_ms) if is_wrong else 0
            self.wrong_clocks += is_wrong
        return self._clocks[container]

    def _record_effect(self, key: str, tool: str, order: str, **details: Any) -> Effect:
        effect = self.effects.get(key)
        if effect is None:
            effect = self.effects[key] = Effect(len(self.effects) + 1, tool, order, details)
            return effect
        effect.calls += 1
        if (effect.tool, effect.order, effect.details) != (tool, order, details):
            self.mixed_keys.append(key)
        return effect
