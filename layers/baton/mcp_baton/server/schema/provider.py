"""What stands behind a `Depends`: its factory, and all that the factory depends on (docs/tools.md, Dependencies).

It is read while the server is put together, so that a cycle or a wrong scope is an error there; nothing is made before
a function is called.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from mcp_baton.exceptions import RegistrationError
from mcp_baton.server.schema.dependency import Dependency, Factory, Lifetime
from mcp_baton.server.schema.filled_parameters import filled_by_server

type Swap = Callable[[Factory], Factory]
"""From a factory that was declared to the one that is called in its place."""


class Provider(Struct, frozen=True):
    """A dependency whose factory has been read.

    Attributes:
        context: The factory's parameter that takes the `Context`; `None` where there is none.
        needs: What its other parameters are filled with.
        entered: Whether what it makes is a context manager that is to be entered.
        is_async: Whether it is of an async kind.
        timeout_s: How long the factory of something that is kept for the process may take, seconds.
    """

    factory: Factory
    scope: Lifetime
    context: str | None
    needs: tuple[tuple[str, "Provider"], ...]
    entered: bool
    is_async: bool
    timeout_s: float

    @property
    def limit_s(self) -> float:
        """How long making it may take with all that it needs, seconds."""
        return self.timeout_s + sum(need.limit_s for _, need in self.needs)

    @property
    def key(self) -> tuple[Factory, Lifetime]:
        """What is made once for a call, or once for a process."""
        return self.factory, self.scope


def as_declared(factory: Factory) -> Factory:
    """No replacement."""
    return factory


def read_provider(
    dependency: Dependency, what: str, swap: Swap = as_declared, above: tuple[tuple[Factory, Lifetime], ...] = ()
) -> Provider:
    """Read a dependency's factory, and those that it depends on.

    Args:
        dependency: What was declared.
        what: How to name its user in an error, e.g. `tool 'refund'`.
        swap: Replaces factories.
        above: What depends on it, from the function on.

    Raises:
        RegistrationError: a cycle, a scope within a longer one, or a parameter that nothing fills in.
    """
    factory, scope = swap(dependency.factory), dependency.scope
    _refuse_unhashable(factory, what)
    _refuse_cycle(factory, what, [known for known, _ in above])
    within = next((known for known, its in above if its == "process"), None)
    if within is not None and scope == "request":
        raise RegistrationError(
            f"{what}: {name_of(within)!r} is kept for the process and {name_of(factory)!r} is closed after each call; "
            f"give {name_of(factory)!r} scope='process', too"
        )
    context, declared = filled_by_server(factory, f"{what}: the dependency {name_of(factory)!r}", alone=True)
    if context is not None and scope == "process":
        raise RegistrationError(
            f"{what}: {name_of(factory)!r} is kept for the process, so it cannot take one call's Context"
        )
    inside = (*above, (factory, scope))
    needs = tuple((name, read_provider(need, what, swap, inside)) for name, need in declared)
    return Provider(factory, scope, context, needs, *_kind(factory), dependency.timeout_s)


def name_of(factory: Factory) -> str:
    """What to call a factory in an error."""
    return getattr(factory, "__qualname__", None) or repr(factory)


def _refuse_unhashable(factory: Factory, what: str) -> None:
    try:
        hash(factory)
    except TypeError as error:
        raise RegistrationError(
            f"{what}: the dependency {factory!r} has no hash to be known by; wrap it in a function"
        ) from error


def _refuse_cycle(factory: Factory, what: str, above: list[Factory]) -> None:
    if factory in above:
        cycle = " -> ".join(name_of(item) for item in (*above[above.index(factory) :], factory))
        raise RegistrationError(f"{what}: these dependencies need each other: {cycle}")


def _kind(factory: Factory) -> tuple[bool, bool]:
    """Whether what it makes is entered, and whether it is of an async kind.

    What a plain function returns is given as it is, even if it could be entered: it may be shared by others.
    """
    if isinstance(factory, type):
        is_async = hasattr(factory, "__aenter__")
        return is_async or hasattr(factory, "__enter__"), is_async
    target = _innermost(factory)
    if inspect.isasyncgenfunction(target):
        return True, True
    return inspect.isgeneratorfunction(target), inspect.iscoroutinefunction(target)


def _innermost(factory: Factory) -> Any:
    """The function itself: without decorators, without `functools.partial`, of an object its `__call__`."""
    target: Any = factory
    while True:
        if isinstance(target, functools.partial):
            target = target.func
        elif hasattr(target, "__wrapped__"):
            target = target.__wrapped__
        elif not inspect.isroutine(target):
            target = type(target).__call__
        else:
            return target
