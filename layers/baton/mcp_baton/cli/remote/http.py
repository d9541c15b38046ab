"""Sends messages to a server over HTTP (MCP 2026-07-28, basic/transports/streamable-http), with the credentials of a
command's options (docs/commands.md, Where: URLs and files)."""

import json
import os
import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, override

import httpx
from msgspec import Struct

from mcp_baton.cli.options import ConnectionOptions, check_encryption, environment_region, header_name, is_loopback
from mcp_baton.cli.remote.client import Receive
from mcp_baton.cli.remote.errors import CommandFailure, Denied, Unreachable, protocol_error
from mcp_baton.exceptions import BatonError
from mcp_baton.protocol.json import MAX_LEVELS, Json, TooDeep, loads
from mcp_baton.testing.mcp_client import EventReader

if TYPE_CHECKING:
    from botocore.credentials import Credentials

CONNECT_LIMIT_S: Final = 10.0
MAX_SILENCE_S: Final = 330.0
"""The maximum time between two pieces of an answer: a function behind API Gateway has 300 s."""
MAX_RESPONSE_BYTES: Final = 64 * 1024 * 1024
"""The maximum length of an answer. A result of Baton has at most 6 MB; progress notifications come before it."""
MAX_EVENTS: Final = 100_000
MAX_MESSAGE_LEVELS: Final = MAX_LEVELS + 20
"""The maximum nesting of a message: that of a tool's value, and the levels around it."""
MAX_ERROR_CHARS: Final = 200
SENT: Final = (httpx.ReadError, httpx.ReadTimeout, httpx.RemoteProtocolError)
"""Errors after which the server may have got the request."""
REJECTED: Final = (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN)


class Access(Struct, frozen=True):
    """The URL of a server, and the values of the credentials (docs/commands.md, Where: URLs and files)."""

    url: str
    api_key: str | None = None
    token: str | None = None
    aws: bool = False
    headers: Mapping[str, str] = {}
    insecure_http: bool = False

    @override
    def __repr__(self) -> str:
        """Return a text without secrets."""
        return f"Access({self.url!r})"


def access_of(connection: ConnectionOptions) -> Access:
    """Return the URL and the credentials that the options name."""
    url = connection.where or ""
    if not url.startswith(("http://", "https://")):
        raise BatonError(f"{url!r} is neither a URL (https://…/mcp) nor a file or module with a Server (app.py)")
    try:
        if not httpx.URL(url).host:
            raise httpx.InvalidURL("it names no host")
    except httpx.InvalidURL as error:
        raise BatonError(f"{url!r} is not a URL: {error}") from error
    if connection.aws and connection.token is not None:
        raise BatonError("a request is either signed or has a bearer token: omit --token or --aws")
    api_key, token = _secret(connection.api_key, "--api-key"), _secret(connection.token, "--token")
    headers = _given_headers(connection.header or ())
    return Access(url, api_key, token, connection.aws, headers, connection.insecure_http)


def _secret(value: str | None, option: str) -> str | None:
    """Return a secret: the text itself, or the variable of `env:NAME`."""
    if value == "":
        raise BatonError(f"{option} is empty")
    if value is None or not value.startswith("env:"):
        return value
    variable = value.removeprefix("env:")
    if not os.environ.get(variable):
        raise BatonError(f"{option} comes from the variable {variable}, which is not set")
    return os.environ[variable]


