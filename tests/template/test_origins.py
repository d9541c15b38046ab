"""Web pages can read API Gateway's own responses if pages may call, and preflight requests reach the function."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.template.cloudformation import Stack
from tests.template.conftest import METADATA_PATHS, MODES, SERVER_METADATA_PATHS, MakeStack, body

PAGES = "https://app.example.com,http://localhost:6274"
OWN_RESPONSES = {"DEFAULT_4XX", "DEFAULT_5XX", "UNAUTHORIZED", "INVALID_API_KEY", "MISSING_AUTHENTICATION_TOKEN"}
"""The responses that API Gateway gives by itself in every mode. Other responses use the defaults."""


def cors_headers(response: Mapping[str, Any]) -> dict[str, str]:
    parameters = response.get("responseParameters", {})
    headers = {name.partition(".header.")[2]: value for name, value in parameters.items()}
    return {name: value for name, value in headers.items() if name.startswith("Access-Control-")}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("pages", [PAGES, ""], ids=["pages may call", "no page may call"])
def test_pages_can_read_api_gateways_errors_if_pages_may_call(stack: MakeStack, mode: str, pages: str) -> None:
    responses = body(stack(**MODES[mode], AllowedOrigins=pages))["x-amazon-apigateway-gateway-responses"]

    assert responses.keys() - {"ACCESS_DENIED"} == OWN_RESPONSES - (set() if pages else {"DEFAULT_4XX", "DEFAULT_5XX"})
    assert ("ACCESS_DENIED" in responses) == (mode in {"COGNITO", "NEW_POOL", "JWT"})
    expected = {"Access-Control-Allow-Origin": "'*'", "Access-Control-Expose-Headers": "'*'"} if pages else {}
    for kind, response in responses.items():
        assert cors_headers(response) == expected, kind


def test_preflight_requests_reach_the_function(default: Stack) -> None:
    integration = body(default)["paths"]["/mcp"]["options"]["x-amazon-apigateway-integration"]

    assert (integration["type"], integration["httpMethod"]) == ("aws_proxy", "POST")


@pytest.mark.parametrize("path", [*METADATA_PATHS, *SERVER_METADATA_PATHS])
def test_every_page_may_read_the_metadata_with_any_header(modes: Mapping[str, Stack], path: str) -> None:
    for stack in modes.values():
        methods = body(stack)["paths"][path]
        preflight = methods["options"]["x-amazon-apigateway-integration"]
        responses = methods["get"]["x-amazon-apigateway-integration"]["responses"] | preflight["responses"]

        assert (methods["options"]["security"], preflight["type"]) == ([], "mock")
        assert json.loads(preflight["requestTemplates"]["application/json"]) == {"statusCode": 204}
        any_origin = {"Access-Control-Allow-Origin": "'*'"}
        assert {status: cors_headers(response) for status, response in responses.items()} == {
            "200": any_origin,
            "404": any_origin,
            "204": {
                **any_origin,
                "Access-Control-Allow-Methods": "'GET'",
                "Access-Control-Allow-Headers": "'*'",
                "Access-Control-Max-Age": "'7200'",
            },
        }


def test_every_header_of_a_mock_response_is_declared(default: Stack) -> None:
    methods = [method for path_methods in body(default)["paths"].values() for method in path_methods.values()]
    mocks = [method for method in methods if method["x-amazon-apigateway-integration"]["type"] == "mock"]

    assert len(mocks) == 10
    for method in mocks:
        for status, response in method["x-amazon-apigateway-integration"]["responses"].items():
            header_names = {header.removeprefix("method.response.header.") for header in response["responseParameters"]}
            assert header_names == method["responses"][status]["headers"].keys(), status
