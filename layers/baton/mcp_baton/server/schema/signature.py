"""What a function's signature says: its parameters, its return type, what of it the server fills in."""

import functools
import types
import typing
from collections.abc import Callable

from mcp_baton.exceptions import RegistrationError
from mcp_baton.light_dataclasses import dataclass
from mcp_baton.server.context import Context
from mcp_baton.server.schema.functions import NO_ANNOTATION, Declared, is_async, is_routine, parameters_of, unwrapped

if typing.TYPE_CHECKING:
    from mcp_baton.server.schema.dependency import Dependency, Provider


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
    def published(self) -> str:
        """The name that the caller uses: the alias where a pydantic `Field` gives one."""
        aliases = (getattr(note, "alias", None) for note in self._notes)
        return next((alias for alias in aliases if isinstance(alias, str)), self.name)

    @property
    def required(self) -> bool:
        """Whether the caller must fill it in."""
        if self.default is not NO_ANNOTATION and not is_field(self.default):
            return False
        return all(note.is_required() for note in self._notes if is_field(note))

    @property
    def description(self) -> str:
        """The `Field(description=…)` or plain text that stands with it."""
        texts = (note if isinstance(note, str) else getattr(note, "description", None) for note in self._notes)
        return next((text for text in texts if isinstance(text, str)), "")

    @property
    def _notes(self) -> tuple[typing.Any, ...]:
        """A `Field` as its default, and what stands in its `Annotated` type."""
        annotated = getattr(self.annotation, "__metadata__", ())
        return (self.default, *annotated) if is_field(self.default) else annotated


def is_field(note: object) -> bool:
    """Whether something is what pydantic's `Field(…)` makes. Told without importing pydantic."""
    return hasattr(note, "is_required")


@dataclass(frozen=True, slots=True)
class Signature:
    """A function's signature.

    Attributes:
        parameters: Those that the caller fills in.
        context: The name of the parameter that takes the `Context`; `None` where there is none.
        returns: The return type; `NO_ANNOTATION` where the function says nothing.
        is_async: Whether calling it makes a coroutine.
        dependencies: The parameters that take what `Depends` declares.
    """

    parameters: tuple[Parameter, ...]
    context: str | None
    returns: typing.Any
    is_async: bool
    dependencies: "tuple[tuple[str, Provider], ...]" = ()

    @property
    def names(self) -> frozenset[str]:
        """The names of the parameters that the caller fills in."""
        return frozenset(parameter.published for parameter in self.parameters)

    @property
    def required(self) -> frozenset[str]:
        """The names of those that the caller must fill in."""
        return frozenset(parameter.published for parameter in self.parameters if parameter.required)


def read_signature(function: Callable[..., object], what: str) -> Signature:
    """Read a function's signature.

    Args:
        function: Anything that can be called.
        what: How to name it in an error, e.g. `tool 'refund'`.

    Raises:
        RegistrationError: a parameter or an annotation that cannot be published.
    """
    hints = _type_hints(function, what)
    context, declared = filled_by_server(function, what)
    filled = {context, *(name for name, _ in declared)}
    parameters: list[Parameter] = []
    for name, parameter in parameters_of(function).items():
        _check_kind(parameter, what)
        if name not in filled:
            parameters.append(Parameter(name, hints.get(name, typing.Any), parameter.default))
    returns = hints.get("return", NO_ANNOTATION)
    return Signature(tuple(parameters), context, returns, is_async(function), read_dependencies(declared, what))


def read_dependencies(declared: "Dependencies", what: str) -> "tuple[tuple[str, Provider], ...]":
    """What is declared, with all that it depends on.

    Raises:
        RegistrationError: it cannot work.
    """
    if not declared:
        return ()
    from mcp_baton.server.schema.dependency import read_provider

    return tuple((name, read_provider(dependency, what)) for name, dependency in declared)


type Dependencies = "list[tuple[str, Dependency]]"
"""Parameters, and the `Depends` that stands with each."""


def filled_by_server(
    function: Callable[..., object], what: str, *, alone: bool = False
) -> "tuple[str | None, Dependencies]":
    """The name of the parameter that takes the `Context`, and the parameters that take dependencies.

    Args:
        function: Anything that can be called.
        what: How to name it in an error.
        alone: Nobody else fills parameters in: those without a default are refused.

    Raises:
        RegistrationError: two parameters take the Context, one takes two dependencies, or one is left over.
    """
    context: str | None = None
    declared: list[tuple[str, Dependency]] = []
    hints = _type_hints(function, what)
    for name, parameter in _parameters(function).items():
        annotation = hints.get(name, typing.Any)
        dependency = _dependency(name, annotation, parameter.default, what)
        if dependency is not None:
            _check_kind(parameter, what)
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


def _parameters(function: Callable[..., object]) -> typing.Mapping[str, Declared]:
    try:
        return parameters_of(function)
    except ValueError:  # some built-in types have no signature, and no parameters that could be filled in
        return {}


def _dependency(name: str, annotation: typing.Any, default: object, what: str) -> "Dependency | None":
    found = [note for note in (*getattr(annotation, "__metadata__", ()), default) if is_dependency(note)]
    if len(found) > 1:
        raise RegistrationError(f"{what}: {name!r} has two Depends; one of them is enough")
    return found[0] if found else None


def is_dependency(note: object) -> bool:
    """Whether something is what `Depends(…)` makes. Told without importing its module."""
    return getattr(type(note), "filled_by_server", False) is True


def _type_hints(function: Callable[..., object], what: str) -> dict[str, typing.Any]:
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
        raise RegistrationError(f"{what}: its annotations cannot be resolved: {error}") from error


def _check_kind(parameter: Declared, what: str) -> None:
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
