"""Calls of tools: `tools/call`, and the tasks that they may become (docs/background.md)."""

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from mcp_baton.cli.remote.arguments import ArgumentError
from mcp_baton.cli.remote.client import header_value
from mcp_baton.cli.remote.ending import Failure
from mcp_baton.cli.remote.running import LISTENING
from mcp_baton.cli.remote.where import Connection
from mcp_baton.protocol.envelope import TASK_ID_KEY
from mcp_baton.server.published.param_headers import KEYWORD

POLL_MS: Final = (100, 60_000)
"""The shortest and the longest time between two looks at a task, whatever the server says, milliseconds."""

ANSWERED_S: Final = 1.0
"""How soon a task is looked at again whose question was answered, seconds."""


def tool_of(connection: Connection, name: str) -> dict[str, Any]:
    """A tool as it is listed.

    Raises:
        ArgumentError: there is none of this name.
    """
    tools = connection.remote.pages("tools/list", "tools")
    return named(name, tools, "tool")


def named(name: str, listed: Sequence[Mapping[str, Any]], what: str) -> dict[str, Any]:
    """The entry of this name in a list.

    Raises:
        ArgumentError: there is none.
    """
    found = {str(each["name"]): dict(each) for each in listed}
    if name not in found:
        near = difflib.get_close_matches(name, found, 1)
        told = f"there are {', '.join(found)}" if found else f"the server has no {what}s"
        raise ArgumentError(f"there is no {what} {name!r}: " + (f"did you mean {near[0]!r}?" if near else told))
    return found[name]


def call(
    connection: Connection, tool: Mapping[str, Any], arguments: Mapping[str, Any], task_id: str | None = None
) -> dict[str, Any]:
    """A call's result; of one that became a task, once that is over.

    Args:
        connection: The server.
        tool: The tool as it is listed.
        arguments: Its arguments.
        task_id: The task of a workflow that the call belongs to.

    Raises:
        Failure: its task failed, or was cancelled.
    """
    meta = {**LISTENING, **({} if task_id is None else {TASK_ID_KEY: task_id})}
    params = {"name": tool["name"], "arguments": dict(arguments)}
    headers = dict(_mirrored(tool.get("inputSchema", {}), arguments))
    result = connection.remote.request("tools/call", params, meta, headers=headers)
    return _followed(connection, result) if result.get("resultType") == "task" else result


def _mirrored(schema: Mapping[str, Any], arguments: Any) -> list[tuple[str, str]]:
    """Arguments that are mirrored into headers (MCP 2026-07-28, basic/transports/streamable-http, Custom Headers from
    Tool Parameters)."""
    found: list[tuple[str, str]] = []
    for name, field in schema.get("properties", {}).items():
        value = arguments.get(name) if isinstance(arguments, Mapping) else None
        if value is None or not isinstance(field, Mapping):
            continue
        if KEYWORD in field:
            found.append((f"Mcp-Param-{field[KEYWORD]}", header_value(value)))
        found += _mirrored(field, value)
    return found


def _followed(connection: Connection, task: Mapping[str, Any]) -> dict[str, Any]:
    """What a task returns: it is looked at as often as the server says, and its questions are answered."""
    remote, task_id = connection.remote, str(task["taskId"])
    connection.progress.say(f"task {task_id}")
    told: Mapping[str, Any] = task
    try:
        while True:
            match told.get("status"):
                case "completed":
                    result: dict[str, Any] = told.get("result", {})
                    return result
                case "failed":
                    raise Failure(f"the task {task_id} failed: {told.get('error', {}).get('message', '')}")
                case "cancelled":
                    raise Failure(f"the task {task_id} was cancelled")
                case "input_required" if told.get("inputRequests"):
                    answers = {key: remote.ask(question) for key, question in told["inputRequests"].items()}
                    remote.request("tasks/update", {"taskId": task_id, "inputResponses": answers})
                    remote.sleep(ANSWERED_S)
                case _:
                    remote.sleep(min(max(told.get("pollIntervalMs", 1_000), POLL_MS[0]), POLL_MS[1]) / 1000)
            told = remote.request("tasks/get", {"taskId": task_id})
            if told.get("statusMessage"):
                connection.progress.say(str(told["statusMessage"]))
    except KeyboardInterrupt:
        connection.terminal.say(f"The task {task_id} goes on: baton show and baton cancel take its id.")
        raise
