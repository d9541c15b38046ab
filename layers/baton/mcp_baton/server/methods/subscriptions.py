"""`subscriptions/listen`: what a server that keeps nothing between requests can honestly offer (docs/http.md).

Lists change with a deployment only and nothing tells this function of other changes, so no notification type is
agreed to. The stream is acknowledged, kept alive, and ended in good order before the function's time is over.
MCP 2026-07-28, basic/patterns/subscriptions.
"""

from collections.abc import Mapping
from threading import Event
from typing import Final

from mcp_baton.exceptions import ProtocolError
from mcp_baton.protocol.codes import INVALID_PARAMS
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.server.request import Request
from mcp_baton.server.running.worker import KEEP_ALIVE_S

SUBSCRIPTION_KEY: Final = "io.modelcontextprotocol/subscriptionId"


def listen(request: Request) -> JsonObject:
    """Acknowledge a subscription and keep its stream open.

    Raises:
        ProtocolError: `notifications` is not an object.
    """
    if not isinstance(request.params.get("notifications"), Mapping):
        raise ProtocolError(INVALID_PARAMS, "Invalid params: `notifications` must be an object")
    meta: dict[str, Json] = {SUBSCRIPTION_KEY: request.message.id}
    request.reply.notify("notifications/subscriptions/acknowledged", {"_meta": meta, "notifications": {}})
    quiet = Event()
    while request.exchange.can_stream and not request.reply.gone:
        left_s = _left_s(request)
        if left_s <= 0:
            break
        quiet.wait(min(KEEP_ALIVE_S, left_s))
        request.reply.keep_alive()
    return {"_meta": meta}


def _left_s(request: Request) -> float:
    """Seconds until the stream is ended: before the function's time is over, or when it has been open long enough."""
    left_ms = request.left_ms()
    limit_s = request.settings.listen_ms / 1000 - request.elapsed_s()
    return limit_s if left_ms is None else min(limit_s, left_ms / 1000)
