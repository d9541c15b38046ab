"""What comes back to the fake Runtime API for one invocation, kept to the byte."""

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

PATIENCE_S = 20.0
"""How long a test waits for what must happen."""


@dataclass(frozen=True, slots=True)
class Reaction:
    """What the Runtime API makes of an answer.

    Attributes:
        status: What it replies.
        after_chunks: React as soon as so many chunks have come, instead of at the answer's end.
        hang_up: Close the connection instead of replying.
        then_close: Reply, then close the connection without having said so.
        headers: More headers of the reply.
    """

    status: int = 202
    after_chunks: int | None = None
    hang_up: bool = False
    then_close: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)


class Delivery:
    """What came back for one invocation, while it comes.

    Attributes:
        kind: `response` or `error`; empty until an answer begins.
        headers: The request's headers, names in lower case.
        chunks: The body, as it was cut on the wire; one piece when it was not chunked.
        trailers: Names in lower case.
        connection: Number of the connection that it came on.
        whole: Whether it came to its proper end.
        at: `time.perf_counter()` when the answer was complete.
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
        """The JSON before the eight NUL bytes of a streamed answer."""
        prelude: dict[str, object] = json.loads(self.body.split(b"\0" * 8, 1)[0])
        return prelude

    @property
    def streamed(self) -> bytes:
        """What follows the eight NUL bytes."""
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
        """The answer has come whole and was acknowledged."""
        with self._changed:
            self.at = time.perf_counter()
            self.trailers = trailers
            self.whole = True

    def close(self) -> None:
        """Nothing more comes."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def wait(self, patience_s: float = PATIENCE_S) -> "Delivery":
        """Wait until nothing more comes."""
        self._await(lambda: self._closed, "the answer did not end", patience_s)
        return self

    def wait_chunks(self, count: int) -> list[bytes]:
        """Wait until so many chunks have come."""
        self._await(lambda: len(self.chunks) >= count, f"fewer than {count} chunks came")
        return self.chunks

    def _await(self, condition: Callable[[], bool], otherwise: str, patience_s: float = PATIENCE_S) -> None:
        with self._changed:
            if not self._changed.wait_for(condition, patience_s):
                raise TimeoutError(f"{otherwise}: {self.kind or 'nothing'} with {len(self.chunks)} chunks")
