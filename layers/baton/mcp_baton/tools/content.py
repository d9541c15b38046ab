"""Content that tools and prompts can return besides text and JSON, and content of resources (MCP server/tools)."""

import binascii
import types
import typing
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from msgspec import Struct, field

from mcp_baton.protocol.json import Json, JsonObject, json_size
from mcp_baton.tools.schema.sent_values import json_of
from mcp_baton.tools.templates import as_text
from mcp_baton.tools.uris import encoded

type Annotations = Mapping[str, Json]
"""`audience` (`["user"]`, `["assistant"]` or both), `priority` (0 to 1), `lastModified` (ISO-8601)."""


class Content(Protocol):
    """An item of a tool's or prompt's content."""

    def to_json(self) -> JsonObject: ...


class Text(Struct, frozen=True):
    """Text with annotations."""

    text: str
    annotations: Annotations | None = None

    def to_json(self) -> JsonObject:
        """`TextContent`."""
        return _annotated({"type": "text", "text": as_text(self.text)}, self.annotations)


class Image(Struct, frozen=True):
    """A picture."""

    data: bytes
    mime_type: str = "image/png"
    annotations: Annotations | None = None

    def to_json(self) -> JsonObject:
        """`ImageContent`."""
        return _annotated({"type": "image", "data": base64_of(self.data), "mimeType": self.mime_type}, self.annotations)


class Audio(Struct, frozen=True):
    """A sound."""

    data: bytes
    mime_type: str = "audio/wav"
    annotations: Annotations | None = None

    def to_json(self) -> JsonObject:
        """`AudioContent`."""
        return _annotated({"type": "audio", "data": base64_of(self.data), "mimeType": self.mime_type}, self.annotations)


class EmbeddedResource(Struct, frozen=True):
    """A resource's contents: text, or bytes."""

    uri: str
    content: str | bytes
    mime_type: str | None = None
    annotations: Annotations | None = None

    def to_json(self) -> JsonObject:
        """`EmbeddedResource`."""
        resource = ResourceContent(self.uri, self.content, self.mime_type).to_json()
        return _annotated({"type": "resource", "resource": resource}, self.annotations)


