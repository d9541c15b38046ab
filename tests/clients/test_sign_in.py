"""Official clients sign in by URL, call, refresh an expired token, and sign out (docs/sign-in.md).

API Gateway's part is what template.yaml defines. The authorization server behaves as Cognito's documentation says.
"""

import http.client
import json
import os
import re
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from cryptography import x509

from emulators.answering import Answer, Request, answering
from mcp_baton.cli.remote.http import Access
from tests.clients.api_gateway import OWNER_HEADER, ApiGateway
from tests.clients.certificate import self_signed
from tests.clients.cognito import Cognito
from tests.clients.conftest import HERE, WITHIN_S, require
from tests.processes import chromium_path
from tests.serving import served
from tests.smoke.endpoint import Endpoint
from tests.template.cloudformation import Stack
from tests.template.conftest import MODES, source, translate, translation  # noqa: F401

ROOT = HERE.parents[1]
AWS = "eu-central-1.amazonaws.com"
ORDER = {"order_id": "A-17", "total": 240.0}
CALL = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "fetch_order", "arguments": {"order_id": "A-17"}},
}
PLACES = {
    "stage": ("/v1", ""),
    "domain": ("", "/"),
    "path": ("/team", "/team"),
}
"""What paths begin with, and the path of PublicUrl; the first one has none."""
BATON = Path(sys.executable).parent / "baton"
SERVE: list[str | Path] = [BATON, "serve", HERE / "server.py", "--port", "0", "--owner-header", OWNER_HEADER]


@dataclass(frozen=True)
class World:
    """A deployed server, its user pool, and a client's document."""

    url: str
    client_id: str
    redirect: str
    api: ApiGateway
    cognito: Cognito

    @property
    def arguments(self) -> list[str]:
        return [self.url, self.client_id, self.redirect, f"{self.cognito.url}/later"]

    def post(self, token: str | None) -> tuple[int, str]:
        """Call the endpoint. Return the status and the challenge."""
        address = urlsplit(self.url)
        connection = http.client.HTTPConnection(address.netloc)
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        connection.request("POST", address.path, json.dumps(CALL), headers)
        response = connection.getresponse()
        response.read()
        connection.close()
        return response.status, response.headers.get("WWW-Authenticate", "")


@pytest.fixture(scope="module")
def owners_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of `baton serve`, whose callers are identified by a header."""
    with served(SERVE, tmp_path_factory.mktemp("serve") / "log") as address:
        yield address.removesuffix("/mcp")


@pytest.fixture(params=PLACES)
def world(request: pytest.FixtureRequest, owners_url: str, tmp_path: Path) -> Iterator[World]:
    base, public_path = PLACES[request.param]
    pem = tmp_path / "host.pem"
    pem.write_bytes(b"".join(self_signed(x509.IPAddress(ip_address("127.0.0.1")))))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pem)
    document: dict[str, Any] = {}

    def forward(request: Request) -> Answer:
        # The HTTP API sends the request to another host.
        headers = {**request.headers, "host": urlsplit(api_url).netloc}
        return api.answer(Request(request.method, f"{base}{request.target}", headers, request.body))

    with ExitStack() as running:
        host = running.enter_context(answering(lambda _: Answer.json(document), tls))
        # Both are made below, because they need the addresses.
        cognito_url = running.enter_context(answering(lambda request: cognito.answer(request)))  # noqa: PLW0108
        api_url = running.enter_context(answering(lambda request: api.answer(request)))  # noqa: PLW0108
        front_url = running.enter_context(answering(forward))
        public = {"PublicUrl": f"{api_url}{public_path}".rstrip("/")} if public_path else {}
        patterns = f"{host}/oauth/*"
        stack = Stack(
            request.getfixturevalue("translation"),
            {**MODES["NEW_POOL"], "Console": "on", "SignInClients": patterns, **public},
        )
        app_client = stack.single("AWS::Cognito::UserPoolClient")
        cognito = Cognito(
            cognito_url,
            [
                pattern.replace(f"https://${{Api}}.execute-api.{AWS}", api_url)
                for pattern in stack.single("AWS::Cognito::CIMDPolicy")["URLPatterns"]
            ],
            app_client["AllowedOAuthScopes"],
            app_client["CallbackURLs"],
            ssl.create_default_context(cafile=str(pem)),
        )
        addresses = {
            f"https://${{SignInApi}}.execute-api.{AWS}": front_url,
            "https://${UserPoolDomain}.auth.eu-central-1.amazoncognito.com": cognito_url,
            f"https://cognito-idp.{AWS}/${{UserPool}}": cognito.issuer,
        }
        api = ApiGateway(stack, base, owners_url, cognito, addresses)
        client_id, redirect = f"{host}/oauth/client.json", "https://client.example.com/callback"
        document |= {
            "client_id": client_id,
            "client_name": "test",
            "redirect_uris": [redirect],
            "token_endpoint_auth_method": "none",
        }
        yield World(f"{api_url}{base}/mcp", client_id, redirect, api, cognito)


def report_of(request: pytest.FixtureRequest, world: World, client: str) -> dict[str, Any]:
    """Run a client's session. Return what it received."""
    if client == "python":
        command = [request.getfixturevalue("client_python"), "-m", "tests.clients.python_sign_in"]
    else:
        command = [request.getfixturevalue("node"), HERE / "sign_in.mjs"]
    process = subprocess.run(
        [*command, *world.arguments], cwd=ROOT, capture_output=True, text=True, timeout=WITHIN_S, check=False
    )
    assert process.returncode == 0, process.stderr
    report: dict[str, Any] = json.loads(process.stdout)
    return report


