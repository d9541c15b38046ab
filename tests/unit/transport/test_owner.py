"""Owner resolution (contract section 9)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_baton.transport.owner import resolve_owner

ROLE = "arn:aws:sts::123456789012:assumed-role/agent/session"


@pytest.mark.parametrize(
    ("context", "owner"),
    [
        pytest.param({"authorizer": {"claims": {"sub": "u1", "client_id": "c1"}}}, "u1", id="cognito sub"),
        pytest.param({"authorizer": {"claims": {"client_id": "c1"}}}, "c1", id="cognito client"),
        pytest.param({"authorizer": {"sub": "u1", "principalId": "p1"}}, "u1", id="lambda authorizer sub"),
        pytest.param({"authorizer": {"client_id": "c1", "principalId": "p1"}}, "c1", id="lambda authorizer client"),
        pytest.param({"authorizer": {"principalId": "p1", "integrationLatency": 4}}, "p1", id="principal id"),
        pytest.param({"authorizer": {"jwt": {"claims": {"sub": "u1"}, "scopes": None}}}, "u1", id="jwt sub"),
        pytest.param({"authorizer": {"jwt": {"claims": {"client_id": "c1"}}}}, "c1", id="jwt client"),
        pytest.param({"authorizer": {"lambda": {"sub": "u1"}}}, "u1", id="http api lambda authorizer"),
        pytest.param({"authorizer": {"lambda": {"principalId": "p1"}}}, "p1", id="http api principal id"),
        pytest.param({"authorizer": {"iam": {"userArn": ROLE, "userId": "AROA:s"}}}, ROLE, id="http api iam"),
        pytest.param({"identity": {"userArn": ROLE, "user": "AROA:s"}}, ROLE, id="rest iam"),
        pytest.param({"identity": {"apiKeyId": "k1", "apiKey": "secret"}}, "k1", id="api key"),
        pytest.param({"identity": {"apiKeyId": "k1", "userArn": ROLE}}, ROLE, id="iam before api key"),
        pytest.param(
            {"authorizer": {"claims": {"sub": "u1"}}, "identity": {"userArn": ROLE}}, "u1", id="sub before iam"
        ),
        pytest.param(
            {"authorizer": {"claims": {"sub": ""}, "sub": 7, "client_id": None}, "identity": {"apiKeyId": "k1"}},
            "k1",
            id="what is no text counts for nothing",
        ),
    ],
)
def test_the_owner_is_what_the_authorizer_vouches_for(context: dict[str, Any], owner: str) -> None:
    assert resolve_owner(context, allow_anonymous=False) == owner
    assert resolve_owner(context, allow_anonymous=True) == owner


@pytest.mark.parametrize(
    "context",
    [
        {"identity": {"userArn": ROLE, "cognitoIdentityId": "eu-west-1:one"}},
        {"authorizer": {"iam": {"userArn": ROLE, "cognitoIdentity": {"identityId": "eu-west-1:one"}}}},
    ],
)
def test_users_of_one_identity_pool_are_told_apart_although_they_share_a_role(context: dict[str, Any]) -> None:
    assert resolve_owner(context, allow_anonymous=False) == "eu-west-1:one"


@pytest.mark.parametrize(
    "context",
    [
        {},
        {"authorizer": None, "identity": None},
        {"authorizer": "sub", "identity": ["userArn"]},
        {"authorizer": {"lambda": None, "jwt": None, "iam": None, "claims": "sub"}},
        {"identity": {"sourceIp": "192.0.2.7", "userAgent": "sub", "apiKey": "written by the client"}},
        {"http": {"userAgent": "me"}, "path": "/mcp", "sub": "me", "client_id": "me", "principalId": "me"},
    ],
)
def test_without_an_identity_the_owner_is_anonymous_only_where_allowed(context: dict[str, Any]) -> None:
    assert resolve_owner(context, allow_anonymous=False) is None
    assert resolve_owner(context, allow_anonymous=True) == "anonymous"


NAMES = st.sampled_from(["authorizer", "claims", "jwt", "lambda", "iam", "identity", "sub", "userArn", "apiKeyId"])
VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=3),
)


@given(st.dictionaries(NAMES, VALUES))
def test_an_owner_is_never_empty_and_nothing_raises(context: dict[str, Any]) -> None:
    owner = resolve_owner(context, allow_anonymous=False)
    assert owner is None or (isinstance(owner, str) and owner != "")
