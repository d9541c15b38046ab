"""Values outside the items of tasks: how they are named, written, read, and kept (docs/storage.md, Values outside the
head).

A value goes to items of its own in the same table. Values of one write are stored together as a bundle, which is named
by its digest. So a bundle is never overwritten with other content, and writing it
twice is safe. A bundle is written before the item that points to it. A write that then loses its race leaves a bundle
without a pointer. Baton deletes no bundles: they expire.

Pointers do not contain the owner and the task, but every key does. So a copied pointer never leads to values of another
task.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from mcp_baton.exceptions import StoreError, StoreUnavailable, ValueLost
from mcp_baton.protocol.json import dumps
from mcp_baton.tasks.dynamodb.attributes import Attribute, Item, from_native, not_kept, text_bytes
from mcp_baton.tasks.dynamodb.changes import Changes, excess_after
from mcp_baton.tasks.dynamodb.items import ALWAYS_IN_ITEM, LARGE_ATTRIBUTES, members
from mcp_baton.tasks.dynamodb.parallel import results_of, run_jobs
from mcp_baton.tasks.dynamodb.table import TaskTable
from mcp_baton.tasks.dynamodb.values import Pointer, digest_of, excess, is_large, name_of, pointer_in, size
from mcp_baton.tasks.texts import VALUE_BYTES, check_readable, from_text, is_zipped, to_text
from mcp_baton.tasks.values import FINAL_RESULT

logger = logging.getLogger(__name__)

POINTER_BYTES: Final = 46
"""About the size of a pointer, bytes."""

BUNDLE_BYTES: Final = 350_000
"""The largest bundle of several values, and the largest piece of a longer one, bytes."""

CACHE_BYTES = 8_000_000
"""How much fetched data is kept for the rest of a request. The rest is fetched again if it is needed."""

DAY_S: Final = 86_400
PROLONG_S: Final = 2.5
"""How long writing values again may take, seconds. The remaining values are left for the next time."""

VALUE_PREFIX = "VALUE#"
VALUE_SORT_KEY = "VALUE"
OWNER_DIGITS = 32
DAMAGED = "what is stored is damaged"
EXCEEDS = f"exceeds the task's size limit, {VALUE_BYTES} bytes; its tool should return less, or a link"
NOT_WRITTEN = "could not be written outside the task's item"

type Path = tuple[str, ...]
"""The place of a value in a task's item."""


def owner_digest(owner: str) -> str:
    """An owner in keys: of fixed length, without separators, and hashed, because it can be a person's name."""
    return digest_of(to_text(owner).encode()).hex()[:OWNER_DIGITS]


def piece_key(owner: str, task_id: str, bundle: str, piece: int) -> Item:
    """The primary key of one piece of a bundle in DynamoDB. Each piece has its own partition."""
    return {
        "pk": {"S": f"{VALUE_PREFIX}{owner_digest(owner)}#{task_id}#{bundle}#{piece}"},
        "sk": {"S": VALUE_SORT_KEY},
    }


class Part(Struct, frozen=True):
    """A value to be stored: its name in the write, the length of its JSON text, and its stored bytes."""

    name: str
    text_bytes: int
    data: bytes


class Bundle(Struct, frozen=True):
    """Values that are stored together."""

    parts: tuple[Part, ...]
    data: bytes
    digest: bytes

    @property
    def name(self) -> str:
        return name_of(self.digest)

    def pointers(self, until_s: int) -> Iterator[tuple[Part, Pointer]]:
        """The pointer to each value. `until_s` is that of `Pointer`."""
        offset = 0
        for part in self.parts:
            yield part, Pointer(self.name, part.text_bytes, len(part.data), len(self.data), offset, until_s)
            offset += len(part.data)


def stored_form(value: Attribute) -> bytes:
    """The bytes of an encoded value: its JSON text, compressed or not."""
    match value:
        case {"B": bytes() as compressed}:
            return compressed
        case {"S": text}:
            return text.encode()
        case _:
            return dumps(from_native(value)).encode()


