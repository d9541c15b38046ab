"""The reasons of stopped steps as a task stores them. They share a bound (docs/storage.md)."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final, cast

from msgspec import ValidationError, convert, structs

from mcp_baton.protocol.json import Json, JsonObject, json_size
from mcp_baton.tasks.record import paused_step
from mcp_baton.workflow.pause import PauseReason, cut

MAX_REASONS_BYTES: Final = 4_096
MAX_STOP_BYTES: Final = 200
"""Stored reasons share so many bytes, and so many more for each of them. A step that has stopped has no stored
result and call, for which the head has room."""

SHARED_TEXTS: Final = (1_000, 250, 60)
"""Characters of a text in reasons that are too long: the first length with which they fit."""

MAX_SHARED_FIELDS: Final = 5
"""Members of a list in reasons that are too long."""

COUNTED: Final = frozenset({"failedItems", "unapproved"})
"""The lists of which a reason also has the length."""

FREE_TEXTS: Final = frozenset({"error", "problem", "message", "reason", "question", "condition", "resource"})
"""The members that are texts for people. The others are names and times."""


def parse_pause(stored: JsonObject | None) -> PauseReason | None:
    """The reason of a stored form; `None` without one, or if this version of Baton does not know it."""
    try:
        reason: PauseReason = convert(stored, PauseReason.__value__)
    except ValidationError:
        return None
    return reason


def parse_pauses(stored: Iterable[JsonObject]) -> tuple[PauseReason, ...]:
    """The reasons that this version of Baton knows."""
    return tuple(reason for reason in map(parse_pause, stored) if reason is not None)


def stored_pauses(reasons: Sequence[JsonObject]) -> tuple[JsonObject, ...]:
    """The reasons as they are stored. They share a bound: their texts are cut, then their lists, which are then left
    out, and so are the last reasons if that is not enough."""
    questions = (cast("Iterable[JsonObject]", reason.get("questions", ())) for reason in reasons)
    steps = {*map(paused_step, reasons), *(question["name"] for question in chain.from_iterable(questions))}
    bound = MAX_REASONS_BYTES + MAX_STOP_BYTES * len(steps)
    if json_size(reasons) <= bound:
        return tuple(reasons)
    for limit in SHARED_TEXTS:
        fitting = [_cut_texts(reason, limit) for reason in reasons]
        if json_size(fitting) <= bound:
            return tuple(fitting)
    fitting = [{name: _without_details(name, value) for name, value in reason.items()} for reason in fitting]
    if json_size(fitting) > bound:
        fitting = [{name: value for name, value in reason.items() if name not in COUNTED} for reason in fitting]
    while len(fitting) > 1 and json_size(fitting) > bound:
        fitting.pop()
    return tuple(fitting)


def with_pause(
    stored: Sequence[JsonObject], step: str, reason: PauseReason | None, steps: Sequence[str]
) -> tuple[JsonObject, ...]:
    """The stored reasons with another one of this step, or without one.

    Args:
        steps: The names of all steps, in order.
    """
    others = [other for other in stored if paused_step(other) != step]
    reasons = others if reason is None else [*others, reason.to_json()]
    places = {name: index for index, name in enumerate(steps)}
    return stored_pauses(sorted(reasons, key=lambda each: places.get(str(paused_step(each)), len(places))))


def shortened(reason: PauseReason, limit: int) -> PauseReason:
    """A reason with shorter texts for people."""
    texts = {name: cut(text, limit) for name in FREE_TEXTS if isinstance(text := getattr(reason, name, None), str)}
    return structs.replace(reason, **texts)


def _cut_texts(value: Any, limit: int) -> Any:
    """A stored reason with shorter texts for people."""
    if isinstance(value, Mapping):
        return {
            name: cut(member, limit) if name in FREE_TEXTS else _cut_texts(member, limit)
            for name, member in value.items()
        }
    return [_cut_texts(member, limit) for member in value] if isinstance(value, list) else value


def _without_details(name: str, value: Json) -> Json:
    """A member of a reason with the first items of a list; for questions, without the schemas of the answers."""
    if not isinstance(value, list):
        return value
    if name == "questions":
        return [{**question, "schema": {}} for question in value if isinstance(question, Mapping)]
    return [cut(item, SHARED_TEXTS[-1]) for item in value[:MAX_SHARED_FIELDS]]
