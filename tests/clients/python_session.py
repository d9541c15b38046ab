"""A whole session by a client on the official Python SDK's session: the SDK's own client, or FastMCP's."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import mcp_types as types

from tests.clients.raw_tasks import Tasks

ORDER = {"order_id": "A-17"}
APPROVED = {**ORDER, "amount": 240.0, "approved_by": "Ada"}

type JsonDict = dict[str, Any]


@dataclass
class PythonSession:
    """What one client sees of the server, noted under the names that `test_sessions.py` knows.

    Attributes:
        seen: All of it.
        failures: The exceptions by which the client tells a tool's error; none where its result does.
        progress: What the client calls the argument that takes what hears of progress.
    """

    failures: tuple[type[Exception], ...]
    progress: str
    seen: JsonDict = field(default_factory=lambda: {"progress": [], "logs": []})

    async def logged(self, params: types.LoggingMessageNotificationParams) -> None:
        """Note a log message."""
        # FastMCP hands on what it takes for an object's fields, else the text.
        self.seen["logs"].append(params.data)

    async def progressed(self, progress: float, total: float | None, message: str | None) -> None:
        """Note progress."""
        self.seen["progress"].append([progress, total, message])

    async def hold(self, client: Any, about: Callable[[Any], JsonDict]) -> JsonDict:
        """The whole session; `about` is what the client knows of itself and the server."""
        async with client:
            self.seen |= about(client)
            await self.look(client)
            await self.use(client)
            await self.work(client)
            await self.be_a_host(client)
        return self.seen

    async def look(self, client: Any) -> None:
        """What is there."""
        self.seen["tools"] = [tool.name for tool in within(await client.list_tools(), "tools")]
        self.seen["prompts"] = [prompt.name for prompt in within(await client.list_prompts(), "prompts")]
        self.seen["resources"] = [str(found.uri) for found in within(await client.list_resources(), "resources")]
        templates = within(await client.list_resource_templates(), "resource_templates")
        self.seen["templates"] = [found.uri_template for found in templates]

    async def use(self, client: Any) -> None:
        """Read, complete, call."""
        self.seen["resource"] = within(await client.read_resource("orders://A-17"), "contents")[0].text
        of = types.PromptReference(type="ref/prompt", name="apology")
        completed = await client.complete(of, {"name": "order_id", "value": "A"})
        self.seen["completion"] = within(completed, "completion").values
        self.seen["call"] = (await client.call_tool("fetch_order", ORDER)).structured_content
        try:
            failed = await client.call_tool("fetch_order", {"order_id": "B-1"})
            self.seen["failed"] = failed.is_error and not self.failures
        except self.failures:
            self.seen["failed"] = True
        await client.call_tool("count", {"to": 3}, **{self.progress: self.progressed})
        self.seen["interview"] = (await client.call_tool("interview")).content[0].text

    async def work(self, client: Any) -> None:
        """A workflow that pauses, the call that it waits for, and its task."""
        paused = dumped(await client.get_prompt("refund_order", ORDER))
        task_id = paused["_meta"]["task_id"]
        self.seen["paused"] = paused
        result = await client.call_tool("refund", APPROVED, meta={"_task_id": task_id})
        self.seen["continued"] = {"_meta": result.meta, "structuredContent": result.structured_content}
        other = dumped(await client.get_prompt("refund_order", ORDER))["_meta"]["task_id"]
        self.seen["tasks"] = await Tasks(client.session).tour(task_id, other)

    async def be_a_host(self, client: Any) -> None:
        """The same as a host's model does it, with tools and their arguments alone: the twin, the handle, the twin."""
        started = await client.call_tool("refund_order", ORDER)
        task = {"task_id": started.structured_content["task_id"]}
        made = await client.call_tool("refund", {**APPROVED, **task})
        done = await client.call_tool("refund_order", task)
        self.seen["hosted"] = [
            {"content": [dumped(block) for block in result.content], "structuredContent": result.structured_content}
            for result in (started, made, done)
        ]


def within(result: Any, name: str) -> Any:
    """What the SDK's client has in its result under a name, and FastMCP's has taken out of it."""
    return getattr(result, name, result)


def dumped(value: Any) -> Any:
    """A model as it was on the wire."""
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)
