"""Which tokens let their bearers in."""

import base64
import hmac
import json
import time
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.authorizer.conftest import AUDIENCE, ISSUER, Issuer
from tokens import Refused, Rules, TokenVerifier, UnknownKey


def verifier(issuer: Issuer, scopes: frozenset[str] = frozenset({"read", "admin"})) -> TokenVerifier:
    return TokenVerifier(Rules(ISSUER, frozenset({AUDIENCE, "other"}), scopes), issuer.find_key)


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


@pytest.mark.parametrize(
    "claims",
    [
        {},
        {"aud": ["somebody", AUDIENCE]},
        {"aud": "other"},
        {"sub": None, "client_id": "robot"},
        {"scope": "write admin"},
        {"scope": None, "scp": ["read"]},
        {"scope": None, "scp": "read"},
    ],
)
def test_a_good_token_yields_its_claims(issuer: Issuer, claims: dict[str, Any]) -> None:
    assert verifier(issuer).verify(issuer.sign(**claims))["iss"] == ISSUER


def test_both_kinds_of_keys_sign(issuer: Issuer) -> None:
    assert verifier(issuer).verify(issuer.sign("rsa"))["sub"] == "kim"
    assert verifier(issuer).verify(issuer.sign("curve"))["sub"] == "kim"


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://evil.example.com/"},
        {"iss": ISSUER.rstrip("/")},
        {"iss": None},
        {"aud": "https://somebody.example.com/mcp"},
        {"aud": []},
        {"aud": None},
        {"exp": int(time.time()) - 3600},
        {"exp": None},
        {"exp": "tomorrow"},
        {"nbf": int(time.time()) + 3600},
        {"iat": int(time.time()) + 3600},
        {"sub": None},
        {"sub": ""},
        {"sub": None, "client_id": ""},
    ],
)
def test_a_token_with_a_wrong_claim_is_refused(issuer: Issuer, claims: dict[str, Any]) -> None:
    with pytest.raises(Refused) as refused:
        verifier(issuer).verify(issuer.sign(**claims))

    assert refused.value.error == "invalid_token"


@pytest.mark.parametrize("kind", ["at+jwt", "AT+JWT", "application/at+jwt", "JWT", "jwt", None])
def test_a_token_that_says_it_is_for_access_or_nothing_in_particular_is_taken(issuer: Issuer, kind: str | None) -> None:
    assert verifier(issuer).verify(issuer.sign(headers={"typ": kind}))["sub"] == "kim"


@pytest.mark.parametrize("kind", ["logout+jwt", "dpop+jwt", "application/secevent+jwt", "token-introspection+jwt", "x"])
def test_what_the_issuer_signed_for_something_else_is_no_access_token(issuer: Issuer, kind: str) -> None:
    with pytest.raises(Refused) as refused:
        verifier(issuer, frozenset()).verify(issuer.sign(headers={"typ": kind}))

    assert refused.value.error == "invalid_token"


@pytest.mark.parametrize(
    "claims", [{"scope": "write"}, {"scope": "reader"}, {"scope": None}, {"scope": 7}, {"scope": ""}]
)
def test_a_token_without_a_wanted_scope_is_refused_as_such(issuer: Issuer, claims: dict[str, Any]) -> None:
    with pytest.raises(Refused) as refused:
        verifier(issuer).verify(issuer.sign(**claims))

    assert refused.value.error == "insufficient_scope"


def test_no_scope_is_wanted_where_none_is_named(issuer: Issuer) -> None:
    assert verifier(issuer, frozenset()).verify(issuer.sign(scope=None))["sub"] == "kim"


def test_a_token_signed_by_somebody_else_is_refused(issuer: Issuer) -> None:
    with pytest.raises(Refused):
        verifier(issuer).verify(Issuer().sign())


def test_a_token_of_an_unknown_key_is_refused(issuer: Issuer) -> None:
    with pytest.raises(Refused):
        verifier(issuer).verify(issuer.sign(headers={"kid": "another"}))