def make_bundles(parts: Sequence[Part]) -> list[Bundle]:
    """Put values together into bundles of at most `BUNDLE_BYTES`. A longer value is a bundle by itself."""
    groups: list[list[Part]] = []
    room = 0
    for part in sorted(parts, key=lambda part: (-len(part.data), part.name)):
        if len(part.data) > room:
            groups.append([])
            room = BUNDLE_BYTES
        groups[-1].append(part)
        room -= len(part.data)
    bundles = []
    for group in groups:
        data = b"".join(part.data for part in group)
        bundles.append(Bundle(tuple(group), data, digest_of(data)))
    return bundles


class Mover:
    """Moves the values of one write out of the task's item, to items of their own.

    Args:
        owner: The task's owner.
        task_id: The task.
        expires_s: When the task expires, epoch seconds. Its values are kept for a day more.
        until_s: When the time is over, on the table's monotonic clock.

    Attributes:
        failed: Whether a value could not be written.
    """

    def __init__(self, table: TaskTable, owner: str, task_id: str, expires_s: int, until_s: float) -> None:
        self._table = table
        self._owner = owner
        self._task_id = task_id
        self._kept_until_s = expires_s + DAY_S
        self._until_s = until_s
        self.failed = False

    def can_move(self, value: Attribute) -> bool:
        """Whether a value can be moved: moving saves bytes, it is not outside yet, and it can be read back."""
        is_outside = pointer_in(value) is not None
        return size(value) > POINTER_BYTES and not is_outside and text_bytes(value) <= VALUE_BYTES

    def move(self, values: Mapping[str, Attribute]) -> dict[str, Attribute]:
        """Write values outside the item. Returns the pointers. A value without one could not be written."""
        bundles = make_bundles([Part(name, text_bytes(value), stored_form(value)) for name, value in values.items()])
        jobs = list(chain(*map(self._pieces, bundles)))
        outcomes = run_jobs([job for _, job in jobs], self._until_s, self._table.monotonic)
        failures = {bundle: failure for (bundle, _), failure in zip(jobs, outcomes, strict=True) if failure is not None}
        for bundle, failure in failures.items():
            if not isinstance(failure, StoreUnavailable):
                raise failure
            length = len(bundle.data)
            logger.error("task %s: %d bytes could not be written to items", self._task_id, length, exc_info=failure)
        self.failed = self.failed or bool(failures)
        return {
            part.name: pointer.attribute()
            for bundle in bundles
            if bundle not in failures
            for part, pointer in bundle.pointers(self._kept_until_s)
        }

    def _pieces(self, bundle: Bundle) -> Iterator[tuple[Bundle, Callable[[], None]]]:
        """The writes of a bundle to items. It needs all of them."""
        for piece, start in enumerate(range(0, len(bundle.data), BUNDLE_BYTES)):
            key = piece_key(self._owner, self._task_id, bundle.name, piece)
            content: Attribute = {"B": bundle.data[start : start + BUNDLE_BYTES]}
            expires: Attribute = {"N": str(self._kept_until_s)}
            yield bundle, partial(self._table.put_value, {**key, "expires_at": expires, "data": content})

    def fit(self, item: Item, changes: Changes, limit: int) -> Changes:
        """Move values of a write outside, so that the item fits within a limit, bytes.

        All large values are moved. If the item would still be too large, more are moved, the largest first. A value
        that cannot be written outside stays in the item, or if it does not fit, a note replaces it. If that is not
        enough, DynamoDB decides, whose own limit is a little higher.
        """
        values = _values(changes)
        unreadable = {name for name, value in values.items() if text_bytes(value) > VALUE_BYTES}
        surplus = excess_after(item, changes, limit)
        result = self._with_pointers(changes, self._names_to_move(values, surplus, unreadable))
        for name in sorted(unreadable & result.replaceable):
            result = with_note(result, name)
        # Computing the size of a large item is slow: if nothing moved, it is not done twice.
        if result is not changes:
            surplus = excess_after(item, result, limit)
        # Notes replace as many variables, the largest first, as are needed.
        while surplus > 0 and (smaller := without_largest(result)) is not None:
            surplus -= stored_size(result) - stored_size(smaller)
            result = smaller
        return result

    def fit_new(self, item: Item, limit: int) -> Item:
        """Move values of a new task's item outside, so that it fits. The caller refuses one that is still too large."""
        variables = item["variables"]["M"]
        values = {name: value for name, value in variables.items() if name not in ALWAYS_IN_ITEM}
        values[FINAL_RESULT] = item["arguments"]
        pointers = self.move({name: values[name] for name in self._names_to_move(values, excess(item, limit))})
        arguments = pointers.pop(FINAL_RESULT, item["arguments"])
        return {**item, "arguments": arguments, "variables": {"M": {**variables, **pointers}}}

    def shrink(self, changes: Changes) -> Changes | None:
        """The changes for an item that DynamoDB refused as too large: with all values outside that can be moved, or if
        there are none, with a note for the largest. `None` if that would save nothing."""
        smaller = self._with_pointers(
            changes, [name for name, value in _values(changes).items() if self.can_move(value)]
        )
        return without_largest(changes) if stored_size(smaller) == stored_size(changes) else smaller

    def _names_to_move(self, values: Mapping[str, Attribute], surplus: int, forced: Collection[str] = ()) -> list[str]:
        """The names of the values that are moved.

        Args:
            values: The values of the write, by name.
            surplus: By how much the item is too large if none is moved, bytes.
            forced: Names of values that must be moved, even if they are not large.
        """
        sizes = {name: size(value) for name, value in values.items() if self.can_move(value)}
        names = [name for name in sizes if name in forced or is_large(values[name])]
        surplus -= sum(sizes[name] - POINTER_BYTES for name in names)
        for name in sorted(sizes.keys() - names, key=lambda name: (-sizes[name], name)):
            if surplus <= 0:
                break
            names.append(name)
            surplus -= sizes[name] - POINTER_BYTES
        return names

    def _with_pointers(self, changes: Changes, names: Collection[str]) -> Changes:
        """The changes with pointers for those of these values that could be written outside."""
        if not names:
            return changes
        values = _values(changes)
        pointers = self.move({name: values[name] for name in names})
        result = pointers.pop(FINAL_RESULT, changes.result)
        replaceable, variables = changes.replaceable.difference(pointers), {**changes.variables, **pointers}
        return replace(changes, result=result, replaceable=replaceable, variables=variables)


