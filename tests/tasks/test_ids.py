"""Task ids and write tokens."""

from hypothesis import given
from hypothesis import strategies as st

from mcp_baton.tasks.ids import (
    RANDOM_CHARS,
    TASK_ID_ALPHABET,
    TASK_ID_CHARS,
    is_question,
    is_task_id,
    new_question,
    new_task_id,
    new_task_question,
    parse_task_question,
    sent_mark,
    short_digest,
)

times = st.integers(0, 2**48 - 1)


@given(times, times)
def test_ids_sort_by_time(first_ms: int, second_ms: int) -> None:
    early, late = sorted((first_ms, second_ms))
    if early != late:
        assert new_task_id(early) < new_task_id(late)


@given(times)
def test_a_new_id_is_valid(now_ms: int) -> None:
    assert is_task_id(new_task_id(now_ms))


def test_an_id_has_135_random_bits() -> None:
    ids = [new_task_id(0) for _ in range(2000)]
    for place in range(1, RANDOM_CHARS + 1):
        assert {text[-place] for text in ids} == set(TASK_ID_ALPHABET)
    assert len(set(ids)) == len(ids)


def test_other_texts_are_not_task_ids() -> None:
    good = new_task_id(1)
    for bad in ("", good[:-1], good + "0", good[:-1] + "u", good[:-1] + "\n", "\ud800" * TASK_ID_CHARS, good.upper()):
        assert not is_task_id(bad)


def test_other_texts_are_not_question_ids() -> None:
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


@given(times, st.text())
def test_the_id_of_a_tasks_question_contains_the_task_and_is_unique(now_ms: int, key: str) -> None:
    task_id = new_task_id(now_ms)
    question = new_task_question(task_id, key)
    assert parse_task_question(question) == (task_id, short_digest(key))
    assert not is_question(question)
    assert question != new_task_question(task_id, key)


@given(st.text())
def test_other_texts_are_not_ids_of_task_questions(text: str) -> None:
    task_id = new_task_id(0)
    for text_or_id in (
        text,
        new_question(),
        f"baton-task-{text}",
        f"baton-task-{task_id}",
        f"baton-task-{task_id}-{text[:15]}",
    ):
        assert parse_task_question(text_or_id) is None


def test_a_mark_has_the_form_of_a_question_id_and_is_unique() -> None:
    marks = [
        sent_mark(task, key, session, window)
        for task in ("t1", "t2")
        for key in ("a", "b 1")
        for session in ("", "s")
        for window in (1, 2)
    ]
    assert len(set(marks)) == len(marks)
    assert all(map(is_question, marks))
