"""A tool whose type has no schema is left out of the list, and the other tools still work."""

from collections.abc import Callable

import pytest

from mcp_baton import RegistrationError, Server
from tests.support.client import Era
from tests.support.handler import MakeClient


def test_a_tool_whose_type_has_no_schema_is_left_out_of_the_list(
    make_client: MakeClient, era: Era, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server("shop")

    @server.tool
    def stock(key: Callable[[int], str]) -> int:
        """A tool without a schema."""
        return len(key(1))

    @server.tool
    def price(sku: str) -> int:
        """A tool with a schema."""
        return len(sku)

    client = make_client(server, era=era)

    assert [tool["name"] for tool in client.request("tools/list").result["tools"]] == ["price"]
    assert "left out of tools/list: tool 'stock': the parameter 'key'" in caplog.text
    assert client.call_tool("price", {"sku": "abc"}).result["structuredContent"] == {"result": 3}
    with pytest.raises(RegistrationError, match="tool 'stock': the parameter 'key'"):
        server.check()
