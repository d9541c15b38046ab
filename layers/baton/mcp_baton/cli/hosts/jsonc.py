"""Changing a file of JSON with comments in one place, so that all else in it stays as it is to the byte. Pure.

It takes what VS Code takes: `//` and `/* */` comments, and commas after the last member.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from mcp_baton.protocol.json import Json

_SPACE: Final = re.compile(r"(?:[\s\ufeff]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_COMMENT: Final = re.compile(r"//|/\*")
_INDENTED: Final = re.compile(r"^([ \t]+)\S", re.MULTILINE)
_DEPTH: Final = 100


class CannotMerge(Exception):
    """A file that cannot be changed without losing something in it; its text says why."""


@dataclass(slots=True)
class Node:
    """A value in a text, and where it stands.

    Attributes:
        start: The index of its first character.
        end: The index after its last one.
        value: The value itself.
        children: An object's values by key, or an array's by index.
        first: Where the first member begins, the key of an object's.
        last: The index after the last member's value; `None` where there is no member.
        comma: Whether a comma comes after it.
        twice: An object's keys that are there more than once.
        comments: Whether comments stand in it.
    """

    start: int
    end: int = 0
    value: Json = None
    children: dict[str | int, "Node"] = field(default_factory=dict)
    first: int = 0
    last: int | None = None
    comma: bool = False
    twice: set[str | int] = field(default_factory=set)
    comments: bool = False


def parsed(text: str) -> Node:
    """A text's one value, with all places.

    Raises:
        CannotMerge: the text is no JSON.
    """
    start = _skipped(text, 0)
    node = _value(text, start, 0)
    if _skipped(text, node.end) != len(text):
        raise _fault(text, node.end, "more than one value")
    return node


def placed(text: str, path: Sequence[str], value: Json) -> str:
    """The text in which the member at this path of keys has this value; objects on the way are made.

    Raises:
        CannotMerge: something would be lost, or a value on the way is no object.
    """
    root = parsed(text)
    node, rest = root, list(path)
    while rest and rest[0] in node.children:
        if rest[0] in node.twice:
            raise CannotMerge(f"{rest[0]!r} is there twice")
        node = node.children[rest.pop(0)]
    made = value
    for key in reversed(rest[1:]):
        made = {key: made}
    if not rest:
        if node.comments:
            raise CannotMerge(f"comments stand in {path[-1]!r}, which would be replaced")
        new = text[: node.start] + _dumped(text, value, _indent_at(text, node.start)) + text[node.end :]
    else:
        if not isinstance(node.value, Mapping):
            raise CannotMerge(f"{'.'.join(path[: len(path) - len(rest)]) or 'the file'} holds no object")
        new = _inserted(text, node, made, rest[0])
    _check(new, _with(root.value, path, value))
    return new


def appended(text: str, path: Sequence[str], value: Json) -> str:
    """The text in which the array at this path of keys ends with this value; the array is made where it is missing.

    Raises:
        CannotMerge: something would be lost, or there is no array at the path.
    """
    node = root = parsed(text)
    for key in path:
        if key not in node.children:
            return placed(text, path, [value])
        node = node.children[key]
    if not isinstance(node.value, list):
        raise CannotMerge(f"{'.'.join(path)} is no array")
    new = _inserted(text, node, value, None)
    _check(new, _with(root.value, path, [*node.value, value]))
    return new


def _check(text: str, expected: Json) -> None:
    if parsed(text).value != expected:
        raise CannotMerge("it is written in a way that cannot be changed without losing something")


def _with(root: Json, path: Sequence[str], value: Json) -> Json:
    """A value with another one at a path of keys."""
    if not path:
        return value
    members = dict(root) if isinstance(root, Mapping) else {}
    return {**members, path[0]: _with(members.get(path[0]), path[1:], value)}


def _skipped(text: str, at: int) -> int:
    """The index of what comes after white space and comments."""
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _value(text: str, at: int, depth: int) -> Node:
    if depth > _DEPTH:
        raise _fault(text, at, "nested too deep")
    if text[at : at + 1] in {"{", "["}:
        return _container(text, at, depth)
    try:
        value, end = json.JSONDecoder().raw_decode(text, at)
    except ValueError:
        raise _fault(text, at, "no JSON") from None
    return Node(at, end, value)


def _container(text: str, start: int, depth: int) -> Node:
    node = Node(start)
    closing = "}" if text[start] == "{" else "]"
    at = _skipped(text, start + 1)
    while text[at : at + 1] != closing:
        if node.last is not None and not node.comma:
            raise _fault(text, at, "a comma is missing")
        node.first = node.first or at
        key: str | int = len(node.children)
        if closing == "}":
            key, at = _key(text, at)
        child = _value(text, at, depth + 1)
        if key in node.children:
            node.twice.add(key)
        node.children[key] = child
        node.last = child.end
        at = _skipped(text, child.end)
        node.comma = text[at : at + 1] == ","
        at = _skipped(text, at + 1) if node.comma else at
    node.end = at + 1
    values = {key: child.value for key, child in node.children.items()}
    node.value = {str(key): value for key, value in values.items()} if closing == "}" else list(values.values())
    node.comments = _has_comments(text, node)
    return node


def _key(text: str, at: int) -> tuple[str, int]:
    """An object's key, and where its value begins."""
    node = _value(text, at, 0)
    colon = _skipped(text, node.end)
    if not isinstance(node.value, str) or text[colon : colon + 1] != ":":
        raise _fault(text, at, "no key with a colon")
    return node.value, _skipped(text, colon + 1)


def _has_comments(text: str, node: Node) -> bool:
    """Whether comments stand in a container: outside strings only they have these characters."""
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', "", text[node.start : node.end])
    return bool(_COMMENT.search(bare))


def _fault(text: str, at: int, what: str) -> CannotMerge:
    return CannotMerge(f"line {text.count(chr(10), 0, at) + 1}: {what}")


def _inserted(text: str, node: Node, value: Json, key: str | None) -> str:
    """The text with one more member at the end of a container. A comment after the last one stays beside it."""
    outer = _indent_at(text, node.start)
    inner = _indent_at(text, node.first) if node.first and _begins_line(text, node.first) else outer + _unit(text)
    piece = _dumped(text, value, inner)
    if key is not None:
        piece = f"{json.dumps(key, ensure_ascii=False)}: {piece}"
    close = node.end - 1
    end = len(text[:close].rstrip())
    before = text[:end]
    if node.last is not None and not node.comma:
        before = f"{text[: node.last]},{text[node.last : end]}"
    line = _newline(text)
    return f"{before}{line}{inner}{piece}{line}{outer}{text[close:]}"


def _dumped(text: str, value: Json, indent: str) -> str:
    lines = json.dumps(value, indent=_unit(text), ensure_ascii=False).split("\n")
    return f"{_newline(text)}{indent}".join(lines)


def _indent_at(text: str, at: int) -> str:
    """The white space that the line begins with in which something stands."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _begins_line(text: str, at: int) -> bool:
    return text[text.rfind("\n", 0, at) + 1 : at].strip() == "" and "\n" in text[:at]


def _unit(text: str) -> str:
    """What this text indents by."""
    found = _INDENTED.search(text)
    return found[1] if found else "  "


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"
