"""The signing keys of an OpenID Connect issuer, fetched when they are needed, and cached."""

import http.client
import json
import logging
import time
import urllib.request
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit

import jwt

from tokens import UnknownKey

logger = logging.getLogger(__name__)

TIMEOUT_S = 5
LIFESPAN_S = 600
"""After this time the keys are fetched again."""

GRACE_S = 600
"""How much longer known keys are used while the issuer does not answer."""

COOLDOWN_S = 30
"""The shortest time between two fetches because of unknown key names."""

FAILURE_S = 10
"""The time after a failure without another fetch. Otherwise each call would wait for `TIMEOUT_S`."""

RSA_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")


class IssuerKeys:
    """An issuer's keys.

    Args:
        issuer: The issuer's URL.
        jwks_url: The URL of its keys; if empty, the issuer's metadata names it.
        clock: Seconds.

    Raises:
        ValueError: a URL is not trusted.
    """

    def __init__(self, issuer: str, jwks_url: str = "", clock: Callable[[], float] = time.monotonic) -> None:
        self._issuer = trusted(issuer)
        self._jwks_url = trusted(jwks_url) if jwks_url else ""
        self._clock = clock
        self._keys: list[jwt.PyJWK] = []
        self._fetched_s = 0.0
        self._failure: Exception | None = None
        self._failed_s = 0.0

    def __call__(self, token: str) -> jwt.PyJWK:
        """Return the key with which a token claims to be signed.

        Raises:
            UnknownKey: the issuer has no such key.
            jwt.InvalidTokenError: the token names no key.
            jwt.PyJWKClientConnectionError: the issuer did not answer.
            jwt.PyJWTError, KeyError, TypeError, ValueError: its answer contains no keys.
        """
        header = jwt.get_unverified_header(token)
        name, algorithm = header.get("kid"), header.get("alg")
        if not isinstance(name, str):
            raise jwt.InvalidTokenError("the token names no key")
        for max_age_s in (LIFESPAN_S, COOLDOWN_S):
            candidates = [key for key in self._known(max_age_s) if key.key_id == name]
            if candidates:
                return next((key for key in candidates if key.algorithm_name == algorithm), candidates[0])
        if self._failure is not None:
            # The key may be a new one, which could not be fetched.
            raise self._failure
        raise UnknownKey(name)

    def _known(self, max_age_s: float) -> list[jwt.PyJWK]:
        """Return the keys. Older ones are fetched again; if the issuer does not answer, they are still used."""
        age_s = self._clock() - self._fetched_s
        if self._keys and age_s < max_age_s:
            return self._keys
        if self._failure is None or self._clock() - self._failed_s >= FAILURE_S:
            try:
                self._keys = self._client.get_signing_keys()
                self._fetched_s, self._failure = self._clock(), None
                return self._keys
            except (jwt.PyJWTError, KeyError, TypeError, ValueError) as error:
                self._failure, self._failed_s = error, self._clock()
                logger.warning("the issuer's keys cannot be fetched: %s", error)
        if self._keys and age_s < LIFESPAN_S + GRACE_S and isinstance(self._failure, jwt.PyJWKClientConnectionError):
            return self._keys
        raise self._failure

    @cached_property
    def _client(self) -> jwt.PyJWKClient:
        return _Client(self._jwks_url or self._advertised(), cache_jwk_set=False, timeout=TIMEOUT_S)

    def _advertised(self) -> str:
        """Return the URL of the keys from the issuer's metadata (OpenID Connect Discovery 1.0, section 4)."""
        url = f"{self._issuer.rstrip('/')}/.well-known/openid-configuration"
        try:
            with _opener().open(url, timeout=TIMEOUT_S) as response:
                metadata = json.load(response)
        except (OSError, http.client.HTTPException) as error:
            if isinstance(error, HTTPError):
                error.close()
            raise jwt.PyJWKClientConnectionError(f"{url} cannot be read: {error}") from error
        if metadata["issuer"] != self._issuer:
            raise ValueError(f"{url} is the metadata of another issuer: {metadata['issuer']}")
        return trusted(metadata["jwks_uri"])


class _Client(jwt.PyJWKClient):
    """Reads an RSA key without an algorithm as one key for each RSA algorithm.

    The algorithm is optional (RFC 7517, section 4.4), and many issuers omit it. PyJWT would assume RS256.
    """

    def fetch_data(self) -> Any:
        """Fetch the issuer's keys."""
        try:
            document = super().fetch_data()
        except OSError as error:  # the connection broke while the answer was read
            raise jwt.PyJWKClientConnectionError(f"{self.uri} cannot be read: {error}") from error
        keys = document.get("keys")
        return {**document, "keys": [item for key in keys for item in _with_each_algorithm(key)]} if keys else document


def _with_each_algorithm(key: object) -> Iterator[object]:
    if isinstance(key, dict) and key.get("kty") == "RSA" and not key.get("alg"):
        yield from ({**key, "alg": algorithm} for algorithm in RSA_ALGORITHMS)
    else:
        yield key


def _opener() -> urllib.request.OpenerDirector:
    """Return an opener for HTTP and HTTPS only, which follows no redirects."""
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
    """Return the URL if keys may be fetched from it.

    Raises:
        ValueError: it is neither https nor on this machine.
    """
    parts = urlsplit(url)
    if parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in {"127.0.0.1", "localhost", "::1"}):
        return url
    raise ValueError(f"{url!r}: an issuer's keys come over https")
