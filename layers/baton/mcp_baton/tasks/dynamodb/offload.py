"""A task's objects: values are moved there while it is written, and fetched while it is read (docs/storage.md)."""

import logging
from collections.abc import Iterator, Mapping

from mcp_baton.exceptions import StoreUnavailable, ValueLost
from mcp_baton.protocol.json import Json
from mcp_baton.tasks.dynamodb.attributes import Attribute, Item, decode, item_size, size, text_bytes, text_pieces
from mcp_baton.tasks.dynamodb.overflow import (
    ObjectMissing,
    ObjectStore,
    ObjectTooLarge,
    Pointer,
    folder_of,
    new_key,
    object_of,
    pointer_in,
    pointer_to,
)
from mcp_baton.tasks.record import PAUSE_REASON, PROGRESS, Weight
from mcp_baton.tasks.texts import check_readable, most_zipped

logger = logging.getLogger(__name__)


class Mover:
    """Moves values of one write out of the item. Once the object store has failed, it is not asked again.

    Args:
        store: The object store; `None` where there is none.
        owner: The task's owner.
        task_id: The task.
        ttl_ms: The task's lifetime, milliseconds.
    """

    def __init__(self, store: ObjectStore | None, owner: str, task_id: str, ttl_ms: int) -> None:
        self._store = store
        self._owner = owner
        self._task_id = task_id
        self._ttl_ms = ttl_ms

    @property
    def ready(self) -> bool:
        """Whether values can be moved, as far as is known."""
        return self._store is not None

    def move(self, value: Attribute) -> Attribute | None:
        """Write an encoded value to an object of its own.

        Returns:
            The pointer for its place; `None` when that would save nothing, or the object could not be written.
        """
        if self._store is None:
            return None
        data = object_of(value)
        pointer = pointer_to(new_key(folder_of(self._owner, self._task_id), self._ttl_ms), value, data)
        if size(pointer.attribute()) >= size(value):
            return None
        try:
            self._store.put(pointer.key, data, bytes.fromhex(pointer.digest))
        except StoreUnavailable:
            # A write has little time. What one failure took of it must not be taken again for the next value.
            self._store = None
            logger.exception("task %s: a value of %d bytes could not be moved", self._task_id, pointer.text_bytes)
            return None
        return pointer.attribute()


def fitted_new(item: Item, limit: int, mover: Mover) -> Item:
    """A new task's item with as many of its values moved, the largest first, as bring it under the limit.

    The progress and the pause reason stay, because writes address them. What is too large nevertheless is for the
    caller to refuse.
    """
    while item_size(item) > limit:
        values = {"arguments": item["arguments"], **{f"variables.{n}": v for n, v in _movable(item).items()}}
        largest = max(values, key=lambda place: (size(values[place]), place))
        pointer = mover.move(values[largest]) if pointer_in(values[largest]) is None else None
        if pointer is None:
            break
        item = _replaced(item, largest, pointer)
    return item


def _movable(item: Item) -> Mapping[str, Attribute]:
    return {name: value for name, value in item["variables"]["M"].items() if name not in {PROGRESS, PAUSE_REASON}}


def _replaced(item: Item, place: str, pointer: Attribute) -> Item:
    attribute, _, name = place.partition(".")
    return {**item, attribute: {"M": {**item["variables"]["M"], name: pointer}} if name else pointer}


def weight(attribute: Attribute) -> Weight:
    """What a value weighs that an attribute holds or points at. Nothing is fetched or unzipped for it."""
    pointer = pointer_in(attribute)
    if pointer is None:
        return Weight(text_bytes(attribute), outside=False)
    return Weight(pointer.text_bytes, outside=True)


class Fetcher:
    """Reads the values of one task, wherever they are. An object is fetched when it is first asked for, once.

    Args:
        store: The object store; `None` where there is none.
        owner: The task's owner.
        task_id: The task.
    """

    def __init__(self, store: ObjectStore | None, owner: str, task_id: str) -> None:
        self._store = store
        self._owner = owner
        self._task_id = task_id
        self._fetched: dict[str, bytes] = {}
        self._failure: StoreUnavailable | None = None

    def value(self, attribute: Attribute) -> Json:
        """The value that an attribute holds or points at.

        Raises:
            ValueLost: the object is gone, or is not what was written, or the attribute's zip is damaged.
            ValueTooLarge: the value is larger than is read; nothing was fetched or unzipped.
            StoreUnavailable: the object store does not answer, or refuses.
            StoreError: the attribute is damaged.
        """
        return decode(self._here(attribute))

    def text(self, attribute: Attribute) -> Iterator[str]:
        """The JSON text of that value, in pieces.

        Raises:
            StoreError: as `value`; what came before is then worth nothing.
        """
        return text_pieces(self._here(attribute))

    def _here(self, attribute: Attribute) -> Attribute:
        pointer = pointer_in(attribute)
        return attribute if pointer is None else {"B": self._object(pointer)}

    def _object(self, pointer: Pointer) -> bytes:
        if pointer.key not in self._fetched:
            self._fetched[pointer.key] = self._fetch(pointer)
        return self._fetched[pointer.key]

    def _fetch(self, pointer: Pointer) -> bytes:
        check_readable(pointer.text_bytes)
        # A pointer into another task's folder was not written here.
        if not pointer.key.partition("/")[2].startswith(folder_of(self._owner, self._task_id)):
            raise self._lost(pointer, "its pointer is another task's")
        try:
            data = self._get(pointer)
        except ObjectMissing as missing:
            raise self._lost(pointer, "its object is missing") from missing
        except ObjectTooLarge as larger:
            raise self._lost(pointer, "its object is damaged") from larger
        if not pointer.describes(data):
            raise self._lost(pointer, "its object is damaged")
        return data

    def _get(self, pointer: Pointer) -> bytes:
        if self._store is None:
            raise StoreUnavailable(f"the object {pointer.key} cannot be read: no bucket is configured")
        if self._failure is not None:
            raise StoreUnavailable(str(self._failure)) from self._failure
        try:
            return self._store.get(pointer.key, most_zipped(pointer.text_bytes))
        except StoreUnavailable as failure:
            # Whoever reads on, in the same request, would wait for the same failure again.
            self._failure = failure
            raise

    def _lost(self, pointer: Pointer, cause: str) -> ValueLost:
        logger.error("the object %s, of a value of %d bytes, is lost: %s", pointer.key, pointer.text_bytes, cause)
        return ValueLost(pointer.text_bytes, cause)
