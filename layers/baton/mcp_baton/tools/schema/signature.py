"""Signatures of functions: parameters, return type, and the parameters that the server fills."""

import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable
from copy import copy
from types import FunctionType
from typing import Any

from msgspec import Struct

from mcp_baton.exceptions import RegistrationError
from mcp_baton.protocol.json import Json
from mcp_baton.tools.context import Context
from mcp_baton.tools.schema.defaults import changeable, defaults_of, fresh
from mcp_baton.tools.schema.dependency import Dependency, Depends, Factory, Lifetime
from mcp_baton.tools.schema.sent_values import static_default

type DeclaredDependencies = "list[tuple[str, Dependency]]"
"""Parameters with their `Depends`."""


NO_ANNOTATION: typing.Final = inspect.Parameter.empty
"""Stands for a missing default or annotation."""


def is_async(function: Callable[..., object]) -> bool:
    """Whether a call returns a coroutine. This includes objects with an asynchronous `__call__`."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004 - asks whether `__call__` is async


def injected_parameters(
    function: Callable[..., object], subject: str, *, is_factory: bool = False
) -> "tuple[str | None, DeclaredDependencies]":
    """Return the parameter that takes the `Context`, and those with `Depends`. If `is_factory`, no caller fills the
    other parameters, so they need a default."""
    context: str | None = None
    dependencies: list[tuple[str, Dependency]] = []
    hints = type_hints(function, subject)
    for name, parameter in _parameters(function).items():
        annotation = hints.get(name, typing.Any)
        notes = (*getattr(annotation, "__metadata__", ()), parameter.default)
        markers = [note for note in notes if isinstance(note, Dependency)]
        if any(note is Depends for note in notes):
            raise RegistrationError(f"{subject}: {name!r} has Depends without its factory; write Depends(factory)")
        if len(markers) > 1:
            raise RegistrationError(f"{subject}: {name!r} has two Depends; one of them is enough")
        dependency = markers[0] if markers else None
        if dependency is not None:
            check_kind(parameter, subject)
            dependencies.append((name, dependency))
        elif _is_context(annotation):
            if context is not None:
                raise RegistrationError(
                    f"{subject}: both {context!r} and {name!r} take the Context; one of them is enough"
                )
            context = name
        elif is_factory and parameter.default is NO_ANNOTATION and not _is_variadic(parameter):
            raise RegistrationError(
                f"{subject}: the parameter {name!r} has no value; use Depends, Context or a default"
            )
    return context, dependencies


def _parameters(function: Callable[..., object]) -> typing.Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except ValueError:  # some built-in types have no signature
        return {}


def type_hints(function: Callable[..., object], subject: str) -> dict[str, typing.Any]:
    """Return the resolved annotations of a function, of a class's `__init__`, or of an object's `__call__`."""
    target = inspect.unwrap(function)
    while isinstance(target, functools.partial):
        target = target.func
    if isinstance(target, type):
        target = next(vars(base)["__init__"].__get__(None, base) for base in target.__mro__ if "__init__" in vars(base))
    elif not inspect.isroutine(target):
        target = type(target).__call__
    try:
        return typing.get_type_hints(target, include_extras=True)
    except (NameError, TypeError) as error:
        raise RegistrationError(
            f"{subject}: its annotations cannot be resolved: {error}; import the name also at run time, not only for "
            "type checkers"
        ) from error


def check_kind(parameter: inspect.Parameter, subject: str) -> None:
    """Raise `RegistrationError` if a parameter cannot be passed by its name."""
    if _is_variadic(parameter):
        item = "Any" if parameter.annotation is NO_ANNOTATION else inspect.formatannotation(parameter.annotation)
        container = f"dict[str, {item}]" if parameter.kind is parameter.VAR_KEYWORD else f"list[{item}]"
        remedy = f"name each parameter, or write {parameter.name}: {container}"
        raise RegistrationError(f"{subject}: the parameter {parameter} has no schema; {remedy}")
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise RegistrationError(
            f"{subject}: the parameter {parameter.name!r} is positional-only; remove the '/' from the signature"
        )


def _is_variadic(parameter: inspect.Parameter) -> bool:
    return parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)


def _is_context(annotation: object) -> bool:
    """Whether an annotation is `Context`, annotated or not, or a union with it."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _is_context(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        return any(_is_context(member) for member in typing.get_args(annotation))
    return isinstance(annotation, type) and issubclass(annotation, Context)


