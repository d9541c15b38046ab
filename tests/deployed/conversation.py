"""The sample application's conversation through the official MCP clients, and single HTTP requests without a client."""

import json
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import anyio
import httpx2
from mcp import Client
from mcp.client.extension import advertise
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitRequestParams, ElicitResult, ProgressNotification

from tests.clients.raw_tasks import EXTENSION, RESULT, TaskParams, TaskRequest
from tests.deployed.callers import Caller, HeaderCaller
from tests.deployed.deployment import Stack

TIMEOUT_S = 120
"""Longer than any cold start. It only keeps a failing test from waiting forever."""
TOOLS_LIST = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'
JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
ABOVE_TOTAL = {"order_id": "A-17", "amount": "300"}
ALLOWED: dict[str, Any] = {"order_id": "A-17", "amount": 100}
PAUSED_STATUSES = ["completed", "completed", "failed", "pending"]
CLIENT_RESULT = {"resultType": "complete", "content": [{"type": "text", "text": "by hand"}]}
MODES = {"2025": "legacy", "2026": "2026-07-28"}
REVISIONS = {"2025": "2025-11-25", "2026": "2026-07-28"}
FIRST_SDK = Path(__file__).parent / "first_sdk"

type Era = Literal["2025", "2026"]


@dataclass(frozen=True, slots=True)
class Session:
    """A session of the official client, with the messages of all progress notifications so far."""

    client: Client
    era: Era
    progress: list[str]

    async def names(self) -> tuple[set[str], set[str]]:
        tools, prompts = await self.client.list_tools(), await self.client.list_prompts()
        return {tool.name for tool in tools.tools}, {prompt.name for prompt in prompts.prompts}

    async def prompt(self, name: str, arguments: dict[str, str] | None = None, **meta: Any) -> tuple[str, Any]:
        """Run a workflow prompt. Return the text of the assistant's last message, and its `_meta`."""
        result = await self.client.get_prompt(name, arguments, meta={"progress_token": name, **meta})
        texts: list[str] = [message.content.text for message in result.messages if message.role == "assistant"]
        return texts[-1], result.meta

    async def call(self, tool: str, arguments: dict[str, Any], task_id: str | None = None) -> tuple[Any, Any]:
        """Call a tool, as a continuation if there is a task. Return its value, and `_meta`."""
        meta = None if task_id is None else {"_task_id": task_id}
        result = await self.client.call_tool(tool, arguments, meta=meta)
        assert not result.is_error, result.content
        return result.structured_content, result.meta

    async def task(self, method: str, task_id: str, **params: Any) -> dict[str, Any]:
        """Send a task request: `get`, `cancel`, `result` or `list`."""
        request = TaskRequest(method=f"tasks/{method}", params=TaskParams.model_validate({"taskId": task_id, **params}))
        result: dict[str, Any] = await self.client.session.send_request(request, RESULT)
        return result


@asynccontextmanager
async def connect(url: str, caller: Caller, era: Era = "2025", answer: str | None = "Kim") -> AsyncIterator[Session]:
    """Connect the official client. It answers every elicitation with the name `answer`; without, it supports none."""
    progress: list[str] = []

    async def on_message(message: object) -> None:
        if isinstance(message, ProgressNotification):
            progress.append(message.params.message or "")

    async def on_elicitation(_: object, params: ElicitRequestParams) -> ElicitResult:
        return ElicitResult(action="accept", content={"name": answer})

    async with (
        httpx2.AsyncClient(auth=caller, timeout=TIMEOUT_S) as http,
        Client(
            streamable_http_client(url, http_client=http),
            mode=MODES[era],
            message_handler=on_message,
            elicitation_callback=None if answer is None else on_elicitation,
            extensions=[advertise(EXTENSION)],
            cache=None,
            read_timeout_seconds=TIMEOUT_S,
        ) as client,
    ):
        assert client.protocol_version == REVISIONS[era]
        yield Session(client, era, progress)


def in_session[Result](
    stack: Stack, conversation: Callable[[Session], Awaitable[Result]], era: Era = "2025", answer: str | None = "Kim"
) -> Result:
    """Connect to a stack's endpoint with the stack's API key, run `conversation`, and return its result."""

    async def run() -> Result:
        async with connect(stack.endpoint, stack.caller(x_api_key=stack.api_key), era, answer) as session:
            return await conversation(session)

    return anyio.run(run)


