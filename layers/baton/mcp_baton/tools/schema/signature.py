"""Signatures of functions: the parameters that callers fill, the return type, and types without a schema."""

import inspect
import sys
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from functools import cached_property
from types import FunctionType
from typing import Annotated, Any, Final, Literal, get_args, get_origin

from msgspec import Struct

from mcp_baton.exceptions import RegistrationError
from mcp_baton.tools.arguments import Argument
from mcp_baton.tools.schema.defaults import fresh
from mcp_baton.tools.schema.dependency import Provider, check_kind, injected_parameters, read_dependencies, type_hints
from mcp_baton.tools.schema.sent_values import static_default

NO_ANNOTATION: Final = inspect.Parameter.empty
"""Stands for a missing default or annotation."""


def is_async(function: Callable[..., object]) -> bool:
    """Whether a call returns a coroutine. This includes objects with an asynchronous `__call__`."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004 - asks whether `__call__` is async


class Parameter(Struct, frozen=True, dict=True):
    """A parameter that the caller fills.

    Attributes:
        annotation: Its type. A pydantic `Field(…)` that is its default is in it, too.
        default: Its default; `NO_ANNOTATION` without one, or if it is in a `Field`.
    """

    name: str
    annotation: Any
    default: Any

    @property
    def published_name(self) -> str:
        """The name for callers: the alias of a pydantic `Field`, if there is one."""
        return self.accepted_names[0]

    @cached_property
    def accepted_names(self) -> tuple[str, ...]:
        """All names that callers may use: with `AliasChoices`, several. A path into another argument (`AliasPath`) is
        no name, so such a parameter has its own."""
        for note in self._notes:
            alias = getattr(note, "validation_alias", None) or getattr(note, "alias", None)
            names = tuple(name for name in getattr(alias, "choices", (alias,)) if isinstance(name, str))
            if names:
                return names
        return (self.name,)

    @cached_property
    def default_value(self) -> Any:
        """The value of an argument that is left out; `NO_ANNOTATION` if it is required."""
        if self.default is not NO_ANNOTATION:
            return self.default
        fields = (note for note in self._notes if is_field(note) and not note.is_required())
        return next((field.default for field in fields), NO_ANNOTATION)

    @property
    def required(self) -> bool:
        return self.default_value is NO_ANNOTATION

    @cached_property
    def static_default(self) -> Any:
        """The default as JSON; `NO_STATIC_DEFAULT` if there is none, if a factory creates it, or if JSON does not show
        all of it."""
        return static_default(self.default_value)

    @property
    def description(self) -> str:
        texts = (note if isinstance(note, str) else getattr(note, "description", None) for note in self._notes)
        return next((text for text in texts if isinstance(text, str)), "")

    @property
    def text(self) -> str | None:
        """The text in `Annotated[str, "Which order"]`."""
        return next((note for note in self._notes if isinstance(note, str)), None)

    @property
    def pydantic_type(self) -> Any:
        """The annotation, with that text as pydantic's description."""
        if self.text is None:
            return self.annotation
        from pydantic import Field

        kind: Any = self.annotation.__origin__
        for note in self.annotation.__metadata__:
            kind = Annotated[kind, Field(description=note) if isinstance(note, str) else note]
        return kind

    @property
    def value_type(self) -> Any:
        """The type of a value: the annotation without texts, and without aliases, which pydantic allows only in
        fields."""
        notes = getattr(self.annotation, "__metadata__", ())
        kind: Any = self.annotation.__origin__ if notes else self.annotation
        for note in notes:
            if not isinstance(note, str | Argument):
                kind = Annotated[kind, _without_alias(note) if is_field(note) else note]
        return kind

    @property
    def declaration(self) -> Argument:
        """The `Argument` in its annotation."""
        return next((note for note in self._notes if isinstance(note, Argument)), Argument())

    @property
    def has_factory(self) -> bool:
        """Whether a `default_factory` creates the default."""
        return any(getattr(note, "default_factory", None) is not None for note in self._notes)

    @property
    def has_field(self) -> bool:
        return any(map(is_field, self._notes))

    @property
    def _notes(self) -> tuple[Any, ...]:
        """The annotations in `Annotated`, the last first: pydantic prefers it."""
        return getattr(self.annotation, "__metadata__", ())[::-1]


_ALIASES = ("alias", "alias_priority", "validation_alias", "serialization_alias")


def _without_alias(field: Any) -> Any:
    copied = copy(field)
    copied._attributes_set = {name: value for name, value in field._attributes_set.items() if name not in _ALIASES}  # noqa: SLF001 - pydantic has no public way
    for name in _ALIASES:
        setattr(copied, name, None)
    return copied


