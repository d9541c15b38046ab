"""What a tool says to its `Context` in one order of arguments or another.

Each is taken where it can mean one thing only (docs/tools.md, Asking the client).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from mcp_baton.protocol.envelope import LOG_LEVELS
from mcp_baton.protocol.json import Json

UNSAID: Final[Any] = object()
"""Stands for an argument that was not given, where `None` is a value."""

DEFAULT_LEVEL: Final = "info"


def level_and_message(said: Sequence[Json], level: str, message: Json) -> tuple[str, Json]:
    """A log level and a message: `("info", "x")`, `("x", "info")`, `("x",)`, or named.

    Raises:
        TypeError: there are too many arguments, or no message.
        ValueError: there is no such level.
    """
    given = list(said)
    if message is UNSAID and level is UNSAID and len(given) == 2 and not _is_level(given[0]) and _is_level(given[1]):
        given.reverse()
    if level is UNSAID and (len(given) == 2 or (given and message is not UNSAID)):
        level = cast("str", given.pop(0))
    if message is UNSAID and given:
        message = given.pop(0)
    if given or message is UNSAID:
        raise TypeError("log: give a level and a message, in either order")
    level = DEFAULT_LEVEL if level is UNSAID else level
    if not _is_level(level):
        raise ValueError(f"log level {level!r}: use one of {', '.join(LOG_LEVELS)}")
    return level, message


def _is_level(value: Json) -> bool:
    return isinstance(value, str) and value in LOG_LEVELS


def asked(call: str, names: tuple[str, str], said: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """A question's arguments by their names: these two, and `key` where it was given.

    The two may stand in their order, or after the key, as they had to in 0.1.

    Args:
        call: The method, for its errors.
        names: `("message", "schema")`, or `("message", "url")`.
        said: The arguments without names.
        named: Those with names. `response_type` is another name for `schema`, and a schema may be left out.

    Raises:
        TypeError: they do not make a question.
    """
    given = {name: value for name, value in named.items() if (name, value) != ("response_type", None)}
    if "response_type" in given and "schema" in names:
        given.setdefault("schema", given.pop("response_type"))
    count = len(said) + len(given.keys() - {"key"})
    order = ("key", *names) if count == len(names) + 1 and "key" not in given else names
    places = order[: len(said)]
    if len(said) > len(order) or given.keys() & set(places) or given.keys() - {"key", *names}:
        raise TypeError(f"{call}: give {names[0]}, {names[1]} and, where it is wanted, key=…")
    made = {"schema": None, **dict(zip(places, said, strict=True)), **given}
    _check_texts(call, names, made)
    return made


def _check_texts(call: str, names: tuple[str, str], made: Mapping[str, Any]) -> None:
    for name in (name for name in names if name != "schema"):
        if not isinstance(made.get(name), str):
            raise TypeError(f"{call}: {name} must be a str, and is {made.get(name)!r}")
    key = made.get("key")
    if key is not None and (not isinstance(key, str) or not key):
        raise TypeError(f"{call}: key must be a str that is not empty, and is {key!r}")
    if isinstance(made["schema"], str):
        raise TypeError(
            f"{call}: schema must be a JSON Schema or a type, and is {made['schema']!r}; the message is first"
        )
