"""Defaults of parameters: Python creates one object for all calls, and a function may change it. So each call gets a
copy (docs/tools.md, Defaults)."""

import inspect
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

from mcp_baton.exceptions import RegistrationError


def fresh[T](default: T, subject: str) -> T:
    """Return a copy of a default that a function can change, such as a list or a dataclass; other defaults as they
    are."""
    if not is_changeable(default):
        return default
    try:
        return deepcopy(default)
    except Exception as error:
        raise RegistrationError(
            f"{subject}: the default {type(default).__name__}(…) cannot be copied for each call ({error}); use None, "
            "and create the value in the function"
        ) from error


def is_changeable(value: object) -> bool:
    """Whether a value is data that can be changed. Other objects, such as clients and sentinels, are shared."""
    if isinstance(value, type):
        return False
    try:
        hash(value)
    except Exception:  # noqa: BLE001 - the author's `__hash__` may raise anything
        return True
    if isinstance(value, tuple | frozenset):
        return any(map(is_changeable, value))
    # These have fields, and may have the hash of their identity.
    kind: Any = type(value)
    if hasattr(kind, "__dataclass_params__"):
        return not kind.__dataclass_params__.frozen
    if hasattr(kind, "__pydantic_fields__"):
        return not kind.model_config.get("frozen")
    return hasattr(kind, "__struct_config__") and not kind.__struct_config__.frozen


def changeable(defaults: Mapping[str, Any], subject: str) -> dict[str, Any]:
    """Return copies of those defaults that the function could change."""
    return {name: fresh(default, subject) for name, default in defaults.items() if is_changeable(default)}


def defaults_of(function: Callable[..., object]) -> dict[str, Any]:
    """Return the defaults of a function's parameters."""
    parameters = parameters_of(function).items()
    return {name: item.default for name, item in parameters if item.default is not item.empty}


def parameters_of(function: Callable[..., object]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except ValueError:  # some built-in types have no signature
        return {}
