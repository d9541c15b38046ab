"""What a client under test gets: runs, results, tasks and contents, as values that read well in a failed assertion."""

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from mcp_baton.protocol.envelope import RELATED_TASK_KEY, SERVER_INFO_KEY
from mcp_baton.protocol.json import Json, JsonObject, dumps_spaced
from mcp_baton.tasks.record import PAUSE_REASON, PAUSED_STEP, PROGRESS, paused_step
from mcp_baton.testing.wire import JsonRpcError

SHOWN = 120
"""Characters of a text in a `repr`."""

_UNTOLD = frozenset({*PAUSED_STEP, "suggestedTool"})


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
        return str(paused_step(self.fields))

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
        told = [f"{name} {short(value)}" for name, value in self.fields.items() if value and name not in _UNTOLD]
        why = short(self.fields["error"]) if "error" in self.fields else ", ".join(told)
        return f"{self.type} at {self.step!r}" + (f": {why}" if why else "")


def pause_in(reason: object, of: object) -> Pause:
    """A pause reason as it is sent.

    Raises:
        AttributeError: there is none; says what `of` is.
    """
    if isinstance(reason, Mapping):
        return Pause(reason["type"], {name: value for name, value in reason.items() if name != "type"})
    raise AttributeError(f"nothing has stopped it: {of!r}")


def short(value: object) -> str:
    """A value as a `repr` shows it: JSON, cut where it is long."""
    text = dumps_spaced(value) if isinstance(value, Mapping | list | str) else repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


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
    """What `prompts/get` returned, or `tools/call` of a workflow.

    Attributes:
        messages: The conversation; of a tool's result its content.
        meta: The reply's `_meta`, without the server's own name and version. Empty for a run without a task.
        structured: The structured content of a tool's result; `None` where there is none.
        is_error: Whether a tool's result says that nothing was run.
        continued: Continues the task with answers: see `answer`.
    """

    messages: tuple[Message, ...]
    meta: JsonObject
    structured: JsonObject | None = None
    is_error: bool = False
    continued: Callable[[JsonObject], Any] | None = field(default=None, compare=False)

    @classmethod
    def of(cls, result: JsonObject) -> "Run":
        """Of a `GetPromptResult`."""
        messages = cast("list[dict[str, Any]]", result["messages"])
        return cls(tuple(Message(message["role"], message["content"]) for message in messages), own_meta(result))

    @classmethod
    def of_tool(cls, result: JsonObject) -> "Run":
        """Of a `CallToolResult` of a workflow."""
        content = cast("list[JsonObject]", result["content"])
        structured = cast("JsonObject | None", result.get("structuredContent"))
        told = tuple(Message("assistant", block) for block in content)
        return cls(told, own_meta(result), structured, bool(result.get("isError", False)))

    def answer(self, **answers: Json) -> Any:
        """Answer the workflow's questions: `run.answer(reader="Kim")`.

        Returns:
            The next run; with an `AsyncClient`, an awaitable of it.

        Raises:
            AttributeError: The run has no task.
        """
        if self.continued is None:
            raise AttributeError("the run has no task, so no later call can answer its questions")
        return self.continued(answers)

    @property
    def text(self) -> str:
        """The texts of its messages, joined by line breaks."""
        return "\n".join(message.text for message in self.messages if message.content.get("type") == "text")

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
    def steps(self) -> dict[str, str]:
        """The status of each step, in order."""
        return steps_in(self.meta.get("steps"))

    @property
    def paused(self) -> bool:
        """Whether it stopped before its end."""
        return "pause_reason" in self.meta

    @property
    def pause(self) -> Pause:
        """Why it stopped.

        Raises:
            AttributeError: it did not.
        """
        return pause_in(self.meta.get("pause_reason"), self)

    @property
    def completed(self) -> bool:
        """Whether its task is completed, as the store has it."""
        return self.meta.get("task_status") == "completed"

    @property
    def next(self) -> list[dict[str, Any]]:
        """What remains, as a tool's structure or `_meta` lists it; empty where the reply has no such list."""
        return cast("list[dict[str, Any]]", (self.structured or self.meta).get("next", []))

    @property
    def handoff(self) -> str:
        """The last message of a paused run; empty for any other."""
        if self.structured is not None:
            return self.text if self.paused else ""
        return self.messages[-1].text if self.paused else ""

    def __repr__(self) -> str:
        if self.is_error:
            return f"Run(error {short(self.text)})"
        status = "paused" if self.paused else str(self.meta.get("task_status", "no task"))
        unsaved = ", not persisted" if self.meta.get("persisted") is False else ""
        return f"Run({status}{unsaved}{_told(self.meta.get('pause_reason'), self.steps)})"


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
        """Whether it is known to be recorded with the task that the call named."""
        return self.meta.get("recorded") is True

    @property
    def steps(self) -> dict[str, str]:
        """The status of each step of the task that the call named, in order; empty where it is not recorded."""
        return steps_in(self.meta.get("steps"))

    def __repr__(self) -> str:
        said = f"error {short(self.text)}" if self.is_error else f"value {short(self.value)}"
        if "recorded" not in self.meta:
            return f"Result({said})"
        recorded = "recorded" if self.recorded else f"recorded {self.meta['recorded']}: {self.meta.get('record_error')}"
        return f"Result({said}, {recorded}{_told(None, steps_in(self.meta.get('steps')))})"


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
        progress = self.variables.get(PROGRESS)
        return steps_in(progress.get("steps")) if isinstance(progress, Mapping) else {}

    @property
    def paused(self) -> bool:
        """Whether it waits for somebody to go on."""
        return PAUSE_REASON in self.variables

    @property
    def pause(self) -> Pause:
        """Why its last run stopped.

        Raises:
            AttributeError: nothing stopped it.
        """
        return pause_in(self.variables.get(PAUSE_REASON), self)

    def __repr__(self) -> str:
        return f"Task({self.status}{_told(self.variables.get(PAUSE_REASON), self.steps)})"


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


