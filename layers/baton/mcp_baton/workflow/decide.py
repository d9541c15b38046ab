"""What to do with a step, decided without doing it. Pure."""

from typing import Protocol

from mcp_baton.light_dataclasses import dataclass
from mcp_baton.protocol.json import JsonObject
from mcp_baton.workflow.definition import Step, Workflow
from mcp_baton.workflow.host import Mismatch, Prepared
from mcp_baton.workflow.pause import PauseReason, SchemaMismatch
from mcp_baton.workflow.resolve import Known, resolve_arguments, resolve_uri


class Schemas(Protocol):
    """The part of a `Host` that knows the tools' input schemas."""

    def prepare(self, tool: str, arguments: JsonObject) -> Prepared | Mismatch:
        """Validate the arguments against the tool's input schema."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A step that can run.

    Attributes:
        call: The call that is prepared; `None` for a step without a tool.
    """

    call: Prepared | None


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
    prepared = schemas.prepare(step.tool, arguments)
    if isinstance(prepared, Mismatch):
        return SchemaMismatch(step.name, prepared.missing, prepared.invalid, step.tool)
    return Ready(prepared)
