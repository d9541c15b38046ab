"""Numbers are finite: NaN and infinities are refused everywhere, also as texts, and the error names the field
(docs/tools.md, What a tool may return)."""

import math
from collections.abc import Iterable
from dataclasses import InitVar, dataclass
from decimal import Decimal
from operator import methodcaller
from typing import Annotated, Any, TypedDict

import pytest
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, Json

from mcp_baton import Context, Server, ask_model, step
from mcp_baton.exceptions import BatonError
from mcp_baton.testing import Connect
from tests.typed import taking

NOT_FINITE = "Input should be a finite number"
TEXTS = ["nan", "NaN", "inf", "-Infinity", "1e999", " +inf ", "-" + "9" * 400]


class Model(BaseModel):
    amount: float = 0
    amounts: list[float] = []
    tree: "list[Model]" = []


class Amount(BaseModel):
    amount: float


@dataclass
class Hidden:
    key: InitVar[float]
    amount: float = 0


class Typed(TypedDict):
    amount: float


NUMBERS: list[tuple[Any, Any, str]] = [
    (float, "{}", "value: "),
    (float | None, "{}", "value: "),
    (Annotated[float, "The amount"], "{}", "value: "),
    (Annotated[Decimal, Field(allow_inf_nan=True)], "{}", "value: "),
    (complex, "{}", "value: "),
    (Annotated[str, AfterValidator(float)], "{}", "value: "),
    (list[float], ["1", "{}"], "value.1: "),
    (tuple[str, float], ["{}", "{}"], "value.1: "),
    (set[float], ["{}"], "value.0: "),
    (dict[str, float], {"a": "{}"}, "value.a: "),
    (dict[float, int], {"{}": 1}, "value: "),
    (Iterable[float], ["{}"], "value.0: "),
    (Model, {"amount": "{}"}, "value.amount: "),
    (Model, {"tree": [{"amounts": [1, "{}"]}]}, "value.tree.0.amounts.1: "),
    (Hidden, {"key": "{}"}, "value.key: "),
    (Hidden, {"key": 1, "amount": "{}"}, "value.amount: "),
    (list[Typed] | None, [{"amount": "{}"}], "value.0.amount: "),
    # texts that pydantic or the type itself converts
    (
        float,
        "n_an",
        "value: Input should be a finite number",
    ),  # pydantic reads a number with underscores between its characters
    (list[Decimal], ["in_f"], "value.0: Input should be a finite number"),
    (complex, "nan+1j", "value: Input should be a finite number"),
    (dict[str, list[complex]], {"a": ["1+infj"]}, "value.a.0: Input should be a finite number"),
    (dict[complex, int], {"infj": 1}, "value: Input should be a finite number"),
    (set[complex], ["nanj"], "value: Input should be a finite number"),
    (Annotated[list[float], Json], '[1, "nan"]', "value: Input should be a finite number"),
    (Annotated[Any, Json], "[NaN]", "value: Input should be a finite number"),
    (list[Annotated[Any, Json]], ['{"a": 1e999}'], "value.0: Input should be a finite number"),
    (
        Annotated[float, BeforeValidator(methodcaller("removesuffix", " EUR"))],
        "nan EUR",
        "value: Input should be a finite number",
    ),
]


def filled(template: Any, text: str) -> Any:
    if isinstance(template, dict):
        return {filled(key, text): filled(value, text) for key, value in template.items()}
    if isinstance(template, list):
        return [filled(item, text) for item in template]
    return text if template == "{}" else template


@pytest.mark.parametrize(("annotation", "template", "error"), NUMBERS, ids=lambda part: str(part)[:40])
def test_a_tool_gets_no_number_that_is_not_finite(baton: Connect, annotation: Any, template: Any, error: str) -> None:
    server, values = taking(annotation)
    client = baton(server)

    for text in TEXTS:
        result = client.call_tool("pay", {"value": filled(template, text)})
        assert (result.is_error, values) == (True, []), text
        assert error in result.text


@dataclass
class Filter:
    name: str
    at_most: float = math.inf


