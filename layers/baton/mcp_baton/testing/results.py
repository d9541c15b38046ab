"""What a client under test gets: runs, results, tasks and contents, as values that read well in a failed assertion."""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from mcp_baton.protocol.envelope import RELATED_TASK_KEY, SERVER_INFO_KEY
from mcp_baton.protocol.json import Json, JsonObject, dumps_spaced

SHOWN = 120
"""Characters of a text in a `repr`."""

_UNTOLD = frozenset({"failedStep", "blockedStep", "suggestedTool"})


@dataclass(frozen=True, slots=True, repr=False)
class Pause:
    """Why a run stopped. Its fields are attributes: `pause.suggested_tool`, `pause.missing_fields`, `pause.error`, …

    Attributes:
        type: `toolError`, `schemaMismatch`, … (docs/workflows.md).
        fields: Everything else, under the names of the wire.
    """

    type: str
    fields: JsonObject

    @property
    def step(self) -> str:
        """The step that failed or could not start."""
        return str(self.fields.get("failedStep", self.fields.get("blockedStep")))

    def __getattr__(self, name: str) -> Any:
        wire = re.sub(r"_(\w)", lambda found: found[1].upper(), name)
        if name.startswith("_") or wire not in self.fields:
            has = ", ".join(re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", field) for field in self.fields)
            raise AttributeError(f"a pause of type {self.type} has no {name!r}; it has type, step, {has}")
        return self.fields[wire]

    def to_dict(self) -> dict[str, Json]:
        """The pause reason as it is sent and stored."""
        return {"type": self.type, **self.fields}

    def __repr__(self) -> str:
        told = [f"{name} {_short(value)}" for name, value in self.fields.items() if value and name not in _UNTOLD]
        why = _short(self.fields["error"]) if "error" in self.fields else ", ".join(told)
        return f"{self.type} at {self.step!r}" + (f": {why}" if why else "")


@dataclass(frozen=True, slots=True)
class Message:
    """A prompt's message.

    Attributes:
        role: `user` or `assistant`.
        content: MCP content, e.g. `{"type": "text", "text": …}`.
    """

    role: str
    content: JsonObject

    @property
    def text(self) -> str:
        """Its text; of a resource its contents', empty for what has none."""
        resource = self.content.get("resource")
        return str(self.content.get("text", resource.get("text", "") if isinstance(resource, Mapping) else ""))


@dataclass(frozen=True, slots=True, repr=False)
class Run:
    """What `prompts/get` returned.

    Attributes:
        messages: The conversation.
        meta: The reply's `_meta`, without the server's own name and version. Empty for a run without a task.
        steps: The status of each step, in order.
        pause: Why it stopped; `None` where nothing stopped it.
        next: What remains, as `_meta["next"]` lists it; empty where the reply has no such list.
    """

    messages: tuple[Message, ...]
    meta: JsonObject
    steps: dict[str, str]
    pause: Pause | None
    next: list[dict[str, Json]]

    @classmethod
    def of(cls, result: JsonObject) -> "Run":
        """Of a `GetPromptResult`."""
        messages = cast("list[dict[str, Any]]", result["messages"])
        meta = _own(result)
        return cls(
            tuple(Message(message["role"], message["content"]) for message in messages),
            meta,
            steps_in(meta.get("steps")),
            pause_in(meta.get("pause_reason")),
            cast("list[dict[str, Json]]", meta.get("next", [])),
        )

    @property
    def task_id(self) -> str:
        """The run's task.

        Raises:
            AttributeError: it has none.
        """
        if "task_id" not in self.meta:
            raise AttributeError("the run has no task: it is a plain prompt's, or the store took none")
        return str(self.meta["task_id"])

    @property
    def paused(self) -> bool:
        """Whether it stopped before its end."""
        return self.pause is not None

    @property
    def completed(self) -> bool:
        """Whether its task is completed, as the store has it."""
        return self.meta.get("task_status") == "completed"

    @property
    def handoff(self) -> str:
        """The last message of a paused run; empty for any other."""
        return self.messages[-1].text if self.pause is not None else ""

    def __repr__(self) -> str:
        status = "paused" if self.pause else str(self.meta.get("task_status", "no task"))
        unsaved = ", not persisted" if self.meta.get("persisted") is False else ""
        return f"Run({status}{unsaved}{_told(self.steps, self.pause)})"


@dataclass(frozen=True, slots=True, repr=False)
class Result:
    """What `tools/call` returned.

    Attributes:
        value: The tool's value, as a task stores it; `None` for an error.
        text: The texts of the content, joined by line breaks.
        is_error: Whether the tool reported an error.
        structured: The structured content; `None` where there is none.
        content: The content.
        meta: The result's `_meta`, without the server's own name and version.
    """

    value: Any
    text: str
    is_error: bool
    structured: JsonObject | None
    content: tuple[JsonObject, ...]
    meta: JsonObject

    @classmethod
    def of(cls, result: JsonObject, value: Json) -> "Result":
        """Of a `CallToolResult`, and the value that the tool had."""
        content = cast("list[JsonObject]", result["content"])
        failed = bool(result.get("isError", False))
        return cls(
            None if failed else value,
            "\n".join(str(block["text"]) for block in content if block.get("type") == "text"),
            failed,
            cast("JsonObject | None", result.get("structuredContent")),
            tuple(content),
            _own(result),
        )

    @property
    def recorded(self) -> bool:
        """Whether it is known to be recorded with the task that the call named."""
        return self.meta.get("recorded") is True

    def __repr__(self) -> str:
        said = f"error {_short(self.text)}" if self.is_error else f"value {_short(self.value)}"
        if "recorded" not in self.meta:
            return f"Result({said})"
        recorded = "recorded" if self.recorded else f"recorded {self.meta['recorded']}: {self.meta.get('record_error')}"
        return f"Result({said}, {recorded}{_told(steps_in(self.meta.get('steps')), None)})"


@dataclass(frozen=True, slots=True, repr=False)
class Task:
    """A task, as `tasks/get` tells it.

    Attributes:
        status: `working`, `input_required`, `completed`, `failed` or `cancelled`.
        variables: The task variables, the engine's own (`_workflow.…`) included.
        result: The final result of a completed task; `None` before.
        shown: Everything else that was said of it: `createdAt`, `ttlMs`, `statusMessage`, …
    """

    task_id: str
    status: str
    variables: JsonObject
    result: Any = None
    shown: JsonObject = field(default_factory=dict)

    @property
    def steps(self) -> dict[str, str]:
        """The status of each step, in order; empty for a task that a list told of."""
        progress = self.variables.get("_workflow.progress")
        return steps_in(progress.get("steps")) if isinstance(progress, Mapping) else {}

    @property
    def pause(self) -> Pause | None:
        """Why its last run stopped; `None` where nothing stopped it."""
        return pause_in(self.variables.get("_workflow.pause_reason"))

    def __repr__(self) -> str:
        return f"Task({self.status}{_told(self.steps, self.pause)})"


@dataclass(frozen=True, slots=True)
class Contents:
    """A resource's contents.

    Attributes:
        text: Its text; empty for bytes.
        data: Its bytes; empty for text.
    """

    uri: str
    mime_type: str | None
    text: str
    data: bytes

    @classmethod
    def of(cls, contents: Mapping[str, Any]) -> "Contents":
        """Of one of the contents of a `ReadResourceResult`."""
        data = base64.b64decode(contents.get("blob", ""))
        return cls(contents["uri"], contents.get("mimeType"), contents.get("text", ""), data)


def steps_in(steps: object) -> dict[str, str]:
    """The statuses in a list of steps."""
    return {step["name"]: step["status"] for step in steps} if isinstance(steps, list) else {}


def pause_in(reason: object) -> Pause | None:
    """A pause reason, where there is one."""
    if not isinstance(reason, Mapping):
        return None
    return Pause(reason["type"], {name: value for name, value in reason.items() if name != "type"})


def _own(result: JsonObject) -> dict[str, Json]:
    meta = cast("JsonObject", result.get("_meta", {}))
    return {name: value for name, value in meta.items() if name not in {SERVER_INFO_KEY, RELATED_TASK_KEY}}


def variables_in(result: JsonObject) -> dict[str, Json]:
    """The task variables in the result of `tasks/get`."""
    return _own(result)


def _told(steps: dict[str, str], pause: Pause | None) -> str:
    why = f": {pause!r}" if pause else ""
    return why + ("; " + " ".join(f"{name}={status}" for name, status in steps.items()) if steps else "")


def _short(value: object) -> str:
    text = dumps_spaced(value) if isinstance(value, Mapping | list | str) else repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
