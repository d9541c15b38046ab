"""Moves the large values of a write out of the task's item, in the time that the write has (docs/storage.md)."""

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from mcp_baton.exceptions import StoreUnavailable, ValueLost
from mcp_baton.tasks.dynamodb.attributes import Attribute, Item, not_kept, text_bytes
from mcp_baton.tasks.dynamodb.changes import Changes, excess_after
from mcp_baton.tasks.dynamodb.fetching import Fetcher
from mcp_baton.tasks.dynamodb.items import IN_HEAD, KEPT, members
from mcp_baton.tasks.dynamodb.overflow import (
    BUNDLE_BYTES,
    DAY_MS,
    LONGEST_TTL_MS,
    MARGIN_S,
    POINTER_BYTES,
    Bundle,
    ObjectStore,
    OverflowStore,
    Part,
    Pointer,
    bundled,
    digest_of,
    object_key,
    piece_key,
    pointer_in,
    retention_days,
    stored_form,
)
from mcp_baton.tasks.dynamodb.parallel import together
from mcp_baton.tasks.dynamodb.values import excess, is_large, size
from mcp_baton.tasks.texts import VALUE_BYTES, from_text
from mcp_baton.tasks.values import FINAL_RESULT

logger = logging.getLogger(__name__)

BUCKET_S: Final = 1.2
"""How long a write waits for S3, seconds. Then the same values go to items of their own."""

PROLONG_S: Final = 2.5
"""How long writing values again may take, seconds. The remaining values are left for the next time."""

EXCEEDS = "exceeds the task's size limit"
NOT_WRITTEN = "could not be written outside the task's item"

type Path = tuple[str, ...]
"""The place of a value in a task's item."""


class Target(Struct, frozen=True):
    """The task to which values belong.

    Attributes:
        expires_s: When the task expires, epoch seconds. Its values are kept for at least a day more.
        now_ms: The time of the write, epoch milliseconds.
    """

    owner: str
    task_id: str
    expires_s: int
    now_ms: int

    @property
    def lives_ms(self) -> int:
        """For how long the task lives from now on. The item expires at a whole second, up to a second later."""
        return max(self.expires_s * 1000 - 999 - self.now_ms, 0)

    def kept_until_s(self, days: int) -> int:
        """When a value written now is deleted at the earliest, epoch seconds; `days` as in `Pointer`."""
        return (self.now_ms + days * DAY_MS) // 1000 if days else self.expires_s + DAY_MS // 1000


