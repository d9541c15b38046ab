"""`dataclass`, `field` and `replace` as the standard library has them, at a small part of what they cost at import.

The standard decorator writes five methods a class as text and compiles them, and its module imports `inspect`: together
a fifth of a cold start. Here all methods but `__init__` are shared, and `__init__` is compiled when a class makes its
first instance. Type checkers are shown the standard library's; `dataclasses.fields`, `asdict`, `replace` and
`is_dataclass` take these classes too (https://docs.python.org/3/library/dataclasses.html).
"""

from collections.abc import Callable, Mapping
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, ClassVar, get_origin

__all__ = ["dataclass", "field", "replace"]

MISSING: Any = type("Missing", (), {"__repr__": lambda _: "<made for each instance>"})()


class _Field:
    """What is known of one field: its default or what makes it, and which methods look at it."""

    __slots__ = ("compare", "default", "default_factory", "repr")

    def __init__(self, default: Any, default_factory: Any = MISSING, repr: bool = True, compare: bool = True) -> None:  # noqa: A002 - the standard library's name
        self.default, self.default_factory, self.repr, self.compare = default, default_factory, repr, compare


class Shape:
    """The fields of one class, and how it was decorated."""

    __slots__ = ("compared", "fields", "frozen", "keywords_only", "printed", "types")

    def __init__(self, fields: dict[str, _Field], types: Mapping[str, Any], frozen: bool, keywords_only: bool) -> None:
        self.fields, self.types, self.frozen, self.keywords_only = fields, types, frozen, keywords_only
        self.printed = [name for name, each in fields.items() if each.repr]
        self.compared = [name for name, each in fields.items() if each.compare]


def _dataclass(
    *,
    frozen: bool = False,
    slots: bool = False,
    init: bool = True,
    repr: bool = True,  # noqa: A002 - the standard library's name
    eq: bool = True,
    kw_only: bool = False,
) -> Callable[[type], type]:
    """As `dataclasses.dataclass`; only with `slots=True`."""
    if not slots:
        raise TypeError("dataclass: say slots=True; others are not made here")

    def decorate(cls: type) -> type:
        namespace = dict(vars(cls))
        shape = _shape(cls, namespace, frozen, kw_only)
        inherited = {name for base in cls.__mro__ for name in vars(base).get("__slots__", ())}
        added = _methods(shape, init, repr, eq)
        made: type = type(cls)(
            cls.__name__,
            cls.__bases__,
            {
                **added,
                **{name: value for name, value in namespace.items() if name not in ("__dict__", "__weakref__")},
                "__slots__": tuple(name for name in shape.fields if name not in inherited),
                "__dataclass_shape__": shape,
                "__dataclass_fields__": _STANDARD_FIELDS,
                "__dataclass_params__": _STANDARD_PARAMS,
            },
        )
        made.__qualname__ = cls.__qualname__
        first_init = vars(made).get("__init__")
        if isinstance(first_init, _FirstInit):
            first_init.home = made
        return made

    return decorate


def _shape(cls: type, namespace: dict[str, Any], frozen: bool, keywords_only: bool) -> Shape:
    """What the annotations and defaults say; takes the defaults out of the namespace, where slots will be."""
    fields: dict[str, _Field] = {}
    types: dict[str, Any] = {}
    for base in reversed(cls.__mro__[1:]):
        if known := vars(base).get("__dataclass_shape__"):
            fields |= known.fields
            types |= known.types
    for name, annotation in _annotations(cls).items():
        if annotation is ClassVar or get_origin(annotation) is ClassVar:
            continue
        default = namespace.pop(name, MISSING)
        fields[name] = default if isinstance(default, _Field) else _Field(default)
        types[name] = annotation
    return Shape(fields, types, frozen, keywords_only)


def _annotations(cls: type) -> Mapping[str, Any]:
    own: Mapping[str, Any] | None = vars(cls).get("__annotations__")
    if own is not None or "__annotate_func__" not in vars(cls):
        return own or {}
    # From Python 3.14 on they are evaluated when they are asked for, and may name what only type checkers import.
    try:
        return cls.__annotations__
    except NameError:
        from importlib import import_module

        reader: Any = import_module("annotationlib")
        found: Mapping[str, Any] = reader.get_annotations(cls, format=reader.Format.FORWARDREF)
        return found


