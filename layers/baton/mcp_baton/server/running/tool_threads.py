"""Running a function apart from the request's own thread, which meanwhile delivers what it has to say.

The request's thread alone writes to the client: it delivers notifications as they come, keeps a quiet stream alive, and
gives up on the function when its time is over. A `def` runs in a worker thread, an `async def` on the process's event
loop (`event_loop`).
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

MAX_ABANDONED: Final = 10
"""A function that has left so many threads running is not called any more."""


class AbandonedThreads:
    """Counts the threads that were left running, by the function that they run. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[int, int] = {}
        self._new = 0

    def has_too_many(self, function: object) -> bool:
        """Whether a function has left so many threads running that it must not be called again."""
        return self._running.get(id(function), 0) >= MAX_ABANDONED

    def take_new(self) -> int:
        """How many threads were abandoned since this was last asked."""
        if not self._new:
            return 0
        with self._lock:
            new, self._new = self._new, 0
        return new

    def watch(self, function: object, run: Callable[..., Any]) -> "WatchedThread":
        """Watch a thread.

        Args:
            function: The function that the thread is counted for.
            run: What the thread runs.
        """
        return WatchedThread(self, function, run)

    def add(self, function: object, change: int) -> None:
        """Count a thread that was abandoned (1), or one of those that has ended (-1); 0 changes nothing. The lock is
        held."""
        count = self._running.pop(id(function), 0) + change
        if count:
            self._running[id(function)] = count
        self._new += change > 0

    def forget(self) -> None:
        """Begin anew in a process that was forked: it has none of the threads, and one of them may hold the lock."""
        self._lock = threading.Lock()
        self._running.clear()
        self._new = 0

    @property
    def lock(self) -> threading.Lock:
        """Guards the counts and the states of the watched threads."""
        return self._lock


class WatchedThread:
    """What one thread runs: called in that thread, abandoned from another one.

    Args:
        threads: Counts it once it is abandoned.
        function: The function that it is counted for.
        run: What is run.
    """

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
        """Nothing waits for the thread any more. If it has ended, this does nothing."""
        with self._threads.lock:
            self._is_abandoned = True
            if self._is_running:
                self._threads.add(self._function, 1)


THREADS = AbandonedThreads()
"""Those of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=THREADS.forget)


KEEP_ALIVE_S = 15.0
"""A quiet stream says something at least this often (docs/http.md)."""


class Said(Struct, frozen=True):
    """A notification to the client."""

    method: str
    params: dict[str, Json]


class Asked(Struct, frozen=True):
    """A question to the client."""

    identifier: str
    method: str
    params: JsonObject


class Returned(Struct, frozen=True):
    """How a function ended: with a value."""

    value: object


class Raised(Struct, frozen=True):
    """How a function ended: with an exception of any kind."""

    error: BaseException


class TimedOut(Struct, frozen=True):
    """The function was still running when its time was over. It was abandoned.

    Attributes:
        had_s: The time that it had, seconds.
    """

    had_s: float


class NotBegun(Struct, frozen=True):
    """The function's time, or its task, was over before it began. It was not run, and never will be.

    Attributes:
        waits_for: The dependency that was being made for it, by its factory's name.
    """

    waits_for: str | None = None


class Start:
    """Decides whether a function begins or is given up before: whoever takes it first. Safe to use from two threads."""

    __slots__ = ("_ticket",)

    def __init__(self) -> None:
        self._ticket = [True]

    def take(self) -> bool:
        """Whether this is the first time."""
        try:
            return self._ticket.pop()  # atomic
        except IndexError:
            return False

    def guard(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, which begins only if it has not been given up."""
        return partial(self._begin, function)

    def _begin(self, function: Callable[..., Any], /, **arguments: Any) -> Any:
        if not self.take():
            raise Abandoned
        return function(**arguments)


type Ending = Returned | Raised | TimedOut | NotBegun
"""How a function ended, as far as the request is concerned."""

type Mail = Said | Asked | Returned | Raised


class Mailbox(queue.SimpleQueue[Mail]):
    """What a running function has said, in order, and how it ended."""

    __slots__ = ()

    def notify(self, method: str, params: dict[str, Json]) -> None:
        """Say something to the client. From any thread."""
        self.put(Said(method, params))

    def request(self, identifier: str, method: str, params: JsonObject) -> None:
        """Ask the client something. From any thread."""
        self.put(Asked(identifier, method, params))

    def returned(self, value: object) -> None:
        """The function returned."""
        self.put(Returned(value))

    def raised(self, error: BaseException) -> None:
        """The function raised."""
        self.put(Raised(error))

    def next(self, timeout_s: float) -> Mail | None:
        """The next mail, or `None` when there was none in time."""
        try:
            return self.get(timeout=timeout_s)
        except queue.Empty:
            return None


