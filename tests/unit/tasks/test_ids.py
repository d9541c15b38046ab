"""Task ids and write tokens."""

from hypothesis import given
from hypothesis import strategies as st

from mcp_baton.tasks.ids import (
    ALPHABET,
    LENGTH,
    RANDOM_BITS,
    encode,
    is_question,
    is_task_id,
    new_question,
    new_task_id,
    new_token,
)

times = st.integers(0, 2**48 - 1)


@given(times, times)
def test_ids_sort_by_their_time(first: int, second: int) -> None:
    early, late = sorted((first, second))
    if early != late:
        assert new_task_id(early) < new_task_id(late)


@given(times)
def test_an_id_has_the_form_that_is_checked(now_ms: int) -> None:
    assert is_task_id(new_task_id(now_ms))


def test_an_id_has_122_random_bits() -> None:
    ids = [new_task_id(0) for _ in range(2000)]
    numbers = [sum(ALPHABET.index(c) << 5 * place for place, c in enumerate(reversed(text))) for text in ids]
    ever_set, ever_clear = 0, 0
    for number in numbers:
        ever_set |= number
        ever_clear |= ~number & (2**RANDOM_BITS - 1)
    assert ever_set == ever_clear == 2**RANDOM_BITS - 1
    assert len(set(ids)) == len(ids)


def test_the_largest_number_fills_the_id() -> None:
    assert encode(2**170 - 1) == "z" * LENGTH
    assert encode(0) == "0" * LENGTH


def test_what_is_no_id_is_told_apart() -> None:
    good = new_task_id(1)
    for bad in ("", good[:-1], good + "0", good[:-1] + "u", good[:-1] + "\n", "\ud800" * LENGTH, good.upper()):
        assert not is_task_id(bad)


def test_tokens_differ() -> None:
    assert len({new_token() for _ in range(1000)}) == 1000


def test_a_questions_id_is_told_from_what_is_none() -> None:
    good = new_question()
    assert is_question(good)
    for bad in (
        "",
        good[:-1],
        good + "0",
        good.upper(),
        good[6:],
        "x" * 6 + good[6:],
        good[:-1] + "g",
        good[:-1] + "\n",
    ):
        assert not is_question(bad)
