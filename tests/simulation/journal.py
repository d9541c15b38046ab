"""What happened in a simulation, as its judge sees it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mcp_baton.exceptions import ProtocolError
from mcp_baton.protocol.json import Json, JsonObject
from tests.simulation.client import Sent
from tests.simulation.scheduler import Actor


@dataclass(slots=True)
class Called:
    """One call of a tool.

    Attributes:
        serial: Its number, which stands in what it gives back.
        key: Its `ctx.idempotency_key`; `None` where there is none.
        returned: Whether it gave something back to who waited for it, rather than fail or be abandoned.
        heard: Whether its outcome, good or bad, reached who waited for it.
    """

    serial: int
    process: "Process"
    tool: str
    arguments: dict[str, Json]
    key: str | None
    began_ms: float
    returned: bool = False
    heard: bool = False


@dataclass(slots=True)
class Process:
    """One invocation.

    Attributes:
        kind: `start`, `resume`, `call`, `poll`, `cancel`, `complete`.
        skew_s: How far its clock is ahead, seconds.
        ends_ms: When Lambda stops it; `None` for one with more time than it can need.
        is_run: Whether it runs a workflow.
        requests: The requests to the store that it made.
        calls: The calls of tools that it made.
        stalled: Whether it stood still for a while.
        stalled_ms: When it last went on after that.
        asked_ms: When a request of its last reached the store.
        answer: What it answered with, once it has.
    """

    kind: str
    actor: Actor
    skew_s: float
    ends_ms: float | None
    began_ms: float
    is_run: bool
    requests: list[Sent] = field(default_factory=list)
    calls: list[Called] = field(default_factory=list)
    stalled: bool = False
    stalled_ms: float = float("-inf")
    asked_ms: float = float("-inf")
    answer: JsonObject | ProtocolError | None = None

    @property
    def name(self) -> str:
        """What traces call it."""
        return self.actor.name

    @property
    def meta(self) -> Mapping[str, Any]:
        """The `_meta` of its answer."""
        if not isinstance(self.answer, Mapping):
            return {}
        meta = self.answer.get("_meta")
        return meta if isinstance(meta, Mapping) else {}


@dataclass(frozen=True, slots=True)
class Broken:
    """An invariant that does not hold.

    Attributes:
        number: Which one.
        what: How it is broken.
    """

    number: int
    what: str

    def __str__(self) -> str:
        return f"invariant {self.number}: {self.what}"
