"""Messages to a server over HTTP (MCP 2026-07-28, basic/transports/streamable-http)."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import httpx

from mcp_baton.cli.remote.ending import Denied, Unreachable, faulty
from mcp_baton.cli.remote.profiles import Access
from mcp_baton.protocol.json import MAX_LEVELS, TooDeep, loads

CONNECT_S: Final = 10.0
QUIET_S: Final = 330.0
"""How long an answer may be without a sign of life, seconds: a function behind API Gateway has 300."""

ANSWER_BYTES: Final = 64 * 1024 * 1024
"""The most bytes of one answer. A result of Baton's has 6 MB at most; progress notifications come before it."""

EVENTS: Final = 100_000
"""The most events of one answer."""

LEVELS: Final = MAX_LEVELS + 20
"""The most levels of nesting in a message: those of a tool's value, and those around it."""

SHOWN: Final = 200
LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


class HttpTransport:
    """One server.

    Args:
        access: How it is reached.
    """

    def __init__(self, access: Access) -> None:
        auth = None
        if access.aws:
            from mcp_baton.cli.remote.signing import signer

            auth = signer(access)
        self._url = access.url
        self._client = httpx.Client(auth=auth, headers=_headers(access), timeout=httpx.Timeout(CONNECT_S, read=QUIET_S))

    def close(self) -> None:
        """Let go of the connection."""
        self._client.close()

    def send(self, message: Mapping[str, Any], headers: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        """The messages of the answer, as they arrive.

        Raises:
            Unreachable: the server does not answer, or not as an MCP server does.
            Denied: it answers 401 or 403.
        """
        sent = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **headers}
        body = json.dumps(message).encode()
        try:
            with self._client.stream("POST", self._url, content=body, headers=sent) as response:
                yield from self._messages(response)
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            raise Unreachable(f"{self._url} cannot be reached: {error}{_remedy(error, self._url)}") from error

    def _messages(self, response: httpx.Response) -> Iterator[dict[str, Any]]:
        if response.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            raise Denied(
                f"{self._url} answered {response.status_code}{_reason(self._body(response))}: the credentials are "
                "missing, wrong, or do not allow this (--api-key, --token, --aws, or a profile)"
            )
        if response.status_code == httpx.codes.NOT_FOUND:
            raise Unreachable(f"there is no MCP endpoint at {self._url}{_reason(self._body(response))}")
        if response.headers.get("content-type", "").startswith("text/event-stream"):
            for number, text in enumerate(events(lines(self._pieces(response)))):
                if number == EVENTS:
                    raise faulty(f"{self._url} sent more than {EVENTS:,} events in one answer")
                told = self._read(text)
                if not isinstance(told, dict):
                    raise faulty(f"{self._url} sent an event that is no JSON-RPC message")
                yield told
            return
        told = self._body(response)
        if not isinstance(told, dict) or "jsonrpc" not in told:
            raise Unreachable(f"{self._url} is no MCP endpoint: it answered {response.status_code}{_reason(told)}")
        yield told

    def _body(self, response: httpx.Response) -> Any:
        return self._read(b"".join(self._pieces(response)).decode(errors="replace"))

    def _read(self, text: str) -> Any:
        """The value of a JSON text; `None` for text that is not JSON."""
        try:
            return loads(text, LEVELS)
        except TooDeep as error:
            raise faulty(f"{self._url} sent JSON that is {error}") from error
        except ValueError:
            return None

    def _pieces(self, response: httpx.Response) -> Iterator[bytes]:
        """The bytes of the answer, as they arrive."""
        left = ANSWER_BYTES
        for piece in response.iter_bytes():
            left -= len(piece)
            if left < 0:
                raise faulty(f"{self._url} sent an answer of more than {ANSWER_BYTES:,} bytes; the rest was not read")
            yield piece


def _remedy(error: Exception, url: str) -> str:
    """What to look at where nothing on this machine listens."""
    here = isinstance(error, httpx.ConnectError) and httpx.URL(url).host in LOOPBACK
    return ": is `baton serve` running, on this port?" if here else ""


def lines(pieces: Iterable[bytes]) -> Iterator[str]:
    """The lines of a text that arrives in pieces."""
    begun: list[bytes] = []
    for piece in pieces:
        *ended, rest = piece.split(b"\n")
        for end in ended:
            yield b"".join((*begun, end)).removesuffix(b"\r").decode(errors="replace")
            begun = []
        begun.append(rest)


def events(lines: Iterable[str]) -> Iterator[str]:
    """The data of server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html)."""
    data: list[str] = []
    for line in lines:
        if line.startswith("data:"):
            data.append(line.removeprefix("data:").removeprefix(" "))
        elif not line and data:
            yield "\n".join(data)
            data = []


def _headers(access: Access) -> dict[str, str]:
    made = dict(access.headers)
    if access.api_key:
        made["x-api-key"] = access.api_key
    if access.token:
        made["Authorization"] = f"Bearer {access.token}"
    return made


def _reason(told: Any) -> str:
    """What the body of a refusal says, in short."""
    said = told.get("message") or told.get("Message") if isinstance(told, dict) else None
    error = told.get("error") if isinstance(told, dict) else None
    said = error.get("message") if isinstance(error, dict) else said
    return f" ({str(said)[:SHOWN]})" if said else ""
