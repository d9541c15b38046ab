"""Parameters that the server fills: the `Context`, and those with `Depends`, whose values the server creates for a call
and closes after it (docs/tools.md)."""

import functools
import inspect
import math
import types
import typing
from collections.abc import Callable
from typing import Any, Final, Literal, get_args

from msgspec import Struct

from mcp_baton.exceptions import RegistrationError
from mcp_baton.tools.schema.defaults import changeable, defaults_of, parameters_of

type Lifetime = Literal["request", "process"]
"""The `scope` of `Depends`: created for each call and closed after it, or kept for the process."""
type Factory = Callable[..., object]

CREATION_TIMEOUT_S: Final = 30.0
"""The default time limit to create a process-scoped dependency, seconds."""


class CallContext:
    """The base of `Context`, by which signatures recognise it."""


class Dependency(Struct, frozen=True):
    """A declared dependency."""

    factory: Factory
    scope: Lifetime
    timeout_s: float = CREATION_TIMEOUT_S


def Depends(factory: Factory, scope: Lifetime = "request", timeout_s: float | None = None) -> Any:  # noqa: N802 - it is read as a type's name
    """Let the server fill a parameter: `db: Annotated[Database, Depends(database)]`, or `Depends` as its default.

    Args:
        factory: A plain function, a generator, a context manager (a class, or a function with
            `contextlib.contextmanager`), or the async form of these. Its parameters may be the `Context` and other
            dependencies.
        scope: `request`: created for each call and closed after it. `process`: created at the first use and kept.
        timeout_s: The time limit of a factory with the scope `process`, seconds; 30 by default. A call whose dependency
            takes longer fails, and the next call tries again.

    Raises:
        RegistrationError: the factory is not callable, the scope is unknown, or `timeout_s` is given for the scope
            `request` or is not above 0.
    """
    value: object = factory
    if not callable(value):
        name = getattr(value, "__name__", None) or "factory"
        raise RegistrationError(
            f"Depends({factory!r}): this is not a factory function; write Depends({name}), without calling it"
        )
    if scope not in get_args(Lifetime.__value__):
        raise RegistrationError(f"Depends(…, scope={scope!r}): the scope is 'request' or 'process'")
    if timeout_s is None:
        return Dependency(factory, scope)
    if scope == "request":
        raise RegistrationError(f"Depends(…, timeout_s={timeout_s!r}): timeout_s needs scope='process'; leave it out")
    if not 0 < timeout_s < math.inf:
        raise RegistrationError(f"Depends(…, timeout_s={timeout_s!r}): give a number of seconds above 0")
    return Dependency(factory, scope, timeout_s)


type DeclaredDependencies = list[tuple[str, Dependency]]
"""Parameters with their `Depends`."""


def injected_parameters(
    function: Callable[..., object], subject: str, *, is_factory: bool = False
) -> tuple[str | None, DeclaredDependencies]:
    """Return the parameter that takes the `Context`, and those with `Depends`. If `is_factory`, no caller fills the
    other parameters, so they need a default."""
    context: str | None = None
    dependencies: list[tuple[str, Dependency]] = []
    hints = type_hints(function, subject)
    for name, parameter in parameters_of(function).items():
        annotation = hints.get(name, Any)
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
        elif is_factory and parameter.default is parameter.empty and not _is_variadic(parameter):
            raise RegistrationError(
                f"{subject}: the parameter {name!r} has no value; use Depends, Context or a default"
            )
    return context, dependencies


def type_hints(function: Callable[..., object], subject: str) -> dict[str, Any]:
    """Return the resolved annotations of a function, of a class's `__init__`, or of an object's `__call__`."""
    target = _innermost(function)
    if isinstance(target, type):
        target = next(vars(base)["__init__"].__get__(None, base) for base in target.__mro__ if "__init__" in vars(base))
    try:
        return typing.get_type_hints(target, include_extras=True)
    except (NameError, SyntaxError, TypeError) as error:
        raise RegistrationError(
            f"{subject}: its annotations cannot be resolved: {error}; write a type whose name is defined or "
            "imported before the function, not only for type checkers"
        ) from error


def check_kind(parameter: inspect.Parameter, subject: str) -> None:
    """Raise `RegistrationError` if a parameter cannot be passed by its name."""
    if _is_variadic(parameter):
        has_type = parameter.annotation is not parameter.empty
        item = inspect.formatannotation(parameter.annotation) if has_type else "Any"
        container = f"dict[str, {item}]" if parameter.kind is parameter.VAR_KEYWORD else f"list[{item}]"
        remedy = f"name each parameter (a decorator needs functools.wraps), or write {parameter.name}: {container}"
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
    return isinstance(annotation, type) and issubclass(annotation, CallContext)


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


def read_dependencies(dependencies: DeclaredDependencies, subject: str) -> tuple[tuple[str, Provider], ...]:
    if not dependencies:
        return ()
    return tuple((name, read_provider(dependency, subject)) for name, dependency in dependencies)


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


def _innermost(function: Callable[..., object]) -> Any:
    """Return a function or a class without decorators and `functools.partial`; for another object, its `__call__`."""
    target: Any = function
    while True:
        if isinstance(target, functools.partial):
            target = target.func
        elif hasattr(target, "__wrapped__"):
            target = target.__wrapped__
        elif inspect.isroutine(target) or isinstance(target, type):
            return target
        else:
            target = type(target).__call__
