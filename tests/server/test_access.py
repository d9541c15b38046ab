"""Origins of web pages: which pages may send requests, and the CORS headers in the replies."""

import pytest

from mcp_baton.protocol.http import HttpRequest, HttpResponse
from mcp_baton.server.access import AllowedPage, ForeignPage, caller_of, is_local, is_preflight
from mcp_baton.settings import Settings

APP = "https://app.example.com"
LISTED = Settings(allowed_origins=frozenset({APP, "http://localhost:6274"}))
LOCAL = Settings(allowed_origins=frozenset({APP}), local_only=True)


HERE = {"host": "127.0.0.1:8000"}


def test_a_request_without_an_origin_is_not_from_a_page() -> None:
    assert [caller_of(headers, LISTED) for headers in ({}, {"host": "api.example.com"})] == [None, None]
    assert caller_of({"host": "localhost:8000"}, LOCAL) is None


@pytest.mark.parametrize(
    ("settings", "headers", "allowed"),
    [
        (LISTED, {}, [APP, "http://localhost:6274"]),
        # A local server accepts listed and local pages.
        (LOCAL, HERE, [APP, "http://localhost:6274", "https://127.0.0.1", "http://[::1]:8000", "tauri://localhost"]),
    ],
)
def test_an_allowed_page_may_call(settings: Settings, headers: dict[str, str], allowed: list[str]) -> None:
    for origin in allowed:
        assert caller_of({**headers, "origin": origin}, settings) == AllowedPage(origin)
    assert caller_of({**headers, "origin": "https://evil.example"}, settings) == ForeignPage()


@pytest.mark.parametrize(
    "origin",
    [
        *("", "*", "null", "http://app.example.com", "http://localhost:8000"),
        *(f"{APP}:8443", f"{APP}.evil.example", f"{APP}/", f"{APP}, {APP}", f" {APP}"),
    ],
)
def test_any_other_page_is_refused(origin: str) -> None:
    assert caller_of({"origin": origin}, LISTED) == ForeignPage()


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "localhost:80@evil.example", "localhost:", ""]
)
def test_a_local_server_refuses_other_host_names(host: str) -> None:
    assert caller_of({"host": host}, LOCAL) == caller_of({"host": host, "origin": APP}, LOCAL) == ForeignPage()


@pytest.mark.parametrize(
    "origin",
    [
        "localhost",
        "://localhost",
        "http://localhost:\u00b2",
        "http://localhost:1\r\nSet-Cookie: a=b",
        "http\r\nSet-Cookie: a=b\r\n://localhost",
        "HTTP ://localhost",
        "http://localhost/",
        "http://user@localhost",
        "http://127.0.0.1.evil.example",
        "http://[::1].evil.example:1",
    ],
)
def test_names_that_resemble_this_machine_are_not_local(origin: str) -> None:
    assert not is_local(origin)


def preflight(names: str) -> HttpResponse:
    return AllowedPage(APP).preflight({"access-control-request-headers": names})


def test_every_reply_allows_only_the_pages_origin_and_no_cookies() -> None:
    headers = AllowedPage(APP).headers

    assert (headers["Access-Control-Allow-Origin"], headers["Vary"]) == (APP, "Origin")
    assert "WWW-Authenticate" in headers["Access-Control-Expose-Headers"]
    assert "Access-Control-Allow-Credentials" not in {*headers, *AllowedPage(APP).preflight({}).headers}


def test_the_reply_to_a_preflight_lists_the_allowed_headers() -> None:
    answer = preflight("authorization,content-type")

    assert (answer.status, answer.body) == (204, b"")
    assert dict(answer.headers) == {
        **AllowedPage(APP).headers,
        "Access-Control-Allow-Methods": "POST",
        "Access-Control-Allow-Headers": "authorization, content-type",
        "Access-Control-Max-Age": "7200",
        "Vary": "Origin, Access-Control-Request-Headers",
    }


@pytest.mark.parametrize(
    "names",
    [
        "accept,authorization,content-type,last-event-id,mcp-protocol-version,mcp-session-id,x-api-key",
        "mcp-method,mcp-name,mcp-param-region,mcp-param-x!#$%&'*+-.^_`|~",
        "amz-sdk-invocation-id,x-amz-content-sha256,x-amz-date,x-amz-security-token",
        "baggage,traceparent,tracestate,x-amzn-trace-id",
    ],
)
def test_a_page_may_send_the_headers_of_clients_signers_and_tracers(names: str) -> None:
    assert preflight(names).headers["Access-Control-Allow-Headers"].split(", ") == names.split(",")


@pytest.mark.parametrize("names", ["", " ", ",", "a b", "a:b", "é", "x\r\nSet-Cookie: a=b", "a;b"])
def test_invalid_header_names_are_left_out_of_the_reply(names: str) -> None:
    assert "Access-Control-Allow-Headers" not in preflight(names).headers
    assert preflight(f"accept, {names},x-api-key").headers["Access-Control-Allow-Headers"] == "accept, x-api-key"


def test_a_preflight_is_an_options_request_with_a_requested_method() -> None:
    question = {"access-control-request-method": "POST"}
    requests = [("OPTIONS", question), ("OPTIONS", {}), ("POST", question)]

    reported = [is_preflight(HttpRequest(method, "/mcp", headers, b"", None)) for method, headers in requests]
    assert reported == [True, False, False]
