"""What a function that runs apart from the request's thread says to it, and how such a function ends."""

import queue

from mcp_baton.light_dataclasses import dataclass
from mcp_baton.protocol.json import Json, JsonObject


@dataclass(frozen=True, slots=True)
class Said:
    """A notification to the client."""

    method: str
    params: dict[str, Json]


@dataclass(frozen=True, slots=True)
class Asked:
    """A question to the client."""

    identifier: str
    method: str
    params: JsonObject


@dataclass(frozen=True, slots=True)
class Returned:
    """How a function ended: with a value."""

    value: object


@dataclass(frozen=True, slots=True)
class Raised:
    """How a function ended: with an exception of any kind."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The function was still running when its time was over. It was abandoned."""


@dataclass(frozen=True, slots=True)
class NotBegun:
    """The function's time was over before it began. It was not run."""


type Ending = Returned | Raised | TimedOut | NotBegun
"""How a function ended, as far as the request is concerned."""

type Mail = Said | Asked | Returned | Raised


class Mailbox:
    """What a running function has said, in order, and how it ended."""

    def __init__(self) -> None:
        self._mail: queue.SimpleQueue[Mail] = queue.SimpleQueue()

    def notify(self, method: str, params: dict[str, Json]) -> None:
        """Say something to the client. From any thread."""
        self._mail.put(Said(method, params))

    def request(self, identifier: str, method: str, params: JsonObject) -> None:
        """Ask the client something. From any thread."""
        self._mail.put(Asked(identifier, method, params))

    def returned(self, value: object) -> None:
        """The function returned."""
        self._mail.put(Returned(value))

    def raised(self, error: BaseException) -> None:
        """The function raised."""
        self._mail.put(Raised(error))

    def next(self, timeout_s: float) -> Mail | None:
        """The next mail, or `None` when there was none in time."""
        try:
            return self._mail.get(timeout=timeout_s)
        except queue.Empty:
            return None
