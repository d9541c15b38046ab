"""The arguments of a question, which `Context.elicit` takes in two orders (docs/tools.md, Asking the client)."""

from collections.abc import Mapping, Sequence
from typing import Any


def question_arguments(
    method: str, names: tuple[str, str], positional: Sequence[Any], named: Mapping[str, Any]
) -> dict[str, Any]:
    """A question's arguments by their names: these two, and `key` where it was given.

    The two may stand in their order, or after the key, as they had to in 0.1.

    Args:
        method: The method of `Context`, for its errors.
        names: `("message", "schema")`, or `("message", "url")`.
        positional: The arguments without names.
        named: Those with names. `response_type` is another name for `schema`, and a schema may be left out.

    Raises:
        TypeError: they do not make a question.
    """
    given = {name: value for name, value in named.items() if (name, value) != ("response_type", None)}
    if "response_type" in given and "schema" in names:
        given.setdefault("schema", given.pop("response_type"))
    count = len(positional) + len(given.keys() - {"key"})
    order = ("key", *names) if count == len(names) + 1 and "key" not in given else names
    places = order[: len(positional)]
    if len(positional) > len(order) or given.keys() & set(places) or given.keys() - {"key", *names}:
        raise TypeError(f"{method}: give {names[0]}, {names[1]} and, where it is wanted, key=…")
    made = {"schema": None, **dict(zip(places, positional, strict=True)), **given}
    _check_texts(method, names, made)
    return made


def _check_texts(method: str, names: tuple[str, str], made: Mapping[str, Any]) -> None:
    for name in (name for name in names if name != "schema"):
        if not isinstance(made.get(name), str):
            raise TypeError(f"{method}: {name} must be a str, and is {made.get(name)!r}")
    key = made.get("key")
    if key is not None and (not isinstance(key, str) or not key):
        raise TypeError(f"{method}: key must be a str that is not empty, and is {key!r}")
    if isinstance(made["schema"], str):
        raise TypeError(
            f"{method}: schema must be a JSON Schema or a type, and is {made['schema']!r}; the message is first"
        )
