"""What `inspect` says of functions, without its import for the plain ones, which most are.

`inspect` brings `ast`, `dis` and `tokenize`: a twentieth of a cold start. Anything but a function that `def` made,
such as a wrapped one, a class or a `functools.partial`, is left to it.
"""

from collections.abc import Callable, Mapping
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, Protocol, TypeGuard

_VARIABLE, _COROUTINE, _ASYNC_GENERATOR = 0x04 | 0x08, 0x80, 0x200
"""Flags of a code object: takes `*args` or `**kwargs`; is of an `async def`; of one with `yield`
(https://docs.python.org/3/library/inspect.html#code-objects-bit-flags)."""


class NO_ANNOTATION:  # noqa: N801 - a value, like `inspect.Parameter.empty`
    """Stands for a default, or an annotation, that is not there."""


class Parameter(Protocol):
    """A parameter, as far as it is looked at: `inspect.Parameter` and `Plain`."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def default(self) -> Any:
        """Its default; `NO_ANNOTATION` where it has none."""

    @property
    def fault(self) -> str | None:
        """Why it cannot be published; `None` where it can."""

    @property
    def is_rest(self) -> bool:
        """Whether it is `*args` or `**kwargs`."""


class _Plain:
    """A parameter that is passed by name."""

    __slots__ = ("default", "name")
    fault = None
    is_rest = False

    def __init__(self, name: str, default: Any) -> None:
        self.name, self.default = name, default


class _Inspected:
    """A parameter of a function that `inspect` has read."""

    __slots__ = ("default", "fault", "is_rest", "name")

    def __init__(self, parameter: Any) -> None:
        self.name: str = parameter.name
        self.default = NO_ANNOTATION if parameter.default is parameter.empty else parameter.default
        self.is_rest = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        self.fault: str | None = None
        if self.is_rest:
            self.fault = f"the parameter {parameter} has no schema; {_instead_of_rest(parameter)}"
        elif parameter.kind is parameter.POSITIONAL_ONLY:
            self.fault = f"the parameter {parameter.name!r} is positional-only; make it a plain one"


def _instead_of_rest(parameter: Any) -> str:
    """What to write instead of `*args` or `**kwargs`."""
    import inspect

    kind = parameter.annotation
    each = "Any" if kind is parameter.empty else inspect.formatannotation(kind)
    several = f"dict[str, {each}]" if parameter.kind is parameter.VAR_KEYWORD else f"list[{each}]"
    return f"name each parameter, or write {parameter.name}: {several}"


def parameters_of(function: Callable[..., object]) -> Mapping[str, Parameter]:
    """The parameters of anything that can be called, in order.

    Raises:
        ValueError: it has no signature, as some built-in types.
    """
    if _is_plain(function) and not function.__code__.co_flags & _VARIABLE and not function.__code__.co_posonlyargcount:
        return _read(function)
    import inspect

    return {name: _Inspected(parameter) for name, parameter in inspect.signature(function).parameters.items()}


def _read(function: FunctionType) -> Mapping[str, Parameter]:
    code = function.__code__
    positional = code.co_varnames[: code.co_argcount]
    keyword_only = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    defaults = function.__defaults__ or ()
    known = dict(zip(positional[len(positional) - len(defaults) :], defaults, strict=True))
    known |= function.__kwdefaults__ or {}
    return {name: _Plain(name, known.get(name, NO_ANNOTATION)) for name in (*positional, *keyword_only)}


def _is_plain(function: object) -> TypeGuard[FunctionType]:
    """Whether it is what `def` made, with nothing put on it: no `__wrapped__`, no `__signature__`, no other mark."""
    return type(function) is FunctionType and not vars(function)


def unwrapped(function: Callable[..., object]) -> Any:
    """The function inside of what `functools.wraps` made."""
    if not hasattr(function, "__wrapped__"):
        return function
    import inspect

    return inspect.unwrap(function)


def is_routine(function: object) -> bool:
    """Whether it is a function or a method, of Python's own too, and no other object that can be called."""
    if isinstance(function, FunctionType | MethodType | BuiltinFunctionType):
        return True
    import inspect

    return inspect.isroutine(function)


def is_async(function: Callable[..., object]) -> bool:
    """Whether calling it makes a coroutine, of an object with an asynchronous `__call__` too."""
    if _is_plain(function):
        return bool(function.__code__.co_flags & _COROUTINE)
    import inspect

    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004 - asks whether `__call__` is async


def is_async_generator(function: Callable[..., object]) -> bool:
    """Whether calling it makes an asynchronous generator."""
    if _is_plain(function):
        return bool(function.__code__.co_flags & _ASYNC_GENERATOR)
    import inspect

    return inspect.isasyncgenfunction(function)


def clean(documentation: str) -> str:
    """A docstring without the indentation of its source, as `inspect.cleandoc`."""
    first, *rest = documentation.expandtabs().split("\n")
    margin = min((len(line) - len(line.lstrip(" ")) for line in rest if line.strip(" ")), default=0)
    return "\n".join([first.lstrip(" "), *(line[margin:] for line in rest)]).strip("\n")
