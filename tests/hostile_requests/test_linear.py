"""Texts from clients and tools are searched in linear time: eight times the text takes about eight times the time."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter

from mcp_baton import Argument, ToolStep, Workflow, prompt_arg
from mcp_baton.local.log import without_token
from mcp_baton.protocol.envelope import decode_header
from mcp_baton.protocol.json import MAX_LEVELS
from mcp_baton.tools.quoting import one_line
from mcp_baton.tools.schema.nulls import validate
from mcp_baton.tools.schema.prompt_arguments import ArgumentRefused, check_answers
from mcp_baton.tools.secrets import secrets_of
from mcp_baton.tools.shortening import shortened_arguments
from mcp_baton.tools.templates import fill, matches_template
from mcp_baton.workflow.json_values import compare
from mcp_baton.workflow.placeholders import PlaceholderLimits, is_placeholder, replace_placeholders
from tests.fakes import plan_of, task_of

FLOW = Workflow(
    name="flow",
    description="flow",
    arguments=[Argument("a")],
    steps=[ToolStep(f"s{number}", tool=f"t{number}", arguments={"a": prompt_arg("a")}) for number in range(100)],
)
ROOM = PlaceholderLimits(1_000_000, 1_000_000)


def nested(inner: Any) -> Any:
    """Return a value at the deepest level."""
    for _ in range(MAX_LEVELS - 2):
        inner = [inner]
    return inner


def answer(text: str) -> None:
    """Check an answer to a question with three placeholders."""
    question = Argument("q", "{cat}: {total} of {order_id} for {whom}?")
    check_answers([question], {"q": text})


def replace(count: int) -> None:
    """Replace the placeholders of a call with many arguments."""
    arguments = {f"a{number}": f"<output from nothing{number}>" for number in range(count)}
    replace_placeholders(arguments, plan_of(task_of(FLOW, "p" * 100), FLOW, {"a": "1"}), ROOM)


def hide(value: Any) -> None:
    """Hide a secret that looks like each level of the value."""
    secrets_of({"a", "b"}, {"a": "[[1]]", "b": "secret"}, {"a": [[1]], "b": "secret"}).hide(value)


class Line(BaseModel):
    count: int = 1


LINES = TypeAdapter(list[Line])


def leave_out(value: Any) -> None:
    """Leave out the nulls that the type does not accept."""
    validate(LINES, value, LINES.json_schema)


def with_nulls(size: int) -> list[Any]:
    return [{}] * 50 * size + [{"count": None}] * size


SEARCHES: dict[str, tuple[Callable[[Any], object], Callable[[int], Any], int]] = {
    "an answer": (answer, lambda size: "<" + ": of for " * size + ">", 10_000),
    "a template": (lambda text: matches_template("{a} x {b} x {c} y", text), lambda size: " x " * size + "!", 10_000),
    "a placeholder of a field": (is_placeholder, lambda size: "<field '" + "' from " * size + "\n>", 10_000),
    "the placeholders of a call": (replace, lambda size: size, 4_000),
    "nulls for optional fields": (leave_out, with_nulls, 120),
    "a secret in a text": (hide, lambda size: "secre " * size + "secret" * size, 20_000),
    "a secret in a deep value": (hide, lambda size: nested(["x"] * size), 5_000),
    "a quoted text": (one_line, lambda size: "\u2028" * size, 5_000),
    "a filled text": (lambda text: fill(text, {"a": "b"}), lambda size: "{a" * size, 20_000),
    "a header": (decode_header, lambda size: "=?base64?" * size, 20_000),
    "a log line": (without_token, lambda size: "/callbacks/ " * size, 20_000),
    "a comparison": (lambda pair: compare("==", *pair), lambda size: (nested([0] * size), nested([0] * size)), 20_000),
}


def shortest_s(search: Callable[[Any], object], value: Any) -> float:
    """Return the shortest of three times of this thread on a processor, seconds."""
    times_s = []
    for _ in range(3):
        start_s = time.thread_time()
        search(value)
        times_s.append(time.thread_time() - start_s)
    return min(times_s)


@pytest.mark.parametrize("name", SEARCHES)
def test_eight_times_the_text_does_not_take_24_times_the_time(name: str) -> None:
    search, make, size = SEARCHES[name]

    assert shortest_s(search, make(8 * size)) < 24 * max(shortest_s(search, make(size)), 0.0005)


def test_the_levels_of_an_argument_do_not_multiply_the_time_to_shorten_it() -> None:
    flat: Any = {"a": ["x"] * 20_000}

    # 17 times as long; with the JSON of each level, 94 times.
    assert shortest_s(shortened_arguments, {"a": nested(flat["a"])}) < 40 * shortest_s(shortened_arguments, flat)


def test_an_answer_that_is_the_placeholder_of_a_filled_question_is_refused() -> None:
    with pytest.raises(ArgumentRefused, match="is the placeholder"):
        answer("<shoes: 30.0 of A-17 for \n?>")
    answer("<shoes: 30.0 of A-17?>")
    answer("<shoes: 30.0 of A-17 for>")
