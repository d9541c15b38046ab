"""Input and output schemas from signatures, created at their first use.

Importing pydantic takes most of a cold start. So the module `plain` handles plain types (scalars, `Any`, `Literal`
strings, lists, maps, `T | None` and dataclasses of such), and pydantic handles all others.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

from mcp_baton.protocol.json import Json, JsonObject, to_json
from mcp_baton.tasks.keys import canonical_text
from mcp_baton.tools.outcomes import MAX_INVALID_FIELDS, InvalidField, Mismatch
from mcp_baton.tools.schema.defaults import is_changeable
from mcp_baton.tools.schema.nulls import MAX_PYDANTIC_ERRORS, core_nodes, validate
from mcp_baton.tools.schema.plain import (
    NotPlain,
    PlainType,
    bind_given,
    plain_arguments_schema,
    plain_parameters,
    plain_type,
    plain_value_schema,
)
from mcp_baton.tools.schema.sent_values import (
    NO_STATIC_DEFAULT,
    NOT_FINITE,
    canonical_value,
    infinite_numbers,
    inner_values,
    is_finite,
    json_of,
    sorted_sets,
)
from mcp_baton.tools.schema.signature import (
    NO_ANNOTATION,
    Signature,
    by_first_name,
)

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError


class InvalidArguments(ValueError):
    """Arguments, or the value of one, do not match their schema."""

    def __init__(self, mismatch: Mismatch) -> None:
        super().__init__(mismatch.text)
        self.mismatch = mismatch


class InputSchema:
    """The schema of a function's arguments. It rejects unknown arguments, because a typo should be an error."""

    def __init__(self, name: str, signature: Signature) -> None:
        self._name = name
        self._signature = signature
        self._required = signature.required
        self._several_names = [item.accepted_names for item in signature.parameters if item.accepted_names[1:]]
        self._defaults = {item.name: item.default_value for item in signature.parameters if not item.required}

    @cached_property
    def json_schema(self) -> dict[str, Any]:
        parameters, plain = self._signature.parameters, self._plain
        if plain is not None and (plain_schema := plain_arguments_schema(parameters, plain)) is not None:
            return plain_schema
        schema = _untitled(self._adapter.json_schema(schema_generator=schema_generator()))
        properties = schema.get("properties", {})
        return schema | {"properties": {item.published_name: properties[item.published_name] for item in parameters}}

    def bind(self, arguments: Mapping[str, Json]) -> dict[str, Any]:
        """Return the keyword arguments converted, with all defaults. Raises `InvalidArguments`, or the exception of an
        author's validator."""
        arguments = self.named(arguments)
        bound = self._bind_plain(arguments)
        if bound is None:
            bound = self._bind_with_pydantic(arguments)
        for name, default in self._defaults.items():
            if bound.get(name, default) is default:
                bound[name] = deepcopy(default) if is_changeable(default) else default
        return bound

    def _bind_with_pydantic(self, arguments: Mapping[str, Json]) -> dict[str, Any]:
        from pydantic import ValidationError

        try:
            converted = validate(self._adapter, dict(arguments), lambda: self.json_schema)
        except ValidationError as error:
            raise InvalidArguments(mismatch_of(error)) from error
        bound = {parameter.name: getattr(converted, parameter.name) for parameter in self._signature.parameters}
        if fields := infinite_numbers(arguments, converted, lambda: self.json_schema):
            raise InvalidArguments(not_finite(fields))
        return bound

    def schema_of(self, argument: str) -> JsonObject:
        """Return the schema of one argument, with the schemas to which it refers."""
        schema = self.json_schema
        return {**schema["properties"][argument], "$defs": schema.get("$defs", {})}

    def named(self, arguments: JsonObject) -> JsonObject:
        """Return the arguments by their published names."""
        return by_first_name(arguments, self._several_names)

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
        """Return the arguments in one form, so that calls can be compared: as `complete` does, but without those that
        equal their default. Arguments that do not match the schema are returned unchanged."""
        arguments = self.named(arguments)
        try:
            complete_arguments = self.complete(arguments, self.bind(arguments))
        except Exception:  # noqa: BLE001 - a validator of the author may raise anything
            return arguments
        defaults = {parameter.published_name: parameter.static_default for parameter in self._signature.parameters}
        return {
            name: value
            for name, value in complete_arguments.items()
            if name in arguments and not _is_equal_default(defaults.get(name, NO_STATIC_DEFAULT), value)
        }

    def complete(self, arguments: JsonObject, bound: Mapping[str, Any]) -> dict[str, Json]:
        """Return the arguments as they were sent, in the order of the schema, with static defaults, and with numbers
        and booleans instead of their texts (`{"n": "5"}` for an `int` becomes `{"n": 5}`).

        Args:
            bound: What `bind` has returned for them.
        """
        arguments = self.named(arguments)
        complete_arguments: dict[str, Json] = {}
        for parameter in self._signature.parameters:
            name, converted = parameter.published_name, bound.get(parameter.name)
            value = arguments.get(name)
            # A null that was left out, or that became another value, stands for an omitted one.
            is_omitted = value is None and (converted is not None or parameter.name not in bound)
            if name in arguments and not is_omitted:
                complete_arguments[name] = canonical_value(value, converted)
            elif parameter.static_default is not NO_STATIC_DEFAULT:
                complete_arguments[name] = parameter.static_default
        return {**complete_arguments, **{name: arguments[name] for name in arguments.keys() - self._signature.names}}

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
            annotation = parameter.pydantic_type
            if parameter.has_field:  # it may have several aliases, or a path
                annotation = Annotated[annotation, Field(validation_alias=parameter.published_name)]
            members["__annotations__"][parameter.name] = annotation
            if parameter.default is not NO_ANNOTATION:
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
                return json_of(self._plain.dump(returned))
            except NotPlain:
                pass  # pydantic converts it, or explains the error
        from pydantic import ValidationError

        try:
            valid_value = self._adapter.validate_python(returned)
        except ValidationError as error:
            raise ValueError(mismatch_of(error).text) from error
        try:
            dumped = self._adapter.dump_python(valid_value, mode="json", by_alias=self._by_alias)
        except UnicodeEncodeError:  # a key has a lone surrogate
            dumped = self._adapter.dump_python(valid_value, by_alias=self._by_alias)
        result = to_json(dumped)
        return sorted_sets(result, valid_value) if self._may_have_sets else result

    @cached_property
    def _may_have_sets(self) -> bool:
        return any(
            node.get("type") in ("any", "frozenset", "set") or node.get("extra_fields_behavior") == "allow"
            for node in core_nodes(self._adapter.core_schema)
        )

    @cached_property
    def _by_alias(self) -> bool | None:
        """`None` if a model decides about its aliases itself, by `serialize_by_alias`."""
        nodes = core_nodes(self._adapter.core_schema)
        return None if any(isinstance(node.get("serialize_by_alias"), bool) for node in nodes) else True

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
        generator = schema_generator(own_aliases=self._by_alias is None)
        schema = self._adapter.json_schema(mode="serialization", schema_generator=generator)
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


