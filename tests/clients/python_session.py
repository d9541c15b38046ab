"""A whole session of a client that uses the official Python SDK's session: the SDK's own client, or FastMCP's."""

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
    """What one client sees of the server, under the names that `test_sessions.py` uses.

    Attributes:
        seen: All of it.
        failures: The exceptions that the client raises for a tool's error; none if it returns an error result.
        progress: The client's name for the argument with the progress callback.
    """

    failures: tuple[type[Exception], ...]
    progress: str
    seen: JsonDict = field(default_factory=lambda: {"progress": [], "logs": []})

    async def logged(self, params: types.LoggingMessageNotificationParams) -> None:
        """Record a log message."""
        # FastMCP passes the fields if it considers the message an object. Otherwise it passes the text.
        self.seen["logs"].append(params.data)

    async def progressed(self, progress: float, total: float | None, message: str | None) -> None:
        """Record progress."""
        self.seen["progress"].append([progress, total, message])

    async def hold(self, client: Any, about: Callable[[Any], JsonDict]) -> JsonDict:
        """Run the whole session. `about` returns what the client knows about itself and the server."""
        async with client:
            self.seen |= about(client)
            await self.look(client)
            await self.use(client)
            await self.work(client)
            await self.be_a_host(client)
        return self.seen

    async def look(self, client: Any) -> None:
        """List what the server publishes."""
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
        """Run a workflow that pauses, make the call that it waits for, and use its task."""
        paused = dumped(await client.get_prompt("refund_order", ORDER))
        task_id = paused["_meta"]["task_id"]
        self.seen["paused"] = paused
        result = await client.call_tool("refund", APPROVED, meta={"_task_id": task_id})
        self.seen["continued"] = {"_meta": result.meta, "structuredContent": result.structured_content}
        other = dumped(await client.get_prompt("refund_order", ORDER))["_meta"]["task_id"]
        self.seen["tasks"] = await Tasks(client.session).tour(task_id, other)

    async def be_a_host(self, client: Any) -> None:
        """Do the same as a host's model, with tools and arguments only: the workflow tool, the step's tool with the
        task id, the workflow tool again.
        """
        started = await client.call_tool("refund_order", ORDER)
        task = {"task_id": started.structured_content["task_id"]}
        made = await client.call_tool("refund", {**APPROVED, **task})
        done = await client.call_tool("refund_order", task)
        self.seen["hosted"] = [
            {"content": [dumped(block) for block in result.content], "structuredContent": result.structured_content}
            for result in (started, made, done)
        ]


def within(result: Any, name: str) -> Any:
    """Return a result's member for the SDK's client. FastMCP has already taken it out of the result."""
    return getattr(result, name, result)


def dumped(value: Any) -> Any:
    """Return a model as it was on the wire."""
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)
