"""What happened in a simulation, as its judge sees it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mcp_baton.exceptions import ProtocolError
from mcp_baton.protocol.json import Json, JsonObject
from tests.simulation.faults import Fault
from tests.simulation.scheduler import Actor

if TYPE_CHECKING:
    from mcp_baton.tasks.dynamodb.items import Limits
    from mcp_baton.tasks.dynamodb.store import DynamoDBTaskStore
    from tests.simulation.client import Sent


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
class Container:
    """What Lambda keeps between the invocations that it gives to the same process, one after another.

    Attributes:
        mended: Whether it has the mended definitions.
        skew_s: How far its wall clock is ahead, seconds.
        stood_s: For how long its monotonic clock has stood still, seconds.
    """

    mended: bool
    limits: "Limits"
    skew_s: float
    stood_s: float = 0.0
    store: "DynamoDBTaskStore | None" = None
    processes: list["Process"] = field(default_factory=list)

    @property
    def actors(self) -> list[Actor]:
        """The last invocation, and the threads that it and earlier ones have started."""
        return [self.processes[-1].actor, *(child for process in self.processes for child in process.actor.children)]

    def freeze(self, *, frozen: bool) -> None:
        """Let the threads that its invocations left behind stand still, or go on."""
        for actor in self.actors:
            actor.frozen = frozen

    def kill(self) -> None:
        for actor in self.actors:
            actor.kill()


@dataclass(slots=True)
class Process:
    """One invocation.

    Attributes:
        ends_ms: When Lambda stops it; `None` for one with more time than it can need.
        aside: Whether it is not about the task that the simulation is about.
        writes: How many writes there were when it began.
        ended_writes: How many there were when it answered.
        fast_ms: How far its clock was ahead when it began, milliseconds.
        created: The sort key of the task that it created.
        stalled_ms: When it last went on after that.
        clock_read_ms: When it last read its wall clock.
        shown_ms: The latest time that its wall clock has shown.
        checked_ms: When it had last read it before it started the thread of a tool.
        asked_ms: When a request of its last reached the store.
    """

    kind: str
    actor: Actor
    ends_ms: float | None
    began_ms: float
    is_run: bool
    owner: str
    aside: bool = False
    task_id: str = ""
    container: Container | None = None
    writes: int = 0
    ended_writes: int = 0
    fast_ms: float = 0.0
    created: str | None = None
    faults: list[Fault] = field(default_factory=list)
    requests: list["Sent"] = field(default_factory=list)
    calls: list[Called] = field(default_factory=list)
    stalled: bool = False
    stalled_ms: float = float("-inf")
    clock_read_ms: float = float("-inf")
    shown_ms: float = float("-inf")
    checked_ms: float = float("-inf")
    asked_ms: float = float("-inf")
    answer: JsonObject | ProtocolError | None = None

    @property
    def name(self) -> str:
        return self.actor.name

    @property
    def skew_s(self) -> float:
        return self.container.skew_s if self.container else 0.0

    def own_ms(self, now_ms: float) -> float:
        """The time by its wall clock, or the latest that it has shown: the clock may have stood still since."""
        return max(now_ms + self.skew_s * 1000, self.shown_ms)

    @property
    def meta(self) -> Mapping[str, Any]:
        if not isinstance(self.answer, Mapping):
            return {}
        meta = self.answer.get("_meta")
        return meta if isinstance(meta, Mapping) else {}


@dataclass(frozen=True, slots=True)
class Broken:
    """An invariant that does not hold."""

    number: int
    what: str

    def __str__(self) -> str:
        return f"invariant {self.number}: {self.what}"
