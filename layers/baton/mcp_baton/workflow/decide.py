"""What to do with a step, decided without doing it. Pure."""

from dataclasses import dataclass
from typing import Protocol

from mcp_baton.protocol.json import JsonObject
from mcp_baton.workflow.definition import Step, Workflow
from mcp_baton.workflow.host import Mismatch
from mcp_baton.workflow.pause import PauseReason, SchemaMismatch
from mcp_baton.workflow.resolve import Known, resolve_arguments, resolve_uri


class Schemas(Protocol):
    """The part of a `Host` that knows the tools' input schemas."""

    def mismatch(self, tool: str, arguments: JsonObject) -> Mismatch | None:
        """How the arguments fail to satisfy the tool's input schema."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A step that can run.

    Attributes:
        arguments: The call's arguments; `None` for a step without a tool.
    """

    arguments: JsonObject | None


def decide(step: Step, workflow: Workflow, known: Known, schemas: Schemas) -> Ready | PauseReason:
    """Whether a step can run now, and with what; or why it cannot."""
    arguments = resolve_arguments(step, workflow, known)
    if not isinstance(arguments, dict):
        return arguments
    for resource in step.resources:
        uri = None if step.read_after(resource) else resolve_uri(resource, step, workflow, known)
        if uri is not None and not isinstance(uri, str):
            return uri
    if step.tool is None:
        return Ready(None)
    mismatch = schemas.mismatch(step.tool, arguments)
    if mismatch:
        return SchemaMismatch(step.name, mismatch.missing, mismatch.invalid, step.tool)
    return Ready(arguments)
