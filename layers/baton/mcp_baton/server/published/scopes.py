"""Scopes, by which a caller sees and uses a part of a server (docs/tools.md, Scopes)."""

from collections.abc import Iterator, Mapping, Sequence

from mcp_baton.exceptions import RegistrationError
from mcp_baton.protocol.http import SCOPE_CLAIMS


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
    return frozenset(scope for name in SCOPE_CLAIMS for scope in _scopes(claims.get(name)))


def _scopes(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield from value.split()
    elif isinstance(value, list | tuple):
        yield from (scope for scope in value if isinstance(scope, str))
