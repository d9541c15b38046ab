"""What a call, or the process, has opened for its functions: made by factories, closed in reverse order."""

import contextlib
import inspect
import logging
from collections.abc import Awaitable
from functools import partial
from typing import Any

from msgspec import Struct

from mcp_baton.server.running.awaiting import Waiting
from mcp_baton.server.schema.provider import Provider, name_of

logger = logging.getLogger(__name__)


class _Closing(Struct, frozen=True):
    provider: Provider
    manager: Any
    is_async: bool


class Closings:
    """What has been opened, in order."""

    def __init__(self) -> None:
        self._open: list[_Closing] = []

    async def make(self, provider: Provider, arguments: dict[str, Any], waiting: Waiting) -> object:
        """Call a factory; enter what it made, if it is to be entered.

        Raises:
            TookTooLong: it took longer than `waiting` lets it.
        """
        if provider.is_async:
            value, manager = await waiting.run(_opened_async(provider, arguments))
        else:
            value, manager = waiting.call(provider.factory, partial(_opened, provider, arguments), _close_late)
            if inspect.iscoroutine(value):
                value = await waiting.run(value)
        if manager is not None:
            self._open.append(_Closing(provider, manager, provider.is_async))
        return value

    async def close(self, error: BaseException | None, waiting: Waiting) -> None:
        """Close everything, the newest first. What fails is logged, and changes nothing.

        Args:
            error: What ended the function, for those that undo or roll back.
            waiting: How to wait for what closes asynchronously.
        """
        why = (None, None, None) if error is None else (type(error), error, error.__traceback__)
        while self._open:
            closing = self._open.pop()
            try:
                ended = closing.manager.__aexit__(*why) if closing.is_async else closing.manager.__exit__(*why)
                if closing.is_async:
                    await waiting.run(_awaited(ended))
            except BaseException as failure:
                if failure is not error:
                    logger.exception("the dependency %s could not be closed", name_of(closing.provider.factory))


def _opened(provider: Provider, arguments: dict[str, Any]) -> tuple[Any, Any]:
    """What a plain factory makes, and the context manager to leave, if there is one."""
    made: Any = provider.factory(**arguments)
    if not provider.entered:
        return made, None
    manager = contextlib.contextmanager(lambda: made)() if inspect.isgenerator(made) else made
    return manager.__enter__(), manager


def _close_late(opened: tuple[Any, Any]) -> None:
    """Close what was made when nothing waited for it any more."""
    _, manager = opened
    if manager is None:
        return
    try:
        manager.__exit__(None, None, None)
    except BaseException:
        logger.exception("a dependency that was made too late could not be closed")


async def _opened_async(provider: Provider, arguments: dict[str, Any]) -> tuple[Any, Any]:
    made: Any = provider.factory(**arguments)
    if not provider.entered:
        return await made, None
    manager = contextlib.asynccontextmanager(lambda: made)() if inspect.isasyncgen(made) else made
    return await manager.__aenter__(), manager


async def _awaited(ended: Awaitable[object]) -> object:
    return await ended
