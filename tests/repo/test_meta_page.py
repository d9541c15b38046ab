"""docs/reference/meta.md lists every member of `_meta` that the server sends."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_baton import Server, ToolError, ToolStep, Workflow
from mcp_baton.testing import Client, Era, JsonRpcError, connect

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "meta.md"
VARIABLE = "_workflow."
"""The prefix of the engine's task variables, which are members of `_meta`, too."""


def documented_names() -> set[str]:
    """Return the names in the first column of the page's tables."""
    rows = re.findall(r"^\| (`[^|]+`) \|", PAGE.read_text(), re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


def members(value: Any) -> Iterator[str]:
    """Yield the names of the members of every `_meta` in a JSON value."""
    match value:
        case dict():
            yield from value.get("_meta", {})
            for item in value.values():
                yield from members(item)
        case list():
            for item in value:
                yield from members(item)


def shop() -> Server:
    server = Server("shop")

    @server.tool
    def pay() -> str:
        raise ToolError("no answer")

    @server.tool
    def mail(text: str) -> str:
        return text

    server.add_workflow(
        Workflow(
            name="refund", description="refund", steps=[ToolStep("pay", tool="pay"), ToolStep("mail", tool="mail")]
        )
    )
    return server


def results(client: Client) -> Iterator[Any]:
    """Yield results of requests about tasks that are paused, continued, killed and completed by the client."""
    run: Any = client.request("prompts/get", {"name": "refund"})
    yield run
    task: str = run["_meta"]["task_id"]
    for task_id in (task, "unknown"):
        yield client.request("tools/call", {"name": "mail", "arguments": {"text": "a"}}, {"_task_id": task_id})
    with client.killed_after("UpdateItem"):
        client.call_workflow("refund", task=task)
    yield client.request("tasks/get", {"taskId": task}, {"mcp-baton/next": True, "mcp-baton/variables": "none"})
    yield client.request("tasks/get", {"taskId": task})
    client.clock.advance(60)
    yield client.request("prompts/get", {"name": "refund"}, {"_task_id": task})
    yield client.request("tasks/cancel", {"taskId": task, "result": {"done": True}})
    yield client.request("tasks/get", {"taskId": task})
    for method in ("tools/list", "tasks/list", "tasks/result"):
        try:
            yield client.request(method, {"taskId": task} if method == "tasks/result" else {})
        except JsonRpcError:
            continue  # only one era has it


@pytest.mark.parametrize("era", ["2025", "2026"])
def test_the_page_lists_every_member_that_is_sent(era: Era) -> None:
    with connect(shop(), era=era) as client:
        sent_names = {name for result in results(client) for name in members(result) if not name.startswith(VARIABLE)}

    assert {"task_id", "pause_reason", "recorded", "record_error", "may_have_run", "mcp-baton/next"} <= sent_names
    assert sent_names - documented_names() == set()
