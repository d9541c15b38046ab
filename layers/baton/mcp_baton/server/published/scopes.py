"""Scopes: what a caller may see and use of a server (docs/tools.md, Scopes)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from mcp_baton.exceptions import RegistrationError

if TYPE_CHECKING:
    from mcp_baton.server.published.prompt import Prompt
    from mcp_baton.server.published.registry import Registry
    from mcp_baton.server.published.resource import Resource
    from mcp_baton.server.published.tool import Tool

CLAIMS: Final = ("scope", "scp", "scopes")
"""Where scopes stand: RFC 8693 section 4.2, what some issuers write instead, and what authorizers call them."""


def required(scopes: Sequence[str], what: str) -> frozenset[str]:
    """What `requires=` says.

    Raises:
        RegistrationError: it is one text, or holds what is no scope (RFC 6749, section 3.3), so that no caller has it.
    """
    if isinstance(scopes, str):
        raise RegistrationError(f"{what}: requires is a list of scopes; write requires=[{scopes!r}]")
    for scope in scopes:
        if not isinstance(scope, str) or not scope or scope.split() != [scope]:
            raise RegistrationError(f"{what}: requires has {scope!r}; a scope is a text without blanks")
    return frozenset(scopes)


def scopes_in(claims: Mapping[str, object]) -> frozenset[str]:
    """The caller's scopes: of each claim that may hold them, texts with blanks between, or a list."""
    return frozenset(scope for name in CLAIMS for scope in _scopes(claims.get(name)))


def _scopes(value: object) -> Iterator[str]:
    if isinstance(value, str):
        # An HTTP API's JWT authorizer passes a list on as the text "[one two]".
        inner = value[1:-1] if value.startswith("[") and value.endswith("]") else value
        yield from inner.split()
    elif isinstance(value, list | tuple):
        yield from (scope for scope in value if isinstance(scope, str))


def seen_by[R: "Registry"](server: R, claims: Mapping[str, object]) -> R:
    """The server as a caller sees it: without what they lack the scopes for, as if it had never been registered."""
    kinds: tuple[Iterable[Tool | Resource | Prompt], ...] = (
        server.tools.values(),
        server.resources.values(),
        server.prompts.values(),
    )
    if not any(item.requires for published in kinds for item in published):
        return server
    import copy

    has = scopes_in(claims)
    seen = copy.copy(server)
    seen.is_view = True
    seen.tools = {name: tool for name, tool in server.tools.items() if tool.requires <= has}
    seen.resources = {uri: resource for uri, resource in server.resources.items() if resource.requires <= has}
    seen.prompts = {name: prompt for name, prompt in server.prompts.items() if prompt.requires <= has}
    seen.workflows = {
        name: workflow
        for name, workflow in server.workflows.items()
        if all(step.tool is None or step.tool in seen.tools for step in workflow.steps)
    }
    return seen
