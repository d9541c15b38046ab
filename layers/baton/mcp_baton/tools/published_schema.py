"""Input and output schemas in the form that agent frameworks understand (docs/frameworks.md, Schemas). Pure.

Frameworks convert input schemas for the API of a model. Many of them fail at boolean `additionalProperties`, at
references and at discriminators, and strict modes require each property, so an optional one must accept null.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, cast

from mcp_baton.protocol.json import Json, JsonObject, dumps, json_size
from mcp_baton.tools.arguments import TASK_ID
from mcp_baton.tools.param_headers import PARAM_HEADER_KEYWORD

MAX_INLINED_SCHEMA_BYTES: Final = 20_000
"""The longest schema without references, bytes of JSON."""

MAX_SCHEMA_NODES: Final = MAX_INLINED_SCHEMA_BYTES // len('{"a":{}}')
"""A schema with more nodes is longer than `MAX_INLINED_SCHEMA_BYTES`. Inlining can make a schema exponentially
longer."""

ANY_JSON: Final = {"description": "Any JSON."}
"""Says the same as `true`. Some frameworks take an object with an empty schema here for a text."""

_REFERENCE: Final = "#/$defs/"
_BY_NAME: Final = frozenset({"properties", "patternProperties", "$defs"})
_LISTS: Final = frozenset({"anyOf", "allOf", "prefixItems"})
_SINGLE: Final = frozenset({"items", "additionalProperties", "propertyNames", "contains"})
_ABOUT: Final = frozenset({"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"})
"""Keywords that describe a value and do not restrict it."""
type Schema = dict[str, Any]


class _TooLarge(Exception):
    """The schema would be too large without references."""


def published(schema: JsonObject) -> Schema:
    """Return an input schema without boolean `additionalProperties` and discriminators, and with null as a value of
    each optional property. References are replaced, unless their type is recursive or the schema would be too large."""
    root = cast("Schema", schema)
    try:
        result = _Writer(root.get("$defs", {}), inline=True).root(root)
        if json_size(result) <= MAX_INLINED_SCHEMA_BYTES:
            return result
    except _TooLarge:
        pass
    return _Writer(root.get("$defs", {}), inline=False).root(root)


def with_null_for_numbers(node: Any) -> Any:
    """Return an output schema that accepts null for each number, because NaN and the infinities become null."""
    if isinstance(node, list):
        return [with_null_for_numbers(part) for part in node]
    if not isinstance(node, dict):
        return node
    result = {key: with_null_for_numbers(value) for key, value in node.items()}
    return {**result, "type": ["number", "null"]} if node.get("type") == "number" else result


def optional_parameter(schema: Schema) -> Schema:
    """Return the schema of a parameter that may be null or left out.

    Semantic Kernel loads no tool of a server if a parameter has several types, and smolagents takes each parameter
    without `type` for a text. So only texts, and what null means something else for than "left out", are published
    with null. A model in a strict mode writes the default, an object without members or the value of its first call
    for the others, which comes to the same.
    """
    restriction = {key: value for key, value in schema.items() if key not in _ABOUT}
    if not restriction:
        return {**optional(schema), "nullable": True}
    kind = restriction.get("type")
    if isinstance(kind, str) and kind not in ("string", "null"):
        return {**schema, "nullable": True} if f'"{PARAM_HEADER_KEYWORD}"' not in dumps(restriction) else schema
    return {key: value for key, value in optional(schema).items() if key != "type" or kind == value}


def optional(schema: Schema) -> Schema:
    """Return the schema of a member that may be null or left out.

    The alternatives are needed by frameworks that read only one type, and `type` and `nullable` by those that read no
    alternatives. The description is repeated for frameworks that keep only the alternative.
    """
    about = {key: value for key, value in schema.items() if key in _ABOUT}
    rest = {key: value for key, value in schema.items() if key not in _ABOUT}
    if f'"{PARAM_HEADER_KEYWORD}"' in dumps(rest):
        return schema  # clients refuse a tool if a parameter in a header may have several types
    about.setdefault("default", None)
    if not rest:
        return about
    options = _options(rest)
    if len(options) == 1 and "description" in about:
        options = [{**options[0], "description": about["description"]}]
    types = [kind for option in options for kind in _types(option)]
    is_typed = all("type" in option for option in options)
    return {
        **({"type": [*dict.fromkeys(types), "null"]} if is_typed else {}),
        "anyOf": [*options, {"type": "null"}],
        **({"nullable": True} if is_typed else {}),
        **about,
    }


def _with_typed_texts(schema: Schema) -> Schema:
    """Return a choice of texts as `enum` with a type, without null among the values."""
    values = [schema["const"]] if "const" in schema else schema.get("enum", ())
    texts = [value for value in values if isinstance(value, str)]
    if not texts or any(value not in texts for value in values if value is not None):
        return schema
    rest = {key: value for key, value in schema.items() if key not in ("const", "enum", "type")}
    choice: Schema = {"enum": texts, "type": "string"}
    return rest | ({"anyOf": [choice, {"type": "null"}]} if None in values else choice)


def _options(schema: Schema) -> list[Schema]:
    """Return the alternatives of a schema, without null."""
    options = schema["anyOf"] if schema.keys() == {"anyOf"} else [schema]
    return [option for option in options if option.get("type") != "null"]


def _types(option: Schema) -> list[str]:
    kind = option.get("type", [])
    return [kind] if isinstance(kind, str) else [name for name in kind if name != "null"]


class _Writer:
    def __init__(self, definitions: Mapping[str, Schema], *, inline: bool) -> None:
        self._definitions = definitions
        self._kept = {name for name in definitions if not inline or self._is_recursive(name)}
        self._nodes = 0
        self._inlines = inline

    def root(self, schema: Schema) -> Schema:
        result = self._of({key: value for key, value in schema.items() if key != "$defs"}, optional_parameter)
        definitions = {name: self._of(self._definitions[name]) for name in sorted(self._kept)}
        return {"$defs": definitions, **result} if definitions else result

    def _is_recursive(self, name: str) -> bool:
        visited: set[str] = set()
        names = [name]
        while names:
            for reference in _references(self._definitions[names.pop()]):
                if reference == name:
                    return True
                if reference in self._definitions and reference not in visited:
                    visited.add(reference)
                    names.append(reference)
        return False

    def _of(self, schema: Any, make_optional: Callable[[Schema], Schema] = optional) -> Any:
        if not isinstance(schema, Mapping):
            return schema
        self._nodes += 1
        if self._inlines and self._nodes > MAX_SCHEMA_NODES:
            raise _TooLarge
        name = str(schema.get("$ref", "")).removeprefix(_REFERENCE)
        if name in self._definitions and name not in self._kept:
            schema = {**self._definitions[name], **{key: value for key, value in schema.items() if key != "$ref"}}
            return self._of(schema, make_optional)
        if isinstance(discriminator := schema.get("discriminator"), Mapping):
            schema = self._with_tag(schema, discriminator.get("propertyName"))
        result: Schema = {}
        for key, value in schema.items():
            if key in ("discriminator", "additionalProperties") and (key == "discriminator" or value is False):
                continue
            result["anyOf" if key == "oneOf" else key] = self._member(key, value)
        result = _with_typed_texts(result)
        required = schema.get("required", ())
        if "properties" in result:
            result["properties"] = {
                key: value if key in required or not isinstance(value, dict) else make_optional(value)
                for key, value in result["properties"].items()
            }
        return result

    def _with_tag(self, schema: Mapping[str, Any], tag: Any) -> Schema:
        """Require the discriminator of each alternative: pydantic uses no default there."""
        result: Schema = dict(schema)
        for key in ("oneOf", "anyOf"):
            options = []
            for option in result.get(key, ()):
                name = str(option.get("$ref", "")).removeprefix(_REFERENCE)
                target = option if name in self._kept else self._definitions.get(name, option)
                options.append(
                    {**target, "required": [tag, *target.get("required", ())]} if target.get("properties") else option
                )
            if options:
                result[key] = options
        return result

    def _member(self, key: str, value: Any) -> Any:
        if key == "additionalProperties" and value in (True, {}):
            return dict(ANY_JSON)
        if key in _BY_NAME and isinstance(value, Mapping):
            return {name: self._of(part) for name, part in value.items()}
        if (key in _LISTS or key == "oneOf") and isinstance(value, list):
            return [self._of(part) for part in value]
        return self._of(value) if key in _SINGLE else value


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, Mapping):
        if isinstance(reference := node.get("$ref"), str):
            yield reference.removeprefix(_REFERENCE)
        for value in node.values():
            yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)


# The arguments and properties that Baton adds to a tool's schemas

NEXT: Final = "baton_next"
"""The property of structured content with the outcome of a call and the next call."""

_TASK_ID_SCHEMA: Final = optional_parameter(
    {
        "description": "The task_id that a workflow gives for this call, as it is. Leave it out if none is given.",
        "type": "string",
    }
)
_NEXT_DESCRIPTION: Final = "The outcome of this call in its workflow task, and the next call."

_EXTENSIBLE: Final = frozenset(
    {
        *("type", "properties", "required", "additionalProperties", "minProperties", "dependentRequired"),
        *("$schema", "$id", "$defs", "$comment", "definitions", "title", "description", "default", "examples"),
        *("deprecated", "readOnly", "writeOnly", "discriminator"),
    }
)
"""Keywords at the root of a schema that allow another property."""


def definition_with_task_id(definition: JsonObject) -> JsonObject:
    """Add the argument `task_id` to a tool's definition, and the property that its results then have."""
    result = {**definition, "inputSchema": _with_property(definition["inputSchema"], TASK_ID, _TASK_ID_SCHEMA)}
    schema: Any = definition.get("outputSchema")
    if schema is not None and (name := declared_name(schema)) is not None:
        result["outputSchema"] = _with_output(schema, name, _next_property(schema))
    return result


