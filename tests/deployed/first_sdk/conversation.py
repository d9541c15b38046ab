"""Runs the sample application's conversation with the official SDK's first release, and prints the results as JSON.

    python conversation.py URL HEADERS

HEADERS is a JSON object. Run it in the environment of this folder's pyproject.toml.
"""

import asyncio
import json
import sys
from typing import Any

import httpx
from mcp import ClientSession, types
from mcp.client.streamable_http import streamable_http_client

TIMEOUT_S = 120
ORDER = {"order_id": "A-17", "amount": "300"}
ALLOWED = {**ORDER, "amount": 100}


async def prompt(session: ClientSession, progress: list[str | None], **meta: Any) -> types.GetPromptResult:
    async def on_progress(_progress: float, _total: float | None, message: str | None) -> None:
        progress.append(message)

    request_meta = types.RequestParams.Meta(**meta)
    params = types.GetPromptRequestParams(name="refund_order", arguments=None if meta else ORDER, _meta=request_meta)
    request = types.ClientRequest(types.GetPromptRequest(params=params))
    return await session.send_request(request, types.GetPromptResult, progress_callback=on_progress)


async def converse(session: ClientSession) -> dict[str, Any]:
    """List, pause, continue, resume."""
    initialization = await session.initialize()
    first_progress: list[str | None] = []
    second_progress: list[str | None] = []
    pause = await prompt(session, first_progress)
    task_id = (pause.meta or {})["task_id"]
    continuation = await session.call_tool("issue_refund", ALLOWED, meta={"_task_id": task_id})
    resume = await prompt(session, second_progress, _task_id=task_id)
    return {
        "revision": initialization.protocolVersion,
        "tools": [tool.name for tool in (await session.list_tools()).tools],
        "prompts": [entry.name for entry in (await session.list_prompts()).prompts],
        "paused": {"progress": first_progress, "meta": pause.meta, "handoff": pause.messages[-2].content.text},
        "continued": {"value": continuation.structuredContent, "meta": continuation.meta},
        "resumed": {"progress": second_progress, "meta": resume.meta},
        "task": (await session.experimental.get_task(task_id)).status,
        "tasks": [task.taskId for task in (await session.experimental.list_tasks()).tasks][:1] == [task_id],
    }


async def main(url: str, headers: str) -> None:
    async with (
        httpx.AsyncClient(headers=json.loads(headers), timeout=TIMEOUT_S) as http,
        streamable_http_client(url, http_client=http) as (read, write, _),
        ClientSession(read, write) as session,
    ):
        report = await converse(session)
    sys.stdout.write(json.dumps(report))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
