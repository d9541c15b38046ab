"""Replacing what functions depend on, for tests (docs/tools.md, Dependencies)."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from msgspec import Struct, field

from mcp_baton.exceptions import RegistrationError
from mcp_baton.server.published.registry import Registry
from mcp_baton.server.running.kept import Kept
from mcp_baton.server.schema.dependency import Dependency, Factory
from mcp_baton.server.schema.provider import Provider, name_of, read_provider


class Override(Struct, frozen=True, eq=False):
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


@contextmanager
def overriding(server: Registry, overrides: list[Override], factory: Factory, by: Factory) -> Iterator[None]:
    """As `Server.override`.

    Args:
        server: Whose functions declare the factory.
        overrides: The replacements that hold for it now, the newest last.
        factory: What its functions declare.
        by: What is called in its place.

    Raises:
        RegistrationError: nothing of the server depends on `factory`, or `by` cannot stand in its place.
    """
    what = f"override of {name_of(factory)!r}"
    if not callable(by):
        raise RegistrationError(f"{what}: give it a function that makes the value, as lambda: {by!r}")
    override = Override(factory, by)
    swap = swapping([*overrides, override])
    providers = list(_providers_of(server))
    if not any(item.factory == factory for provider in providers for item in _all_of(provider)):
        raise RegistrationError(f"{what}: nothing of this server depends on it")
    for provider in providers:
        read_provider(Dependency(provider.factory, provider.scope, provider.timeout_s), what, swap)
    overrides.append(override)
    try:
        yield
    finally:
        overrides.remove(override)
        override.kept.close()


def _providers_of(server: Registry) -> Iterator[Provider]:
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
