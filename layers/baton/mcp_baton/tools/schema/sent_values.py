"""Values as a client has sent them, beside their JSON Schema and beside the values that they were converted into.

Converted values do not show what was sent: a model may exclude a field, a secret is masked, a set has another order in
each process, and an iterator can be read once. So calls are compared and shown by what was sent.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from enum import Enum
from typing import Any, Final, cast

from mcp_baton.protocol.json import Json, JsonObject, to_json
from mcp_baton.tasks.keys import canonical_text

type Path = tuple[str | int, ...]

NOT_FINITE: Final = "Input should be a finite number"

_COMBINATIONS: Final = ("anyOf", "oneOf", "allOf")
_TRUTH: Final = {
    **dict.fromkeys(("true", "t", "yes", "y", "on", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "off", "0"), False),
}
"""The texts that pydantic converts to a boolean."""


# Values beside their schema


def described_parts(value: Json, schema: JsonObject) -> Iterator[tuple[Path, Json, list[JsonObject]]]:
    """Yield a value and all its parts, each with its path and the schemas that may describe it."""
    definitions = cast("JsonObject", schema.get("$defs", {}))
    open_parts: list[tuple[Path, Json, list[JsonObject]]] = [((), value, [schema])]
    while open_parts:
        path, part, schemas = open_parts.pop()
        options = all_options(schemas, definitions)
        yield path, part, options
        for key, child in _children(part):
            inner = [found for option in options if isinstance(found := member(option, key), Mapping)]
            if inner:
                open_parts.append(((*path, key), child, inner))


def _children(value: Json) -> Iterator[tuple[str | int, Json]]:
    if isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, list):
        yield from enumerate(value)


def all_options(schemas: list[JsonObject], definitions: JsonObject) -> list[JsonObject]:
    """Return schemas with all their alternatives, and with the schemas that they refer to."""
    options, names = list(schemas), set[str]()
    for option in options:  # grows meanwhile
        name = str(option.get("$ref", "")).removeprefix("#/$defs/")
        if name in definitions and name not in names:
            names.add(name)
            options.append(cast("JsonObject", definitions[name]))
        for combination in _COMBINATIONS:
            parts = cast("list[Json]", option.get(combination, []))
            options += [part for part in parts if isinstance(part, Mapping)]
    return options


def member(schema: JsonObject, key: str | int) -> Json:
    if isinstance(key, int):
        first_items = cast("list[Json]", schema.get("prefixItems", []))
        return first_items[key] if key < len(first_items) else schema.get("items")
    properties = cast("JsonObject", schema.get("properties", {}))
    return properties.get(key, schema.get("additionalProperties"))


def is_secret(options: Sequence[JsonObject]) -> bool:
    """Whether these schemas describe a secret, such as pydantic's `SecretStr`."""
    return any(option.get("writeOnly") is True or option.get("format") == "password" for option in options)


def without_secrets(value: Json, converted: object, schema: JsonObject, replacement: Json) -> Json:
    """Return a value with each secret replaced: what its schema describes as secret, and what was converted to a type
    such as `Secret[int]`, whose schema does not say so. If it is not known which part a secret was made of, such as one
    in a set or a key, all of the value is replaced."""
    parts = {path: part for path, _, part in converted_parts(value, converted)}
    found = {path for path, part in parts.items() if hasattr(part, "get_secret_value")}
    paths = {path for path, _, options in described_parts(value, schema) if is_secret(options)}
    count = sum(hasattr(part, "get_secret_value") for part in inner_values(converted, read_iterators=True))
    if count > len(found) + sum(parts.get(path) is None for path in paths):
        return replacement
    return replaced(value, paths | found, lambda _: replacement)


NO_PART: Final[Any] = object()
"""Stands for a part that is left out."""


def replaced(value: Json, paths: set[Path], replace: Callable[[Json], Json]) -> Json:
    """Return a copy of a value with the parts at these paths replaced, the inner ones first. A member that becomes
    `NO_PART` is left out."""
    inner: dict[str | int, set[Path]] = {}
    for path in paths:
        if path:
            inner.setdefault(path[0], set()).add(path[1:])
    if inner and isinstance(value, Mapping):
        members = {key: replaced(item, inner.get(key, set()), replace) for key, item in value.items()}
        value = {key: item for key, item in members.items() if item is not NO_PART}
    elif inner and isinstance(value, list):
        value = [replaced(item, inner.get(index, set()), replace) for index, item in enumerate(value)]
    return replace(value) if () in paths else value


def dumped_value(sent: Json, dumped: Json, converted: object, read_schema: Callable[[], JsonObject]) -> Json:
    """Return a dumped value with its sets sorted. If the dump lacks a part that was sent, return what was sent."""
    dumped = sorted_sets(dumped, converted)
    try:
        schema = read_schema()
    except Exception:  # noqa: BLE001 - some types can be converted and have no schema
        return dumped
    for path, _, options in described_parts(sent, schema):
        if is_secret(options) or not _has_part(dumped, path):
            return sent
    return dumped