async def whole_conversation(url: str, caller: Caller, era: Era) -> str:
    """List tools and prompts, pause, continue, resume, and complete a second task by hand. Return the first task's
    id.
    """
    async with connect(url, caller, era) as session:
        tools, prompts = await session.names()
        assert {"fetch_order", "issue_refund", "send_message"} <= tools
        assert {"refund_order", "monthly_report"} <= prompts
        task_id = await paused_refund(session)
        value, meta = await session.call("issue_refund", ALLOWED, task_id)
        assert (value["refund_id"], meta["recorded"], meta["task_status"]) == ("R-A-17", True, "working")
        _, meta = await session.prompt("refund_order", _task_id=task_id)
        assert (meta["task_status"], statuses(meta)) == ("completed", ["completed"] * 4)
        task = await session.task("get", task_id)
        assert (task["status"], task["_meta"]["_workflow.result.refund"]["refund_id"]) == ("completed", "R-A-17")
        await complete_by_hand(session)
    return task_id


async def complete_by_hand(session: Session) -> None:
    """Complete a paused refund with a result from the client. Read that result as each era returns it
    (docs/http.md).
    """
    task_id = await paused_refund(session)
    reply = await session.task("cancel", task_id, result=CLIENT_RESULT)
    task = await session.task("get", task_id)
    assert task["status"] == "completed"
    if session.era == "2025":
        assert reply["status"] == "completed"
        assert (await session.task("result", task_id))["result"] == CLIENT_RESULT
    else:
        assert "status" not in reply
        assert task["result"] == CLIENT_RESULT


async def paused_refund(session: Session) -> str:
    """Start a refund that fails. Check its progress notifications and its handoff. Return the task's id."""
    session.progress.clear()
    handoff, meta = await session.prompt("refund_order", ABOVE_TOTAL)
    assert session.progress == ["Step 1/4: fetch", "Step 2/4: policy", "Step 3/4: refund"]
    assert (meta["task_status"], statuses(meta)) == ("working", PAUSED_STATUSES)
    assert meta["pause_reason"]["suggestedTool"] == "issue_refund"
    assert '1. Call issue_refund with {"order_id": "A-17", "amount": 300.0}' in handoff
    task_id: str = meta["task_id"]
    return task_id


def first_sdk(url: str, caller: HeaderCaller) -> dict[str, Any]:
    """Return what the official SDK's first release sees in the same conversation."""
    process = subprocess.run(
        [FIRST_SDK / ".venv/bin/python", FIRST_SDK / "conversation.py", url, json.dumps(dict(caller.headers))],
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert process.returncode == 0, process.stderr
    report: dict[str, Any] = json.loads(process.stdout)
    return report


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An HTTP response. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: str


def ask(
    url: str, caller: Caller, body: bytes | None = TOOLS_LIST, *, method: str = "POST", **headers: str
) -> HttpAnswer:
    """Send one request. In the names of `headers`, an underscore stands for a hyphen."""
    all_headers = {**JSON, **{name.replace("_", "-"): value for name, value in headers.items()}}
    response = httpx2.request(method, url, content=body, headers=all_headers, auth=caller, timeout=TIMEOUT_S)
    return HttpAnswer(response.status_code, dict(response.headers), response.text)


def result_of(stack: Stack, caller: Caller, tool: str, **arguments: Any) -> Any:
    params = {"name": tool, "arguments": arguments}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    response = ask(stack.endpoint, caller, body.encode(), mcp_protocol_version=REVISIONS["2025"])
    return json.loads(response.body)["result"]


def tasks_of(stack: Stack, caller: Caller) -> list[dict[str, Any]]:
    """Return the tasks that the caller sees in their list."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tasks/list", "params": {}}).encode()
    response = ask(stack.endpoint, caller, body, mcp_protocol_version=REVISIONS["2025"])
    tasks: list[dict[str, Any]] = json.loads(response.body)["result"]["tasks"]
    return tasks


def statuses(meta: Mapping[str, Any]) -> list[str]:
    return [step["status"] for step in meta["steps"]]
