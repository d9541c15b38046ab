"""What a paused run lacks, as a form for the client's user (docs/workflows.md, Asking for what is missing). Pure."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.server.asking.forms import PRIMITIVES, inlined, is_choice_of_several
from mcp_baton.workflow.definition import Step, Workflow
from mcp_baton.workflow.pause import PauseReason, SchemaMismatch, UnresolvableParams
from mcp_baton.workflow.resolve import Known, resolve
from mcp_baton.workflow.run import EndedRun
from mcp_baton.workflow.secrets import mentions
from mcp_baton.workflow.sources import Found

FORMATS: Final = frozenset({"email", "uri", "date", "date-time"})
MEMBERS: Final[Mapping[str, frozenset[str]]] = {
    "string": frozenset({"enum", "minLength", "maxLength", "format"}),
    "number": frozenset({"minimum", "maximum"}),
    "integer": frozenset({"minimum", "maximum"}),
    "boolean": frozenset(),
    "array": frozenset({"items", "minItems", "maxItems"}),
}
"""What MCP's forms say of a field, by its type (MCP client/elicitation, Requested Schema)."""


class Missing(Struct, frozen=True):
    """What a step lacks.

    Attributes:
        step: The step's name.
        fields: The names of the missing arguments of its tool.
        message: What to tell the person.
        schema: The form.
    """

    step: str
    fields: tuple[str, ...]
    message: str
    schema: JsonObject

    def answers(self, content: JsonObject) -> dict[str, Json]:
        """The arguments in a person's answer: those that were asked for, and nothing else."""
        return {name: content[name] for name in self.fields if content.get(name) is not None}


def missing_in(run: EndedRun, input_schema: JsonObject) -> Missing | None:
    """What a person can be asked for, so that the run goes on; `None` where that is not all that it lacks.

    Args:
        run: The run, which has ended.
        input_schema: That of the tool of the step at which it stopped.
    """
    step = run.workflow.step(run.pause.step) if run.pause else None
    if step is None or run.pause is None:
        return None
    names = _lacking(run.pause, step, run.workflow, run.known)
    properties, definitions = input_schema.get("properties", {}), input_schema.get("$defs", {})
    if not names or not isinstance(properties, Mapping) or not isinstance(definitions, Mapping):
        return None
    fields: dict[str, Json] = {}
    for name in names:
        field = _field(properties.get(name), definitions)
        if field is None or mentions(step.arguments.get(name), run.workflow.secrets):
            return None
        fields[name] = field
    message = f"To {run.workflow.description.rstrip('.')}, step '{step.name}' needs what is not known yet."
    schema: JsonObject = {"type": "object", "properties": fields, "required": list(names)}
    return Missing(step.name, names, message, schema)


def _lacking(pause: PauseReason, step: Step, workflow: Workflow, known: Known) -> tuple[str, ...]:
    """The arguments that the step lacks; none where something else is wrong, too."""
    match pause:
        case SchemaMismatch(missing_fields=names, invalid_fields=()):
            return names
        case UnresolvableParams(missing_param=name) if name in step.arguments:
            # It may be the placeholder of a URI that lacks a value, which no argument gives.
            resolved = isinstance(resolve(step.arguments[name], workflow, known), Found)
            return () if resolved or name in known.answers.get(step.name, {}) else (name,)
        case _:
            return ()


def _field(schema: Any, definitions: Mapping[str, Any]) -> JsonObject | None:
    """A parameter as a form's field; `None` where no form can have it, or where it must not be typed into one."""
    if not isinstance(schema, Mapping):
        return None
    shown = inlined(dict(schema), definitions)
    kind = shown.get("type")
    if shown.get("writeOnly") or shown.get("format") == "password":
        return None  # MCP client/elicitation, Security Considerations: forms are no place for secrets
    if kind not in PRIMITIVES and not is_choice_of_several(shown):
        return None
    members = MEMBERS[str(kind)] | {"type", "title", "description"}
    made = {name: value for name, value in shown.items() if name in members}
    if made.get("format") not in FORMATS:
        made.pop("format", None)
    return made
