"""The results of a client under test: runs, results, tasks and contents, with a `repr` for failed assertions."""

import base64
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from msgspec import structs

from mcp_baton.present.view import ENDED, TaskView, view_in_meta, view_in_result
from mcp_baton.protocol.envelope import RELATED_TASK_KEY, SERVER_INFO_KEY
from mcp_baton.protocol.json import Json, JsonObject, dumps_spaced
from mcp_baton.tasks.record import PAUSED_STEP, paused_step
from mcp_baton.testing.mcp_client import JsonRpcError

MAX_REPR_CHARS = 120
"""The maximum length of a text in a `repr`."""

_HIDDEN_FIELDS = frozenset({*PAUSED_STEP, "suggestedTool"})


@dataclass(frozen=True, slots=True, repr=False)
class Pause:
    """Why a run stopped. Its fields are attributes: `pause.suggested_tool`, `pause.missing_fields`, `pause.error`, …

    Attributes:
        type: `toolError`, `schemaMismatch`, … (docs/workflows.md).
        fields: The other members, with their names in JSON.
    """

    type: str
    fields: JsonObject

    @classmethod
    def of(cls, reason: JsonObject) -> "Pause":
        """Read a pause reason as it is sent."""
        return cls(str(reason["type"]), omit(reason, "type"))

    @property
    def step(self) -> str:
        """The step that failed or could not start."""
        return str(paused_step(self.fields))

    def __getattr__(self, name: str) -> Any:
        json_name = re.sub(r"_(\w)", lambda match: match[1].upper(), name)
        if name.startswith("_") or json_name not in self.fields:
            names = ", ".join(re.sub("[A-Z]", lambda match: f"_{match[0].lower()}", field) for field in self.fields)
            raise AttributeError(f"a pause of type {self.type} has no {name!r}; it has type, step, {names}")
        return self.fields[json_name]

    def to_dict(self) -> dict[str, Json]:
        """Return the pause reason as it is sent and stored."""
        return {"type": self.type, **self.fields}

    def __repr__(self) -> str:
        visible = {name: value for name, value in self.fields.items() if value and name not in _HIDDEN_FIELDS}
        texts = [f"{name} {short(value)}" for name, value in visible.items()]
        details = short(self.fields["error"]) if "error" in self.fields else ", ".join(texts)
        return f"{self.type} at {self.step!r}" + (f": {details}" if details else "")


def short(value: object) -> str:
    """Return a value for a `repr`: JSON, shortened."""
    text = dumps_spaced(value) if isinstance(value, Mapping | list | str) else repr(value)
    return text if len(text) <= MAX_REPR_CHARS else f"{text[:MAX_REPR_CHARS]}…"


@dataclass(frozen=True, slots=True)
class Message:
    """A prompt's message: its `role`, `user` or `assistant`, and its MCP `content` (`{"type": "text", "text": …}`)."""

    role: str
    content: JsonObject

    @property
    def text(self) -> str:
        """Its text, or the text of its resource; empty for other content."""
        resource = self.content.get("resource")
        return str(self.content.get("text", resource.get("text", "") if isinstance(resource, Mapping) else ""))


class OfTask(ABC):
    """What a run and a task say about the steps of a workflow."""

    __slots__ = ()

    @property
    @abstractmethod
    def view(self) -> TaskView:
        """The task as it was sent."""

    @property
    def steps(self) -> dict[str, str]:
        """The status of each step, in order; empty for a task in a list."""
        return self.view.statuses

    @property
    def paused(self) -> bool:
        """Whether it is paused."""
        return self.view.pause is not None

    @property
    def pause(self) -> Pause:
        """The pause reason. Raises `AttributeError` if it is not paused."""
        if not self.view.pause:
            raise AttributeError(f"it is not paused: {self!r}")
        return Pause.of(self.view.pause)

    @property
    def pauses(self) -> tuple[Pause, ...]:
        """The pause reasons of all stopped steps, in order."""
        return tuple(map(Pause.of, self.view.pauses))


