"""The response of a runtime to one invocation, as the Runtime API emulator receives it, byte for byte."""

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

PATIENCE_S = 60.0
"""The time that a test waits for an expected event, seconds."""


@dataclass(frozen=True, slots=True)
class Reaction:
    """How the Runtime API reacts to a response.

    Attributes:
        status: The HTTP status of its reply.
        after_chunks: React after this number of chunks instead of at the end of the response.
        hang_up: Close the connection instead of replying.
        then_close: Reply, then close the connection without announcing it.
        headers: More headers of the reply.
    """

    status: int = 202
    after_chunks: int | None = None
    hang_up: bool = False
    then_close: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)


class Delivery:
    """The response to one invocation, while it arrives and afterwards.

    Attributes:
        kind: `response` or `error`; empty until a response starts.
        headers: The request's headers, names in lower case.
        chunks: The chunks of the body; one element if the body was not chunked.
        trailers: The trailers, names in lower case.
        connection: The number of the connection on which the response arrived.
        whole: Whether the response arrived completely.
        at: `time.perf_counter()` when the response was complete.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._closed = False
        self.whole = False
        self.kind = ""
        self.headers: dict[str, str] = {}
        self.chunks: list[bytes] = []
        self.trailers: dict[str, str] = {}
        self.connection = 0
        self.at = 0.0

    @property
    def body(self) -> bytes:
        return b"".join(self.chunks)

    @property
    def prelude(self) -> dict[str, object]:
        """The JSON before the eight NUL bytes of a streamed response."""
        prelude: dict[str, object] = json.loads(self.body.split(b"\0" * 8, 1)[0])
        return prelude

    @property
    def streamed(self) -> bytes:
        """The body after the eight NUL bytes."""
        return self.body.split(b"\0" * 8, 1)[1]

    def json(self) -> object:
        return json.loads(self.body)

    def begin(self, kind: str, headers: dict[str, str], connection: int) -> None:
        with self._changed:
            self.kind, self.headers, self.connection = kind, headers, connection
            self._changed.notify_all()

    def add(self, chunk: bytes) -> None:
        with self._changed:
            self.chunks.append(chunk)
            self._changed.notify_all()

    def finish(self, trailers: dict[str, str]) -> None:
        """Mark the response as complete and acknowledged."""
        with self._changed:
            self.at = time.perf_counter()
            self.trailers = trailers
            self.whole = True

    def close(self) -> None:
        """Mark the end: no more data will arrive."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def wait(self, patience_s: float = PATIENCE_S) -> "Delivery":
        """Wait until no more data will arrive."""
        self._await(lambda: self._closed, "the answer did not end", patience_s)
        return self

    def wait_chunks(self, count: int) -> list[bytes]:
        """Wait until this number of chunks has arrived."""
        self._await(lambda: len(self.chunks) >= count, f"fewer than {count} chunks came")
        return self.chunks

    def _await(self, condition: Callable[[], bool], problem: str, patience_s: float = PATIENCE_S) -> None:
        with self._changed:
            if not self._changed.wait_for(condition, patience_s):
                raise TimeoutError(f"{problem}: {self.kind or 'nothing'} with {len(self.chunks)} chunks")
