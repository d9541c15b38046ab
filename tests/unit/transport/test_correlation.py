"""The id by which a request is found again."""

from types import SimpleNamespace

import pytest

from mcp_baton.transport.request_context import correlation_id

CONTEXT = SimpleNamespace(aws_request_id="lambda-id")


@pytest.mark.parametrize(
    ("request_context", "context", "found"),
    [
        ({"requestId": "gateway-id"}, CONTEXT, "gateway-id"),
        ({"requestId": ""}, CONTEXT, "lambda-id"),
        ({"requestId": 5}, CONTEXT, "lambda-id"),
        ({}, CONTEXT, "lambda-id"),
        (None, CONTEXT, "lambda-id"),
        ("text", CONTEXT, "lambda-id"),
        ({"requestId": "gateway-id"}, None, "gateway-id"),
    ],
)
def test_api_gateways_id_comes_first(request_context: object, context: object, found: str) -> None:
    assert correlation_id(request_context, context) == found


def test_a_request_without_any_id_gets_one_of_its_own() -> None:
    assert correlation_id(None, None) != correlation_id(None, None)
