"""What of a board stands in an answer, and what gives way: hosts cut results of more than about 25,000 tokens
(docs/console.md, How much is shown). Pure."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from mcp_baton.protocol.json import Json, JsonObject, dumps

LONG: Final = 2_000
"""Bytes of a value as JSON that stands in a board; a longer one is `{bytes, uri}`, or `{bytes}`."""

ALL: Final = 40_000
"""Bytes of the whole structure as JSON."""


class Part(Struct, frozen=True):
    """A value of a step, which may stand in the structure.

    Attributes:
        step: The step's place.
        member: What it is of the step: `result` or `arguments`.
        value: The value; `None` where it is not at hand.
        size: Its length as JSON, bytes.
        note: What stands in its place where it does not fit.
    """

    step: int
    member: str
    value: Json
    size: int
    note: JsonObject

    @property
    def more(self) -> int:
        """The bytes that the value takes beyond its note. A result stands there twice: with its step, and among the
        results."""
        return (self.size - size_of(self.note)) * (2 if self.member == "result" else 1)


class Call(Struct, frozen=True):
    """A call, or a resource to read, that remains.

    Attributes:
        entry: As `next` lists it.
        missing: The names of the arguments that somebody has to give.
        schema: The input schema of its tool, without `task_id`; `None` for a resource.
    """

    entry: JsonObject
    missing: Sequence[str]
    schema: JsonObject | None


class Fitted(Struct, frozen=True):
    """What stands in the structure.

    Attributes:
        whole: The parts that stand there themselves; of the others their notes do.
        calls: The calls that stand there, the first in any case.
        with_schema: The places of those whose schema stands there, too.
    """

    whole: frozenset[tuple[int, str]]
    calls: Sequence[Call]
    with_schema: frozenset[int]


def fitted(bare: int, parts: Sequence[Part], calls: Sequence[Call]) -> Fitted:
    """What fits: the first call with its schema, the calls after it in their order, values from the shortest on, and
    the other calls' schemas.

    Args:
        bare: The bytes of the structure with a note for each part, and without calls.
        parts: The values.
        calls: What remains, in order.
    """
    left = ALL - bare
    shown: list[Call] = []
    with_schema: set[int] = set()
    for place, call in enumerate(calls):
        cost = _cost(call)
        if place and cost > left:
            break
        shown.append(call)
        left -= cost
        if place == 0 and call.schema is not None and size_of(call.schema) <= left:
            with_schema.add(place)
            left -= size_of(call.schema)
    whole: set[tuple[int, str]] = set()
    for part in sorted(parts, key=lambda part: part.size):
        if part.size <= LONG and part.more <= left:
            whole.add((part.step, part.member))
            left -= part.more
    for place, call in enumerate(shown):
        if place not in with_schema and call.schema is not None and size_of(call.schema) <= left:
            with_schema.add(place)
            left -= size_of(call.schema)
    return Fitted(frozenset(whole), shown, frozenset(with_schema))


def _cost(call: Call) -> int:
    """An entry stands there twice: in `next`, and in the board's, which says what is missing, too."""
    return 2 * size_of(call.entry) + size_of(list(call.missing)) + len('"missing":,"schema":,,')


def size_of(value: Json) -> int:
    """A value's length as JSON, bytes."""
    return len(dumps(value).encode())


def shown(part: Part, fits: Fitted) -> Json:
    """The value, or what stands in its place."""
    return part.value if (part.step, part.member) in fits.whole else dict(part.note)


def of_board(call: Call, *, with_schema: bool) -> Mapping[str, Json]:
    """A call as the board has it."""
    made: dict[str, Json] = {**call.entry}
    if "tool" in call.entry:
        made["missing"] = list(call.missing)
    return made | {"schema": call.schema} if with_schema and call.schema is not None else made
