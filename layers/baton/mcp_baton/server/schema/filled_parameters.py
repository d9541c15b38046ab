"""The parameters that the server fills in: the `Context`, and what `Depends` declares."""

import functools
import types
import typing
from collections.abc import Callable

from mcp_baton.exceptions import RegistrationError
from mcp_baton.server.context import Context
from mcp_baton.server.schema.functions import NO_ANNOTATION, Parameter, is_routine, parameters_of, unwrapped

if typing.TYPE_CHECKING:
    from mcp_baton.server.schema.dependency import Dependency

type Declared = "list[tuple[str, Dependency]]"
"""Parameters, and the `Depends` that stands with each."""


def filled_by_server(
    function: Callable[..., object], what: str, *, alone: bool = False
) -> "tuple[str | None, Declared]":
    """The name of the parameter that takes the `Context`, and the parameters that take dependencies.

    Args:
        function: Anything that can be called.
        what: How to name it in an error.
        alone: Whether there is no caller who fills in the others: those without a default are refused.

    Raises:
        RegistrationError: two parameters take the Context, one takes two dependencies, or one is left over.
    """
    context: str | None = None
    declared: list[tuple[str, Dependency]] = []
    hints = type_hints(function, what)
    for name, parameter in _parameters(function).items():
        annotation = hints.get(name, typing.Any)
        dependency = _dependency(name, annotation, parameter.default, what)
        if dependency is not None:
            check_kind(parameter, what)
            declared.append((name, dependency))
        elif _is_context(annotation):
            if context is not None:
                raise RegistrationError(
                    f"{what}: both {context!r} and {name!r} take the Context; one of them is enough"
                )
            context = name
        elif alone and parameter.default is NO_ANNOTATION and not parameter.is_rest:
            raise RegistrationError(
                f"{what}: nobody fills in its parameter {name!r}; use Depends, Context or a default"
            )
    return context, declared


def _parameters(function: Callable[..., object]) -> typing.Mapping[str, Parameter]:
    try:
        return parameters_of(function)
    except ValueError:  # some built-in types have no signature, and no parameters that could be filled in
        return {}


def _dependency(name: str, annotation: typing.Any, default: object, what: str) -> "Dependency | None":
    notes = (*getattr(annotation, "__metadata__", ()), default)
    found = [note for note in notes if is_dependency(note)]
    if any(getattr(note, "is_depends", False) is True for note in notes):
        raise RegistrationError(f"{what}: {name!r} has Depends without its factory; write Depends(factory)")
    if len(found) > 1:
        raise RegistrationError(f"{what}: {name!r} has two Depends; one of them is enough")
    return found[0] if found else None


def is_dependency(note: object) -> bool:
    """Whether something is what `Depends(…)` makes. Told without importing its module."""
    return getattr(type(note), "filled_by_server", False) is True


def type_hints(function: Callable[..., object], what: str) -> dict[str, typing.Any]:
    """A function's annotations, resolved; of a class those of its `__init__`, of an object those of its `__call__`.

    Raises:
        RegistrationError: a name in them is not known.
    """
    target = unwrapped(function)
    while isinstance(target, functools.partial):
        target = target.func
    if isinstance(target, type):
        target = next(vars(base)["__init__"].__get__(None, base) for base in target.__mro__ if "__init__" in vars(base))
    elif not is_routine(target):
        target = type(target).__call__
    try:
        return typing.get_type_hints(target, include_extras=True)
    except (NameError, TypeError) as error:
        raise RegistrationError(
            f"{what}: its annotations cannot be resolved: {error}; import the name where the module runs, not for type "
            "checkers alone"
        ) from error


def check_kind(parameter: Parameter, what: str) -> None:
    """Refuse a parameter that cannot be filled in by its name.

    Raises:
        RegistrationError: it is one.
    """
    if parameter.fault:
        raise RegistrationError(f"{what}: {parameter.fault}")


def _is_context(annotation: object) -> bool:
    """Whether it is `Context`, annotated or not, or a union with it."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _is_context(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        return any(_is_context(member) for member in typing.get_args(annotation))
    return isinstance(annotation, type) and issubclass(annotation, Context)
