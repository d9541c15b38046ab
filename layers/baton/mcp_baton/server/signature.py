"""What a function's signature says: its parameters, its return type, where it wants a `Context`."""

import functools
import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass

from mcp_baton.exceptions import RegistrationError
from mcp_baton.server.context import Context

NO_ANNOTATION = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter that the caller fills in.

    Attributes:
        annotation: Its type; `Any` where the function says nothing.
        default: Its default; `NO_ANNOTATION` where it has none. May be a pydantic `Field(...)`.
    """

    name: str
    annotation: typing.Any
    default: typing.Any

    @property
    def required(self) -> bool:
        """Whether the caller must fill it in."""
        is_required = getattr(self.default, "is_required", None)
        return is_required() is True if callable(is_required) else self.default is NO_ANNOTATION


@dataclass(frozen=True, slots=True)
class Signature:
    """A function's signature.

    Attributes:
        parameters: Those that the caller fills in.
        context: The name of the parameter that takes the `Context`; `None` where there is none.
        returns: The return type; `NO_ANNOTATION` where the function says nothing.
        is_async: Whether calling it makes a coroutine.
    """

    parameters: tuple[Parameter, ...]
    context: str | None
    returns: typing.Any
    is_async: bool

    @property
    def names(self) -> frozenset[str]:
        """The names of the parameters that the caller fills in."""
        return frozenset(parameter.name for parameter in self.parameters)

    @property
    def required(self) -> frozenset[str]:
        """The names of those that the caller must fill in."""
        return frozenset(parameter.name for parameter in self.parameters if parameter.required)


def read_signature(function: Callable[..., object], what: str) -> Signature:
    """Read a function's signature.

    Args:
        function: Anything that can be called.
        what: How to name it in an error, e.g. `tool 'refund'`.

    Raises:
        RegistrationError: a parameter or an annotation that cannot be published.
    """
    hints = _type_hints(function, what)
    parameters: list[Parameter] = []
    context: str | None = None
    for name, parameter in inspect.signature(function).parameters.items():
        _check_kind(parameter, what)
        annotation = hints.get(name, typing.Any)
        if _is_context(annotation):
            context = name
        else:
            parameters.append(Parameter(name, annotation, parameter.default))
    return Signature(tuple(parameters), context, hints.get("return", NO_ANNOTATION), _is_async(function))


def _type_hints(function: Callable[..., object], what: str) -> dict[str, typing.Any]:
    target = inspect.unwrap(function)
    while isinstance(target, functools.partial):
        target = target.func
    if not inspect.isroutine(target):
        target = type(target).__call__
    try:
        return typing.get_type_hints(target, include_extras=True)
    except (NameError, TypeError) as error:
        raise RegistrationError(f"{what}: its annotations cannot be resolved: {error}") from error


def _check_kind(parameter: inspect.Parameter, what: str) -> None:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise RegistrationError(f"{what}: the parameter {parameter} has no schema; name each parameter")
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise RegistrationError(f"{what}: the parameter {parameter.name!r} is positional-only; make it a plain one")


def _is_context(annotation: object) -> bool:
    candidates = typing.get_args(annotation) or (annotation,)
    return any(isinstance(candidate, type) and issubclass(candidate, Context) for candidate in candidates)


def _is_async(function: Callable[..., object]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004 - asks whether `__call__` is async
