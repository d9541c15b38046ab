"""The benchmarks' requests, as the events of API Gateway's REST proxy integration."""

import json
from dataclasses import dataclass
from typing import Any

from emulators.delivery import Delivery
from mcp_baton.local.gateway import proxy_event

type Event = dict[str, Any]

_HEADERS = {
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
    "Host": "abcdefghij.execute-api.eu-west-1.amazonaws.com",
    "MCP-Protocol-Version": "2025-06-18",
    "User-Agent": "benchmark",
}


@dataclass(frozen=True, slots=True)
class Probe:
    """A request, and how to recognise a correct response.

    Attributes:
        event: The function's event.
        expected: Part of the response's body.
        streamed: Whether the response must be streamed. Baton's runtime sends whole responses as streams of one piece,
            too.
    """

    event: Event
    expected: str
    streamed: bool = False

    def check(self, answer: Delivery) -> None:
        """Raise an error if the response is wrong: measurements of wrong responses are useless."""
        streamed = answer.headers.get("transfer-encoding") == "chunked"
        body = answer.streamed.decode() if streamed else _whole_body(answer)
        if (self.streamed and not streamed) or self.expected not in body or "error" in body.replace("isError", ""):
            raise WrongAnswer(f"{answer.kind}, streamed: {streamed}: {answer.body[:600]!r}")


class WrongAnswer(Exception):
    """A function's response is wrong."""


def fixed() -> Probe:
    """Return the request for the floors, which ignore it."""
    return Probe(_event("tools/list", {}), "tools")


def tools_list() -> Probe:
    """Return the first request of most clients."""
    return Probe(_event("tools/list", {}), "inputSchema")


def tools_call() -> Probe:
    """Return a call of `add` without progress."""
    return Probe(_event("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}}), "content")


def streamed_call() -> Probe:
    """Return a call of `add` with a progress token."""
    params = {"name": "add", "arguments": {"a": 1, "b": 2}, "_meta": {"progressToken": "t"}}
    return Probe(_event("tools/call", params), "content", streamed=True)


def prompts_get(name: str, *, expected: str = "task_id", **arguments: str) -> Probe:
    """Return a request for a prompt. The default of `expected` requires a durable workflow that runs to its end."""
    return Probe(_event("prompts/get", {"name": name, "arguments": arguments}), expected)


def workflow_call(name: str, **arguments: str) -> Probe:
    """Return a call of a workflow as a tool."""
    return Probe(_event("tools/call", {"name": name, "arguments": arguments}), "structuredContent")


def _whole_body(answer: Delivery) -> str:
    if answer.kind != "response":
        return "error"
    return str(json.loads(answer.body)["body"])


def _event(method: str, params: dict[str, Any]) -> Event:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    request_id = "c6af9ac6-7b61-11e6-9a41-93e8deadbeef"
    return proxy_event("POST", "/mcp", [*_HEADERS.items()], body, request_id=request_id, owner_header=None)
