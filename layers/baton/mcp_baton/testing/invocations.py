"""The invocations of a server under test: their time, and their sudden end."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import Lock
from types import TracebackType
from typing import Self

from mcp_baton.protocol.json import Json
from mcp_baton.testing.clock import Clock

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