@dataclass(frozen=True, slots=True, repr=False)
class Run(OfTask):
    """The result of `prompts/get`, or of `tools/call` of a workflow.

    Attributes:
        messages: The conversation, or the content of a tool's result.
        meta: The reply's `_meta`, without the server's name and version. Empty for a run without a task.
        structured: The structured content of a tool's result; `None` for none.
        continued: Continues the task with answers: see `answer`.
    """

    messages: tuple[Message, ...]
    meta: JsonObject
    structured: JsonObject | None = None
    is_error: bool = False
    continued: Callable[[JsonObject], Any] | None = field(default=None, compare=False)

    @classmethod
    def of(cls, result: JsonObject) -> "Run":
        """Read a `GetPromptResult`."""
        messages = cast("list[dict[str, Any]]", result["messages"])
        return cls(tuple(Message(message["role"], message["content"]) for message in messages), own_meta(result))

    @classmethod
    def of_tool(cls, result: JsonObject) -> "Run":
        """Read a `CallToolResult` of a workflow."""
        content = cast("list[JsonObject]", result["content"])
        structured = cast("JsonObject | None", result.get("structuredContent"))
        messages = tuple(Message("assistant", block) for block in content)
        return cls(messages, own_meta(result), structured, bool(result.get("isError", False)))

    def answer(self, **answers: Json) -> Any:
        """Answer the workflow's questions, as `run.answer(reader="Kim")`, and return the next run; with an
        `AsyncClient`, an awaitable of it. Raises `AttributeError` if the run has no task."""
        if self.continued is None:
            raise AttributeError("the run has no task, so no later call can answer its questions")
        return self.continued(answers)

    @property
    def text(self) -> str:
        """The texts of its messages, joined by line breaks."""
        return "\n".join(message.text for message in self.messages if message.content.get("type") == "text")

    @property
    def task_id(self) -> str:
        """The run's task. Raises `AttributeError` if it has none."""
        if "task_id" not in self.meta:
            raise AttributeError("the run has no task: it is a plain prompt, or the store did not accept the task")
        return str(self.meta["task_id"])

    @property
    def view(self) -> TaskView:
        return view_in_meta(self.meta)

    @property
    def completed(self) -> bool:
        """Whether its task is completed in the store."""
        return self.meta.get("task_status") == "completed"

    @property
    def next(self) -> list[dict[str, Any]]:
        """The suggested calls in the structured content or `_meta`; empty if the reply has no such list."""
        return cast("list[dict[str, Any]]", (self.structured or self.meta).get("next", []))

    @property
    def handoff(self) -> str:
        """The last message of the assistant in a paused run; empty for any other."""
        if self.structured is not None:
            return self.text if self.paused else ""
        texts = (message.text for message in reversed(self.messages) if message.role == "assistant")
        return next(texts, "") if self.paused else ""

    def __repr__(self) -> str:
        if self.is_error:
            return f"Run(error {short(self.text)})"
        status = "paused" if self.paused else str(self.meta.get("task_status", "no task"))
        note = ", not persisted" if self.meta.get("persisted") is False else ""
        return f"Run({status}{note}{_status_text(self.view)})"


@dataclass(frozen=True, slots=True, repr=False)
class Result:
    """The result of `tools/call`.

    Attributes:
        value: The tool's value, as a task stores it; `None` for an error.
        text: The texts of the content, joined by line breaks.
        structured: The structured content; `None` for none.
        meta: The result's `_meta`, without the server's name and version.
    """

    value: Any
    text: str
    is_error: bool
    structured: JsonObject | None
    content: tuple[JsonObject, ...]
    meta: JsonObject

    @classmethod
    def of(cls, result: JsonObject, value: Json) -> "Result":
        """Read a `CallToolResult`, with the tool's value."""
        content = cast("list[JsonObject]", result["content"])
        return cls(
            value,
            "\n".join(str(block["text"]) for block in content if block.get("type") == "text"),
            bool(result.get("isError", False)),
            cast("JsonObject | None", result.get("structuredContent")),
            tuple(content),
            own_meta(result),
        )

    @property
    def recorded(self) -> bool:
        """Whether the call is known to be recorded with its task."""
        return self.meta.get("recorded") is True

    @property
    def steps(self) -> dict[str, str]:
        """The status of each step of the call's task, in order; empty if the call is not recorded."""
        return view_in_meta(self.meta).statuses

    def __repr__(self) -> str:
        outcome = f"error {short(self.text)}" if self.is_error else f"value {short(self.value)}"
        if "recorded" not in self.meta:
            return f"Result({outcome})"
        reason = f"recorded {self.meta['recorded']}: {self.meta.get('record_error')}"
        record_state = "recorded" if self.recorded else reason
        return f"Result({outcome}, {record_state}{_status_text(structs.replace(view_in_meta(self.meta), pauses=()))})"


