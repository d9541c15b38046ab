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
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import Any, Final, Protocol

from msgspec import Struct

from mcp_baton.exceptions import Abandoned
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.transport.reply import KEEP_ALIVE_S

MAX_ABANDONED: Final = 10
"""A function with this many abandoned threads is not called again."""


class AbandonedThreads:
    """Counts abandoned threads by the function that they run. Thread-safe."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        """Guards the counts and the states of the watched threads."""
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

    def watch(self, function: object, run: Callable[..., Any]) -> "WatchedThread":
        return WatchedThread(self, function, run)

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


class WatchedThread:
    """A function that one thread calls and another thread may abandon."""

    __slots__ = ("_function", "_is_abandoned", "_is_running", "_run", "_threads")

    def __init__(self, threads: AbandonedThreads, function: object, run: Callable[..., Any]) -> None:
        self._threads, self._function, self._run = threads, function, run
        self._is_running = self._is_abandoned = False

    def __call__(self, /, **arguments: Any) -> Any:
        with self._threads.lock:
            self._is_running = not self._is_abandoned
        if not self._is_running:
            raise Abandoned
        try:
            return self._run(**arguments)
        finally:
            with self._threads.lock:
                self._is_running = False
                self._threads.add(self._function, -self._is_abandoned)

    def abandon(self) -> None:
        """Stop waiting for the thread. Does nothing if it has ended."""
        with self._threads.lock:
            self._is_abandoned = True
            if self._is_running:
                self._threads.add(self._function, 1)


THREADS = AbandonedThreads()
"""The threads of this process."""


class SentNotification(Struct, frozen=True):
    method: str
    params: dict[str, Json]


class SentQuestion(Struct, frozen=True):
    identifier: str
    method: str
    params: JsonObject


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


class StartTicket:
    """A ticket that only one of two threads gets: the one that starts the function, or the one that gives it up."""

    __slots__ = ("_ticket",)

    def __init__(self) -> None:
        self._ticket = [True]

    def take(self) -> bool:
        """Take the ticket. Returns `False` if it was taken before."""
        try:
            return self._ticket.pop()  # atomic
        except IndexError:
            return False

    def guard(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function, so that it does not run if the ticket was taken before."""

        def start(**arguments: Any) -> Any:
            if not self.take():
                raise Abandoned
            return function(**arguments)

        return start


type Ending = Returned | Raised | TimedOut | NotStarted
"""How the call of a function ended."""

type Mail = SentNotification | SentQuestion | Returned | Raised


class Mailbox(queue.SimpleQueue[Mail]):
    """The messages of a running function in order, and how it ended."""

    __slots__ = ()

    def notify(self, method: str, params: dict[str, Json]) -> None:
        self.put(SentNotification(method, params))

    def request(self, identifier: str, method: str, params: JsonObject) -> None:
        self.put(SentQuestion(identifier, method, params))

    def returned(self, value: object) -> None:
        self.put(Returned(value))

    def raised(self, error: BaseException) -> None:
        self.put(Raised(error))

    def next(self, timeout_s: float) -> Mail | None:
        try:
            return self.get(timeout=timeout_s)
        except queue.Empty:
            return None


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
    mailbox: Mailbox,
    listener: Listener,
    start: StartTicket,
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
        raise CallerGone
    wait_s = min(KEEP_ALIVE_S, due_s)
    give_up = (_start_coroutine if is_async else _start_thread)(function, arguments, mailbox)
    while True:
        mail = mailbox.next(wait_s if remaining_s is None else min(wait_s, remaining_s))
        match mail:
            case Returned() | Raised():
                return mail
            case None:
                listener.keep_alive()
            case SentNotification(method, params):
                listener.notify(method, params)
            case SentQuestion(identifier, method, params):
                listener.request(identifier, method, params)
        remaining_s = left_s()
        if remaining_s is not None and remaining_s <= 0:
            was_started = not start.take()
            give_up()
            return TimedOut(limit_s or 0.0) if was_started else NotStarted()
        # Call `pulse` after each message, too: a function that sends many must not delay it.
        wait_s = min(KEEP_ALIVE_S, pulse())
        if listener.gone and not stay:
            start.take()
            give_up()
            raise CallerGone


def _start_coroutine(
    function: Callable[..., object], arguments: dict[str, Any], mailbox: Mailbox
) -> Callable[[], None]:
    from mcp_baton.tools.running.event_loop import start

    return start(function, arguments, mailbox.returned, mailbox.raised)


def _start_thread(function: Callable[..., object], arguments: dict[str, Any], mailbox: Mailbox) -> Callable[[], None]:
    run_in_thread(partial(run_and_report, function, arguments, mailbox))
    return lambda: None


def run_in_thread(job: Callable[[Callable[[], None]], None]) -> None:
    """Run a job in another thread, with the context of this one. The job calls its argument when the thread is free
    again."""
    try:
        thread = _idle.pop()  # the one that was used last
    except IndexError:
        thread = _ToolThread()
    thread.take(partial(copy_context().run, job, partial(_idle.append, thread)))


def run_and_report(
    function: Callable[..., object], arguments: dict[str, Any], mailbox: Mailbox, on_end: Callable[[], None]
) -> None:
    """Run a `def`, call `ended`, and put the return value or the exception into the mailbox."""
    try:
        value = function(**arguments)
    except BaseException as error:  # noqa: BLE001 - the request's thread raises it
        on_end()
        mailbox.raised(error)
    else:
        on_end()
        mailbox.returned(value)


class _ToolThread:
    """A thread that runs one job at a time and is kept for the next. It is a daemon, because an abandoned tool must not
    keep the process alive."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.take = self._jobs.put
        threading.Thread(target=self._work, name="baton-tool", daemon=True).start()

    def _work(self) -> None:
        while True:
            self._jobs.get()()


_idle: list[_ToolThread] = []
"""The threads without a job. `pop` and `append` are atomic."""

if hasattr(os, "register_at_fork"):  # threads are not copied
    os.register_at_fork(after_in_child=_idle.clear)
    os.register_at_fork(after_in_child=THREADS.forget)
