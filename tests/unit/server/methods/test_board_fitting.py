"""What of a board stands in an answer where not all of it can."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mcp_baton.server.workflows.board import ALL, LONG, Fitted, Part, RemainingCall, fitted, of_board, shown, size_of

NOTE: dict[str, Any] = {"bytes": 1}


def part(size: int, step: int = 0, member: str = "result") -> Part:
    value = "x" * (size - 2)
    return Part(step, member, value, size_of(value), NOTE)


def call(size: int, schema: int = 0) -> RemainingCall:
    return RemainingCall({"tool": "t", "arguments": {"a": "x" * size}}, ["a"], {"s": "x" * schema})


def structure(fits: Fitted, parts: list[Part], bare: int) -> int:
    """The bytes of what a board makes of it: a result and an entry stand there twice."""
    values: list[Any] = [shown(one, fits) for one in parts for _ in range(2 if one.member == "result" else 1)]
    calls = [of_board(one, with_schema=place in fits.with_schema) for place, one in enumerate(fits.calls)]
    entries = [one.entry for one in fits.calls]
    of_notes = sum(size_of(dict(one.note)) * (2 if one.member == "result" else 1) for one in parts)
    return bare - of_notes + sum(map(size_of, values)) + sum(size_of(one) + 1 for one in [*calls, *entries])


def test_what_fits_stands_there_whole() -> None:
    fits = fitted(1_000, [part(100), part(LONG, 1, "arguments")], [call(10, 10), call(10, 10)])

    assert fits.whole == {(0, "result"), (1, "arguments")}
    assert len(fits.calls) == 2
    assert fits.with_schema == {0, 1}


def test_a_long_value_does_not_stand_there_whatever_room_there_is() -> None:
    assert fitted(0, [part(LONG + 1)], []).whole == frozenset()


def test_short_values_come_before_longer_ones() -> None:
    parts = [part(1_900, 0), part(100, 1), part(1_800, 2)]

    assert fitted(ALL - 4_000, parts, []).whole == {(1, "result"), (2, "result")}


def test_the_first_call_is_there_however_long_it_is_and_the_others_as_they_fit() -> None:
    fits = fitted(0, [part(100)], [call(ALL), call(10)])

    assert (len(fits.calls), fits.with_schema, fits.whole) == (1, frozenset(), frozenset())


def test_the_first_calls_schema_comes_before_values_and_the_others_after_them() -> None:
    parts = [part(1_900, step) for step in range(5)]
    calls = [call(10, 9_000), call(10, 2_000)]

    tight, roomier = fitted(ALL - 12_000, parts, calls), fitted(ALL - 14_000, parts, calls)
    assert (len(tight.whole), tight.with_schema == {0, 1}) == (0, True)
    assert (len(roomier.whole), roomier.with_schema == {0}) == (1, True)


def test_a_resource_to_read_is_an_entry_without_arguments() -> None:
    assert of_board(RemainingCall({"resource": "docs://a"}, (), None), with_schema=True) == {"resource": "docs://a"}
    assert of_board(call(1), with_schema=False)["missing"] == ["a"]


SIZES = st.integers(2, 3_000)


@given(
    st.integers(0, ALL),
    st.lists(st.tuples(SIZES, st.sampled_from(["result", "arguments"])), max_size=40),
    st.lists(st.tuples(st.integers(0, 2_000), st.integers(0, 9_000)), max_size=20),
)
def test_what_stands_there_never_takes_more_than_all_of_it_may(
    bare: int, values: list[tuple[int, str]], entries: list[tuple[int, int]]
) -> None:
    parts = [part(size, step, member) for step, (size, member) in enumerate(values)]
    calls = [call(size, schema) for size, schema in entries]
    fits = fitted(bare, parts, calls)

    first = 2 * size_of(dict(calls[0].entry)) + 100 if calls else 0
    assert structure(fits, parts, bare) <= max(ALL, bare + first)
