"""How many examples a property is held against: always the same few in `make test`, many new ones in `make fuzz`."""

from hypothesis import settings

USUAL = 100
"""Examples of a test that asks for no number, in `make test`."""

FUZZED = 2_000
"""The same in `make fuzz`; what asks for a number of its own gets that many times more."""


def examples(number: int) -> settings:
    """Settings for a test of so many examples."""
    return settings(max_examples=number * settings().max_examples // USUAL)
