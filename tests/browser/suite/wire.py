"""Requests to the server without the browser, as the client of a host or a model sends them (MCP 2026-07-28)."""

import json
from dataclasses import dataclass
from typing import Any
from urllib.request import Request, urlopen

VERSION = "2026-07-28"
WITHIN_S = 60.0

type JsonDict = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Wire:
    """A client of the server at an address such as `http://127.0.0.1:8000/mcp`."""

    url: str
    headers: tuple[tuple[str, str], ...] = ()

    def request(self, method: str, params: JsonDict, *, extensions: JsonDict | None = None) -> JsonDict:
        """Send a request and return its result."""
        meta = {
            "io.modelcontextprotocol/protocolVersion": VERSION,
            "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {"extensions": extensions or {}},
        }
        name = params.get("name", params.get("taskId", params.get("uri")))
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": VERSION,
            "Mcp-Method": method,
            **({} if name is None else {"Mcp-Name": name}),
            **dict(self.headers),
        }
        params = params | {"_meta": meta | params.get("_meta", {})}
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        with urlopen(Request(self.url, json.dumps(body).encode(), headers), timeout=WITHIN_S) as response:  # noqa: S310
            message: JsonDict = json.loads(response.read())
        assert "result" in message, message
        result: JsonDict = message["result"]
        return result

    def api(self, path: str, body: JsonDict | None = None) -> JsonDict:
        """Send a request to the HTTP API beside the MCP endpoint, and return the response."""
        headers = {"Content-Type": "application/json", **dict(self.headers)}
        data = None if body is None else json.dumps(body).encode()
        with urlopen(Request(self.url.removesuffix("mcp") + path, data, headers), timeout=WITHIN_S) as response:  # noqa: S310
            reply: JsonDict = json.loads(response.read())
        return reply

    def call(self, tool: str, **arguments: Any) -> JsonDict:
        """Call a tool and return its result."""
        return self.request("tools/call", {"name": tool, "arguments": arguments})

    def begin(self, workflow: str, **arguments: Any) -> str:
        """Run a workflow until it pauses or ends. Return its task's id."""
        task_id: str = self.call(workflow, **arguments)["structuredContent"]["task_id"]
        return task_id

    def board(self, workflow: str, task_id: str) -> JsonDict:
        """Return a task's board, as the page reads it."""
        board: JsonDict = self.call(workflow, task_id=task_id, task_action="show")["structuredContent"]["board"]
        return board

    def in_background(self, tool: str, **arguments: Any) -> str:
        """Call a tool in the background. Return its task's id."""
        extensions: JsonDict = {"io.modelcontextprotocol/tasks": {}}
        task = self.request("tools/call", {"name": tool, "arguments": arguments}, extensions=extensions)
        task_id: str = task["taskId"]
        return task_id
