"""Values of JSON: dotted paths into them, and comparisons (docs/workflows.md, Conditions). Pure."""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from mcp_baton.protocol.json import Json


def lookup(value: Json, path: str | None) -> Json:
    """Follow a dotted path into a JSON value. Raises `KeyError` if the path does not exist."""
    for key in path.split(".") if path else ():
        if isinstance(value, Mapping):
            value = value[key]
        elif isinstance(value, Sequence) and not isinstance(value, str) and is_index(key, len(value)):
            value = value[int(key)]
        else:
            raise KeyError(key)
    return value


def missing_field_text(value: Json, path: str) -> str:
    """The last existing part of a path in a value, and what it contains."""
    existing_keys: list[str] = []
    for key in path.split("."):
        try:
            value = lookup(value, key)
        except KeyError:
            break
        existing_keys.append(key)
    location = f"'{'.'.join(existing_keys)}'" if existing_keys else "it"
    match value:
        case None:
            return f"{location} is null"
        case bool() | int() | float():
            return f"{location} is a number or a truth value"
        case str():
            return f"{location} is a text"
        case Mapping():
            return f"{location} is an object without this field"
        case _:
            return f"{location} is a list of {len(value)} item{'s' * (len(value) != 1)}"


def is_index(key: str, length: int) -> bool:
    """Whether a key of a path is an index of a list that is so long."""
    return key.isascii() and key.isdigit() and len(key) < 10 and int(key) < length


def compare(word: str, left: Json, right: Json) -> bool | str:
    """Compare two JSON values by the operator of a `Condition`; or return why they cannot be compared."""
    match word:
        case "==":
            return is_equal(left, right)
        case "!=":
            return not is_equal(left, right)
        case "in":
            return isinstance(right, list) and any(is_equal(left, member) for member in right)
    kinds = {kind_of(left), kind_of(right)}
    if kinds not in ({"a number"}, {"a text"}):
        return f"{word} compares two numbers or two texts, but {kind_of(left)} and {kind_of(right)} were given"
    return _ORDER[word](left, right)


_ORDER: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def is_equal(left: Json, right: Json) -> bool:
    """Whether two JSON values are equal. In Python, but not in JSON, `True` equals 1."""
    pairs = [(left, right)]
    while pairs:  # not recursive, because values may be nested deep
        left, right = pairs.pop()
        if isinstance(left, bool) or isinstance(right, bool):
            is_same = left is right
        elif isinstance(left, list) and isinstance(right, list):
            is_same = len(left) == len(right)
            pairs += zip(left, right, strict=False)
        elif isinstance(left, Mapping) and isinstance(right, Mapping):
            is_same = left.keys() == right.keys()
            pairs += ((value, right[name]) for name, value in left.items() if is_same)
        else:
            is_same = left == right
        if not is_same:
            return False
    return True


def kind_of(value: Json) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a truth value"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case Mapping():
            return "an object"
        case _:
            return "a list"
