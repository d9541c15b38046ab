"""Input and output schemas from signatures, created at their first use.

Importing pydantic takes most of a cold start. So the module `plain` handles plain types (scalars, `Any`, `Literal`
strings, lists, maps, `T | None` and dataclasses of such), and pydantic handles all others.
"""

import typing
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Struct

from mcp_baton.exceptions import RegistrationError
from mcp_baton.protocol.json import Json, JsonObject, dumps
from mcp_baton.server.schema.nulls import MAX_ERRORS, validate
from mcp_baton.server.schema.plain import (
    NotPlain,
    PlainType,
    bind_given,
    plain_arguments_schema,
    plain_parameters,
    plain_type,
    plain_value_schema,
    to_json,
)
from mcp_baton.server.schema.signature import (
    NO_ANNOTATION,
    Parameter,
    Signature,
    first_line,
    is_field,
    parameter_error,
    return_error,
    type_without_schema,
)
from mcp_baton.workflow.host import MAX_FIELDS, InvalidField, Mismatch

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError


class InvalidArguments(Exception):
    """The arguments do not match the schema."""

    def __init__(self, mismatch: Mismatch) -> None:
        super().__init__(explain(mismatch))
        self.mismatch = mismatch


def explain(mismatch: Mismatch) -> str:
    missing = [f"{name}: required, but missing" for name in mismatch.missing]
    return "; ".join(missing + [f"{item.field}: {item.problem}" for item in mismatch.invalid])


class InputSchema:
    """The schema of a function's arguments. It rejects unknown arguments, because a typo should be an error."""

    def __init__(self, name: str, signature: Signature) -> None:
        self._name = name
        self._signature = signature
        self._required = signature.required

    @cached_property
    def json_schema(self) -> dict[str, Any]:
        parameters, plain = self._signature.parameters, self._plain
        if plain is not None and (plain_schema := plain_arguments_schema(parameters, plain)) is not None:
            return plain_schema
        schema = _untitled(self._adapter.json_schema(schema_generator=schema_generator()))
        properties = schema.get("properties", {})
        return schema | {"properties": {item.published_name: properties[item.published_name] for item in parameters}}

    def bind(self, arguments: Mapping[str, Json]) -> dict[str, Any]:
        """Convert the keyword arguments. Raises `InvalidArguments`, or the exception of an author's validator."""
        if (bound := self._bind_plain(arguments)) is not None:
            return bound
        from pydantic import ValidationError

        try:
            bound = validate(self._adapter, dict(arguments), lambda: self.json_schema)
        except ValidationError as error:
            raise InvalidArguments(mismatch_of(error)) from error
        return {parameter.name: getattr(bound, parameter.name) for parameter in self._signature.parameters}

    def problem_with(self, argument: str, value: Json) -> str | None:
        """Return why a value of one argument is invalid; `None` if it is valid."""
        from pydantic import ValidationError

        try:
            validate(self._adapter, {argument: value}, lambda: self.json_schema)
        except ValidationError as error:
            problems = (item for item in mismatch_of(error).invalid if item.field.partition(".")[0] == argument)
            return next((item.problem for item in problems), None)
        return None

    @property
    def is_plain(self) -> bool:
        """Whether calls can be checked without pydantic."""
        return self._plain is not None

    def canonical(self, arguments: JsonObject) -> JsonObject:
        """Return the arguments in one form, so that calls can be compared: converted to their types (`{"n": "5"}` for
        an `int` becomes `{"n": 5}`), and without those that equal their default. Arguments that do not match the schema
        are returned unchanged."""
        try:
            bound = self.bind(arguments)
            canonical_arguments: dict[str, Json] = {}
            for parameter in self._signature.parameters:
                name = parameter.published_name
                if parameter.name not in bound or name not in arguments:
                    continue
                if arguments[name] is None and bound[parameter.name] is not None:
                    continue  # it was left out
                value = to_json(bound[parameter.name])
                if not _is_default(parameter, value):
                    canonical_arguments[name] = value
        except Exception:  # noqa: BLE001 - a validator of the author may raise anything
            return arguments
        return canonical_arguments

    def _bind_plain(self, arguments: Mapping[str, Json]) -> dict[str, Any] | None:
        plain = self._plain
        if plain is None or not self._required <= arguments.keys() <= plain.keys():
            return None
        try:
            return bind_given(plain, self._required, arguments)
        except NotPlain:
            return None

    @cached_property
    def _plain(self) -> dict[str, PlainType] | None:
        return plain_parameters(self._signature.parameters)

    @cached_property
    def _adapter(self) -> "TypeAdapter[Any]":
        from pydantic import ConfigDict, Field, TypeAdapter
        from pydantic.dataclasses import dataclass

        members: dict[str, Any] = {"__annotations__": {}, "__module__": __name__}
        for parameter in self._signature.parameters:
            members["__annotations__"][parameter.name] = parameter.pydantic_type
            if is_field(parameter.default):
                members[parameter.name] = parameter.default
            elif parameter.default is not NO_ANNOTATION:
                members[parameter.name] = Field(default=parameter.default)
        arguments_type = type(f"{self._name}_arguments", (), members)
        config = ConfigDict(extra="forbid", arbitrary_types_allowed=False)
        return TypeAdapter(dataclass(arguments_type, config=config, kw_only=True))


