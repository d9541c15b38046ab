"""The list of a step with `each`: its elements, and the results of the calls so far (docs/workflows.md, Lists). Pure.

While the step is unfinished, the task stores the elements in `_workflow.elements.<step>` and the results in
`_workflow.items.<step>`.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, structs

from mcp_baton.exceptions import StoreError
from mcp_baton.protocol.json import Json
from mcp_baton.tasks.record import ELEMENTS_PREFIX, ITEMS_PREFIX
from mcp_baton.tasks.store import ListWrite
from mcp_baton.tasks.values import StoredList, elements_digest, list_in
from mcp_baton.workflow.json_values import kind_of

MAX_ELEMENTS: Final = 1_000
"""The most elements of a list."""


class ListElements(Struct):
    """The elements of a list, and the results of their calls by index.

    Attributes:
        known: The results that were read or made.
        stored: The results that the task has; `None` if it has not stored the list.
        replaced: Whether the task has stored other elements, and `dropped` the indexes of their results.
        version: The version of the task in which `stored` was read; 0 if it was not read.
        is_changed: Whether there is something that was not written.
    """

    elements: list[Json]
    known: dict[int, Json]
    stored: StoredList | None = None
    replaced: bool = False
    dropped: frozenset[int] = frozenset()
    version: int = 0
    is_changed: bool = False

    @property
    def done(self) -> frozenset[int]:
        """The indexes with a result."""
        stored = self.stored.done - self.dropped if self.stored else frozenset()
        return stored.union(self.known)

    @property
    def open(self) -> list[int]:
        """The indexes without a result, in order."""
        done = self.done
        return [index for index in range(len(self.elements)) if index not in done]

    @property
    def in_order(self) -> list[Json]:
        """The results, in the order of the elements. Every element has one. Raises `StoreError`."""
        missing = self.done - self.known.keys()
        if missing and self.stored:
            results = self.stored.read()
            self.known |= {index: results[index] for index in missing}
        return [self.known[index] for index in range(len(self.elements))]

    def to_write(self) -> ListWrite:
        """What is not stored yet."""
        stored = self.stored.done - self.dropped if self.stored else frozenset()
        results = {index: result for index, result in self.known.items() if index not in stored}
        is_new = self.stored is None or self.replaced
        return ListWrite(len(self.elements), results, self.elements if is_new else None, self.dropped)


def stored_items(variables: Mapping[str, Json], step: str, *, with_results: bool = False) -> ListElements | None:
    """The stored items of a step; `None` if there are none.

    Args:
        with_results: Whether the results are read, too.

    Raises:
        StoreError: they cannot be read, or are damaged.
    """
    stored, name = list_in(variables, step), f"{ITEMS_PREFIX}{step}"
    if stored is None:
        if name in variables:
            variables[name]  # raises why the results were not stored
        return None
    elements = variables.get(f"{ELEMENTS_PREFIX}{step}")
    if not isinstance(elements, list) or len(elements) != stored.total:
        raise StoreError(f"the stored items of the step {step!r} are damaged")
    results = stored.read() if with_results else []
    return ListElements(elements, {index: results[index] for index in stored.done} if with_results else {}, stored)


def merged_with(items: ListElements, variables: Mapping[str, Json], step: str) -> ListElements:
    """The items of a run with the results that the task has by now. Stored results of the same elements are kept.

    Raises:
        StoreError: the stored elements differ, and cannot be read.
    """
    stored = list_in(variables, step)
    if stored is None or stored.digest == elements_digest(items.elements):
        return structs.replace(items, stored=stored, replaced=False, dropped=frozenset())
    others = stored_items(variables, step)
    old = others.elements if others and len(others.elements) == len(items.elements) else []
    same = {index for index, element in enumerate(old) if element == items.elements[index]}
    return structs.replace(items, stored=stored, replaced=True, dropped=stored.done - same)


def item_name(step: str, index: int) -> str:
    """The name of one call of a step, for its idempotency key and for texts: `notify[3]`."""
    return f"{step}[{index}]"


def failed_items(errors: Mapping[int, str], count: int, items: ListElements, unapproved_count: int = 0) -> str:
    """The error of a step some of whose calls have failed, from some of the errors by index.

    Args:
        unapproved_count: How many calls were not made, because no person has approved them.
    """
    total, open_count = len(items.elements), len(items.open) - count - unapproved_count
    parts = [f"{count} of {total} calls failed"]
    if errors:
        parts.append(f"the call for element {min(errors)}: {errors[min(errors)]}")
    if unapproved_count:
        parts.append(f"{unapproved_count} more {'was' if unapproved_count == 1 else 'were'} not made without approval")
    if open_count > 0:
        parts.append(f"{open_count} more {'has' if open_count == 1 else 'have'} no result yet")
    return "; ".join(parts)


def list_of(value: Json) -> list[Json] | str:
    """The elements of the list over which a step runs; or why there are none."""
    if not isinstance(value, list):
        return f"each: a list is needed, and the value is {kind_of(value)}"
    if len(value) > MAX_ELEMENTS:
        return f"each: the list has {len(value):,} elements; at most {MAX_ELEMENTS:,} are possible"
    return list(value)
