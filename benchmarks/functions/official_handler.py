"""The official SDK with the tools of `baton_handler`, and a prompt that calls them by hand; through Mangum, or without.

It has no workflows: the prompt does what one does, in a function of its own.
"""

import asyncio
from typing import Any

from held_open import held_open
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings

# At its usual level it logs several lines a call, which would be measured too.
server = MCPServer("peer", log_level="WARNING")


def echo(text: str) -> str:
    """Give the text back."""
    return text


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def plain(start: str) -> str:
    """Add numbers up."""
    total, said = int(start), [f"I want to add numbers up, from {start}."]
    for number in (1, 2, 3):
        said.append(f'Calling add with {{"a": {total}, "b": {number}}}')
        total = add(total, number)
        said.append(f"add returned {total}")
    return "\n".join(said)


server.tool()(echo)
server.tool()(add)
server.prompt()(plain)
security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
app = server.streamable_http_app(json_response=True, stateless_http=True, transport_security=security)
handler = held_open(app)


def direct(event: dict[str, Any], _context: object) -> dict[str, Any]:
    """The application itself, without what Mangum adds."""
    return asyncio.get_event_loop().run_until_complete(_call(event))


async def _call(event: dict[str, Any]) -> dict[str, Any]:
    body = event["body"].encode()
    headers = [(name.lower().encode(), value.encode()) for name, value in event["headers"].items()]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "https",
        "path": event["path"],
        "raw_path": event["path"].encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [*headers, (b"content-length", str(len(body)).encode())],
        "client": ("203.0.113.7", 1),
        "server": ("benchmark", 443),
    }
    incoming = [{"type": "http.request", "body": body, "more_body": False}]
    answer: dict[str, Any] = {"statusCode": 0, "body": ""}

    async def receive() -> dict[str, Any]:
        if not incoming:
            await asyncio.Event().wait()
        return incoming.pop()

    async def send(message: dict[str, Any]) -> None:
        answer["statusCode"] = message.get("status", answer["statusCode"])
        answer["body"] += message.get("body", b"").decode()

    await app(scope, receive, send)
    return answer
