"""Arguments as their function takes them, as JSON, so that calls can be compared (docs/workflows.md, Going on)."""

from mcp_baton.protocol.json import Json, JsonObject, dumps
from mcp_baton.server.schema.functions import NO_ANNOTATION
from mcp_baton.server.schema.plain_types import to_json
from mcp_baton.server.schema.schema import InputSchema
from mcp_baton.server.schema.signature import Parameter, Signature, is_field


def canonical_arguments(schema: InputSchema, signature: Signature, arguments: JsonObject) -> JsonObject:
    """Arguments converted to their types, without those that equal their parameter's default: `{"n": "5"}` for an `int`
    is `{"n": 5}`. Those that do not fit the schema stay as they are.

    Args:
        schema: The function's input schema.
        signature: Its signature.
        arguments: As a client sends them.
    """
    try:
        bound = schema.bind(arguments)
        made: dict[str, Json] = {}
        for parameter in signature.parameters:
            published = parameter.published
            if parameter.name not in bound or published not in arguments:
                continue
            value = to_json(bound[parameter.name])
            if not _is_default(parameter, value):
                made[published] = value
    except Exception:  # noqa: BLE001 - a validator of the author's may raise anything, and then nothing is converted
        return arguments
    return made


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