APPROVAL: Final = "approval"
"""The property of structured content that says which approval a call needs."""

_APPROVAL_SCHEMA: Final = {"description": "The approval that this call needs before it can run.", "type": "object"}


def definition_with_approval(definition: JsonObject) -> JsonObject:
    """Add a property to a tool's output schema, with which a result says which approval the call needs."""
    schema: Any = definition.get("outputSchema")
    if schema is None or not takes_approval(schema):
        return definition
    extended_schema = _with_output(schema, APPROVAL, _APPROVAL_SCHEMA)
    required = extended_schema.pop("required", [])
    if required:
        extended_schema["anyOf"] = [{"required": required}, {"required": [APPROVAL]}]
    return {**definition, "outputSchema": extended_schema}


def takes_approval(schema: Mapping[str, Any]) -> bool:
    """Whether the property can be added to an output schema."""
    return schema.keys() <= _EXTENSIBLE and APPROVAL not in schema.get("properties", {})


def declared_name(schema: Mapping[str, Any]) -> str | None:
    """Return the name of the property that is added to an output schema; `None` if none can be added."""
    if not schema.keys() <= _EXTENSIBLE:
        return None
    properties = schema.get("properties", {})
    return next((name for name in (NEXT, f"{NEXT}_") if name not in properties), None)


