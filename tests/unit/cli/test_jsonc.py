"""Changing JSON with comments in one place: everything else stays, to the byte."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_baton.cli.hosts.jsonc import CannotMerge, appended, parsed, placed

COMMENTED = """\
// What our team uses. It's shared: "do not sort".
{
\t"servers": {
\t\t/* issues */
\t\t"github": {"type": "http", "url": "https://example.com/a"}, // "quoted" and {braces}
\t\t"files": {
\t\t\t"command": "npx", // not "npm"
\t\t},
\t}, // the end

\t"inputs": [
\t\t{"id": "a"} // the first
\t]
}
"""


def test_a_member_is_added_at_the_end_and_every_comment_stays_where_it_is() -> None:
    assert placed(COMMENTED, ("servers", "shop"), {"url": "u"}) == COMMENTED.replace(
        "\t\t},\n\t}, // the end", '\t\t},\n\t\t"shop": {\n\t\t\t"url": "u"\n\t\t}\n\t}, // the end'
    )


def test_an_element_is_added_after_the_comment_of_the_last_one() -> None:
    assert appended(COMMENTED, ("inputs",), 1) == COMMENTED.replace(
        '{"id": "a"} // the first\n', '{"id": "a"}, // the first\n\t\t1\n'
    )


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ("{}", ("a",), '{\n  "a": 1\n}'),
        ("{}\n", ("a", "b"), '{\n  "a": {\n    "b": 1\n  }\n}\n'),
        ('{"x": 2}', ("a",), '{"x": 2,\n  "a": 1\n}'),
        ('{"a": 2, "x": 3}', ("a",), '{"a": 1, "x": 3}'),
        ('{\r\n    "x": 2\r\n}', ("a",), '{\r\n    "x": 2,\r\n    "a": 1\r\n}'),
        ('{"x": 1.0, "y": 1e2}', ("a",), '{"x": 1.0, "y": 1e2,\n  "a": 1\n}'),
        ("\ufeff{ /* nothing yet */ }", ("a",), '\ufeff{ /* nothing yet */\n  "a": 1\n}'),
    ],
)
def test_indents_line_ends_and_numbers_stay_as_they_are(text: str, path: tuple[str, ...], expected: str) -> None:
    assert placed(text, path, 1) == expected


@pytest.mark.parametrize(
    ("text", "path", "said"),
    [
        ("", ("a",), "line 1: no JSON"),
        ("[1]", ("a",), "the file holds no object"),
        ('{"a": 1} {}', ("a",), "more than one value"),
        ('{\n"a": 1\n"b": 2}', ("c",), "line 3: a comma is missing"),
        ('{"a" 1}', ("c",), "no key with a colon"),
        ("{a: 1}", ("c",), "no JSON"),
        ('{"a": 1', ("c",), "a comma is missing"),
        ('{"a": [1]}', ("a", "b"), "a holds no object"),
        ('{"a": 1, "a": 2}', ("a",), "'a' is there twice"),
        ('{"a": {"b": 1 /* why */}}', ("a",), "comments stand in 'a'"),
        ("[" * 200, ("a",), "nested too deep"),
        ("{/* no end", ("a",), "no JSON"),
    ],
)
def test_what_would_lose_something_is_refused(text: str, path: tuple[str, ...], said: str) -> None:
    with pytest.raises(CannotMerge, match=re.escape(said)):
        placed(text, path, 3)


def test_an_array_is_made_where_there_is_none_and_refused_where_there_is_something_else() -> None:
    assert json.loads(appended('{"a": 1}', ("b",), 2)) == {"a": 1, "b": [2]}
    with pytest.raises(CannotMerge, match="a is no array"):
        appended('{"a": {}}', ("a",), 2)


FILLERS = st.sampled_from(["", " ", "\n", "\t", "// one, two }\n", '/* "three" ] */', "\r\n  "])
KEYS = st.text(alphabet='ab"/\\*é', max_size=4)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='ab"/*\\n,}', max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


@st.composite
def written(draw: st.DrawFn, value: Any) -> str:
    """A value as somebody might have written it by hand."""
    if not isinstance(value, dict | list):
        return json.dumps(value)
    pairs = list(value.items()) if isinstance(value, dict) else [(None, item) for item in value]
    parts = [draw(FILLERS)]
    for number, (key, item) in enumerate(pairs):
        name = "" if key is None else f"{json.dumps(key)}{draw(FILLERS)}:{draw(FILLERS)}"
        comma = "," if number + 1 < len(pairs) or draw(st.booleans()) else ""
        parts.append(f"{name}{draw(written(item))}{draw(FILLERS)}{comma}{draw(FILLERS)}")
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}{''.join(parts)}{closing}"


@given(st.data(), st.dictionaries(KEYS, VALUES, max_size=4))
def test_whoever_wrote_it_one_member_is_added_and_nothing_else_is_touched(
    data: st.DataObject, value: dict[str, Any]
) -> None:
    text = data.draw(written(value))
    assert parsed(text).value == value

    changed = placed(text, ("new", "deeper"), [1])

    assert parsed(changed).value == {**value, "new": {"deeper": [1]}}
    left = iter(changed)
    assert all(letter in left for letter in text.rstrip("}").rstrip()), "something of the old text is gone"