class OutputSchema:
    """The schema of a function's value. MCP requires an object at the root, so other types are wrapped in `result`."""

    def __init__(self, name: str, returns: Any) -> None:
        self._name = name
        self._returns = returns

    @cached_property
    def wraps(self) -> bool:
        return self._returns is not dict and self.value_schema.get("type") != "object"

    @cached_property
    def json_schema(self) -> dict[str, Any]:
        if not self.wraps:
            return self.value_schema
        inner = dict(self.value_schema)
        definitions = inner.pop("$defs", None)
        schema = {"type": "object", "properties": {"result": inner}, "required": ["result"]}
        return schema | ({"$defs": definitions} if definitions else {})

    def value(self, returned: object) -> Json:
        """Convert a returned value to JSON. Raises `ValueError` if it has another type than declared, or is not
        JSON."""
        if self._plain is not None:
            try:
                return to_json(self._plain.dump(returned))
            except NotPlain:
                pass  # pydantic converts it, or explains the error
        from pydantic import ValidationError

        try:
            valid_value = self._adapter.validate_python(returned)
        except ValidationError as error:
            raise ValueError(explain(mismatch_of(error))) from error
        return to_json(self._adapter.dump_python(valid_value, mode="json", by_alias=True))

    @property
    def is_plain(self) -> bool:
        return self._plain_schema is not None

    @cached_property
    def _plain_schema(self) -> dict[str, Any] | None:
        return None if self._plain is None else plain_value_schema(self._plain)

    @cached_property
    def value_schema(self) -> dict[str, Any]:
        if self._plain_schema is not None:
            return self._plain_schema
        schema = self._adapter.json_schema(mode="serialization", schema_generator=schema_generator())
        if "$ref" in schema:  # the type is recursive
            schema = {**schema["$defs"][schema["$ref"].removeprefix("#/$defs/")], "$defs": schema["$defs"]}
        return _untitled(schema)

    @cached_property
    def _plain(self) -> PlainType | None:
        return plain_type(self._returns)

    @cached_property
    def _adapter(self) -> "TypeAdapter[Any]":
        from pydantic import TypeAdapter

        return TypeAdapter(self._returns)


def mismatch_of(error: "ValidationError") -> Mismatch:
    """Convert pydantic's error to a mismatch, with the first `MAX_FIELDS` invalid fields."""
    if error.error_count() > MAX_ERRORS:
        return Mismatch(invalid=(InvalidField("value", f"{error.error_count()} fields are missing or invalid"),))
    missing: list[str] = []
    invalid: list[InvalidField] = []
    for item in error.errors(include_url=False, include_context=False, include_input=False):
        field = ".".join(str(part) for part in item["loc"]) or "value"
        if item["type"] == "missing" and len(item["loc"]) == 1:
            missing.append(field)
        else:
            invalid.append(InvalidField(field, item["msg"]))
    return Mismatch(tuple(missing), tuple(invalid[:MAX_FIELDS]))


def _untitled(schema: dict[str, Any]) -> dict[str, Any]:
    """Remove the titles that repeat the names of types."""
    result = {key: value for key, value in schema.items() if key != "title"}
    if "$defs" in result:
        definitions = result["$defs"].items()
        result["$defs"] = {
            name: {key: value for key, value in definition.items() if key != "title" or value != name}
            for name, definition in definitions
        }
    return result


def schema_generator() -> Any:
    """Return a schema generator of pydantic that leaves out the titles of fields."""
    from pydantic.json_schema import GenerateJsonSchema

    class Untitled(GenerateJsonSchema):
        """Leaves out titles that only repeat names, because they cost tokens."""

        def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - pydantic's signature
            return False

    return Untitled


type Purpose = Literal["validation", "serialization", "conversion"]
"""The use of a type: for input, for output, or for conversion, which needs no JSON Schema."""


class UnsupportedType(Struct, frozen=True):
    """A type that has no schema."""

    part: object
    cause: str | None


def tool_error(subject: str, signature: Signature, error: Exception, *, has_output: bool) -> RegistrationError:
    """Return the error for a tool without a schema. It names the parameter or the return type."""
    invalid_parameter = parameter_error_in(subject, signature, "validation")
    if invalid_parameter is not None:
        return invalid_parameter
    unsupported = unsupported_type(signature.returns, "serialization") if has_output else None
    if unsupported is not None:
        return return_error(subject, unsupported.part, unsupported.cause)
    return RegistrationError(f"{subject}: its schema cannot be created: {first_line(error)}; use simpler types")


def parameter_error_in(subject: str, signature: Signature, purpose: Purpose) -> RegistrationError | None:
    for parameter in signature.parameters:
        default = parameter.default
        annotation: Any = Annotated[parameter.annotation, default] if is_field(default) else parameter.annotation
        unsupported = unsupported_type(annotation, purpose)
        if unsupported is not None:
            return parameter_error(subject, parameter.name, unsupported.part, unsupported.cause)
    return None


def unsupported_type(annotation: Any, purpose: Purpose) -> UnsupportedType | None:
    """Return why a type has no schema; `None` if it has one."""
    from pydantic import TypeAdapter

    try:
        adapter = TypeAdapter(annotation)
        if purpose != "conversion":
            adapter.json_schema(mode=purpose)
    except Exception as error:  # noqa: BLE001 - code of the author's type may raise anything
        part = type_without_schema(annotation) or _unsupported_field(annotation)
        return UnsupportedType(annotation, first_line(error)) if part is None else UnsupportedType(part, None)
    return None


def _unsupported_field(annotation: Any) -> type | None:
    import dataclasses

    if not isinstance(annotation, type) or not dataclasses.is_dataclass(annotation):
        return None
    try:
        hints = typing.get_type_hints(annotation)
    except (NameError, TypeError):
        return None
    return next((part for kind in hints.values() if (part := type_without_schema(kind)) is not None), None)


def _is_default(parameter: Parameter, value: Json) -> bool:
    default = parameter.default
    if is_field(default):
        default = getattr(default, "default", NO_ANNOTATION)
    if default is NO_ANNOTATION:
        return False
    try:
        return dumps(to_json(default)) == dumps(value)
    except ValueError:
        return False
