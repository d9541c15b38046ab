"""A Lambda authorizer for access tokens: API Gateway asks it whether a call is allowed.

A rejection is a policy that denies, with the `WWW-Authenticate` value in its context. The template's gateway response
turns it into a 401 with this header. So the header can name the metadata at the URL that the client called.
"""

import logging
from collections.abc import Mapping
from typing import Any

from tokens import Refused, TokenVerifier, scopes

logger = logging.getLogger(__name__)

METADATA = "/.well-known/oauth-protected-resource"
CONTEXT_CLAIMS = ("sub", "client_id", "scope")


class Authorizer:
    """A Lambda handler for REST API authorizers of type REQUEST.

    Args:
        verifier: Validates tokens.
        scopes: The scopes that a client should request from the authorization server.
        public_url: The URL before `/mcp` as clients see it; if empty, it is taken from the request.
    """

    def __init__(self, verifier: TokenVerifier, scopes: frozenset[str] = frozenset(), public_url: str = "") -> None:
        self._verifier = verifier
        self._scopes = scopes
        self._public_url = public_url

    def __call__(self, event: Mapping[str, Any], _context: object) -> dict[str, Any]:
        """Allow the call for the token's owner, or reject it. Without the issuer's keys it raises: a 500."""
        try:
            claims = self._verifier.verify(bearer_token(event))
        except Refused as error:
            logger.info("refused: %s", error.reason)
            return policy(event, "Deny", "refused", {"challenge": self._challenge(event, error)})
        context = {name: value for name in CONTEXT_CLAIMS if isinstance(value := claims.get(name), str)}
        if "scope" not in context and (granted_scopes := scopes(claims)):
            context["scope"] = " ".join(sorted(granted_scopes))
        return policy(event, "Allow", claims["sub"], context)

    def _challenge(self, event: Mapping[str, Any], error: Refused) -> str:
        """Return the `WWW-Authenticate` value (RFC 6750, section 3; RFC 9728, section 5.1)."""
        values = {
            "error": error.error,
            "error_description": error.reason if error.error else "",
            "scope": " ".join(sorted(self._scopes)),
            "resource_metadata": (self._public_url or called_url(event)) + METADATA,
        }
        return "Bearer " + ", ".join(f'{name}="{value}"' for name, value in values.items() if value)


def bearer_token(event: Mapping[str, Any]) -> str:
    """Return the token in the `Authorization` header.

    Raises:
        Refused: there is none. It has no error code, as RFC 6750 requires for a request without credentials.
    """
    headers: Mapping[str, list[str]] = event["multiValueHeaders"] or {}
    values = [value for name, texts in headers.items() if name.lower() == "authorization" for value in texts]
    if len(values) > 1:
        raise Refused("invalid_request", "more than one Authorization header")
    scheme, _, token = (values or [""])[0].partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise Refused("", "no bearer token")
    return token.strip()


def called_url(event: Mapping[str, Any]) -> str:
    """Return the called URL without `/mcp`: with the stage, or with the base path of a custom domain."""
    request = event["requestContext"]
    base: str = request["path"].removesuffix(event["path"])
    return f"https://{request['domainName']}{base}"


def policy(event: Mapping[str, Any], effect: str, principal: str, context: Mapping[str, str]) -> dict[str, Any]:
    """Return the policy for this call only."""
    statement = {"Action": "execute-api:Invoke", "Effect": effect, "Resource": event["methodArn"]}
    return {
        "principalId": principal,
        "policyDocument": {"Version": "2012-10-17", "Statement": [statement]},
        "context": dict(context),
    }
