"""How a call waits for something asynchronous: on the process's event loop, or blocking its own thread meanwhile."""

from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, Self

from mcp_baton.exceptions import Abandoned
from mcp_baton.server.running.abandoned import THREADS
from mcp_baton.server.running.tool_threads import in_a_thread

if TYPE_CHECKING:
    from concurrent.futures import Future


class TookTooLong(Exception):
    """What was waited for took longer than it may."""


class Waiting(Protocol):
    """How something asynchronous is waited for."""

    def within(self, limit_s: float) -> Self:
        """The same, where nothing may take longer than so many seconds."""

    async def run[T](self, coroutine: Coroutine[Any, Any, T]) -> T:
        """What a coroutine returns. It runs on the process's loop.

        Raises:
            TookTooLong: it took longer than the limit, and was cancelled.
        """

    def call[T](self, factory: object, function: Callable[[], T], undo: Callable[[T], None]) -> T:
        """What a plain function returns.

        Args:
            factory: The author's function that it calls.
            function: The function.
            undo: Takes what the function returns after the limit.

        Raises:
            TookTooLong: it took longer than the limit, and was abandoned.
        """

    async def wait(self, settled: "Future[None]", limit_s: float) -> bool:
        """Whether another call has made, or failed to make, within so many seconds what this one needs, too."""


class OnTheLoop:
    """For what runs on the process's loop itself.

    Args:
        limit_s: How long a coroutine may take, seconds; `None` for as long as it likes.
    """

    def __init__(self, limit_s: float | None = None) -> None:
        self._limit_s = limit_s

    def within(self, limit_s: float) -> "OnTheLoop":
        """The same with a limit."""
        return OnTheLoop(limit_s)

    async def run[T](self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Await it."""
        import asyncio

        limit = asyncio.timeout(self._limit_s)
        try:
            async with limit:
                return await coroutine
        except TimeoutError as error:
            if limit.expired():
                raise TookTooLong from error
            raise

    def call[T](self, _factory: object, function: Callable[[], T], _undo: Callable[[T], None]) -> T:
        """Call it here, without a limit: it may need the loop. If it takes long, it blocks the loop (`event_loop`)."""
        return function()

    async def wait(self, settled: "Future[None]", limit_s: float) -> bool:
        """Let other tasks run meanwhile: one of them may be what settles it."""
        import asyncio

        done, _ = await asyncio.wait([asyncio.wrap_future(settled)], timeout=limit_s)
        return bool(done)


class InItsThread:
    """For a thread other than the loop's, which blocks until what it waits for is there. Nothing is ever suspended.

    Args:
        limit_s: How long a coroutine or a function may take, seconds; `None` for as long as it likes.
    """

    def __init__(self, limit_s: float | None = None) -> None:
        self._limit_s = limit_s

    def within(self, limit_s: float) -> "InItsThread":
        """The same with a limit."""
        return InItsThread(limit_s)

    async def run[T](self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Have the loop run it."""
        from mcp_baton.server.running.event_loop import begin

        return _result_of(begin(coroutine), self._limit_s)

    def call[T](self, factory: object, function: Callable[[], T], undo: Callable[[T], None]) -> T:
        """Call it here; with a limit, in another thread, which is left running when it takes too long."""
        return function() if self._limit_s is None else _in_another_thread(factory, function, undo, self._limit_s)

    async def wait(self, settled: "Future[None]", limit_s: float) -> bool:
        """Block."""
        from concurrent.futures import wait

        return bool(wait([settled], limit_s).done)


def _in_another_thread[T](factory: object, function: Callable[[], T], undo: Callable[[T], None], limit_s: float) -> T:
    from concurrent.futures import Future, InvalidStateError

    outcome: Future[T] = Future()

    def make() -> None:
        try:
            value = function()
        except BaseException as error:  # noqa: BLE001 - the thread that waits raises it
            with suppress(InvalidStateError):
                outcome.set_exception(error)
            return
        try:
            outcome.set_result(value)
        except InvalidStateError:
            undo(value)

    thread = THREADS.watch(factory, make)

    def job(free: Callable[[], None]) -> None:
        with suppress(Abandoned):  # before it began
            thread()
        free()

    in_a_thread(job)
    try:
        return _result_of(outcome, limit_s)
    except TookTooLong:
        thread.abandon()
        raise


def _result_of[T](future: "Future[T]", limit_s: float | None) -> T:
    try:
        return future.result(limit_s)
    except TimeoutError as error:
        if not future.cancel():  # it has ended, perhaps by a `TimeoutError` of its own
            return future.result()
        raise TookTooLong from error


def without_a_loop[T](coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that is never suspended, without a loop."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        value: T = done.value
        return value
    coroutine.close()
    raise RuntimeError("a coroutine that should have waited in its thread was suspended")
