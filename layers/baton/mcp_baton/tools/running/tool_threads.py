"""Threads for the author's functions. The request's thread meanwhile delivers their notifications to the client.

Only the request's thread writes to the client. It delivers notifications, keeps a quiet stream alive, and abandons the
function when its time is over. A `def` runs in a thread of this module, an `async def` on the process's event loop.

Python cannot stop a thread. An abandoned function keeps running and holds memory until it ends. A function with many
abandoned threads is not called again (docs/tools.md, Errors).
"""

import math
import os
import queue
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextvars import copy_context
from functools import partial
from typing import Any, Final, Protocol

from msgspec import Struct

from mcp_baton.exceptions import Abandoned
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.transport.exchange import KEEP_ALIVE_S

MAX_ABANDONED: Final = 10
"""A function with this many abandoned threads is not called again."""


class AbandonedThreads:
    """Counts abandoned threads by the function that they run. Thread-safe."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        """Guards the counts and the states of tool threads."""
        self._running: dict[int, int] = {}
        self._new = 0

    def count(self, function: object) -> int:
        """Return how many abandoned threads still run the function."""
        return self._running.get(id(function), 0)

    def take_count(self) -> int:
        """Return how many threads were abandoned since the last call of this method."""
        if not self._new:
            return 0
        with self.lock:
            count, self._new = self._new, 0
        return count

    def add(self, function: object, change: int) -> None:
        """Count an abandoned thread (1), or the end of one (-1). The caller holds the lock."""
        count = self._running.pop(id(function), 0) + change
        if count:
            self._running[id(function)] = count
        self._new += change > 0

    def forget(self) -> None:
        """Reset the counts in a forked process. It has none of the threads, and a thread of its parent may hold the
        lock."""
        self.lock = threading.Lock()
        self._running.clear()
        self._new = 0


ABANDONED = AbandonedThreads()
"""The threads of this process."""


class Returned(Struct, frozen=True):
    value: object


class Raised(Struct, frozen=True):
    error: BaseException


class TimedOut(Struct, frozen=True):
    """The function was still running when its time was over. It was abandoned."""

    limit_s: float


class NotStarted(Struct, frozen=True):
    """The time or the task ended before the function started. The function does not run."""

    waits_for: str | None = None


type Ending = Returned | Raised | TimedOut | NotStarted
"""How the call of a function ended."""

type Mail = Returned | Raised | Callable[["Listener"], None]
"""How the function ended, or what the request's thread sends for it."""


class ToolThread:
    """One call of a function in another thread: what it sends to the request's thread, whether it has started, and
    whether it was abandoned. An asynchronous function runs in the thread of the event loop.

    Args:
        function: The author's function. Its abandoned threads are counted.
    """

    __slots__ = ("_function", "_is_abandoned", "_is_decided", "_is_running", "_mail")

    def __init__(self, function: object) -> None:
        self._function = function
        self._mail: queue.SimpleQueue[Mail] = queue.SimpleQueue()
        self._is_decided = self._is_running = self._is_abandoned = False

    # For the thread of the function

    def run(self, function: Callable[..., object], arguments: Mapping[str, Any]) -> object:
        """Call a function in this thread, and count the thread if it is abandoned meanwhile. Raises `Abandoned` if it
        was abandoned before."""
        with ABANDONED.lock:
            self._is_running = not self._is_abandoned
        if not self._is_running:
            raise Abandoned
        try:
            return function(**arguments)
        finally:
            with ABANDONED.lock:
                self._is_running = False
                if self._is_abandoned:
                    ABANDONED.add(self._function, -1)

    def unless_given_up(self, function: Callable[..., Any], *, is_async: bool) -> Callable[..., Any]:
        """Wrap a function, so that it does not start after it was given up (`decide`), and ends with the last item of
        its generator."""

        def start(**arguments: Any) -> Any:
            if not self.decide():
                raise Abandoned
            return (self._await_whole if is_async else self._read_whole)(function(**arguments))

        return start

    def _read_whole(self, value: object) -> object:
        """Read a generator, or another iterator, as a list: its code needs the dependencies and the `Context` of the
        call, and its time limit. One that was abandoned is read no further."""
        if not isinstance(value, Iterator):
            return value
        items = list[object]()
        for item in value:
            if self._is_abandoned:
                getattr(value, "close", lambda: None)()
                raise Abandoned
            items.append(item)
        return items

    async def _await_whole(self, coroutine: Awaitable[object]) -> object:
        return self._read_whole(await coroutine)

    def notify(self, method: str, params: dict[str, Json]) -> None:
        self._mail.put(lambda listener: listener.notify(method, params))

    def request(self, identifier: str, method: str, params: JsonObject) -> None:
        self._mail.put(lambda listener: listener.request(identifier, method, params))

    def returned(self, value: object) -> None:
        self._mail.put(Returned(value))

    def raised(self, error: BaseException) -> None:
        self._mail.put(Raised(error))

    # For the thread of the request

    def next(self, timeout_s: float) -> Mail | None:
        """Wait for what the function sends, or for its end; `None` if nothing comes in time."""
        try:
            return self._mail.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def abandon(self) -> None:
        """Stop waiting for the thread. Does nothing if it has ended."""
        with ABANDONED.lock:
            self._is_abandoned = True
            if self._is_running:
                ABANDONED.add(self._function, 1)

    # For both

    def decide(self) -> bool:
        """Decide whether the function starts: its thread lets it start, the thread of the request gives it up. Returns
        `True` only for the first of both."""
        with ABANDONED.lock:
            was_decided, self._is_decided = self._is_decided, True
        return not was_decided


