"""The one way to fit values and texts into a number of bytes."""

from hypothesis import given
from hypothesis import strategies as st

from mcp_baton.present.fit import bytes_of, fit


def test_each_piece_has_the_first_of_its_forms_that_fits() -> None:
    pieces = [["aaaa", "a"], ["bbbb", "bb"], ["c"]]

    assert fit(pieces, 9, len) == ["aaaa", "bbbb", "c"]
    assert fit(pieces, 7, len) == ["aaaa", "bb", "c"]
    assert fit(pieces, 1, len) == ["a"]


def test_a_piece_that_does_not_fit_is_left_out_and_with_it_all_later_ones_if_the_order_matters() -> None:
    pieces = [["a"], ["bbbb"], ["c"]]

    assert fit(pieces, 2, len) == ["a", "c"]
    assert fit(pieces, 2, len, in_order=True) == ["a"]


@given(st.lists(st.lists(st.text(max_size=9), max_size=3), max_size=9), st.integers(0, 40), st.booleans())
def test_what_is_chosen_never_exceeds_the_room(pieces: list[list[str]], room: int, in_order: bool) -> None:
    assert sum(map(bytes_of, fit(pieces, room, bytes_of, in_order=in_order))) <= room
