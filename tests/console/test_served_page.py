"""The page `GET /console` through the real handler: its path, its access rules and its content policy
(docs/console.md)."""

import json
import subprocess
import sys
from typing import Any

import pytest

from mcp_baton import Server
from mcp_baton.console.page import text
from tests.support.client import Answer, Client
from tests.support.handler import MakeClient

HOST = "abc.execute-api.eu-central-1.amazonaws.com"
PING = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"})


def client_of(make_client: MakeClient, **settings: Any) -> Client:
    return make_client(Server("s"), **settings)


def page(client: Client, method: str = "GET", path: str = "/console", headers: dict[str, str] | None = None) -> Answer:
    """Request the page as a browser does, without credentials."""
    request_headers = {"Content-Type": "", "Accept": "text/html", "Host": HOST, **(headers or {})}
    return client.as_owner(None).post(None, request_headers, httpMethod=method, resource=path, path=path)


def test_the_console_is_off_by_default(make_client: MakeClient) -> None:
    assert page(client_of(make_client)).status == 404


def test_the_page_contains_no_data(make_client: MakeClient) -> None:
    answer = page(client_of(make_client, console=True))

    assert (answer.status, answer.body) == (200, text())
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'sha256-")


@pytest.mark.parametrize(
    ("method", "status"), [("HEAD", 200), ("POST", 405), ("PUT", 405), ("DELETE", 405), ("OPTIONS", 405)]
)
def test_the_console_accepts_only_get_and_head(make_client: MakeClient, method: str, status: int) -> None:
    answer = page(client_of(make_client, console=True), method)

    assert (answer.status, "html>" in answer.body) == (status, False)


@pytest.mark.parametrize("path", ["/console/", "/console/page.html", "/", "/Console"])
def test_other_paths_are_not_found(make_client: MakeClient, path: str) -> None:
    assert page(client_of(make_client, console=True), path=path).status == 404


def test_the_console_describes_itself_as_a_client_at_the_url_that_is_its_id(make_client: MakeClient) -> None:
    client = client_of(
        make_client, console=True, sign_in_url="https://shop.auth.example.com", base_url="https://a.test/x"
    )
    answer = page(client, path="/console/client.json")

    assert answer.status == 200
    assert json.loads(answer.body) == {
        "client_id": "https://a.test/x/console/client.json",
        "client_name": "Baton console",
        "redirect_uris": ["https://a.test/x/console"],
        "response_types": ["code"],
        "grant_types": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_method": "none",
    }
    assert page(client, "POST", path="/console/client.json").status == 405


@pytest.mark.parametrize("settings", [{}, {"console": True}, {"sign_in_url": "https://shop.auth.example.com"}])
def test_a_console_that_signs_nobody_in_is_no_client(make_client: MakeClient, settings: dict[str, Any]) -> None:
    assert page(client_of(make_client, **settings), path="/console/client.json").status == 404


def test_pages_of_other_origins_cannot_read_the_console(make_client: MakeClient) -> None:
    answer = page(client_of(make_client, console=True), headers={"Origin": "https://evil.example"})

    assert (answer.status, "html>" in answer.body) == (403, False)


def test_a_local_server_shows_the_console_only_under_local_names(make_client: MakeClient) -> None:
    client = client_of(make_client, console=True, local_only=True)

    assert page(client, headers={"Host": "rebound.example:8000"}).status == 403
    assert page(client, headers={"Host": "localhost:8000"}).status == 200


@pytest.mark.parametrize(
    ("settings", "origin", "status"),
    [
        ({"console": True}, f"https://{HOST}", 200),
        ({}, f"https://{HOST}", 403),
        ({"console": True}, f"http://{HOST}", 403),
        ({"console": True}, f"https://{HOST}:8443", 403),
        ({"console": True}, f"https://{HOST}.evil.example", 403),
        ({"console": True}, "https://evil.example", 403),
        ({"console": True}, "null", 403),
    ],
)
def test_only_pages_of_the_same_host_may_call(
    make_client: MakeClient, settings: dict[str, Any], origin: str, status: int
) -> None:

    assert client_of(make_client, **settings).post(PING, {"Host": HOST, "Origin": origin}).status == status


@pytest.mark.parametrize(("origin", "status"), [(f"https://{HOST}", 200), ("https://evil.example", 403)])
def test_only_the_page_of_the_same_host_may_see_approvals(make_client: MakeClient, origin: str, status: int) -> None:
    client = client_of(make_client, console=True)

    headers = {"Host": HOST, "Origin": origin}
    assert client.post(None, headers, httpMethod="GET", resource="/approvals", path="/approvals").status == status


def test_callers_from_the_page_need_an_identity(make_client: MakeClient) -> None:
    client = client_of(make_client, console=True).as_owner(None)

    assert client.post(PING, {"Host": HOST, "Origin": f"https://{HOST}"}).status == 403


REQUESTS_AND_REPORT = """
import json, sys
from mcp_baton import Server
from mcp_baton.aws import handler
from mcp_baton.settings import Settings
answer = handler(Server("s"), settings=Settings(console=True, allow_anonymous=True))
class Context:
    aws_request_id = "1"
    def get_remaining_time_in_millis(self): return 30_000
def send(method, path, body):
    event = {"resource": path, "path": path, "httpMethod": method, "body": body, "requestContext": {},
             "headers": {"Content-Type": "application/json"}, "isBase64Encoded": False}
    return answer(event, Context())["statusCode"]
ping = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"})
print(send("POST", "/mcp", ping), "mcp_baton.console" in sys.modules)
print(send("GET", "/console", None), "mcp_baton.console" in sys.modules)
"""


def test_the_console_is_loaded_when_it_is_first_opened() -> None:
    command = [sys.executable, "-c", REQUESTS_AND_REPORT]
    process = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)

    assert process.stdout.split() == ["200", "False", "200", "True"]
