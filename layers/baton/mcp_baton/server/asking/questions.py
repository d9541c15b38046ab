"""What a tool can ask the client for, and what it gets (MCP client/elicitation, client/sampling, client/roots)."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from msgspec import Struct

from mcp_baton.exceptions import ToolError
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.server.asking.asker import URL_ELICITATION, Question
from mcp_baton.server.asking.forms import Form, Schema
from mcp_baton.server.content import Content, Message

type Said = str | Content | Message | JsonObject


class Elicited(Struct, frozen=True):
    """A person's answer.

    Attributes:
        action: `accept`, `decline` or `cancel`.
        content: The fields that were filled in, as JSON; empty unless accepted.
        data: The content as the type that was asked for, the bare value for a plain type; `None` unless accepted, or
            where no type was given but a JSON Schema.
    """

    action: str
    content: JsonObject
    data: Any = None

    @property
    def accepted(self) -> bool:
        """Whether the person filled it in."""
        return self.action == "accept"


class Sampled(Struct, frozen=True):
    """A model's answer.

    Attributes:
        role: `assistant`, as a rule.
        content: The content blocks.
        model: The model's name.
        stop_reason: Why it stopped.
    """

    role: str
    content: Sequence[JsonObject]
    model: str
    stop_reason: str | None = None

    @property
    def text(self) -> str:
        """The texts of the content, joined."""
        return "".join(str(item["text"]) for item in self.content if item.get("type") == "text")


class Root(Struct, frozen=True):
    """A folder or file that the client lets the server work on."""

    uri: str
    name: str | None = None


class Roots(Struct, frozen=True):
    """The client's roots."""

    roots: tuple[Root, ...]


def key_of(place: int, text: str) -> str:
    """The key of a question that was given none: the same whenever the call is run again from its start.

    Args:
        place: The question's number in the call, from 1 on.
        text: What it asks.
    """
    from hashlib import sha256

    return f"question-{place}-{sha256(text.encode()).hexdigest()[:12]}"


def elicitation(key: str, message: str, schema: Schema, *, timeout_s: float | None = None) -> Question:
    """Ask a person to fill in a form.

    Args:
        key: Names the question within its call.
        message: What to tell the person.
        schema: The form.
        timeout_s: How long an answer is waited for, seconds; the operator's choice where it is not given.

    Raises:
        ValueError: the schema has a field that MCP's forms do not have, or the time is none.
    """
    form = Form(schema)
    params: dict[str, Json] = {"mode": "form", "message": message, "requestedSchema": form.schema}
    return Question(key, "elicitation/create", params, "elicitation", lambda answer: _elicited(answer, form), timeout_s)


def url_elicitation(key: str, message: str, url: str, *, timeout_s: float | None = None) -> Question:
    """Ask a person to go to a page, for what must not pass through the client. `timeout_s` as `elicitation`."""
    params: dict[str, Json] = {"mode": "url", "message": message, "url": url}
    return Question(
        key, "elicitation/create", params, URL_ELICITATION, lambda answer: elicited(answer, None), timeout_s
    )


def sampling(
    key: str,
    messages: Said | Sequence[Said],
    *,
    max_tokens: int = 1_000,
    timeout_s: float | None = None,
    **options: Json,
) -> Question:
    """Ask the client's model. `options` are further params, e.g. `systemPrompt`, `temperature`, `modelPreferences`;
    `tools` and `toolChoice` need a client that declares `sampling.tools`. `timeout_s` as `elicitation`."""
    said = [messages] if isinstance(messages, str | Mapping) or not isinstance(messages, Sequence) else messages
    params: dict[str, Json] = {"messages": [_message(item) for item in said], "maxTokens": max_tokens, **options}
    capability = "sampling.tools" if options.keys() & {"tools", "toolChoice"} else "sampling"
    return Question(key, "sampling/createMessage", params, capability, sampled, timeout_s)


def roots(key: str, *, timeout_s: float | None = None) -> Question:
    """Ask for the client's roots. `timeout_s` as `elicitation`."""
    return Question(key, "roots/list", {}, "roots", listed_roots, timeout_s)


def elicited(answer: JsonObject, schema: Schema) -> Elicited:
    """A person's answer from an `ElicitResult`.

    Raises:
        ToolError: it is none, or its content is not what was asked for.
    """
    return _elicited(answer, Form(schema))


def _elicited(answer: JsonObject, form: Form) -> Elicited:
    action, content = answer.get("action"), answer.get("content") or {}
    if action not in ("accept", "decline", "cancel") or not isinstance(content, Mapping):
        raise ToolError("The client's answer is not an elicitation result.")
    if action != "accept":
        return Elicited(str(action), {})
    return Elicited("accept", content, form.read(content))


def sampled(answer: JsonObject) -> Sampled:
    """A model's answer from a `CreateMessageResult`.

    Raises:
        ToolError: it is none.
    """
    content = answer.get("content")
    blocks = content if isinstance(content, list) else [content]
    if not all(isinstance(item, Mapping) and _is_whole(item) for item in blocks):
        raise ToolError("The client's answer is not a sampling result.")
    stop = answer.get("stopReason")
    made = cast("Sequence[JsonObject]", blocks)
    return Sampled(str(answer.get("role")), made, str(answer.get("model")), stop if isinstance(stop, str) else None)


def listed_roots(answer: JsonObject) -> Roots:
    """The roots in a `ListRootsResult`.

    Raises:
        ToolError: it is none.
    """
    listed = answer.get("roots")
    if not isinstance(listed, list) or not all(isinstance(item, Mapping) and "uri" in item for item in listed):
        raise ToolError("The client's answer is not a list of roots.")
    items = cast("Sequence[JsonObject]", listed)
    return Roots(tuple(Root(str(item["uri"]), cast("str | None", item.get("name"))) for item in items))


def _is_whole(block: JsonObject) -> bool:
    return block.get("type") != "text" or isinstance(block.get("text"), str)


def _message(said: Said) -> Json:
    if isinstance(said, Mapping):
        return said
    return said.to_json() if isinstance(said, Message) else Message("user", said).to_json()
