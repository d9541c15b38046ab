"""docs/reference/meta.md and workflow-rules.md list every member of `_meta` that the server sends."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_baton import Server, ToolError, ToolStep, Workflow
from mcp_baton.present.mcp_task import HIDDEN_PREFIXES
from mcp_baton.present.view import view_in_result
from mcp_baton.tasks import record
from mcp_baton.testing import Client, Era, JsonRpcError, connect

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
VARIABLES = {
    value for value in vars(record).values() if isinstance(value, str) and re.fullmatch(r"_workflow\.\w+\.?", value)
}
"""The names of the engine's task variables, and the prefixes of those of a step."""


def documented_names() -> set[str]:
    """Return the names in the first column of the tables of both pages. Variables of a step are given as prefixes."""
    pages = [(REFERENCE / name).read_text() for name in ("meta.md", "workflow-rules.md")]
    rows = re.findall(r"^\| (`[^|]+`) \|", "".join(pages), re.MULTILINE)
    return {re.sub(r"<\w+>$", "", name) for row in rows for name in re.findall(r"`([^`]+)`", row)}


def documented_name(name: str) -> str:
    """Return the name by which a member is documented: that of a step's variable is a prefix."""
    return re.sub(r"^(_workflow\.\w+\.).+", r"\1", name)


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
        sent_names = {documented_name(name) for result in results(client) for name in members(result)}

    assert {"task_id", "pause_reason", "recorded", "record_error", "may_have_run", "mcp-baton/next"} <= sent_names
    assert sent_names - documented_names() == set()


@pytest.mark.parametrize("era", ["2025", "2026"])
def test_commands_and_log_read_every_fact_about_a_task(era: Era) -> None:
    with connect(shop(), era=era) as client:
        tasks = [result for result in results(client) if {"taskId", "_meta"} <= result.keys()]

    facts = [(task, name) for task in tasks for name, fact in task["_meta"].items() if fact and "mcp-baton/" in name]
    assert {name for _, name in facts} >= {"mcp-baton/running_until", "mcp-baton/timings", "mcp-baton/result_by"}
    for task, name in facts:
        others = {member: value for member, value in task["_meta"].items() if member != name}
        assert view_in_result(task) != view_in_result({**task, "_meta": others}), name


def test_every_variable_of_the_engine_is_documented_or_hidden() -> None:
    hidden_names = {name for name in VARIABLES if name.startswith(HIDDEN_PREFIXES)}

    assert {"_workflow.progress", "_workflow.result."} <= VARIABLES
    assert documented_names() & hidden_names == set()
    assert VARIABLES - hidden_names - documented_names() == set()
