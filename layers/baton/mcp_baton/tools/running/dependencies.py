"""Dependencies of functions: created before a call and closed after it, or kept for the process (docs/tools.md).

A `def` and its plain factories run in a thread, an `async def` and its factories on the process's event loop. The async
dependencies of a `def` are created and closed on the loop, too, while its thread waits.
"""

import atexit
import contextlib
import contextvars
import inspect
import logging
import math
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, structs

from mcp_baton.exceptions import Abandoned, ToolError
from mcp_baton.tools.context import CallState, Context
from mcp_baton.tools.running.tool_threads import ABANDONED, MAX_ABANDONED, ToolThread, run_in_thread
from mcp_baton.tools.schema.dependency import Provider, factory_name
from mcp_baton.tools.schema.signature import Signature

if TYPE_CHECKING:
    from concurrent.futures import Future

logger = logging.getLogger(__name__)

CLOSING_TIMEOUT_S = 5.0
"""The time limit of one asynchronous closing at the end of the process, seconds."""


HANGING_RETRY_S = 60.0
"""The shortest time between two attempts at a dependency of which ten attempts hang, seconds. It doubles with each
attempt, because Python cannot end their threads."""

MAX_HANGING_RETRY_S = 600.0


class FactoryTimeout(Exception):
    """A factory exceeded its time limit."""


