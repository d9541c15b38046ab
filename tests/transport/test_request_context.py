"""Owner resolution (docs/http.md)."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_baton.transport.request_context import claims_in, correlation_id, resolve_owner

ACCOUNT, USER, ROLE = "123456789012", "AIDA2CRXO3S2JEXAMPLE", "AROA2DREO3S2AEXAMPLE"
USER_ARN = f"arn:aws:iam::{ACCOUNT}:user/kim"
SESSION_ARN = f"arn:aws:sts::{ACCOUNT}:assumed-role/agent/kim"


def rest_context(unique_id: str | None, arn: str = SESSION_ARN, **other_members: Any) -> dict[str, Any]:
    """Return the request context of a REST API for a signed request."""
    return {"identity": {"user": unique_id, "caller": unique_id, "userArn": arn, "accountId": ACCOUNT, **other_members}}


def http_context(unique_id: str | None, arn: str = SESSION_ARN, **other_members: Any) -> dict[str, Any]:
    """Return the request context of an HTTP API or function URL for a signed request."""
    iam = {"userId": unique_id, "callerId": unique_id, "userArn": arn, "accountId": ACCOUNT, "cognitoIdentity": None}
    return {"authorizer": {"iam": {**iam, **other_members}}}


@pytest.mark.parametrize(
    ("context", "owner"),
    [
        pytest.param({"authorizer": {"claims": {"sub": "u1", "client_id": "c1"}}}, "u1", id="cognito sub"),
        pytest.param({"authorizer": {"sub": "u1", "principalId": "p1"}}, "u1", id="lambda authorizer sub"),
        pytest.param({"authorizer": {"client_id": "c1", "principalId": "p1"}}, "p1", id="principal id, not the client"),
        pytest.param({"authorizer": {"principalId": "p1", "integrationLatency": 4}}, "p1", id="principal id"),
        pytest.param({"authorizer": {"jwt": {"claims": {"sub": "u1"}, "scopes": None}}}, "u1", id="jwt sub"),
        pytest.param({"authorizer": {"lambda": {"sub": "u1"}}}, "u1", id="http api lambda authorizer"),
        pytest.param({"authorizer": {"lambda": {"principalId": "p1"}}}, "p1", id="http api principal id"),
        pytest.param({"identity": {"apiKeyId": "k1", "apiKey": "secret"}}, "k1", id="api key"),
        pytest.param(rest_context(USER, USER_ARN, apiKeyId="k1"), USER, id="iam before api key"),
        pytest.param({"authorizer": {"claims": {"sub": "u1"}}, **rest_context(USER)}, "u1", id="sub before iam"),
        pytest.param(
            {"authorizer": {"claims": {}, "sub": 7, "principalId": None}, "identity": {"apiKeyId": "k1"}},
            "k1",
            id="values that are not strings are ignored",
        ),
    ],
)
def test_the_owner_is_the_identity_that_the_authorizer_verified(context: dict[str, Any], owner: str) -> None:
    assert resolve_owner(context, allow_anonymous=False) == owner
    assert resolve_owner(context, allow_anonymous=True) == owner


@pytest.mark.parametrize(
    "context",
    [
        rest_context(f"{ROLE}:CognitoIdentityCredentials", cognitoIdentityId="eu-west-1:one"),
        http_context(f"{ROLE}:CognitoIdentityCredentials", cognitoIdentity={"identityId": "eu-west-1:one"}),
    ],
)
def test_users_of_an_identity_pool_are_distinguished_even_with_a_shared_role(context: dict[str, Any]) -> None:
    assert resolve_owner(context, allow_anonymous=False) == "eu-west-1:one"


@pytest.mark.parametrize("event", [rest_context, http_context])
@pytest.mark.parametrize(
    ("unique_id", "owner"),
    [
        pytest.param(USER, USER, id="user"),
        pytest.param(ACCOUNT, ACCOUNT, id="root user"),
        pytest.param(f"{ROLE}:kim", ROLE, id="role"),
        pytest.param(f"{ACCOUNT}:kim", f"{ACCOUNT}:", id="federated user"),
        pytest.param(":kim", None, id="a session name without an id"),
    ],
)
def test_an_iam_caller_is_its_unique_id_without_the_name_of_its_session(
    event: Callable[[str], dict[str, Any]], unique_id: str, owner: str | None
) -> None:
    assert resolve_owner(event(unique_id), allow_anonymous=False) == owner


@pytest.mark.parametrize("context", [{"identity": {"caller": USER}}, {"authorizer": {"iam": {"callerId": USER}}}])
def test_both_fields_of_the_unique_id_are_accepted(context: dict[str, Any]) -> None:
    assert resolve_owner(context, allow_anonymous=False) == USER


@pytest.mark.parametrize("event", [rest_context, http_context])
def test_an_arn_is_not_an_identity_because_it_can_be_reused(event: Callable[[None, str], dict[str, Any]]) -> None:
    assert resolve_owner(event(None, USER_ARN), allow_anonymous=False) is None


@pytest.mark.parametrize(
    "context",
    [
        {},
        {"authorizer": None, "identity": None},
        {"authorizer": "sub", "identity": ["userArn"]},
        {"authorizer": {"lambda": None, "jwt": None, "iam": None, "claims": "sub"}},
        {"authorizer": {"client_id": "c1"}},
        {"authorizer": {"claims": {"client_id": "c1"}}, "identity": {"apiKeyId": "k1", "user": USER}},
        {"authorizer": {"jwt": {"claims": {"sub": "", "client_id": "c1"}}, "principalId": "p1"}},
        {"identity": {"sourceIp": "192.0.2.7", "userAgent": "sub", "apiKey": "written by the client"}},
        {"http": {"userAgent": "me"}, "path": "/mcp", "sub": "me", "client_id": "me", "principalId": "me"},
    ],
)
def test_without_an_identity_the_owner_is_anonymous_if_allowed(context: dict[str, Any]) -> None:
    assert resolve_owner(context, allow_anonymous=False) is None
    assert resolve_owner(context, allow_anonymous=True) == "anonymous"


NAMES = st.sampled_from(
    ["authorizer", "claims", "jwt", "lambda", "iam", "identity", "sub", "user", "caller", "userId", "apiKeyId"]
)
VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=4) | st.sampled_from([":", ":x", "AROA:", "1:x"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=3),
)


@given(st.dictionaries(NAMES, VALUES))
def test_an_owner_is_never_empty_and_no_context_raises(context: dict[str, Any]) -> None:
    owner = resolve_owner(context, allow_anonymous=False)
    assert owner is None or (isinstance(owner, str) and owner != "")


@pytest.mark.parametrize(
    ("context", "claims"),
    [
        ({"authorizer": {"claims": {"sub": "u1", "scope": "a b"}}}, {"sub": "u1", "scope": "a b"}),
        ({"authorizer": {"jwt": {"claims": {"scp": "[a b]"}, "scopes": ["c"]}}}, {"scp": ["a", "b"]}),
        ({"authorizer": {"jwt": {"claims": {"cognito:groups": "[a b]"}}}}, {"cognito:groups": ["a", "b"]}),
        ({"authorizer": {"jwt": {"claims": {"scp": "[x] [a]"}}}}, {"scp": ["x]", "[a"]}),
        ({"authorizer": {"jwt": {"claims": {"scope": "a b", "name": "[a]"}}}}, {"scope": "a b", "name": "[a]"}),
        ({"authorizer": {"claims": {"scope": "[a b]"}}}, {"scope": "[a b]"}),
        ({"authorizer": {"scope": "[a b]"}}, {"scope": "[a b]"}),
        ({"authorizer": {"lambda": {"scopes": ["a"]}}}, {"scopes": ["a"]}),
        (
            {"authorizer": {"principalId": "p1", "integrationLatency": 4, "scope": "a"}},
            {"principalId": "p1", "scope": "a"},
        ),
        (http_context(USER), {}),
        (rest_context(USER, apiKeyId="k1"), {}),
        ({"scope": "a", "identity": {"scope": "a"}}, {}),
        ({"authorizer": "a"}, {}),
    ],
)
def test_claims_come_from_the_authorizer(context: dict[str, Any], claims: dict[str, Any]) -> None:
    assert claims_in(context) == claims


CONTEXT = SimpleNamespace(aws_request_id="lambda-id")


@pytest.mark.parametrize(
    ("request_context", "context", "correlation"),
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
def test_api_gateways_request_id_is_used_first(request_context: object, context: object, correlation: str) -> None:
    assert correlation_id(request_context, context) == correlation


def test_a_request_without_an_id_gets_a_new_one() -> None:
    assert correlation_id(None, None) != correlation_id(None, None)
