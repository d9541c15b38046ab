"""Messages to a server over HTTP (MCP 2026-07-28, basic/transports/streamable-http)."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import httpx

from mcp_baton.cli.remote.ending import Denied, Unreachable
from mcp_baton.cli.remote.profiles import Access

CONNECT_S: Final = 10.0
QUIET_S: Final = 330.0
"""How long an answer may be without a sign of life, seconds: a function behind API Gateway has 300."""

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
                f"{self._url} answered {response.status_code}{_reason(response)}: the credentials are missing, wrong, "
                "or do not allow this (--api-key, --token, --aws, or a profile)"
            )
        if response.status_code == httpx.codes.NOT_FOUND:
            raise Unreachable(f"there is no MCP endpoint at {self._url}{_reason(response)}")
        if response.headers.get("content-type", "").startswith("text/event-stream"):
            yield from events(response.iter_lines())
            return
        text = response.read().decode(errors="replace")
        try:
            told = json.loads(text)
        except ValueError:
            told = None
        if not isinstance(told, dict) or "jsonrpc" not in told:
            raise Unreachable(f"{self._url} is no MCP endpoint: it answered {response.status_code}{_reason(response)}")
        yield told


def _remedy(error: Exception, url: str) -> str:
    """What to look at where nothing on this machine listens."""
    here = isinstance(error, httpx.ConnectError) and httpx.URL(url).host in LOOPBACK
    return ": is `baton serve` running, on this port?" if here else ""


def events(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    """The messages in a stream of server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html)."""
    data: list[str] = []
    for line in lines:
        if line.startswith("data:"):
            data.append(line.removeprefix("data:").removeprefix(" "))
        elif not line and data:
            yield json.loads("\n".join(data))
            data = []


def _headers(access: Access) -> dict[str, str]:
    made = dict(access.headers)
    if access.api_key:
        made["x-api-key"] = access.api_key
    if access.token:
        made["Authorization"] = f"Bearer {access.token}"
    return made


def _reason(response: httpx.Response) -> str:
    """What a gateway says, in short."""
    text = response.read().decode(errors="replace")
    try:
        told = json.loads(text)
    except ValueError:
        return ""
    said = told.get("message") or told.get("Message") if isinstance(told, dict) else None
    error = told.get("error") if isinstance(told, dict) else None
    said = error.get("message") if isinstance(error, dict) else said
    return f" ({str(said)[:SHOWN]})" if said else ""