def test_the_author_may_choose_an_infinite_default(baton: Connect) -> None:
    server, values = Server("shop"), list[Any]()

    @server.tool
    def find(where: Filter, other: dict[str, Filter], at_least: float = -math.inf) -> None:
        values.append((where, other, at_least))

    client = baton(server)

    assert not client.call_tool("find", {"where": {"name": "nan"}, "other": {"inf": {"name": "1e999"}}}).is_error
    assert values == [(Filter("nan"), {"inf": Filter("1e999")}, -math.inf)]
    assert client.list_tools()[0]["inputSchema"]["properties"]["at_least"]["default"] is None


def test_the_check_of_numbers_does_not_read_an_iterator_of_the_tool(baton: Connect) -> None:
    server = Server("bank")

    @server.tool
    def total(amounts: Json[Iterable[int]]) -> int:
        return sum(amounts)

    assert baton(server).call_tool("total", {"amounts": "[1, 2, 3]"}).value == 6


@pytest.mark.parametrize("annotation", [str, Any, float | str, list[str] | float])
def test_the_same_text_is_accepted_where_texts_are_valid(baton: Connect, annotation: Any) -> None:
    server, values = taking(annotation)
    sent = ["Nan"] if annotation == list[str] | float else "Nan"

    assert not baton(server).call_tool("pay", {"value": sent}).is_error
    assert values == [sent]


def shop() -> Server:
    server = Server("shop")

    @server.tool
    def ask(ctx: Context) -> str:
        return str(ctx.elicit("How much?", Amount).data)

    @server.tool
    def rate() -> str:
        return "nan"

    @server.tool
    def pay(amount: float) -> str:
        return "paid"

    @server.prompt
    def quote(amount: float) -> str:
        return f"Quote {amount}"

    @server.workflow
    def with_argument(amount: float, model: Model | None = None) -> None:
        step(pay)(amount=amount)

    @server.workflow
    def with_answer() -> None:
        step(pay)(amount=ask_model("amount", "How much?", returns=float))

    @server.workflow
    def with_result() -> None:
        step(pay)(amount=step(rate)())  # type: ignore[arg-type]

    return server


@pytest.mark.parametrize("text", TEXTS)
def test_a_workflow_refuses_arguments_answers_and_results(baton: Connect, text: str) -> None:
    client = baton(shop())
    two_calls: list[dict[str, Any]] = [{"amount": text}, {"amount": "1", "model": {"amounts": [text]}}]
    for arguments in two_calls:
        run = client.call_workflow("with_argument", arguments)
        assert NOT_FINITE in run.text
        assert f"The argument {list(arguments)[-1]!r}" in run.text
    for prompt, texts in (
        ("with_argument", {"amount": "1", "model": f'{{"amount": "{text}"}}'}),
        ("with_argument", {"amount": "1", "model": '{"amount": NaN}'}),
        ("quote", {"amount": text}),
    ):
        with pytest.raises(BatonError, match=rf"the argument {list(texts)[-1]!r} does not convert"):
            client.get_prompt(prompt, texts)
    run = client.call_workflow("with_answer")
    answered = client.call_tool("with_answer", {"task_id": run.task_id, "answers": {"amount": text}})
    assert (answered.is_error, f"The answer 'amount' does not convert: value: {NOT_FINITE}" in answered.text) == (
        True,
        True,
    )


def test_a_result_that_is_no_finite_number_is_refused_as_an_argument(baton: Connect) -> None:
    run = baton(shop()).call_workflow("with_result")

    assert run.steps == {"rate": "completed", "pay": "pending"}
    invalid_fields: Any = run.pause.fields["invalidFields"]
    assert (run.pause.type, invalid_fields[0]["field"]) == ("schemaMismatch", "amount")


def test_a_form_refuses_a_number_that_is_not_finite(baton: Connect) -> None:
    client = baton(shop())
    for text in TEXTS:
        client.answers({"How much?": {"amount": text}})
        result = client.call_tool("ask")
        assert result.is_error
        assert "amount must be a finite number" in result.text
