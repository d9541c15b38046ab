"""What functions depend on: made before a call, closed after it, or kept for the process (docs/tools.md, Dependencies).

A `def` and its plain factories run in a worker's thread, an `async def` and its factories on the process's event loop.
What a `def` needs of an async kind is made and closed on that loop, too, while its thread waits.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mcp_baton.server.context import Context
from mcp_baton.server.running.awaiting import InItsThread, OnTheLoop, Waiting, without_a_loop
from mcp_baton.server.running.call import Call
from mcp_baton.server.running.closings import Closings
from mcp_baton.server.running.kept import PROCESS, Kept
from mcp_baton.server.schema.dependency import Dependency
from mcp_baton.server.schema.provider import Provider, name_of, read_provider
from mcp_baton.server.schema.signature import Signature

if TYPE_CHECKING:
    from mcp_baton.server.running.overrides import Override


def with_dependencies(
    function: Callable[..., object], signature: Signature, call: Call, overrides: "Sequence[Override]"
) -> Callable[..., object]:
    """A function that makes what another depends on, calls it, and closes again what it made.

    Args:
        function: The function that is to be called.
        signature: Its signature.
        call: The call.
        overrides: The factories that are replaced, the newest last.
    """
    providers = _replaced(signature, overrides)
    kept = overrides[-1].kept if overrides else PROCESS

    async def run(arguments: dict[str, Any], waiting: Waiting) -> object:
        opened = Opened(call, kept, waiting)
        try:
            for name, provider in providers:
                arguments[name] = await opened.get(provider)
            made: Any = function(**arguments)
            value = await made if signature.is_async else made
        except BaseException as error:
            await opened.close(error)
            raise
        await opened.close(None)
        return value

    def plain(**arguments: Any) -> object:
        return without_a_loop(run(arguments, InItsThread()))

    async def asynchronous(**arguments: Any) -> object:
        return await run(arguments, OnTheLoop())

    return asynchronous if signature.is_async else plain


def _replaced(signature: Signature, overrides: "Sequence[Override]") -> Sequence[tuple[str, Provider]]:
    if not overrides:
        return signature.dependencies
    from mcp_baton.server.running.overrides import swapping

    declared = ((name, Dependency(item.factory, item.scope, item.timeout_s)) for name, item in signature.dependencies)
    swap = swapping(overrides)
    return [(name, read_provider(dependency, f"the parameter {name!r}", swap)) for name, dependency in declared]


class Opened:
    """What one call depends on.

    Args:
        call: The call, whose `Context` factories may want.
        kept: What is kept for the process.
        waiting: How the call waits.
    """

    def __init__(self, call: Call, kept: Kept, waiting: Waiting) -> None:
        self._call = call
        self._kept = kept
        self._waiting = waiting
        self._made: dict[object, object] = {}
        self._closings = Closings()

    async def get(self, provider: Provider) -> object:
        """The one instance of this call, or of this process."""
        if provider.scope == "process":
            self._call.waits_for = name_of(provider.factory)
            return await self._kept.get(provider, self._waiting)
        if provider.key not in self._made:
            arguments = {name: await self.get(need) for name, need in provider.needs}
            if provider.context is not None:
                arguments[provider.context] = Context(self._call)
            self._call.waits_for = name_of(provider.factory)
            self._made[provider.key] = await self._closings.make(provider, arguments, self._waiting)
        return self._made[provider.key]

    async def close(self, error: BaseException | None) -> None:
        """Close what was made for this call."""
        await self._closings.close(error, self._waiting)
