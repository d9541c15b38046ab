"""The page of the tasks: nowhere by default, and where it is asked for, without credentials and with nothing else."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.template.cloudformation import Stack
from tests.template.conftest import MODES, MakeStack

ON = {"Console": "on"}


def paths(stack: Stack) -> Any:
    return stack.one("AWS::ApiGateway::RestApi")["Body"]["paths"]


def permissions(stack: Stack) -> list[Any]:
    return [one for one in stack.of_type("AWS::Lambda::Permission") if "console" in str(one.get("SourceArn"))]


def variables(stack: Stack, function: str) -> Any:
    return stack.resources[function]["Properties"]["Environment"]["Variables"]


def test_without_being_asked_for_there_is_no_route_and_no_page(modes: Mapping[str, Stack]) -> None:
    for stack in modes.values():
        assert paths(stack)["/console"] == {}
        assert permissions(stack) == []
        assert variables(stack, "McpFunction")["BATON_CONSOLE"] == "off"
        assert "ConsoleUrl" not in stack.outputs


@pytest.mark.parametrize("mode", MODES)
def test_a_browser_can_open_it_without_credentials_and_send_it_nothing(stack: MakeStack, mode: str) -> None:
    methods = paths(stack(**MODES[mode], **ON))["/console"]

    assert {name: method["security"] for name, method in methods.items()} == {"get": [], "head": []}


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "NONE"])
def test_the_endpoint_still_requires_an_identity(stack: MakeStack, mode: str) -> None:
    asked, usual = (paths(made)["/mcp"] for made in (stack(**MODES[mode], **ON), stack(**MODES[mode])))

    assert all(asked[name]["security"] for name in ("post", "get", "delete"))
    assert asked == usual


def test_it_reaches_the_function_as_the_endpoint_does(stack: MakeStack) -> None:
    made = stack(**ON)
    endpoint = paths(made)["/mcp"]["get"]["x-amazon-apigateway-integration"]

    for method in paths(made)["/console"].values():
        integration = method["x-amazon-apigateway-integration"]
        assert {**integration, "timeoutInMillis": endpoint["timeoutInMillis"]} == endpoint
    [permission] = permissions(made)
    assert permission["Principal"] == "apigateway.amazonaws.com"
    assert permission["FunctionName"] == {"Ref": "McpFunctionAliaslive"}
    assert permission["SourceArn"].endswith(":${Api}/*/*/console")


def test_the_function_serves_it_where_the_route_is(stack: MakeStack) -> None:
    made = stack(**ON)

    assert variables(made, "McpFunction")["BATON_CONSOLE"] == "on"
    assert made.outputs["ConsoleUrl"].endswith("/v1/console")
    assert made.dangling() == set()
