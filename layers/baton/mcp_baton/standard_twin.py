"""The standard library's view of a class that `light_dataclasses` made, for those who ask it."""

import dataclasses
from typing import Any


def standard_twin(shape: Any, missing: object) -> type:
    """A class of the standard library's making with the same fields.

    Args:
        shape: What is known of the class: `light_dataclasses.Shape`.
        missing: What stands there for a default that a field has not.
    """
    fields: list[tuple[str, Any, Any]] = []
    for name, each in shape.fields.items():
        chosen: dict[str, Any] = {"repr": each.repr, "compare": each.compare}
        if each.default_factory is not missing:
            chosen["default_factory"] = each.default_factory
        elif each.default is not missing:
            chosen["default"] = each.default
        fields.append((name, shape.types[name], dataclasses.field(**chosen)))
    return dataclasses.make_dataclass("Twin", fields, frozen=shape.frozen, kw_only=shape.keywords_only)
