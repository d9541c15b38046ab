"""Values of one write on their way out of the head, within the time that the write has (docs/storage.md)."""

import logging
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from mcp_baton.exceptions import StoreUnavailable
from mcp_baton.tasks.dynamodb.attributes import Attribute, Item, not_kept, text_bytes
from mcp_baton.tasks.dynamodb.changes import Changes, excess_after
from mcp_baton.tasks.dynamodb.items import IN_HEAD
from mcp_baton.tasks.dynamodb.overflow import (
    DAY_MS,
    LONGEST_TTL_MS,
    MARGIN_S,
    ObjectStore,
    OverflowStore,
    retention_days,
)
from mcp_baton.tasks.dynamodb.parallel import together
from mcp_baton.tasks.dynamodb.placing import BUNDLE_BYTES, POINTER_BYTES, Place, cheapest, cheapest_outside
from mcp_baton.tasks.dynamodb.pointers import (
    Bundle,
    Part,
    bundled,
    digest_of,
    object_key,
    piece_key,
    pointer_in,
    stored_form,
)
from mcp_baton.tasks.dynamodb.values import SMALLEST_BYTES, excess, size
from mcp_baton.tasks.texts import VALUE_BYTES, from_text
from mcp_baton.tasks.values import FINAL_RESULT

logger = logging.getLogger(__name__)

BUCKET_S = 1.2
"""How long S3 is waited for. Where it fails, the same values then go to items of their own."""


class Target(Struct, frozen=True):
    """The task whose values are written.

    Attributes:
        expires_s: When the task expires, epoch seconds. Its values are kept for a day more, at least.
        now_ms: The time of the write, epoch milliseconds.
    """

    owner: str
    task_id: str
    expires_s: int
    now_ms: int

    @property
    def lives_ms(self) -> int:
        """For how long the task lives from now on. Its head expires at a whole second, which may be up to one later."""
        return max(self.expires_s * 1000 - 999 - self.now_ms, 0)

    def kept_until_s(self, days: int) -> int:
        """When what is written now is deleted at the earliest, epoch seconds; `days` as in `Pointer`."""
        return (self.now_ms + days * DAY_MS) // 1000 if days else self.expires_s + DAY_MS // 1000


