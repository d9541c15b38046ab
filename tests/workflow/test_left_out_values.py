"""Null, empty texts and defaults that models and frameworks send for what they leave out (docs/workflows.md)."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from mcp_baton import (
    Argument,
    Fetch,
    ListStep,
    Question,
    Server,
    ToolError,
    ToolStep,
    Wait,
    Workflow,
    ask_user,
    item,
    prompt_arg,
    step,
)
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.testing import Client, Connect
from mcp_baton.workflow.steps.step import Step

IGNORED = "so these were ignored: "


class Card(BaseModel):
    text: str
    copies: int = 1


@dataclass
class Shop:
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def server(self, **options: Any) -> Server:
        server = Server("shop", task_ids="text")

        @server.tool
        def pack(title: str, weeks: int, note: str | None = None, card: Card | None = None) -> str:
            self.calls.append((title, weeks, note, card))
            if self.errors:
                raise ToolError(self.errors.pop(), retryable=True)
            return "packed"

        @server.tool
        def send(reader: str, speed: int = 3) -> str:
            self.calls.append((reader, speed))
            return "sent"

        @server.workflow(**options)
        def lend(
            title: Annotated[str, "Which book"],
            weeks: Annotated[int, "How long"] = 2,
            note: str | None = None,
            card: Card | None = None,
        ) -> None:
            step(pack)(title=title, weeks=weeks, note=note, card=card)
            reader = ask_user("reader", "Who borrows it?")
            step(send)(reader=reader)

        return server


@pytest.fixture
def shop() -> Shop:
    return Shop(errors=["no paper"])


@pytest.fixture
def client(shop: Shop, baton: Connect) -> Client:
    return baton(shop.server())


def test_a_resume_with_null_empty_texts_and_defaults_keeps_the_stored_arguments(client: Client, shop: Shop) -> None:
    first = client.call_workflow("lend", {"title": "Walden", "weeks": 5, "note": "soon"})
    again: JsonObject = {"title": "", "weeks": 2, "note": None, "answers": {"reader": " "}}
    run = client.call_workflow("lend", again, first.task_id)

    assert shop.calls == [("Walden", 5, "soon", None)] * 2
    assert run.text.endswith(f"{IGNORED}title, weeks, note, answers.reader.")
    assert [run.paused, run.steps["reader"]] == [True, "pending"]


@pytest.mark.parametrize(("kind", "stored", "empty"), [(list[str], ["a"], []), (dict[str, int], {"a": 1}, {})])
def test_a_resume_with_an_empty_list_or_object_keeps_the_stored_one(
    baton: Connect, kind: Any, stored: Json, empty: Json
) -> None:
    """A strict mode makes each parameter required, and a list or an object cannot be null there."""
    server = Server("shop")

    @server.tool
    def echo(value: Any) -> Any:
        return value

    question = Question("go", "Go?", bool, of="user")
    steps = [question, ToolStep("echo", {"value": prompt_arg("value")}, tool="echo")]
    server.add_workflow(
        Workflow(name="flow", description="echo", arguments=[Argument("value", required=True, type=kind)], steps=steps)
    )
    client = baton(server)
    first = client.call_workflow("flow", {"value": stored})
    run = client.call_workflow("flow", {"value": empty, "answers": {"go": True}}, first.task_id)

    assert client.calls("echo") == [{"value": stored}]
    assert run.text.endswith(f"{IGNORED}value.")


def test_a_resume_names_no_value_that_equals_the_stored_one(client: Client, shop: Shop) -> None:
    first = client.call_workflow("lend", {"title": "Walden"})
    run = client.call_workflow("lend", {"title": "Walden", "weeks": 2, "note": None, "card": None}, first.task_id)

    assert shop.calls == [("Walden", 2, None, None)] * 2
    assert IGNORED not in run.text


def test_the_handoff_of_a_prompt_names_ignored_values_too(client: Client, shop: Shop) -> None:
    first = client.get_prompt("lend", {"title": "Walden", "weeks": "5"})
    run = client.get_prompt("lend", {"title": "", "weeks": "2"}, first.task_id)

    assert shop.calls == [("Walden", 5, None, None)] * 2
    assert any(f"{IGNORED}title, weeks." in message.text for message in run.messages)


def test_null_at_the_start_means_left_out_also_in_fields(client: Client, shop: Shop) -> None:
    shop.errors.clear()
    card = {"text": "hello", "copies": None}
    answers = {"reader": None}
    client.call_workflow("lend", {"title": "Walden", "weeks": None, "note": None, "card": card, "answers": answers})

    assert shop.calls == [("Walden", 2, None, Card(text="hello"))]


def test_null_for_an_optional_argument_of_a_plain_tool_means_left_out(client: Client, shop: Shop) -> None:
    assert not client.call_tool("send", {"reader": "Kim", "speed": None, "task_id": None}).is_error
    assert shop.calls == [("Kim", 3)]
    refused = client.call_tool("send", {"reader": None})
    assert refused.is_error
    assert "reader" in refused.text


LEFT_OUT: dict[str, tuple[Step, Json]] = {
    "uri": (Fetch("s", ["docs://{given}"]), "a"),
    "bound uri": (Fetch("s", ["docs://{page}"], template_bindings={"page": prompt_arg("given")}), "a"),
    "condition of a question": (Question("s", "Why?", when=prompt_arg("given") > "b"), "a"),
    "condition of a wait": (Wait("s", sleep=timedelta(days=1), when=prompt_arg("given") > "b"), "a"),
    "list": (ListStep("s", {"x": item()}, tool="work", each=prompt_arg("given")), ["a"]),
}


@pytest.mark.parametrize("case", LEFT_OUT)
def test_a_step_that_the_model_cannot_do_asks_for_the_argument_that_it_needs(baton: Connect, case: str) -> None:
    step_, value = LEFT_OUT[case]
    server = Server("docs")
    server.add_tool(lambda x: x, name="work")
    server.resource("docs://{page}", name="page")(lambda page: page)
    arguments = [Argument("given", type=list if isinstance(value, list) else str)]
    server.add_workflow(Workflow(name="flow", description="flow", arguments=arguments, steps=[step_]))
    client = baton(server)

    run = client.call_workflow("flow")

    task = {"task_id": run.task_id}
    assert run.next == [{"tool": "flow", "arguments": {**task, "given": "<prompt arg given>"}}]
    assert f'Call flow with {{"task_id": "{run.task_id}", "given": "<prompt arg given>"}}' in run.text
    assert client.task(run.task_id).pause.type in ("unresolvableParams", "toolError")
    assert client.call_workflow("flow", {**task, "given": value}).completed
