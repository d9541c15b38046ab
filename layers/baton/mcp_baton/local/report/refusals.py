"""Requests that never reach an MCP method, in the log: what the server refused, and why."""

import json
import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from mcp_baton.local.report.entry import Entry, Status, one_line
from mcp_baton.local.report.watching import logger, told

if TYPE_CHECKING:
    from mcp_baton.local.gateway import InvocationContext
    from mcp_baton.local.httpd import LambdaHandler


def with_refusals(handler: "LambdaHandler") -> "LambdaHandler":
    """A handler that logs an entry for each request that is refused before it reaches a method.

    Hosts look for what a server may have (`GET /.well-known/…`, `GET /mcp`): such requests are no mistakes, and are
    logged at the debug level, by the HTTP server.
    """

    def answer(event: dict[str, Any], context: "InvocationContext") -> dict[str, Any]:
        told.set(False)
        began_s = time.perf_counter()
        returned = handler(event, context)
        status = int(returned.get("statusCode", 0))
        if status >= 400 and not told.get() and _is_mistake(event, status):
            _entry(event, returned, context.aws_request_id, 1000 * (time.perf_counter() - began_s)).log(logger)
        return returned

    return answer


def _is_mistake(event: dict[str, Any], status: int) -> bool:
    return event["httpMethod"] == "POST" or status == HTTPStatus.FORBIDDEN


def _entry(event: dict[str, Any], returned: dict[str, Any], request_id: str, ms: float) -> Entry:
    method = one_line(f"{event['httpMethod']} {event['path']}", 80)
    words = f"{returned['statusCode']} {_why(returned)}"
    return Entry(method, "", "", ms, Status.FAILED, one_line(words), request_id)


def _why(returned: dict[str, Any]) -> str:
    """The message of an error's body."""
    try:
        error = json.loads(returned.get("body") or "")["error"]
    except (ValueError, KeyError, TypeError):
        return ""
    return str(error.get("message", "")) if isinstance(error, dict) else str(error)
