"""The Lambda function of a server under test: its time, its invocations, and their sudden end."""

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from threading import Lock
from types import TracebackType
from typing import Any, Self

from mcp_baton.aws import LambdaContext
from mcp_baton.protocol.json import Json
from mcp_baton.transport.stream import StreamOpener, stream_opener


class Clock:
    """The time, which a test can advance: the store's (when tasks expire) and the function's (how much is left of it).

    Between two advances it goes as the machine's does. No two readings are the same, so that what is created later has
    a later time.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._advanced_s = 0.0
        self._read_ms = 0

    def advance(self, seconds: float) -> None:
        """Let this much time pass at once.

        Raises:
            ValueError: the time would go back.
        """
        if seconds < 0:
            raise ValueError(f"clock.advance({seconds}): time does not go back; give seconds of 0 or more")
        with self._lock:
            self._advanced_s += seconds

    def now_ms(self) -> int:
        """The time of day, epoch milliseconds."""
        with self._lock:
            now_ms = time.time_ns() // 1_000_000 + round(self._advanced_s * 1000)
            self._read_ms = max(self._read_ms + 1, now_ms)
            return self._read_ms

    def monotonic_s(self) -> float:
        """Seconds since some moment, advances included."""
        return time.monotonic() + self._advanced_s


TIMEOUT_S = 120.0
"""What an invocation is given unless a test says otherwise; the template's default."""


class Killed(BaseException):
    """The function was killed while it worked on this request, as a test had asked for. A `BaseException`, so that
    no tool swallows it.

    Args:
        after: What had been done last: a DynamoDB operation, or a tool's name.
    """

    def __init__(self, after: str) -> None:
        super().__init__(f"the function was killed after {after}")
        self.after = after


class Kill:
    """A kill that is to come, once. As a context manager: the block is left where the function is killed.

    Attributes:
        after: What it waits for: a DynamoDB operation, or a tool's name.
        happened: Whether the function has been killed.
    """

    def __init__(self, after: str, disarm: Callable[[], None]) -> None:
        self.after = after
        self.happened = False
        self._disarm = disarm

    def __repr__(self) -> str:
        return f"Kill(after {self.after}: {'happened' if self.happened else 'still to come'})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> bool:
        """Take the end of the run for the end of the block.

        Raises:
            AssertionError: the block ended without it.
        """
        self._disarm()
        if error is None and not self.happened:
            raise AssertionError(f"killed_after({self.after!r}): the block ended, and nothing had come to that")
        return isinstance(error, Killed)


@dataclass(slots=True, eq=False)
class Invocation:
    """One invocation: what Lambda's context object says of it, and what became of it.

    Attributes:
        left_ms: Milliseconds until the function is stopped.
        again: Whether it sends a call again, with answers: what the call makes happen has been noted.
        killed_after: After what the function was killed; `None` while it lives.
        value: The value of the tool that was called last.
    """

    left_ms: Callable[[float], int]
    began_s: float
    again: bool = False
    killed_after: str | None = None
    value: Json = None
    aws_request_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until the function is stopped."""
        return self.left_ms(self.began_s)


_current: ContextVar[Invocation | None] = ContextVar("mcp_baton.testing.invocation", default=None)


class Invocations:
    """All invocations of one function.

    Args:
        clock: The time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._given_s: float | None = None
        self._given_at_s = clock.monotonic_s()
        self._kill: Kill | None = None
        self._running: list[Invocation] = []

    def remaining_s(self, seconds: float) -> None:
        """From now on an invocation, one that is under way too, has this much time left."""
        self._given_s, self._given_at_s = seconds, self._clock.monotonic_s()

    def _left_ms(self, began_s: float, timeout_s: float) -> int:
        since_s = began_s if self._given_s is None else max(began_s, self._given_at_s)
        given_s = timeout_s if self._given_s is None else self._given_s
        return max(0, int((given_s - (self._clock.monotonic_s() - since_s)) * 1000))

    @contextmanager
    def begin(self, *, again: bool, timeout_s: float = TIMEOUT_S) -> Iterator[Invocation]:
        """An invocation, while it lasts. It is given this much time unless a test has said otherwise."""
        invocation = Invocation(lambda began_s: self._left_ms(began_s, timeout_s), self._clock.monotonic_s(), again)
        self._running.append(invocation)
        before = _current.set(invocation)
        try:
            yield invocation
        finally:
            _current.reset(before)
            self._running.remove(invocation)

    @property
    def current(self) -> Invocation | None:
        """The invocation that the caller works for; from a thread that does not say so, the one begun last."""
        return _current.get() or next(iter(self._running[::-1]), None)

    def kill_after(self, what: str) -> Kill:
        """Kill the function the next time that it has done this."""
        kill = self._kill = Kill(what, self._disarm)
        return kill

    def _disarm(self) -> None:
        self._kill = None

    def done(self, what: str) -> None:
        """Something was done that a kill may wait for.

        Raises:
            Killed: one did.
        """
        with self._lock:
            kill, invocation = self._kill, self.current
            if kill is None or invocation is None or kill.after != what:
                return
            self._kill, kill.happened = None, True
        invocation.killed_after = what
        raise Killed(what)

    def check(self) -> None:
        """Do nothing for a process that is no more.

        Raises:
            Killed: the invocation that the caller works for was killed.
        """
        invocation = self.current
        if invocation is not None and invocation.killed_after is not None:
            raise Killed(invocation.killed_after)


type Handler = Callable[[dict[str, Any], LambdaContext], dict[str, Any]]


class Function:
    """A handler, invoked as Lambda invokes it.

    Args:
        make: Makes the handler: once, and again for each process that follows one that was killed.
        invocations: Where each invocation is known.
        timeout_s: What each is given, unless a test says otherwise.
    """

    def __init__(self, make: Callable[[], Handler], invocations: Invocations, timeout_s: float = TIMEOUT_S) -> None:
        self._make = make
        self._timeout_s = timeout_s
        self._invocations = invocations
        self._handler = make()

    def invoke(
        self, event: dict[str, Any], opener: StreamOpener | None, *, again: bool = False
    ) -> tuple[dict[str, Any], Invocation]:
        """Have the handler answer an event.

        Args:
            event: The event.
            opener: Opens a stream for the answer, where the client takes one.
            again: Whether it sends a call again, with answers.

        Raises:
            Killed: the function was killed meanwhile.
        """
        return copy_context().run(self._invoke, event, opener, again)

    def _invoke(
        self, event: dict[str, Any], opener: StreamOpener | None, again: bool
    ) -> tuple[dict[str, Any], Invocation]:
        stream_opener.set(opener)
        response: dict[str, Any] = {}
        with self._invocations.begin(again=again, timeout_s=self._timeout_s) as invocation:
            try:
                response = self._handler(event, invocation)
            except Killed:
                if invocation.killed_after is None:
                    raise
        if invocation.killed_after is not None:
            # What runs on, a tool or a finally, may have hidden the end: nothing of it is to be seen.
            self._handler = self._make()
            raise Killed(invocation.killed_after)
        return response, invocation
