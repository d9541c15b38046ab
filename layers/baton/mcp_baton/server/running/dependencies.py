"""What functions depend on: made before a call, closed after it, or kept for the process (docs/tools.md, Dependencies).

A `def` and its plain factories run in a worker's thread, an `async def` and its factories on the process's event loop.
What a `def` needs of an async kind is made and closed on that loop, too, while its thread waits.
"""

import atexit
import contextlib
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from mcp_baton.exceptions import Abandoned
from mcp_baton.light_dataclasses import dataclass, field
from mcp_baton.server.context import Context, Scope
from mcp_baton.server.running.worker import event_loop
from mcp_baton.server.schema.dependency import Dependency, Factory, Provider, name_of, read_provider
from mcp_baton.server.schema.signature import Signature

if TYPE_CHECKING:
    from concurrent.futures import Future

logger = logging.getLogger(__name__)

CLOSING_S = 5.0
"""So long one asynchronous closing may take when the process ends."""


def with_dependencies(
    function: Callable[..., object], signature: Signature, scope: Scope, overrides: "Sequence[Override]"
) -> Callable[..., object]:
    """A function that makes what another depends on, calls it, and closes again what it made.

    Args:
        function: The function that is to be called.
        signature: Its signature.
        scope: The call.
        overrides: The factories that are replaced, the newest last.
    """
    providers = _replaced(signature, overrides)
    kept = overrides[-1].kept if overrides else PROCESS

    async def call(arguments: dict[str, Any], way: Way) -> object:
        opened = Opened(Context(scope), kept, way)
        try:
            for name, provider in providers:
                arguments[name] = await opened.get(provider)
            if scope.abandoned:
                raise Abandoned
            made: Any = function(**arguments)
            value = await made if signature.is_async else made
        except BaseException as error:
            await opened.close(error)
            raise
        await opened.close(None)
        return value

    def plain(**arguments: Any) -> object:
        return _driven(call(arguments, Beside()))

    async def asynchronous(**arguments: Any) -> object:
        return await call(arguments, OnTheLoop())

    return asynchronous if signature.is_async else plain


def _replaced(signature: Signature, overrides: "Sequence[Override]") -> Sequence[tuple[str, Provider]]:
    if not overrides:
        return signature.dependencies
    declared = ((name, Dependency(item.factory, item.scope)) for name, item in signature.dependencies)
    swap = swapping(overrides)
    return [(name, read_provider(dependency, f"the parameter {name!r}", swap)) for name, dependency in declared]


class Way(Protocol):
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


class Beside:
    """For a thread beside the loop: nothing is ever suspended here, the thread waits."""

    def __init__(self, limit_s: float | None = None) -> None:
        self._limit_s = limit_s

    async def run[T](self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Have the loop run it."""
        import asyncio

        return asyncio.run_coroutine_threadsafe(coroutine, event_loop()).result(self._limit_s)

    async def wait(self, settled: "Future[None]") -> None:
        """Block."""
        settled.result()


def _driven[T](coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that is never suspended, without a loop."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        value: T = done.value
        return value
    coroutine.close()
    raise RuntimeError("a coroutine that should have waited in its thread was suspended")


@dataclass(frozen=True, slots=True)
class _Closing:
    provider: Provider
    manager: Any
    is_async: bool


class Closings:
    """What has been opened, in order."""

    def __init__(self) -> None:
        self._open: list[_Closing] = []

    async def make(self, provider: Provider, arguments: dict[str, Any], way: Way) -> object:
        """Call a factory; enter what it made, if it is to be entered."""
        if provider.is_async:
            value, manager = await way.run(_opened_async(provider, arguments))
        else:
            value, manager = _opened(provider, arguments)
            if inspect.iscoroutine(value):
                value = await way.run(value)
        if manager is not None:
            self._open.append(_Closing(provider, manager, provider.is_async))
        return value

    async def close(self, error: BaseException | None, way: Way) -> None:
        """Close everything, the newest first. What fails is logged, and changes nothing.

        Args:
            error: What ended the function, for those that undo or roll back.
            way: How to wait for what closes asynchronously.
        """
        why = (None, None, None) if error is None else (type(error), error, error.__traceback__)
        while self._open:
            closing = self._open.pop()
            try:
                ended = closing.manager.__aexit__(*why) if closing.is_async else closing.manager.__exit__(*why)
                if closing.is_async:
                    await way.run(_awaited(ended))
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


async def _opened_async(provider: Provider, arguments: dict[str, Any]) -> tuple[Any, Any]:
    made: Any = provider.factory(**arguments)
    if not provider.entered:
        return await made, None
    manager = contextlib.asynccontextmanager(lambda: made)() if inspect.isasyncgen(made) else made
    return await manager.__aenter__(), manager


async def _awaited(ended: Awaitable[object]) -> object:
    return await ended


class Opened:
    """What one call depends on.

    Args:
        context: The call's, for factories that want it.
        kept: What is kept for the process.
        way: How the call waits.
    """

    def __init__(self, context: Context, kept: "Kept", way: Way) -> None:
        self._context = context
        self._kept = kept
        self._way = way
        self._made: dict[object, object] = {}
        self._closings = Closings()

    async def get(self, provider: Provider) -> object:
        """The one instance of this call, or of this process."""
        if provider.scope == "process":
            return await self._kept.get(provider, self._way)
        if provider.key not in self._made:
            arguments = {name: await self.get(need) for name, need in provider.needs}
            if provider.context is not None:
                arguments[provider.context] = self._context
            self._made[provider.key] = await self._closings.make(provider, arguments, self._way)
        return self._made[provider.key]

    async def close(self, error: BaseException | None) -> None:
        """Close what was made for this call."""
        await self._closings.close(error, self._way)


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

    async def get(self, provider: Provider, way: Way) -> object:
        """The process's instance; made now if nobody has. After a failure the next call tries again."""
        while True:
            with self._lock:
                known = self._known.get(provider.key)
                mine = self._known[provider.key] = _Making() if known is None else known
            match known, mine:
                case _Made(value), _:
                    return value
                case _Making() as other, _:
                    await way.wait(other.settled)
                case _, _Making() as making:
                    return await self._make(provider, making, way)

    async def _make(self, provider: Provider, making: _Making, way: Way) -> object:
        made: _Made | None = None
        try:
            arguments = {name: await self.get(need, way) for name, need in provider.needs}
            made = _Made(await self._closings.make(provider, arguments, way))
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
        _driven(self._closings.close(None, Beside(CLOSING_S)))


PROCESS = Kept()
"""What this process keeps."""

atexit.register(PROCESS.close)


@dataclass(frozen=True, slots=True, eq=False)
class Override:
    """A factory that is replaced for a while. What is made for the process meanwhile is kept apart.

    Attributes:
        replaced: What functions declare.
        by: What is called in its place.
    """

    replaced: Factory
    by: Factory
    kept: Kept = field(default_factory=Kept)


def swapping(overrides: Sequence[Override]) -> Callable[[Factory], Factory]:
    """From a factory that was declared to the one that replaces it, the newest first."""

    def swap(factory: Factory) -> Factory:
        return next((item.by for item in reversed(overrides) if item.replaced == factory), factory)

    return swap
