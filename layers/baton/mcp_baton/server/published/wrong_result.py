"""What to say of a tool that returned something that cannot be its result. Imported when that happens."""

import inspect
from collections.abc import Callable
from typing import Any

from mcp_baton.exceptions import WrongResult
from mcp_baton.hints import place_of
from mcp_baton.server.schema.undescribed import shown_type


def wrong_result(
    name: str, function: Callable[..., object], declared: Any, returned: object, error: ValueError
) -> WrongResult:
    """The error to raise. It names the tool's line and the type of what was returned, but no value.

    Args:
        name: The tool's name.
        function: Its function.
        declared: Its return type; `None` if nothing is known of it.
        returned: What the function returned.
        error: Why that is no result.
    """
    place = place_of(function)
    said = f"the tool {name!r}{f' ({place})' if place else ''} returned"
    if inspect.iscoroutine(returned):
        returned.close()
        return WrongResult(f"{said} a coroutine: write async def, and await what it calls")
    kind = "None" if returned is None else f"a value of the type {type(returned).__qualname__}"
    if declared is None or isinstance(error.__cause__, TypeError):
        remedy = "return texts, numbers, booleans, None, lists, dicts, dataclasses or models"
        return _with_cause(WrongResult(f"{said} {kind}: {error}; {remedy}"), error)
    type_name = shown_type(declared)
    remedy = (
        f"return one, or declare -> {type_name} | None" if returned is None else "return one, or declare another type"
    )
    return _with_cause(WrongResult(f"{said} {kind}, but it declares {type_name}: {error}; {remedy}"), error)


def _with_cause(wrong: WrongResult, error: ValueError) -> WrongResult:
    """The same with the exception of the author's own code that led to it, such as a generator's, if there is one."""
    cause = error.__cause__
    if cause is not None and not isinstance(cause, TypeError) and not type(cause).__module__.startswith("pydantic"):
        wrong.__cause__ = cause
    return wrong