MAX_FIELD_CHARS = 1_000
"""Characters that are shown of the name of an invalid field, and of its problem: both may quote what was sent."""


def mismatch_of(error: "ValidationError") -> Mismatch:
    """Convert pydantic's error to a mismatch, with the first `MAX_INVALID_FIELDS` invalid fields."""
    if error.error_count() > MAX_PYDANTIC_ERRORS:
        return Mismatch(invalid=(InvalidField("value", f"{error.error_count()} fields are missing or invalid"),))
    missing: list[str] = []
    invalid: list[InvalidField] = []
    for item in error.errors(include_url=False, include_context=False):
        field = ".".join(str(part) for part in item["loc"]) or "value"
        if item["type"] == "missing" and len(item["loc"]) == 1:
            missing.append(field)
        else:
            problem = f"{item['msg'][:MAX_FIELD_CHARS]}{_hint(item['type'], item.get('input'))}"
            invalid.append(InvalidField(field[:MAX_FIELD_CHARS], problem))
    return Mismatch(tuple(missing), tuple(invalid[:MAX_INVALID_FIELDS]))


_LISTS = frozenset({"list_type", "tuple_type", "set_type", "frozen_set_type", "iterable_type"})
_OBJECTS = frozenset({"dict_type", "mapping_type", "model_type", "model_attributes_type", "dataclass_type"})


def _hint(kind: str, sent: object) -> str:
    """Return the hint for a list or an object that was sent as JSON text, as some models do."""
    if not isinstance(sent, str) or kind not in _LISTS | _OBJECTS:
        return ""
    name, starts = ("a list", "[") if kind in _LISTS else ("an object", "{")
    if not sent.strip().startswith(starts):
        return ""
    return f". It is JSON text: send {name} itself, without quotation marks around it"


def not_finite(fields: Sequence[str]) -> Mismatch:
    """Return the mismatch of fields with numbers that are not finite."""
    return Mismatch(
        invalid=tuple(InvalidField(field[:MAX_FIELD_CHARS], NOT_FINITE) for field in fields[:MAX_INVALID_FIELDS])
    )


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


def schema_generator(*, own_aliases: bool = False) -> Any:
    """Return a schema generator of pydantic that leaves out the titles of fields.

    With `own_aliases`, each model decides about its aliases, as in the results."""
    from pydantic.json_schema import GenerateJsonSchema

    class Untitled(GenerateJsonSchema):
        """Leaves out titles that only repeat names, because they cost tokens."""

        def _get_alias_name(self, field: Any, name: str) -> str:
            if own_aliases and not self._config.serialize_by_alias:
                return name
            return super()._get_alias_name(field, name)

        def tuple_schema(self, schema: Any) -> dict[str, Any]:
            """Adds `items`, which some hosts and model APIs need in every array."""
            result: dict[str, Any] = super().tuple_schema(schema)
            if result.get("items", True) is True:
                kinds = [self.generate_inner(item) for item in schema["items_schema"]]
                different = [kind for number, kind in enumerate(kinds) if kind not in kinds[:number]]
                result["items"] = different[0] if len(different) == 1 else {"anyOf": different} if different else {}
            return result

        def default_schema(self, schema: Any) -> dict[str, Any]:
            """Leaves out a default such as `math.inf`, which JSON cannot represent, and one with a secret in it: models
            would send its mask."""
            if any(hasattr(part, "get_secret_value") for part in inner_values(schema.get("default"))):
                return {**self.generate_inner(schema["schema"]), "default": None}
            result: dict[str, Any] = super().default_schema(schema)
            return result if is_finite(result.get("default")) else {**result, "default": None}

        def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - pydantic's signature
            return False

    return Untitled


def _is_equal_default(default: Any, value: Json) -> bool:
    return default is not NO_STATIC_DEFAULT and canonical_text(default) == canonical_text(value)
