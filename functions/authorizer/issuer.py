"""The keys that an OpenID Connect issuer signs with, fetched when they are needed and kept."""

import json
import urllib.request
from collections.abc import Iterator
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

import jwt

from tokens import UnknownKey

TIMEOUT_S = 5
LIFESPAN_S = 600
COOLDOWN_S = 30
RSA_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")


class IssuerKeys:
    """An issuer's keys. Kept for ten minutes; an unknown key's name asks for them anew, at most every half minute.

    Args:
        issuer: The issuer's URL.
        jwks_url: Where its keys are; asked of the issuer's metadata when empty.

    Raises:
        ValueError: a URL is not one that can be trusted.
    """

    def __init__(self, issuer: str, jwks_url: str = "") -> None:
        self._issuer = trusted(issuer)
        self._jwks_url = trusted(jwks_url) if jwks_url else ""

    def __call__(self, token: str) -> jwt.PyJWK:
        """The key that a token says it is signed with.

        Raises:
            UnknownKey: the issuer has no such key.
            jwt.InvalidTokenError: the token names none.
            jwt.PyJWKClientError: the keys cannot be had.
        """
        header = jwt.get_unverified_header(token)
        name, algorithm = header.get("kid"), header.get("alg")
        if not isinstance(name, str):
            raise jwt.InvalidTokenError("the token names no key")
        self._client.get_signing_keys()
        try:
            found = self._client.get_signing_key(name)
        except jwt.PyJWKClientConnectionError:
            raise
        except jwt.PyJWKClientError as error:
            raise UnknownKey(name) from error
        same_name = (key for key in self._client.get_signing_keys() if key.key_id == name)
        return next((key for key in same_name if key.algorithm_name == algorithm), found)

    @cached_property
    def _client(self) -> jwt.PyJWKClient:
        return _Client(
            self._jwks_url or self._advertised(), lifespan=LIFESPAN_S, timeout=TIMEOUT_S, cooldown_duration=COOLDOWN_S
        )

    def _advertised(self) -> str:
        """Where the issuer's metadata (OpenID Connect Discovery 1.0, section 4) says the keys are."""
        url = f"{self._issuer.rstrip('/')}/.well-known/openid-configuration"
        with _opener().open(url, timeout=TIMEOUT_S) as answer:
            metadata = json.load(answer)
        if metadata["issuer"] != self._issuer:
            raise ValueError(f"{url} is the metadata of another issuer: {metadata['issuer']}")
        return trusted(metadata["jwks_uri"])


class _Client(jwt.PyJWKClient):
    """Reads an RSA key that does not say which algorithm it is for as one key for each.

    It need not say (RFC 7517, section 4.4), and many issuers' do not. By itself PyJWT takes such a key to be for RS256.
    """

    def fetch_data(self) -> Any:
        """The issuer's keys."""
        fetched = super().fetch_data()
        keys = fetched.get("keys")
        return {**fetched, "keys": [each for key in keys for each in _spelled_out(key)]} if keys else fetched


def _spelled_out(key: object) -> Iterator[object]:
    if isinstance(key, dict) and key.get("kty") == "RSA" and not key.get("alg"):
        yield from ({**key, "alg": algorithm} for algorithm in RSA_ALGORITHMS)
    else:
        yield key


def _opener() -> urllib.request.OpenerDirector:
    """Knows the web and nothing else, and follows nobody to another place."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    return opener


def trusted(url: str) -> str:
    """A URL over which keys may come: nobody on the way can change them.

    Raises:
        ValueError: it is not https, nor on this machine.
    """
    parts = urlsplit(url)
    if parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in {"127.0.0.1", "localhost", "::1"}):
        return url
    raise ValueError(f"{url!r}: an issuer's keys come over https")