class ResourceLink(Struct, frozen=True):
    """A link to a resource that the client can read."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    annotations: Annotations | None = None

    def to_json(self) -> JsonObject:
        """`ResourceLink`."""
        link: dict[str, Json] = {"type": "resource_link", "uri": encoded(self.uri), "name": self.name}
        optional = {"title": self.title, "description": self.description, "mimeType": self.mime_type}
        return _annotated(link | {key: value for key, value in optional.items() if value is not None}, self.annotations)


CONTENT_TYPES = (Text, Image, Audio, EmbeddedResource, ResourceLink)


class Message(Struct, frozen=True):
    """One message of a prompt.

    Attributes:
        role: `user` or `assistant`.
        content: Text, or content.
    """

    role: str
    content: str | Content

    def to_json(self) -> JsonObject:
        """`PromptMessage`."""
        return {"role": self.role, "content": block(self.content)}


class ToolResult(Struct, frozen=True):
    """A tool's whole result, if a plain value is not enough.

    Attributes:
        content: The content for the model. Another value becomes a text, as JSON.
        structured: The structured content for programs. It is the tool's value in a workflow; without it, `content` is.
        meta: The result's `_meta`.
    """

    content: Sequence[str | Content] = ()
    structured: JsonObject | None = None
    meta: JsonObject = field(default_factory=dict)

    def to_json(self) -> dict[str, Json]:
        """`CallToolResult`. Raises `ValueError` if a value is not JSON."""
        content: Any = self.content
        items = [content] if isinstance(content, (str, *CONTENT_TYPES)) else content
        result: dict[str, Json] = {"content": [block(item) for item in items]}
        if self.structured is not None:
            result["structuredContent"] = self.structured
        return result | ({"_meta": self.meta} if self.meta else {})


def block(item: object) -> JsonObject:
    return item.to_json() if isinstance(item, CONTENT_TYPES) else {"type": "text", "text": as_text(json_of(item))}


def error_result(text: str) -> dict[str, Json]:
    """Return the result of a call that failed. Hosts show only its text."""
    return {"content": [{"type": "text", "text": text}], "isError": True}


LONG_CONTENT_BYTES: Final = 8_000
"""Bytes of JSON. Hosts cut longer content at its end or in its middle."""


def with_note(blocks: Sequence[Json], text: str, *, is_error: bool) -> list[Json]:
    """Return the content with a text that says how to continue. After an error it is in the first block, with the
    error, because some frameworks show only this one. In long content it is the first and the last block, otherwise
    the last one."""
    note: Json = {"type": "text", "text": text}
    is_long = json_size(blocks) > LONG_CONTENT_BYTES
    match blocks:
        case [{"type": "text", "text": error}] if is_error:
            first: list[Json] = [{"type": "text", "text": f"{text}\n\n{error}"}]
        case _:
            first = [*([note] if is_error or is_long else []), *blocks]
    return [*first, *([note] if is_long or not is_error else [])]


def result_without_links(result: JsonObject) -> JsonObject:
    """Return the result of a tool or a prompt for a client of revision 2025-03-26, which does not know links to
    resources: they are texts."""
    changed: dict[str, Json] = dict(result)
    if isinstance(blocks := result.get("content"), Sequence):
        changed["content"] = [_without_link(item) for item in blocks]
    if isinstance(messages := result.get("messages"), Sequence):
        changed["messages"] = [
            {**message, "content": _without_link(message["content"])} if isinstance(message, Mapping) else message
            for message in messages
        ]
    return changed


def _without_link(item: Json) -> Json:
    if not isinstance(item, Mapping) or item.get("type") != "resource_link":
        return item
    return {"type": "text", "text": f"Resource {item['name']}: {item['uri']}"}


def with_meta(result: JsonObject, members: JsonObject) -> dict[str, Json]:
    """Return the result with more members in `_meta`."""
    meta = result.get("_meta")
    return {**result, "_meta": {**meta, **members} if isinstance(meta, Mapping) else members}


def base64_of(data: bytes) -> str:
    if not isinstance(data, bytes | bytearray | memoryview):
        raise ValueError(f"its data is a {type(data).__qualname__}, and not bytes")  # noqa: TRY004 - is an invalid result
    return binascii.b2a_base64(data, newline=False).decode()


def _annotated(members: dict[str, Json], annotations: Annotations | None) -> JsonObject:
    return members | {"annotations": annotations} if annotations else members


class ResourceContent(Struct, frozen=True):
    """One content of a resource.

    Attributes:
        uri: The URI of the request.
        content: Text, or bytes. Other values that the function returned are JSON text.
        mime_type: Its type.
    """

    uri: str
    content: str | bytes
    mime_type: str | None

    def to_json(self) -> dict[str, Json]:
        """`TextResourceContents` or `BlobResourceContents`."""
        result: dict[str, Json] = {"uri": encoded(self.uri)}
        if self.mime_type:
            result["mimeType"] = self.mime_type
        if isinstance(self.content, str):
            return {**result, "text": self.content}
        return {**result, "blob": base64_of(self.content)}


_LISTS = (Any, object, list, tuple, Sequence, Iterable, Collection)


def explicit_content(value: object) -> ToolResult | None:
    """Convert content, or a list with content in it, to a `ToolResult`; `None` for other values."""
    if isinstance(value, ToolResult):
        return value
    if isinstance(value, CONTENT_TYPES):
        return ToolResult([value])
    if isinstance(value, list | tuple) and any(isinstance(item, CONTENT_TYPES) for item in value):
        return ToolResult(value)
    return None


def may_be_content(annotation: Any) -> bool:
    """Whether values of a return type may be content, which has no structured content. Any list may be."""
    annotation = getattr(annotation, "__value__", annotation)
    if mentions_content(annotation):
        return True
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return any(may_be_content(part) for part in parts)
    if origin is typing.Annotated:
        return may_be_content(parts[0])
    # `tuple[()]` has an origin and no parts. It is always empty.
    is_open = annotation in _LISTS or (origin in _LISTS and bool(parts))
    return is_open and all(part in (Any, object, ...) for part in parts)


def mentions_content(annotation: object) -> bool:
    """Whether a return type contains content, which has no output schema."""
    if annotation in (*CONTENT_TYPES, ToolResult):
        return True
    return any(mentions_content(part) for part in getattr(annotation, "__args__", ()))
