"""A pause reason as it is stored, read again (docs/workflows.md, "Pauses"). Pure."""

from collections.abc import Mapping

from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.workflow.pause import (
    DeadlineExceeded,
    Interrupted,
    InvalidField,
    PauseReason,
    SchemaMismatch,
    ToolFailed,
    UnresolvableParams,
    UnresolvedDependency,
    step_named_by,
)


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
