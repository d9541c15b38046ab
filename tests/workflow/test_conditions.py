"""Conditions of steps (docs/workflows.md, Conditions)."""

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, cast

import pytest
from pydantic import Field

from mcp_baton import (
    Argument,
    Server,
    ToolError,
    ToolStep,
    Workflow,
    WorkflowError,
    constant,
    exists,
    first_of,
    is_in,
    item,
    not_,
    or_default,
    prompt_arg,
    step,
    step_output,
)
from mcp_baton.testing import connect
from mcp_baton.workflow.steps.step import Step

ORDERS: dict[str, dict[str, Any]] = {
    "small": {"total": 20, "country": "CH", "express": False},
    "large": {"total": 500, "country": "DE", "express": True, "coupon": "SUMMER"},
    "odd": {"total": "many", "country": None},
}


def shop(mails: list[str] | None = None) -> Server:
    server = Server("shop", task_ids="text")

    @server.tool
    def fetch_order(order_id: str) -> dict[str, Any]:
        return ORDERS[order_id]

    @server.tool
    def discount(total: float) -> dict[str, float]:
        return {"percent": 10}

    @server.tool
    def send_mail(text: str, percent: float = 0) -> str:
        if mails is not None:
            mails.append(f"{text} {percent:g}")
        if text == "down":
            raise ToolError("mail server is down")
        return text

    return server


def workflow_on(server: Server, when: Callable[[Any], object]) -> None:
    """Add a workflow whose second step has a condition on the order."""
    fetch_order, send_mail = server.tools["fetch_order"].function, server.tools["send_mail"].function

    @server.workflow
    def report(order_id: str) -> None:
        order: Any = step(fetch_order)(order_id=order_id)
        step(send_mail, when=when(order))(text="hello")


def status_of(when: Callable[[Any], object], order_id: str) -> str:
    server = shop()
    workflow_on(server, when)
    with connect(server) as client:
        run = client.call_workflow("report", {"order_id": order_id})
    assert run.completed
    return run.steps["send_mail"]


@pytest.mark.parametrize(
    ("when", "small", "large"),
    [
        (lambda order: order.total > 100, False, True),
        (lambda order: order.total >= 500, False, True),
        (lambda order: order.total < 100, True, False),
        (lambda order: order.total <= 20, True, False),
        (lambda order: order.country == "DE", False, True),
        (lambda order: order.country != "DE", True, False),
        (lambda order: is_in(order.country, ["DE", "FR"]), False, True),
        (lambda order: exists(order.coupon), False, True),
        (lambda order: not_(exists(order.coupon)), True, False),
        (lambda order: order.express, False, True),
        (lambda order: ~order.express, True, False),
        (lambda order: exists(order.coupon) & (order.coupon == "SUMMER"), False, True),
        (lambda order: (order.total > 100) | (order.country == "CH"), True, True),
        (lambda order: order.express & (order.total < 100), False, False),
        (lambda order: order.express == 1, False, False),
    ],
)
def test_a_step_runs_only_if_its_condition_holds(when: Callable[[Any], object], small: bool, large: bool) -> None:
    status = {True: "completed", False: "skipped"}

    assert (status_of(when, "small"), status_of(when, "large")) == (status[small], status[large])


@pytest.mark.parametrize(
    ("when", "problem"),
    [
        (
            lambda order: order.coupon == "X",
            "'coupon' is not in the output of step 'fetch_order': it is an object without this field",
        ),
        (lambda order: order.total > 3, "> compares two numbers or two texts, but a text and a number were given"),
        (lambda order: order.country < "x", "< compares two numbers or two texts, but null and a text were given"),
    ],
)
def test_a_condition_that_cannot_be_evaluated_pauses(when: Callable[[Any], object], problem: str) -> None:
    server = shop()
    workflow_on(server, when)

    with connect(server) as client:
        run = client.call_workflow("report", {"order_id": "odd"})

    assert run.pause.type == "unresolvableParams"
    assert run.pause.problem == problem
    assert run.steps == {"fetch_order": "completed", "send_mail": "pending"}


ARGUMENTS = (
    Argument("text"),
    Argument("total", type=int),
    Argument("day", type=Annotated[date, Field(ge=date(2026, 1, 1))]),
    Argument("price", type=Decimal),
)


def check_error(*steps: Step, arguments: tuple[Argument, ...] = ARGUMENTS) -> str:
    server = shop()
    server.add_workflow(Workflow(name="w", description="d", arguments=arguments, steps=steps))
    with pytest.raises(WorkflowError) as error_info, connect(server):
        pass
    return str(error_info.value)


FIRST = ToolStep("first", tool="fetch_order", arguments={"order_id": constant("small")}, when=prompt_arg("total") > 1)


def mail(**options: Any) -> Step:
    return ToolStep("mail", tool="send_mail", arguments={"text": constant("a"), **options.pop("extra", {})}, **options)


@pytest.mark.parametrize(
    ("steps", "cause"),
    [
        (
            (FIRST, mail(extra={"percent": step_output("first", "total")})),
            "step_output('first', 'total') has no value if the step 'first' is skipped; write or_default(…, VALUE)",
        ),
        ((FIRST, mail(when=FIRST["total"] > 3)), "has no value if the step 'first' is skipped"),
        ((mail(when=prompt_arg("other") == "x"),), "prompt_arg('other') names no argument of the workflow"),
        ((mail(when=step_output("later") == 1), FIRST), "unknown binding"),
        ((mail(when=prompt_arg("text") > 3),), "compare two numbers or two texts"),
        ((mail(when=prompt_arg("day") == 2026),), "day (null or string) with 2026 (number), which are never equal"),
        ((mail(when=prompt_arg("price") > "9"),), 'price (decimal or null or string) with "9" (string); compare two'),
        (
            (
                ToolStep("pct", tool="discount", arguments={"total": constant(1)}),
                mail(when=step_output("pct", "percent") == "x"),
            ),
            "which are never equal; compare equal types",
        ),
    ],
)
def test_a_mistake_in_a_condition_is_found_before_the_workflow_runs(steps: tuple[Step, ...], cause: str) -> None:
    assert cause in check_error(*steps)


