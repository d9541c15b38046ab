"""The requests of the benchmark, as the events that API Gateway's REST proxy integration sends."""

import json
from typing import Any

type Event = dict[str, Any]

_HEADERS = {
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
    "Host": "abcdefghij.execute-api.eu-west-1.amazonaws.com",
    "MCP-Protocol-Version": "2025-06-18",
    "User-Agent": "benchmark",
}


def tools_list() -> Event:
    return _event("tools/list", {})


def tools_call(progress: bool = False) -> Event:
    meta = {"_meta": {"progressToken": "t"}} if progress else {}
    return _event("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}, **meta})


def prompts_get() -> Event:
    return _event("prompts/get", {"name": "sum", "arguments": {"start": "1"}})


def _event(method: str, params: dict[str, Any]) -> Event:
    return {
        "resource": "/mcp",
        "path": "/mcp",
        "httpMethod": "POST",
        "headers": _HEADERS,
        "multiValueHeaders": {name: [value] for name, value in _HEADERS.items()},
        "queryStringParameters": None,
        "multiValueQueryStringParameters": None,
        "pathParameters": None,
        "stageVariables": None,
        "requestContext": {
            "accountId": "123456789012",
            "apiId": "abcdefghij",
            "httpMethod": "POST",
            "identity": {"sourceIp": "203.0.113.7", "userAgent": "benchmark"},
            "path": "/dev/mcp",
            "protocol": "HTTP/1.1",
            "requestId": "c6af9ac6-7b61-11e6-9a41-93e8deadbeef",
            "resourcePath": "/mcp",
            "stage": "dev",
        },
        "body": json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}),
        "isBase64Encoded": False,
    }
