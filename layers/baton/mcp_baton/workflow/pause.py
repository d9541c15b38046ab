"""Pause reasons: why a run stopped, one type a reason (docs/workflows.md)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.record import INTERRUPTED

MAX_TEXT = 4_000
"""Characters of a text in a stored reason. The reason is never dropped for want of room, so it must not take much."""

MAX_FIELDS = 20
"""Invalid fields in a stored reason: enough to see what is wrong."""

MAX_FIELD_TEXT = 500
"""Characters of an invalid field's path, and of what is wrong with it."""


@dataclass(frozen=True, slots=True)
class UnresolvableParams:
    """An argument has no value: a path that the output lacks, a task variable that nobody set.

    Attributes:
        problem: Where the value was looked for, and what is there instead.
    """

    type: ClassVar[str] = "unresolvableParams"
    step: str
    missing_param: str
    suggested_tool: str
    problem: str = field(default="", compare=False)

    def to_json(self) -> JsonObject:
        """The wire form."""
        problem = {"problem": self.problem[:MAX_FIELD_TEXT]} if self.problem else {}
        return _blocked(self, {"missingParam": self.missing_param, **problem})


@dataclass(frozen=True, slots=True)
class InvalidField:
    """A field that does not satisfy the tool's input schema, and why."""

    field: str
    problem: str


@dataclass(frozen=True, slots=True)
class SchemaMismatch:
    """The resolved arguments do not satisfy the tool's input schema."""

    type: ClassVar[str] = "schemaMismatch"
    step: str
    missing_fields: tuple[str, ...]
    invalid_fields: tuple[InvalidField, ...]
    suggested_tool: str

    def to_json(self) -> JsonObject:
        """The wire form."""
        invalid: list[Json] = [
            {"field": item.field[:MAX_FIELD_TEXT], "problem": item.problem[:MAX_FIELD_TEXT]}
            for item in self.invalid_fields[:MAX_FIELDS]
        ]
        return _blocked(self, {"missingFields": list(self.missing_fields), "invalidFields": invalid})


@dataclass(frozen=True, slots=True)
class ToolFailed:
    """The tool reported an error, raised or timed out, or a resource could not be fetched. The step is `failed`.

    Attributes:
        by_itself: The tool wanted to ask the client, which it can where it is called by itself. Not stored.
        error_id: Finds the error in the server's log, if its text is hidden from clients.
        resource: The URI of the resource that could not be read; the tool was not called.
    """

    type: ClassVar[str] = "toolError"
    step: str
    error: str
    retryable: bool
    suggested_tool: str
    by_itself: bool = False
    error_id: str | None = None
    resource: str | None = None

    @property
    def is_for_the_operator(self) -> bool:
        """Whether neither the model nor the user can correct the cause, nor even read it."""
        return self.error_id is not None and not self.retryable

    def to_json(self) -> JsonObject:
        """The wire form."""
        more = {"errorId": self.error_id, "resource": self.resource}
        return {
            "type": self.type,
            "failedStep": self.step,
            "error": self.error if len(self.error) <= MAX_TEXT else f"{self.error[:MAX_TEXT]} …",
            "retryable": self.retryable,
            "suggestedTool": self.suggested_tool,
            **{name: value[:MAX_TEXT] for name, value in more.items() if value is not None},
        }


@dataclass(frozen=True, slots=True)
class UnresolvedDependency:
    """An argument's producing step was skipped, or its output cannot be had.

    Attributes:
        lost: Why the result of a completed step cannot be had; empty for a step that has none.
    """

    type: ClassVar[str] = "unresolvedDependency"
    step: str
    missing_output: str
    producing_step: str
    suggested_tool: str
    lost: str = ""

    def to_json(self) -> JsonObject:
        """The wire form."""
        fields: dict[str, Json] = {"missingOutput": self.missing_output, "producingStep": self.producing_step}
        return _blocked(self, fields | {"reason": self.lost} if self.lost else fields)


@dataclass(frozen=True, slots=True)
class DeadlineExceeded:
    """Too little of the function's time is left to start the step."""

    type: ClassVar[str] = "deadlineExceeded"
    step: str
    suggested_tool: str

    def to_json(self) -> JsonObject:
        """The wire form."""
        return _blocked(self, {})


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The run was killed: its claim ran out, and nothing was written. Never stored; see `shown_pause`."""

    type: ClassVar[str] = INTERRUPTED
    step: str
    suggested_tool: str

    def to_json(self) -> JsonObject:
        """The wire form."""
        return _blocked(self, {})


type PauseReason = (
    UnresolvableParams | SchemaMismatch | ToolFailed | UnresolvedDependency | DeadlineExceeded | Interrupted
)


def _blocked(reason: PauseReason, fields: JsonObject) -> JsonObject:
    return {"type": reason.type, "blockedStep": reason.step, **fields, "suggestedTool": reason.suggested_tool}


def without_secrets(reason: PauseReason, hide: Callable[[str], str]) -> PauseReason:
    """The reason with nothing secret in what validators have said of values.

    Args:
        reason: The reason.
        hide: Gives a text without secrets.
    """
    if not isinstance(reason, SchemaMismatch):
        return reason
    invalid = tuple(InvalidField(hide(item.field), hide(item.problem)) for item in reason.invalid_fields)
    return replace(reason, invalid_fields=invalid)


def step_named_by(reason: JsonObject) -> str | None:
    """The step that a stored pause reason names."""
    name = reason.get("failedStep", reason.get("blockedStep"))
    return name if isinstance(name, str) else None


def pause_in(reason: JsonObject) -> PauseReason | None:
    """The pause reason that a wire form says; `None` for one of a type that is not known here."""
    step, tool = step_named_by(reason) or "", _text(reason, "suggestedTool")
    match reason.get("type"):
        case ToolFailed.type:
            retryable = reason.get("retryable") is True
            error_id, resource = (_text(reason, name) or None for name in ("errorId", "resource"))
            return ToolFailed(step, _text(reason, "error"), retryable, tool, error_id=error_id, resource=resource)
        case UnresolvableParams.type:
            return UnresolvableParams(step, _text(reason, "missingParam"), tool, _text(reason, "problem"))
        case SchemaMismatch.type:
            missing = tuple(str(name) for name in _list(reason, "missingFields"))
            return SchemaMismatch(step, missing, tuple(_fields(_list(reason, "invalidFields"))), tool)
        case UnresolvedDependency.type:
            output, producer = _text(reason, "missingOutput"), _text(reason, "producingStep")
            return UnresolvedDependency(step, output, producer, tool, _text(reason, "reason"))
        case DeadlineExceeded.type:
            return DeadlineExceeded(step, tool)
        case Interrupted.type:
            return Interrupted(step, tool)
        case _:
            return None


def _fields(stored: list[Json]) -> list[InvalidField]:
    return [InvalidField(_text(item, "field"), _text(item, "problem")) for item in stored if isinstance(item, Mapping)]


def _text(members: JsonObject, name: str) -> str:
    value = members.get(name)
    return value if isinstance(value, str) else ""


def _list(members: JsonObject, name: str) -> list[Json]:
    value = members.get(name)
    return list(value) if isinstance(value, list | tuple) else []
