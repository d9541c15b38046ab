"""Which web pages can read what API Gateway answers by itself, and that their browsers ask the function."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.template.cloudformation import Stack
from tests.template.conftest import MODES, MakeStack

METADATA = "/.well-known/oauth-protected-resource"
PLACES = (METADATA, f"{METADATA}/mcp")
PAGES = "https://app.example.com,http://localhost:6274"
OF_ITS_OWN = {"DEFAULT_4XX", "DEFAULT_5XX", "UNAUTHORIZED", "INVALID_API_KEY", "MISSING_AUTHENTICATION_TOKEN"}
"""The answers that API Gateway gives in every mode; those not named here follow the defaults."""


def body(stack: Stack) -> Any:
    return stack.one("AWS::ApiGateway::RestApi")["Body"]


def said_to_browsers(answer: Mapping[str, Any]) -> dict[str, str]:
    """The headers of an answer that a browser asks about, by their names."""
    parameters = answer.get("responseParameters", {})
    found = {name.partition(".header.")[2]: value for name, value in parameters.items()}
    return {name: value for name, value in found.items() if name.startswith("Access-Control-")}


@pytest.mark.parametrize("mode", MODES)
def test_pages_can_read_why_api_gateway_refuses_where_pages_may_call(stack: MakeStack, mode: str) -> None:
    answers = body(stack(**MODES[mode], AllowedOrigins=PAGES))["x-amazon-apigateway-gateway-responses"]

    assert answers.keys() - {"ACCESS_DENIED"} == OF_ITS_OWN
    assert ("ACCESS_DENIED" in answers) == (mode in {"COGNITO", "JWT"})
    for kind, answer in answers.items():
        expected = {"Access-Control-Allow-Origin": "'*'", "Access-Control-Expose-Headers": "'*'"}
        assert said_to_browsers(answer) == expected, kind


@pytest.mark.parametrize("mode", MODES)
def test_pages_can_read_nothing_of_api_gateways_where_none_may_call(modes: Mapping[str, Stack], mode: str) -> None:
    answers = body(modes[mode])["x-amazon-apigateway-gateway-responses"]

    assert answers.keys() - {"ACCESS_DENIED"} == OF_ITS_OWN - {"DEFAULT_4XX", "DEFAULT_5XX"}
    assert [kind for kind, answer in answers.items() if said_to_browsers(answer)] == []


@pytest.mark.parametrize("mode", MODES)
def test_a_browsers_question_reaches_the_function_without_credentials(modes: Mapping[str, Stack], mode: str) -> None:
    method = body(modes[mode])["paths"]["/mcp"]["options"]

    assert method["security"] == []
    assert method["x-amazon-apigateway-integration"]["type"] == "aws_proxy"
    assert method["x-amazon-apigateway-integration"]["httpMethod"] == "POST"


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("mode", MODES)
def test_every_page_can_read_the_metadata_or_a_404(modes: Mapping[str, Stack], mode: str, place: str) -> None:
    responses = body(modes[mode])["paths"][place]["get"]["x-amazon-apigateway-integration"]["responses"]

    assert {status: said_to_browsers(answer) for status, answer in responses.items()} == {
        "200": {"Access-Control-Allow-Origin": "'*'"},
        "404": {"Access-Control-Allow-Origin": "'*'"},
    }


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("mode", MODES)
def test_every_page_may_ask_for_the_metadata_with_any_header(modes: Mapping[str, Stack], mode: str, place: str) -> None:
    method = body(modes[mode])["paths"][place]["options"]
    integration = method["x-amazon-apigateway-integration"]

    assert (method["security"], integration["type"]) == ([], "mock")
    assert json.loads(integration["requestTemplates"]["application/json"]) == {"statusCode": 204}
    assert said_to_browsers(integration["responses"]["204"]) == {
        "Access-Control-Allow-Origin": "'*'",
        "Access-Control-Allow-Methods": "'GET'",
        "Access-Control-Allow-Headers": "'*'",
        "Access-Control-Max-Age": "'7200'",
    }


def mocks(stack: Stack) -> Iterator[tuple[str, Any]]:
    for path, methods in body(stack)["paths"].items():
        for name, method in methods.items():
            if method["x-amazon-apigateway-integration"]["type"] == "mock":
                yield f"{name} {path}", method


def test_every_header_of_a_mock_answer_is_declared_as_api_gateway_wants(default: Stack) -> None:
    found = dict(mocks(default))

    assert len(found) == 4
    for name, method in found.items():
        for status, answer in method["x-amazon-apigateway-integration"]["responses"].items():
            sent = {header.removeprefix("method.response.header.") for header in answer["responseParameters"]}
            assert sent == method["responses"][status]["headers"].keys(), (name, status)
