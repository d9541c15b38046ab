"""The floor of the peers of `benchmarks/load.py`: an ASGI application with a fixed reply."""

from typing import Any

_BODY = b'{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}'


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Read the request, and send the reply."""
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": _BODY})
