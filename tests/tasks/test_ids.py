"""Ids of tasks and of steps, and write tokens."""

import pytest
from hypothesis import example, given
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
from mcp_baton.tasks.step_ids import StepId, bare_task_id, copied_id, parse_step_id, step_id

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


TASK = "01m8"
ANY_TEXT = st.text(st.characters(exclude_categories=()))
"""Also lone surrogates, which some clients send."""


@given(ANY_TEXT, st.none() | st.integers(0, 999))
@example("", None)
@example("notify/3", None)
@example("100 %/é\n\ud800", 999)
@example("%2F", 0)
@example("..", None)
def test_an_id_is_read_as_it_was_written(step: str, index: int | None) -> None:
    text = step_id(TASK, step, index).text

    assert parse_step_id(text) == step_id(TASK, step, index)
    assert bare_task_id(text) == TASK
    assert text.isascii()
    assert text.isprintable()
    assert text.count("/") == (1 if index is None else 2)


COPIED = "01m8nzv9qkarc1wpb3zdtd4mep8svksb0hck2"


@pytest.mark.parametrize("path", ["", "/refund", "/send%20mail/3", "/%c3%a9"])
def test_an_id_is_recognized_as_models_copy_it(path: str) -> None:
    copies = ["{}", '"{}"', "'{}'", "`{}`.", "<{}>", "({}),", " {}\n", "“{}”", '{{"task_id": "{}"}}', "task_id: {}"]
    for text in (COPIED + path, COPIED.upper() + path, COPIED + path.replace("%", "%25").replace("/", "%2F")):
        assert {copied_id(copy.format(text)) for copy in copies} == {COPIED + path}


@pytest.mark.parametrize("text", ["", "new", "none", COPIED[:-1], f"{COPIED} {COPIED}", f"{COPIED}x", f"{COPIED}/a."])
def test_any_other_text_is_kept(text: str) -> None:
    assert copied_id(text) == text


@given(ANY_TEXT)
@example("%FFb")
def test_any_text_can_be_read(text: str) -> None:
    named = parse_step_id(text)

    assert named.text == text
    assert bare_task_id(copied_id(f"{COPIED}%2F{text}z")) == COPIED
    assert named.task_id == bare_task_id(text)


def test_a_task_is_no_step() -> None:
    assert parse_step_id(TASK) == StepId(TASK)


@pytest.mark.parametrize(
    ("text", "step", "index"),
    [
        ("01m8/refund", "refund", None),
        ("01m8/send%20mail/0", "send mail", 0),
        ("01m8/send mail/10", "send mail", 10),
        ("01m8/%c3%a9", "é", None),
        ("01m8/100%", "100%", None),
        ("01m8/notify/999", "notify", 999),
    ],
)
def test_a_step_is_named_by_its_percent_encoded_name_and_an_index(text: str, step: str, index: int | None) -> None:
    named = parse_step_id(text)

    assert (named.step, named.index) == (step, index)


@pytest.mark.parametrize(
    "path", ["notify/", "notify/00", "notify/1000", "notify/-1", "notify/٣", "a/b/3", "%ff", "a/1\n"]
)
def test_a_path_that_cannot_be_that_of_a_step_names_none(path: str) -> None:
    assert parse_step_id(f"01m8/{path}") == StepId(TASK, path)