def _given_headers(texts: Sequence[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for text in texts:
        name, colon, value = map(str.strip, text.partition(":"))
        if not colon:
            # The message does not repeat the text, which may be a secret.
            raise BatonError("--header is NAME:VALUE, and one has no colon")
        headers[header_name(name)] = _secret(value or None, "--header") or ""
    return headers


class HttpTransport:
    def __init__(self, access: Access) -> None:
        headers, has_password = _headers(access), "@" in access.url.partition("://")[2].partition("/")[0]
        if headers or access.aws or has_password:
            check_encryption(access.url, insecure_http=access.insecure_http)
        self._url = access.url
        self._client = httpx.Client(
            auth=signer(access) if access.aws else None,
            headers=headers,
            timeout=httpx.Timeout(CONNECT_LIMIT_S, read=MAX_SILENCE_S),
            # A proxy is another machine.
            trust_env=not is_loopback(httpx.URL(access.url).host),
        )

    def close(self) -> None:
        self._client.close()

    def send(self, message: Mapping[str, Any], headers: Mapping[str, str], receive: Receive) -> int:
        """Send a message and read the answer until `receive` returns true. Return the HTTP status. Raises
        `Unreachable` if the server does not answer or is not an MCP server, and `Denied` if it answers 401 or 403."""
        all_headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **headers}
        body = json.dumps(message).encode()
        with self._request("POST", self._url, content=body, headers=all_headers) as response:
            any(map(receive, self._messages(response)))
            return response.status_code

    def call(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, body: Json = None
    ) -> dict[str, Any]:
        """Send a request to the HTTP API beside the MCP endpoint, and return its JSON object. Raises `Unreachable` if
        there is no such API, `Denied` if it rejects the credentials, and `CommandFailure` with a reason of its own."""
        url = str(httpx.URL(self._url).join(path))
        with self._request(method, url, params=query, json=None if method == "GET" else body) as response:
            document = self._body(response)
        if response.is_success and isinstance(document, dict):
            return document
        reason = document.get("error") if isinstance(document, dict) else None
        if isinstance(reason, str):
            raise CommandFailure(f"{reason} ({response.status_code})")
        if response.status_code in REJECTED:
            status = f"{response.status_code}{_reason(document)}"
            raise Denied(f"{url} answered {status}: the credentials are missing or wrong")
        raise _no_answer(url, "has no such API", response, document)

    @contextmanager
    def _request(self, method: str, url: str, **content: Any) -> Iterator[httpx.Response]:
        try:
            with self._client.stream(method, url, **content) as response:
                yield response
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            if isinstance(error, SENT):
                problem = f"{url} did not answer completely: {error}"
                raise Unreachable(
                    f"{problem}. The request may have run: look at its task before you repeat it"
                ) from error
            is_local = isinstance(error, httpx.ConnectError) and is_loopback(httpx.URL(url).host)
            remedy = ": is `baton serve` running, on this port?" if is_local else ""
            raise Unreachable(f"{url} cannot be reached: {error}{remedy}") from error

    def _messages(self, response: httpx.Response) -> Iterator[dict[str, Any]]:
        if response.status_code in REJECTED:
            raise Denied(
                f"{self._url} answered {response.status_code}{_reason(self._body(response))}: the credentials are "
                "missing, wrong, or do not allow this (--api-key, --token, --aws)"
            )
        if response.status_code == httpx.codes.NOT_FOUND:
            raise Unreachable(f"there is no MCP endpoint at {self._url}{_reason(self._body(response))}")
        if response.headers.get("content-type", "").startswith("text/event-stream"):
            reader = EventReader()
            for number, text in enumerate(text for piece in self._pieces(response) for text in reader.read(piece)):
                if number == MAX_EVENTS:
                    raise protocol_error(f"{self._url} sent more than {MAX_EVENTS:,} events in one answer")
                message = self._read(text)
                if not isinstance(message, dict):
                    raise protocol_error(f"{self._url} sent an event that is not a JSON-RPC message")
                yield message
            return
        message = self._body(response)
        if not isinstance(message, dict) or "jsonrpc" not in message:
            raise _no_answer(self._url, "is not an MCP endpoint", response, message)
        yield message

    def _body(self, response: httpx.Response) -> Any:
        return self._read(b"".join(self._pieces(response)).decode(errors="replace"))

    def _read(self, text: str) -> Any:
        """Parse a JSON text. Return `None` if it is not JSON."""
        try:
            return loads(text, MAX_MESSAGE_LEVELS)
        except TooDeep as error:
            raise protocol_error(f"{self._url} sent JSON that is {error}") from error
        except ValueError:
            return None

    def _pieces(self, response: httpx.Response) -> Iterator[bytes]:
        remaining = MAX_RESPONSE_BYTES
        for piece in response.iter_bytes():
            remaining -= len(piece)
            if remaining < 0:
                raise protocol_error(f"{self._url} sent an answer of more than {MAX_RESPONSE_BYTES:,} bytes")
            yield piece


def _headers(access: Access) -> dict[str, str]:
    """Return the headers of the credentials and of `--header`."""
    headers = dict(access.headers)
    if access.api_key:
        headers["x-api-key"] = access.api_key
    if access.token:
        headers["Authorization"] = f"Bearer {access.token}"
    for name, value in headers.items():
        if not (value.isascii() and value.isprintable()):
            raise BatonError(
                f"the header {name!r} for {access.url} has a character that is not printable ASCII: correct the option "
                "that sets it"
            )
    return headers


def _no_answer(url: str, problem: str, response: httpx.Response, body: Any) -> Unreachable:
    """Return the error for a response that is not the server's. A throttled or failing gateway says nothing about the
    URL."""
    status = f"answered {response.status_code}{_reason(body)}"
    if response.status_code == httpx.codes.TOO_MANY_REQUESTS:
        return Unreachable(f"{url} {status}: there are too many requests. Try again later")
    if response.is_server_error:
        return Unreachable(f"{url} {status}: the server or its gateway failed, and may have run the request")
    return Unreachable(f"{url} {problem}: it {status}")


def _reason(message: Any) -> str:
    text = message.get("message") or message.get("Message") if isinstance(message, dict) else None
    error = message.get("error") if isinstance(message, dict) else None
    text = error.get("message") if isinstance(error, dict) else text
    return f" ({str(text)[:MAX_ERROR_CHARS]})" if text else ""


AWS_HOST: Final = (
    r".+\.(?P<service>execute-api|lambda-url)\.(?P<region>[a-z0-9-]+)\.(?:amazonaws\.com(?:\.cn)?|on\.aws)"
)


class SigV4(httpx.Auth):
    """Signs each request. The credentials are read for each request, so that expired ones are renewed."""

    requires_request_body = True

    def __init__(self, credentials: "Credentials", service: str, region: str) -> None:
        self._credentials = credentials
        self._service = service
        self._region = region

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest

        # A proxy may add or change other headers.
        headers = {name: request.headers[name] for name in ("host", "content-type") if name in request.headers}
        aws_request = AWSRequest(request.method, str(request.url), headers=headers, data=request.content)
        SigV4Auth(self._credentials.get_frozen_credentials(), self._service, self._region).add_auth(aws_request)
        request.headers.update(dict(aws_request.headers.items()))
        yield request


def signer(access: Access) -> SigV4:
    import botocore.session
    from botocore.exceptions import BotoCoreError

    try:
        session = botocore.session.Session()
        host_match = re.fullmatch(AWS_HOST, httpx.URL(access.url).host)
        region = host_match["region"] if host_match else environment_region() or session.get_config_variable("region")
        credentials = session.get_credentials()
    except BotoCoreError as error:
        raise BatonError(f"the AWS configuration cannot be used: {error}") from error
    if credentials is None:
        raise Denied("there are no AWS credentials to sign requests with: log in, or set AWS_PROFILE")
    if not region:
        raise BatonError("the region to sign requests for is not known: set AWS_REGION")
    service = "lambda" if host_match and host_match["service"] == "lambda-url" else "execute-api"
    return SigV4(credentials, service, region)
