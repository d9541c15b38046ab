"""Questions of a tool to the client, and their answers (MCP client/elicitation, client/sampling, client/roots)."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from msgspec import Struct

from mcp_baton.exceptions import ToolError
from mcp_baton.protocol.json import Json, JsonObject, dumps
from mcp_baton.tasks.ids import text_digest
from mcp_baton.tools.asking import URL_ELICITATION, ClientQuestion
from mcp_baton.tools.content import Content, Message
from mcp_baton.tools.schema.nulls import validate
from mcp_baton.tools.schema.sent_values import all_options, infinite_numbers, is_secret

type Schema = JsonObject | Any
"""A JSON Schema with flat primitive fields, or a type: a model, a dataclass, or a plain type such as `int` or `Enum`.
`None` for a question that a person only accepts or declines: its form has one boolean."""

VALUE = "value"
"""The one field of a plain type's form."""

FORMATS: Final = frozenset({"email", "uri", "date", "date-time"})
TEXTS: Final = frozenset({"title", "description", "default"})
FORM_MEMBERS: Final[Mapping[str, frozenset[str]]] = {
    "string": TEXTS | {"enum", "oneOf", "minLength", "maxLength", "format"},
    "number": TEXTS | {"minimum", "maximum"},
    "integer": TEXTS | {"minimum", "maximum"},
    "boolean": TEXTS,
    "array": TEXTS | {"items", "minItems", "maxItems"},
}
"""The members of a form's fields, by type (MCP 2025-11-25 and 2026-07-28, client/elicitation, Requested Schema)."""

CONFIRM = "confirm"
"""The one field of a form that has no fields of its own: some hosts cannot submit an empty form."""

CONFIRMATION: JsonObject = {CONFIRM: {"type": "boolean", "title": "Confirm", "default": True}}

type Choices = Mapping[str, Json]
"""The values of a choice by the texts that a form shows for them. Forms have only choices of texts."""


class Field(Struct, frozen=True):
    """A field of a form: its schema, and the values of its choices, if they are not texts."""

    schema: JsonObject
    choices: Choices = {}

    def value(self, content: Json) -> Json:
        """The value of a person's answer to this field."""
        if isinstance(content, list):
            return [self.value(item) for item in content]
        return self.choices.get(content, content) if isinstance(content, str) else content