def without_largest(changes: Changes) -> Changes | None:
    """The changes with a note in place of the largest variable; `None` if a note would save nothing."""
    largest = max(changes.replaceable, key=lambda name: (size(changes.variables[name]), name), default=None)
    if largest is None:
        return None
    smaller = with_note(changes, largest)
    return smaller if stored_size(smaller) < stored_size(changes) else None


def with_note(changes: Changes, name: str) -> Changes:
    text_length = text_bytes(changes.variables[name])
    # A shorter value is only replaced if it could not be written outside.
    note = not_kept(text_length, EXCEEDS if text_length > VALUE_BYTES else NOT_WRITTEN)
    return replace(
        changes,
        variables={**changes.variables, name: note},
        replaceable=changes.replaceable.difference({name}),
        oversized=(*changes.oversized, from_text(name)),
    )


def stored_size(changes: Changes) -> int:
    """The bytes of the new variables and the result in the item."""
    return sum(map(size, changes.variables.values())) + (0 if changes.result is None else size(changes.result))


def _values(changes: Changes) -> dict[str, Attribute]:
    values = {name: changes.variables[name] for name in changes.replaceable}
    return values if changes.result is None else {**values, FINAL_RESULT: changes.result}


class Fetcher:
    """Reads the values of one task that are outside its item. A bundle is fetched when one of its values is first read.

    Values raise `ValueLost` if they are missing or not what was written, `ValueTooLarge` if they are longer than is
    read, and `StoreUnavailable` if DynamoDB does not respond, or refuses.
    """

    def __init__(self, table: TaskTable, owner: str, task_id: str) -> None:
        self._table = table
        self._owner = owner
        self._task_id = task_id
        self._cache: dict[str, bytes] = {}
        self._failure: StoreUnavailable | None = None

    def fetch(self, pointer: Pointer) -> Attribute:
        """A value as it would be stored in the item."""
        check_readable(pointer.text_bytes)
        data = self._read_bundle(pointer)[pointer.offset : pointer.offset + pointer.stored_bytes]
        return {"B": data} if is_zipped(data) else {"S": data.decode()}

    def read_ahead(self, pointers: Iterable[Pointer]) -> None:
        """Fetch the bundles of these values, four at once, as far as there is room to keep them.

        Errors are raised when a value is read.
        """
        room = CACHE_BYTES - sum(map(len, self._cache.values()))
        bundles: dict[str, Pointer] = {}
        for pointer in pointers:
            is_new = pointer.bundle not in bundles and pointer.bundle not in self._cache
            # A longer bundle is fetched by itself, several pieces at once.
            if is_new and pointer.bundle_bytes <= min(room, BUNDLE_BYTES):
                bundles[pointer.bundle] = pointer
                room -= pointer.bundle_bytes
        if len(bundles) > 1:
            jobs = [partial(self._read_bundle, pointer) for pointer in bundles.values()]
            for failure in run_jobs(jobs, None, time.monotonic):
                if failure is not None and not isinstance(failure, StoreError):
                    raise failure

    def _read_bundle(self, pointer: Pointer) -> bytes:
        if pointer.bundle in self._cache:
            return self._cache[pointer.bundle]
        if self._failure:
            raise StoreUnavailable(str(self._failure)) from self._failure
        try:
            data = self._read_pieces(pointer)
        except StoreUnavailable as failure:
            # Otherwise each further read of this request would wait for the same failure.
            self._failure = failure
            raise
        if len(data) != pointer.bundle_bytes or name_of(digest_of(data)) != pointer.bundle:
            raise self._lost_error(pointer, DAMAGED)
        if sum(map(len, self._cache.values())) + len(data) <= CACHE_BYTES:
            self._cache[pointer.bundle] = data
        return data

    def _read_pieces(self, pointer: Pointer) -> bytes:
        """A bundle in DynamoDB. Its pieces are read four at once."""
        pieces = range(-(-pointer.bundle_bytes // BUNDLE_BYTES))
        return b"".join(results_of([partial(self._read_piece, pointer, number) for number in pieces]))

    def _read_piece(self, pointer: Pointer, number: int) -> bytes:
        key, table = piece_key(self._owner, self._task_id, pointer.bundle, number), self._table
        # An eventually consistent read may miss a new item.
        item = table.get(key, consistent=False) or table.get(key)
        if item is None:
            raise self._lost_error(pointer, f"its piece {number + 1} is missing")
        match item.get("data"):
            case {"B": bytes() as data}:
                return data
            case _:
                raise self._lost_error(pointer, DAMAGED)

    def _lost_error(self, pointer: Pointer, cause: str) -> ValueLost:
        length = pointer.text_bytes
        logger.error("task %s: %s, of a value of %d bytes, is lost: %s", self._task_id, pointer.bundle, length, cause)
        return ValueLost(length, cause)


def expiring_pointers(item: Item, expires_s: int) -> dict[Path, Pointer]:
    """The pointers in an item to values that may expire before this time, epoch seconds."""
    values: dict[Path, Attribute] = {("variables", name): value for name, value in members(item, "variables").items()}
    values |= {(name,): item[name] for name in LARGE_ATTRIBUTES if name in item}
    pointers = {path: pointer_in(value) for path, value in values.items()}
    return {path: pointer for path, pointer in pointers.items() if pointer and pointer.until_s < expires_s}


def rewrite_values(
    table: TaskTable, owner: str, task_id: str, expires_s: int, expiring: Mapping[Path, Pointer]
) -> tuple[dict[Path, Attribute], int]:
    """Write the values of `expiring_pointers` again. Bundles are processed one by one to save memory.

    Returns:
        The new pointers, and how long the task may live, epoch seconds: as requested, or until the first value expires
        that could not be written again.
    """
    deadline_s = table.monotonic() + PROLONG_S
    mover = Mover(table, owner, task_id, expires_s, deadline_s)
    pointers: dict[Path, Attribute] = {}
    bundles: dict[str, list[Path]] = {}
    for path, pointer in expiring.items():
        bundles.setdefault(pointer.bundle, []).append(path)
    for paths in bundles.values():
        fetcher = Fetcher(table, owner, task_id)
        try:
            if table.monotonic() >= deadline_s:
                raise StoreUnavailable("the time for prolonging values is over")
            values = {"\0".join(path): fetcher.fetch(expiring[path]) for path in paths}
        except ValueLost:
            continue  # the value is lost, or too large to be read: the task can live longer without it
        except StoreUnavailable:
            values = {}
        new_pointers = mover.move(values)
        for path in paths:
            if new_pointer := new_pointers.get("\0".join(path)):
                pointers[path] = new_pointer
            else:
                expires_s = min(expires_s, expiring[path].until_s)
    return pointers, expires_s
