"""The Lambda function of a server under test: its clock, its invocations, and their kills."""

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Lock
from types import TracebackType
from typing import Any, Self

from mcp_baton.aws import LambdaContext
from mcp_baton.protocol.json import Json
from mcp_baton.transport.exchange import StreamOpener, stream_opener


class Clock:
    """The clock of the store and of the function, which a test can advance.

    Otherwise it runs as the machine's clock does. No two readings are equal, so that later objects have later times.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._advanced_s = 0.0
        self._read_ms = 0
        self.next_sweep_s: Callable[[], float | None] = lambda: None
        self.sweep: Callable[[], None] = lambda: None

    def advance(self, by: float | timedelta) -> None:
        """Advance the clock by seconds or a `timedelta`. Sweeps restart the background tasks that become due meanwhile,
        as in a stack. Raises `ValueError` if it is negative."""
        seconds = by.total_seconds() if isinstance(by, timedelta) else by
        if not isinstance(seconds, (int, float)) or seconds < 0:
            raise ValueError(f"clock.advance({by!r}): time does not go back; give seconds of 0 or more, or a timedelta")
        while (next_s := self.next_sweep_s()) is not None and next_s <= seconds:
            self.sleep(next_s)
            self.sweep()
            seconds -= next_s
        self.sleep(seconds)

    def sleep(self, seconds: float) -> None:
        with self._lock:
            # Reads in one millisecond have moved the clock ahead. The advance begins at the time that was read last.
            ahead_ms = max(self._read_ms - time.time_ns() // 1_000_000 - round(self._advanced_s * 1000), 0)
            self._advanced_s += seconds + ahead_ms / 1000

    def now_ms(self) -> int:
        """Return the time, epoch milliseconds."""
        with self._lock:
            now_ms = time.time_ns() // 1_000_000 + round(self._advanced_s * 1000)
            self._read_ms = max(self._read_ms + 1, now_ms)
            return self._read_ms

    def monotonic_s(self) -> float:
        """Return monotonic seconds, advances included."""
        return time.monotonic() + self._advanced_s


FUNCTION_TIMEOUT_S = 120.0
"""The time limit of an invocation, as in the template, unless a test sets another."""


class Killed(BaseException):
    """The function was killed during this request, as a test requested. `after` is its last action: a DynamoDB
    operation, or a tool's name. It is a `BaseException`, so that no tool catches it."""

    def __init__(self, after: str) -> None:
        super().__init__(f"the function was killed after {after}")
        self.after = after


class Kill:
    """A kill that a test has requested, `after` a DynamoDB operation or a tool. As a context manager, it ends the block
    when the function is killed. `happened` is whether it has been killed."""

    def __init__(self, after: str, disarm: Callable[[], None]) -> None:
        self.after = after
        self.happened = False
        self._disarm = disarm

    def __repr__(self) -> str:
        return f"Kill(after {self.after}: {'happened' if self.happened else 'pending'})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> bool:
        """End the block at the kill. Raises `AssertionError` if the block ended without a kill."""
        self._disarm()
        if error is None and not self.happened:
            raise AssertionError(f"killed_after({self.after!r}): the block ended without a kill")
        return isinstance(error, Killed)


@dataclass(slots=True, eq=False)
class Invocation:
    """An invocation, with the members of Lambda's context object, and its outcome.

    `is_repeat` is whether the request repeats a call with answers: the call is already noted.
    """

    remaining_ms: Callable[[], int]
    is_repeat: bool = False
    killed_after: str | None = None
    values: list[Json] = field(default_factory=list)
    aws_request_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    @property
    def value(self) -> Json:
        """What the last tool returned; `None` if none did."""
        return self.values[-1] if self.values else None

    def get_remaining_time_in_millis(self) -> int:
        return self.remaining_ms()


_current: ContextVar[Invocation | None] = ContextVar("mcp_baton.testing.invocation", default=None)


class Invocations:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._limit_s: float | None = None
        self._limit_set_at_s = clock.monotonic_s()
        self._kill: Kill | None = None
        self._running: list[Invocation] = []

    def remaining_s(self, seconds: float) -> None:
        self._limit_s, self._limit_set_at_s = seconds, self._clock.monotonic_s()

    def _remaining_ms(self, began_s: float, timeout_s: float) -> int:
        end_s = began_s + timeout_s
        if self._limit_s is not None:
            end_s = max(began_s, self._limit_set_at_s) + self._limit_s
        return max(0, int((end_s - self._clock.monotonic_s()) * 1000))

    @contextmanager
    def begin(self, *, is_repeat: bool, timeout_s: float = FUNCTION_TIMEOUT_S) -> Iterator[Invocation]:
        began_s = self._clock.monotonic_s()
        invocation = Invocation(lambda: self._remaining_ms(began_s, timeout_s), is_repeat)
        self._running.append(invocation)
        token = _current.set(invocation)
        try:
            yield invocation
        finally:
            _current.reset(token)
            self._running.remove(invocation)

    @property
    def current(self) -> Invocation | None:
        """The invocation of the calling code; in a thread without one, the newest."""
        return _current.get() or next(iter(self._running[::-1]), None)

    def kill_after(self, action: str) -> Kill:
        kill = self._kill = Kill(action, self._disarm)
        return kill

    def _disarm(self) -> None:
        self._kill = None

    def note_action(self, action: str) -> None:
        with self._lock:
            kill, invocation = self._kill, self.current
            if kill is None or invocation is None or kill.after != action:
                return
            self._kill, kill.happened = None, True
        invocation.killed_after = action
        raise Killed(action)

    def raise_if_killed(self) -> None:
        """Stop code of a killed invocation."""
        invocation = self.current
        if invocation is not None and invocation.killed_after is not None:
            raise Killed(invocation.killed_after)


type Handler = Callable[[Any, LambdaContext], dict[str, Any]]


class Function:
    """A handler, invoked as Lambda invokes it. After each kill, `make` makes a new one."""

    def __init__(
        self, make: Callable[[], Handler], invocations: Invocations, timeout_s: float = FUNCTION_TIMEOUT_S
    ) -> None:
        self._make = make
        self._timeout_s = timeout_s
        self._invocations = invocations
        self._handler = make()

    def invoke(
        self, event: Any, opener: StreamOpener | None, *, is_repeat: bool = False
    ) -> tuple[dict[str, Any], Invocation]:
        return copy_context().run(self._invoke, event, opener, is_repeat)

    def _invoke(self, event: Any, opener: StreamOpener | None, is_repeat: bool) -> tuple[dict[str, Any], Invocation]:
        stream_opener.set(opener)
        response: dict[str, Any] = {}
        with self._invocations.begin(is_repeat=is_repeat, timeout_s=self._timeout_s) as invocation:
            try:
                response = self._handler(event, invocation)
            except Killed:
                if invocation.killed_after is None:
                    raise
        if invocation.killed_after is not None:
            # A tool or a `finally` may have caught the exception and returned. Its result is discarded.
            self._handler = self._make()
            raise Killed(invocation.killed_after)
        return response, invocation
