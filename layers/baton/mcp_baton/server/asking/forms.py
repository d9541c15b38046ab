"""Forms that a person fills in: flat, as MCP wants them, and what the answers become (MCP client/elicitation)."""

from collections.abc import Mapping
from typing import Any, cast

from mcp_baton.exceptions import ToolError
from mcp_baton.protocol.json import Json, JsonObject

type Schema = JsonObject | Any
"""A JSON Schema of flat primitive fields, or a type: a model, a dataclass, or a plain one such as `int`, an `Enum` or a
`Literal`; `None` for a form without fields."""

VALUE = "value"
"""The one field of a plain type's form."""

PRIMITIVES = frozenset({"string", "number", "integer", "boolean"})
NO_FIELDS: JsonObject = {"type": "object", "properties": {}}


class Form:
    """What is asked for.

    Args:
        schema: The author's schema or type.

    Raises:
        ValueError: it has a field that MCP's forms do not have; names it.
    """

    def __init__(self, schema: Schema) -> None:
        self._type: Any = None
        self._wraps = False
        if schema is None:
            self.schema = NO_FIELDS
        elif isinstance(schema, Mapping):
            self.schema = cast("JsonObject", schema)
            _check_fields(self.schema, "the schema")
        else:
            self._type = schema
            self.schema = self._described(schema)

    def read(self, content: JsonObject) -> object:
        """The content as the type that was asked for; `None` where none was.

        Raises:
            ToolError: it does not fit.
        """
        if self._type is None:
            return None
        from pydantic import TypeAdapter, ValidationError

        if self._wraps and VALUE not in content:
            raise ToolError(f"The client's answer does not fit the form: it has no {VALUE!r}.")
        given: object = content[VALUE] if self._wraps else dict(content)
        try:
            return TypeAdapter(self._type).validate_python(given)
        except ValidationError as error:
            wrong = error.error_count()
            raise ToolError(f"The client's answer does not fit the form: {wrong} fields are wrong.") from error

    def _described(self, schema: Any) -> JsonObject:
        from pydantic import TypeAdapter

        name = getattr(schema, "__name__", repr(schema))
        made = TypeAdapter(schema).json_schema()
        definitions = made.pop("$defs", {})
        made = inlined(made, definitions)
        self._wraps = "properties" not in made
        fields = {VALUE: made} if self._wraps else made["properties"]
        properties = {field: inlined(shown, definitions) for field, shown in fields.items()}
        required = [VALUE] if self._wraps else made.get("required", [])
        form: JsonObject = {"type": "object", "properties": properties, "required": required}
        _check_fields(form, name)
        return form


def inlined(shown: dict[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """A type's schema with what it refers to in its place, and without the null of an optional one."""
    options = [option for option in shown.get("anyOf", ()) if option.get("type") != "null"]
    if len(options) == 1:
        shown = {name: value for name, value in shown.items() if name != "anyOf"} | options[0]
        if shown.get("default", ...) is None:
            del shown["default"]
    reference = str(shown.get("$ref", "")).removeprefix("#/$defs/")
    if reference in definitions:
        shown = {**definitions[reference], **{name: value for name, value in shown.items() if name != "$ref"}}
    if "const" in shown:
        shown = {**shown, "enum": [shown["const"]]}
        del shown["const"]
    return shown


def _check_fields(form: JsonObject, name: str) -> None:
    properties = form.get("properties")
    if form.get("type") != "object" or not isinstance(properties, Mapping):
        raise ValueError(f"{name}: a form is an object with flat fields; give it `type: object` and `properties`")
    for field, shown in properties.items():
        if not isinstance(shown, Mapping) or not (_is_flat(shown) or is_choice_of_several(shown)):
            raise ValueError(
                f"{name}: the field {field!r} is not one that a form has; forms are flat: text, numbers, booleans and "
                "choices"
            )


def _is_flat(shown: JsonObject) -> bool:
    return isinstance(shown.get("type"), str) and shown["type"] in PRIMITIVES


def is_choice_of_several(shown: Mapping[str, Json]) -> bool:
    """A list of strings out of some that are named (MCP 2025-11-25, multi-select enums)."""
    items = shown.get("items")
    return shown.get("type") == "array" and isinstance(items, Mapping) and ("enum" in items or "anyOf" in items)