def by_first_name[T](arguments: Mapping[str, T], accepted_names: Iterable[Sequence[str]]) -> Mapping[str, T]:
    """Return the arguments, each by the first of its accepted names. If two names of one argument are given, the second
    stays, and is then refused as unknown."""
    for name, *others in accepted_names:
        other = next((other for other in others if other in arguments), None)
        if other is not None and name not in arguments:
            arguments = {name if key == other else key: value for key, value in arguments.items()}
    return arguments


def is_field(note: object) -> bool:
    """Whether an object was made by pydantic's `Field(…)`. Does not import pydantic."""
    return hasattr(note, "is_required")


class Signature(Struct, frozen=True, dict=True):
    """A function's signature: the parameters that the caller fills, and those that the server fills."""

    parameters: tuple[Parameter, ...]
    context: str | None
    returns: Any
    is_async: bool
    dependencies: tuple[tuple[str, Provider], ...] = ()

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(parameter.published_name for parameter in self.parameters)

    @cached_property
    def required(self) -> frozenset[str]:
        return frozenset(parameter.published_name for parameter in self.parameters if parameter.required)


def signature_of_tool(function: Callable[..., object], subject: str) -> Signature:
    """`read_signature` of a function that is not a workflow, so an `Argument` only describes its parameter."""
    signature = read_signature(function, subject)
    for parameter in signature.parameters:
        declaration = parameter.declaration
        if declaration != Argument(description=declaration.description):
            raise RegistrationError(
                f"{subject}: the Argument of {parameter.name!r} has options of a workflow's argument; write only its "
                "description, a default after =, and SecretStr for a secret"
            )
    return signature


def read_signature(function: Callable[..., object], subject: str) -> Signature:
    if isinstance(function, type):
        raise RegistrationError(f"{subject}: a class cannot be published; write a function that creates an instance")
    if inspect.isasyncgenfunction(function):
        remedy = "collect its items and return a list"
        raise RegistrationError(f"{subject}: an asynchronous generator returns no value; {remedy}")
    hints = type_hints(function, subject)
    context, dependencies = injected_parameters(function, subject)
    injected_names = {context, *(name for name, _ in dependencies)}
    parameters: list[Parameter] = []
    try:
        declared = inspect.signature(function).parameters
    except ValueError as error:  # some functions of Python have none
        raise RegistrationError(f"{subject}: {error}; write a function with def that calls it") from error
    for name, parameter in declared.items():
        check_kind(parameter, subject)
        if name not in injected_names:
            annotation = hints.get(name, Any)
            _check_parameter(parameter, subject, is_annotated=name in hints)
            unknown = type_without_schema(annotation)
            if unknown is not None:
                raise parameter_error(subject, name, unknown)
            default = fresh(parameter.default, f"{subject}: the parameter {name!r}")
            if is_field(default):
                annotation, default = Annotated[annotation, default], NO_ANNOTATION
            parameters.append(Parameter(name, annotation, default))
    returns = hints.get("return", NO_ANNOTATION)
    return Signature(tuple(parameters), context, returns, is_async(function), read_dependencies(dependencies, subject))


def _check_parameter(parameter: inspect.Parameter, subject: str, *, is_annotated: bool) -> None:
    name, default = parameter.name, parameter.default
    if name == "ctx" and not is_annotated:
        raise RegistrationError(f"{subject}: the parameter 'ctx' has no annotation; write ctx: Context")
    if name == "self" and not is_annotated:
        raise RegistrationError(f"{subject}: it is a method without its object; publish object.method")
    if type(default) is FunctionType:
        raise RegistrationError(
            f"{subject}: the parameter {name!r} has the function {default.__name__!r} as its default; "
            f"write Depends({default.__name__}) to get its value"
        )
    if isinstance(default, Argument):
        written = f"write {name}: Annotated[…, Argument(…)]"
        raise RegistrationError(f"{subject}: the parameter {name!r} has an Argument as its default; {written}")


_PYDANTIC_HOOKS = (
    "__get_pydantic_core_schema__",
    "__pydantic_core_schema__",
    "__get_validators__",
    "__dataclass_fields__",
)
_SUPPORTED_LIBRARIES = frozenset({"pydantic", "pydantic_core", "typing_extensions"})


def type_without_schema(annotation: Any) -> type | None:
    """Return the class within a type that certainly has no schema; `None` if there is none. Does not import
    pydantic."""
    if type(annotation) is type:
        return annotation if _has_no_schema(annotation) else None
    if getattr(annotation, "__origin__", None) is type or any(
        not isinstance(note, str) for note in getattr(annotation, "__metadata__", ())
    ):
        return None
    parts = getattr(annotation, "__args__", ())
    return next((kind for part in parts if (kind := type_without_schema(part)) is not None), None)


