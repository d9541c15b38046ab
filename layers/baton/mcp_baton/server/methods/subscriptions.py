"""`subscriptions/listen`: what a server that keeps nothing between requests can honestly offer (docs/http.md).

Lists change with a deployment only, and nothing tells this function of other changes, so the notifications that are
agreed to are those of tasks, which it looks at meanwhile. The stream is acknowledged, kept alive, and ended in good
order before the function's time is over. MCP 2026-07-28, basic/patterns/subscriptions.
"""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from mcp_baton.exceptions import ProtocolError
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.protocol.jsonrpc import INVALID_PARAMS
from mcp_baton.server.request import Request
from mcp_baton.server.running.tool_threads import KEEP_ALIVE_S

if TYPE_CHECKING:
    from mcp_baton.server.background.listening import Listened

SUBSCRIPTION_KEY: Final = "io.modelcontextprotocol/subscriptionId"


def listen(request: Request) -> JsonObject:
    """Acknowledge a subscription and keep its stream open; where it is about tasks, until all of them are over.

    Raises:
        ProtocolError: `notifications` is not an object, or names tasks in a way that cannot be.
    """
    wanted = request.params.get("notifications")
    if not isinstance(wanted, Mapping):
        raise ProtocolError(INVALID_PARAMS, "Invalid params: `notifications` must be an object")
    meta: dict[str, Json] = {SUBSCRIPTION_KEY: request.message.id}
    tasks = _tasks(request, wanted, meta)
    agreed: dict[str, Json] = {"taskIds": tasks.accepted} if tasks and tasks.accepted else {}
    request.reply.notify("notifications/subscriptions/acknowledged", {"_meta": meta, "notifications": agreed})
    quiet_s = 0.0
    while True:
        next_s = tasks.tell() if tasks else math.inf
        if request.reply.gone or not request.exchange.can_stream or (tasks and tasks.over):
            break
        left_s = _left_s(request)
        if left_s <= 0:
            break
        wait_s = min(KEEP_ALIVE_S - quiet_s, next_s, left_s)
        request.services.sleep(wait_s)
        quiet_s += wait_s
        if quiet_s >= KEEP_ALIVE_S:
            quiet_s = 0.0
            request.reply.keep_alive()
    return {"_meta": meta}


def _tasks(request: Request, wanted: JsonObject, meta: JsonObject) -> "Listened | None":
    if "taskIds" not in wanted:
        return None
    from mcp_baton.server.background.listening import listened

    return listened(request, wanted, meta)


def _left_s(request: Request) -> float:
    """Seconds until the stream is ended: before the function's time is over, or when it has been open long enough."""
    left_ms = request.left_ms()
    limit_s = request.services.settings.listen_ms / 1000 - request.elapsed_s()
    return limit_s if left_ms is None else min(limit_s, left_ms / 1000)
