"""Which of a write's values stay in the head, and which are kept outside or give way (docs/storage.md, Sizes)."""

from collections.abc import Collection, Mapping

from msgspec.structs import replace

from mcp_baton.tasks.dynamodb.attributes import Attribute, Item, not_kept, text_bytes
from mcp_baton.tasks.dynamodb.changes import Changes, excess_after
from mcp_baton.tasks.dynamodb.items import IN_HEAD
from mcp_baton.tasks.dynamodb.moving import Mover
from mcp_baton.tasks.dynamodb.placing import POINTER_BYTES, Place, cheapest
from mcp_baton.tasks.dynamodb.values import SMALLEST_BYTES, excess, size
from mcp_baton.tasks.texts import VALUE_BYTES, from_text
from mcp_baton.tasks.values import FINAL_RESULT

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
