"""The console: absent by default. If turned on, its page and nothing else is served without credentials."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.template.cloudformation import Stack
from tests.template.conftest import MODES, MakeStack, body, variables

INTEGRATION = "x-amazon-apigateway-integration"


def permissions(stack: Stack) -> list[Any]:
    return [entry for entry in stack.of_type("AWS::Lambda::Permission") if "console" in str(entry.get("SourceArn"))]


def test_by_default_there_is_no_route_and_no_page(modes: Mapping[str, Stack]) -> None:
    for stack in modes.values():
        assert body(stack)["paths"]["/console"] == {}
        assert permissions(stack) == []
        assert variables(stack)["BATON_CONSOLE"] == "off"
        assert "ConsoleUrl" not in stack.outputs


@pytest.mark.parametrize("mode", MODES)
def test_the_page_needs_no_credentials_and_the_endpoint_is_unchanged(
    stack: MakeStack, modes: Mapping[str, Stack], mode: str
) -> None:
    paths = body(stack(**MODES[mode], Console="on"))["paths"]

    assert {name: method["security"] for name, method in paths["/console"].items()} == {"get": [], "head": []}
    assert paths["/mcp"] == body(modes[mode])["paths"]["/mcp"]


def test_the_page_has_the_endpoints_integration(stack: MakeStack) -> None:
    variant = stack(Console="on")
    paths = body(variant)["paths"]
    endpoint = paths["/mcp"]["get"][INTEGRATION]

    for method in paths["/console"].values():
        assert {**method[INTEGRATION], "timeoutInMillis": endpoint["timeoutInMillis"]} == endpoint
    [permission] = permissions(variant)
    assert permission["FunctionName"] == {"Ref": "McpFunctionAliaslive"}
    assert permission["SourceArn"].endswith(":${Api}/*/*/console*")
    assert variables(variant)["BATON_CONSOLE"] == "on"
    assert variant.outputs["ConsoleUrl"].endswith("/v1/console")
