"""What functions depend on for the whole process: made at its first use, closed when the process ends."""

import atexit
import logging
import threading
import time

from msgspec import Struct

from mcp_baton.exceptions import ToolError
from mcp_baton.server.running.abandoned import MAX_ABANDONED, THREADS
from mcp_baton.server.running.awaiting import InItsThread, TookTooLong, Waiting, without_a_loop
from mcp_baton.server.running.closings import Closings
from mcp_baton.server.schema.provider import Provider, name_of

logger = logging.getLogger(__name__)

CLOSING_S = 5.0
"""How long one asynchronous closing may take when the process ends, seconds."""


class _Making:
    """Something that is being made for the process by one call, while others wait for it.

    Args:
        provider: What it is.
    """

    def __init__(self, provider: Provider) -> None:
        from concurrent.futures import Future

        self._until_s = time.monotonic() + provider.limit_s
        self.took_too_long = False
        self.settled: Future[None] = Future()
        self.settled.set_running_or_notify_cancel()  # a call that is given up must not cancel it for the others

    @property
    def left_s(self) -> float:
        """How long it may still take, seconds."""
        return max(0.0, self._until_s - time.monotonic())


class _Made(Struct, frozen=True):
    value: object


class Kept:
    """What is made once and kept until the process ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[object, _Making | _Made] = {}
        self._closings = Closings()

    async def get(self, provider: Provider, waiting: Waiting) -> object:
        """The process's instance; made now if there is none yet. After a failure the next call tries again.

        Raises:
            ToolError: it took too long, or so many attempts took too long that there is no further one.
        """
        while True:
            with self._lock:
                known = self._known.get(provider.key)
                mine = self._known[provider.key] = _Making(provider) if known is None else known
            match known, mine:
                case _Made(value), _:
                    return value
                case _Making() as other, _:
                    if not await waiting.wait(other.settled, other.left_s) or other.took_too_long:
                        raise _too_slow(provider)
                case _, _Making() as making:
                    return await self._make(provider, making, waiting)

    async def _make(self, provider: Provider, making: _Making, waiting: Waiting) -> object:
        made: _Made | None = None
        try:
            if THREADS.has_too_many(provider.factory):
                raise _given_up(provider)
            arguments = {name: await self.get(need, waiting) for name, need in provider.needs}
            made = _Made(await self._closings.make(provider, arguments, waiting.within(provider.timeout_s)))
            return made.value
        except TookTooLong as error:
            making.took_too_long = True
            raise _too_slow(provider) from error
        finally:
            with self._lock:
                if made is None:
                    del self._known[provider.key]
                else:
                    self._known[provider.key] = made
            making.settled.set_result(None)

    def close(self) -> None:
        """Close everything, the newest first."""
        without_a_loop(self._closings.close(None, InItsThread(CLOSING_S)))


def _too_slow(provider: Provider) -> ToolError:
    name, limit_s = name_of(provider.factory), provider.timeout_s
    logger.error(
        "the dependency %s was not ready after %g s: give the connections that it opens time limits of their own, or "
        "give Depends(%s, scope='process') a longer timeout_s",
        *(name, limit_s, name),
    )
    return ToolError(f"the dependency {name!r} was not ready after {limit_s:g} s. The function was not run.")


def _given_up(provider: Provider) -> ToolError:
    name = name_of(provider.factory)
    logger.error("the dependency %s is not made any more: %s attempts at it hang", name, MAX_ABANDONED)
    return ToolError(
        f"the dependency {name!r} cannot be made: {MAX_ABANDONED} attempts at it hang. The function was not run. Tell "
        "the user that the server needs its operator."
    )


PROCESS = Kept()
"""What this process keeps."""

atexit.register(PROCESS.close)
