"""Which examples properties are held against."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import FUZZED, USUAL, examples


def test_the_same_commit_is_held_against_the_same_examples() -> None:
    drawn: list[int] = []

    @examples(30)
    @given(st.integers())
    def note(number: int) -> None:
        drawn.append(number)

    note()
    first, drawn = drawn, []
    note()

    assert len(first) == 30
    assert drawn == first


def test_looking_for_new_examples_takes_many_more_of_them_whatever_number_a_test_asks_for() -> None:
    fuzz = settings.get_profile("fuzz")
    assert (fuzz.derandomize, fuzz.print_blob, fuzz.max_examples) == (False, True, FUZZED)
    assert examples(50).max_examples == 50 * settings().max_examples // USUAL == 50
