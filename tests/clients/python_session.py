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
    """What one client receives from the server, under the names that `test_sessions.py` uses.

    Attributes:
        report: All of it.
        failures: The exceptions that the client raises for a tool's error; none if it returns an error result.
        progress: The client's name for the argument with the progress callback.
    """

    failures: tuple[type[Exception], ...]
    progress: str
    report: JsonDict = field(default_factory=lambda: {"progress": [], "logs": []})

    async def record_log(self, params: types.LoggingMessageNotificationParams) -> None:
        # FastMCP passes the fields if it considers the message an object. Otherwise it passes the text.
        self.report["logs"].append(params.data)

    async def record_progress(self, progress: float, total: float | None, message: str | None) -> None:
        self.report["progress"].append([progress, total, message])

    async def run(self, client: Any, describe: Callable[[Any], JsonDict]) -> JsonDict:
        """Run the whole session. `describe` returns what the client knows about itself and the server."""
        async with client:
            self.report |= describe(client)
            await self.list_everything(client)
            await self.read_and_call(client)
            await self.run_workflow(client)
            await self.act_as_host(client)
        return self.report

    async def list_everything(self, client: Any) -> None:
        """List what the server publishes."""
        self.report["tools"] = [tool.name for tool in member_of(await client.list_tools(), "tools")]
        self.report["prompts"] = [prompt.name for prompt in member_of(await client.list_prompts(), "prompts")]
        self.report["resources"] = [str(entry.uri) for entry in member_of(await client.list_resources(), "resources")]
        templates = member_of(await client.list_resource_templates(), "resource_templates")
        self.report["templates"] = [entry.uri_template for entry in templates]

    async def read_and_call(self, client: Any) -> None:
        """Read, complete, call."""
        self.report["resource"] = member_of(await client.read_resource("orders://A-17"), "contents")[0].text
        reference = types.PromptReference(type="ref/prompt", name="apology")
        completion = await client.complete(reference, {"name": "order_id", "value": "A"})
        self.report["completion"] = member_of(completion, "completion").values
        self.report["call"] = (await client.call_tool("fetch_order", ORDER)).structured_content
        try:
            result = await client.call_tool("fetch_order", {"order_id": "B-1"})
            self.report["failed"] = result.is_error and not self.failures
        except self.failures:
            self.report["failed"] = True
        await client.call_tool("count", {"to": 3}, **{self.progress: self.record_progress})
        self.report["interview"] = (await client.call_tool("interview")).content[0].text

    async def run_workflow(self, client: Any) -> None:
        """Run a workflow that pauses, make the call that it waits for, and use its task."""
        prompt = as_json(await client.get_prompt("refund_order", ORDER))
        task_id = prompt["_meta"]["task_id"]
        self.report["paused"] = prompt
        result = await client.call_tool("refund", APPROVED, meta={"_task_id": task_id})
        self.report["continued"] = {"_meta": result.meta, "structuredContent": result.structured_content}
        second_task_id = as_json(await client.get_prompt("refund_order", ORDER))["_meta"]["task_id"]
        self.report["tasks"] = await Tasks(client.session).use_tasks(task_id, second_task_id)

    async def act_as_host(self, client: Any) -> None:
        """Do the same as a host's model, with tools and arguments only: the workflow tool, the step's tool with the
        task id, the workflow tool again.
        """
        start = await client.call_tool("refund_order", ORDER)
        task = {"task_id": start.structured_content["task_id"]}
        refund = await client.call_tool("refund", {**APPROVED, **task})
        end = await client.call_tool("refund_order", task)
        self.report["hosted"] = [
            {"content": [as_json(block) for block in result.content], "structuredContent": result.structured_content}
            for result in (start, refund, end)
        ]


def member_of(result: Any, name: str) -> Any:
    """Return a result's member for the SDK's client. FastMCP has already taken it out of the result."""
    return getattr(result, name, result)


def as_json(value: Any) -> Any:
    """Return a model as it was on the wire."""
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)
