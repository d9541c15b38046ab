"""The routes of approvals have the endpoint's authorizer. Links without credentials exist only if they are turned
on.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.template.cloudformation import Stack
from tests.template.conftest import MODES, MakeStack, body, variables
from tests.template.test_operation import statements

INTEGRATION = "x-amazon-apigateway-integration"
TOPIC = "arn:aws:sns:eu-central-1:111122223333:approvals"


def security(stack: Stack, path: str) -> dict[str, Any]:
    return {name: method.get("security") for name, method in body(stack)["paths"][path].items()}


def permissions(stack: Stack) -> list[str]:
    sources = [entry["SourceArn"] for entry in stack.of_type("AWS::Lambda::Permission") if "SourceArn" in entry]
    return [source.rpartition("${Api}")[2] for source in map(str, sources) if "approv" in source]


@pytest.mark.parametrize("mode", MODES)
def test_approval_routes_require_the_endpoints_credentials(modes: Mapping[str, Stack], mode: str) -> None:
    credentials = security(modes[mode], "/mcp")["post"]

    assert security(modes[mode], "/approvals") == {"get": credentials, "options": []}
    assert security(modes[mode], "/approvals/{id}") == {"get": credentials, "post": credentials, "options": []}
    assert permissions(modes[mode]) == ["/*/*/approvals*"]


@pytest.mark.parametrize("mode", MODES)
def test_links_exist_only_if_they_are_turned_on(stack: MakeStack, modes: Mapping[str, Stack], mode: str) -> None:
    variant = stack(**MODES[mode], ApprovalLinks="on")

    assert body(modes[mode])["paths"]["/approve/{token}"] == {}
    assert security(variant, "/approve/{token}") == {"get": [], "post": []}
    assert permissions(variant) == ["/*/*/approvals*", "/*/*/approve/*"]
    assert [variables(each_stack)["BATON_APPROVAL_LINKS"] for each_stack in (modes[mode], variant)] == ["off", "on"]


def test_links_have_their_own_limit_and_their_tokens_are_not_logged(stack: MakeStack) -> None:
    [stage] = stack(ApprovalLinks="on").of_type("AWS::ApiGateway::Stage")
    limits = [setting for setting in stage["MethodSettings"] if setting["ResourcePath"] == "/~1approve~1{token}"]

    assert [(setting["ThrottlingRateLimit"], setting["LoggingLevel"]) for setting in limits] == [(5, "OFF")]
    assert "$context.resourcePath" in stage["AccessLogSetting"]["Format"]
    assert "$context.path" not in stage["AccessLogSetting"]["Format"]


def test_the_routes_have_the_endpoints_integration(stack: MakeStack) -> None:
    paths = body(stack(ApprovalLinks="on"))["paths"]
    endpoint = paths["/mcp"]["get"][INTEGRATION]

    for path in ("/approvals", "/approvals/{id}", "/approve/{token}"):
        for method in paths[path].values():
            assert {**method[INTEGRATION], "timeoutInMillis": endpoint["timeoutInMillis"]} == endpoint


def test_the_table_has_an_index_of_lists_with_keys_only(default: Stack) -> None:
    [table] = default.of_type("AWS::DynamoDB::Table")
    [index] = table["GlobalSecondaryIndexes"]

    assert (index["IndexName"], index["Projection"]) == ("lists", {"ProjectionType": "KEYS_ONLY"})
    assert [key["AttributeName"] for key in index["KeySchema"]] == ["listed_in", "listed_at"]


@pytest.mark.parametrize("topic", ["", TOPIC])
def test_the_functions_may_publish_only_to_the_operators_topic(stack: MakeStack, topic: str) -> None:
    variant = stack(ApprovalTopic=topic)
    rights = [right["Resource"] for right in statements(variant, "McpFunction") if right["Action"] == "sns:Publish"]

    assert rights == ([topic] if topic else [])
    assert variables(variant)["BATON_APPROVAL_TOPIC"] == topic
