"""The tools of `benchmarks/load.py`, the same in every framework, and the workflows that they are steps of.

The sizes are those of costs/workflows.md.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

KB = 1_024
ROW_BYTES = 109


@dataclass(frozen=True, slots=True)
class Shape:
    """A workflow that pauses once.

    Attributes:
        kb: The size of each step's result as JSON.
        before: How many steps the server runs before the pause.
        by_client: How many tools the client calls.
        after: How many steps the server runs after the client has resumed the workflow.
    """

    kb: int
    before: int
    by_client: int
    after: int = 0


SHAPES = {
    "typical": Shape(2, before=2, by_client=1, after=1),
    "chatty": Shape(20, before=10, by_client=10),
    "heavy": Shape(60, before=3, by_client=3),
}


def fetch(step: int, kb: int, after: dict[str, Any] | None = None) -> dict[str, Any]:  # noqa: ARG001
    """Fetch rows. `after` is the result of the previous step."""
    return rows(step, kb)


def decide(step: int, kb: int, who: str) -> dict[str, Any]:  # noqa: ARG001
    """Decide something that only the client knows."""
    return rows(step, kb)


@cache
def rows(step: int, kb: int) -> dict[str, Any]:
    """Rows of a business system, about so many KB as JSON."""
    return {"rows": [_row(step * 1_000 + number) for number in range(kb * KB // ROW_BYTES)]}


def _row(number: int) -> dict[str, Any]:
    scattered = number * 2_654_435_761 % 2**32
    return {
        "order": f"ORD-{scattered:010}",
        "line": number % 40,
        "account": f"{scattered * 7 % 10**10:010}",
        "amount": scattered % 99_999 / 100,
        "currency": ("EUR", "USD", "GBP")[scattered % 3],
        "status": ("paid", "open", "shipped")[scattered % 7 % 3],
    }