class Mover:
    """Writes values outside the item: to S3 if there is a bucket, else to items of their own.

    After S3 has failed, this write uses only items.

    Args:
        overflow: The places for values.
        target: The task.
        until_s: When the time is over, on `monotonic`.
        monotonic: A monotonic clock, seconds.

    Attributes:
        failed: Whether a value could not be written anywhere.
    """

    def __init__(self, overflow: OverflowStore, target: Target, until_s: float, monotonic: Callable[[], float]) -> None:
        self._table = overflow.table
        # Objects do not live long enough for the values of a task that lives longer than this.
        self._bucket = overflow.bucket if target.lives_ms <= LONGEST_TTL_MS else None
        self._target = target
        self._recent = overflow.recent
        self._until_s = until_s
        self._monotonic = monotonic
        self.failed = False

    def can_move(self, value: Attribute) -> bool:
        """Whether a value can be moved: moving saves bytes, it is not outside yet, and there is a place for it."""
        if size(value) <= POINTER_BYTES or pointer_in(value) is not None:
            return False
        return self._bucket is not None or text_bytes(value) <= VALUE_BYTES

    def move(self, values: Mapping[str, Attribute]) -> dict[str, Attribute]:
        """Write values outside the item.

        Returns:
            The pointers, by name. A value without one could not be written.
        """
        owner, task_id, needed_s = self._target.owner, self._target.task_id, self._target.expires_s + MARGIN_S
        pointers, new = dict[str, Attribute](), dict[Part, bytes]()
        for name, value in values.items():
            part = Part(name, text_bytes(value), stored_form(value))
            digest = digest_of(part.data)
            written = self._recent.pointer(owner, task_id, digest, self._monotonic())
            known = None if written is None else pointer_in(written)
            if written is not None and known is not None and known.until_s >= needed_s:
                pointers[name] = written
            else:
                new[part] = digest
        readable = bundled([part for part in new if part.text_bytes <= VALUE_BYTES])
        # Values that are never read back go to S3 for people to read, but not to the table.
        unreadable = bundled([part for part in new if part.text_bytes > VALUE_BYTES])
        for bundle, days in (*self._put(readable), *self._put(unreadable, in_items=False)):
            for part, pointer in bundle.pointers(days, self._target.kept_until_s(days)):
                self._recent.note(owner, task_id, new[part], pointer, self._monotonic())
                pointers[part.name] = pointer
        return pointers

    def _put(self, bundles: Sequence[Bundle], *, in_items: bool = True) -> list[tuple[Bundle, int]]:
        """Write bundles. Returns the bundles that were written, with `days` as in `Pointer`."""
        written, days = list[tuple[Bundle, int]](), retention_days(self._target.lives_ms)
        if bundles and self._bucket is not None:
            failures = self._put_objects(self._bucket, bundles, days)
            written += [(bundle, days) for bundle in bundles if bundle not in failures]
            if failures:
                self._bucket = None
            self._log(failures, "S3")
            bundles = list(failures)
        if bundles and in_items:
            failures = self._put_items(bundles)
            written += [(bundle, 0) for bundle in bundles if bundle not in failures]
            self.failed = self.failed or bool(failures)
            self._log(failures, "items of their own")
        return written

    def _put_objects(self, bucket: ObjectStore, bundles: Sequence[Bundle], days: int) -> dict[Bundle, Exception]:
        """Write bundles to S3. Returns the failures."""
        owner, task_id = self._target.owner, self._target.task_id
        jobs = [partial(bucket.put, object_key(owner, task_id, b.name, days), b.data, b.digest) for b in bundles]
        outcomes = together(jobs, min(self._until_s, self._monotonic() + BUCKET_S), self._monotonic)
        return {bundle: failure for bundle, failure in zip(bundles, outcomes, strict=True) if failure is not None}

    def _put_items(self, bundles: Sequence[Bundle]) -> dict[Bundle, Exception]:
        """Write bundles to items, in pieces. Returns the failures: a bundle needs all its pieces."""
        target, jobs, of = self._target, list[Callable[[], None]](), list[Bundle]()
        for bundle in bundles:
            for piece, start in enumerate(range(0, len(bundle.data), BUNDLE_BYTES)):
                key = piece_key(target.owner, target.task_id, bundle.name, piece)
                content: Attribute = {"B": bundle.data[start : start + BUNDLE_BYTES]}
                expires: Attribute = {"N": str(target.kept_until_s(0))}
                jobs.append(partial(self._table.put_value, {**key, "expires_at": expires, "data": content}))
                of.append(bundle)
        outcomes = together(jobs, self._until_s, self._monotonic)
        return {bundle: failure for bundle, failure in zip(of, outcomes, strict=True) if failure is not None}

    def _log(self, failures: Mapping[Bundle, Exception], where: str) -> None:
        for bundle, failure in failures.items():
            if not isinstance(failure, StoreUnavailable):
                raise failure
            task_id, length = self._target.task_id, len(bundle.data)
            logger.error("task %s: %d bytes could not be written to %s", task_id, length, where, exc_info=failure)


def fitted(stored: Item, changes: Changes, limit: int, mover: Mover) -> Changes:
    """Move values of a write outside, so that the item fits.

    All large values are moved. If the item would still be too large, more are moved, the largest first. A value that
    cannot be written outside stays in the item, or if it does not fit, a note replaces it. If that is not enough,
    DynamoDB decides, whose own limit is a little higher.

    Args:
        stored: The item as it was read.
        changes: The write.
        limit: The largest size of the item, bytes.
        mover: Writes values outside.
    """
    values = _values(changes)
    unreadable = {name for name, value in values.items() if text_bytes(value) > VALUE_BYTES}
    over = excess_after(stored, changes, limit)
    fitting = moved(changes, chosen(values, over, mover, unreadable), mover)
    for name in sorted(unreadable & fitting.replaceable):
        fitting = noted(fitting, name)
    # Computing the size of a large item is slow: if nothing moved, it is not done twice.
    return with_notes(fitting, over if fitting is changes else excess_after(stored, fitting, limit))


def fitted_new(item: Item, limit: int, mover: Mover) -> Item:
    """Move values of a new task's item outside, so that it fits. The caller refuses an item that is still too large."""
    variables = item["variables"]["M"]
    values = {name: value for name, value in variables.items() if name not in IN_HEAD}
    values[FINAL_RESULT] = item["arguments"]
    names = chosen(values, excess(item, limit), mover)
    if not names:
        return item
    pointers = mover.move({name: values[name] for name in names})
    arguments = pointers.pop(FINAL_RESULT, item["arguments"])
    return {**item, "arguments": arguments, "variables": {"M": {**variables, **pointers}}}


def chosen(values: Mapping[str, Attribute], over: int, mover: Mover, must: Collection[str] = ()) -> frozenset[str]:
    """The names of the values that are moved.

    Args:
        values: The values of the write, by name.
        over: By how much the item is too large if none is moved, bytes.
        mover: Says which values can be moved.
        must: Names of values that may not stay, even if they are not large.
    """
    sizes = {name: size(value) for name, value in values.items() if mover.can_move(value)}
    names = {name for name in sizes if name in must or is_large(values[name])}
    over -= sum(sizes[name] - POINTER_BYTES for name in names)
    for name in sorted(sizes.keys() - names, key=lambda name: (-sizes[name], name)):
        if over <= 0:
            break
        names.add(name)
        over -= sizes[name] - POINTER_BYTES
    return frozenset(names)


