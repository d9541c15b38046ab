"""Content: its JSON, and results of tools and messages of prompts that contain it."""

from dataclasses import dataclass
from typing import Any, cast

import pytest
from msgspec.structs import replace

from mcp_baton import Audio, EmbeddedResource, Image, ResourceLink, Text, ToolResult
from mcp_baton.exceptions import WrongResult
from mcp_baton.protocol.json import Json
from mcp_baton.tools.content import block
from mcp_baton.tools.labels import Labels
from mcp_baton.tools.tool import Tool

NOTES: dict[str, Json] = {"audience": ["user"], "priority": 0.5}
HI = {"type": "text", "text": "hi"}


@pytest.mark.parametrize(
    ("content", "wire"),
    [
        pytest.param(Text("hi"), HI, id="text"),
        pytest.param(Image(b"\x00\xff"), {"type": "image", "data": "AP8=", "mimeType": "image/png"}, id="image"),
        pytest.param(
            Image(b"", "image/gif"), {"type": "image", "data": "", "mimeType": "image/gif"}, id="an empty image"
        ),
        pytest.param(Audio(b"abc"), {"type": "audio", "data": "YWJj", "mimeType": "audio/wav"}, id="audio"),
        pytest.param(
            EmbeddedResource("docs://a", "text", "text/plain"),
            {"type": "resource", "resource": {"uri": "docs://a", "mimeType": "text/plain", "text": "text"}},
            id="embedded text",
        ),
        pytest.param(
            EmbeddedResource("docs://a", b"abc"),
            {"type": "resource", "resource": {"uri": "docs://a", "blob": "YWJj"}},
            id="embedded bytes",
        ),
        pytest.param(
            EmbeddedResource("docs://a", ""),
            {"type": "resource", "resource": {"uri": "docs://a", "text": ""}},
            id="embedded empty text",
        ),
        pytest.param(
            ResourceLink("docs://a", "a"), {"type": "resource_link", "uri": "docs://a", "name": "a"}, id="link"
        ),
        pytest.param(
            ResourceLink("docs://a", "a", title="A", description="It.", mime_type="text/plain"),
            {
                "type": "resource_link",
                "uri": "docs://a",
                "name": "a",
                "title": "A",
                "description": "It.",
                "mimeType": "text/plain",
            },
            id="full link",
        ),
    ],
)
def test_each_kind_of_content_has_its_json_with_annotations(content: Any, wire: dict[str, Json]) -> None:
    assert content.to_json() == wire
    assert block(content) == wire
    assert replace(content, annotations=NOTES).to_json() == {**wire, "annotations": NOTES}


@dataclass
class Shape:
    a: int


def result_of(value: object) -> dict[str, Json]:
    def do() -> Any: ...

    tool = Tool(do, "do", Labels())
    return tool.result(tool.outcome(value))


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def test_a_list_may_mix_content_texts_and_values() -> None:
    first_block, *values, last_block = [text(words) for words in ("before", '{"a":1}', "2.5", "null", "after")]

    mixed = ["before", Image(b""), Shape(1), 2.5, None, Text("after")]
    result = {"content": [first_block, Image(b"").to_json(), *values, last_block]}
    assert result_of(mixed) == result_of(ToolResult(mixed)) == result  # type: ignore[arg-type]
    assert result_of(ToolResult("before")) == {"content": [first_block]}
    assert result_of(ToolResult(cast("Any", Text("after")))) == {"content": [last_block]}


@pytest.mark.parametrize(
    ("broken", "remedy"),
    [
        (ToolResult(structured=cast("Any", {"a": object()})), "the value is not JSON.*; return texts, numbers"),
        ([Text("a"), object()], "the value is not JSON.*; return texts, numbers"),
        (ToolResult(["a"], cast("Any", [1])), "is not an object; return ToolResult"),
    ],
)
def test_a_full_result_that_is_not_json_is_refused(broken: object, remedy: str) -> None:
    with pytest.raises(WrongResult, match=remedy):
        result_of(broken)
