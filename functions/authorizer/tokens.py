"""Validation of access tokens (RFC 9068, RFC 8725 and the MCP specification's authorization section).

It does not depend on Lambda, HTTP or the environment.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jwt

ALGORITHMS = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"})
"""Algorithms with a private key. With a shared secret, everyone who can check a token could create one."""

KINDS = frozenset({"", "jwt", "at+jwt"})
"""The accepted values of `typ`. Issuers also sign other things for the same audience, such as logout tokens."""

LEEWAY_S = 30

type FindKey = Callable[[str], jwt.PyJWK]
"""Returns the issuer's key for a token. Raises `UnknownKey`, or another exception if the keys are not available."""


class UnknownKey(Exception):
    """The issuer has no such key."""


class Refused(Exception):
    """The token is rejected.

    Args:
        error: The code of RFC 6750, section 3.1.
        reason: A sentence for the client's developer. It contains nothing of the token.
    """

    def __init__(self, error: str, reason: str) -> None:
        super().__init__(reason)
        self.error = error
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Rules:
    """The requirements of tokens.

    Attributes:
        issuer: The exact value of `iss`.
        audiences: `aud` must name one of these.
        scopes: The token needs one of these; if empty, none.
        algorithms: The accepted algorithms.

    Raises:
        ValueError: the rules would accept invalid tokens.
    """

    issuer: str
    audiences: frozenset[str]
    scopes: frozenset[str] = frozenset()
    algorithms: frozenset[str] = frozenset({"RS256", "ES256"})

    def __post_init__(self) -> None:
        if not self.issuer or not self.audiences:
            raise ValueError("a token is checked against an issuer and at least one audience")
        if not self.algorithms or not self.algorithms <= ALGORITHMS:
            raise ValueError(f"algorithms are some of {sorted(ALGORITHMS)}")


class TokenVerifier:
    """Checks tokens.

    Args:
        rules: The requirements.
        find_key: Returns the issuer's key for a token.
    """

    def __init__(self, rules: Rules, find_key: FindKey) -> None:
        self._rules = rules
        self._find_key = find_key

    def verify(self, token: str) -> Mapping[str, Any]:
        """Return the claims of a valid token.

        Raises:
            Refused: the token is invalid.
        """
        try:
            claims = self._decode(token)
        except UnknownKey as error:
            raise Refused("invalid_token", "the issuer has no key of this name") from error
        except jwt.ExpiredSignatureError as error:
            raise Refused("invalid_token", "the token has expired") from error
        except jwt.InvalidAudienceError as error:
            raise Refused("invalid_token", "the token has another audience") from error
        except jwt.InvalidKeyError as error:
            raise Refused(
                "invalid_token", "the key that signed the token is too short; an RSA key needs 2048 bits"
            ) from error
        except (jwt.InvalidTokenError, RecursionError) as error:  # JSON may be nested deep
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
        # Before the key is looked up, so that an invalid token does not cause a fetch of keys.
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
    """Return the token's scopes: `scope` (RFC 8693), or `scp` of some issuers; a text or a list.

    An item of a list that contains a blank is not a scope (RFC 6749, section 3.3): `read admin` grants neither.
    """
    value = claims.get("scope", claims.get("scp", ""))
    if isinstance(value, str):
        return frozenset(value.split())
    items = value if isinstance(value, list) else []
    return frozenset(scope for scope in items if isinstance(scope, str) and scope.split() == [scope])
