"""What `Server(...)` and its decorators are given: checked, or made of the function where it is not given."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

from mcp_baton.exceptions import RegistrationError
from mcp_baton.server.published.labels import Labels

TOOL_OPTIONS: Final = ("name", "requires", "input_schema", "sets", "task", "idempotent", "task_start")
"""What `@server.tool(…)` takes, besides labels."""


def check_handles(handles: str) -> None:
    """Refuse a `handles` that is none.

    Raises:
        RegistrationError: it is neither `meta` nor `text`.
    """
    if handles not in ("meta", "text"):
        raise RegistrationError(f"handles={handles!r}: it is 'meta' or 'text'")


def seconds(name: str, value: float, *, zero: bool = False, endless: bool = False) -> float:
    """A number of seconds above 0.

    Args:
        name: What it is called.
        value: The number.
        zero: Whether 0 is one, too.
        endless: Whether infinity is.

    Raises:
        RegistrationError: it is none.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not (value > 0 or (zero and value == 0)) or (value == math.inf and not endless):
        raise RegistrationError(f"{name}={value!r}: it is a number of seconds{', 0 or more' if zero else ' above 0'}")
    return value


def byte_count(name: str, value: int) -> int:
    """A number of bytes, 0 or more.

    Args:
        name: What it is called.
        value: The number.

    Raises:
        RegistrationError: it is none.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise RegistrationError(f"{name}={value!r}: it is a number of bytes, 0 or more")
    return value


def labels_of(options: Mapping[str, Any], what: str, others: Iterable[str] = ()) -> Labels:
    """The labels that were given as keyword arguments.

    Args:
        options: The keyword arguments.
        what: How to name in an error what they are given to.
        others: Further options that this has, for an error.

    Raises:
        RegistrationError: one is unknown.
    """
    try:
        return Labels(**options)
    except TypeError:
        from mcp_baton.hints import meant

        known = [*Labels.__match_args__, *others]
        unknown = next(name for name in options if name not in Labels.__match_args__)
        raise RegistrationError(f"{what}: it has no option {unknown!r}{meant(unknown, known)}") from None


def name_of(function: object) -> str:
    """A function's name.

    Raises:
        RegistrationError: it has none of its own.
    """
    if not callable(function):
        remedy = f"write name={function!r}" if isinstance(function, str) else "publish a function"
        raise RegistrationError(f"{function!r} stands where a function should; {remedy}")
    name = getattr(function, "__name__", None) or getattr(getattr(function, "func", None), "__name__", None)
    if not isinstance(name, str) or name == "<lambda>":
        raise RegistrationError(f"{function!r} has no name of its own; give it one with name=...")
    return name
