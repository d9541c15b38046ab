"""Scopes: what `requires=` may say, and where a caller's stand."""

from typing import Any

import pytest

from mcp_baton import RegistrationError, Server
from mcp_baton.server.definitions.labels import scopes_in


@pytest.mark.parametrize(
    ("claims", "scopes"),
    [
        ({}, set()),
        ({"scope": "orders:read  orders:write"}, {"orders:read", "orders:write"}),
        ({"scp": ["orders:read", "orders:write", 7]}, {"orders:read", "orders:write"}),
        ({"scp": "orders:read orders:write"}, {"orders:read", "orders:write"}),
        ({"scp": "[orders:read orders:write]"}, {"[orders:read", "orders:write]"}),
        ({"scopes": ["orders:read"]}, {"orders:read"}),
        ({"scope": "a", "scp": ["b"]}, {"a", "b"}),
        ({"scope": None, "scp": {"a": "b"}, "groups": "c"}, set()),
    ],
)
def test_scopes_are_read_wherever_issuers_and_authorizers_write_them(claims: dict[str, Any], scopes: set[str]) -> None:
    assert scopes_in(claims) == scopes


@pytest.mark.parametrize(
    ("requires", "cause"),
    [("orders:write", r"requires=\['orders:write'\]"), (["a b"], "'a b'"), ([""], "''"), ([7], "7")],
)
def test_what_no_caller_can_have_is_refused(requires: Any, cause: str) -> None:
    server = Server("shop")
    for register in (
        server.tool(name="refund", requires=requires),
        server.resource("docs://a", name="a", requires=requires),
        server.prompt(name="ask", requires=requires),
    ):
        with pytest.raises(RegistrationError, match=cause):
            register(lambda: "")
