"""Content: its JSON, and results of tools and messages of prompts that contain it."""

from typing import Any

import pytest
from msgspec.structs import replace

from mcp_baton import Audio, EmbeddedResource, Image, Message, ResourceLink, Text, ToolResult
from mcp_baton.protocol.json import Json
from mcp_baton.tools.content import block
from mcp_baton.tools.labels import Labels
from mcp_baton.tools.outcomes import Succeeded
from mcp_baton.tools.tool import Tool, explicit_content, mentions_content

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


def result_of(value: object, annotation: Any = None) -> tuple[Succeeded, dict[str, Json]]:
    def do() -> Any: ...

    if annotation is not None:
        do.__annotations__["return"] = annotation
    tool = Tool(do, "do", Labels())
    outcome = tool.outcome(value)
    return outcome, tool.result(outcome)


def test_content_is_the_result_and_the_value_in_a_workflow() -> None:
    outcome, result = result_of(Image(b"abc"))

    assert result == {"content": [Image(b"abc").to_json()]}
    assert outcome.value == result["content"]


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def test_a_list_may_mix_content_texts_and_values() -> None:
    _, result = result_of(["before", Image(b""), {"a": 1}, 2.5, None, Text("after")])

    first_block, *values, last_block = [text(words) for words in ("before", '{"a":1}', "2.5", "null", "after")]
    assert result == {"content": [first_block, Image(b"").to_json(), *values, last_block]}


@pytest.mark.parametrize("value", [["a", "b"], [], {"type": "image"}, "text", None, [[Text("nested")]]], ids=repr)
def test_an_ordinary_value_is_not_content(value: object) -> None:
    assert explicit_content(value) is None


@pytest.mark.parametrize(
    ("tool_result", "members", "value"),
    [
        (
            ToolResult(["seen", Text("too")], {"a": 1}, {"example.com/cost": 3}),
            {"structuredContent": {"a": 1}, "_meta": {"example.com/cost": 3}},
            {"a": 1},
        ),
        (ToolResult(["seen", Text("too")]), {}, [text("seen"), text("too")]),
        (ToolResult(), {"content": [text("Done.")]}, []),
        (ToolResult(structured={}), {"content": [text("{}")], "structuredContent": {}}, {}),
    ],
    ids=["everything", "no structure", "nothing", "an empty structure"],
)
def test_a_tool_result_sets_content_structure_and_meta(
    tool_result: ToolResult, members: dict[str, Json], value: Json
) -> None:
    outcome, result = result_of(tool_result)

    assert result == {"content": [text("seen"), text("too")], **members}
    assert outcome.value == value


def test_a_full_result_that_is_not_json_is_refused() -> None:
    broken: Any = {"a": object()}
    with pytest.raises(ValueError, match=r"."):
        result_of(ToolResult(structured=broken))


@pytest.mark.parametrize(
    "annotation", [Image, ToolResult, list[Image], list[str | Audio], ResourceLink | None, tuple[Text, ...]], ids=str
)
def test_a_tool_that_declares_content_has_no_output_schema(annotation: Any) -> None:
    def do() -> Any: ...

    do.__annotations__["return"] = annotation

    assert mentions_content(annotation)
    assert "outputSchema" not in Tool(do, "do", Labels()).definition
    assert not mentions_content(list[str])
    assert not mentions_content(dict[str, list[int]])


def test_the_content_of_a_message_is_converted_to_json() -> None:
    assert Message("user", "hi").to_json() == {"role": "user", "content": HI}
    assert Message("user", Text("hi")).to_json() == {"role": "user", "content": HI}
