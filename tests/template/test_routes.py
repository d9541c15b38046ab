"""The function's routes: their credentials, their integration, their limits, and what the logs contain of them."""

from collections.abc import Mapping
from typing import Any

import pytest

from mcp_baton.protocol.http import CALLBACKS_PATH
from tests.template.cloudformation import Stack
from tests.template.conftest import MODES, MakeStack, body, variables

INTEGRATION = "x-amazon-apigateway-integration"
SWITCHES = {"ApprovalLinks": "on", "Console": "on"}
LINK, CALLBACK = "/approve/{token}", f"{CALLBACKS_PATH}{{token}}"
AS_ENDPOINT = "the endpoint's"
ROUTES: dict[str, dict[str, Any]] = {
    "/approvals": {"get": AS_ENDPOINT, "options": []},
    "/approvals/{id}": {"get": AS_ENDPOINT, "post": AS_ENDPOINT, "options": []},
    LINK: {"get": [], "post": []},
    "/console": {"get": [], "head": []},
    CALLBACK: {"post": []},
}
"""The credentials of each method."""


def security(stack: Stack, path: str) -> dict[str, Any]:
    return {name: method.get("security") for name, method in body(stack)["paths"][path].items()}


def permissions(stack: Stack) -> set[str]:
    """Return the paths for which API Gateway may invoke the function, without those of the endpoint."""
    rights = [right for right in stack.of_type("AWS::Lambda::Permission") if "${Api}" in str(right.get("SourceArn"))]
    paths = {str(right["SourceArn"]).rpartition("${Api}")[2]: right for right in rights}
    others = {path: right for path, right in paths.items() if "/mcp" not in path and "/authorizers/" not in path}
    assert {right["Principal"] for right in others.values()} == {"apigateway.amazonaws.com"}
    assert [right["FunctionName"] for right in others.values()] == [{"Ref": "McpFunctionAliaslive"}] * len(others)
    return set(others)


@pytest.mark.parametrize("mode", MODES)
def test_each_route_requires_the_endpoints_credentials_or_none_at_all(
    stack: MakeStack, modes: Mapping[str, Stack], mode: str
) -> None:
    variant = stack(**MODES[mode], **SWITCHES)
    credentials = security(modes[mode], "/mcp")["post"]

    assert {path: security(variant, path) for path in ROUTES} == {
        path: {name: credentials if value is AS_ENDPOINT else value for name, value in methods.items()}
        for path, methods in ROUTES.items()
    }
    assert body(variant)["paths"]["/mcp"] == body(modes[mode])["paths"]["/mcp"]
    always = {"/*/*/approvals*", f"/*/POST{CALLBACKS_PATH}*"}
    assert permissions(modes[mode]) == always
    assert permissions(variant) == {*always, "/*/*/approve/*", "/*/*/console*"}


@pytest.mark.parametrize("mode", MODES)
def test_links_and_the_console_must_be_turned_on(stack: MakeStack, modes: Mapping[str, Stack], mode: str) -> None:
    variant = stack(**MODES[mode], **SWITCHES)

    assert body(modes[mode])["paths"][LINK] == body(modes[mode])["paths"]["/console"] == {}
    for name in ("BATON_APPROVAL_LINKS", "BATON_CONSOLE"):
        assert [variables(each_stack)[name] for each_stack in (modes[mode], variant)] == ["off", "on"]
    assert "ConsoleUrl" not in modes[mode].outputs
    assert variant.outputs["ConsoleUrl"].endswith("/v1/console")


def test_the_endpoint_streams_for_longer_than_the_function_and_routes_have_its_integration(stack: MakeStack) -> None:
    variant = stack(**SWITCHES)
    paths = body(variant)["paths"]
    endpoint = paths["/mcp"]["get"][INTEGRATION]

    assert [method[INTEGRATION] for method in paths["/mcp"].values()] == [endpoint] * 4
    assert (endpoint["type"], endpoint["responseTransferMode"]) == ("aws_proxy", "STREAM")
    assert endpoint["uri"].endswith("/functions/${McpFunctionAliaslive}/response-streaming-invocations")
    assert endpoint["timeoutInMillis"] == 900_000
    # A stream of a regional API may be silent for minutes.
    assert variant.single("AWS::ApiGateway::RestApi")["EndpointConfiguration"] == {"Types": ["REGIONAL"]}
    for path in ROUTES:
        for method in paths[path].values():
            assert {**method[INTEGRATION], "timeoutInMillis": endpoint["timeoutInMillis"]} == endpoint


@pytest.mark.parametrize(
    ("route", "limits"),
    [
        (LINK, {"ThrottlingRateLimit": 5}),
        (CALLBACK, {"HttpMethod": "POST", "ThrottlingRateLimit": 50, "ThrottlingBurstLimit": 100}),
    ],
)
def test_a_route_with_a_token_has_its_own_limits_and_no_log_contains_the_token(
    stack: MakeStack, route: str, limits: dict[str, Any]
) -> None:
    stage = stack(**SWITCHES, ThrottleRate="7", ThrottleBurst="9").single("AWS::ApiGateway::Stage")
    settings = [entry for entry in stage["MethodSettings"] if entry["ResourcePath"] == "/" + route.replace("/", "~1")]

    # Error logs can contain the request's path.
    unlogged = {"LoggingLevel": "OFF", "DataTraceEnabled": False, "MetricsEnabled": True}
    assert [setting.items() >= {**limits, **unlogged}.items() for setting in settings] == [True]
    assert "$context.resourcePath" in stage["AccessLogSetting"]["Format"]  # the path with `{token}` in it
    assert "$context.path" not in stage["AccessLogSetting"]["Format"]
