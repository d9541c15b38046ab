"""The ids of steps are read as they were written, whatever the steps' names are."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_baton.tasks.step_ids import StepId, bare_task_id, copied_id, parse_step_id, step_id

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
def test_any_text_can_be_read(text: str) -> None:
    named = parse_step_id(text)

    assert named.text == text
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
