"""How a tool's calls name their task by an argument, and what a model then reads of it in the result: what this adds
to the schemas that are published (docs/workflows.md, Going on). Pure."""

from collections.abc import Mapping
from typing import Any, Final

from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.workflow.names import TASK_ID

NEXT: Final = "baton_next"
"""The property of structured content that says what became of a call and which one comes next."""

_TASK: Final = {
    "description": "Id of the workflow task that this call continues. Leave it out if it continues none.",
    "type": "string",
}
_SAID: Final = "What became of this call in its workflow task, and which call comes next."

_EXTENSIBLE: Final = frozenset(
    {
        *("type", "properties", "required", "additionalProperties", "minProperties", "dependentRequired"),
        *("$schema", "$id", "$defs", "$comment", "definitions", "title", "description", "default", "examples"),
        *("deprecated", "readOnly", "writeOnly", "discriminator"),
    }
)
"""Keywords at the root of a schema beside which a property can be added without making anything invalid."""


def definition_with_handle(definition: JsonObject) -> JsonObject:
    """A tool's definition with the argument, and with what its results then say."""
    made = {**definition, "inputSchema": _with_property(definition["inputSchema"], TASK_ID, _TASK)}
    schema: Any = definition.get("outputSchema")
    if schema is not None and (name := declared_name(schema)) is not None:
        made["outputSchema"] = _with_property(schema, name, _said(schema))
    return made


def declared_name(schema: Mapping[str, Any]) -> str | None:
    """The name of the property that is added to an output schema; `None` where none can be."""
    if not schema.keys() <= _EXTENSIBLE:
        return None
    taken = schema.get("properties", {})
    return next((name for name in (NEXT, f"{NEXT}_") if name not in taken), None)


def free_name(structured: JsonObject, schema: Mapping[str, Any] | None) -> str | None:
    """The name of the property that can be added to structured content; `None` where none can be.

    Args:
        structured: The content.
        schema: The schema that is published for it; `None` where there is none.
    """
    if schema is None:
        names = [NEXT, f"{NEXT}_"]
    else:
        declared = declared_name(schema)
        if declared is None:
            return None
        names = [declared, f"{declared}_"] if _is_open(schema) else [declared]
    return next((name for name in names if name not in structured), None)


def _is_open(schema: Mapping[str, Any]) -> bool:
    """Whether an object may have properties of any name and kind."""
    return schema.get("additionalProperties", True) in (True, {})


def _said(schema: Mapping[str, Any]) -> dict[str, Json]:
    """A tool whose values have whatever names they like may have this one, and then it is no text."""
    if schema.get("additionalProperties", False) is False:
        return {"description": _SAID, "type": "string"}
    return {"description": _SAID}


def _with_property(schema: Any, name: str, added: Mapping[str, Json]) -> dict[str, Any]:
    return {**schema, "properties": {**schema.get("properties", {}), name: dict(added)}}
