"""The timings of a task's steps in `tasks/get` (docs/http.md)."""

import pytest

from mcp_baton import Server, ToolError, ToolStep, Workflow
from tests.support.background import Time
from tests.support.client import Client, Era
from tests.support.handler import MakeClient

TIMINGS = "mcp-baton/timings"


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def client(make_client: MakeClient, era: Era, time: Time) -> Client:
    """A client of a server whose tools take 2, 3 and 5 seconds. The second tool fails without `approved_by`."""
    server = Server("s")

    @server.tool
    def fetch() -> int:
        time.pass_s(2)
        return 1

    @server.tool
    def refund(approved_by: str = "") -> str:
        time.pass_s(3)
        if not approved_by:
            raise ToolError("not approved")
        return approved_by

    @server.tool
    def notify() -> str:
        time.pass_s(5)
        return "sent"

    steps = [ToolStep(name, tool=name) for name in ("fetch", "refund", "notify")]
    server.add_workflow(Workflow(name="flow", description="work", steps=steps))
    return make_client(server, era=era, clock=time.monotonic, now_ms=time.now_ms)


def test_runs_continuations_and_resumes_record_the_timings_of_steps(client: Client, time: Time) -> None:
    start_ms = time.ms
    task = client.get_prompt("flow").task_id
    assert client.task("get", task).meta[TIMINGS] == {
        "fetch": {"at": start_ms, "ms": 2_000},
        "refund": {"at": start_ms + 2_000, "ms": 3_000},
    }
    time.pass_s(60)
    client.call_tool("refund", {"approved_by": "kim"}, task=task)
    time.pass_s(60)
    client.get_prompt("flow", task=task)
    assert client.task("get", task).meta[TIMINGS] == {
        "fetch": {"at": start_ms, "ms": 2_000},
        "refund": {"at": start_ms + 65_000, "ms": 3_000},
        "notify": {"at": start_ms + 128_000, "ms": 5_000},
    }


def test_remaining_calls_are_shown_on_request(client: Client, time: Time) -> None:
    task = client.get_prompt("flow").task_id
    assert "mcp-baton/next" not in client.task("get", task).meta
    assert "mcp-baton/next" not in client.request("tasks/get", {"taskId": task}, {"mcp-baton/next": "no"}).meta
    next_calls = client.request("tasks/get", {"taskId": task}, {"mcp-baton/next": True}).meta["mcp-baton/next"]
    refund = {"tool": "refund", "arguments": {}, "task_id": f"{task}/refund"}
    assert next_calls == [refund, {"tool": "flow", "arguments": {"task_id": task}}]
    continuation = client.call_tool("refund", {"approved_by": "kim"}, task=task)
    next_calls = client.request("tasks/get", {"taskId": task}, {"mcp-baton/next": True}).meta["mcp-baton/next"]
    assert next_calls == continuation.meta["next"]
    client.task("cancel", task)
    assert client.request("tasks/get", {"taskId": task}, {"mcp-baton/next": True}).meta["mcp-baton/next"] == []