def moved(changes: Changes, names: Collection[str], mover: Mover) -> Changes:
    """The changes with pointers for those of these values that could be written outside."""
    if not names:
        return changes
    values = _values(changes)
    pointers = mover.move({name: values[name] for name in names})
    result = pointers.pop(FINAL_RESULT, changes.result)
    changes = replace(changes, result=result, replaceable=changes.replaceable.difference(pointers))
    return replace(changes, variables={**changes.variables, **pointers})


def lighter(changes: Changes, mover: Mover) -> Changes | None:
    """The changes for an item that DynamoDB refused as too large: with all values outside that can be moved, or if
    there are none, with a note for the largest. `None` if that would save nothing."""
    names = [name for name, value in _values(changes).items() if mover.can_move(value)]
    smaller = moved(changes, names, mover)
    return without_largest(changes) if weight(smaller) == weight(changes) else smaller


def with_notes(changes: Changes, over: int) -> Changes:
    """The changes with notes for as many variables, the largest first, as save that many bytes."""
    while over > 0:
        smaller = without_largest(changes)
        if smaller is None:
            break
        over -= weight(changes) - weight(smaller)
        changes = smaller
    return changes


def without_largest(changes: Changes) -> Changes | None:
    """The changes with a note in place of the largest variable; `None` if a note would save nothing."""
    largest = max(changes.replaceable, key=lambda name: (size(changes.variables[name]), name), default=None)
    if largest is None:
        return None
    smaller = noted(changes, largest)
    return smaller if weight(smaller) < weight(changes) else None


def noted(changes: Changes, name: str) -> Changes:
    """The changes with a note in place of a variable, which says why the value was not stored."""
    text_length = text_bytes(changes.variables[name])
    # A shorter value is only replaced if it could not be written outside.
    note = not_kept(text_length, EXCEEDS if text_length > VALUE_BYTES else NOT_WRITTEN)
    return replace(
        changes,
        variables={**changes.variables, name: note},
        replaceable=changes.replaceable.difference({name}),
        oversized=(*changes.oversized, from_text(name)),
    )


def weight(changes: Changes) -> int:
    """The bytes of the new variables and the result in the item."""
    return sum(map(size, changes.variables.values())) + (0 if changes.result is None else size(changes.result))


def _values(changes: Changes) -> dict[str, Attribute]:
    """The values that may leave the item: variables, and the final result under its name."""
    values = {name: changes.variables[name] for name in changes.replaceable}
    return values if changes.result is None else {**values, FINAL_RESULT: changes.result}


class Prolonged(Struct, frozen=True):
    """Values that were written again, so that their task can live longer.

    Attributes:
        pointers: The new pointers, by their places in the item.
        until_s: How long the task may live, epoch seconds: as requested, or until the first value expires that could
            not be written again.
    """

    pointers: Mapping[Path, Attribute]
    until_s: int


def expiring(item: Item, expires_s: int) -> dict[Path, Pointer]:
    """The pointers in an item to values that may expire before this time, epoch seconds."""
    stored: dict[Path, Attribute] = {("variables", name): value for name, value in members(item, "variables").items()}
    stored |= {(name,): item[name] for name in KEPT if name in item}
    pointers = {path: pointer_in(value) for path, value in stored.items()}
    return {path: pointer for path, pointer in pointers.items() if pointer and pointer.until_s < expires_s}


def prolonged(
    overflow: OverflowStore,
    target: Target,
    short: Mapping[Path, Pointer],
    monotonic: Callable[[], float] = time.monotonic,
) -> Prolonged:
    """Write values again. Bundles are processed one by one, so that only one of them is in memory.

    Args:
        overflow: The places for values.
        target: The task, with its new expiry.
        short: The pointers from `expiring`.
        monotonic: A monotonic clock, seconds.
    """
    stops_s = monotonic() + PROLONG_S
    mover = Mover(overflow, target, stops_s, monotonic)
    pointers: dict[Path, Attribute] = {}
    until_s = target.expires_s
    bundles: dict[str, list[Path]] = {}
    for path, pointer in short.items():
        bundles.setdefault(pointer.bundle, []).append(path)
    for paths in bundles.values():
        fetcher = Fetcher(overflow, target.owner, target.task_id)
        try:
            if monotonic() >= stops_s:
                raise StoreUnavailable("the time for prolonging values is over")
            values = {"\0".join(path): fetcher.stored(short[path]) for path in paths}
        except ValueLost:
            continue  # the value is lost, or too large to be read: the task can live longer without it
        except StoreUnavailable:
            values = {}
        written = mover.move(values)
        for path in paths:
            if new := written.get("\0".join(path)):
                pointers[path] = new
            else:
                until_s = min(until_s, short[path].until_s)
    return Prolonged(pointers, until_s)
