"""The sample application's conversation, held with the official MCP client; and single requests without one."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ProgressNotification, Request
from pydantic import TypeAdapter

TIMEOUT_S = 120
"""More than any cold start takes; it only keeps a failing test from waiting forever."""
TOOLS_LIST = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'
JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
APPROVED = {"order_id": "A-17", "approved_by": "supervisor@example.com"}


RESULT = TypeAdapter(dict[str, Any])
"""A result of any shape."""


class Talk:
    """One client's talk with the server.

    Attributes:
        client: The official client.
        progress: The messages of the progress notifications so far.
    """

    def __init__(self, client: Client, progress: list[str]) -> None:
        self.client = client
        self.progress = progress

    async def names(self) -> tuple[set[str], set[str]]:
        """The tools and the prompts that are listed."""
        tools, prompts = await self.client.list_tools(), await self.client.list_prompts()
        return {tool.name for tool in tools.tools}, {prompt.name for prompt in prompts.prompts}

    async def prompt(self, name: str, arguments: dict[str, str] | None = None, **meta: Any) -> tuple[str, Any]:
        """Run a workflow prompt; its last message, and its `_meta`."""
        result = await self.client.get_prompt(name, arguments, meta={"progress_token": name, **meta})
        last: Any = result.messages[-1].content
        return last.text, result.meta

    async def call(self, tool: str, arguments: dict[str, Any], task_id: str) -> tuple[Any, Any]:
        """Continue a task; the tool's value, and `_meta`."""
        result = await self.client.call_tool(tool, arguments, meta={"_task_id": task_id})
        return result.structured_content, result.meta

    async def task(self, method: str, task_id: str, **params: Any) -> dict[str, Any]:
        """Ask for a task: `get`, `cancel` or `result`."""
        request = Request[dict[str, Any], str](method=f"tasks/{method}", params={"taskId": task_id, **params})
        result: dict[str, Any] = await self.client.session.send_request(request, RESULT)
        return result


@asynccontextmanager
async def talking(url: str, headers: Mapping[str, str]) -> AsyncIterator[Talk]:
    """Connect the official client, in the 2025 era."""
    progress: list[str] = []

    async def heard(message: object) -> None:
        if isinstance(message, ProgressNotification):
            progress.append(message.params.message or "")

    async with (
        httpx2.AsyncClient(headers=headers, timeout=TIMEOUT_S) as http,
        Client(
            streamable_http_client(url, http_client=http),
            mode="legacy",
            message_handler=heard,
            cache=None,
            read_timeout_seconds=TIMEOUT_S,
        ) as client,
    ):
        yield Talk(client, progress)


async def whole_conversation(url: str, headers: Mapping[str, str]) -> str:
    """List, run into the pause, continue, resume, complete another by hand; the first task's id."""
    async with talking(url, headers) as talk:
        tools, prompts = await talk.names()
        assert {"fetch_order", "issue_refund", "send_message"} <= tools
        assert {"refund_order", "monthly_report"} <= prompts
        task_id = await paused_refund(talk)
        value, meta = await talk.call("issue_refund", APPROVED, task_id)
        assert (value["refund_id"], meta["recorded"], meta["task_status"]) == ("R-A-17", True, "working")
        _, meta = await talk.prompt("refund_order", _task_id=task_id)
        assert (meta["task_status"], statuses(meta)) == ("completed", ["completed"] * 4)
        assert (await talk.task("get", task_id))["status"] == "completed"
        by_hand = await paused_refund(talk)
        assert (await talk.task("cancel", by_hand, result={"by": "hand"}))["status"] == "completed"
        assert (await talk.task("result", by_hand))["result"] == {"by": "hand"}
    return task_id


async def paused_refund(talk: Talk) -> str:
    """The id of a refund that waits for an approval; its progress was streamed, its handoff says what comes next."""
    talk.progress.clear()
    handoff, meta = await talk.prompt("refund_order", {"order_id": "A-17"})
    assert talk.progress == ["Step 1/4: fetch", "Step 2/4: policy", "Step 3/4: refund"]
    assert (meta["task_status"], statuses(meta)) == ("working", ["completed", "completed", "failed", "pending"])
    assert meta["pause_reason"]["suggestedTool"] == "issue_refund"
    assert '1. Call issue_refund with {"order_id": "A-17"}' in handoff
    task_id: str = meta["task_id"]
    return task_id


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An answer as it came. Header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: str


def ask(url: str, headers: Mapping[str, str], body: bytes | None = TOOLS_LIST) -> HttpAnswer:
    """Send one request: a `POST`, or a `GET` where there is no body."""
    method = "GET" if body is None else "POST"
    response = httpx2.request(method, url, content=body, headers={**JSON, **headers}, timeout=TIMEOUT_S)
    return HttpAnswer(response.status_code, dict(response.headers), response.text)


def statuses(meta: Mapping[str, Any]) -> list[str]:
    """The steps' statuses, in order."""
    return [step["status"] for step in meta["steps"]]