class Mover:
    """Moves values of one write out of the head. Once S3 has failed, this write does not ask it again.

    Args:
        outside: Where values go.
        target: The task.
        until_s: The moment on `monotonic` after which nothing is begun and nothing waited for.
        monotonic: Seconds, from any moment on.

    Attributes:
        failed: Whether a value could not be written anywhere.
    """

    def __init__(self, outside: OverflowStore, target: Target, until_s: float, monotonic: Callable[[], float]) -> None:
        self._table = outside.table
        # A task that lives longer than any object has its values in items.
        self._bucket = outside.bucket if target.lives_ms <= LONGEST_TTL_MS else None
        self._target = target
        self._recent = outside.recent
        self._until_s = until_s
        self._monotonic = monotonic
        self.failed = False

    @property
    def has_bucket(self) -> bool:
        """Whether there is a bucket, and it has not failed."""
        return self._bucket is not None

    def takes(self, value: Attribute) -> bool:
        """Whether a value can be kept outside: it is not there yet, and there is a place for one of its length."""
        return pointer_in(value) is None and (self.has_bucket or text_bytes(value) <= VALUE_BYTES)

    def move(self, values: Mapping[str, Attribute]) -> dict[str, Attribute]:
        """Write values outside, each once.

        Returns:
            The pointers for those that are there, by name. One that is missing could not be written.
        """
        parts = [Part(name, text_bytes(value), stored_form(value)) for name, value in values.items()]
        digests = {part.name: digest_of(part.data) for part in parts}
        owner, task_id = self._target.owner, self._target.task_id
        pointers: dict[str, Attribute] = {}
        for name, digest in digests.items():
            written = self._recent.pointer(owner, task_id, digest, self._monotonic())
            known = None if written is None else pointer_in(written)
            if written is not None and known is not None and known.until_s >= self._target.expires_s + MARGIN_S:
                pointers[name] = written
        new = [part for part in parts if part.name not in pointers]
        readable = bundled([part for part in new if part.text_bytes <= VALUE_BYTES])
        unreadable = bundled([part for part in new if part.text_bytes > VALUE_BYTES])
        for part, pointer in (*self._put(readable), *self._put_unreadable(unreadable)):
            self._recent.note(owner, task_id, digests[part.name], pointer, self._monotonic())
            pointers[part.name] = pointer
        return pointers

    def _put(self, bundles: Sequence[Bundle]) -> Iterator[tuple[Part, Attribute]]:
        left, sizes = bundles, [len(bundle.data) for bundle in bundles]
        if self._bucket is not None and cheapest_outside(sizes, bucket=True) is Place.BUCKET:
            left = yield from self._put_objects(self._bucket, bundles)
        if left:
            yield from self._done(left, self._put_items(left), 0)

    def _put_unreadable(self, bundles: Sequence[Bundle]) -> Iterator[tuple[Part, Attribute]]:
        """Values that are never read back: in S3 they are there for people, in the table for nobody."""
        if self._bucket is not None and bundles:
            yield from self._put_objects(self._bucket, bundles)

    def _done(
        self, bundles: Sequence[Bundle], failures: Sequence[Exception | None], days: int
    ) -> Generator[tuple[Part, Attribute], None, list[Bundle]]:
        failed = []
        for bundle, failure in zip(bundles, failures, strict=True):
            if failure is None:
                yield from bundle.pointers(days, self._target.kept_until_s(days))
            else:
                failed.append(bundle)
                if not isinstance(failure, StoreUnavailable):
                    raise failure
                self._note_failure(bundle, failure, in_bucket=bool(days))
        return failed

    def _note_failure(self, bundle: Bundle, failure: Exception, *, in_bucket: bool) -> None:
        where = "S3" if in_bucket else "items of their own"
        task_id, size = self._target.task_id, len(bundle.data)
        logger.error("task %s: values of %d bytes could not be kept in %s", task_id, size, where, exc_info=failure)
        if in_bucket:
            self._bucket = None
        else:
            self.failed = True

    def _put_objects(
        self, bucket: ObjectStore, bundles: Sequence[Bundle]
    ) -> Generator[tuple[Part, Attribute], None, list[Bundle]]:
        owner, task_id, days = self._target.owner, self._target.task_id, retention_days(self._target.lives_ms)
        jobs = [partial(bucket.put, object_key(owner, task_id, b.name, days), b.data, b.digest) for b in bundles]
        until_s = min(self._until_s, self._monotonic() + BUCKET_S)
        return (yield from self._done(bundles, together(jobs, until_s, self._monotonic), days))

    def _put_items(self, bundles: Sequence[Bundle]) -> list[Exception | None]:
        """What went wrong with each bundle; one is written when all its pieces are."""
        target, jobs, of = self._target, list[Callable[[], None]](), list[int]()
        for place, bundle in enumerate(bundles):
            for piece, start in enumerate(range(0, len(bundle.data), BUNDLE_BYTES)):
                key = piece_key(target.owner, target.task_id, bundle.name, piece)
                content: Attribute = {"B": bundle.data[start : start + BUNDLE_BYTES]}
                expires: Attribute = {"N": str(target.kept_until_s(0))}
                jobs.append(partial(self._table.put_value, {**key, "expires_at": expires, "data": content}))
                of.append(place)
        failures: list[Exception | None] = [None for _ in bundles]
        for place, failure in zip(of, together(jobs, self._until_s, self._monotonic), strict=True):
            failures[place] = failures[place] or failure
        return failures


EXCEEDS = "exceeds the task's size limit"
NOT_WRITTEN = "could not be written outside the task's item"

AFTER_CREATION = 1
"""The writes that follow a creation at least: the end of its run."""


def fitted(stored: Item, changes: Changes, limit: int, mover: Mover, writes_to_come: int) -> Changes:
    """The changes with pointers for the values that are kept outside, so that the item fits.

    Outside are those for which that is cheaper, and where the item would still be too large, as many of the others, the
    largest first, as bring it under the limit. What could not be written outside stays in the item, or where it does
    not fit gives way to a note. When all that is not enough the rest is left to DynamoDB, whose own limit is a little
    higher.

    Args:
        stored: The item as it was read.
        changes: What is to be written.
        limit: The most that the item may weigh, bytes.
        mover: Writes values outside.
        writes_to_come: How many more writes of the item are expected.
    """
    sizes = {name: size(value) for name, value in _movable(changes, mover).items()}
    unreadable = {name for name, value in _values(changes).items() if text_bytes(value) > VALUE_BYTES}
    over = excess_after(stored, changes, limit)
    fitting = moved(changes, chosen(sizes, over, writes_to_come, unreadable, mover), mover)
    for name in sorted(unreadable & fitting.replaceable):
        fitting = noted(fitting, name)
    # Weighing a large task takes longer than all else here: most writes move nothing, and weigh it once.
    return with_notes(fitting, over if fitting is changes else excess_after(stored, fitting, limit))