def _has_no_schema(kind: type) -> bool:
    if kind.__module__ == "builtins" or any(hasattr(kind, hook) for hook in _PYDANTIC_HOOKS):
        return False
    modules = {base.__module__.partition(".")[0] for base in kind.__mro__[:-1]}
    return modules.isdisjoint(sys.stdlib_module_names) and modules.isdisjoint(_SUPPORTED_LIBRARIES)


REMEDY = "use a type that pydantic knows, such as str, a dataclass or a model"


def parameter_error(subject: str, name: str, annotation: object, cause: str | None = None) -> RegistrationError:
    """Return the error for a parameter whose type has no schema."""
    type_text = shown_type(annotation)
    alternative = f"write {name}: Annotated[{type_text}, Depends(…)] for a value that the server creates"
    return RegistrationError(
        f"{subject}: the parameter {name!r} has the type {type_text}, which has no schema{_in_brackets(cause)}; "
        f"{REMEDY}, or {alternative}"
    )


def return_error(subject: str, annotation: object, cause: str | None = None) -> RegistrationError:
    return RegistrationError(
        f"{subject}: its return type {shown_type(annotation)} has no schema{_in_brackets(cause)}; "
        "use a dict, a dataclass or a model, or leave out the return type"
    )


def argument_cause(name: str, annotation: object, cause: str | None = None) -> str:
    """Return the error text for a workflow's argument whose type cannot be read from a text."""
    return (
        f"the argument {name!r} has the type {shown_type(annotation)}, which cannot be read from a text"
        f"{_in_brackets(cause)}; give it a type that pydantic knows: type=str, or Annotated[str, Argument(…)]"
    )


def answer_cause(annotation: object, cause: str | None = None) -> str:
    return (
        f"returns: an answer cannot have the type {shown_type(annotation)}{_in_brackets(cause)}; "
        "use a type that pydantic knows, such as str, bool, a Literal or a dataclass"
    )


def shown_type(annotation: object) -> str:
    if get_origin(annotation) is Annotated:
        return f"Annotated[{shown_type(get_args(annotation)[0])}, …]"
    if isinstance(annotation, type):
        return annotation.__name__
    text = str(annotation)
    for part in get_args(annotation):
        text = text.replace(str(part), shown_type(part))
    return text.replace("typing.", "")


def first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0].partition(". Set `arbitrary_types_allowed")[0].rstrip(". ")


def _in_brackets(cause: str | None) -> str:
    return f" ({cause})" if cause else ""


type Purpose = Literal["validation", "serialization", "conversion"]
"""The use of a type: for input, for output, or for conversion, which needs no JSON Schema."""


class UnsupportedType(Struct, frozen=True):
    """A type that has no schema."""

    part: object
    cause: str | None


def tool_error(subject: str, signature: Signature, error: Exception, *, has_output: bool) -> RegistrationError:
    """Return the error for a tool without a schema. It names the parameter or the return type."""
    invalid_parameter = parameter_error_in(subject, signature, "validation")
    if invalid_parameter is not None:
        return invalid_parameter
    unsupported = unsupported_type(signature.returns, "serialization") if has_output else None
    if unsupported is not None:
        return return_error(subject, unsupported.part, unsupported.cause)
    return RegistrationError(f"{subject}: its schema cannot be created: {first_line(error)}; use simpler types")


def parameter_error_in(subject: str, signature: Signature, purpose: Purpose) -> RegistrationError | None:
    for parameter in signature.parameters:
        unsupported = unsupported_type(parameter.value_type, purpose)
        if unsupported is not None:
            return parameter_error(subject, parameter.name, unsupported.part, unsupported.cause)
    return None


def unsupported_type(annotation: Any, purpose: Purpose) -> UnsupportedType | None:
    """Return why a type has no schema; `None` if it has one."""
    from pydantic import TypeAdapter

    try:
        adapter = TypeAdapter(annotation)
        if purpose != "conversion":
            adapter.json_schema(mode=purpose)
    except Exception as error:  # noqa: BLE001 - code of the author's type may raise anything
        part = type_without_schema(annotation) or _unsupported_field(annotation)
        return UnsupportedType(annotation, first_line(error)) if part is None else UnsupportedType(part, None)
    return None


def _unsupported_field(annotation: Any) -> type | None:
    import dataclasses

    if not isinstance(annotation, type) or not dataclasses.is_dataclass(annotation):
        return None
    try:
        hints = typing.get_type_hints(annotation)
    except (NameError, TypeError):
        return None
    return next((part for kind in hints.values() if (part := type_without_schema(kind)) is not None), None)