def test_steps_with_defaults_and_exists_may_use_a_step_that_may_be_skipped() -> None:
    server = shop()
    default = step_output("first", "total", default=5)
    steps = [FIRST, mail(extra={"percent": default}, when=exists(step_output("first")) | (default < 9))]
    arguments = [Argument("total", type=int, required=True)]
    server.add_workflow(Workflow(name="w", description="d", arguments=arguments, steps=steps))

    with connect(server) as client:
        assert client.call_workflow("w", {"total": 1}).steps == {"first": "skipped", "mail": "completed"}


def test_a_decimal_can_be_equal_to_a_text() -> None:
    server = shop()
    price = Argument("price", type=Decimal, required=True)
    steps = [mail(when=prompt_arg("price") == "9.50")]
    server.add_workflow(Workflow(name="w", description="d", arguments=[price], steps=steps))

    with connect(server) as client:
        assert client.call_workflow("w", {"price": "9.50"}).steps == {"mail": "completed"}


def test_a_value_that_is_not_a_condition_is_refused() -> None:
    step = mail(when="x")

    assert step.faults[0].startswith("when: 'x' is not a condition; compare a reference or a source")
    assert mail(when=True).faults[0].endswith(", or write constant(True)")
    with pytest.raises(TypeError, match="give a list of values"):
        is_in(prompt_arg("text"), "abc")


@pytest.mark.parametrize(
    ("workflow", "arguments", "mails"),
    [
        ("notify", {}, ["none 0"]),
        ("notify", {"note": None}, ["none 0"]),
        ("notify", {"note": "a"}, ["a 0", "a 0"]),
        ("notify_nobody", {}, ["none 0"]),
    ],
)
def test_a_null_argument_counts_as_left_out(workflow: str, arguments: dict[str, Any], mails: list[str]) -> None:
    sent: list[str] = []
    server = shop(sent)
    send_mail = server.tools["send_mail"].function

    @server.workflow
    def notify(note: str | None = None) -> None:
        step(send_mail, name="note", when=exists(note))(text=note)
        step(send_mail)(text=or_default(note, "none"))

    @server.workflow
    def notify_nobody() -> None:
        """Notify, without a note."""
        notify()

    with connect(server) as client:
        assert client.call_workflow(workflow, arguments).completed
    assert sent == mails


@pytest.mark.parametrize("workflow", ["notify", "notify_nobody"])
def test_nulls_of_several_arguments_count_as_left_out_together(workflow: str) -> None:
    sent: list[str] = []
    server = shop(sent)
    send_mail = server.tools["send_mail"].function

    @server.workflow
    def notify(note: str | None = None, coupon: str | None = None) -> None:
        text = first_of(note, coupon)
        step(send_mail, name="note", when=exists(text))(text=text)
        step(send_mail)(text=or_default(text, "none"))

    @server.workflow
    def notify_nobody() -> None:
        """Notify, without a note."""
        notify(None, None)

    with connect(server) as client:
        assert client.call_workflow(workflow).completed
    assert sent == ["none 0"]


def test_calls_whose_conditions_are_not_decided_are_suggested_with_them() -> None:
    server = shop()
    fetch_order, send_mail = server.tools["fetch_order"].function, server.tools["send_mail"].function

    @server.workflow(tool=False)
    def report() -> None:
        """Report."""
        order: Any = step(fetch_order, retryable=True)(order_id="none")
        step(send_mail, name="thank", when=order.total > 100)(text="Thanks")
        step(send_mail, each=["Ann", "Bob"], when=not_(order.express))(text=item())

    with connect(server) as client:
        run = client.get_prompt("report")
        [entry] = cast("list[Any]", client.call_tool("discount", {"total": 1}, task=run.task_id).meta["next"])

    calls = ['"Thanks"', '"Ann"', '"Bob"']
    lines = [line for line in run.handoff.splitlines() if any(text in line for text in calls)]
    conditions = ["fetch_order.total > 100", *["not (fetch_order.express == true)"] * 2]
    assert [line.partition(": ")[0].strip(" 23.") for line in lines] == [f'Only if "{text}"' for text in conditions]
    assert entry["tool"] == "fetch_order"


def test_the_placeholder_of_a_step_whose_condition_is_false_stands_for_the_default() -> None:
    server = shop()
    fetch_order, send_mail = server.tools["fetch_order"].function, server.tools["send_mail"].function

    @server.workflow(tool=False)
    def report(order_id: str) -> None:
        """Report."""
        order: Any = step(fetch_order)(order_id=order_id)
        coupon = step(send_mail, name="coupon", when=order.total > 100)(text="coupon")
        step(send_mail, each=["Ann"])(text=item())
        step(send_mail, name="last")(text=or_default(coupon, "no coupon"))

    with connect(server) as client:
        client.tool_raises("fetch_order", "down", times=1)
        run = client.get_prompt("report", {"order_id": "small"})
        client.call_tool("fetch_order", {"order_id": "small"}, task=run.task_id)
        element = client.call_tool("send_mail", {"text": "<element>"}, task=run.task_id)
        mail = client.call_tool("send_mail", {"text": "<output from send_mail (step 'coupon')>"}, task=run.task_id)

    assert "it is another value for each element of the list" in element.text
    assert mail.value == "no coupon"
