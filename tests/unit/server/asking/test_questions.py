"""What a tool can ask the client for, and what becomes of the answers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from mcp_baton import Image, Message, ToolError, elicitation, roots, sampling, url_elicitation
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.server.asking.questions import (
    Elicited,
    Root,
    Roots,
    elicited,
    listed_roots,
    sampled,
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


def test_a_form_is_asked_for_with_its_schema() -> None:
    question = elicitation("who", "Who?", PLAIN)

    assert (question.key, question.method, question.capability) == ("who", "elicitation/create", "elicitation")
    assert question.params == {"mode": "form", "message": "Who?", "requestedSchema": PLAIN}


def test_a_page_is_asked_for_with_its_address() -> None:
    question = url_elicitation("pay", "Pay", "https://pay.example.com")

    assert (question.method, question.capability) == ("elicitation/create", "elicitation.url")
    assert question.params == {"mode": "url", "message": "Pay", "url": "https://pay.example.com"}
    assert question.read({"action": "accept"}) == Elicited("accept", {})


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_an_answer_that_was_not_given_has_no_content(action: str) -> None:
    answer = elicited({"action": action, "content": {"name": "x"}}, Order)

    assert (answer.action, answer.content, answer.data, answer.accepted) == (action, {}, None, False)


def test_an_accepted_answer_has_its_content_and_the_type_that_was_asked_for() -> None:
    content: JsonObject = {"name": "Kim", "count": 2}

    assert elicited({"action": "accept", "content": content}, PLAIN) == Elicited("accept", content)
    assert elicited({"action": "accept", "content": content}, Order).data == Order(name="Kim", count=2)
    assert elicited({"action": "accept", "content": {"street": "s"}}, Place).data == Place("s")
    assert elicited({"action": "accept", "content": content}, Order).accepted


def user(content: Json) -> Json:
    return {"role": "user", "content": content}


@pytest.mark.parametrize(
    ("said", "messages"),
    [
        pytest.param("hi", [user(HI)], id="text"),
        pytest.param(Message("assistant", "hi"), [{"role": "assistant", "content": HI}], id="message"),
        pytest.param(Image(b"abc"), [user(Image(b"abc").to_json())], id="content"),
        pytest.param({"role": "user", "content": HI}, [user(HI)], id="wire form"),
        pytest.param(["hi", Message("assistant", "hi")], [user(HI), {"role": "assistant", "content": HI}], id="list"),
    ],
)
def test_a_model_is_asked_in_messages(said: Any, messages: list[Json]) -> None:
    question = sampling("think", said, max_tokens=7, systemPrompt="Be brief.")

    assert (question.method, question.capability) == ("sampling/createMessage", "sampling")
    assert question.params == {"messages": messages, "maxTokens": 7, "systemPrompt": "Be brief."}


@pytest.mark.parametrize("options", [{"tools": []}, {"toolChoice": {"mode": "auto"}}], ids=str)
def test_tools_for_a_model_want_a_capability_of_their_own(options: dict[str, Any]) -> None:
    assert sampling("think", "hi", **options).capability == "sampling.tools"


def test_a_models_answer_is_one_block_or_several() -> None:
    image = {"type": "image", "data": "", "mimeType": "image/png"}
    one = sampled({"role": "assistant", "content": HI, "model": "m-1", "stopReason": "endTurn"})
    several = sampled({"role": "assistant", "content": [HI, image, HI], "model": "m-1"})

    assert (one.role, one.text, one.model, one.stop_reason) == ("assistant", "hi", "m-1", "endTurn")
    assert (several.text, several.content[1], several.stop_reason) == ("hihi", image, None)
    assert sampled({"role": "assistant", "content": [], "model": "m"}).text == ""


def test_roots_are_listed() -> None:
    question = roots("where")
    answer: JsonObject = {"roots": [{"uri": "file:///a", "name": "A"}, {"uri": "file:///b"}]}

    assert (question.method, question.params, question.capability) == ("roots/list", {}, "roots")
    assert question.read(answer) == Roots((Root("file:///a", "A"), Root("file:///b")))
    assert listed_roots({"roots": []}) == Roots(())


NO_FORMS: list[Any] = [
    *[{}, {"action": "maybe"}, {"action": None}, {"action": ["accept"]}, {"action": "accept"}],
    *[{"action": "accept", "content": content} for content in NO_CONTENTS],
]
NO_THOUGHTS: list[Any] = [
    *[{}, {"content": None}, {"content": "hi"}, {"content": [HI, "hi"]}, {"content": [None]}],
    *[{"content": {"type": "text"}}, {"content": [{"type": "text", "text": 5}]}],
]
NO_ROOTS: list[Any] = [{}, *[{"roots": listed} for listed in NO_LISTS]]


@pytest.mark.parametrize(
    ("read", "answer"),
    [
        *[pytest.param(lambda answer: elicited(answer, Order), answer, id=f"form {answer}") for answer in NO_FORMS],
        *[pytest.param(sampled, answer, id=f"thought {answer}") for answer in NO_THOUGHTS],
        *[pytest.param(listed_roots, answer, id=f"roots {answer}") for answer in NO_ROOTS],
    ],
)
def test_an_answer_that_is_none_to_its_question_is_the_tools_failure(
    read: Callable[[JsonObject], object], answer: JsonObject
) -> None:
    with pytest.raises(ToolError):
        read(answer)
