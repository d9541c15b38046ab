"""Valid requests of every method in each era. The hostile requests are made from these."""

from typing import Any

from mcp_baton.tasks.ids import new_task_id
from tests.support.client import Era

type Params = dict[str, Any]

UNKNOWN_TASK = new_task_id(0)

_BOTH: list[tuple[str, Params]] = [
    ("tools/list", {}),
    ("prompts/list", {"cursor": "MjAw"}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("tools/call", {"name": "echo", "arguments": {"text": "Hello"}}),
    ("tools/call", {"name": "plain", "arguments": {"a": 1, "b": 1.5, "c": True, "d": [1], "e": {"x": None}}}),
    ("tools/call", {"name": "order", "arguments": {"lines": [{"sku": "A", "count": 1}], "to": "kim@example"}}),
    ("tools/call", {"name": "anything", "arguments": {"value": [1, {"a": None}]}}),
    ("tools/call", {"name": "later", "arguments": {"number": 3}}),
    ("tools/call", {"name": "mirrored", "arguments": {"region": "eu"}}),
    ("tools/call", {"name": "asking", "arguments": {}, "requestState": "a.b", "inputResponses": {"name": {}}}),
    ("prompts/get", {"name": "greeting", "arguments": {"name": "Kim", "times": "2"}}),
    ("prompts/get", {"name": "plain_flow", "arguments": {"text": "Hello"}}),
    ("prompts/get", {"name": "flow", "arguments": {"text": "a", "count": "2", "skus": '["x"]'}, "task": {"ttl": 9}}),
    ("resources/read", {"uri": "docs://all"}),
    ("resources/read", {"uri": "docs://a/b/c"}),
    (
        "completion/complete",
        {
            "ref": {"type": "ref/prompt", "name": "greeting"},
            "argument": {"name": "name", "value": "a"},
            "context": {"arguments": {"times": "1"}},
        },
    ),
    ("tasks/get", {"taskId": UNKNOWN_TASK}),
    ("tasks/cancel", {"taskId": UNKNOWN_TASK, "result": {"a": [1]}}),
]

VALID: dict[Era, list[tuple[str, Params]]] = {
    "2025": [
        *_BOTH,
        ("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x"}}),
        ("ping", {}),
        ("logging/setLevel", {"level": "info"}),
        ("resources/subscribe", {"uri": "docs://all"}),
        ("resources/unsubscribe", {"uri": "docs://all"}),
        ("tasks/list", {"cursor": "eA=="}),
        ("tasks/result", {"taskId": UNKNOWN_TASK}),
    ],
    "2026": [
        *_BOTH,
        ("server/discover", {}),
        ("subscriptions/listen", {"notifications": {"toolsListChanged": True}}),
        ("tasks/update", {"taskId": UNKNOWN_TASK, "inputResponses": {"a": {}}}),
    ],
}
ERAS: tuple[Era, ...] = ("2025", "2026")
