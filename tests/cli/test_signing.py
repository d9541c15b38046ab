"""Requests signed with AWS credentials, compared with botocore's signatures."""

from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from mcp_baton.cli.remote.errors import Denied, Unreachable
from mcp_baton.cli.remote.http import Access, HttpTransport, SigV4, signer
from mcp_baton.exceptions import BatonError

KEY, SECRET, TOKEN = "AKIDEXAMPLE", "wJalrXUtnFEMI", "session-token"
API = "https://a1b2.execute-api.eu-central-1.amazonaws.com/prod/mcp"
MESSAGE = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"name": "é"}}


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials in environment variables, without any other AWS configuration."""
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/dev/null")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", TOKEN)


def send(access: Access, monkeypatch: pytest.MonkeyPatch) -> httpx.Request:
    requests: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return httpx.Response(200, json={"jsonrpc": "2.0", "id": 1, "result": {}})

    client = httpx.Client
    monkeypatch.setattr(httpx, "Client", lambda **options: client(**options, transport=httpx.MockTransport(answer)))
    HttpTransport(access).send(MESSAGE, {"Mcp-Method": "tools/list"}, bool)
    return requests[0]


def signature(request: httpx.Request, service: str, region: str) -> str:
    """Return botocore's signature of the received request, over the headers that the request says are signed."""
    signed_names = request.headers["authorization"].partition("SignedHeaders=")[2].partition(",")[0].split(";")
    assert {"host", "x-amz-date", "x-amz-security-token"} <= set(signed_names)
    headers: Mapping[str, str] = {name: request.headers[name] for name in signed_names}
    aws_request = AWSRequest(request.method, str(request.url), headers=dict(headers), data=request.content)
    aws_request.context["timestamp"] = request.headers["x-amz-date"]
    auth = SigV4Auth(Credentials(KEY, SECRET, TOKEN), service, region)
    return str(auth.signature(auth.string_to_sign(aws_request, auth.canonical_request(aws_request)), aws_request))


OTHER = "http://server.example.com/mcp"
CREDENTIALS: list[dict[str, Any]] = [{"api_key": "k"}, {"token": "t"}, {"headers": {"X-Key": "k"}}, {"aws": True}]


@pytest.mark.usefixtures("credentials")
@pytest.mark.parametrize("credentials", CREDENTIALS)
@pytest.mark.parametrize(
    "url",
    [
        OTHER,
        "HTTP://server.example.com/mcp",
        "http://localhost.example.com/mcp",
        "http://127.0.0.1@server.example.com/mcp",
        "http://server.example.com\\@127.0.0.1/mcp",
        "http://10.0.0.7:8000/mcp",
        "http://[2001:db8::1]/mcp",
    ],
)
def test_credentials_are_not_sent_to_another_machine_without_encryption(url: str, credentials: dict[str, Any]) -> None:
    with pytest.raises(BatonError, match=r"without encryption: use an https:// URL\. --insecure-http allows it"):
        HttpTransport(Access(url, **credentials))


def test_a_password_in_a_url_is_not_sent_without_encryption() -> None:
    with pytest.raises(BatonError, match="without encryption"):
        HttpTransport(Access("http://kim:s3cret@server.example.com/mcp"))


@pytest.mark.parametrize(
    "access",
    [
        Access(OTHER),
        Access(OTHER, token="t", insecure_http=True),
        Access("http://localhost:8000/mcp", token="t"),
        Access("http://127.1.2.3/mcp", token="t"),
        Access("http://[::1]:8000/mcp", token="t"),
        Access("https://server.example.com/mcp", token="t"),
    ],
    ids=lambda access: access.url,
)
def test_other_requests_are_sent(access: Access, monkeypatch: pytest.MonkeyPatch) -> None:
    assert send(access, monkeypatch).headers.get("authorization") == (
        f"Bearer {access.token}" if access.token else None
    )


@pytest.mark.parametrize(("url", "uses_proxy"), [("http://127.0.0.1:8000/mcp", False), (OTHER, True)])
def test_requests_to_this_machine_use_no_proxy(url: str, monkeypatch: pytest.MonkeyPatch, *, uses_proxy: bool) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.example.com:3128")
    options: dict[str, Any] = {}
    monkeypatch.setattr(httpx, "Client", lambda **given: options.update(given))

    HttpTransport(Access(url))

    assert options["trust_env"] is uses_proxy


def test_a_redirect_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    urls: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        urls.append(str(request.url))
        return httpx.Response(307, headers={"Location": OTHER})

    client = httpx.Client
    monkeypatch.setattr(httpx, "Client", lambda **options: client(**options, transport=httpx.MockTransport(answer)))
    server = HttpTransport(Access("https://server.example.com/mcp", token="t"))
    for request in (lambda: server.send(MESSAGE, {}, bool), lambda: server.call("POST", "callbacks/a", body={})):
        with pytest.raises(Unreachable):
            request()
    assert urls == ["https://server.example.com/mcp", "https://server.example.com/callbacks/a"]


@pytest.mark.usefixtures("credentials")
@pytest.mark.parametrize(
    ("access", "service", "region"),
    [
        (Access(API, aws=True), "execute-api", "eu-central-1"),
        (Access("https://x.lambda-url.us-west-2.on.aws/mcp", aws=True), "lambda", "us-west-2"),
        (Access("https://mcp.example.com/mcp?a=b c", aws=True), "execute-api", "eu-west-1"),
    ],
)
def test_botocore_computes_the_same_signature_for_the_received_request(
    access: Access, service: str, region: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-1")  # for URLs that do not name their region
    request = send(access, monkeypatch)
    authorization = request.headers["authorization"]
    assert authorization.startswith(f"AWS4-HMAC-SHA256 Credential={KEY}/")
    assert f"/{region}/{service}/aws4_request" in authorization
    assert authorization.rpartition("Signature=")[2] == signature(request, service, region)
    assert request.headers["mcp-method"] == "tools/list"


@pytest.mark.usefixtures("credentials")
def test_a_key_or_token_is_sent_in_its_header(monkeypatch: pytest.MonkeyPatch) -> None:
    request = send(Access(API, api_key="k", token="t", headers={"X-Tenant": "blue"}), monkeypatch)
    header_values = [request.headers[name] for name in ("x-api-key", "authorization", "x-tenant")]
    assert header_values == ["k", "Bearer t", "blue"]


@pytest.mark.usefixtures("credentials")
def test_a_missing_region_or_profile_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BatonError, match="the region to sign requests for is not known"):
        signer(Access("https://mcp.example.com/mcp", aws=True))
    monkeypatch.setenv("AWS_PROFILE", "no-such")
    with pytest.raises(BatonError, match="no-such"):
        signer(Access(API, aws=True))


@pytest.mark.usefixtures("credentials")
def test_missing_credentials_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(Denied, match="there are no AWS credentials"):
        signer(Access(API, aws=True))


def test_credentials_are_read_for_each_request() -> None:
    credentials = Credentials("old", SECRET)
    auth = SigV4(credentials, "execute-api", "eu-west-1")
    credentials.access_key = "new"
    request = next(auth.auth_flow(httpx.Request("POST", API, content=b"{}")))
    assert "Credential=new/" in request.headers["authorization"]