def free_name(structured_content: JsonObject, schema: Mapping[str, Any] | None) -> str | None:
    """Return the name of the property that can be added to structured content; `None` if none can be added."""
    if schema is None:
        names = [NEXT, f"{NEXT}_"]
    else:
        property_name = declared_name(schema)
        if property_name is None:
            return None
        is_open = schema.get("additionalProperties", True) in (True, {})
        names = [property_name, f"{property_name}_"] if is_open else [property_name]
    return next((name for name in names if name not in structured_content), None)


def _next_property(schema: Mapping[str, Any]) -> dict[str, Json]:
    """Return the schema of the property. It has no type if the tool's own values may have a property of that name."""
    if schema.get("additionalProperties", False) is False or _is_map(schema):
        return {"description": _NEXT_DESCRIPTION, "type": "string"}
    return {"description": _NEXT_DESCRIPTION}


def _is_map(schema: Mapping[str, Any]) -> bool:
    values = schema.get("additionalProperties")
    return isinstance(values, Mapping) and bool(values) and not schema.get("properties")


def _with_output(schema: Any, name: str, added: Mapping[str, Json]) -> dict[str, Any]:
    """Add a property to an output schema. A map stays one, with another type of values: clients that make types of
    schemas, such as FastMCP's, would lose its entries beside a property."""
    if not _is_map(schema):
        return _with_property(schema, name, added)
    values = {"anyOf": [schema["additionalProperties"], {**added, "description": f"{name}: {added['description']}"}]}
    return {**schema, "additionalProperties": values}


def _with_property(schema: Any, name: str, added: Mapping[str, Json]) -> dict[str, Any]:
    return {**schema, "properties": {**schema.get("properties", {}), name: dict(added)}}
