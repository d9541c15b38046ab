"""Fetching the keys from an issuer on this machine, over HTTP."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import jwt
import pytest

from emulators.answering import Answer, Request, answering
from issuer import COOLDOWN_S, FAILURE_S, LIFESPAN_S, IssuerKeys, trusted
from tests.authorizer.conftest import Issuer
from tests.fakes import Pauses
from tokens import UnknownKey

DISCOVERY = "/.well-known/openid-configuration"


@dataclass(slots=True)
class Site:
    """A web server that records the requested paths. It redirects moved pages to their new address."""

    url: str = ""
    pages: dict[str, Any] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)
    requested_paths: list[str] = field(default_factory=list)


@pytest.fixture
def site(issuer: Issuer) -> Iterator[Site]:
    site = Site()

    def answer(request: Request) -> Answer:
        path = request.target
        site.requested_paths.append(path)
        if path in site.redirects:
            return Answer(302, {"Location": site.redirects[path]})
        return Answer.json(site.pages.get(path), 200 if path in site.pages else 404)

    with answering(answer) as site.url:
        site.pages = {DISCOVERY: {"issuer": site.url, "jwks_uri": f"{site.url}/keys"}, "/keys": issuer.jwks()}
        yield site


def signed(issuer: Issuer, algorithm: str, **headers: str) -> str:
    return jwt.encode({"sub": "kim"}, issuer.keys["rsa"][1], algorithm=algorithm, headers=headers)


@pytest.mark.parametrize("algorithm", ["RS256", "RS512", "PS256", "PS384"])
def test_a_key_without_an_algorithm_fits_any_allowed_one(site: Site, issuer: Issuer, algorithm: str) -> None:
    site.pages["/keys"] = {"keys": [{name: value for name, value in issuer.jwk("rsa").items() if name != "alg"}]}
    token = signed(issuer, algorithm, kid="rsa")

    assert jwt.decode(token, IssuerKeys(site.url)(token), algorithms=[algorithm]) == {"sub": "kim"}


def test_a_key_with_an_algorithm_fits_only_that_one(site: Site, issuer: Issuer) -> None:
    token = signed(issuer, "PS256", kid="rsa")

    with pytest.raises(jwt.InvalidAlgorithmError):
        jwt.decode(token, IssuerKeys(site.url)(token), algorithms=["PS256", "RS256"])


def test_invalid_keys_are_ignored(site: Site, issuer: Issuer) -> None:
    site.pages["/keys"]["keys"] = ["rsa", {"kty": "RSA", "kid": "rsa", "n": "?"}, *site.pages["/keys"]["keys"]]

    assert IssuerKeys(site.url)(issuer.sign()).key_id == "rsa"


def test_a_configured_keys_url_is_used_directly(site: Site, issuer: Issuer) -> None:
    assert IssuerKeys("https://issuer.example.com/", f"{site.url}/keys")(issuer.sign()).key_id == "rsa"
    assert site.requested_paths == ["/keys"]


def test_keys_are_fetched_once_from_the_url_in_the_issuers_metadata(site: Site, issuer: Issuer) -> None:
    keys = IssuerKeys(site.url)

    assert [keys(issuer.sign(name)).key_id for name in ("rsa", "curve", "rsa")] == ["rsa", "curve", "rsa"]
    assert site.requested_paths == [DISCOVERY, "/keys"]


def test_unknown_key_ids_do_not_cause_repeated_requests(site: Site, issuer: Issuer) -> None:
    keys = IssuerKeys(site.url)

    for number in range(20):
        with pytest.raises(UnknownKey):
            keys(issuer.sign(headers={"kid": f"made up {number}"}))

    assert site.requested_paths == [DISCOVERY, "/keys"]


def test_a_token_without_a_key_id_is_invalid(site: Site, issuer: Issuer) -> None:
    with pytest.raises(jwt.InvalidTokenError):
        IssuerKeys(site.url)(signed(issuer, "RS256"))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("issuer", "https://evil.example.com/", "another issuer"),
        ("jwks_uri", "http://issuer.example.com/keys", "https"),
    ],
)
def test_metadata_of_another_issuer_or_with_an_insecure_keys_url_is_rejected(
    site: Site, issuer: Issuer, name: str, value: str, message: str
) -> None:
    site.pages[DISCOVERY][name] = value

    with pytest.raises(ValueError, match=message):
        IssuerKeys(site.url)(issuer.sign())


@pytest.mark.parametrize("page", [DISCOVERY, "/keys"])
def test_redirects_are_not_followed(site: Site, issuer: Issuer, page: str) -> None:
    site.pages["/elsewhere"] = site.pages[page]
    site.redirects[page] = "/elsewhere"

    with pytest.raises(jwt.PyJWKClientConnectionError):
        IssuerKeys(site.url)(issuer.sign())
    assert site.requested_paths[-1] == page


@pytest.mark.parametrize("remaining", [["curve"], []])
def test_a_withdrawn_key_is_accepted_for_ten_minutes_at_most(site: Site, issuer: Issuer, remaining: list[str]) -> None:
    clock = Pauses()
    keys = IssuerKeys(site.url, clock=clock.monotonic)
    keys(issuer.sign())
    site.pages["/keys"]["keys"] = [issuer.jwk(name) for name in remaining]

    clock.s = LIFESPAN_S - 1
    assert keys(issuer.sign()).key_id == "rsa"
    clock.s = LIFESPAN_S
    with pytest.raises(UnknownKey if remaining else jwt.PyJWTError):
        keys(issuer.sign())


def test_keys_are_accepted_for_ten_more_minutes_while_the_issuer_does_not_answer(site: Site, issuer: Issuer) -> None:
    clock = Pauses()
    keys = IssuerKeys(site.url, clock=clock.monotonic)
    keys(issuer.sign())
    site.pages, pages = {}, site.pages

    clock.s = LIFESPAN_S + 599
    assert keys(issuer.sign()).key_id == "rsa"
    clock.s = LIFESPAN_S + 600
    with pytest.raises(jwt.PyJWKClientConnectionError):
        keys(issuer.sign())
    site.pages = pages
    clock.s += FAILURE_S
    assert keys(issuer.sign()).key_id == "rsa"


@pytest.mark.parametrize("page", [DISCOVERY, "/keys"])
def test_an_unavailable_issuer_is_retried_after_seconds_not_by_each_call(site: Site, issuer: Issuer, page: str) -> None:
    clock = Pauses()
    keys = IssuerKeys(site.url, clock=clock.monotonic)
    content = site.pages.pop(page)

    for _ in range(20):
        with pytest.raises(jwt.PyJWKClientConnectionError):
            keys(issuer.sign())
    assert site.requested_paths.count(page) == 1
    site.pages[page] = content
    clock.s = FAILURE_S
    assert keys(issuer.sign()).key_id == "rsa"


def test_a_new_key_that_cannot_be_fetched_is_a_connection_error(site: Site, issuer: Issuer) -> None:
    clock = Pauses()
    keys = IssuerKeys(site.url, clock=clock.monotonic)
    keys(issuer.sign())
    site.pages = {}

    clock.s = COOLDOWN_S
    for _ in range(20):
        with pytest.raises(jwt.PyJWKClientConnectionError):
            keys(issuer.sign(headers={"kid": "new"}))
    assert keys(issuer.sign()).key_id == "rsa"
    assert site.requested_paths == [DISCOVERY, "/keys", "/keys"]


@pytest.mark.parametrize("url", ["http://issuer.example.com/", "file:///etc/passwd", "ftp://127.0.0.1/", "issuer", ""])
def test_keys_are_fetched_over_https_only(url: str) -> None:
    with pytest.raises(ValueError, match="https"):
        trusted(url)
