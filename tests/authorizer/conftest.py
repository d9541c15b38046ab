"""An issuer with its own keys, tokens that it signs, and the events that API Gateway sends to the authorizer."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from tokens import UnknownKey

ISSUER = "https://issuer.example.com/"
AUDIENCE = "https://mcp.example.com/mcp"


@dataclass(frozen=True, slots=True)
class Issuer:
    """Signs tokens and publishes its keys."""

    keys: dict[str, tuple[str, Any]] = field(
        default_factory=lambda: {
            "rsa": ("RS256", rsa.generate_private_key(public_exponent=65537, key_size=2048)),
            "curve": ("ES256", ec.generate_private_key(ec.SECP256R1())),
            "big": ("RS512", rsa.generate_private_key(public_exponent=65537, key_size=2048)),
        }
    )

    def sign(self, key: str = "rsa", headers: dict[str, Any] | None = None, **changes: Any) -> str:
        """Return a valid token with these changes. A claim that is `None` is left out."""
        algorithm, private = self.keys[key]
        now = int(time.time())
        claims = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": "kim",
            "scope": "read",
            "iat": now,
            "exp": now + 300,
            **changes,
        }
        present = {name: value for name, value in claims.items() if value is not None}
        return jwt.encode(present, private, algorithm=algorithm, headers={"kid": key} | (headers or {}))

    def jwk(self, name: str) -> dict[str, Any]:
        algorithm, private = self.keys[name]
        implementation: Any = jwt.get_algorithm_by_name(algorithm)
        public: dict[str, Any] = implementation.to_jwk(private.public_key(), as_dict=True)
        return public | {"kid": name, "alg": algorithm, "use": "sig"}

    def jwks(self) -> dict[str, Any]:
        return {"keys": [self.jwk(name) for name in self.keys]}

    def find_key(self, token: str) -> jwt.PyJWK:
        name = jwt.get_unverified_header(token)["kid"]
        if name not in self.keys:
            raise UnknownKey(name)
        return jwt.PyJWK(self.jwk(name))


@pytest.fixture(scope="session")
def issuer() -> Issuer:
    return Issuer()


type Question = Callable[..., dict[str, Any]]
"""`question(*authorization, domain=…, base=…)` returns API Gateway's event for a call with these Authorization
headers.
"""


@pytest.fixture(scope="session")
def question() -> Question:
    def ask(
        *authorization: str, domain: str = "a1.execute-api.eu-central-1.amazonaws.com", base: str = "/v1"
    ) -> dict[str, Any]:
        headers = {"Host": [domain], "Accept": ["application/json"]}
        return {
            "type": "REQUEST",
            "methodArn": "arn:aws:execute-api:eu-central-1:123456789012:a1/v1/POST/mcp",
            "resource": "/mcp",
            "path": "/mcp",
            "httpMethod": "POST",
            "headers": {name: values[-1] for name, values in headers.items()},
            "multiValueHeaders": headers | ({"authorization": list(authorization)} if authorization else {}),
            "requestContext": {"domainName": domain, "path": f"{base}/mcp", "stage": "v1", "resourcePath": "/mcp"},
        }

    return ask
