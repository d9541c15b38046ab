"""The list of a step with `each`: its elements, and the results of the calls so far (docs/workflows.md, Lists). Pure.

While the step is unfinished, the task stores both in `_workflow.items.<step>`:
`{"elements": [...], "results": {"0": ...}}`.
"""

from collections.abc import Mapping
from typing import Final, cast

from msgspec import Struct

from mcp_baton.exceptions import StoreError
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.record import ITEMS_PREFIX
from mcp_baton.workflow.sources import kind_of

MAX_ELEMENTS: Final = 1_000
"""The most elements of a list."""


class Items(Struct):
    """The elements of a list, and the results of their calls by index.

    Attributes:
        version: The version of the stored task whose results are included; 0 if none are.
        is_changed: Whether there are results that were not written.
    """

    elements: list[Json]
    results: dict[int, Json]
    version: int = 0
    is_changed: bool = False

    @property
    def open(self) -> list[int]:
        """The indexes without a result, in order."""
        return [index for index in range(len(self.elements)) if index not in self.results]

    @property
    def in_order(self) -> list[Json]:
        """The results, in the order of the elements. Every element has one."""
        return [self.results[index] for index in range(len(self.elements))]

    def to_json(self) -> JsonObject:
        """The stored form."""
        results = {str(index): result for index, result in sorted(self.results.items())}
        return {"elements": self.elements, "results": results}


def stored_items(variables: Mapping[str, Json], step: str) -> Items | None:
    """The stored items of a step; `None` if there are none.

    Raises:
        StoreError: they cannot be read, or are damaged.
    """
    name = f"{ITEMS_PREFIX}{step}"
    if name not in variables:
        return None
    try:
        value = cast("Mapping[str, dict[str, Json]]", variables[name])
        results = {int(index): result for index, result in value["results"].items()}
        return Items(cast("list[Json]", list(value["elements"])), results)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise StoreError(f"the stored items of the step {step!r} are damaged") from error


def item_name(step: str, index: int) -> str:
    """The name of one call of a step, for its idempotency key and for texts: `notify[3]`."""
    return f"{step}[{index}]"


def failed_items(errors: Mapping[int, str], count: int, total: int, unapproved_count: int = 0) -> str:
    """The error of a step some of whose calls have failed, from some of the errors by index.

    Args:
        unapproved_count: How many calls were not made, because no person has approved them.
    """
    parts = [f"{count} of {total} calls failed"]
    if errors:
        parts.append(f"the call for element {min(errors)}: {errors[min(errors)]}")
    if unapproved_count:
        parts.append(f"{unapproved_count} more {'was' if unapproved_count == 1 else 'were'} not made without approval")
    return "; ".join(parts)


def list_of(value: Json) -> list[Json] | str:
    """The elements of the list over which a step runs; or why there are none."""
    if not isinstance(value, list):
        return f"each: a list is needed, and the value is {kind_of(value)}"
    if len(value) > MAX_ELEMENTS:
        return f"each: the list has {len(value):,} elements; at most {MAX_ELEMENTS:,} are possible"
    return list(value)
