"""An owner's tasks over their shards: each a partition of the table with a key of its own (docs/storage.md, Shards)."""

from collections.abc import Callable, Sequence

from mcp_baton.light_dataclasses import dataclass, field
from mcp_baton.tasks.dynamodb.attributes import Item
from mcp_baton.tasks.dynamodb.items import TASK_PREFIX
from mcp_baton.tasks.ids import shard_name

MOST_QUERIES_PER_SHARD = 4
"""How often a page asks one shard for more, when what it read was expired or lay behind other shards' tasks."""


@dataclass(frozen=True, slots=True)
class Read:
    """What one `Query` of one shard brought, newest first.

    Attributes:
        items: The items that passed the filter.
        end: The task id that it read up to, where there is more; `None` at the shard's end.
    """

    items: Sequence[Item]
    end: str | None


type Reader = Callable[[str, str | None], Read]
"""Reads a shard, given its name and the task id after which to begin; `None` for its newest."""


@dataclass(frozen=True, slots=True)
class Merged:
    """A page of the tasks of all shards, newest first.

    Attributes:
        items: At most as many items as were asked for.
        end: The task id after which the next page begins; `None` on the last.
    """

    items: Sequence[Item]
    end: str | None


@dataclass(slots=True)
class _Shard:
    """How far one shard has been read.

    Attributes:
        after: The task id after which the next read begins.
        more: Whether there is more to read.
        reads: How often it was read.
    """

    name: str
    after: str | None
    more: bool = True
    reads: int = 0
    items: list[Item] = field(default_factory=list)


def names(shards: int) -> list[str]:
    """The names of so many shards."""
    return [shard_name(number) for number in range(shards)]


def merged_page(shards: Sequence[str], after: str | None, wanted: int, read: Reader) -> Merged:
    """One page over all shards, newest first.

    A shard that has more was read down to some task id. Down to the highest of these ids every task of every shard is
    known; below it one could be missing. So the page ends there, and where it is not full yet, the shard that holds it
    up is read on.

    Args:
        shards: The shards' names.
        after: The task id that the page before ended with.
        wanted: How many tasks the page is to have.
        read: Reads a shard.
    """
    parts = [_Shard(name, after) for name in shards]
    for part in parts:
        _read_on(part, read)
    while True:
        behind = max((part for part in parts if part.more), key=_read_to, default=None)
        known = [
            item for part in parts for item in part.items if behind is None or task_id_of(item) >= _read_to(behind)
        ]
        if behind is None or len(known) >= wanted or behind.reads >= MOST_QUERIES_PER_SHARD:
            break
        _read_on(behind, read)
    known.sort(key=task_id_of, reverse=True)
    if len(known) > wanted:
        return Merged(known[:wanted], task_id_of(known[wanted - 1]))
    return Merged(known, None if behind is None else behind.after)


def _read_to(part: _Shard) -> str:
    return part.after or ""


def _read_on(part: _Shard, read: Reader) -> None:
    found = read(part.name, part.after)
    part.items.extend(found.items)
    part.reads += 1
    part.more = found.end is not None
    part.after = found.end


def task_id_of(item: Item) -> str:
    """The id of the task in an item, or in the part of one that a listing reads."""
    return item["sk"]["S"].removeprefix(TASK_PREFIX)