@pytest.mark.parametrize("client", ["python", "typescript"])
def test_a_client_signs_in_calls_refreshes_and_signs_out(
    request: pytest.FixtureRequest, world: World, client: str
) -> None:
    report = report_of(request, world, client)

    assert (report["call"], report["after"]) == (ORDER, ORDER)
    assert report["revoked"] == {"error": "invalid_grant"}
    events = ["authorize", "token authorization_code", "token refresh_token", "revoke", "token refresh_token"]
    assert world.cognito.events == events


class McpRemote:
    """mcp-remote as a child process, as Claude Desktop runs it."""

    def __init__(self, node: Path, world: World, folder: Path) -> None:
        program = require(HERE / "node_modules/mcp-remote/dist/proxy.js")
        info = json.dumps({"client_id": world.cognito.app_client})
        command: list[str | Path] = [node, program, world.url, "3334", "--static-oauth-client-info", info]
        # There is no browser.
        environment = {**os.environ, "MCP_REMOTE_CONFIG_DIR": str(folder), "HOME": str(folder), "PATH": str(folder)}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )

    def send(self, method: str, number: int | None = None, **params: Any) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params} | ({} if number is None else {"id": number})
        assert self.process.stdin
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def answer(self, number: int) -> Any:
        assert self.process.stdout
        for line in self.process.stdout:
            if (message := json.loads(line)).get("id") == number:
                return message["result"]
        raise AssertionError("mcp-remote ended")

    def authorization_url(self) -> str:
        assert self.process.stderr
        for line in self.process.stderr:
            if match := re.search(r"(http\S+/oauth2/authorize\S*)", line):
                return match[1]
        raise AssertionError("mcp-remote did not ask the user to sign in")


def visit(url: str) -> None:
    """Open a page and follow its redirect, as the user's browser does."""
    for _ in range(2):
        address = urlsplit(url)
        connection = http.client.HTTPConnection(address.netloc)
        connection.request("GET", f"{address.path}?{address.query}")
        response = connection.getresponse()
        response.read()
        connection.close()
        if response.status != 302:
            assert response.status == 200
            return
        url = response.headers["Location"]


def test_mcp_remote_signs_in_with_the_app_client_calls_and_refreshes(node: Path, world: World, tmp_path: Path) -> None:
    remote = McpRemote(node, world, tmp_path)
    try:
        visit(remote.authorization_url())
        remote.send(
            "initialize", 1, protocolVersion="2025-11-25", capabilities={}, clientInfo={"name": "t", "version": "1"}
        )
        remote.answer(1)
        remote.send("notifications/initialized")
        for number, ahead_s in ((2, 0), (3, 7200)):
            # After the last call no token may expire: a further request of the client would renew it.
            world.cognito.ahead_s = ahead_s
            remote.send("tools/call", number, name="fetch_order", arguments={"order_id": "A-17"})
            assert remote.answer(number)["structuredContent"] == ORDER
    finally:
        remote.process.kill()
        remote.process.communicate()

    assert world.cognito.events == ["authorize", "token authorization_code", "token refresh_token"]


