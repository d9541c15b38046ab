"""The number of examples for property tests: always the same few in `make test`, many new ones in `make fuzz`.

Also strategies that many property tests use.
"""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

TEST_EXAMPLES = 100
"""The number of examples in `make test`, if a test sets none."""

FUZZ_EXAMPLES = 2_000
"""The same in `make fuzz`. A number that a test sets is multiplied by the same factor."""


def examples(number: int) -> settings:
    """Return settings for a test with this number of examples."""
    return settings(max_examples=number * settings().max_examples // TEST_EXAMPLES)


TEXT = st.text(st.characters(codec=None), max_size=20)
"""Any string that Python allows, including lone surrogates."""

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
"""Any JSON value."""