class Parameter(Struct, frozen=True):
    """A parameter that the caller fills.

    Attributes:
        annotation: Its type. A pydantic `Field(…)` that is its default is in it, too.
        default: Its default; `NO_ANNOTATION` without one, or if it is in a `Field`.
    """

    name: str
    annotation: typing.Any
    default: typing.Any

    @property
    def published_name(self) -> str:
        """The name for callers: the alias of a pydantic `Field`, if there is one."""
        return self.accepted_names[0]

    @property
    def accepted_names(self) -> tuple[str, ...]:
        """All names that callers may use: with `AliasChoices`, several. A path into another argument (`AliasPath`) is
        no name, so such a parameter has its own."""
        for note in self._notes:
            alias = getattr(note, "validation_alias", None) or getattr(note, "alias", None)
            names = tuple(name for name in getattr(alias, "choices", (alias,)) if isinstance(name, str))
            if names:
                return names
        return (self.name,)

    @property
    def default_value(self) -> typing.Any:
        """The value of an argument that is left out; `NO_ANNOTATION` if it is required."""
        if self.default is not NO_ANNOTATION:
            return self.default
        fields = (note for note in self._notes if is_field(note) and not note.is_required())
        return next((field.default for field in fields), NO_ANNOTATION)

    @property
    def required(self) -> bool:
        return self.default_value is NO_ANNOTATION

    @property
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
        """The text in `Annotated[str, "Which order"]`, if the type has no other annotation."""
        notes = self._notes
        return notes[-1] if notes and all(type(note) is str for note in notes) else None

    @property
    def bare(self) -> typing.Any:
        return self.annotation if self.text is None else self.annotation.__origin__

    @property
    def pydantic_type(self) -> typing.Any:
        """The annotation, with that text as pydantic's description."""
        if self.text is None:
            return self.annotation
        from pydantic import Field

        return typing.Annotated[self.bare, Field(description=self.text)]

    @property
    def value_type(self) -> typing.Any:
        """The annotation without aliases, which pydantic allows only in fields."""
        kind: typing.Any = self.annotation
        if not self.has_field:
            return kind
        notes, kind = kind.__metadata__, kind.__origin__
        for note in notes:
            kind = typing.Annotated[kind, _without_alias(note) if is_field(note) else note]
        return kind

    @property
    def has_field(self) -> bool:
        return any(map(is_field, self._notes))

    @property
    def _notes(self) -> tuple[typing.Any, ...]:
        """The annotations in `Annotated`, the last first: pydantic prefers it."""
        return getattr(self.annotation, "__metadata__", ())[::-1]


_ALIASES = ("alias", "alias_priority", "validation_alias", "serialization_alias")


def _without_alias(field: typing.Any) -> typing.Any:
    copied = copy(field)
    copied._attributes_set = {name: value for name, value in field._attributes_set.items() if name not in _ALIASES}  # noqa: SLF001 - pydantic has no public way
    for name in _ALIASES:
        setattr(copied, name, None)
    return copied


def by_first_name(
    arguments: typing.Mapping[str, Json], accepted_names: typing.Iterable[typing.Sequence[str]]
) -> typing.Mapping[str, Json]:
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


class Signature(Struct, frozen=True):
    """A function's signature: the parameters that the caller fills, and those that the server fills."""

    parameters: tuple[Parameter, ...]
    context: str | None
    returns: typing.Any
    is_async: bool
    dependencies: "tuple[tuple[str, Provider], ...]" = ()

    @property
    def names(self) -> frozenset[str]:
        return frozenset(parameter.published_name for parameter in self.parameters)

    @property
    def required(self) -> frozenset[str]:
        return frozenset(parameter.published_name for parameter in self.parameters if parameter.required)


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
    for name, parameter in inspect.signature(function).parameters.items():
        check_kind(parameter, subject)
        if name not in injected_names:
            annotation = hints.get(name, typing.Any)
            if name == "ctx" and name not in hints:
                raise RegistrationError(f"{subject}: the parameter 'ctx' has no annotation; write ctx: Context")
            if type(parameter.default) is FunctionType:
                function_name = parameter.default.__name__
                raise RegistrationError(
                    f"{subject}: the parameter {name!r} has the function {function_name!r} as its default; "
                    f"write Depends({function_name}) to get its value"
                )
            unknown = type_without_schema(annotation)
            if unknown is not None:
                raise parameter_error(subject, name, unknown)
            default = fresh(parameter.default, f"{subject}: the parameter {name!r}")
            if is_field(default):
                annotation, default = typing.Annotated[annotation, default], NO_ANNOTATION
            parameters.append(Parameter(name, annotation, default))
    returns = hints.get("return", NO_ANNOTATION)
    return Signature(tuple(parameters), context, returns, is_async(function), read_dependencies(dependencies, subject))


_PYDANTIC_HOOKS = (
    "__get_pydantic_core_schema__",
    "__pydantic_core_schema__",
    "__get_validators__",
    "__dataclass_fields__",
)
_SUPPORTED_LIBRARIES = frozenset({"pydantic", "pydantic_core", "typing_extensions"})


