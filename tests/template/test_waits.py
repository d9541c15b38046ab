"""The route of callbacks: without credentials, with its own limits, and without its tokens in the logs."""

from collections.abc import Mapping

import pytest

from mcp_baton.protocol.http import CALLBACKS_PATH
from tests.template.cloudformation import Stack
from tests.template.conftest import MODES, MakeStack, body

ROUTE = f"{CALLBACKS_PATH}{{token}}"
INTEGRATION = "x-amazon-apigateway-integration"


@pytest.mark.parametrize("mode", MODES)
def test_a_callback_needs_no_credentials_in_any_mode(modes: Mapping[str, Stack], mode: str) -> None:
    methods = body(modes[mode])["paths"][ROUTE]

    assert {name: method["security"] for name, method in methods.items()} == {"post": []}


def test_the_route_has_the_endpoints_integration(default: Stack) -> None:
    paths = body(default)["paths"]
    endpoint = paths["/mcp"]["post"][INTEGRATION]

    assert {**paths[ROUTE]["post"][INTEGRATION], "timeoutInMillis": endpoint["timeoutInMillis"]} == endpoint


@pytest.mark.parametrize("mode", MODES)
def test_api_gateway_may_invoke_the_function_for_a_post_only(modes: Mapping[str, Stack], mode: str) -> None:
    permissions = modes[mode].of_type("AWS::Lambda::Permission")
    rights = [right for right in permissions if CALLBACKS_PATH in str(right.get("SourceArn"))]

    assert [str(right["SourceArn"]).rpartition("${Api}")[2] for right in rights] == [f"/*/POST{CALLBACKS_PATH}*"]
    assert [(right["Principal"], right["FunctionName"]) for right in rights] == [
        ("apigateway.amazonaws.com", {"Ref": "McpFunctionAliaslive"})
    ]


def test_callbacks_have_their_own_limits(stack: MakeStack) -> None:
    stage = stack(ThrottleRate="7", ThrottleBurst="9").single("AWS::ApiGateway::Stage")
    [setting] = [entry for entry in stage["MethodSettings"] if entry["ResourcePath"] == "/" + ROUTE.replace("/", "~1")]

    assert setting["HttpMethod"] == "POST"
    assert (setting["ThrottlingRateLimit"], setting["ThrottlingBurstLimit"]) == (50, 100)


def test_no_log_of_api_gateway_contains_the_token(default: Stack) -> None:
    stage = default.single("AWS::ApiGateway::Stage")
    [setting] = [entry for entry in stage["MethodSettings"] if "callbacks" in entry["ResourcePath"]]
    access_log = stage["AccessLogSetting"]["Format"]

    # Error logs can contain the request's path.
    assert (setting["LoggingLevel"], setting["DataTraceEnabled"], setting["MetricsEnabled"]) == ("OFF", False, True)
    assert "$context.resourcePath" in access_log  # the path with `{token}` in it
    assert "$context.path" not in access_log
