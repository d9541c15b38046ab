"""A worker's logs, metrics and traces belong to the request that created its task (docs/operating.md, Logs)."""

import json
from typing import Any

import pytest

from mcp_baton import Server, Step, Workflow, constant
from mcp_baton.aws import dynamodb_store
from mcp_baton.exceptions import EventError
from mcp_baton.protocol.http import HttpRequest
from mcp_baton.protocol.json import JsonObject
from mcp_baton.server.endpoint import Endpoint
from mcp_baton.settings import Settings
from mcp_baton.telemetry import Collector
from tests.e2e.background_support import Queue
from tests.e2e.support import Table
from tests.fakes import Line, services_of


class Shop:
    """A server with a tool for the background, and what becomes of the requests to it."""

    def __init__(self, table: Table) -> None:
        server = Server("shop", version="1.0.0")

        @server.tool(task="required")
        def count() -> int:
            """Count."""
            return 1

        @server.tool
        def step(number: int) -> int:
            """Take eight seconds of the function's time."""
            self.left_ms -= 8_000
            return number

        steps = [Step(f"step_{number}", tool=step, arguments={"number": constant(number)}) for number in range(4)]
        server.add_workflow(Workflow(name="long", description="take four steps", steps=steps, background=True))
        self.left_ms = 0
        settings = Settings(table=table.name, worker="baton-worker:live")
        self.telemetry = Collector()
        self.queue = Queue()
        self.heard: list[str] = []
        self.telemetry.begin(self.heard.append)
        store = dynamodb_store(table.name, settings, lambda: table.client)
        services = services_of(server, store, settings, telemetry=self.telemetry, dispatcher=self.queue)
        self.endpoint = Endpoint(services)

    def call(self, request_id: str, tool: str = "count") -> None:
        params = {"name": tool, "arguments": {}, "task": {"ttl": 60_000}}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        headers = {"content-type": "application/json", "mcp-protocol-version": "2025-11-25"}
        request = HttpRequest("POST", "/mcp", headers, body.encode(), "kim")
        response = self.endpoint(request, Line(request_id=request_id, can_stream=False))
        assert response
        assert "taskId" in response.body.decode()

    def work(self, event: Any) -> JsonObject:
        self.left_ms = 20_000
        line = Line(request_id="invocation-1", can_stream=False, left_ms=lambda: self.left_ms)
        return self.endpoint.work(event["batonTask"], line)

    def counted(self) -> dict[str, float]:
        """How often each thing was counted since the last time."""
        counts: dict[str, float] = {}
        for measurement in self.telemetry.take().measurements:
            counts[measurement.metric.name] = counts.get(measurement.metric.name, 0) + measurement.value
        return counts


@pytest.fixture
def shop(table: Table) -> Shop:
    return Shop(table)


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
    named: Any = event["batonTask"]

    assert shop.work({"batonTask": {**named, "owner": "mallory"}})["outcome"] == "not found"
    with pytest.raises(EventError, match="`dispatch`, a number"):
        shop.work({"batonTask": {"owner": "kim", "taskId": named["taskId"]}})

    assert shop.heard == []


def test_a_workflow_that_goes_on_in_a_fresh_invocation_is_counted_and_belongs_to_one_request(shop: Shop) -> None:
    shop.call("gateway-7", "long")
    shop.counted()

    outcomes = []
    while shop.queue.events:
        outcomes.append(shop.work(shop.queue.events.pop())["outcome"])

    hops = outcomes.count("handed over")
    assert outcomes == ["handed over"] * hops + ["completed"]
    assert hops >= 1
    counts = shop.counted()
    assert (counts["TasksHandedOver"], counts["TasksDispatched"]) == (hops, hops)
    assert shop.heard == ["gateway-7"] * (hops + 1)
