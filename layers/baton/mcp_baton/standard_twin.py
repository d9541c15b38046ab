"""The standard library's view of a class that `light_dataclasses` made, for those who ask it."""

import dataclasses
from typing import Any

from mcp_baton.light_dataclasses import MISSING, Shape


def standard_twin(shape: Shape) -> type:
    """A class of the standard library's making with the same fields."""
    fields: list[tuple[str, Any, Any]] = []
    for name, each in shape.fields.items():
        chosen: dict[str, Any] = {"repr": each.repr, "compare": each.compare}
        if each.default_factory is not MISSING:
            chosen["default_factory"] = each.default_factory
        elif each.default is not MISSING:
            chosen["default"] = each.default
        fields.append((name, shape.types[name], dataclasses.field(**chosen)))
    return dataclasses.make_dataclass("Twin", fields, frozen=shape.frozen, kw_only=shape.keywords_only)
