"""How a call waits for something asynchronous: on the process's event loop, or blocking its own thread meanwhile."""

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from concurrent.futures import Future


class Waiting(Protocol):
    """How something asynchronous is waited for."""

    async def run[T](self, coroutine: Coroutine[Any, Any, T]) -> T:
        """What a coroutine returns. It runs on the process's loop."""

    async def wait(self, settled: "Future[None]") -> None:
        """Until another call has made, or failed to make, what this one needs, too."""


class OnTheLoop:
    """For what runs on the process's loop itself."""

    async def run[T](self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Await it."""
        return await coroutine

    async def wait(self, settled: "Future[None]") -> None:
        """Let other tasks run meanwhile: one of them may be what settles it."""
        import asyncio

        await asyncio.wrap_future(settled)


class InItsThread:
    """For a thread other than the loop's, which blocks until what it waits for is there. Nothing is ever suspended.

    Args:
        limit_s: How long a coroutine may take, seconds; `None` for as long as it likes.
    """

    def __init__(self, limit_s: float | None = None) -> None:
        self._limit_s = limit_s

    async def run[T](self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Have the loop run it."""
        from mcp_baton.server.running.event_loop import wait_for

        return wait_for(coroutine, self._limit_s)

    async def wait(self, settled: "Future[None]") -> None:
        """Block."""
        settled.result()


def without_a_loop[T](coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that is never suspended, without a loop."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        value: T = done.value
        return value
    coroutine.close()
    raise RuntimeError("a coroutine that should have waited in its thread was suspended")
