"""What functions depend on for the whole process: made at its first use, closed when the process ends."""

import atexit
import threading

from mcp_baton.light_dataclasses import dataclass
from mcp_baton.server.running.awaiting import InItsThread, Waiting, without_a_loop
from mcp_baton.server.running.closings import Closings
from mcp_baton.server.schema.provider import Provider

CLOSING_S = 5.0
"""How long one asynchronous closing may take when the process ends, seconds."""


class _Making:
    """Something that is being made for the process by one call, while others wait for it."""

    def __init__(self) -> None:
        from concurrent.futures import Future

        self.settled: Future[None] = Future()
        self.settled.set_running_or_notify_cancel()  # a call that is given up must not cancel it for the others


@dataclass(frozen=True, slots=True)
class _Made:
    value: object


class Kept:
    """What is made once and kept until the process ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[object, _Making | _Made] = {}
        self._closings = Closings()

    async def get(self, provider: Provider, waiting: Waiting) -> object:
        """The process's instance; made now if there is none yet. After a failure the next call tries again."""
        while True:
            with self._lock:
                known = self._known.get(provider.key)
                mine = self._known[provider.key] = _Making() if known is None else known
            match known, mine:
                case _Made(value), _:
                    return value
                case _Making() as other, _:
                    await waiting.wait(other.settled)
                case _, _Making() as making:
                    return await self._make(provider, making, waiting)

    async def _make(self, provider: Provider, making: _Making, waiting: Waiting) -> object:
        made: _Made | None = None
        try:
            arguments = {name: await self.get(need, waiting) for name, need in provider.needs}
            made = _Made(await self._closings.make(provider, arguments, waiting))
            return made.value
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


PROCESS = Kept()
"""What this process keeps."""

atexit.register(PROCESS.close)
