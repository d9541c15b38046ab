"""The authorizer's responses to API Gateway."""

from collections.abc import Callable
from typing import Any

import pytest

from authorizer import Authorizer
from mcp_baton.transport.request_context import resolve_owner
from tests.authorizer.conftest import AUDIENCE, ISSUER, Issuer, Question
from tokens import Rules, TokenVerifier

METADATA = "https://a1.execute-api.eu-central-1.amazonaws.com/v1/.well-known/oauth-protected-resource"


def authorizer(issuer: Issuer, public_url: str = "") -> Authorizer:
    scopes = frozenset({"read"})
    return Authorizer(TokenVerifier(Rules(ISSUER, frozenset({AUDIENCE}), scopes), issuer.find_key), scopes, public_url)


def effect(answer: dict[str, Any]) -> str:
    [statement] = answer["policyDocument"]["Statement"]
    assert statement["Action"] == "execute-api:Invoke"
    return str(statement["Effect"])


@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
def test_a_valid_token_allows_only_this_call(issuer: Issuer, question: Question, scheme: str) -> None:
    event = question(f"{scheme} {issuer.sign()}")

    answer = authorizer(issuer)(event, None)

    assert effect(answer) == "Allow"
    assert answer["policyDocument"]["Statement"][0]["Resource"] == event["methodArn"]


@pytest.mark.parametrize(
    ("claims", "owner"),
    [({}, "kim"), ({"client_id": "app"}, "kim"), ({"sub": "robot", "client_id": "robot"}, "robot")],
)
def test_a_tokens_subject_is_its_owner(issuer: Issuer, question: Question, claims: dict[str, Any], owner: str) -> None:
    answer = authorizer(issuer)(question(f"Bearer {issuer.sign(**claims)}"), None)
    # API Gateway passes the context on like this, with all values as text.
    request_context = {"authorizer": {**answer["context"], "principalId": answer["principalId"]}}

    assert answer["principalId"] == owner
    assert resolve_owner(request_context, allow_anonymous=False) == owner


@pytest.mark.parametrize(
    ("claims", "scope"),
    [
        ({"client_id": {"a": 1}, "groups": ["admin"]}, "read"),
        ({"scope": None, "scp": ["read", "orders:write"]}, "orders:write read"),
        ({"scope": None, "scp": ["read", "all orders", 7]}, "read"),
    ],
    ids=[
        "nothing but text",
        "scopes as text whichever claim and form the issuer writes",
        "nothing that would become two scopes",
    ],
)
def test_the_context_contains_only_text_and_the_scopes(
    issuer: Issuer, question: Question, claims: dict[str, Any], scope: str
) -> None:
    answer = authorizer(issuer)(question(f"Bearer {issuer.sign(**claims)}"), None)

    assert answer["context"] == {"sub": "kim", "scope": scope}


@pytest.mark.parametrize("authorization", [(), ("",), ("Bearer",), ("Bearer ",), ("Basic a2ltOmtpbQ==",)])
def test_a_call_without_a_token_gets_a_challenge_with_the_metadata_url(
    issuer: Issuer, question: Question, authorization: tuple[str, ...]
) -> None:
    answer = authorizer(issuer)(question(*authorization), None)

    assert effect(answer) == "Deny"
    assert answer["context"] == {"challenge": f'Bearer scope="read", resource_metadata="{METADATA}"'}


@pytest.mark.parametrize(
    ("authorization", "error"),
    [
        (lambda _: ["Bearer x.y.z"], "invalid_token"),
        (lambda issuer: [f"Bearer {issuer.sign(scope='write')}"], "insufficient_scope"),
        (lambda issuer: [f"Bearer {issuer.sign()}"] * 2, "invalid_request"),
    ],
    ids=["a bad one", "one without the scope", "two of them"],
)
def test_the_challenge_names_the_tokens_error(
    issuer: Issuer, question: Question, authorization: Callable[[Issuer], list[str]], error: str
) -> None:
    answer = authorizer(issuer)(question(*authorization(issuer)), None)

    assert effect(answer) == "Deny"
    assert answer["context"]["challenge"].startswith(f'Bearer error="{error}", error_description="')
    assert answer["context"]["challenge"].endswith(f'scope="read", resource_metadata="{METADATA}"')


@pytest.mark.parametrize(
    ("domain", "base", "configured", "expected"),
    [
        ("a1.amazonaws.com", "/v1", "", "https://a1.amazonaws.com/v1"),
        ("mcp.example.com", "", "", "https://mcp.example.com"),
        ("mcp.example.com", "/team", "", "https://mcp.example.com/team"),
        ("a1.amazonaws.com", "/v1", "https://mcp.example.com", "https://mcp.example.com"),
    ],
)
def test_the_metadata_url_is_the_called_address_unless_one_is_configured(
    issuer: Issuer, question: Question, domain: str, base: str, configured: str, expected: str
) -> None:
    answer = authorizer(issuer, configured)(question(domain=domain, base=base), None)

    assert f'resource_metadata="{expected}/.well-known/oauth-protected-resource"' in answer["context"]["challenge"]


def test_a_forged_header_changes_neither_owner_nor_metadata(issuer: Issuer, question: Question) -> None:
    event = question(f"Bearer {issuer.sign()}")
    forged = {"X-Forwarded-Host": ["evil.example.com"], "Host": ["evil.example.com"], "sub": ["root"]}
    event["multiValueHeaders"] |= forged

    assert authorizer(issuer)(event, None)["context"]["sub"] == "kim"
    assert "evil" not in str(authorizer(issuer)(event | {"multiValueHeaders": forged}, None))
