"""Running a function apart from the request's own thread, which meanwhile delivers what it has to say.

The request's thread alone writes to the client: it delivers notifications as they come, keeps a quiet stream alive, and
gives up on the function when its time is over. A `def` runs in a worker thread, an `async def` on one event loop of the
process (so that clients which tools share, bound to that loop, work from call to call).
"""

import logging
import queue
import threading
from collections.abc import Callable, Coroutine
from contextvars import Context as Variables
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Protocol

from mcp_baton.light_dataclasses import dataclass
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.server.running.mailbox import Asked, Ending, Mailbox, NotBegun, Raised, Returned, Said, TimedOut

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop


logger = logging.getLogger(__name__)

KEEP_ALIVE_S = 15.0
"""A quiet stream says something at least this often (docs/http.md)."""


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
        is_async: Whether calling the function makes a coroutine.
        left_s: Seconds that the function may still take; `None` for as long as it likes.
        stay: Let the function finish even when the client has gone.
        pulse: What this thread does meanwhile; gives the seconds after which it is to do it again.

    Raises:
        CallerGone: the client went away, and `stay` is false.
    """
    left = left_s()
    if _is_over(left):
        return NotBegun()
    give_up = (_start_coroutine if is_async else _start_thread)(function, arguments, mailbox)
    while True:
        if listener.gone and not stay:
            give_up()
            raise CallerGone
        wait_s = min(KEEP_ALIVE_S, pulse())
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
        if _is_over(left):
            give_up()
            return TimedOut()


def _is_over(left_s: float | None) -> bool:
    return left_s is not None and left_s <= 0


def _start_thread(function: Callable[..., object], arguments: dict[str, Any], mailbox: Mailbox) -> Callable[[], None]:
    variables = copy_context()
    _idle_worker().take(_Job(variables, function, arguments, mailbox))
    return lambda: None


@dataclass(frozen=True, slots=True)
class _Job:
    variables: Variables
    function: Callable[..., object]
    arguments: dict[str, Any]
    mailbox: Mailbox

    def run(self) -> None:
        try:
            value = self.variables.run(self.function, **self.arguments)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the request's thread must be told
            self.mailbox.raised(error)
        else:
            self.mailbox.returned(value)


class _Worker:
    """A thread that runs one job at a time and is kept for the next. A daemon: an abandoned tool must not keep the
    process alive."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="baton-tool", daemon=True).start()

    def take(self, job: _Job) -> None:
        self._jobs.put(job)

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            try:
                job.run()
            finally:
                del job
                _idle.append(self)


_idle: list[_Worker] = []


def _idle_worker() -> _Worker:
    """The worker that was used last, or a new one when all are busy. `list.pop` and `append` are atomic."""
    try:
        return _idle.pop()
    except IndexError:
        return _Worker()


def _start_coroutine(
    function: Callable[..., object], arguments: dict[str, Any], mailbox: Mailbox
) -> Callable[[], None]:
    import asyncio

    async def run() -> None:
        try:
            coroutine = function(**arguments)
            if not isinstance(coroutine, Coroutine):
                raise TypeError(f"{function!r} was expected to be asynchronous")
            mailbox.returned(await coroutine)
        except asyncio.CancelledError as error:
            mailbox.raised(error)
            raise
        except BaseException as error:  # noqa: BLE001 - raised further, `SystemExit` would end the loop for all tools
            mailbox.raised(error)

    future = asyncio.run_coroutine_threadsafe(run(), _loops.running())
    return lambda: _cancel(future)


def wait_for[Value](coroutine: Coroutine[Any, Any, Value]) -> Value:
    """What a coroutine gives on the loop of asynchronous tools. Not to be called on that loop."""
    import asyncio

    return asyncio.run_coroutine_threadsafe(coroutine, _loops.running()).result()


def _cancel(future: Any) -> None:
    future.cancel()


class _Loops:
    """The process's event loop for asynchronous tools, in a thread of its own, made when the first one is called."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: AbstractEventLoop | None = None

    def running(self) -> "AbstractEventLoop":
        import asyncio

        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=_run_on, args=(self._loop,), name="baton-loop", daemon=True).start()
            return self._loop


def _run_on(loop: "AbstractEventLoop") -> None:
    """Run a loop whatever its tasks do: one that a tool left behind may raise `SystemExit`, or stop the loop."""
    while True:
        try:
            loop.run_forever()
        except BaseException:
            logger.exception("a task of an asynchronous tool ended the event loop; it goes on")


_loops = _Loops()


def event_loop() -> "AbstractEventLoop":
    """The process's event loop, running. Must not be waited for on the loop itself."""
    return _loops.running()
