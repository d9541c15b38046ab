"""How many examples a property is held against: always the same few in `make test`, many new ones in `make fuzz`.

And what many of them are made of.
"""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

USUAL = 100
"""Examples of a test that asks for no number, in `make test`."""

FUZZED = 2_000
"""The same in `make fuzz`; what asks for a number of its own gets that many times more."""


def examples(number: int) -> settings:
    """Settings for a test of so many examples."""
    return settings(max_examples=number * settings().max_examples // USUAL)


TEXT = st.text(st.characters(codec=None), max_size=20)
"""Every string that Python has, lone surrogates included."""

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
"""Any JSON value."""
