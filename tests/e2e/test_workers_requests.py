"""A worker's logs, metrics and traces belong to the request that created its task (docs/operating.md, Logs)."""

import json
from typing import Any

import pytest

from mcp_baton import Server
from mcp_baton.aws import dynamodb_store
from mcp_baton.exceptions import EventError
from mcp_baton.local.dynamodb import create_table, embedded_client
from mcp_baton.protocol.http import HttpRequest
from mcp_baton.protocol.json import JsonObject
from mcp_baton.server.endpoint import Endpoint
from mcp_baton.settings import Settings
from mcp_baton.telemetry import Collector
from tests.fakes import Line

SETTINGS = Settings(table="tasks", worker="baton-worker:live")
CALL = {"name": "count", "arguments": {}, "task": {"ttl": 60_000}}


class Queue:
    """A dispatcher that keeps events until they are taken."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def dispatch(self, event: JsonObject) -> None:
        self.events.append(event)


class Shop:
    """A server with a tool for the background, and what becomes of the requests to it."""

    def __init__(self) -> None:
        server = Server("shop", version="1.0.0")

        @server.tool(task="required")
        def count() -> int:
            """Count."""
            return 1

        client = embedded_client()
        create_table(client, "tasks")
        self.telemetry = Collector()
        self.queue = Queue()
        self.heard: list[str] = []
        self.telemetry.begin(self.heard.append)
        self.endpoint = Endpoint(
            server,
            store=dynamodb_store("tasks", SETTINGS, lambda: client),
            settings=SETTINGS,
            telemetry=self.telemetry,
            dispatcher=self.queue,
        )

    def call(self, request_id: str) -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": CALL})
        headers = {"content-type": "application/json", "mcp-protocol-version": "2025-11-25"}
        request = HttpRequest("POST", "/mcp", headers, body.encode(), "kim")
        response = self.endpoint(request, Line(request_id=request_id, can_stream=False))
        assert response
        assert "taskId" in response.body.decode()

    def work(self, event: Any) -> JsonObject:
        return self.endpoint.work(event["batonTask"], Line(request_id="invocation-1"))


@pytest.fixture
def shop() -> Shop:
    return Shop()


def test_a_worker_says_which_request_its_task_comes_from(shop: Shop) -> None:
    shop.call("gateway-7")
    shop.call("gateway-8")
    assert shop.heard == []

    for event in reversed(shop.queue.events):
        assert shop.work(event)["outcome"] == "completed"

    assert shop.heard == ["gateway-8", "gateway-7"]


def test_a_worker_without_a_task_belongs_to_nobodys_request(shop: Shop) -> None:
    shop.call("gateway-7")
    [event] = shop.queue.events
    named = event["batonTask"]

    assert shop.work({"batonTask": {**named, "owner": "mallory"}})["outcome"] == "not found"
    with pytest.raises(EventError, match="`dispatch`, a number"):
        shop.work({"batonTask": {"owner": "kim", "taskId": named["taskId"]}})

    assert shop.heard == []
