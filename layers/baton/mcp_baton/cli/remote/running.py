"""Runs of workflows: `prompts/get`, and the task as it then stands (docs/workflows.md)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from mcp_baton.cli.remote.client import Remote
from mcp_baton.cli.remote.ending import DONE, FAILED, PAUSED, Rejected
from mcp_baton.cli.remote.questions import Stopped
from mcp_baton.cli.remote.state import StepState, TaskState, state_of
from mcp_baton.protocol.envelope import TASK_ID_KEY
from mcp_baton.server.methods.task_values import NEXT_KEY
from mcp_baton.server.schema.prompt_arguments import SECRETS

if TYPE_CHECKING:
    from mcp_baton.cli.remote.where import Connection

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