class Listener(Protocol):
    """Receives the notifications and questions of a running function."""

    @property
    def gone(self) -> bool: ...

    def notify(self, method: str, params: dict[str, Json]) -> None: ...

    def request(self, identifier: str, method: str, params: JsonObject) -> None: ...

    def keep_alive(self) -> None:
        """Send a comment, so that the connection is not closed as idle."""


def no_pulse() -> float:
    return KEEP_ALIVE_S


class CallerGone(Exception):
    """The client disconnected, and the function was abandoned."""


def run_and_deliver(
    function: Callable[..., object],
    arguments: dict[str, Any],
    thread: ToolThread,
    listener: Listener,
    *,
    is_async: bool,
    left_s: Callable[[], float | None],
    stay: bool,
    pulse: Callable[[], float] = no_pulse,
) -> Ending:
    """Run a function until it ends or its time is over. Raises `CallerGone` unless `stay`. `pulse` returns infinity
    if the function must not start."""
    remaining_s = limit_s = left_s()
    # Before the function starts, `pulse` may find that the task has ended.
    due_s = math.inf if remaining_s is not None and remaining_s <= 0 else pulse()
    if due_s == math.inf:
        return NotStarted()
    if listener.gone and not stay:
        raise CallerGone  # nobody would get the result
    wait_s = min(KEEP_ALIVE_S, due_s)
    cancel = (_start_coroutine if is_async else _start_thread)(function, arguments, thread)
    while True:
        mail = thread.next(wait_s if remaining_s is None else min(wait_s, remaining_s))
        match mail:
            case Returned() | Raised():
                return mail  # even if the time is over by now: the function has had its effect
            case None:
                listener.keep_alive()  # a proxy would close a connection that is silent for longer
            case send:
                send(listener)
        remaining_s = left_s()
        if remaining_s is not None and remaining_s <= 0:
            # The function may be about to start, or wait for its dependencies. Only one of both threads decides.
            was_started = not thread.decide()
            cancel()
            return TimedOut(limit_s or 0.0) if was_started else NotStarted()
        # Call `pulse` after each message, too: a function that sends many must not delay it.
        wait_s = min(KEEP_ALIVE_S, pulse())
        if listener.gone and not stay:
            thread.decide()
            cancel()
            raise CallerGone


def _start_coroutine(
    function: Callable[..., object], arguments: dict[str, Any], thread: ToolThread
) -> Callable[[], object]:
    from mcp_baton.tools.running.event_loop import start

    return start(function, arguments, thread.returned, thread.raised)


def _start_thread(function: Callable[..., object], arguments: dict[str, Any], thread: ToolThread) -> Callable[[], None]:
    run_in_thread(partial(run_and_report, function, arguments, thread))
    return lambda: None


def run_in_thread(job: Callable[[Callable[[], None]], None]) -> None:
    """Run a job in another thread, with the context of this one. The job calls its argument when the thread is free
    again."""
    try:
        pooled = _idle.pop()  # the one that was used last
    except IndexError:
        pooled = _PooledThread()
    pooled.take(partial(copy_context().run, job, partial(_idle.append, pooled)))


def run_and_report(
    function: Callable[..., object], arguments: dict[str, Any], thread: ToolThread, on_end: Callable[[], None]
) -> None:
    """Run a `def`, call `on_end`, and send the return value or the exception to the request's thread."""
    try:
        value = thread.run(function, arguments)
    except BaseException as error:  # noqa: BLE001 - the request's thread raises it
        on_end()
        thread.raised(error)
    else:
        on_end()
        thread.returned(value)


class _PooledThread:
    """A thread that runs one job at a time and is kept for the next. It is a daemon, because an abandoned tool must not
    keep the process alive."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.take = self._jobs.put
        threading.Thread(target=self._work, name="baton-tool", daemon=True).start()

    def _work(self) -> None:
        while True:
            self._jobs.get()()


_idle: list[_PooledThread] = []
"""The threads without a job. `pop` and `append` are atomic."""

if hasattr(os, "register_at_fork"):  # threads are not copied
    os.register_at_fork(after_in_child=_idle.clear)
    os.register_at_fork(after_in_child=ABANDONED.forget)