def json_of(value: object) -> Json:
    """Convert any Python value to JSON (`to_json`), with its sets sorted."""
    return to_json(value, sorted_sets)


def sorted_sets(dumped: Json, value: object) -> Json:
    """Return a dumped value with its sets sorted: their order differs in each process, and the same call must have the
    same idempotency key."""
    if not any(isinstance(part, set | frozenset) for part in inner_values(value)):
        return dumped
    parts = converted_parts(dumped, value, lists=Collection)
    return replaced(dumped, {path for path, _, part in parts if isinstance(part, set | frozenset)}, _sorted)


def _sorted(items: Json) -> Json:
    return sorted(cast("list[Json]", items), key=canonical_text) if isinstance(items, list) else items


def _has_part(value: Json, path: Path) -> bool:
    for key in path:
        if isinstance(value, Mapping):
            if key not in value:
                return False
            value = value[str(key)]
        else:
            return True  # a list may be shorter than what was sent: a set
    return True


# Values beside what they were converted into


def canonical_value(sent: Json, converted: object) -> Json:
    """Return what was sent, with each number and boolean as it was converted: `"5"` for an `int` becomes `5`."""
    kind = type(converted)
    if type(sent) in (int, float):
        return cast("Json", converted) if kind in (int, float) and sent == converted else sent
    if isinstance(sent, str):
        if kind is bool:
            return cast("Json", converted) if _TRUTH.get(sent.strip().lower()) is converted else sent
        return cast("Json", converted) if kind in (int, float) and _number_in(sent) == converted else sent
    parts = [(key, canonical_value(item, part)) for key, item, part in _converted_children(sent, converted)]
    if isinstance(sent, Mapping):
        return {str(key): part for key, part in parts}
    return [part for _, part in parts] if parts else sent


def _number_in(text: str) -> object:
    for convert in (int, float):
        with suppress(ValueError):
            return convert(text)
    return None


def converted_parts(sent: Json, converted: object, lists: Any = Sequence) -> Iterator[tuple[Path, Json, object]]:
    """Yield a value and its parts, each with its path and what it was converted into. The order of a set and the parts
    of an iterator are not known.

    Args:
        lists: What a list was converted into. A dumped set has the order of the set (`Collection`).
    """
    open_parts: list[tuple[Path, Json, object]] = [((), sent, converted)]
    while open_parts:
        path, sent, converted = open_parts.pop()
        if getattr(type(converted), "__pydantic_root_model__", False):
            converted = getattr(converted, "root", None)
        yield path, sent, converted
        open_parts += [((*path, key), item, part) for key, item, part in _converted_children(sent, converted, lists)]


def _converted_children(
    sent: Json, converted: object, lists: Any = Sequence
) -> Iterator[tuple[str | int, Json, object]]:
    if isinstance(sent, Mapping):
        if isinstance(converted, Mapping) and len(sent) == len(converted) and sent.keys().isdisjoint(converted):
            converted = dict(zip(sent, converted.values(), strict=True))  # the keys were converted
        yield from ((key, item, _part(converted, key)) for key, item in sent.items())
    elif isinstance(sent, list) and isinstance(converted, lists) and len(sent) == len(converted):
        yield from zip(range(len(sent)), sent, converted, strict=True)


def _part(converted: object, key: str) -> object:
    if isinstance(converted, Mapping):
        return converted.get(key)
    fields = getattr(type(converted), "__pydantic_fields__", {})
    field = fields.get(key)
    if field is None or field.validation_alias not in (None, key):
        key = next((name for name, field in fields.items() if key in _aliases(field)), key)
    extra = getattr(converted, "__pydantic_extra__", None) or {}
    if key in extra:
        return extra[key]
    return vars(converted).get(key) if hasattr(converted, "__dict__") else getattr(converted, key, None)


def _aliases(field: Any) -> Sequence[object]:
    return [field.serialization_alias, *getattr(field.validation_alias, "choices", (field.validation_alias,))]


NO_STATIC_DEFAULT: Final = object()
_TEXT_MODULES: Final = frozenset({"datetime", "decimal", "ipaddress", "pathlib", "uuid"})
"""Modules of types whose values are texts in JSON, which show all of them."""


