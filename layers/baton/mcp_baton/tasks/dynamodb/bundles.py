"""Values of one write, put together so that they cost as few requests and units as possible (docs/storage.md). Pure."""

from collections.abc import Iterator, Sequence

from mcp_baton.light_dataclasses import dataclass
from mcp_baton.protocol.json import dumps
from mcp_baton.tasks.dynamodb.attributes import Attribute, from_native
from mcp_baton.tasks.dynamodb.placing import BUNDLE_BYTES
from mcp_baton.tasks.dynamodb.pointers import Pointer, digest_of, name_of


@dataclass(frozen=True, slots=True)
class Part:
    """A value on its way: its name in the write, the length of its text, and its bytes as they are stored."""

    name: str
    text_bytes: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Bundle:
    """Values that are written together."""

    parts: tuple[Part, ...]
    data: bytes
    digest: bytes

    @property
    def name(self) -> str:
        """Its name in keys."""
        return name_of(self.digest)

    def pointers(self, days: int) -> Iterator[tuple[Part, Attribute]]:
        """What stands in the head for each value; `days` as in `Pointer`."""
        offset = 0
        for part in self.parts:
            where = Pointer(self.name, part.text_bytes, len(part.data), len(self.data), offset, days)
            yield part, where.attribute()
            offset += len(part.data)


def stored_form(value: Attribute) -> bytes:
    """An encoded value as it is stored outside: its JSON text, zipped or not, as it was encoded."""
    match value:
        case {"B": bytes() as compressed}:
            return compressed
        case {"S": text}:
            return text.encode()
        case _:
            return dumps(from_native(value)).encode()


def bundled(parts: Sequence[Part]) -> list[Bundle]:
    """Values put together, in their order, as long as a bundle stays within one item; a longer value is by itself."""
    groups: list[list[Part]] = []
    room = 0
    for part in sorted(parts, key=lambda part: (-len(part.data), part.name)):
        if len(part.data) > room:
            groups.append([])
            room = BUNDLE_BYTES
        groups[-1].append(part)
        room -= len(part.data)
    made = []
    for group in groups:
        data = b"".join(part.data for part in group)
        made.append(Bundle(tuple(group), data, digest_of(data)))
    return made
