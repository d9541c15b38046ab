"""The results of a list's elements (ARCHITECTURE.md, Lists).

The head has a record: which elements are done, and the results of the last few. The others are in chunks, which are
items of their own. A write adds its results to the record, or puts them into a new chunk. So each result is written
once, or if it is small, a few times, however many there are.

A chunk has the list's random id and a number. It is never overwritten: of two writers of one number, the second takes
another. A record names its chunks. So a chunk of a write that lost its race belongs to no record, and expires.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, Self, cast

from msgspec import Struct
from msgspec.structs import replace

from mcp_baton.exceptions import StoreError
from mcp_baton.protocol.json import Json, dumps, loads
from mcp_baton.tasks.dynamodb.attributes import LIST, Attribute
from mcp_baton.tasks.ids import new_token

INLINE_LIST_BYTES: Final = 1_024
"""The most bytes of results in a record, as JSON. If there are more, all of them become a chunk."""


class ListRecord(Struct, frozen=True):
    """The results of a list's elements.

    Attributes:
        id: A random id, in the keys of its chunks.
        digest: The digest of the elements.
        done: The elements with a result, by index.
        chunks: The numbers of its chunks. A later chunk replaces the results of earlier ones.
        inline: The results that are not in a chunk.
        chunk_texts: The length of the results in chunks as JSON texts, bytes.
        stored: The length of the chunks as they are stored, bytes.
    """

    id: str
    total: int
    digest: str = ""
    done: frozenset[int] = frozenset()
    chunks: tuple[int, ...] = ()
    inline: Mapping[int, Json] = {}
    chunk_texts: int = 0
    stored: int = 0

    @classmethod
    def new(cls, total: int) -> Self:
        return cls(new_token(), total)

    @property
    def next_chunk(self) -> int:
        return max(self.chunks, default=-1) + 1

    @property
    def text_bytes(self) -> int:
        """About the length of the list as a JSON text."""
        return self.chunk_texts + len(dumps(list(self.inline.values())).encode()) + self.total

    def without(self, indexes: Iterable[int]) -> Self:
        """The record without the results of these elements."""
        dropped = frozenset(indexes)
        inline = {index: result for index, result in self.inline.items() if index not in dropped}
        return replace(self, done=self.done - dropped, inline=inline)

    def including(self, results: Mapping[int, Json]) -> Self:
        """The record with more results."""
        return replace(self, done=self.done | results.keys(), inline={**self.inline, **results})

    @property
    def inline_bytes(self) -> int:
        return len(chunk_text(self.inline).encode())

    @property
    def is_full(self) -> bool:
        """Whether its results should become a chunk."""
        return self.inline_bytes > INLINE_LIST_BYTES

    def with_chunk(self, number: int, stored_bytes: int) -> Self:
        """The record after its results have become a chunk."""
        texts = self.chunk_texts + len(dumps(list(self.inline.values())).encode())
        return replace(
            self, chunks=(*self.chunks, number), inline={}, chunk_texts=texts, stored=self.stored + stored_bytes
        )

    def attribute(self) -> Attribute:
        """The stored form: a text that begins with a letter with which no JSON text begins."""
        members: dict[str, Json] = {
            "id": self.id,
            "total": self.total,
            "of": self.digest,
            "done": numbers_text(self.done),
            "chunks": numbers_text(self.chunks),
            "bytes": [self.chunk_texts, self.stored],
            "results": {str(index): result for index, result in sorted(self.inline.items())},
        }
        return {"S": LIST + dumps(members)}

    def in_order(self, chunks: Iterable[Mapping[int, Json]]) -> list[Json]:
        """The results in order, from the contents of the chunks; `None` for an open element."""
        results: dict[int, Json] = {}
        for chunk in chunks:
            results |= chunk
        results |= self.inline
        return [results[index] if index in self.done else None for index in range(self.total)]


def record_in(attribute: Attribute) -> ListRecord | None:
    """The record in an attribute, if it is one. Raises `StoreError` if it is damaged."""
    text = attribute.get("S", "")
    if not text.startswith(LIST):
        return None
    try:
        members = cast("dict[str, Any]", loads(text.removeprefix(LIST)))
        chunk_texts, stored = members["bytes"]
        return ListRecord(
            members["id"],
            members["total"],
            members["of"],
            frozenset(numbers_in(members["done"])),
            tuple(numbers_in(members["chunks"])),
            {int(index): result for index, result in members["results"].items()},
            chunk_texts,
            stored,
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise StoreError(f"a list is damaged: {error}") from error


def chunk_text(results: Mapping[int, Json]) -> str:
    """The content of a chunk: the results by index."""
    return dumps({str(index): result for index, result in sorted(results.items())})


def chunk_in(text: str) -> dict[int, Json]:
    return {int(index): result for index, result in cast("dict[str, Json]", loads(text)).items()}


def numbers_text(numbers: Iterable[int]) -> str:
    """Numbers as ranges, `0-57,59`, or as bits in hexadecimal, `xfa`, if that is shorter."""
    numbers = sorted(numbers)
    bits = f"x{sum(1 << number for number in numbers):x}"
    return min(_ranges_text(numbers), bits, key=len)


def _ranges_text(numbers: Iterable[int]) -> str:
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def numbers_in(text: str) -> list[int]:
    """The numbers in a text of `numbers_text`."""
    if text.startswith("x"):
        bits = int(text[1:], 16)
        return [number for number in range(bits.bit_length()) if bits >> number & 1]
    numbers: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        numbers += range(int(first), int(last or first) + 1)
    return numbers