@dataclass(frozen=True, slots=True, repr=False)
class Task(OfTask):
    """A task, from `tasks/get`.

    Attributes:
        status: `working`, `input_required`, `completed`, `failed` or `cancelled`.
        variables: The task variables, including the engine's (`_workflow.…`).
        result: The final result of a completed task; `None` before.
        shown: The other members: `createdAt`, `ttlMs`, `statusMessage`, …
    """

    task_id: str
    status: str
    variables: JsonObject
    result: Any = None
    shown: JsonObject = field(default_factory=dict)

    @property
    def view(self) -> TaskView:
        return view_in_result({"taskId": self.task_id, "status": self.status, "_meta": self.variables})

    def __repr__(self) -> str:
        return f"Task({self.status}{_status_text(self.view)})"


@dataclass(frozen=True, slots=True)
class Contents:
    """A resource's contents: its `text`, which is empty for bytes, or its `data`, which is empty for text."""

    uri: str
    mime_type: str | None
    text: str
    data: bytes

    @classmethod
    def of(cls, contents: Mapping[str, Any]) -> "Contents":
        """Read one of the contents of a `ReadResourceResult`."""
        data = base64.b64decode(contents.get("blob", ""))
        return cls(contents["uri"], contents.get("mimeType"), contents.get("text", ""), data)


def omit(members: JsonObject, *names: str) -> dict[str, Json]:
    return {name: value for name, value in members.items() if name not in names}


def own_meta(result: JsonObject) -> dict[str, Json]:
    """Return a result's `_meta` without the members of every result."""
    return omit(cast("JsonObject", result.get("_meta", {})), SERVER_INFO_KEY, RELATED_TASK_KEY)


def _status_text(view: TaskView) -> str:
    pause = f": {Pause.of(view.pause)!r}" if view.pause else ""
    return pause + ("; " + " ".join(f"{step.name}={step.status}" for step in view.steps) if view.steps else "")


@dataclass(frozen=True, slots=True, repr=False)
class TaskState:
    """A tool's task, from `tasks/get`.

    Attributes:
        status: `working`, `input_required`, `completed`, `failed` or `cancelled`.
        status_message: The last progress message of the tool; empty for none.
        input_requests: The open questions, by key: `{"method", "params"}`. Empty up to 2025-11-25, which sends them
            in another way.
        shown: The other members: `createdAt`, `ttlMs`, …
    """

    task_id: str
    status: str
    status_message: str
    input_requests: Mapping[str, JsonObject]
    shown: JsonObject = field(default_factory=dict)
    ended: JsonObject | JsonRpcError | None = field(default=None, repr=False)
    value: Json = field(default=None, repr=False)

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.status in ENDED

    @property
    def result(self) -> Result:
        """The result of the call. Raises `JsonRpcError` if the task has failed, and `AttributeError` if it has none."""
        return Result.of(self.sent, self.value)

    @property
    def sent(self) -> JsonObject:
        """The same as a `CallToolResult`."""
        if isinstance(self.ended, JsonRpcError):
            raise self.ended
        if self.ended is None:
            raise AttributeError(f"the task has no result: {self!r}")
        return self.ended

    def __repr__(self) -> str:
        message = f": {short(self.status_message)}" if self.status_message else ""
        questions = f"; asks {', '.join(self.input_requests)}" if self.input_requests else ""
        error = isinstance(self.ended, JsonRpcError)
        end = "" if self.ended is None else f"; {self.ended if error else self.result!r}"
        return f"TaskState({self.status}{message}{questions}{end})"