class Form:
    """The form for the author's schema or type. Raises `ValueError` for fields that MCP's forms cannot have."""

    def __init__(self, schema: Schema) -> None:
        self._type: Any = None
        self._wraps = False
        self._fields: Mapping[str, Field] = {}
        if schema is None:
            self.schema: JsonObject = {"type": "object", "properties": {}}
        elif isinstance(schema, Mapping):
            self.schema = cast("JsonObject", schema)
        else:
            self._type = schema
            self.schema = self._form_of(schema)
        _check_fields(self.schema, "the schema" if self._type is None else getattr(schema, "__name__", repr(schema)))
        self._is_empty = not self.schema["properties"]
        if self._is_empty:
            self.schema = {**self.schema, "properties": CONFIRMATION}

    def read_answer(self, answer: JsonObject) -> "Elicited":
        action, content = answer.get("action"), answer.get("content") or {}
        if action not in ("accept", "decline", "cancel") or not isinstance(content, Mapping):
            raise ToolError("The client's answer is not an elicitation result.")
        if action != "accept":
            return Elicited(str(action), {})
        if self._is_empty:
            content = dict(content)  # without the field, which the author's form does not have
            if content.pop(CONFIRM, None) is False:
                return Elicited("decline", {})
        return Elicited("accept", content, self.read(content))

    def read(self, content: JsonObject) -> object:
        """Convert the content to the type of the form; `None` for a form without a type."""
        if self._type is None:
            return None
        from pydantic import TypeAdapter, ValidationError

        if self._wraps and VALUE not in content:
            raise ToolError(f"The client's answer does not fit the form: it has no {VALUE!r}.")
        values = {
            name: self._fields[name].value(value) if name in self._fields else value for name, value in content.items()
        }
        value: object = values[VALUE] if self._wraps else values
        adapter = TypeAdapter[Any](self._type)
        try:
            answer = validate(adapter, cast("Json", value), adapter.json_schema)
        except ValidationError as error:
            problems = (f"{'.'.join(map(str, item['loc'])) or VALUE}: {item['msg']}" for item in error.errors())
            raise ToolError(f"The client's answer does not fit the form: {'; '.join(problems)}.") from error
        fields = infinite_numbers(cast("Json", value), answer, adapter.json_schema)
        if fields:
            raise ToolError(f"The client's answer does not fit the form: {fields[0]} must be a finite number.")
        return answer

    def _form_of(self, schema: Any) -> JsonObject:
        from pydantic import TypeAdapter

        type_schema = TypeAdapter(schema).json_schema()
        definitions = type_schema.pop("$defs", {})
        type_schema = inline_references(type_schema, definitions)
        self._wraps = "properties" not in type_schema
        properties = {VALUE: type_schema} if self._wraps else type_schema["properties"]
        for property_schema in properties.values():
            if is_secret(all_options([property_schema], definitions)):
                property_schema.pop("default", None)  # its mask, which the form would send back
        fields = {name: form_field(property_schema, definitions) for name, property_schema in properties.items()}
        self._fields = {name: field for name, field in fields.items() if field is not None}
        shown: JsonObject = {
            name: dict(properties[name]) if field is None else field.schema for name, field in fields.items()
        }
        required = [VALUE] if self._wraps else type_schema.get("required", [])
        return {"type": "object", "properties": shown, "required": required}


def form_field(schema: Any, definitions: Mapping[str, Any]) -> Field | None:
    """Convert the schema of a value to a field of a form; `None` if no form can have it.

    A form has no other formats than `FORMATS`, and only choices of texts: other formats are left out, and other choices
    are shown as texts. The value is checked when it comes back.
    """
    if not isinstance(schema, Mapping):
        return None
    inline, choices = inline_references(dict(schema), definitions), {}
    if inline.get("type") == "array":
        items = inline.get("items")
        items = inline_references(dict(items), definitions) if isinstance(items, Mapping) else {}
        if "enum" not in items and "anyOf" not in items:
            return None
        if "enum" in items:
            choices = {_choice_text(value): value for value in items["enum"]}
            items = {"type": "string", "enum": list(choices)}
            if isinstance(inline.get("default"), list):
                inline["default"] = [_choice_text(value) for value in inline["default"]]
        inline["items"] = items
    elif "enum" in inline:
        choices = {_choice_text(value): value for value in inline["enum"]}
        inline = {**inline, "type": "string", "enum": list(choices)}
        if "default" in inline:
            inline["default"] = _choice_text(inline["default"])
    kind = inline.get("type")
    if not isinstance(kind, str) or kind not in FORM_MEMBERS:
        return None
    field = {name: value for name, value in inline.items() if name == "type" or name in FORM_MEMBERS[kind]}
    if field.get("format") not in FORMATS:
        field.pop("format", None)
    return Field(field, {text: value for text, value in choices.items() if text != value})


def _choice_text(value: Json) -> str:
    return value if isinstance(value, str) else dumps(value)


