"""The record of a simulation that the judge reads."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mcp_baton.exceptions import ProtocolError
from mcp_baton.protocol.json import Json, JsonObject
from tests.simulation.faults import Fault
from tests.simulation.scheduler import Actor

if TYPE_CHECKING:
    from mcp_baton.stores import DynamoDBStore
    from mcp_baton.tasks.dynamodb.items import Limits
    from tests.simulation.client import SentRequest


@dataclass(slots=True)
class ToolCall:
    """One call of a tool.

    Attributes:
        serial: The call's number, which its result contains.
        key: The call's `ctx.idempotency_key`; `None` if it has none.
        has_result: Whether its caller received a result, not an error or a timeout.
        has_outcome: Whether its caller received the outcome, a result or an error.
    """

    serial: int
    process: "Process"
    tool: str
    arguments: dict[str, Json]
    key: str | None
    began_ms: float
    has_result: bool = False
    has_outcome: bool = False


@dataclass(slots=True)
class Container:
    """A Lambda execution environment. It serves invocations one after another.

    Attributes:
        edited: Whether it has the definitions of the second deployment.
        skew_s: How far its wall clock is ahead, seconds.
        stopped_s: For how long its monotonic clock has stopped, seconds.
    """

    edited: bool
    limits: "Limits"
    skew_s: float
    stopped_s: float = 0.0
    store: "DynamoDBStore | None" = None
    processes: list["Process"] = field(default_factory=list)

    @property
    def actors(self) -> list[Actor]:
        """The last invocation, and the threads that all invocations have started."""
        return [self.processes[-1].actor, *(child for process in self.processes for child in process.actor.children)]

    def freeze(self, *, frozen: bool) -> None:
        """Freeze or resume the threads that the invocations left behind."""
        for actor in self.actors:
            actor.frozen = frozen

    def kill(self) -> None:
        for actor in self.actors:
            actor.kill()


@dataclass(slots=True)
class Process:
    """One invocation.

    Attributes:
        ends_ms: When Lambda stops it; `None` if it has more time than it can need.
        is_unrelated: Whether it does not concern the task of the simulation.
        writes: The number of writes when it began.
        ended_writes: The number of writes when it replied.
        fast_ms: How far its clock was ahead when it began, milliseconds.
        created: The sort key of the task that it created.
        stalled_ms: When it last continued after a stall.
        clock_read_ms: When it last read its wall clock.
        shown_ms: The latest time that its wall clock has shown.
        checked_ms: When it had last read its wall clock before it started a tool's thread.
        asked_ms: When its last request reached the store.
        named_step: The step that its call names, or the element of a list: `ann`, or `mails/3`.
    """

    kind: str
    actor: Actor
    ends_ms: float | None
    began_ms: float
    is_run: bool
    owner: str
    is_unrelated: bool = False
    task_id: str = ""
    container: Container | None = None
    writes: int = 0
    ended_writes: int = 0
    fast_ms: float = 0.0
    created: str | None = None
    faults: list[Fault] = field(default_factory=list)
    requests: list["SentRequest"] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    stalled: bool = False
    stalled_ms: float = float("-inf")
    clock_read_ms: float = float("-inf")
    shown_ms: float = float("-inf")
    checked_ms: float = float("-inf")
    asked_ms: float = float("-inf")
    answer: JsonObject | ProtocolError | None = None
    named_step: str = ""

    @property
    def name(self) -> str:
        return self.actor.name

    @property
    def skew_s(self) -> float:
        return self.container.skew_s if self.container else 0.0

    def wall_clock_ms(self, now_ms: float) -> float:
        """Return the time by its wall clock, or the latest time that the clock has shown, because it may have
        stopped."""
        return max(now_ms + self.skew_s * 1000, self.shown_ms)

    @property
    def meta(self) -> Mapping[str, Any]:
        if not isinstance(self.answer, Mapping):
            return {}
        meta = self.answer.get("_meta")
        return meta if isinstance(meta, Mapping) else {}


@dataclass(frozen=True, slots=True)
class BrokenInvariant:
    number: int
    description: str

    def __str__(self) -> str:
        return f"invariant {self.number}: {self.description}"