def own_meta(result: JsonObject) -> dict[str, Json]:
    """A result's `_meta` without what every result says."""
    meta = cast("JsonObject", result.get("_meta", {}))
    return {name: value for name, value in meta.items() if name not in {SERVER_INFO_KEY, RELATED_TASK_KEY}}


def _told(reason: object, steps: dict[str, str]) -> str:
    why = f": {pause_in(reason, reason)!r}" if reason else ""
    return why + ("; " + " ".join(f"{name}={status}" for name, status in steps.items()) if steps else "")


TERMINAL = frozenset({"completed", "failed", "cancelled"})


@dataclass(frozen=True, slots=True, repr=False)
class TaskState:
    """A tool's task, as `tasks/get` tells it.

    Attributes:
        status: `working`, `input_required`, `completed`, `failed` or `cancelled`.
        status_message: What the tool has reported; empty where it has not.
        input_requests: The questions that have no answer yet, by key: `{"method", "params"}`. Up to 2025-11-25 they
            travel otherwise, and this is empty.
        shown: Everything else that was said of it: `createdAt`, `ttlMs`, …
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
        """Whether nothing changes it any more."""
        return self.status in TERMINAL

    @property
    def result(self) -> Result:
        """What the call would have returned.

        Raises:
            JsonRpcError: the task has failed.
            AttributeError: it was cancelled, or is not over.
        """
        return Result.of(self.sent, self.value)

    @property
    def sent(self) -> JsonObject:
        """The same as it is sent: a `CallToolResult`."""
        if isinstance(self.ended, JsonRpcError):
            raise self.ended
        if self.ended is None:
            raise AttributeError(f"the task has no result: {self!r}")
        return self.ended

    def __repr__(self) -> str:
        said = f": {short(self.status_message)}" if self.status_message else ""
        asks = f"; asks {', '.join(self.input_requests)}" if self.input_requests else ""
        error = isinstance(self.ended, JsonRpcError)
        ended = "" if self.ended is None else f"; {self.ended if error else self.result!r}"
        return f"TaskState({self.status}{said}{asks}{ended})"
