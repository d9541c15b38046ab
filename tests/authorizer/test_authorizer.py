"""What API Gateway is told."""

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


def test_a_good_token_lets_this_call_through_and_no_other(issuer: Issuer, question: Question) -> None:
    asked = question(f"Bearer {issuer.sign()}")

    answer = authorizer(issuer)(asked, None)

    assert effect(answer) == "Allow"
    assert answer["policyDocument"]["Statement"][0]["Resource"] == asked["methodArn"]


@pytest.mark.parametrize(
    ("claims", "owner"),
    [({}, "kim"), ({"sub": None, "client_id": "robot"}, "robot"), ({"client_id": "app"}, "kim")],
)
def test_the_function_sees_the_tokens_bearer_as_owner(
    issuer: Issuer, question: Question, claims: dict[str, Any], owner: str
) -> None:
    answer = authorizer(issuer)(question(f"Bearer {issuer.sign(**claims)}"), None)
    # API Gateway hands the context on like this, all of it text.
    handed_on = {"authorizer": {**answer["context"], "principalId": answer["principalId"]}}

    assert answer["principalId"] == owner
    assert resolve_owner(handed_on, allow_anonymous=False) == owner


def test_nothing_but_text_is_handed_on(issuer: Issuer, question: Question) -> None:
    token = issuer.sign(client_id={"a": 1}, groups=["admin"])

    assert authorizer(issuer)(question(f"Bearer {token}"), None)["context"] == {"sub": "kim", "scope": "read"}


def test_scopes_are_handed_on_as_text_whichever_claim_and_form_the_issuer_writes(
    issuer: Issuer, question: Question
) -> None:
    token = issuer.sign(scope=None, scp=["read", "orders:write"])

    context = authorizer(issuer)(question(f"Bearer {token}"), None)["context"]

    assert context == {"sub": "kim", "scope": "orders:write read"}


def test_the_schemes_name_may_be_written_in_any_case(issuer: Issuer, question: Question) -> None:
    assert effect(authorizer(issuer)(question(f"bearer {issuer.sign()}"), None)) == "Allow"


@pytest.mark.parametrize("authorization", [(), ("",), ("Bearer",), ("Bearer ",), ("Basic a2ltOmtpbQ==",)])
def test_a_call_without_a_token_learns_where_to_get_one(
    issuer: Issuer, question: Question, authorization: tuple[str, ...]
) -> None:
    answer = authorizer(issuer)(question(*authorization), None)

    assert effect(answer) == "Deny"
    assert answer["context"] == {"challenge": f'Bearer scope="read", resource_metadata="{METADATA}"'}


def test_a_bad_token_is_called_bad(issuer: Issuer, question: Question) -> None:
    answer = authorizer(issuer)(question("Bearer x.y.z"), None)

    assert effect(answer) == "Deny"
    assert answer["context"]["challenge"].startswith('Bearer error="invalid_token", error_description="')
    assert answer["context"]["challenge"].endswith(f'scope="read", resource_metadata="{METADATA}"')


def test_a_token_without_the_scope_is_told_which_to_ask_for(issuer: Issuer, question: Question) -> None:
    answer = authorizer(issuer)(question(f"Bearer {issuer.sign(scope='write')}"), None)

    assert effect(answer) == "Deny"
    assert 'error="insufficient_scope"' in answer["context"]["challenge"]


def test_of_two_tokens_none_is_chosen(issuer: Issuer, question: Question) -> None:
    answer = authorizer(issuer)(question(f"Bearer {issuer.sign()}", f"Bearer {issuer.sign()}"), None)

    assert effect(answer) == "Deny"
    assert 'error="invalid_request"' in answer["context"]["challenge"]


@pytest.mark.parametrize(
    ("domain", "base", "expected"),
    [
        ("a1.execute-api.eu-central-1.amazonaws.com", "/v1", "https://a1.execute-api.eu-central-1.amazonaws.com/v1"),
        ("mcp.example.com", "", "https://mcp.example.com"),
        ("mcp.example.com", "/team", "https://mcp.example.com/team"),
    ],
)
def test_the_metadata_is_where_the_client_called(
    issuer: Issuer, question: Question, domain: str, base: str, expected: str
) -> None:
    answer = authorizer(issuer)(question(domain=domain, base=base), None)

    assert f'resource_metadata="{expected}/.well-known/oauth-protected-resource"' in answer["context"]["challenge"]


def test_a_configured_url_comes_before_what_was_called(issuer: Issuer, question: Question) -> None:
    answer = authorizer(issuer, "https://mcp.example.com")(question(), None)

    assert "https://mcp.example.com/.well-known/" in answer["context"]["challenge"]


def test_a_forged_header_changes_neither_owner_nor_metadata(issuer: Issuer, question: Question) -> None:
    asked = question(f"Bearer {issuer.sign()}")
    asked["multiValueHeaders"] |= {
        "X-Forwarded-Host": ["evil.example.com"],
        "Host": ["evil.example.com"],
        "sub": ["root"],
    }

    assert authorizer(issuer)(asked, None)["context"]["sub"] == "kim"
    assert "evil" not in str(authorizer(issuer)(asked | {"multiValueHeaders": {"Host": ["evil.example.com"]}}, None))