def inline_references(schema: dict[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Return a field's schema with its references resolved, and without the null of an optional type."""
    options = [option for option in schema.get("anyOf", ()) if option.get("type") != "null"]
    if len(options) == 1:
        schema = {name: value for name, value in schema.items() if name != "anyOf"} | options[0]
        if schema.get("default", ...) is None:
            del schema["default"]
    reference = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    if reference in definitions:
        schema = {**definitions[reference], **{name: value for name, value in schema.items() if name != "$ref"}}
    if "const" in schema:
        schema = {**schema, "enum": [schema["const"]]}
        del schema["const"]
    return schema


def _check_fields(form: JsonObject, name: str) -> None:
    properties = form.get("properties")
    if form.get("type") != "object" or not isinstance(properties, Mapping):
        raise ValueError(f"{name}: a form is an object with flat fields; give it `type: object` and `properties`")
    for field, schema in properties.items():
        if not isinstance(schema, Mapping) or not (
            str(schema.get("type")) in FORM_MEMBERS and (schema["type"] != "array" or _is_choice_of_several(schema))
        ):
            raise ValueError(
                f"{name}: the field {field!r} is not possible in a form; use text, numbers, booleans and choices"
            )


def _is_choice_of_several(schema: Mapping[str, Json]) -> bool:
    """Whether a field of an array is a multiple choice (MCP 2025-11-25, multi-select enums)."""
    items = schema.get("items")
    return isinstance(items, Mapping) and ("enum" in items or "anyOf" in items)


type SamplingContent = str | Content | Message | JsonObject


class Elicited(Struct, frozen=True):
    """A person's answer.

    Attributes:
        action: `accept`, `decline` or `cancel`.
        content: The filled fields as JSON; empty unless accepted.
        data: The content as the type of the question, the bare value for a plain type; `None` unless accepted, or if
            the question has a JSON Schema instead of a type.
    """

    action: str
    content: JsonObject
    data: Any = None

    @property
    def accepted(self) -> bool:
        """Whether the person accepted."""
        return self.action == "accept"


class Sampled(Struct, frozen=True):
    """A model's answer.

    Attributes:
        role: Usually `assistant`.
        content: The content blocks.
        model: The model's name.
        stop_reason: Why the model stopped.
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
    """A folder or file that the client offers to the server."""

    uri: str
    name: str | None = None


class Roots(Struct, frozen=True):
    """The client's roots."""

    roots: tuple[Root, ...]


def elicitation(key: str, message: str, schema: Schema, *, timeout_s: float | None = None) -> ClientQuestion:
    """Ask a person to fill in a form.

    Args:
        key: The question's key within its call.
        message: The text for the person.
        schema: The form.
        timeout_s: The time limit for the answer, seconds; the operator's setting by default.

    Raises:
        ValueError: a field is not possible in MCP's forms, or the time is not above 0.
    """
    form = Form(schema)
    params: dict[str, Json] = {"mode": "form", "message": message, "requestedSchema": form.schema}
    return ClientQuestion(key, "elicitation/create", params, "elicitation", form.read_answer, timeout_s)


def url_elicitation(key: str, message: str, url: str, *, timeout_s: float | None = None) -> ClientQuestion:
    """Ask a person to open a page, for data that must not pass through the client. `timeout_s` as `elicitation`."""
    params: dict[str, Json] = {"mode": "url", "message": message, "url": url}
    return ClientQuestion(key, "elicitation/create", params, URL_ELICITATION, Form(None).read_answer, timeout_s)


def sampling(
    key: str,
    messages: SamplingContent | Sequence[SamplingContent],
    *,
    max_tokens: int = 1_000,
    timeout_s: float | None = None,
    **options: Json,
) -> ClientQuestion:
    """Ask the client's model. `options` are further params, e.g. `systemPrompt`, `temperature`, `modelPreferences`;
    `tools` and `toolChoice` need a client that declares `sampling.tools`. `timeout_s` as `elicitation`."""
    contents = [messages] if isinstance(messages, str | Mapping) or not isinstance(messages, Sequence) else messages
    params: dict[str, Json] = {"messages": [_message(item) for item in contents], "maxTokens": max_tokens, **options}
    capability = "sampling.tools" if options.keys() & {"tools", "toolChoice"} else "sampling"
    return ClientQuestion(key, "sampling/createMessage", params, capability, read_sampling, timeout_s)


def roots(key: str, *, timeout_s: float | None = None) -> ClientQuestion:
    """Ask for the client's roots. `timeout_s` as `elicitation`."""
    return ClientQuestion(key, "roots/list", {}, "roots", read_roots, timeout_s)


def read_sampling(answer: JsonObject) -> Sampled:
    content = answer.get("content")
    blocks = content if isinstance(content, list) else [content]
    for item in blocks:
        if not isinstance(item, Mapping) or (item.get("type") == "text" and not isinstance(item.get("text"), str)):
            raise ToolError("The client's answer is not a sampling result.")
    stop = answer.get("stopReason")
    items = cast("Sequence[JsonObject]", blocks)
    return Sampled(str(answer.get("role")), items, str(answer.get("model")), stop if isinstance(stop, str) else None)


def read_roots(answer: JsonObject) -> Roots:
    entries = answer.get("roots")
    if not isinstance(entries, list) or not all(isinstance(item, Mapping) and "uri" in item for item in entries):
        raise ToolError("The client's answer is not a list of roots.")
    items = cast("Sequence[JsonObject]", entries)
    return Roots(tuple(Root(str(item["uri"]), cast("str | None", item.get("name"))) for item in items))


def _message(content: SamplingContent) -> Json:
    if isinstance(content, Mapping):
        return content
    return content.to_json() if isinstance(content, Message) else Message("user", content).to_json()


OPTIONAL: Final = frozenset({"key", "timeout_s"})
"""The optional arguments, besides the two required ones."""


def question_of(method: str, number: int, positional: Sequence[Any], keywords: Mapping[str, Any]) -> ClientQuestion:
    """Create the question from the arguments of `Context.elicit` or `Context.elicit_url`. `number` is its number in the
    call, from 1."""
    second_name = "schema" if method == "elicit" else "url"
    arguments = question_arguments(method, ("message", second_name), positional, keywords)
    # The same when the call runs again.
    key = arguments.get("key") or f"question-{number}-{text_digest(arguments['message'])[:12]}"
    create = elicitation if method == "elicit" else url_elicitation
    return create(key, arguments["message"], arguments[second_name], timeout_s=arguments.get("timeout_s"))


def question_arguments(
    method: str, names: tuple[str, str], positional: Sequence[Any], keywords: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a question's arguments by name. `names` may be positional, also after the key, as in 0.1. `response_type`
    is another name for `schema`, which is optional."""
    by_name = {name: value for name, value in keywords.items() if (name, value) != ("response_type", None)}
    if "response_type" in by_name and "schema" in names:
        by_name.setdefault("schema", by_name.pop("response_type"))
    count = len(positional) + len(by_name.keys() - OPTIONAL)
    order = ("key", *names) if count == len(names) + 1 and "key" not in by_name else names
    positional_names = order[: len(positional)]
    if len(positional) > len(order) or by_name.keys() & set(positional_names) or by_name.keys() - {*OPTIONAL, *names}:
        raise TypeError(f"{method}: give {names[0]}, {names[1]} and optionally key=… and timeout_s=…")
    arguments = {"schema": None, **dict(zip(positional_names, positional, strict=True)), **by_name}
    _check_texts(method, names, arguments)
    return arguments


def _check_texts(method: str, names: tuple[str, str], arguments: Mapping[str, Any]) -> None:
    for name in (name for name in names if name != "schema"):
        if not isinstance(arguments.get(name), str):
            raise TypeError(f"{method}: {name} must be a str, and is {arguments.get(name)!r}")
    key = arguments.get("key")
    if key is not None and (not isinstance(key, str) or not key):
        raise TypeError(f"{method}: key must be a str that is not empty, and is {key!r}")
    if isinstance(arguments["schema"], str):
        raise TypeError(
            f"{method}: schema must be a JSON Schema or a type, and is {arguments['schema']!r}; the message is first"
        )
