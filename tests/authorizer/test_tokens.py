"""The tokens that are accepted or rejected."""

import base64
import hmac
import json
import time
import warnings
from collections.abc import Callable
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.authorizer.conftest import AUDIENCE, ISSUER, Issuer
from tokens import Refused, Rules, TokenVerifier, UnknownKey

FOR_SOMETHING_ELSE = "logout+jwt", "dpop+jwt", "application/secevent+jwt", "token-introspection+jwt", "x"


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
        {"client_id": "robot"},
        {"scope": "write admin"},
        {"scope": None, "scp": ["read"]},
        {"scope": None, "scp": "read"},
        {"key": "curve"},
        *({"headers": {"typ": kind}} for kind in ("at+jwt", "AT+JWT", "application/at+jwt", "JWT", "jwt", None)),
    ],
)
def test_a_valid_token_returns_its_claims(issuer: Issuer, claims: dict[str, Any]) -> None:
    assert verifier(issuer).verify(issuer.sign(**claims))["iss"] == ISSUER


WRONG: list[dict[str, Any]] = [
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
    {"sub": None, "client_id": "robot"},
    {"sub": "", "client_id": "robot"},
    {"sub": 7},
    *({"headers": {"typ": kind}} for kind in FOR_SOMETHING_ELSE),
    {"iss": "https://evil.example.com/", "sub": "kim-s-secret"},
]
OUT_OF_SCOPE: list[dict[str, Any]] = [
    *({"scope": scope} for scope in ("write", "reader", None, 7, "", "[read admin]")),
    {"scope": None, "scp": ["read admin"]},
]


@pytest.mark.parametrize(
    ("claims", "code"),
    [
        *((claims, "invalid_token") for claims in WRONG),
        *((claims, "insufficient_scope") for claims in OUT_OF_SCOPE),
    ],
)
def test_a_token_with_a_wrong_claim_type_or_scope_is_rejected_without_repeating_it(
    issuer: Issuer, claims: dict[str, Any], code: str
) -> None:
    with pytest.raises(Refused) as error:
        verifier(issuer).verify(issuer.sign(**claims))

    assert error.value.error == code
    assert "evil" not in error.value.reason


def test_no_scope_is_required_if_none_is_configured(issuer: Issuer) -> None:
    assert verifier(issuer, frozenset()).verify(issuer.sign(scope=None))["sub"] == "kim"


@pytest.mark.parametrize(("bits", "accepted"), [(1024, False), (2040, False), (2048, True)])
def test_a_token_signed_with_a_short_rsa_key_is_rejected(bits: int, accepted: bool) -> None:
    issuer = Issuer({"rsa": ("RS256", rsa.generate_private_key(public_exponent=65537, key_size=bits))})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jwt.InsecureKeyLengthWarning)
        token = issuer.sign()

    if accepted:
        assert verifier(issuer).verify(token)["sub"] == "kim"
        return
    with pytest.raises(Refused, match="2048 bits"):
        verifier(issuer).verify(token)


@pytest.mark.parametrize("header", [{"alg": "none"}, {"alg": "HS256"}, {"alg": "RS512"}, {"typ": "logout+jwt"}])
def test_no_key_is_looked_up_for_a_malformed_token(issuer: Issuer, header: dict[str, str]) -> None:
    looked_up_tokens: list[str] = []
    _, claims, signature = issuer.sign().split(".")
    header_text = encoded(json.dumps({"alg": "RS256", "kid": "made up"} | header).encode())

    def find(token: str) -> jwt.PyJWK:
        looked_up_tokens.append(token)
        raise UnknownKey(token)

    with pytest.raises(Refused):
        TokenVerifier(Rules(ISSUER, frozenset({AUDIENCE})), find).verify(f"{header_text}.{claims}.{signature}")
    assert looked_up_tokens == []


def header_and_claims(issuer: Issuer, algorithm: str) -> str:
    """Return the header and claims of a valid token, with a header that names another algorithm."""
    header = encoded(json.dumps({"alg": algorithm, "typ": "JWT", "kid": "rsa"}).encode())
    return f"{header}.{issuer.sign().split('.')[1]}"


def signed_with_the_public_key(issuer: Issuer) -> str:
    public = issuer.keys["rsa"][1].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    text = header_and_claims(issuer, "HS256")
    return f"{text}.{encoded(hmac.digest(public, text.encode(), 'sha256'))}"


def with_changed_claims(issuer: Issuer) -> str:
    header, _, signature = issuer.sign().split(".")
    return f"{header}.{issuer.sign(sub='admin').split('.')[1]}.{signature}"


@pytest.mark.parametrize(
    "forged",
    [
        pytest.param(lambda _: Issuer().sign(), id="signed by somebody else"),
        pytest.param(lambda issuer: issuer.sign(headers={"kid": "another"}), id="of an unknown key"),
        pytest.param(lambda issuer: issuer.sign("big"), id="the issuer's key, and an algorithm that is not allowed"),
        pytest.param(signed_with_the_public_key, id="whose secret is the public key"),
        pytest.param(lambda issuer: f"{header_and_claims(issuer, 'none')}.", id="unsigned"),
        pytest.param(with_changed_claims, id="with changed claims"),
        pytest.param(encoded(b'{"a":' + b"[" * 100_000) + ".e30.e30", id="nested deep"),
        *("", "x", "a.b.c", "....", "é.é.é", "bnVsbA.bnVsbA.bnVsbA", "W10.W10.W10", "x" * 20_000),
    ],
)
def test_forged_and_malformed_tokens_are_rejected(issuer: Issuer, forged: str | Callable[[Issuer], str]) -> None:
    with pytest.raises(Refused):
        verifier(issuer).verify(forged if isinstance(forged, str) else forged(issuer))


def test_a_failure_to_fetch_keys_is_not_a_rejection(issuer: Issuer) -> None:
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
def test_unsafe_rules_are_rejected(rules: dict[str, Any]) -> None:
    good: dict[str, Any] = {"issuer": ISSUER, "audiences": frozenset({AUDIENCE})}

    with pytest.raises(ValueError, match=r"token|algorithms"):
        Rules(**good | rules)
