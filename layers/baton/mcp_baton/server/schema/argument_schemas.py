"""The JSON Schemas of a workflow's arguments, for the tool that it also is; by hand where their types are plain."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mcp_baton.server.schema.plain import plain_type
from mcp_baton.server.schema.plain_types import Definitions, NotPlain
from mcp_baton.server.schema.prompt_arguments import convert
from mcp_baton.server.schema.schema import schema_generator
from mcp_baton.workflow.definition import Argument

if TYPE_CHECKING:
    from pydantic.json_schema import JsonSchemaMode

type Schemas = dict[str, dict[str, Any]]


def argument_schemas(arguments: Sequence[Argument]) -> tuple[Schemas, Schemas]:
    """Each argument's schema, by name; and the definitions that they refer to."""
    by_hand = _by_hand(arguments)
    return _through_pydantic(arguments) if by_hand is None else by_hand


def takes_null(argument: Argument) -> bool:
    """Whether null is a value of an argument's type."""
    plain = plain_type(argument.type)
    try:
        if plain is not None:
            return plain.bind(None) is None
        convert(None, argument.type)
    except NotPlain:
        return False
    except Exception:  # noqa: BLE001 - a validator of the author's may raise anything when it is given null
        return False
    return True


def _by_hand(arguments: Sequence[Argument]) -> tuple[Schemas, Schemas] | None:
    definitions = Definitions()
    made: Schemas = {}
    for argument in arguments:
        plain = plain_type(argument.type)
        if plain is None:
            return None
        try:
            made[argument.name] = plain.schema(definitions)
        except NotPlain:
            return None
    return made, definitions.schemas


def _through_pydantic(arguments: Sequence[Argument]) -> tuple[Schemas, Schemas]:
    """A type that has no JSON Schema may be anything, as far as the schema goes: `convert` says what is wrong."""
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError

    adapters: list[tuple[str, JsonSchemaMode, TypeAdapter[Any]]] = []
    for argument in arguments:
        try:
            adapter = TypeAdapter(argument.type)
            adapter.json_schema(mode="validation")
        except PydanticUserError:
            continue
        adapters.append((argument.name, "validation", adapter))
    made, root = TypeAdapter.json_schemas(adapters, schema_generator=schema_generator())
    schemas = {name: _untitled(schema) for (name, _), schema in made.items()}
    definitions = {name: _untitled(schema) for name, schema in root.get("$defs", {}).items()}
    return {argument.name: schemas.get(argument.name, {}) for argument in arguments}, definitions


def _untitled(schema: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key != "title"}