def static_default(default: object) -> Any:
    """Return a default as JSON, if its JSON shows all of it; otherwise `NO_STATIC_DEFAULT`."""
    if isinstance(default, Enum):
        return static_default(default.value)
    if default is None or type(default) in (str, int, bool):
        return default
    if type(default) is float:
        return default if math.isfinite(default) else NO_STATIC_DEFAULT
    if isinstance(default, set | frozenset):
        default = sorted(default, key=repr)
    if type(default).__module__.partition(".")[0] in _TEXT_MODULES:
        try:
            return to_json(default)
        except ValueError:  # a time zone
            return NO_STATIC_DEFAULT
    if type(default) in (list, tuple):
        items = [static_default(item) for item in cast("list[object]", default)]
        return NO_STATIC_DEFAULT if NO_STATIC_DEFAULT in items else items
    if type(default) is dict and all(type(key) is str for key in default):
        members = {key: static_default(item) for key, item in default.items()}
        return NO_STATIC_DEFAULT if NO_STATIC_DEFAULT in members.values() else members
    return NO_STATIC_DEFAULT


# Numbers


def infinite_numbers(sent: Json, converted: object, read_schema: Callable[[], JsonObject]) -> list[str]:
    """Return the fields in which a text such as `"nan"` or `"1e999"` was sent for a number.

    Args:
        read_schema: Returns the schema of what was sent. It is called only if there is such a text.
    """
    if next(_texts(sent), None) is None:
        return []
    paths = list[Path]()
    if any(map(_is_infinite_text, _texts(sent))):
        try:
            schema = read_schema()
        except Exception:  # noqa: BLE001 - some types can be converted and have no schema
            schema = {}
        # The schema describes fields that converted values hide.
        paths = [
            path
            for path, part, options in described_parts(sent, schema)
            if isinstance(part, str) and _is_infinite_text(part) and _is_only_a_number(options)
        ]
    # Converted values show numbers of which the schema knows nothing: "nan+1j" for a complex number, "[NaN]" for JSON.
    if not paths:
        paths = [path for path, part, value in converted_parts(sent, converted) if _became_infinite(part, value)]
    return [".".join(map(str, item)) or "value" for item in paths]


def _texts(value: Json) -> Iterator[str]:
    """Yield all texts in a value, also the names of members."""
    open_parts = [value]
    while open_parts:
        part = open_parts.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part, Mapping):
            open_parts += [*part, *part.values()]
        elif isinstance(part, list):
            open_parts += part


def _became_infinite(sent: Json, converted: object) -> bool:
    """Whether a text, or the name of a member, was converted to a number that is not finite, or has one in it."""
    if isinstance(sent, str):
        return not (isinstance(converted, str) or is_finite(converted))
    if isinstance(sent, Mapping) and isinstance(converted, Mapping):
        return not is_finite(list(converted))
    return isinstance(sent, list) and isinstance(converted, Set) and not is_finite(converted)


def _is_infinite_text(text: str) -> bool:
    try:
        return not math.isfinite(float(text.replace("_", "")))  # pydantic accepts underscores between all characters
    except ValueError:
        return False


def _is_only_a_number(options: list[JsonObject]) -> bool:
    types = set[Json]()
    for option in options:
        kind = option.get("type")
        types |= set(kind) if isinstance(kind, list) else {kind}
        if kind is None and not option.keys() & {"$ref", *_COMBINATIONS}:
            return False  # any value is valid
    return bool(types & {"number", "integer"}) and "string" not in types


def is_finite(value: object) -> bool:
    """Whether all numbers in a converted value are finite."""
    from numbers import Number

    return all(_is_finite_number(part) for part in inner_values(value) if isinstance(part, Number))


def inner_values(value: object, *, read_iterators: bool = False) -> Iterator[object]:
    """Yield a converted value and all values inside it, but no texts, integers and booleans: they need no check, and
    most values are such. An iterator that was read is empty for the tool."""
    open_parts, seen = [value], dict[int, object]()
    while open_parts:
        part = open_parts.pop()
        if type(part) in (str, int, bool) or id(part) in seen:
            continue
        seen[id(part)] = part
        yield part
        if isinstance(part, Mapping):
            open_parts += [*part, *part.values()]
        elif isinstance(part, Iterator):
            open_parts += part if read_iterators else ()
        elif isinstance(part, Collection) and not isinstance(part, str | bytes | bytearray):
            open_parts += part
        elif hasattr(part, "__dataclass_fields__") or hasattr(part, "__pydantic_fields__"):
            slots = [name for name in getattr(part, "__slots__", ()) if name not in _NO_VALUES]
            open_parts += [getattr(part, name, None) for name in slots]
            open_parts += vars(part).values() if hasattr(part, "__dict__") else ()


_NO_VALUES: Final = ("__dict__", "__pydantic_fields_set__")
"""Slots of a model that have no values besides those of its fields. The set of names would look like a set to sort."""


def _is_finite_number(number: Any) -> bool:
    if isinstance(number, int):
        return True
    try:
        return all(map(math.isfinite, (number.real, number.imag)))
    except (OverflowError, ValueError):  # a fraction that is too large for a float; a signalling NaN
        return False
