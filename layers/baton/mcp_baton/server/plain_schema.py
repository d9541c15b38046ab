"""Schemas of plain types, written by hand: word for word what pydantic makes of them, without importing it.

Importing pydantic is most of what a first `tools/list` costs.
"""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from mcp_baton.server.signature import Parameter

PLAIN_TYPES: Mapping[type, Mapping[str, Any]] = MappingProxyType(
    {
        str: {"type": "string"},
        int: {"type": "integer"},
        float: {"type": "number"},
        bool: {"type": "boolean"},
        dict: {"additionalProperties": True, "type": "object"},
        list: {"items": {}, "type": "array"},
    }
)
"""The types that need no converting, and their schemas."""


def is_plain(annotation: object) -> bool:
    """Whether a type is one of the plain ones."""
    return any(annotation is plain for plain in PLAIN_TYPES)


def plain_schema(annotation: object) -> dict[str, Any] | None:
    """A plain type's schema; `None` for any other type."""
    return next((dict(schema) for plain, schema in PLAIN_TYPES.items() if annotation is plain), None)


def plain_arguments(parameters: Sequence[Parameter]) -> dict[str, Any] | None:
    """The schema of arguments; `None` where one of them is beyond what is written by hand."""
    properties: dict[str, Any] = {}
    for parameter in parameters:
        schema = plain_schema(parameter.annotation)
        if schema is None or not (parameter.required or _is_scalar(parameter.default)):
            return None
        default = {} if parameter.required else {"default": parameter.default}
        properties[parameter.published] = dict(sorted((schema | default).items()))
    required = [parameter.published for parameter in parameters if parameter.required]
    made: dict[str, Any] = {"additionalProperties": False, "properties": properties}
    return made | ({"required": required} if required else {}) | {"type": "object"}


def _is_scalar(default: object) -> bool:
    if isinstance(default, float):
        return math.isfinite(default)
    return default is None or type(default) in (str, int, bool)