class Listener(Protocol):
    """Where a running function's notifications go."""

    @property
    def gone(self) -> bool:
        """Whether the client has gone away."""

    def notify(self, method: str, params: dict[str, Json]) -> None:
        """Deliver one notification."""

    def request(self, identifier: str, method: str, params: JsonObject) -> None:
        """Deliver a question to the client."""

    def keep_alive(self) -> None:
        """Send something that means nothing, so that the connection is not taken for dead."""


def no_pulse() -> float:
    """Nothing is to be done while a function runs."""
    return KEEP_ALIVE_S


class CallerGone(Exception):
    """The client went away, and the function with it."""


def run_and_deliver(
    function: Callable[..., object],
    arguments: dict[str, Any],
    mailbox: Mailbox,
    listener: Listener,
    start: Start,
    *,
    is_async: bool,
    left_s: Callable[[], float | None],
    stay: bool,
    pulse: Callable[[], float] = no_pulse,
) -> Ending:
    """Run a function until it ends, or its time is over.

    Args:
        function: A `def` or an `async def`.
        arguments: Its keyword arguments.
        mailbox: What the function's `Context` says goes here.
        listener: What is said is delivered here.
        start: Taken when the function begins; taken here when it is given up.
        is_async: Whether calling the function makes a coroutine.
        left_s: Seconds that the function may still take; `None` for as long as it likes.
        stay: Let the function finish even when the client has gone.
        pulse: What this thread does meanwhile. Returns the seconds until it is due again; infinity if the function must
            not begin.

    Raises:
        CallerGone: the client went away, and `stay` is false.
    """
    left = had_s = left_s()
    # Before the function begins, so that it begins with nothing due. A run may learn here that its task is over.
    due_s = math.inf if left is not None and left <= 0 else pulse()
    if due_s == math.inf:
        return NotBegun()
    if listener.gone and not stay:
        raise CallerGone
    wait_s = min(KEEP_ALIVE_S, due_s)
    give_up = (_start_coroutine if is_async else _start_thread)(function, arguments, mailbox)
    while True:
        mail = mailbox.next(wait_s if left is None else min(wait_s, left))
        match mail:
            case Returned() | Raised():
                return mail
            case None:
                listener.keep_alive()
            case Said(method, params):
                listener.notify(method, params)
            case Asked(identifier, method, params):
                listener.request(identifier, method, params)
        left = left_s()
        if left is not None and left <= 0:
            begun = not start.take()
            give_up()
            return TimedOut(had_s or 0.0) if begun else NotBegun()
        # After each mail, too: a function that goes on talking must not put off what is due.
        wait_s = min(KEEP_ALIVE_S, pulse())
        if listener.gone and not stay:
            start.take()
            give_up()
            raise CallerGone


def _start_coroutine(
    function: Callable[..., object], arguments: dict[str, Any], mailbox: Mailbox
) -> Callable[[], None]:
    from mcp_baton.server.running.event_loop import start

    return start(function, arguments, mailbox.returned, mailbox.raised)


def _start_thread(function: Callable[..., object], arguments: dict[str, Any], mailbox: Mailbox) -> Callable[[], None]:
    in_a_thread(partial(run_and_tell, function, arguments, mailbox))
    return lambda: None


def in_a_thread(job: Callable[[Callable[[], None]], None]) -> None:
    """Run a job in another thread, with this one's context. The job calls what it is given when the thread is free
    again."""
    try:
        worker = _idle.pop()  # the one that was used last
    except IndexError:
        worker = _Worker()
    worker.take(partial(copy_context().run, job, partial(_idle.append, worker)))


def run_and_tell(
    function: Callable[..., object], arguments: dict[str, Any], mailbox: Mailbox, ended: Callable[[], None]
) -> None:
    """Run a `def`, and tell how it ended; `ended` is called first."""
    try:
        value = function(**arguments)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the request's thread must be told
        ended()
        mailbox.raised(error)
    else:
        ended()
        mailbox.returned(value)


class _Worker:
    """A thread that runs one job at a time and is kept for the next. It is a daemon, because an abandoned tool must not
    keep the process alive."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self.take = self._jobs.put
        threading.Thread(target=self._work, name="baton-tool", daemon=True).start()

    def _work(self) -> None:
        while True:
            self._jobs.get()()


_idle: list[_Worker] = []
"""The threads without a job. `pop` and `append` are atomic."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)  # threads are not copied
