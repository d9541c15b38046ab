"""The process's event loop. Every `async def` runs on it, so a client that is bound to the loop works in later calls.

The loop runs in its own thread, which starts with the first call. A function that blocks the thread, for example with
`time.sleep`, delays all others: `blocker` finds it.
"""

import logging
import threading
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from concurrent.futures import Future

logger = logging.getLogger(__name__)

RUNNING: ContextVar[str] = ContextVar("RUNNING")
"""The running function, such as `tool refund`."""

_lock = threading.Lock()
_loop: "list[AbstractEventLoop]" = []
"""The loop of this process; empty before the first call."""

BLOCKED_S = 0.25
"""A loop that does not react for this many seconds is blocked."""


def start(
    function: Callable[..., object],
    arguments: dict[str, Any],
    on_return: Callable[[object], None],
    on_error: Callable[[BaseException], None],
) -> Callable[[], object]:
    """Run an `async def` on the loop. Returns a function that cancels it."""
    import asyncio

    async def run() -> None:
        try:
            coroutine = function(**arguments)
            if not isinstance(coroutine, Coroutine):
                raise TypeError(f"{function!r} was expected to be asynchronous")
            on_return(await coroutine)
        except asyncio.CancelledError as error:
            on_error(error)
            raise
        except BaseException as error:  # noqa: BLE001 - `SystemExit` would end the loop for all tools
            on_error(error)

    return submit(run()).cancel


def submit[Value](coroutine: Coroutine[Any, Any, Value]) -> "Future[Value]":
    import asyncio

    return asyncio.run_coroutine_threadsafe(coroutine, event_loop())


def blocker() -> str | None:
    """Return which function blocks the loop now, such as `tool refund`; `None` if none does. Do not call this on the
    loop.

    The context names the function. Tasks that the function starts have the same context.
    """
    import asyncio

    loop, reaction = event_loop(), threading.Event()
    loop.call_soon_threadsafe(reaction.set)
    if reaction.wait(BLOCKED_S):
        return None
    task = asyncio.current_task(loop)
    return None if task is None else task.get_context().get(RUNNING)


def event_loop() -> "AbstractEventLoop":
    import asyncio

    with _lock:
        if not _loop:
            _loop.append(asyncio.new_event_loop())
            threading.Thread(target=_run_forever, args=(_loop[0],), name="baton-loop", daemon=True).start()
        return _loop[0]


def _run_forever(loop: "AbstractEventLoop") -> None:
    """Run the loop again if a task of a tool ended it, by `SystemExit` or by stopping the loop."""
    while True:
        try:
            loop.run_forever()
        except BaseException:
            logger.exception("a task of an asynchronous tool ended the event loop; the loop runs again")