def type_without_schema(annotation: typing.Any) -> type | None:
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


def read_dependencies(dependencies: DeclaredDependencies, subject: str) -> "tuple[tuple[str, Provider], ...]":
    if not dependencies:
        return ()
    return tuple((name, read_provider(dependency, subject)) for name, dependency in dependencies)


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
        f"{_in_brackets(cause)}; give it a type= that pydantic knows"
    )


def answer_cause(annotation: object, cause: str | None = None) -> str:
    return (
        f"returns: an answer cannot have the type {shown_type(annotation)}{_in_brackets(cause)}; "
        "use a type that pydantic knows, such as str, bool, a Literal or a dataclass"
    )


def shown_type(annotation: object) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation).replace("typing.", "")


def first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0].rstrip(". ")


def _in_brackets(cause: str | None) -> str:
    return f" ({cause})" if cause else ""


type Swap = Callable[[Factory], Factory]
"""Returns the factory that replaces a declared one."""


class Provider(Struct, frozen=True):
    """A dependency, and the properties of its factory. `is_context_manager` says whether the value is entered."""

    factory: Factory
    scope: Lifetime
    context: str | None
    needs: tuple[tuple[str, "Provider"], ...]
    is_context_manager: bool
    is_async: bool
    timeout_s: float
    defaults: dict[str, Any] = {}
    """The defaults of its parameters that it could change."""

    @property
    def limit_s(self) -> float:
        """The time limit with all its own dependencies, seconds."""
        return self.timeout_s + sum(need.limit_s for _, need in self.needs)

    @property
    def key(self) -> tuple[Factory, Lifetime]:
        """Identifies the one instance of a call or of the process."""
        return self.factory, self.scope


def read_provider(
    dependency: Dependency,
    subject: str,
    swap: Swap = lambda factory: factory,
    outer: tuple[tuple[Factory, Lifetime], ...] = (),
) -> Provider:
    """Read a dependency's factory, and those that it depends on. `outer` are the factories that depend on it."""
    factory, scope = swap(dependency.factory), dependency.scope
    name = factory_name(factory)
    try:
        hash(factory)
    except TypeError as error:
        cause = f"the dependency {factory!r} is not hashable; wrap it in a function"
        raise RegistrationError(f"{subject}: {cause}") from error
    factories = [item for item, _ in outer]
    if factory in factories:
        cycle = " -> ".join(factory_name(item) for item in (*factories[factories.index(factory) :], factory))
        raise RegistrationError(f"{subject}: these dependencies need each other: {cycle}")
    process_factory = next((item for item, item_scope in outer if item_scope == "process"), None)
    if process_factory is not None and scope == "request":
        raise RegistrationError(
            f"{subject}: {factory_name(process_factory)!r} is kept for the process and {name!r} is closed after each "
            f"call; give {name!r} scope='process', too"
        )
    context, dependencies = injected_parameters(factory, f"{subject}: the dependency {name!r}", is_factory=True)
    if context is not None and scope == "process":
        raise RegistrationError(f"{subject}: {name!r} is kept for the process, so it cannot take one call's Context")
    path = (*outer, (factory, scope))
    needs = tuple((parameter, read_provider(need, subject, swap, path)) for parameter, need in dependencies)
    injected_names = {context, *(parameter for parameter, _ in dependencies)}
    own_defaults = {name: value for name, value in defaults_of(factory).items() if name not in injected_names}
    defaults = changeable(own_defaults, f"{subject}: the dependency {name!r}")
    return Provider(factory, scope, context, needs, *_kind(factory), dependency.timeout_s, defaults)


def factory_name(factory: Factory) -> str:
    return getattr(factory, "__qualname__", None) or repr(factory)


def _kind(factory: Factory) -> tuple[bool, bool]:
    """Return whether the factory's value is entered as a context manager, and whether the factory is asynchronous.

    The return value of a plain function is not entered, because the function may share it.
    """
    if isinstance(factory, type):
        is_async = hasattr(factory, "__aenter__")
        return is_async or hasattr(factory, "__enter__"), is_async
    target = _innermost(factory)
    if inspect.isasyncgenfunction(target):
        return True, True
    return inspect.isgeneratorfunction(target), inspect.iscoroutinefunction(target)


def _innermost(factory: Factory) -> Any:
    """Return the function without decorators and `functools.partial`; for an object, its `__call__`."""
    target: Any = factory
    while True:
        if isinstance(target, functools.partial):
            target = target.func
        elif hasattr(target, "__wrapped__"):
            target = target.__wrapped__
        elif not inspect.isroutine(target):
            target = type(target).__call__
        else:
            return target
