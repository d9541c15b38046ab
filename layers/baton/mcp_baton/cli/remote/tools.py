"""Requests of the commands: run a workflow, call a tool, and follow, cancel or complete a task (docs/background.md)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from mcp_baton.cli.remote.arguments import unknown
from mcp_baton.cli.remote.client import Remote, header_value
from mcp_baton.cli.remote.connection import Connection
from mcp_baton.cli.remote.errors import Failure, Rejected, ended_message
from mcp_baton.cli.remote.questions import Stopped
from mcp_baton.cli.remote.task import Ran, StepState, TaskState, state_of
from mcp_baton.protocol.envelope import TASK_ID_KEY
from mcp_baton.server.definitions.param_headers import KEYWORD
from mcp_baton.server.schema.prompt_arguments import SECRETS
from mcp_baton.server.workflows.task_view import NEXT_KEY

PROGRESS_TOKEN: Final = {"progressToken": "baton"}

POLL_MS: Final = (100, 60_000)
"""The minimum and the maximum of the time between two polls, whatever the server requests, milliseconds."""

ANSWERED_S: Final = 1.0
"""The time before a task is polled after its question was answered, seconds."""


def run(remote: Remote, name: str, arguments: Mapping[str, str], task_id: str | None = None) -> Ran:
    """Run a workflow, or resume a task of it."""
    meta = {**PROGRESS_TOKEN, **({} if task_id is None else {TASK_ID_KEY: task_id})}
    result = remote.request("prompts/get", {"name": name, "arguments": dict(arguments)}, meta)
    meta, messages = result.get("_meta", {}), tuple(result.get("messages", ()))
    if "task_id" not in meta:
        return Ran(name, messages, None)
    return Ran(name, messages, _after(remote, meta), meta.get("persisted", True))


def _after(remote: Remote, meta: Mapping[str, Any]) -> TaskState:
    """Return the task after a run: as it is stored, unless the store does not have what the run did."""
    steps = tuple(StepState(step["name"], step["status"]) for step in meta.get("steps", ()))
    status, pause = meta.get("task_status", "working"), meta.get("pause_reason")
    try:
        stored = get_task(remote, meta["task_id"])
    except Rejected:
        return TaskState(meta["task_id"], status, steps=steps, pause=pause)
    return stored if meta.get("persisted", True) is True else replace(stored, steps=steps, status=status, pause=pause)


def run_asking(connection: Connection, name: str, given: dict[str, str], task_id: str | None = None) -> Ran:
    """Run a workflow, or resume a task of it, and ask the user for missing secret arguments.

    Args:
        connection: The server and the terminal.
        name: The workflow.
        given: Its arguments. Secrets that the user types are added for the command's next requests.
        task_id: The task to resume.

    Raises:
        Rejected: the server rejects the request, and no secret is missing or no user can answer.
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
    names = data.get(SECRETS) if isinstance(data, Mapping) else None
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def get_task(remote: Remote, task_id: str) -> TaskState:
    """Return a task with its suggested calls."""
    return state_of(remote.request("tasks/get", {"taskId": task_id}, {NEXT_KEY: True}))


def end_task(remote: Remote, task_id: str, result: Mapping[str, Any] | None = None) -> TaskState:
    """Cancel a task, or complete it with a result.

    Raises:
        Failure: it has already ended.
    """
    state = get_task(remote, task_id)
    if not state.ended:
        params = {} if result is None else {"result": result}
        remote.request("tasks/cancel", {"taskId": task_id, **params})
        state = get_task(remote, task_id)
        # The 2026 era acknowledges the request even if the task ended in the meantime.
        if result is None and state.status == "cancelled":
            return state
        if result is not None and state.result_by and _without_meta(state.result) == _without_meta(result):
            return state
    raise Failure(ended_message(f"the task {task_id}", state.status))


def _without_meta(result: Any) -> Any:
    """Return a result without the members that the server adds to the result of a tool."""
    if not isinstance(result, Mapping):
        return result
    return {name: value for name, value in result.items() if name not in ("resultType", "_meta")}


def find_tool(connection: Connection, name: str) -> dict[str, Any]:
    """Return a tool from the server's list.

    Raises:
        ArgumentError: the server has no tool with this name.
    """
    return named(name, connection.remote.pages("tools/list", "tools"), "tool")


def named(name: str, listed: Sequence[Mapping[str, Any]], kind: str) -> dict[str, Any]:
    """Return the entry of a list that has this name.

    Raises:
        ArgumentError: there is none.
    """
    found = {str(each["name"]): dict(each) for each in listed}
    if name not in found:
        raise unknown(kind, name, list(found))
    return found[name]


def call(
    connection: Connection, tool: Mapping[str, Any], arguments: Mapping[str, Any], task_id: str | None = None
) -> dict[str, Any]:
    """Call a tool and return the result. If the call becomes a task, wait until the task ends.

    Args:
        connection: The server.
        tool: The tool as it is listed.
        arguments: Its arguments.
        task_id: The task of the workflow to which the call belongs.

    Raises:
        Failure: the call's task failed or was cancelled.
    """
    meta = {**PROGRESS_TOKEN, **({} if task_id is None else {TASK_ID_KEY: task_id})}
    params = {"name": tool["name"], "arguments": dict(arguments)}
    headers = dict(_mirrored(tool.get("inputSchema", {}), arguments))
    result = connection.remote.request("tools/call", params, meta, headers=headers)
    return _followed(connection, result) if result.get("resultType") == "task" else result


def _mirrored(schema: Mapping[str, Any], arguments: Any) -> list[tuple[str, str]]:
    """Return the arguments that are also sent as headers (MCP 2026-07-28, basic/transports/streamable-http, Custom
    Headers from Tool Parameters)."""
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
    """Poll a task, answer its questions, and return its result."""
    remote, task_id = connection.remote, str(task["taskId"])
    connection.progress.say(f"task {task_id}")
    try:
        while True:
            match task.get("status"):
                case "completed":
                    result: dict[str, Any] = task.get("result", {})
                    return result
                case "failed":
                    raise Failure(f"the task {task_id} failed: {task.get('error', {}).get('message', '')}")
                case "cancelled":
                    raise Failure(f"the task {task_id} was cancelled")
                case "input_required" if task.get("inputRequests"):
                    answers = {key: remote.ask(question) for key, question in task["inputRequests"].items()}
                    remote.request("tasks/update", {"taskId": task_id, "inputResponses": answers})
                    remote.sleep(ANSWERED_S)
                case _:
                    remote.sleep(min(max(task.get("pollIntervalMs", 1_000), POLL_MS[0]), POLL_MS[1]) / 1000)
            task = remote.request("tasks/get", {"taskId": task_id})
            if task.get("statusMessage"):
                connection.progress.say(str(task["statusMessage"]))
    except KeyboardInterrupt:
        connection.terminal.say(f"The task {task_id} continues. Use its id with baton show and baton cancel.")
        raise
