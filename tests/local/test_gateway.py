"""Proxy events made from HTTP requests: the handler's parser reads back the request that was sent."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_baton.local.gateway import InvocationContext, proxy_event
from mcp_baton.protocol.http import HttpRequest
from mcp_baton.transport.events import format_of, http_request
from mcp_baton.transport.request_context import resolve_owner


def event(
    target: str = "/mcp", headers: Sequence[tuple[str, str]] = (), body: bytes = b"", owner_header: str | None = None
) -> dict[str, Any]:
    return proxy_event("POST", target, headers, body, request_id="id-1", owner_header=owner_header)


def parse_event(event: object) -> HttpRequest:
    form, http_event = format_of(event)
    return http_request(http_event, form, allow_anonymous=True)


def owner(headers: Sequence[tuple[str, str]], *, allow_anonymous: bool = False) -> str | None:
    context = event(headers=headers, owner_header="X-User")["requestContext"]
    return resolve_owner(context, allow_anonymous=allow_anonymous)


@given(st.binary())
def test_every_body_arrives_unchanged(body: bytes) -> None:
    assert parse_event(event(body=body)).body == body


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("/mcp", "/mcp"),
        ("/mcp?a=1&a=2&b=", "/mcp"),
        ("http://localhost:8000/mcp?a=1", "/mcp"),
        ("http://localhost:8000", "/"),
        ("*", "/*"),
        ("/a%20b", "/a%20b"),
    ],
)
def test_the_path_comes_from_the_target(target: str, path: str) -> None:
    assert parse_event(event(target)).path == path


def test_the_query_has_all_parameters() -> None:
    proxy = event("/mcp?a=1&a=2&b=")
    assert proxy["queryStringParameters"] == {"a": "2", "b": ""}
    assert proxy["multiValueQueryStringParameters"] == {"a": ["1", "2"], "b": [""]}


def test_repeated_headers_are_joined_and_hop_by_hop_headers_removed() -> None:
    headers = [("Accept", "a"), ("accept", "b"), ("Transfer-Encoding", "chunked"), ("Connection", "close")]
    assert parse_event(event(headers=headers)).headers == {"accept": "a, b"}


def test_the_owner_header_sets_the_owner() -> None:
    assert owner([("x-USER", "kim")]) == "kim"


@pytest.mark.parametrize("headers", [[], [("X-User", "")], [("X-User", "kim"), ("x-user", "mallory")]])
def test_no_value_or_two_values_of_the_owner_header_give_no_owner(headers: list[tuple[str, str]]) -> None:
    assert owner(headers) is None


def test_without_an_owner_header_every_caller_is_anonymous() -> None:
    proxy = event(headers=[("X-User", "kim"), ("Authorization", "Bearer kim")])
    assert resolve_owner(proxy["requestContext"], allow_anonymous=True) == "anonymous"


def test_an_invocation_runs_out_of_time() -> None:
    running, expired = InvocationContext(30, "1"), InvocationContext(0, "2")
    assert 0 < running.get_remaining_time_in_millis() <= 30_000
    assert expired.get_remaining_time_in_millis() == 0
