"""Questions to the client, their forms and their answers."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from enum import Enum, IntEnum
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import BaseModel, Field, SecretStr, Strict

from mcp_baton import Image, Message, ToolError, elicitation, roots, sampling, url_elicitation
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tools.questions import (
    Elicited,
    Form,
    Root,
    Roots,
    question_arguments,
    read_roots,
    read_sampling,
)

PLAIN: JsonObject = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
HI = {"type": "text", "text": "hi"}
NO_CONTENTS: list[Json] = ["Kim", [1], None, {}, {"name": "Kim", "count": "many"}, {"name": "Kim", "size": "xl"}]
NO_LISTS: list[Json] = [None, "file:///a", "", {}, [{"name": "A"}]]


class Order(BaseModel):
    name: str
    count: int = 1
    size: Literal["s", "m"] = "m"


@dataclass
class Place:
    street: str
    number: int = 1


def test_a_form_is_requested_with_its_schema() -> None:
    question = elicitation("who", "Who?", PLAIN)

    assert (question.key, question.method, question.capability) == ("who", "elicitation/create", "elicitation")
    assert question.params == {"mode": "form", "message": "Who?", "requestedSchema": PLAIN}


def test_a_page_is_requested_with_its_address() -> None:
    question = url_elicitation("pay", "Pay", "https://pay.example.com")

    assert (question.method, question.capability) == ("elicitation/create", "elicitation.url")
    assert question.params == {"mode": "url", "message": "Pay", "url": "https://pay.example.com"}
    assert question.read({"action": "accept"}) == Elicited("accept", {})


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_declined_question_has_no_content(action: str) -> None:
    answer = Form(Order).read_answer({"action": action, "content": {"name": "x"}})

    assert (answer.action, answer.content, answer.data, answer.accepted) == (action, {}, None, False)


def test_an_accepted_answer_has_its_content_and_the_requested_type() -> None:
    content: JsonObject = {"name": "Kim", "count": 2}

    assert Form(PLAIN).read_answer({"action": "accept", "content": content}) == Elicited("accept", content)
    assert Form(Order).read_answer({"action": "accept", "content": content}).data == Order(name="Kim", count=2)
    assert Form(Place).read_answer({"action": "accept", "content": {"street": "s"}}).data == Place("s")
    assert Form(Order).read_answer({"action": "accept", "content": content}).accepted


def user(content: Json) -> Json:
    return {"role": "user", "content": content}


@pytest.mark.parametrize(
    ("content", "messages"),
    [
        pytest.param("hi", [user(HI)], id="text"),
        pytest.param(Message("assistant", "hi"), [{"role": "assistant", "content": HI}], id="message"),
        pytest.param(Image(b"abc"), [user(Image(b"abc").to_json())], id="content"),
        pytest.param({"role": "user", "content": HI}, [user(HI)], id="wire form"),
        pytest.param(["hi", Message("assistant", "hi")], [user(HI), {"role": "assistant", "content": HI}], id="list"),
    ],
)
def test_a_sampling_request_contains_messages(content: Any, messages: list[Json]) -> None:
    question = sampling("think", content, max_tokens=7, systemPrompt="Be brief.")

    assert (question.method, question.capability) == ("sampling/createMessage", "sampling")
    assert question.params == {"messages": messages, "maxTokens": 7, "systemPrompt": "Be brief."}


@pytest.mark.parametrize("options", [{"tools": []}, {"toolChoice": {"mode": "auto"}}], ids=str)
def test_sampling_with_tools_needs_its_own_capability(options: dict[str, Any]) -> None:
    assert sampling("think", "hi", **options).capability == "sampling.tools"


def test_a_models_answer_has_one_or_several_blocks() -> None:
    image = {"type": "image", "data": "", "mimeType": "image/png"}
    single = read_sampling({"role": "assistant", "content": HI, "model": "m-1", "stopReason": "endTurn"})
    several = read_sampling({"role": "assistant", "content": [HI, image, HI], "model": "m-1"})

    assert (single.role, single.text, single.model, single.stop_reason) == ("assistant", "hi", "m-1", "endTurn")
    assert (several.text, several.content[1], several.stop_reason) == ("hihi", image, None)
    assert read_sampling({"role": "assistant", "content": [], "model": "m"}).text == ""


def test_roots_are_listed() -> None:
    question = roots("where")
    answer: JsonObject = {"roots": [{"uri": "file:///a", "name": "A"}, {"uri": "file:///b"}]}

    assert (question.method, question.params, question.capability) == ("roots/list", {}, "roots")
    assert question.read(answer) == Roots((Root("file:///a", "A"), Root("file:///b")))
    assert read_roots({"roots": []}) == Roots(())


NO_FORMS: list[Any] = [
    *[{}, {"action": "maybe"}, {"action": None}, {"action": ["accept"]}, {"action": "accept"}],
    *[{"action": "accept", "content": content} for content in NO_CONTENTS],
]
NO_THOUGHTS: list[Any] = [
    *[{}, {"content": None}, {"content": "hi"}, {"content": [HI, "hi"]}, {"content": [None]}],
    *[{"content": {"type": "text"}}, {"content": [{"type": "text", "text": 5}]}],
]
NO_ROOTS: list[Any] = [{}, *[{"roots": root_list} for root_list in NO_LISTS]]


@pytest.mark.parametrize(
    ("parse", "answer"),
    [
        *[
            pytest.param(lambda answer: Form(Order).read_answer(answer), answer, id=f"form {answer}")
            for answer in NO_FORMS
        ],
        *[pytest.param(read_sampling, answer, id=f"thought {answer}") for answer in NO_THOUGHTS],
        *[pytest.param(read_roots, answer, id=f"roots {answer}") for answer in NO_ROOTS],
    ],
)
def test_an_invalid_answer_is_an_error_of_the_tool(parse: Callable[[JsonObject], object], answer: JsonObject) -> None:
    with pytest.raises(ToolError):
        parse(answer)


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Wish(BaseModel):
    """A form with all kinds of fields."""

    colour: Colour = Field(description="Which one")
    size: Literal["m"] = "m"
    note: str | None = None
    day: date | None = None
    pin: SecretStr | None = SecretStr("4711")


class Wishes(BaseModel):
    first: Wish


@dataclass
class Many:
    names: list[str]


def fields(schema: Any) -> dict[str, Any]:
    form_schema: Any = Form(schema).schema
    assert form_schema["type"] == "object"
    return dict(form_schema["properties"])


@pytest.mark.parametrize(
    ("plain", "type_name", "value", "data"),
    [
        (str, "string", "Kim", "Kim"),
        (int, "integer", 3, 3),
        (float, "number", 2, 2.0),
        (bool, "boolean", False, False),
        (Colour, "string", "red", Colour.RED),
        (Literal["a", "b"], "string", "b", "b"),
        (Annotated[int, Field(ge=1)], "integer", 1, 1),
        (date, "string", "2026-01-31", date(2026, 1, 31)),
        (Annotated[date, Strict()], "string", "2026-01-31", date(2026, 1, 31)),
    ],
    ids=str,
)
def test_a_plain_type_is_wrapped_in_a_field_named_value(plain: Any, type_name: str, value: Any, data: Any) -> None:
    form = Form(plain)

    assert form.schema["required"] == ["value"]
    assert fields(plain)["value"]["type"] == type_name
    assert form.read({"value": value}) == data


@pytest.mark.parametrize("content", [{}, {"value": "many"}, {"other": 1}], ids=str)
def test_an_answer_of_the_wrong_type_is_an_error_of_the_tool_that_names_the_field(content: JsonObject) -> None:
    with pytest.raises(ToolError, match=r"does not fit the form: .*value"):
        Form(int).read(content)


def test_choices_and_optional_fields_of_a_model_are_flat_in_its_form() -> None:
    form_fields = fields(Wish)

    assert (form_fields["colour"]["enum"], form_fields["size"]["enum"]) == (["red", "blue"], ["m"])
    assert (form_fields["note"]["type"], form_fields["day"]["format"]) == ("string", "date")
    assert not {"anyOf", "$ref", "const"} & {name for field in form_fields.values() for name in field}
    assert form_fields["colour"]["description"] == "Which one"
    assert not {"default"} & (form_fields["note"].keys() | form_fields["pin"].keys())
    assert Form(Wish).schema.keys() == {"type", "properties", "required"}
    assert [Form(schema).schema["required"] for schema in (Wish, Place)] == [["colour"], ["street"]]
    assert Form(Wish).read({"colour": "blue", "size": None}) == Wish(colour=Colour.BLUE)  # null: it was left empty


EMPTY: list[Any] = [None, {"type": "object", "properties": {}}, type("Nothing", (BaseModel,), {})]


@pytest.mark.parametrize("schema", EMPTY)
def test_a_form_without_fields_has_one_boolean_because_some_hosts_cannot_submit_an_empty_form(schema: Any) -> None:
    properties: Any = Form(schema).schema["properties"]

    assert [field["type"] for field in properties.values()] == ["boolean"]
    answers = [
        Form(schema).read_answer({"action": "accept", "content": content}) for content in ({}, {"confirm": True})
    ]
    assert [(answer.action, answer.content) for answer in answers] == [("accept", {})] * 2
    assert not Form(schema).read_answer({"action": "accept", "content": {"confirm": False}}).accepted


class Paint(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Filter(BaseModel):
    colours: list[Paint] = [Paint.RED]
    level: Level = Level.LOW
    limit: Literal[10, 20] | None = None


CHOICES = [
    (list[Paint], ["blue"], [Paint.BLUE]),
    (set[Paint], ["blue"], {Paint.BLUE}),
    (list[Literal["red"]], ["red"], ["red"]),
    (list[Level], ["2"], [Level.HIGH]),
    (Level, "2", Level.HIGH),
    (Literal[10, "all"], "10", 10),
    (Literal[10, "all"], "all", "all"),
]


@pytest.mark.parametrize(("schema", "given", "value"), CHOICES)
def test_every_choice_is_shown_as_texts_and_read_as_its_value(schema: Any, given: Json, value: object) -> None:
    field = fields(schema)["value"]

    assert set(field) <= {"type", "title", "description", "enum", "items"}
    choice = field.get("items", field)
    assert (choice["type"], all(isinstance(text, str) for text in choice["enum"])) == ("string", True)
    assert Form(schema).read_answer({"action": "accept", "content": {"value": given}}).data == value


def test_the_choices_of_a_models_fields_keep_their_defaults() -> None:
    properties = fields(Filter)

    assert {name: field.get("default") for name, field in properties.items()} == {
        "colours": ["red"],
        "level": "1",
        "limit": None,
    }
    answer = Form(Filter).read_answer(
        {"action": "accept", "content": {"colours": ["blue"], "level": "2", "limit": "20"}}
    )
    assert answer.data == Filter(colours=[Paint.BLUE], level=Level.HIGH, limit=20)


FORMATTED: list[tuple[Any, str, str | None]] = [
    (UUID, "12345678-1234-5678-1234-567812345678", None),
    (time, "10:30:00", None),
    (timedelta, "PT1H", None),
    (Path, "folder/a", None),
    (date, "2026-11-28", "date"),
    (datetime, "2026-11-28T10:30:00+00:00", "date-time"),
]


@pytest.mark.parametrize(("schema", "given", "form_format"), FORMATTED)
def test_a_form_has_only_the_formats_of_the_protocol_and_the_answer_is_checked(
    schema: Any, given: str, form_format: str | None
) -> None:
    assert fields(schema)["value"].get("format") == form_format
    assert isinstance(Form(schema).read_answer({"action": "accept", "content": {"value": given}}).data, schema)
    if schema is not Path:
        with pytest.raises(ToolError):
            Form(schema).read_answer({"action": "accept", "content": {"value": "no value"}})


@pytest.mark.parametrize(
    ("schema", "name"),
    [
        (Wishes, "'first'"),
        (Many, "'names'"),
        (list[int], "'value'"),
        (dict[str, int], "'value'"),
        (int | str, "'value'"),
        ({"type": "object", "properties": {"a": {"type": "object", "properties": {}}}}, "'a'"),
        ({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}}, "'a'"),
        ({"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}]}}}, "'a'"),
        ({"type": "object", "properties": {"a": "string"}}, "'a'"),
        ({"type": "string"}, "properties"),
        ({"type": "object"}, "properties"),
        ({}, "properties"),
    ],
    ids=str,
)
def test_a_nested_field_is_refused_with_its_name(schema: Any, name: str) -> None:
    with pytest.raises(ValueError, match=name):
        Form(schema)


@pytest.mark.parametrize(
    "items", [{"type": "string", "enum": ["a"]}, {"anyOf": [{"const": "a", "title": "A"}]}], ids=str
)
def test_a_multiple_choice_is_accepted(items: JsonObject) -> None:
    schema: JsonObject = {"type": "object", "properties": {"a": {"type": "array", "items": items}}}

    assert Form(schema).schema == schema
    assert Form(schema).read({"a": ["a"]}) is None


MODEL: Any = {"type": "object", "properties": {}}
URL = "https://a"
FORM, PAGE = ("message", "schema"), ("message", "url")


@pytest.mark.parametrize(
    ("names", "positional", "keywords", "key"),
    [
        (FORM, ("Who?", MODEL), {}, None),
        (FORM, ("Who?", MODEL), {"key": "k"}, "k"),
        (FORM, ("Who?",), {"schema": MODEL}, None),
        (FORM, ("Who?",), {"response_type": MODEL}, None),
        (FORM, ("Who?", MODEL), {"response_type": None}, None),
        (FORM, (), {"message": "Who?", "schema": MODEL, "key": "k"}, "k"),
        (FORM, ("k", "Who?", MODEL), {}, "k"),
        (FORM, ("k", "Who?"), {"schema": MODEL}, "k"),
        (FORM, ("k",), {"message": "Who?", "schema": MODEL}, "k"),
        (PAGE, ("Who?", URL), {}, None),
        (PAGE, ("Who?", URL), {"key": "k"}, "k"),
        (PAGE, ("k", "Who?", URL), {}, "k"),
        (PAGE, ("k", "Who?"), {"url": URL}, "k"),
    ],
    ids=str,
)
def test_a_message_may_precede_its_key(names: tuple[str, str], positional: Any, keywords: Any, key: str | None) -> None:
    arguments = question_arguments("elicit", names, positional, keywords)

    target = MODEL if names is FORM else URL
    assert (arguments["message"], arguments[names[1]], arguments.get("key")) == ("Who?", target, key)


def test_the_schema_is_optional() -> None:
    assert question_arguments("elicit", FORM, ("Sure?",), {})["schema"] is None


@pytest.mark.parametrize(
    ("names", "positional", "keywords"),
    [
        (FORM, (), {}),
        (FORM, ("k", "Who?"), {}),
        (FORM, ("Who?", MODEL), {"response_type": MODEL, "key": "k"}),
        (FORM, ("k", "Who?", MODEL), {"key": "k"}),
        (FORM, ("k", "Who?", MODEL, 1), {}),
        (FORM, ("Who?", MODEL), {"wait": 1}),
        (FORM, (MODEL, "Who?"), {}),
        (FORM, ("Who?", MODEL), {"key": 5}),
        (FORM, ("Who?", MODEL), {"key": ""}),
        (PAGE, ("Go",), {}),
        (PAGE, ("Go", 5), {}),
        (PAGE, ("Go", "https://a"), {"schema": MODEL}),
    ],
    ids=str,
)
def test_invalid_arguments_of_a_question_are_refused(names: tuple[str, str], positional: Any, keywords: Any) -> None:
    with pytest.raises(TypeError, match="elicit"):
        question_arguments("elicit", names, positional, keywords)
