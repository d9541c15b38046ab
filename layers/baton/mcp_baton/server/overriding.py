"""Replacing what functions depend on, for tests (docs/tools.md, Dependencies)."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mcp_baton.exceptions import RegistrationError
from mcp_baton.server.running.dependencies import Override, swapping
from mcp_baton.server.schema.dependency import Dependency, Provider, name_of, read_provider

if TYPE_CHECKING:
    from mcp_baton.server.server import Server


@contextmanager
def overriding(server: "Server", factory: Callable[..., object], by: Callable[..., object]) -> Iterator[None]:
    """As `Server.override`.

    Raises:
        RegistrationError: nothing of the server depends on `factory`, or `by` cannot stand in its place.
    """
    what = f"override of {name_of(factory)!r}"
    if not callable(by):
        raise RegistrationError(f"{what}: give it a function that makes the value, as lambda: {by!r}")
    override = Override(factory, by)
    swap = swapping([*server.overrides, override])
    providers = list(_providers_of(server))
    if not any(item.factory == factory for provider in providers for item in _all_of(provider)):
        raise RegistrationError(f"{what}: nothing of this server depends on it")
    for provider in providers:
        read_provider(Dependency(provider.factory, provider.scope), what, swap)
    server.overrides.append(override)
    try:
        yield
    finally:
        server.overrides.remove(override)
        override.kept.close()


def _providers_of(server: "Server") -> Iterator[Provider]:
    published: Iterable[tuple[tuple[str, Provider], ...]] = (
        *(tool.signature.dependencies for tool in server.tools.values()),
        *(resource.signature.dependencies for resource in server.resources.values()),
        *(prompt.signature.dependencies for prompt in server.prompts.values()),
        *(completion.signature.dependencies for completion in server.completions.values()),
    )
    return (provider for dependencies in published for _, provider in dependencies)


def _all_of(provider: Provider) -> Iterator[Provider]:
    yield provider
    for _, need in provider.needs:
        yield from _all_of(need)
