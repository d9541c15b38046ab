"""The bound of a task's head, and the values that leave it (docs/storage.md, Sizes).

DynamoDB charges every write for the whole head. So the head is bounded: large values are stored outside it, and if it
would still become too large, the largest others as well, new ones and stored ones.
"""

from collections.abc import Callable, Mapping
from typing import Final

from mcp_baton.tasks.dynamodb.attributes import Attribute, Item, text_bytes
from mcp_baton.tasks.dynamodb.items import ALWAYS_IN_ITEM, LARGE_MAPS, NO_PROGRESS, WORK, Limits, Path, members
from mcp_baton.tasks.dynamodb.values import is_large, is_value, is_within, item_size, size
from mcp_baton.tasks.record import CALL_PREFIX, ITEMS_PREFIX, PROGRESS, RESULT_PREFIX
from mcp_baton.tasks.texts import MAX_STORED_BYTES, MAX_VALUE_BYTES

type MoveValues = Callable[[Mapping[Path, Attribute]], Mapping[Path, Attribute]]
"""Writes values outside the head, and returns the pointers of those that could be written (`outside.Mover`)."""

MAX_VALUES_MOVED: Final = 30
"""The most stored values that one write moves out of the head. An expression has at most 4 KB and 300 operators."""

MAX_INLINE_BYTES: Final = 1_536
"""The most bytes of small values in a head. If they would take more, all leave it together, with one request."""

MIN_MOVED_BYTES: Final = 100
"""The smallest value that is moved, bytes: a pointer is not much smaller."""

RESULT_ROOM_BYTES: Final = 1_024
"""The room for a client's result that is written without reading the head."""

POINTER_BYTES: Final = 40
"""About the size of a pointer, bytes."""

BOOKKEEPING_BYTES: Final = 64
"""The most bytes that each write adds to the head besides its values: a token, and longer numbers."""

STEP_BYTES, NAMES_OF_STEP = 180, 5
"""What a step adds to the bound of a head: bytes, and how often its name."""

VARIABLE_BYTES, LIST_BYTES = 110, 450
"""What any other variable adds besides its name, and what an unfinished list does, bytes."""

OF_STEPS = (RESULT_PREFIX, CALL_PREFIX)
"""The prefixes of the variables that `STEP_BYTES` and `NAMES_OF_STEP` count."""


def head_bytes(head: Item, base: int) -> int:
    """The bound of a head, bytes: a base, for each step 180 bytes and five times its name, and for each other variable
    its name and a pointer.

    Outside are a step's result and call; inside stay its status, two pointers, its timing and its names.
    """
    variables = members(head, "variables")
    steps = variables.get(PROGRESS, NO_PROGRESS)["M"]["steps"]["L"]
    names = sum(len(step["M"]["name"]["S"].encode()) for step in steps)
    bound = base + STEP_BYTES * len(steps) + NAMES_OF_STEP * names
    for name in variables:
        if name not in ALWAYS_IN_ITEM and not name.startswith(OF_STEPS):
            bound += len(name.encode()) + (LIST_BYTES if name.startswith(ITEMS_PREFIX) else VARIABLE_BYTES)
    return bound


def head_room(head: Item, limits: Limits) -> int:
    """The bytes that a head may have, so that it is within its bound after a client's result."""
    return head_bytes(head, limits.head_bytes) - RESULT_ROOM_BYTES


def fit_new(item: Item, limits: Limits, move: MoveValues) -> Item:
    """The head of a new task after values have left it, so that it stays within its bound."""
    values = values_in(item)
    excess = item_size(item) - head_room(item, limits)
    return with_values(item, move({path: values[path] for path in paths_to_move(values, {}, excess)}))


def with_values(head: Item, values: Mapping[Path, Attribute]) -> Item:
    """A head with other values, or pointers, in these places."""
    changed, maps = dict(head), dict[str, dict[str, Attribute]]()
    for path, value in values.items():
        if len(path) == 1:
            changed[path[0]] = value
        else:
            if path[0] not in maps:
                maps[path[0]] = {**members(head, path[0])}
            maps[path[0]][path[1]] = value
    return changed | {name: {"M": values} for name, values in maps.items()}


def is_fitting(
    head: Item, room: int, new: Mapping[Path, Attribute], stored: Mapping[Path, Attribute], *, is_last: bool = False
) -> bool:
    """Whether a head is within its room, and no value of a write has to leave it: see `paths_to_move`."""
    if any(is_large(value) and is_value(value) for value in new.values()) or not is_within(head, room):
        return False
    return is_last or sum(size(value) for value in {**stored, **new}.values() if can_move(value)) <= MAX_INLINE_BYTES


def paths_to_move(
    new: Mapping[Path, Attribute], stored: Mapping[Path, Attribute], excess: int, *, is_last: bool = False
) -> list[Path]:
    """The values that leave a head: the large ones of a write. The others leave it, too, if they would take more than
    `MAX_INLINE_BYTES`, or if the head would still exceed its bound (by `excess` bytes if nothing is moved).

    The last write of a task moves them only for the bound: no later write is charged for them.
    """
    sizes = {path: size(value) for path, value in {**stored, **new}.items() if can_move(value)}
    large = [path for path in new if path in sizes and is_large(new[path])]
    others = sorted(sizes.keys() - large, key=lambda path: (-sizes[path], path))
    excess -= sum(sizes[path] - POINTER_BYTES for path in large)
    if excess <= 0 and (is_last or sum(sizes[path] for path in others) <= MAX_INLINE_BYTES):
        return large
    worthwhile = [path for path in others if sizes[path] >= MIN_MOVED_BYTES]
    old = [path for path in worthwhile if path not in new][:MAX_VALUES_MOVED]
    return [*large, *old, *(path for path in worthwhile if path in new)]


def can_move(value: Attribute) -> bool:
    """Whether a value can be moved: this makes the head smaller, it is not outside yet, and it can be read back."""
    return size(value) > POINTER_BYTES and is_value(value) and not exceeds_limits(value)


def exceeds_limits(value: Attribute) -> bool:
    """Whether a value is too large to be stored."""
    return size(value) > MAX_STORED_BYTES or (size(value) > POINTER_BYTES and text_bytes(value) > MAX_VALUE_BYTES)


def values_in(item: Item) -> dict[Path, Attribute]:
    """The values in a head that may leave it."""
    values: dict[Path, Attribute] = {(name,): item[name] for name in ("arguments", "result") if name in item}
    if WORK in item and is_large(item[WORK]):  # a worker reads it with each event, so it stays if it is small
        values[WORK,] = item[WORK]
    for name in LARGE_MAPS:
        values |= {(name, key): value for key, value in members(item, name).items() if key not in ALWAYS_IN_ITEM}
    return values
