"""Replaces the factories of dependencies for a test (docs/testing.md)."""

from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import structs

from mcp_baton import Server
from mcp_baton.exceptions import RegistrationError
from mcp_baton.tools.prompt import Prompt
from mcp_baton.tools.resource import Resource
from mcp_baton.tools.running import dependencies
from mcp_baton.tools.schema.dependency import Dependency, Factory, Provider, factory_name, read_provider
from mcp_baton.tools.schema.signature import Signature
from mcp_baton.tools.tool import Tool


class Overrides:
    def __init__(self, server: Server) -> None:
        self._server = server
        functions: list[Tool | Resource | Prompt] = [
            *server.tools.values(),
            *server.resources.values(),
            *server.prompts.values(),
        ]
        self._declared = [(item, item.signature) for item in functions]
        self._completions = dict(server.completions)
        self._active: list[tuple[Factory, Factory]] = []

    @contextmanager
    def override(self, factory: Factory, by: Factory) -> Iterator[None]:
        label = f"override of {factory_name(factory)!r}"
        if not callable(by):
            raise RegistrationError(f"{label}: give it a function that makes the value, as lambda: {by!r}")
        signatures = (signature for _, signature in [*self._declared, *self._declared_completions()])
        providers = [provider for signature in signatures for _, provider in signature.dependencies]
        if not any(item.factory == factory for provider in providers for item in _with_nested(provider)):
            raise RegistrationError(f"{label}: nothing of this server depends on it")
        self._active.append((factory, by))
        process, scope = dependencies.PROCESS, dependencies.ProcessScope()
        try:
            self._apply(label)
            dependencies.PROCESS = scope
            yield
        finally:
            dependencies.PROCESS = process
            self._active.remove((factory, by))
            self._apply(label)
            scope.close()

    def _declared_completions(self) -> list[tuple[tuple[str, str], Signature]]:
        return [(key, completion.signature) for key, completion in self._completions.items()]

    def _apply(self, label: str) -> None:
        for item, signature in self._declared:
            item.signature = self._replace(signature, label)
        for key, signature in self._declared_completions():
            completion = self._completions[key]
            self._server.completions[key] = structs.replace(completion, signature=self._replace(signature, label))

    def _replace(self, signature: Signature, label: str) -> Signature:
        providers = tuple(
            (name, read_provider(Dependency(item.factory, item.scope, item.timeout_s), label, self._swap))
            for name, item in signature.dependencies
        )
        return structs.replace(signature, dependencies=providers)

    def _swap(self, factory: Factory) -> Factory:
        """Return the current replacement of a factory: the newest override applies."""
        return next((by for replaced, by in reversed(self._active) if replaced == factory), factory)


def _with_nested(provider: Provider) -> Iterator[Provider]:
    yield provider
    for _, need in provider.needs:
        yield from _with_nested(need)