def _methods(shape: Shape, init: bool, repr: bool, eq: bool) -> dict[str, Any]:  # noqa: A002 - the standard library's name
    """What the class has besides what its body says."""
    names = () if shape.keywords_only else tuple(shape.fields)
    methods: dict[str, Any] = {"__match_args__": names, "__replace__": _replace}
    if init:
        methods["__init__"] = _FirstInit()
    if repr:
        methods["__repr__"] = _repr
    if eq:
        methods |= {"__eq__": _eq, "__hash__": _hash if shape.frozen else None}
    if shape.frozen:
        methods |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
        methods |= {"__getstate__": _state, "__setstate__": _set_state}
    return methods


class _FirstInit:
    """Stands for `__init__` until somebody looks at it: the first instance does."""

    __slots__ = ("home",)
    home: type

    def __get__(self, instance: object, owner: type) -> Any:
        function = _compile_init(self.home, _shape_of(self.home))
        setattr(self.home, "__init__", function)  # noqa: B010 - the same method, compiled
        return function.__get__(instance, owner)


def _compile_init(cls: type, shape: Shape) -> Any:
    parameters, body, known = [], [], {"MISSING": MISSING, "__builtins__": {}}
    for name, each in shape.fields.items():
        value = name
        if each.default_factory is not MISSING:
            known[f"_make_{name}"] = each.default_factory
            value = f"_make_{name}() if {name} is MISSING else {name}"
            parameters.append(f"{name}=MISSING")
        elif each.default is not MISSING:
            known[f"_default_{name}"] = each.default
            parameters.append(f"{name}=_default_{name}")
        else:
            parameters.append(name)
        # The slot itself sets what `__setattr__` refuses to.
        known[f"_set_{name}"] = getattr(cls, name).__set__
        body.append(f" _set_{name}(self, {value})" if shape.frozen else f" self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append(" self.__post_init__()")
    keywords = ["*"] if shape.keywords_only and parameters else []
    text = f"def __init__({', '.join(['self', *keywords, *parameters])}):\n" + ("\n".join(body) or " pass")
    exec(text, known)  # noqa: S102 - its names are a class's annotations
    function: Any = known["__init__"]
    function.__qualname__, function.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    function.__annotations__ = {**shape.types, "return": None}
    return function


def _shape_of(cls: type) -> Shape:
    shape: Shape = cls.__dataclass_shape__  # type: ignore[attr-defined]  # `_dataclass` puts it there
    return shape


@recursive_repr()
def _repr(self: Any) -> str:
    shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in _shape_of(type(self)).printed)
    return f"{type(self).__qualname__}({shown})"


def _compared(self: Any) -> tuple[Any, ...]:
    return tuple([getattr(self, name) for name in _shape_of(type(self)).compared])


def _eq(self: Any, other: Any) -> Any:
    return _compared(self) == _compared(other) if other.__class__ is self.__class__ else NotImplemented


def _hash(self: Any) -> int:
    return hash(_compared(self))


def _refuse_to_set(self: Any, name: str, value: Any) -> None:
    _check_open(self, name, "assign to")
    object.__setattr__(self, name, value)


def _refuse_to_delete(self: Any, name: str) -> None:
    _check_open(self, name, "delete")
    object.__delattr__(self, name)


def _check_open(self: Any, name: str, act: str) -> None:
    """Fields are frozen, and so is everything but what a subclass that is not decorated adds."""
    if "__dataclass_shape__" in vars(type(self)) or name in _shape_of(type(self)).fields:
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot {act} field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, name) for name in _shape_of(type(self)).fields]


def _set_state(self: Any, state: list[Any]) -> None:
    for name, value in zip(_shape_of(type(self)).fields, state, strict=True):
        object.__setattr__(self, name, value)


def _replace(self: Any, /, **changes: Any) -> Any:
    return self.__class__(**{name: getattr(self, name) for name in _shape_of(type(self)).fields} | changes)


def _field(
    *,
    default: Any = MISSING,
    default_factory: Any = MISSING,
    repr: bool = True,  # noqa: A002 - the standard library's name
    compare: bool = True,
) -> Any:
    """As `dataclasses.field`."""
    return _Field(default, default_factory, repr, compare)


class _Standard:
    """What the standard library's functions look for on a class, made when they do."""

    __slots__ = ("_read",)

    def __init__(self, attribute: str) -> None:
        self._read = attrgetter(attribute)

    def __get__(self, instance: object, owner: type) -> Any:
        from mcp_baton.standard_twin import standard_twin

        return self._read(standard_twin(_shape_of(owner), MISSING))


_STANDARD_FIELDS, _STANDARD_PARAMS = _Standard("__dataclass_fields__"), _Standard("__dataclass_params__")


if TYPE_CHECKING:
    from dataclasses import dataclass, field, replace
else:
    dataclass, field, replace = _dataclass, _field, _replace
