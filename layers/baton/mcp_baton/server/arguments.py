"""Prompt arguments: strings from the client, checked and converted before anything else happens (section 2)."""

from collections.abc import Mapping, Sequence

from mcp_baton.exceptions import ProtocolError
from mcp_baton.protocol.codes import INVALID_PARAMS
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.server.schema import convert
from mcp_baton.workflow.definition import Argument
from mcp_baton.workflow.sources import as_text


def check_arguments(declared: Sequence[Argument], given: JsonObject) -> tuple[dict[str, str], dict[str, Json]]:
    """Check and convert prompt arguments.

    Returns:
        The arguments as texts, and converted to their types, as JSON.

    Raises:
        ProtocolError: one is missing, unknown or does not convert; names it.
    """
    by_name = {argument.name: argument for argument in declared}
    for name in given.keys() - by_name.keys():
        known = ", ".join(by_name) or "none"
        raise ProtocolError(INVALID_PARAMS, f"Invalid params: unknown argument {name!r}; this prompt takes {known}")
    for argument in declared:
        if argument.required and argument.name not in given:
            raise ProtocolError(INVALID_PARAMS, f"Invalid params: the argument {argument.name!r} is required")
    converted = {name: _convert(by_name[name], value) for name, value in given.items()}
    return {name: as_text(value) for name, value in given.items()}, converted


def stored_arguments(stored: Mapping[str, Json], given: JsonObject) -> JsonObject:
    """The arguments of a resume: those of the first call, overlaid by those that are given again."""
    return {**stored, **given}


def _convert(argument: Argument, value: Json) -> Json:
    try:
        return convert(value, argument.type)
    except ValueError as error:
        message = f"Invalid params: the argument {argument.name!r} does not convert: {error}"
        raise ProtocolError(INVALID_PARAMS, message) from error
