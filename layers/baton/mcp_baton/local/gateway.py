"""API Gateway and Lambda, as far as a handler sees them: the proxy event of a request, and the context of a call."""

import base64
import re
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}
)
_ORIGIN = re.compile(r"^[a-zA-Z][a-zA-Z0-9+.-]*://[^/?]*")  # A proxy's client sends the whole address as its target.


@dataclass(frozen=True, slots=True)
class WireRequest:
    """One HTTP request as it came in. `target` is the path with its query; `headers` stand in their order."""

    method: str
    target: str
    headers: Sequence[tuple[str, str]]
    body: bytes
    client: str


class InvocationContext:
    """One invocation's own id and deadline, under the names that Lambda's context object has.

    Args:
        timeout_s: Seconds from now until the invocation's time is up.
        request_id: The invocation's id; a new one unless it is given.
    """

    function_name = "baton"
    function_version = "$LATEST"
    invoked_function_arn = "arn:aws:lambda:local:000000000000:function:baton"
    memory_limit_in_mb = "1024"
    log_group_name = "/aws/lambda/baton"
    log_stream_name = "local"

    def __init__(self, timeout_s: float, request_id: str | None = None) -> None:
        self.aws_request_id = str(uuid.uuid4()) if request_id is None else request_id
        self._deadline = time.monotonic() + timeout_s

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds left, 0 when the time is up."""
        return max(0, int((self._deadline - time.monotonic()) * 1000))


def proxy_event(request: WireRequest, *, request_id: str, owner_header: str | None) -> dict[str, Any]:
    """The request as a REST API's proxy event (format 1.0).

    Args:
        request: The request.
        request_id: The id that the event carries.
        owner_header: The header whose value stands in for what an authorizer would have found: the claim `sub`.
    """
    path, _, query = _ORIGIN.sub("", request.target).partition("?")
    path = path or "/"
    headers = _multi_value(request.headers)
    return {
        "resource": "/{proxy+}",
        "path": path,
        "httpMethod": request.method,
        "headers": {name: values[-1] for name, values in headers.items()},
        "multiValueHeaders": headers,
        **_query(query),
        "pathParameters": {"proxy": path.lstrip("/")},
        "stageVariables": None,
        "requestContext": {
            "resourcePath": "/{proxy+}",
            "httpMethod": request.method,
            "path": path,
            "stage": "local",
            "requestId": request_id,
            "protocol": "HTTP/1.1",
            "identity": {"sourceIp": request.client},
            **_authorizer(headers, owner_header),
        },
        **_body(request.body),
    }


def _multi_value(headers: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    names: dict[str, str] = {}
    values: dict[str, list[str]] = {}
    for name, value in headers:
        if name.lower() not in HOP_BY_HOP:
            values.setdefault(names.setdefault(name.lower(), name), []).append(value)
    return values


def _query(query: str) -> dict[str, Any]:
    from urllib.parse import parse_qs

    parameters = parse_qs(query, keep_blank_values=True) or None
    single = None if parameters is None else {name: values[-1] for name, values in parameters.items()}
    return {"queryStringParameters": single, "multiValueQueryStringParameters": parameters}


def _authorizer(headers: dict[str, list[str]], owner_header: str | None) -> dict[str, Any]:
    if owner_header is None:
        return {}
    found = [value for name, values in headers.items() if name.lower() == owner_header.lower() for value in values]
    # One identity or none: of two values it could not be said who vouches for which.
    return {"authorizer": {"claims": {"sub": found[0]}}} if len(found) == 1 else {}


def _body(body: bytes) -> dict[str, Any]:
    if not body:
        return {"body": None, "isBase64Encoded": False}
    try:
        return {"body": body.decode(), "isBase64Encoded": False}
    except UnicodeDecodeError:
        return {"body": base64.b64encode(body).decode(), "isBase64Encoded": True}
