"""Strategies for hostile requests: arbitrary JSON, and valid requests with one change."""

import json
from typing import Any

from hypothesis import strategies as st

from mcp_baton.protocol.envelope import CAPABILITIES_KEY, LOG_LEVEL_KEY, RELATED_TASK_KEY, TASK_ID_KEY, VERSION_KEY
from tests.hostile_requests.valid import UNKNOWN_TASK, Params

MEMBERS = ["jsonrpc", "id", "method", "params", "result", "error", "name", "arguments", "uri", "cursor", "taskId"]
META = [VERSION_KEY, CAPABILITIES_KEY, LOG_LEVEL_KEY, RELATED_TASK_KEY, TASK_ID_KEY, "progressToken"]

_NASTY: list[Any] = [
    None,
    True,
    "",
    "\x00",
    "\ud800",
    "a" * 3_000,
    "💥" * 50,
    "../../etc/passwd",
    "docs://%ff%00/..",
    "=?base64?!!?=",
    UNKNOWN_TASK,
    0,
    -1,
    2**63,
    10**60,
    -(10**4_000),
    1e308,
    5e-324,
    -0.0,
    [],
    {},
    [[]],
    {"": None},
    {"\ud800": "\udfff"},
]
_TEXTS = st.text(st.characters(), max_size=30)
_SCALARS = st.one_of(
    st.sampled_from(_NASTY),
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    _TEXTS,
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.one_of(st.sampled_from(MEMBERS), _TEXTS), inner, max_size=4)
    ),
    max_leaves=12,
)
"""Any JSON value."""

METAS: st.SearchStrategy[Any] = st.one_of(
    VALUES, st.dictionaries(st.one_of(st.sampled_from(META), _TEXTS), VALUES, max_size=4)
)
"""A `_meta` of any shape."""

HEADER_TEXTS = st.one_of(
    st.sampled_from(
        ["", " ", "=?base64??=", "=?base64?!?=", "=?base64?/w==?=", "2026-07-28", "2025-11-25", "é", "\x7f"]
    ),
    st.text(st.characters(exclude_characters="\r\n"), max_size=20),
)


def paths_in(value: Any) -> list[tuple[str | int, ...]]:
    """Return the path of each value within a value, from the outside in."""
    paths: list[tuple[str | int, ...]] = [()]
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, child in children:
        paths += [(name, *path) for path in paths_in(child)]
    return paths


def replaced(value: Any, path: tuple[str | int, ...], new_value: Any) -> Any:
    if not path:
        return new_value
    copy = value.copy()
    copy[path[0]] = replaced(value[path[0]], path[1:], new_value)
    return copy


def without(params: Params, name: str) -> Params:
    return {key: value for key, value in params.items() if key != name}


# These strategies are created once, because hypothesis validates each new strategy before its first use.
_NAMES = st.one_of(st.sampled_from(MEMBERS), _TEXTS)
_WAYS = st.sampled_from(["replace", "replace", "replace", "leave out", "add", "all"])
_OTHER_PARAMS = st.dictionaries(st.sampled_from([*MEMBERS, "_meta", "task", "level"]), VALUES, max_size=5)
_IDS = st.sampled_from([1, "1", "", 0, -5])
_MEMBERS = st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error", "extra"])


@st.composite
def wrong_params(draw: st.DrawFn, valid: list[tuple[str, Params]]) -> tuple[str, Params]:
    """Draw a method and its valid params with one change, or arbitrary params."""
    method, params = draw(st.sampled_from(valid))
    match draw(_WAYS):
        case "replace" if params:
            path = draw(st.sampled_from(paths_in(params)[1:]))
            return method, replaced(params, path, draw(VALUES))
        case "leave out" if params:
            return method, without(params, draw(st.sampled_from(sorted(params))))
        case "all":
            return method, draw(_OTHER_PARAMS)
        case _:
            return method, {**params, draw(_NAMES): draw(VALUES)}


@st.composite
def wrong_envelopes(draw: st.DrawFn, valid: list[tuple[str, Params]]) -> dict[str, Any]:
    """Draw a valid message in which one member was replaced, removed or added."""
    method, params = draw(st.sampled_from(valid))
    message = {"jsonrpc": "2.0", "id": draw(_IDS), "method": method, "params": params}
    name = draw(_MEMBERS)
    if draw(st.booleans()):
        return without(message, name)
    return {**message, name: draw(VALUES)}


BROKEN_TEXT = st.sampled_from(
    [
        '{"jsonrpc"',
        '"2.0"',
        "[" * 64,
        "[" * 65,
        "]" * 64,
        "NaN",
        "-Infinity",
        "1e999",
        "1" * 5_000,
        "\\ud800",
        '"\\uD8"',
        "{}",
        ",",
    ]
)


@st.composite
def broken_bodies(draw: st.DrawFn, valid: list[tuple[str, Params]]) -> bytes:
    """Draw the body of a valid request that was cut, spliced, doubled or encoded differently."""
    method, params = draw(st.sampled_from(valid))
    text = json.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
    place = draw(st.integers(0, len(text)))
    match draw(st.sampled_from(["cut", "splice", "bytes", "double", "encoding", "repeat"])):
        case "cut":
            return text[:place].encode()
        case "splice":
            return (text[:place] + draw(BROKEN_TEXT) + text[place:]).encode()
        case "bytes":
            return text[:place].encode() + draw(st.binary(max_size=4)) + text[place:].encode()
        case "double":
            return (text + draw(st.sampled_from(["", "\n", ",", "\x00"])) + text).encode()
        case "encoding":
            return text.encode(draw(st.sampled_from(["utf-8-sig", "utf-16", "utf-16-le", "utf-32", "utf-7", "cp037"])))
        case _:
            member = draw(st.sampled_from(['"id":[],', '"method":5,', '"params":null,', '"id":8,', '"jsonrpc":1,']))
            return ("{" + member + text[1:]).encode()
