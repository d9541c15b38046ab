"""A small MCP client that calls a Lambda handler. It supports neither tasks nor progress."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mcp_baton.protocol.envelope import SERVER_INFO_KEY


@dataclass(frozen=True, slots=True)
class InvocationContext:
    """Lambda's context object."""

    get_remaining_time_in_millis: Callable[[], int]
    aws_request_id: str = "invocation-1"


@dataclass(frozen=True, slots=True)
class Response:
    """The HTTP response to a request."""

    status: int
    body: str

    @property
    def message(self) -> dict[str, Any]:
        """The JSON-RPC response, from JSON or from the last event of a stream."""
        text = self.body.rstrip("\n").rpartition("\n")[2].removeprefix("data: ")
        message: dict[str, Any] = json.loads(text)
        return message

    @property
    def result(self) -> dict[str, Any]:
        """The result of the request."""
        result: dict[str, Any] = self.message["result"]
        return result

    @property
    def meta(self) -> dict[str, Any]:
        """The `_meta` of the result."""
        return {name: value for name, value in self.result["_meta"].items() if name != SERVER_INFO_KEY}


@dataclass(frozen=True, slots=True)
class Client:
    """A client of one owner."""

    handler: Callable[..., dict[str, Any]]
    owner: str
    remaining_ms: Callable[[], int] = field(default=lambda: 300_000)

    def request(self, method: str, params: dict[str, Any]) -> Response:
        """Send a request of revision 2025-11-25."""
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        return self.post(body, {"MCP-Protocol-Version": "2025-11-25"})

    def post(self, body: str, headers: Mapping[str, str]) -> Response:
        """Send a body."""
        event = {
            "resource": "/mcp",
            "path": "/mcp",
            "httpMethod": "POST",
            "headers": {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **headers},
            "requestContext": {"requestId": "api-1", "authorizer": {"claims": {"sub": self.owner}}},
            "body": body,
        }
        result = self.handler(event, InvocationContext(self.remaining_ms))
        return Response(result["statusCode"], result["body"]) if result else Response(200, "")