def chosen(
    sizes: Mapping[str, int], over: int, writes_to_come: int, must: Collection[str], mover: Mover
) -> frozenset[str]:
    """Which values are kept outside.

    Args:
        sizes: What each value that can be kept outside takes in the item, bytes.
        over: By how much the item is too large with all of them in it, bytes.
        writes_to_come: As in `fitted`.
        must: Those that cannot stay, whatever they cost.
        mover: Says whether there is a bucket.
    """
    names = {name for name in sizes if sizes[name] >= SMALLEST_BYTES}
    place = cheapest([sizes[name] for name in names], writes_to_come, bucket=mover.has_bucket)
    names = {name for name in sizes if name in must} | (set() if place is Place.HEAD else names)
    over -= sum(sizes[name] - POINTER_BYTES for name in names)
    for name in sorted(sizes.keys() - names, key=lambda name: (-sizes[name], name)):
        if over <= 0:
            break
        names.add(name)
        over -= sizes[name] - POINTER_BYTES
    return frozenset(names)


def moved(changes: Changes, names: Collection[str], mover: Mover) -> Changes:
    """The changes with pointers for as many of these values as could be written outside."""
    if not names:
        return changes
    values = _values(changes)
    pointers = mover.move({name: values[name] for name in names})
    result = pointers.pop(FINAL_RESULT, changes.result)
    changes = replace(changes, result=result, replaceable=changes.replaceable.difference(pointers))
    return replace(changes, variables={**changes.variables, **pointers})


def lighter(changes: Changes, mover: Mover) -> Changes | None:
    """The changes for an item that turned out to be too large: with all values outside that can be, or where none can,
    with a note for the largest.

    `None` when that would save nothing.
    """
    smaller = moved(changes, _movable(changes, mover), mover)
    return without_largest(changes) if weight(smaller) == weight(changes) else smaller


def with_notes(changes: Changes, over: int) -> Changes:
    """The changes with notes for as many variables, the largest first, as save so many bytes."""
    while over > 0:
        smaller = without_largest(changes)
        if smaller is None:
            break
        over -= weight(changes) - weight(smaller)
        changes = smaller
    return changes


def without_largest(changes: Changes) -> Changes | None:
    """The changes with the largest variable replaced by a note; `None` when a note would save nothing."""
    largest = max(changes.replaceable, key=lambda name: (size(changes.variables[name]), name), default=None)
    if largest is None:
        return None
    smaller = noted(changes, largest)
    return smaller if weight(smaller) < weight(changes) else None


def noted(changes: Changes, name: str) -> Changes:
    """The changes with a note in the place of a variable's value, that it was not kept, and why."""
    text_length = text_bytes(changes.variables[name])
    # A shorter one would have been kept outside, if it could have been written there.
    note = not_kept(text_length, EXCEEDS if text_length > VALUE_BYTES else NOT_WRITTEN)
    return replace(
        changes,
        variables={**changes.variables, name: note},
        replaceable=changes.replaceable.difference({name}),
        oversized=(*changes.oversized, from_text(name)),
    )


def weight(changes: Changes) -> int:
    """What the variables to set and the result take in the item, bytes."""
    return sum(map(size, changes.variables.values())) + (0 if changes.result is None else size(changes.result))


def _values(changes: Changes) -> dict[str, Attribute]:
    """The values that are no part of the head itself: variables, and the final result under its name."""
    values = {name: changes.variables[name] for name in changes.replaceable}
    return values if changes.result is None else {**values, FINAL_RESULT: changes.result}


def _movable(changes: Changes, mover: Mover) -> dict[str, Attribute]:
    return {name: value for name, value in _values(changes).items() if _leaves(value, mover)}


def _leaves(value: Attribute, mover: Mover) -> bool:
    return size(value) > POINTER_BYTES and mover.takes(value)


def fitted_new(item: Item, limit: int, mover: Mover) -> Item:
    """A new task's item with pointers for those of its values that are kept outside.

    The progress and the pause reason stay, because writes address them. What is too large nevertheless is for the
    caller to refuse.
    """
    variables = item["variables"]["M"]
    values = {FINAL_RESULT: item["arguments"], **variables}
    sizes = {name: size(value) for name, value in values.items() if name not in IN_HEAD and _leaves(value, mover)}
    names = chosen(sizes, excess(item, limit), AFTER_CREATION, (), mover)
    if not names:
        return item
    pointers = mover.move({name: values[name] for name in names})
    arguments = pointers.pop(FINAL_RESULT, item["arguments"])
    return {**item, "arguments": arguments, "variables": {"M": {**variables, **pointers}}}
