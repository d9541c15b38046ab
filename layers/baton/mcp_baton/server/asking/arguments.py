"""The arguments of a question, which `Context.elicit` takes in two orders (docs/tools.md, Asking the client)."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from mcp_baton.server.asking.asker import Question
from mcp_baton.server.asking.questions import elicitation, key_of, url_elicitation

OPTIONAL: Final = frozenset({"key", "timeout_s"})
"""What may be given by its name, beside the two that make a question."""


def question_of(method: str, place: int, positional: Sequence[Any], named: Mapping[str, Any]) -> Question:
    """The question that `Context.elicit` or `Context.elicit_url` was given.

    Args:
        method: Which of the two.
        place: The question's number in the call, from 1 on.
        positional: The arguments without names.
        named: Those with names.

    Raises:
        TypeError: they do not make a question.
        ValueError: the schema has a field that MCP's forms do not have, or the time is none.
    """
    second = "schema" if method == "elicit" else "url"
    given = question_arguments(method, ("message", second), positional, named)
    key = given.get("key") or key_of(place, given["message"])
    make = elicitation if method == "elicit" else url_elicitation
    return make(key, given["message"], given[second], timeout_s=given.get("timeout_s"))


def question_arguments(
    method: str, names: tuple[str, str], positional: Sequence[Any], named: Mapping[str, Any]
) -> dict[str, Any]:
    """A question's arguments by their names: these two, and `key` and `timeout_s` where they were given.

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
    count = len(positional) + len(given.keys() - OPTIONAL)
    order = ("key", *names) if count == len(names) + 1 and "key" not in given else names
    places = order[: len(positional)]
    if len(positional) > len(order) or given.keys() & set(places) or given.keys() - {*OPTIONAL, *names}:
        raise TypeError(f"{method}: give {names[0]}, {names[1]} and, where they are wanted, key=… and timeout_s=…")
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
