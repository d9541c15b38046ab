"""A run as the commands show it, read from `prompts/get` (docs/http.md)."""

from typing import Any

from msgspec import Struct

from mcp_baton.cli.remote.errors import EXIT_DONE, EXIT_FAILED, EXIT_PAUSED
from mcp_baton.present.prompt_messages import REQUESTS
from mcp_baton.present.view import TaskView
from mcp_baton.testing.results import Run


class RunResult(Struct, frozen=True):
    """The result of `prompts/get`, and the task after the run; `None` if the prompt has none."""

    name: str
    run: Run
    task: TaskView | None

    @property
    def paused(self) -> bool:
        """Whether the client has to continue."""
        return self.task is not None and not self.task.ended

    @property
    def code(self) -> int:
        if self.task is None or self.task.status == "completed":
            return EXIT_DONE
        return EXIT_PAUSED if self.paused else EXIT_FAILED

    @property
    def persisted(self) -> Any:
        """Whether the changes of the run were stored, or `"unknown"`."""
        return self.run.meta.get("persisted", True)

    @property
    def last_text(self) -> str:
        """The server's last message: the handoff of a paused run, or a note, for example about steps that may have run
        twice."""
        messages = [message for message in self.run.messages if message.text not in REQUESTS]
        return messages[-1].text if messages and messages[-1].role == "assistant" else ""

    def to_json(self) -> dict[str, Any]:
        if self.task is None:
            messages = [{"role": message.role, "content": message.content} for message in self.run.messages]
            return {"prompt": self.name, "messages": messages}
        handoff = {"handoff": self.last_text or None if self.paused else None}
        note = {"note": self.last_text} if self.last_text and not self.paused else {}
        persistence = {} if self.persisted is True else {"persisted": self.persisted}
        return {**self.task.to_json(), "workflow": self.name, **handoff, **note, **persistence}
