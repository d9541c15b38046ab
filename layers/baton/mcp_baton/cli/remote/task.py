"""A run as the commands show it, read from `prompts/get` (docs/http.md)."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from mcp_baton.cli.remote.errors import DONE, FAILED, PAUSED
from mcp_baton.present.prompt_messages import REQUESTS
from mcp_baton.present.view import TaskView


class RunResult(Struct, frozen=True):
    """The result of `prompts/get`.

    `task` is the task after the run; `None` if the prompt has none. `persisted` is whether the changes of the run
    were stored, or `"unknown"`.
    """

    name: str
    messages: tuple[Mapping[str, Any], ...]
    task: TaskView | None
    persisted: Any = True

    @property
    def paused(self) -> bool:
        """Whether the client has to continue."""
        return self.task is not None and not self.task.ended

    @property
    def code(self) -> int:
        if self.task is None or self.task.status == "completed":
            return DONE
        return PAUSED if self.paused else FAILED

    @property
    def handoff(self) -> str:
        """The server's last message if the run is paused, else empty."""
        return self._last_text if self.paused else ""

    @property
    def note(self) -> str:
        """The server's last message if the run is not paused, for example about steps that may have run twice."""
        return "" if self.paused else self._last_text

    @property
    def _last_text(self) -> str:
        messages = [message for message in self.messages if text_of(message) not in REQUESTS]
        return text_of(messages[-1]) if messages and messages[-1].get("role") == "assistant" else ""

    def to_json(self) -> dict[str, Any]:
        if self.task is None:
            return {"prompt": self.name, "messages": list(self.messages)}
        note = {"note": self.note} if self.note else {}
        persistence = {} if self.persisted is True else {"persisted": self.persisted}
        return {**self.task.to_json(), "workflow": self.name, "handoff": self.handoff or None, **note, **persistence}


def text_of(message: Mapping[str, Any]) -> str:
    """Return a message's text, or the text of its embedded resource."""
    content = message.get("content", {})
    return str(content.get("text") or content.get("resource", {}).get("text", ""))
