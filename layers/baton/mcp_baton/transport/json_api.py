"""Endpoints that take and return JSON, besides MCP: approvals and callbacks."""

from typing import Final

from mcp_baton.protocol.http import HttpRequest, HttpResponse
from mcp_baton.protocol.json import MAX_DEPTH, Json, JsonObject, TooDeep, dumps, loads

JSON_API_HEADERS: Final = {
    "Content-Type": "application/json",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
}


class Refused(Exception):
    """The request is refused. `response` has its HTTP status."""

    def __init__(self, status: int, error: str, **members: Json) -> None:
        super().__init__(error)
        self.response = reply(status, {"error": error, **members})


def reply(status: int, body: JsonObject) -> HttpResponse:
    return HttpResponse(status, JSON_API_HEADERS, dumps(body).encode())


def json_in(request: HttpRequest, limit: int) -> Json:
    """Read the JSON in the body of a request. Raises `Refused` if the body is encoded, is not JSON, is nested too deep,
    or has more bytes than `limit`."""
    if request.encoding_problem:
        raise Refused(415, request.encoding_problem)
    if len(request.body) > limit:
        raise Refused(413, f"Content too large: at most {limit} bytes")
    try:
        return loads(request.body, MAX_DEPTH)
    except TooDeep as error:
        raise Refused(400, f"The body is nested deeper than {MAX_DEPTH} levels: send less nested JSON") from error
    except ValueError as error:
        raise Refused(400, f"The body is not JSON: {error}") from error
