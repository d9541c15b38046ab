"""What a function's signature says: its parameters, its return type, what of it the server fills in."""

import typing
from collections.abc import Callable

from mcp_baton.light_dataclasses import dataclass
from mcp_baton.server.schema.filled_parameters import Declared, check_kind, filled_by_server, type_hints
from mcp_baton.server.schema.functions import NO_ANNOTATION, is_async, parameters_of

if typing.TYPE_CHECKING:
    from mcp_baton.server.schema.provider import Provider


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
    hints = type_hints(function, what)
    context, declared = filled_by_server(function, what)
    filled = {context, *(name for name, _ in declared)}
    parameters: list[Parameter] = []
    for name, parameter in parameters_of(function).items():
        check_kind(parameter, what)
        if name not in filled:
            parameters.append(Parameter(name, hints.get(name, typing.Any), parameter.default))
    returns = hints.get("return", NO_ANNOTATION)
    return Signature(tuple(parameters), context, returns, is_async(function), read_dependencies(declared, what))


def read_dependencies(declared: Declared, what: str) -> "tuple[tuple[str, Provider], ...]":
    """What is declared, with all that it depends on.

    Raises:
        RegistrationError: it cannot work.
    """
    if not declared:
        return ()
    from mcp_baton.server.schema.provider import read_provider

    return tuple((name, read_provider(dependency, what)) for name, dependency in declared)
