"""Values outside the head of a task that is to live longer: they are written again, to be kept as long
(docs/storage.md, Values outside the head)."""

import time
from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from mcp_baton.exceptions import StoreUnavailable, ValueLost
from mcp_baton.tasks.dynamodb.attributes import Attribute, Item
from mcp_baton.tasks.dynamodb.fetching import Fetcher
from mcp_baton.tasks.dynamodb.items import KEPT, members
from mcp_baton.tasks.dynamodb.moving import Mover, Target
from mcp_baton.tasks.dynamodb.overflow import OverflowStore
from mcp_baton.tasks.dynamodb.pointers import Pointer, pointer_in

PROLONG_S: Final = 2.5
"""How long this may take, seconds. Values for which that is not enough are left for the next time."""

type Path = tuple[str, ...]
"""Where in a head a value is."""


class Prolonged(Struct, frozen=True):
    """What became of the values of a task that is to live longer.

    Attributes:
        pointers: The new pointers, by their paths in the head.
        until_s: How long the task may live: as long as was asked for, or as long as the first value is kept that could
            not be written again, epoch seconds.
    """

    pointers: Mapping[Path, Attribute]
    until_s: int


def expiring(item: Item, expires_s: int) -> dict[Path, Pointer]:
    """The pointers in a head to values that may be gone before then, epoch seconds."""
    stored: dict[Path, Attribute] = {("variables", name): value for name, value in members(item, "variables").items()}
    stored |= {(name,): item[name] for name in KEPT if name in item}
    pointers = {path: pointer_in(value) for path, value in stored.items()}
    return {path: pointer for path, pointer in pointers.items() if pointer and pointer.until_s < expires_s}


def prolonged(
    outside: OverflowStore,
    target: Target,
    short: Mapping[Path, Pointer],
    monotonic: Callable[[], float] = time.monotonic,
) -> Prolonged:
    """Write values again, one bundle after the other, so that no more of them are in memory than one read holds.

    Args:
        outside: Where they are.
        target: The task, with the time until which it is to live.
        short: Their pointers, as `expiring` gives them.
        monotonic: Seconds, from any moment on.
    """
    stops_s = monotonic() + PROLONG_S
    mover = Mover(outside, target, stops_s, monotonic)
    pointers: dict[Path, Attribute] = {}
    until_s = target.expires_s
    bundles: dict[str, list[Path]] = {}
    for path, pointer in short.items():
        bundles.setdefault(pointer.bundle, []).append(path)
    for paths in bundles.values():
        fetcher = Fetcher(outside, target.owner, target.task_id)
        try:
            if monotonic() >= stops_s:
                raise StoreUnavailable("the time for prolonging values is over")
            values = {"\0".join(path): fetcher.stored(short[path]) for path in paths}
        except ValueLost:
            continue  # it is gone, or too large to be read ever: the task need not end for it
        except StoreUnavailable:
            values = {}
        written = mover.move(values)
        for path in paths:
            if new := written.get("\0".join(path)):
                pointers[path] = new
            else:
                until_s = min(until_s, short[path].until_s)
    return Prolonged(pointers, until_s)
