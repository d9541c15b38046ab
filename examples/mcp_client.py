"""A small MCP client (revision 2025-11-25) that can set `_meta`, unlike the model in most hosts."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import httpx

REVISION = "2025-11-25"

type Json = dict[str, Any]


class McpError(Exception):
    """A JSON-RPC error.

    Args:
        code: Its code, such as `-32602`.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class McpClient:
    """Sends requests of one user to one endpoint.

    Args:
        url: The endpoint, with `/mcp`.
        headers: Sent with each request.
    """

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        standard_headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": REVISION}
        self._http = httpx.Client(headers={**standard_headers, **headers}, timeout=30)
        self._url = url
        self._last_id = 0

    def __enter__(self) -> "McpClient":
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def request(
        self, method: str, params: Json | None = None, on_progress: Callable[[Json], None] | None = None
    ) -> Json:
        """Send a request and return its result.

        Args:
            method: The method.
            params: Its params.
            on_progress: Called with the params of each progress notification.

        Raises:
            McpError: the answer is an error.
            httpx.HTTPError: there is no answer.
        """
        self._last_id += 1
        params = dict(params or {})
        if on_progress:
            params["_meta"] = {**params.get("_meta", {}), "progressToken": self._last_id}
        body = {"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}
        with self._http.stream("POST", self._url, json=body) as response:
            for message in _messages(response):
                if "method" not in message:
                    return _result(message)
                if on_progress and message["method"] == "notifications/progress":
                    on_progress(message["params"])
        raise httpx.RemoteProtocolError("the stream ended without an answer")

    def call_tool(self, name: str, arguments: Json, task_id: str) -> Json:
        """Call a tool on behalf of a task: a continuation."""
        return self.request("tools/call", {"name": name, "arguments": arguments, "_meta": {"_task_id": task_id}})


def _messages(response: httpx.Response) -> Iterator[Json]:
    """Yield the messages of an answer as they arrive."""
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        yield from (json.loads(line[5:]) for line in response.iter_lines() if line.startswith("data:"))
    else:
        yield json.loads(response.read())


def _result(message: Json) -> Json:
    if "error" in message:
        raise McpError(message["error"]["code"], message["error"]["message"])
    result: Json = message["result"]
    return result
