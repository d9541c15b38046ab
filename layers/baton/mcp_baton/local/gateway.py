"""A handler's arguments: the proxy event of a request (API Gateway), and the context of an invocation (Lambda)."""

import re
import time
from collections.abc import Sequence
from typing import Any

from mcp_baton.transport.events import encoded_body

HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}
)
_ORIGIN = re.compile(r"^[a-zA-Z][a-zA-Z0-9+.-]*://[^/?]*")  # The client of a proxy sends the whole URL as the target.


class InvocationContext:
    """The id and the deadline of one invocation, with the names of Lambda's context object."""

    function_name = "baton"
    function_version = "$LATEST"
    invoked_function_arn = "arn:aws:lambda:local:000000000000:function:baton"
    memory_limit_in_mb = "1024"
    log_group_name = "/aws/lambda/baton"
    log_stream_name = "local"

    def __init__(self, timeout_s: float, request_id: str) -> None:
        self.aws_request_id = request_id
        self._deadline = time.monotonic() + timeout_s

    def get_remaining_time_in_millis(self) -> int:
        return max(0, int((self._deadline - time.monotonic()) * 1000))


def proxy_event(
    method: str,
    target: str,
    headers: Sequence[tuple[str, str]],
    body: bytes,
    *,
    request_id: str,
    owner_header: str | None,
    client: str = "127.0.0.1",
    at_ms: int | None = None,
) -> dict[str, Any]:
    """Return a request as a REST API's proxy event (format 1.0).

    The value of the `owner_header` takes the place of the claim `sub`, which an authorizer would set. `at_ms` is when
    the request arrived, epoch milliseconds; `None` for now.
    """
    path, _, query = _ORIGIN.sub("", target).partition("?")
    path = path or "/"
    values = _multi_value(headers)
    return {
        "resource": "/{proxy+}",
        "path": path,
        "httpMethod": method,
        "headers": {name: texts[-1] for name, texts in values.items()},
        "multiValueHeaders": values,
        **_query(query),
        "pathParameters": {"proxy": path.lstrip("/")},
        "stageVariables": None,
        "requestContext": {
            "resourcePath": "/{proxy+}",
            "httpMethod": method,
            "path": path,
            "stage": "local",
            "requestId": request_id,
            "requestTimeEpoch": round(time.time() * 1000) if at_ms is None else at_ms,
            "protocol": "HTTP/1.1",
            "identity": {"sourceIp": client},
            **_authorizer(values, owner_header),
        },
        **(encoded_body(body) if body else {"body": None, "isBase64Encoded": False}),
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
    owners = [value for name, values in headers.items() if name.lower() == owner_header.lower() for value in values]
    # With two values, the caller has no identity: one of them may come from the caller.
    return {"authorizer": {"claims": {"sub": owners[0]}}} if len(owners) == 1 else {}