def test_the_console_signs_in_renews_its_token_and_signs_out(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python, chromium = ROOT / "tests/browser/.venv/bin/python", chromium_path()
    require(python if chromium else None)
    console = world.url.removesuffix("/mcp") + "/console"
    settings = {"CONSOLE": "on", "SIGN_IN_URL": world.cognito.url, "BASE_URL": console.removesuffix("/console")}
    for name, value in settings.items():
        monkeypatch.setenv(f"BATON_{name}", value)
    with served(SERVE, tmp_path / "log") as address:
        world.api.upstream = address.removesuffix("/mcp")
        later = f"{world.cognito.url}/later"
        command: list[str | Path] = [python, "-m", "tests.browser.sign_in", console, later, str(chromium)]
        process = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert process.returncode == 0, process.stderr
    report = json.loads(process.stdout)

    assert report["problems"] == []
    # The code is not in the address, and the page that the user wanted is.
    assert report["address"] == f"{console}#approvals"
    assert report["stored"]["local"] == {}
    assert list(report["stored"]["session"]) == ["baton-credentials"]
    assert set(json.loads(report["stored"]["session"]["baton-credentials"])) == {"name", "value"}
    assert report["after"] == {"local": {}, "session": {}}
    renewed = ["token refresh_token"] * 2
    assert world.cognito.events == ["authorize", "token authorization_code", *renewed, "revoke"]
    assert world.cognito.refresh_tokens == {}


def test_the_smoke_test_follows_a_rejected_call_to_the_sign_in_page(world: World) -> None:
    endpoint = Endpoint(Access(world.url), "refund_order", {})
    with closing(endpoint):
        findings = list(endpoint.leads_to_sign_in((world.client_id, world.redirect)))
        # The policy of these tests does not list it.
        refused = list(endpoint.leads_to_sign_in())

    assert [finding.outcome for finding in findings] == ["held", "held"]
    assert [finding.outcome for finding in refused] == ["held", "failed"]
    assert "invalid_client" in refused[1].text


def test_each_bad_token_gets_a_challenge_that_leads_to_the_metadata(world: World) -> None:
    scope, client = "baton/use", "1example23456789"
    foreign = Cognito("http://127.0.0.1:1", [], [], [], world.cognito.tls)
    refused = {
        "none": None,
        "no token": "x",
        "expired": world.cognito.sign(scope=scope, client_id=client, seconds=-1),
        "another pool": foreign.sign(scope=scope),
        "another pool that claims to be this one": foreign.sign(scope=scope, iss=world.cognito.issuer),
    }
    for kind, token in refused.items():
        status, challenge = world.post(token)
        assert (status, 'scope="baton/use"' in challenge, "error=" in challenge) == (401, True, False), kind
        assert metadata(challenge)["resource"] == world.url
    for scopes in ("openid", "aws.cognito.signin.user.admin", "baton/used", ""):
        status, challenge = world.post(world.cognito.sign(scope=scopes, client_id=client))
        assert (status, 'error="insufficient_scope"' in challenge, 'scope="baton/use"' in challenge) == (
            403,
            True,
            True,
        )
        assert metadata(challenge)["resource"] == world.url
    assert world.post(world.cognito.sign(scope="openid baton/use", client_id=client))[0] == 200


def metadata(challenge: str) -> Any:
    """Fetch the document that a challenge names."""
    match = re.search(r'resource_metadata="([^"]+)"', challenge)
    assert match, challenge
    address = urlsplit(match[1])
    connection = http.client.HTTPConnection(address.netloc)
    connection.request("GET", address.path)
    document = json.load(connection.getresponse())
    connection.close()
    return document


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"client_id": "https://127.0.0.1:1/elsewhere.json"}, "invalid_client"),
        ({"redirect_uri": "https://client.example.com/callback/"}, "redirect_mismatch"),
        ({"scope": "baton/use offline_access"}, "invalid_scope"),
        ({"scope": "openid"}, "invalid_scope"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
    ],
)
def test_the_authorization_server_of_these_tests_is_as_strict_as_documented(
    world: World, changes: dict[str, str], error: str
) -> None:
    values = {
        "client_id": world.client_id,
        "redirect_uri": world.redirect,
        "scope": "baton/use",
        "response_type": "code",
        "code_challenge": "x",
        "code_challenge_method": "S256",
    }
    for request, expected in ((values, ""), (values | changes, error)):
        answer = world.cognito.answer(Request("GET", f"/oauth2/authorize?{urlencode(request)}", {}, b""))
        where = answer.headers.get("Location", "") + answer.body.decode()
        assert ("code=" in where, expected in where) == (not expected, True)
