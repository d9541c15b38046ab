"""Workflows that pause, what the model's user knows, and the minimum number of calls that finish each workflow."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import orders  # noqa: F401 - registers its workflow
import sales  # noqa: F401 - registers its workflow
import shop
from mcp_baton import (
    Argument,
    Fetch,
    Server,
    ToolError,
    ToolStep,
    Workflow,
    ask_model,
    ask_user,
    constant,
    prompt_arg,
    step,
    step_output,
)
from mcp_baton.testing.client import Client
from mcp_baton.workflow.steps.step import Step
from tests.hosts.servers import FILE, FILE_ALL, FIND, HUGE, LARGE, LONG, MAIL, Shop, refund, without

type Build = Callable[[Shop], Server]

NOTHING: Mapping[str, Any] = MappingProxyType({})
DOWN = "the bank is down"


@dataclass(frozen=True)
class Scenario:
    """A workflow and its events.

    Attributes:
        min_calls: The minimum number of calls that finish it: one to start, one for each value or correction that only
            the model can give, and one for the server to continue after each of those and after each other pause.
        errors: The errors of `refund` before it succeeds.
        setup: Functions to run before the call with that number, from 1.
        decisions: Functions to run, in order, each time that the model tells its user that a person has to decide.
    """

    name: str
    build: Build
    min_calls: int
    answers: Mapping[str, Any] = NOTHING
    errors: tuple[str | Exception, ...] = ()
    setup: Mapping[int, Callable[[Client], object]] = field(default_factory=dict)
    payments: int = 1
    variables: Mapping[str, Any] = NOTHING
    skipped: tuple[str, ...] = ()
    workflow: str = "refund_order"
    arguments: Mapping[str, Any] = field(default_factory=lambda: {"order_id": "A-17"})
    decisions: tuple[Callable[[Client], object], ...] = ()

    def __str__(self) -> str:
        return self.name


def sample(_: Shop) -> Server:
    return shop.server


def supervisor(client: Client) -> Client:
    return client.as_owner("ada", scopes=["refunds"])


def approve(client: Client) -> None:
    for approval in supervisor(client).approvals():
        supervisor(client).approve(approval["approvalId"])


def expire(client: Client) -> None:
    client.clock.advance(8 * 3_600)


def nothing(_: Client) -> None:
    """Decide nothing yet."""


def with_a_secret(_: Shop) -> Server:
    """Return a server with a PIN that is never stored, and must be given again with each call that continues."""
    server = Server("bank")

    @server.tool
    def pay(pin: str, approved_by: str = "") -> str:
        if not approved_by:
            raise ToolError("this needs an approval")
        return "paid"

    @server.tool
    def sign(pin: str) -> str:
        return "signed"

    pin = Argument("pin", "The PIN", required=True, secret=True)
    steps = [ToolStep(tool.__name__, tool=tool, arguments={"pin": prompt_arg("pin")}) for tool in (pay, sign)]
    server.add_workflow(Workflow(name="transfer", description="pay", arguments=[pin], steps=steps))
    return server


def with_questions(_: Shop) -> Server:
    """Return a server whose workflow asks the model and the user."""
    server = Server("library")

    @server.tool
    def lend(title: str, reader: str, days: int) -> str:
        return f"lent to {reader}"

    @server.workflow
    def borrow(title: str) -> None:
        reader = ask_user("reader", "Who borrows {title}?")
        days = ask_model("days", "For how many days?", returns=int)
        step(lend)(title=title, reader=reader, days=days)

    return server


def allow_time(client: Client) -> None:
    client.remaining_s(120)


def of_sample(name: str, min_calls: int, **options: Any) -> Scenario:
    return Scenario(f"the sample: {name}", sample, min_calls, payments=0, **options)


def regions(name: str, min_calls: int, month: str = "2026-09", **options: Any) -> Scenario:
    return of_sample(name, min_calls, workflow="regional_report", arguments={"month": month}, **options)


def filed(characters: int) -> Mapping[str, Any]:
    """Return the variable with the result of the step that files a document of this length."""
    return {"_workflow.result.file": {"label": "A", "characters": characters}}


def steps(*steps: Step) -> Build:
    return lambda shop: shop.server(*steps)


def first_calls_fail(tool: str, error: Exception, times: int = 1) -> Mapping[int, Callable[[Client], object]]:
    return {1: lambda client: client.tool_raises(tool, error, times=times)}


def timeout_in(tool: str) -> Mapping[int, Callable[[Client], object]]:
    """Let the time run out while a tool runs. The next call has enough time."""
    return {1: lambda client: client.during(tool, lambda: client.remaining_s(5.5)), 2: allow_time}


def unreadable(shop: Shop) -> Server:
    """Return a server with a step that only reads a resource. The first read fails."""
    server = shop.server(Fetch("rules", resources=["rules://refunds"], retryable=True), refund())
    refusals = [ToolError(DOWN)]

    @server.resource("rules://refunds")
    def rules() -> str:
        """The rules for refunds."""
        if refusals:
            raise refusals.pop()
        return "No more than was paid."

    return server


ONE_VALUE = 3
"""The calls to start, to give the value, and to let the server continue."""

APPROVED = {"approved_by": "Ada"}
SCENARIOS = [
    Scenario("nothing pauses", steps(refund()), 1),
    Scenario("an approval is missing", steps(without("approved_by")), ONE_VALUE, APPROVED),
    Scenario("the bank is down once", steps(refund(retryable=True)), 2, errors=(DOWN,)),
    Scenario("the cause of a failure is hidden", steps(refund()), 2, errors=(RuntimeError(DOWN),)),
    Scenario("the bank is down twice", steps(refund(retryable=True)), 3, errors=(DOWN, DOWN)),
    Scenario("what is not retryable fails twice", steps(refund()), 4, errors=("no", "no")),
    Scenario("an argument has no source", steps(without("amount")), ONE_VALUE, {"amount": 12.5}),
    Scenario("an argument is invalid", steps(refund({"reason": constant("ugly")})), ONE_VALUE, {"reason": "damaged"}),
    Scenario(
        "an output lacks a path",
        steps(refund({"amount": step_output("order", "lines.0.total")})),
        ONE_VALUE,
        {"amount": 12.5},
    ),
    Scenario("a variable was never set", steps(MAIL, refund()), 3, {"text": "red"}),
    Scenario("the function's time runs out", steps(refund()), 2, setup=timeout_in("refund")),
    Scenario(
        "a large value and a missing one",
        steps(FIND, FILE),
        ONE_VALUE,
        {"label": "A"},
        payments=0,
        variables=filed(len(LARGE) + 6),
    ),
    Scenario(
        "a result is too large to be kept",
        steps(HUGE, without("approved_by"), FILE),
        5,
        {**APPROVED, "document": "the letters", "label": "A"},
        variables=filed(len("the letters")),
    ),
    Scenario(
        "a result is too large for a call of the model's",
        steps(LONG, refund(retryable=True), FILE_ALL),
        2,
        errors=(DOWN,),
        variables=filed(1_100_000),
    ),
    Scenario(
        "an argument looks like a placeholder",
        steps(without("approved_by")),
        ONE_VALUE,
        APPROVED,
        arguments={"order_id": "<output from nothing>"},
    ),
    Scenario("a resource cannot be read at first", unreadable, 2),
    Scenario(
        "a secret must be given again",
        with_a_secret,
        ONE_VALUE,
        {**APPROVED, "pin": "4711-0815"},
        payments=0,
        workflow="transfer",
        arguments={"pin": "4711-0815"},
    ),
    Scenario(
        "questions to the model and the user",
        with_questions,
        2,
        {"reader": "Ada", "days": 7},
        payments=0,
        workflow="borrow",
        arguments={"title": "Emma"},
    ),
    of_sample("within the policy", 1, arguments={"order_id": "A-18"}),
    of_sample("a supervisor approves", 2, decisions=(approve,)),
    of_sample("the supervisor is slow", 4, decisions=(nothing, nothing, approve)),
    of_sample("the approval expires once", 3, decisions=(expire, approve)),
    of_sample(
        "a report to summarise",
        2,
        answers={"summary": "A good month. Headphones sold best."},
        workflow="monthly_report",
        arguments={"month": "2026-09"},
    ),
    regions("regions", 1),
    regions("regions without orders", 1, "2026-10", skipped=("best",)),
    regions("a region is not counted", ONE_VALUE, setup=first_calls_fail("count_orders", ToolError(DOWN))),
    regions(
        "no region is counted",
        4,
        "2026-10",
        setup=first_calls_fail("count_orders", ToolError(DOWN), 2),
        skipped=("best",),
        variables={"_workflow.result.count": [{"region": name, "orders": 0} for name in ("Berlin", "Lyon")]},
    ),
    regions("a region's failure has a hidden cause", 2, setup=first_calls_fail("count_orders", RuntimeError(DOWN))),
    regions("the time runs out before the regions", 2, setup=timeout_in("find_regions")),
    regions("the time runs out after the regions", 2, setup=timeout_in("count_orders")),
    regions("neither message is sent", 4, setup=first_calls_fail("send_message", ToolError(DOWN), 2)),
    regions("the time runs out before the messages", 2, setup=timeout_in("best_region")),
]
