"""Calls of tools: `tools/call`, and the tasks that they may become (docs/background.md)."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from mcp_baton.cli.remote.arguments import ArgumentError
from mcp_baton.cli.remote.client import Remote, header_value
from mcp_baton.cli.remote.ending import DONE, FAILED, PAUSED, Failure, Rejected
from mcp_baton.cli.remote.questions import Stopped
from mcp_baton.cli.remote.task import StepState, TaskState, state_of
from mcp_baton.cli.remote.where import Connection
from mcp_baton.protocol.envelope import TASK_ID_KEY
from mcp_baton.server.definitions.param_headers import KEYWORD
from mcp_baton.server.schema.prompt_arguments import SECRETS
from mcp_baton.server.workflows.task_view import NEXT_KEY

LISTENING: Final = {"progressToken": "baton"}


@dataclass(frozen=True, slots=True)
class Ran:
    """A prompt that was got.

    Attributes:
        name: Its name.
        messages: The conversation.
        task: The run's task as it stood afterwards; `None` for a run without one.
        persisted: Whether the store holds what the run did, or `"unknown"`.
    """

    name: str
    messages: tuple[Mapping[str, Any], ...]
    task: TaskState | None
    persisted: Any = True

    @property
    def paused(self) -> bool:
        """Whether it is for the client to go on."""
        return self.task is not None and not self.task.over

    @property
    def code(self) -> int:
        """The exit code of a command that ends with it."""
        if self.task is None or self.task.status == "completed":
            return DONE
        return PAUSED if self.paused else FAILED

    @property
    def handoff(self) -> str:
        """What the server says at its end to whoever goes on; empty where it is done."""
        last = self.messages[-1] if self.messages else {}
        return text_of(last) if self.paused and last.get("role") == "assistant" else ""

    @property
    def note(self) -> str:
        """What the server says at the end of a run that has not paused: which steps may have run twice, for example."""
        last = self.messages[-1] if self.messages else {}
        return text_of(last) if not self.paused and last.get("role") == "assistant" else ""

    def to_json(self) -> dict[str, Any]:
        """The same as a JSON object."""
        if self.task is None:
            return {"prompt": self.name, "messages": list(self.messages)}
        note = {"note": self.note} if self.note else {}
        more = {} if self.persisted is True else {"persisted": self.persisted}
        return {**self.task.to_json(), "workflow": self.name, "handoff": self.handoff or None, **note, **more}


def text_of(message: Mapping[str, Any]) -> str:
    """A message's text; of an embedded resource its contents'."""
    content = message.get("content", {})
    return str(content.get("text") or content.get("resource", {}).get("text", ""))


def run(remote: Remote, name: str, arguments: Mapping[str, str], task_id: str | None = None) -> Ran:
    """Run a workflow, or go on with a task of it."""
    meta = {**LISTENING, **({} if task_id is None else {TASK_ID_KEY: task_id})}
    result = remote.request("prompts/get", {"name": name, "arguments": dict(arguments)}, meta)
    told, messages = result.get("_meta", {}), tuple(result.get("messages", ()))
    if "task_id" not in told:
        return Ran(name, messages, None)
    return Ran(name, messages, _after(remote, told), told.get("persisted", True))


def _after(remote: Remote, told: Mapping[str, Any]) -> TaskState:
    """The task after a run: as it is stored, unless the store does not have what the run did."""
    steps = tuple(StepState(step["name"], step["status"]) for step in told.get("steps", ()))
    status, pause = told.get("task_status", "working"), told.get("pause_reason")
    seen = TaskState(told["task_id"], status, steps=steps, pause=pause)
    try:
        stored = look(remote, told["task_id"])
    except Rejected:
        return seen
    return stored if told.get("persisted", True) is True else replace(stored, steps=steps, status=status, pause=pause)


def run_asking(connection: "Connection", name: str, given: dict[str, str], task_id: str | None = None) -> Ran:
    """Run a workflow, or go on with a task of it, and ask for the secret arguments that are missing.

    Args:
        connection: The server, and the terminal.
        name: The workflow.
        given: Its arguments. What is asked for is added to them, for the command's next requests.
        task_id: The task to go on with.

    Raises:
        Rejected: the server refuses the request, and there is nothing more to ask, or nobody to be asked.
    """
    while True:
        try:
            return run(connection.remote, name, given, task_id)
        except Rejected as refused:
            lacking = [secret for secret in _secrets_in(refused.data) if secret not in given]
            if not lacking or not connection.terminal.interactive:
                raise
            try:
                given |= {secret: connection.terminal.secret(secret) for secret in lacking}
            except Stopped:
                raise refused from None


def _secrets_in(data: Any) -> list[str]:
    named = data.get(SECRETS) if isinstance(data, Mapping) else None
    return [name for name in named if isinstance(name, str)] if isinstance(named, list) else []


def look(remote: Remote, task_id: str) -> TaskState:
    """A task as it stands, with what remains to be done."""
    return state_of(remote.request("tasks/get", {"taskId": task_id}, {NEXT_KEY: True}))


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