class WaitMode(Struct, frozen=True):
    """How a call waits for its dependencies: in a coroutine on the process's loop, or in a thread, which blocks. In a
    thread, the coroutine is never suspended. `limit_s` is the time limit of one factory."""

    on_loop: bool
    limit_s: float | None = None

    async def run[T](self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop, and wait until it ends."""
        if not self.on_loop:
            from mcp_baton.tools.running.event_loop import submit

            contexts: list[contextvars.Context] = []
            result = _result_of(submit(_keep_context(coroutine, contexts)), self.limit_s)
            for variable, value in contexts[0].items():
                if variable.get(_UNSET) is not value:
                    variable.set(value)
            return result
        import asyncio

        limit = asyncio.timeout(self.limit_s)
        try:
            async with limit:
                return await coroutine
        except TimeoutError as error:
            if limit.expired():
                raise FactoryTimeout from error
            raise

    async def call[T](self, factory: object, function: Callable[[], T], undo: Callable[[T], None]) -> T:
        """Call a plain function: with a time limit in another thread, so that the caller, or the loop, need not wait
        for one that hangs."""
        if self.limit_s is None:
            return function()
        outcome, thread = _start_in_another_thread(factory, function, undo)
        try:
            if not self.on_loop:
                return _result_of(outcome, self.limit_s)
            return await self._awaited(outcome)
        except RuntimeError as error:
            if self.on_loop and "event loop" in str(error):  # it needs the loop, and the thread has none
                return function()
            raise
        except BaseException:
            thread.abandon()
            outcome.cancel()
            raise

    async def _awaited[T](self, outcome: "Future[T]") -> T:
        import asyncio

        done, _ = await asyncio.wait([asyncio.wrap_future(outcome)], timeout=self.limit_s)
        if not done and outcome.cancel():
            raise FactoryTimeout
        return outcome.result()

    async def wait(self, finished: "Future[None]", limit_s: float) -> bool:
        """Wait for another call that creates the same dependency. Returns whether it ended within the limit."""
        if self.on_loop:
            import asyncio

            return bool((await asyncio.wait([asyncio.wrap_future(finished)], timeout=limit_s))[0])
        from concurrent.futures import wait

        return bool(wait([finished], limit_s).done)


_UNSET: Final = object()


async def _keep_context[T](coroutine: Coroutine[Any, Any, T], contexts: list[contextvars.Context]) -> T:
    """Run a coroutine, and keep its context: the thread that waits takes over the context variables that it has set."""
    value = await coroutine
    contexts.append(contextvars.copy_context())
    return value


def _start_in_another_thread[T](
    factory: object, function: Callable[[], T], undo: Callable[[T], None]
) -> "tuple[Future[T], ToolThread]":
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

    thread = ToolThread(factory)

    def job(release: Callable[[], None]) -> None:
        with suppress(Abandoned):  # it was abandoned before it started
            thread.run(make, {})
        release()

    run_in_thread(job)
    return outcome, thread


def _result_of[T](future: "Future[T]", limit_s: float | None) -> T:
    try:
        return future.result(limit_s)
    except TimeoutError as error:
        if not future.cancel():  # it has ended, perhaps with its own `TimeoutError`
            return future.result()
        raise FactoryTimeout from error


def run_without_loop[T](coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that is never suspended, without a loop."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        value: T = stop.value
        return value
    coroutine.close()
    raise RuntimeError("a coroutine that should have waited in its thread was suspended")


class OpenDependencies:
    def __init__(self) -> None:
        self._open: list[tuple[Provider, Any]] = []

    async def create(self, provider: Provider, arguments: dict[str, Any], wait_mode: WaitMode) -> object:
        """Call a factory, and enter the context manager that it returned, if there is one."""
        arguments |= deepcopy(provider.defaults)
        if provider.is_async:
            value, manager = await wait_mode.run(_call_async_factory(provider, arguments))
        else:
            value, manager = await wait_mode.call(
                provider.factory, partial(_call_factory, provider, arguments), _close_late
            )
            if inspect.iscoroutine(value):
                value = await wait_mode.run(value)
        if manager is not None:
            self._open.append((provider, manager))
        return value

    async def close(self, error: BaseException | None, wait_mode: WaitMode) -> None:
        """Close all dependencies, the newest first. If one fails, the error is logged, and the others are closed."""
        exit_arguments = (None, None, None) if error is None else (type(error), error, error.__traceback__)
        while self._open:
            provider, manager = self._open.pop()
            try:
                if provider.is_async:
                    await wait_mode.run(_await(manager.__aexit__(*exit_arguments)))
                else:
                    manager.__exit__(*exit_arguments)
            except BaseException as failure:
                if failure is not error:
                    logger.exception("the dependency %s could not be closed", factory_name(provider.factory))


def _call_factory(provider: Provider, arguments: dict[str, Any]) -> tuple[Any, Any]:
    """Call a plain factory. Returns its value, and the context manager to exit, if there is one."""
    result: Any = provider.factory(**arguments)
    if not provider.is_context_manager:
        return result, None
    manager = contextlib.contextmanager(lambda: result)() if inspect.isgenerator(result) else result
    return manager.__enter__(), manager


def _close_late(created: tuple[Any, Any]) -> None:
    """Close a value that was created after the limit."""
    _, manager = created
    if manager is None:
        return
    try:
        manager.__exit__(None, None, None)
    except BaseException:
        logger.exception("a dependency that was made too late could not be closed")


async def _call_async_factory(provider: Provider, arguments: dict[str, Any]) -> tuple[Any, Any]:
    result: Any = provider.factory(**arguments)
    if not provider.is_context_manager:
        return await result, None
    manager = contextlib.asynccontextmanager(lambda: result)() if inspect.isasyncgen(result) else result
    return await manager.__aenter__(), manager


async def _await(awaitable: Awaitable[object]) -> object:
    return await awaitable


class _Creation:
    """A process-scoped dependency that one call creates while others wait for it."""

    def __init__(self, provider: Provider) -> None:
        from concurrent.futures import Future

        self._until_s = time.monotonic() + provider.limit_s
        self.took_too_long = False
        self.finished: Future[None] = Future()
        self.finished.set_running_or_notify_cancel()  # an abandoned call must not cancel it for the others

    @property
    def remaining_s(self) -> float:
        return max(0.0, self._until_s - time.monotonic())


class _Instance(Struct, frozen=True):
    value: object


class ProcessScope:
    """The process-scoped dependencies: created once, closed at the end of the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[object, _Creation | _Instance] = {}
        self._tried_s: dict[object, float] = {}
        """When each was last tried, on the monotonic clock."""
        self._open_dependencies = OpenDependencies()

    async def get(self, provider: Provider, wait_mode: WaitMode) -> object:
        """Return the process's instance, and create it if there is none. After a failure the next call tries again."""
        while True:
            with self._lock:
                entry = self._entries.get(provider.key)
                if entry is None:
                    creation = self._entries[provider.key] = _Creation(provider)
            if entry is None:
                return await self._create(provider, creation, wait_mode)
            if isinstance(entry, _Instance):
                return entry.value
            if not await wait_mode.wait(entry.finished, entry.remaining_s):
                self._replace(provider, entry, None)  # it hangs: the next call tries again
                raise _timeout_error(provider)
            if entry.took_too_long:
                raise _timeout_error(provider)

    async def _create(self, provider: Provider, creation: _Creation, wait_mode: WaitMode) -> object:
        instance: _Instance | None = None
        try:
            hanging = ABANDONED.count(provider.factory)
            if hanging >= MAX_ABANDONED:
                wait_s = min(HANGING_RETRY_S * 2 ** (hanging - MAX_ABANDONED), MAX_HANGING_RETRY_S)
                if time.monotonic() - self._tried_s.get(provider.key, -math.inf) < wait_s:
                    raise _hanging_error(provider, hanging, wait_s)
            self._tried_s[provider.key] = time.monotonic()
            arguments = {name: await self.get(need, wait_mode) for name, need in provider.needs}
            limited_mode = structs.replace(wait_mode, limit_s=provider.timeout_s)
            instance = _Instance(await self._open_dependencies.create(provider, arguments, limited_mode))
            return instance.value
        except FactoryTimeout as error:
            creation.took_too_long = True
            raise _timeout_error(provider) from error
        finally:
            self._replace(provider, creation, instance)
            creation.finished.set_result(None)

    def _replace(self, provider: Provider, creation: _Creation, instance: _Instance | None) -> None:
        """End a creation, unless another one has replaced it."""
        with self._lock:
            if self._entries.get(provider.key, creation) is not creation:
                return
            if instance is None:
                self._entries.pop(provider.key, None)
            else:
                self._entries[provider.key] = instance

    def close(self) -> None:
        run_without_loop(self._open_dependencies.close(None, WaitMode(on_loop=False, limit_s=CLOSING_TIMEOUT_S)))


def _timeout_error(provider: Provider) -> ToolError:
    name, limit_s = factory_name(provider.factory), provider.timeout_s
    logger.error(
        "the dependency %s was not ready after %g s: give the connections that it opens time limits of their own, or "
        "give Depends(%s, scope='process') a longer timeout_s",
        *(name, limit_s, name),
    )
    return ToolError(f"the dependency {name!r} was not ready after {limit_s:g} s. The function was not run.")


def _hanging_error(provider: Provider, hanging: int, wait_s: float) -> ToolError:
    name = factory_name(provider.factory)
    logger.error("the dependency %s is created once in %g s only: %s attempts at it hang", name, wait_s, hanging)
    return ToolError(
        f"the dependency {name!r} cannot be made: {hanging} attempts at it hang. The function was not run. The server "
        f"tries again {wait_s:g} s after the last attempt. Tell the user that the server needs its operator."
    )


PROCESS = ProcessScope()
"""The process-scoped dependencies of this process."""

atexit.register(PROCESS.close)


def with_dependencies(function: Callable[..., object], signature: Signature, call: CallState) -> Callable[..., object]:
    """Wrap a function: the wrapper creates its dependencies, calls it, and closes them."""

    async def run(wait_mode: WaitMode, arguments: dict[str, Any]) -> object:
        scope = CallScope(call, wait_mode)
        failure: BaseException | None = None
        try:
            for name, provider in signature.dependencies:
                arguments[name] = await scope.get(provider)
            value: Any = function(**arguments)
            return await value if signature.is_async else value
        except BaseException as error:
            failure = error
            raise
        finally:
            await scope.open_dependencies.close(failure, wait_mode)

    def plain(**arguments: Any) -> object:
        return run_without_loop(run(WaitMode(on_loop=False), arguments))

    async def asynchronous(**arguments: Any) -> object:
        return await run(WaitMode(on_loop=True), arguments)

    return asynchronous if signature.is_async else plain


class CallScope:
    def __init__(self, call: CallState, wait_mode: WaitMode) -> None:
        self._call = call
        self._wait_mode = wait_mode
        self._values: dict[object, object] = {}
        self.open_dependencies = OpenDependencies()

    async def get(self, provider: Provider) -> object:
        if provider.scope == "process":
            self._call.waits_for = factory_name(provider.factory)
            return await PROCESS.get(provider, self._wait_mode)
        if provider.key not in self._values:
            arguments = {name: await self.get(need) for name, need in provider.needs}
            if provider.context is not None:
                arguments[provider.context] = Context(self._call)
            self._call.waits_for = factory_name(provider.factory)
            self._values[provider.key] = await self.open_dependencies.create(provider, arguments, self._wait_mode)
        return self._values[provider.key]
