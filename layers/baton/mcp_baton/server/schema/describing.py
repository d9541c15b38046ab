"""Which type it is that has no schema, asked of pydantic. Imported by the full check, and when none could be made."""

import typing
from typing import Annotated, Any, Literal

from msgspec import Struct

from mcp_baton.exceptions import RegistrationError
from mcp_baton.server.schema.signature import Signature, is_field, undescribable
from mcp_baton.server.schema.undescribed import first_line, parameter_error, return_error

type Purpose = Literal["validation", "serialization", "conversion"]
"""What a type is for: what comes in, what goes out, or what is converted and needs no JSON Schema."""


class Blamed(Struct, frozen=True):
    """A type that has no schema.

    Attributes:
        part: The class in it that is to blame; the type itself where none is known to be.
        cause: What pydantic said, where the part does not say it all.
    """

    part: object
    cause: str | None


def tool_error(what: str, signature: Signature, error: Exception, *, has_output: bool) -> RegistrationError:
    """Why a tool cannot be listed: the parameter, or the return type, that has no schema.

    Args:
        what: How to name the tool.
        signature: Its signature.
        error: What was raised while its schema was made.
        has_output: Whether its return type needs a schema.
    """
    refused = parameter_error_in(what, signature, "validation")
    if refused is not None:
        return refused
    blamed = blamed_type(signature.returns, "serialization") if has_output else None
    if blamed is not None:
        return return_error(what, blamed.part, blamed.cause)
    return RegistrationError(f"{what}: its schema cannot be made: {first_line(error)}; use simpler types")


def parameter_error_in(what: str, signature: Signature, purpose: Purpose) -> RegistrationError | None:
    """Why the first parameter whose type has no schema cannot be published; `None` where all have one."""
    for parameter in signature.parameters:
        default = parameter.default
        described: Any = Annotated[parameter.annotation, default] if is_field(default) else parameter.annotation
        blamed = blamed_type(described, purpose)
        if blamed is not None:
            return parameter_error(what, parameter.name, blamed.part, blamed.cause)
    return None


def blamed_type(annotation: Any, purpose: Purpose) -> Blamed | None:
    """Why a type has no schema; `None` where it has one."""
    from pydantic import TypeAdapter

    try:
        adapter = TypeAdapter(annotation)
        if purpose != "conversion":
            adapter.json_schema(mode=purpose)
    except Exception as error:  # noqa: BLE001 - a type of the author's brings code along, which may raise anything
        part = undescribable(annotation) or _field_to_blame(annotation)
        return Blamed(annotation, first_line(error)) if part is None else Blamed(part, None)
    return None


def _field_to_blame(annotation: Any) -> type | None:
    import dataclasses

    if not isinstance(annotation, type) or not dataclasses.is_dataclass(annotation):
        return None
    try:
        hints = typing.get_type_hints(annotation)
    except (NameError, TypeError):
        return None
    return next((found for kind in hints.values() if (found := undescribable(kind)) is not None), None)