def test_an_algorithm_that_is_not_allowed_is_refused_though_the_key_is_the_issuers(issuer: Issuer) -> None:
    with pytest.raises(Refused):
        verifier(issuer).verify(issuer.sign("big"))


@pytest.mark.parametrize("header", [{"alg": "none"}, {"alg": "HS256"}, {"alg": "RS512"}, {"typ": "logout+jwt"}])
def test_a_token_that_cannot_be_right_makes_nobody_look_for_its_key(issuer: Issuer, header: dict[str, str]) -> None:
    looked: list[str] = []
    _, claims, signature = issuer.sign().split(".")
    head = encoded(json.dumps({"alg": "RS256", "kid": "made up"} | header).encode())

    def find(token: str) -> jwt.PyJWK:
        looked.append(token)
        raise UnknownKey(token)

    with pytest.raises(Refused):
        TokenVerifier(Rules(ISSUER, frozenset({AUDIENCE})), find).verify(f"{head}.{claims}.{signature}")
    assert looked == []


def test_a_token_whose_secret_is_the_public_key_is_refused(issuer: Issuer) -> None:
    _, claims, _ = issuer.sign().split(".")
    header = encoded(b'{"alg":"HS256","typ":"JWT","kid":"rsa"}')
    _, private = issuer.keys["rsa"]
    public = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    signature = hmac.digest(public, f"{header}.{claims}".encode(), "sha256")

    with pytest.raises(Refused):
        verifier(issuer).verify(f"{header}.{claims}.{encoded(signature)}")


def test_an_unsigned_token_is_refused(issuer: Issuer) -> None:
    _, claims, _ = issuer.sign().split(".")
    header = encoded(b'{"alg":"none","typ":"JWT","kid":"rsa"}')

    with pytest.raises(Refused):
        verifier(issuer).verify(f"{header}.{claims}.")


def test_a_token_with_changed_claims_is_refused(issuer: Issuer) -> None:
    header, _, signature = issuer.sign().split(".")
    _, claims, _ = issuer.sign(sub="admin").split(".")

    with pytest.raises(Refused):
        verifier(issuer).verify(f"{header}.{claims}.{signature}")


@pytest.mark.parametrize(
    "token", ["", "x", "a.b.c", "....", "é.é.é", "bnVsbA.bnVsbA.bnVsbA", "W10.W10.W10", "x" * 20_000]
)
def test_what_is_no_token_is_refused(issuer: Issuer, token: str) -> None:
    with pytest.raises(Refused):
        verifier(issuer).verify(token)


def test_a_refusal_says_nothing_of_the_token(issuer: Issuer) -> None:
    with pytest.raises(Refused) as refused:
        verifier(issuer).verify(issuer.sign(iss="https://evil.example.com/", sub="kim-s-secret"))

    assert "evil" not in refused.value.reason


def test_keys_that_cannot_be_had_are_no_refusal(issuer: Issuer) -> None:
    def down(token: str) -> jwt.PyJWK:
        raise jwt.PyJWKClientConnectionError("no answer")

    with pytest.raises(jwt.PyJWKClientConnectionError):
        TokenVerifier(Rules(ISSUER, frozenset({AUDIENCE})), down).verify(issuer.sign())


@pytest.mark.parametrize(
    "rules",
    [
        {"issuer": ""},
        {"audiences": frozenset()},
        {"algorithms": frozenset()},
        {"algorithms": frozenset({"HS256"})},
        {"algorithms": frozenset({"RS256", "none"})},
    ],
)
def test_rules_that_would_let_anybody_in_are_no_rules(rules: dict[str, Any]) -> None:
    good: dict[str, Any] = {"issuer": ISSUER, "audiences": frozenset({AUDIENCE})}

    with pytest.raises(ValueError, match=r"token|algorithms"):
        Rules(**good | rules)
