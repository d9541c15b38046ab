"""An authorization server that behaves as Cognito's documentation says, as far as signing in needs it.

- Clients are the app client, or have a document's URL as their id, which matches the policy and is fetched over TLS.
- Redirect addresses match exactly. Codes are used once, with their verifier (PKCE, S256). There are no secrets.
- Unknown scopes are an error, and `offline_access` is one of them.
- Access tokens have `client_id` and no audience. Each refresh token is used once.
- Its errors have no more detail than Cognito's. The user is already signed in.
"""

import base64
import fnmatch
import hashlib
import json
import secrets
import ssl
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from emulators.answering import Answer, Request

HOUR_S = 3600


class Refusal(Exception):
    """A request is refused with an OAuth error."""


@dataclass
class Cognito:
    """A user pool with its domain.

    Attributes:
        url: The address of the domain. The pool's issuer is below it.
        patterns: The URLs of the documents of clients that may sign users in.
        scopes: The scopes of the app client.
        redirects: The redirect addresses of the app client.
        tls: Trusts the hosts of clients' documents.
        events: What happened: `authorize`, `token authorization_code`, `token refresh_token`, `revoke`.
        ahead_s: How much later it is than on this machine, seconds.
        refresh_tokens: The request for each valid refresh token.
    """

    url: str
    patterns: list[str]
    scopes: list[str]
    redirects: list[str]
    tls: ssl.SSLContext
    app_client: str = "1example23456789"
    events: list[str] = field(default_factory=list)
    ahead_s: float = 0.0
    refresh_tokens: dict[str, dict[str, str]] = field(default_factory=dict)
    _key: Any = field(default_factory=lambda: rsa.generate_private_key(public_exponent=65537, key_size=2048))
    _codes: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def issuer(self) -> str:
        return f"{self.url}/pool"

    def answer(self, request: Request) -> Answer:
        url = urlsplit(request.target)
        values = dict(parse_qsl(url.query if request.method == "GET" else request.body.decode()))
        try:
            match request.method, url.path:
                case "GET", "/oauth2/authorize":
                    return self._authorize(values)
                case "POST", "/oauth2/token":
                    self.events.append(f"token {values.get('grant_type')}")
                    return self._token(values)
                case "POST", "/oauth2/revoke":
                    self.events.append("revoke")
                    self.refresh_tokens.pop(values.get("token", ""), None)
                    return Answer(200)
                case "POST", "/later":
                    self.ahead_s += 2 * HOUR_S
                    return Answer(200)
        except Refusal as refusal:
            return Answer.json({"error": str(refusal)}, status=400)
        return Answer(404)

    def sign(self, *, seconds: float = HOUR_S, **changes: Any) -> str:
        """Return an access token. `changes` adds or replaces claims."""
        now = time.time() + self.ahead_s
        claims = {"sub": "kim", "iss": self.issuer, "token_use": "access", "iat": now, "exp": now + seconds, **changes}
        return jwt.encode(claims, self._key, algorithm="RS256", headers={"kid": "1"})

    def claims(self, token: str) -> Mapping[str, Any]:
        """Return the claims of a token as API Gateway's authorizer does. Raises `jwt.PyJWTError`."""
        options: Any = {"verify_exp": False, "verify_iat": False, "verify_aud": False, "require": ["exp", "iss", "sub"]}
        claims: dict[str, Any] = jwt.decode(
            token, self._key.public_key(), algorithms=["RS256"], issuer=self.issuer, options=options
        )
        if claims["exp"] < time.time() + self.ahead_s:
            raise jwt.ExpiredSignatureError("The incoming token has expired")
        return claims

    def _authorize(self, values: Mapping[str, str]) -> Answer:
        self.events.append("authorize")
        client = values.get("client_id", "")
        if values.get("redirect_uri") not in self._redirects(client):
            raise Refusal("redirect_mismatch")
        answer = {"state": values["state"]} if "state" in values else {}
        if values.get("response_type") != "code" or values.get("code_challenge_method") != "S256":
            answer["error"] = "invalid_request"
        elif not set(values.get("scope", "").split()) <= set(self.scopes):
            answer |= {"error": "invalid_request", "error_description": "invalid_scope"}
        else:
            answer["code"] = secrets.token_urlsafe()
            self._codes[answer["code"]] = dict(values)
        return Answer(302, {"Location": f"{values['redirect_uri']}?{urlencode(answer)}"})

    def _redirects(self, client: str) -> list[str]:
        if client == self.app_client:
            return self.redirects
        # Cognito requires https. The console's document is on this machine.
        is_secure = client.startswith(("https://", "http://127.0.0.1:"))
        if not is_secure or not any(fnmatch.fnmatch(client, pattern) for pattern in self.patterns):
            raise Refusal("invalid_client")
        with urllib.request.urlopen(client, context=self.tls) as response:  # noqa: S310
            document = json.load(response)
        grants = document.get("grant_types", ["authorization_code"])
        if (
            document["client_id"] != client
            or document.get("token_endpoint_auth_method") != "none"
            or "authorization_code" not in grants
        ):
            raise Refusal("invalid_client")
        redirects: list[str] = document["redirect_uris"]
        return redirects

    def _token(self, values: Mapping[str, str]) -> Answer:
        match values.get("grant_type"):
            case "authorization_code":
                request = self._codes.pop(values.get("code", ""), None)
                digest = hashlib.sha256(values.get("code_verifier", "").encode()).digest()
                challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
                if request is None or request["code_challenge"] != challenge:
                    raise Refusal("invalid_grant")
                if request["redirect_uri"] != values.get("redirect_uri"):
                    raise Refusal("invalid_grant")
            case "refresh_token":
                request = self.refresh_tokens.pop(values.get("refresh_token", ""), None)
                if request is None:
                    raise Refusal("invalid_grant")
            case _:
                raise Refusal("unsupported_grant_type")
        if request["client_id"] != values.get("client_id"):
            raise Refusal("invalid_client")
        scope = request.get("scope") or " ".join(self.scopes)
        refresh_token = secrets.token_urlsafe()
        self.refresh_tokens[refresh_token] = request
        token = self.sign(client_id=request["client_id"], scope=scope)
        answer = Answer.json(
            {"access_token": token, "refresh_token": refresh_token, "token_type": "Bearer", "expires_in": HOUR_S}
        )
        return replace(answer, headers={**answer.headers, "Access-Control-Allow-Origin": "*"})
