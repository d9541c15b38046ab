"""Whether an access token lets its bearer in (RFC 9068, RFC 8725 and the MCP specification's authorization section).

Knows nothing of Lambda, HTTP or the environment.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jwt

ALGORITHMS = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"})
"""Signatures by a key that only the issuer has. With a shared secret, whoever can check a token could make one."""

KINDS = frozenset({"", "jwt", "at+jwt"})
"""What a token may say that it is (`typ`). Issuers sign other things for the same audience: logout tokens, proofs."""

LEEWAY_S = 30

type FindKey = Callable[[str], jwt.PyJWK]
"""The issuer's key for a token. Raises `UnknownKey`, or anything else when the keys cannot be had."""


class UnknownKey(Exception):
    """The issuer has no such key."""


class Refused(Exception):
    """A token that does not let its bearer in.

    Args:
        error: The code of RFC 6750, section 3.1.
        reason: One sentence for the client's developer; holds nothing of the token.
    """

    def __init__(self, error: str, reason: str) -> None:
        super().__init__(reason)
        self.error = error
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Rules:
    """What is asked of a token.

    Attributes:
        issuer: Its `iss`, exactly.
        audiences: Its `aud` names one of these.
        scopes: It has one of these; none are asked for when empty.
        algorithms: It is signed with one of these.

    Raises:
        ValueError: the rules would let in what they must not.
    """

    issuer: str
    audiences: frozenset[str]
    scopes: frozenset[str] = frozenset()
    algorithms: frozenset[str] = frozenset({"RS256", "ES256"})

    def __post_init__(self) -> None:
        """Refuse rules that are not rules."""
        if not self.issuer or not self.audiences:
            raise ValueError("a token is checked against an issuer and at least one audience")
        if not self.algorithms or not self.algorithms <= ALGORITHMS:
            raise ValueError(f"algorithms are some of {sorted(ALGORITHMS)}")


class TokenVerifier:
    """Checks tokens.

    Args:
        rules: What is asked of them.
        find_key: Where the issuer's keys come from.
    """

    def __init__(self, rules: Rules, find_key: FindKey) -> None:
        self._rules = rules
        self._find_key = find_key

    def verify(self, token: str) -> Mapping[str, Any]:
        """The claims of a token that lets its bearer in.

        Raises:
            Refused: it does not.
        """
        try:
            claims = self._decode(token)
        except UnknownKey as error:
            raise Refused("invalid_token", "the issuer has no key of this name") from error
        except jwt.ExpiredSignatureError as error:
            raise Refused("invalid_token", "the token has expired") from error
        except jwt.InvalidAudienceError as error:
            raise Refused("invalid_token", "the token is for somebody else") from error
        except jwt.InvalidKeyError as error:
            raise Refused(
                "invalid_token", "the key that signed the token is too short; an RSA key needs 2048 bits"
            ) from error
        except jwt.InvalidTokenError as error:
            raise Refused("invalid_token", "the token is not valid") from error
        subject = claims.get("sub")
        if not isinstance(subject, str) or not subject:
            raise Refused("invalid_token", "the token has no sub")
        if self._rules.scopes and not self._rules.scopes & scopes(claims):
            raise Refused("insufficient_scope", "the token lacks the scope")
        return claims

    def _decode(self, token: str) -> Mapping[str, Any]:
        algorithms = sorted(self._rules.algorithms)
        header = jwt.get_unverified_header(token)
        # Before the key is looked up: a token that cannot be right shall not make us ask the issuer for new keys.
        if header.get("alg") not in algorithms:
            raise jwt.InvalidAlgorithmError("not an allowed algorithm")
        if str(header.get("typ") or "").lower().removeprefix("application/") not in KINDS:
            raise jwt.InvalidTokenError("not an access token")
        return jwt.decode(
            token,
            self._find_key(token),
            algorithms=algorithms,
            audience=sorted(self._rules.audiences),
            issuer=self._rules.issuer,
            leeway=LEEWAY_S,
            options={"require": ["aud", "exp", "iss"], "enforce_minimum_key_length": True},
        )


def scopes(claims: Mapping[str, Any]) -> frozenset[str]:
    """The token's scopes: `scope` (RFC 8693) or what some issuers write instead, `scp`; text or a list.

    A list's text with a blank is no scope (RFC 6749, section 3.3), and is left out: `read admin` in a list grants
    neither.
    """
    value = claims.get("scope", claims.get("scp", ""))
    if isinstance(value, str):
        return frozenset(value.split())
    listed = value if isinstance(value, list) else []
    return frozenset(scope for scope in listed if isinstance(scope, str) and scope.split() == [scope])
