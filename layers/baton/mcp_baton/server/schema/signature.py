"""What a function's signature says: its parameters, its return type, what of it the server fills in."""

import sys
import typing
from collections.abc import Callable
from types import FunctionType

from msgspec import Struct

from mcp_baton.exceptions import RegistrationError
from mcp_baton.server.schema.filled_parameters import Declared, check_kind, filled_by_server, type_hints
from mcp_baton.server.schema.functions import NO_ANNOTATION, is_async, is_async_generator, parameters_of

if typing.TYPE_CHECKING:
    from mcp_baton.server.schema.provider import Provider


class Parameter(Struct, frozen=True):
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
        notes = self._notes
        if not notes:
            return self.name
        aliases = (getattr(note, "alias", None) for note in notes)
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
    def text(self) -> str | None:
        """The plain text in `Annotated[str, "Which order"]`, where nothing else stands with the type."""
        notes = getattr(self.annotation, "__metadata__", ())
        return notes[0] if notes and all(type(note) is str for note in notes) else None

    @property
    def bare(self) -> typing.Any:
        """Its type, without such a text."""
        return self.annotation if self.text is None else self.annotation.__origin__

    @property
    def described(self) -> typing.Any:
        """Its type, with such a text as pydantic's description."""
        if self.text is None:
            return self.annotation
        from pydantic import Field

        return typing.Annotated[self.bare, Field(description=self.text)]

    @property
    def _notes(self) -> tuple[typing.Any, ...]:
        """A `Field` as its default, and what stands in its `Annotated` type."""
        annotated = getattr(self.annotation, "__metadata__", ())
        return (self.default, *annotated) if is_field(self.default) else annotated


def is_field(note: object) -> bool:
    """Whether something is what pydantic's `Field(…)` makes. Told without importing pydantic."""
    return hasattr(note, "is_required")


class Signature(Struct, frozen=True):
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
    if isinstance(function, type) or is_async_generator(function):
        raise _no_function(function, what)
    hints = type_hints(function, what)
    context, declared = filled_by_server(function, what)
    filled = {context, *(name for name, _ in declared)}
    parameters: list[Parameter] = []
    for name, parameter in parameters_of(function).items():
        check_kind(parameter, what)
        if name not in filled:
            made = Parameter(name, hints.get(name, typing.Any), parameter.default)
            _check_parameter(made, annotated=name in hints, what=what)
            parameters.append(made)
    returns = hints.get("return", NO_ANNOTATION)
    return Signature(tuple(parameters), context, returns, is_async(function), read_dependencies(declared, what))


def _check_parameter(parameter: Parameter, *, annotated: bool, what: str) -> None:
    """Refuse a parameter that callers cannot fill in, as far as that can be told without pydantic."""
    if parameter.name == "ctx" and not annotated:
        raise RegistrationError(f"{what}: the parameter 'ctx' has no annotation; write ctx: Context to be given it")
    if type(parameter.default) is FunctionType:
        made_by = parameter.default.__name__
        raise RegistrationError(
            f"{what}: the parameter {parameter.name!r} has the function {made_by!r} as its default; "
            f"write Depends({made_by}) for what it makes"
        )
    unknown = undescribable(parameter.annotation)
    if unknown is not None:
        from mcp_baton.server.schema.undescribed import parameter_error

        raise parameter_error(what, parameter.name, unknown)


def _no_function(function: Callable[..., object], what: str) -> RegistrationError:
    if isinstance(function, type):
        return RegistrationError(f"{what}: a class cannot be published; write a function that makes one")
    return RegistrationError(
        f"{what}: an asynchronous generator gives no value; collect what it yields, and return a list"
    )


_HOOKS = ("__get_pydantic_core_schema__", "__pydantic_core_schema__", "__get_validators__", "__dataclass_fields__")
_OTHERS = frozenset({"pydantic", "pydantic_core", "typing_extensions"})


def undescribable(annotation: typing.Any) -> type | None:
    """The class in a type of which pydantic can make no schema, where that is sure without asking it.

    That is one of the author's own that is neither a dataclass nor a model, and comes from no class of Python's.
    """
    if type(annotation) is type:
        return annotation if _is_unknown(annotation) else None
    if getattr(annotation, "__origin__", None) is type or any(
        not isinstance(note, str) for note in getattr(annotation, "__metadata__", ())
    ):
        return None
    parts = getattr(annotation, "__args__", ())
    return next((found for part in parts if (found := undescribable(part)) is not None), None)


def _is_unknown(made: type) -> bool:
    if made.__module__ == "builtins" or any(hasattr(made, hook) for hook in _HOOKS):
        return False
    homes = {base.__module__.partition(".")[0] for base in made.__mro__[:-1]}
    return homes.isdisjoint(sys.stdlib_module_names) and homes.isdisjoint(_OTHERS)


def read_dependencies(declared: Declared, what: str) -> "tuple[tuple[str, Provider], ...]":
    """What is declared, with all that it depends on.

    Raises:
        RegistrationError: it cannot work.
    """
    if not declared:
        return ()
    from mcp_baton.server.schema.provider import read_provider

    return tuple((name, read_provider(dependency, what)) for name, dependency in declared)
