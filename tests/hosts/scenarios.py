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
        answers: The user's answers, by the name of an argument.
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
    """Return the sample's server, as it is deployed."""
    return shop.server


def supervisor(client: Client) -> Client:
    return client.as_owner("ada", scopes=["refunds"])


def approve(client: Client) -> None:
    """Approve all waiting calls."""
    for approval in supervisor(client).approvals():
        supervisor(client).approve(approval["approvalId"])


def expire(client: Client) -> None:
    """Let the waiting approvals expire."""
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


def regions(name: str, min_calls: int, month: str = "2026-09", **options: Any) -> Scenario:
    """Return a scenario of the sample's regional report."""
    arguments = {"month": month}
    return Scenario(name, sample, min_calls, payments=0, workflow="regional_report", arguments=arguments, **options)


def first_calls_fail(tool: str, error: Exception, times: int = 1) -> Mapping[int, Callable[[Client], object]]:
    """Let the first calls of a tool fail, this many times."""
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

SCENARIOS = [
    Scenario("nothing pauses", lambda shop: shop.server(refund()), 1),
    Scenario(
        "an approval is missing",
        lambda shop: shop.server(without("approved_by")),
        ONE_VALUE,
        answers={"approved_by": "Ada"},
    ),
    Scenario("the bank is down once", lambda shop: shop.server(refund(retryable=True)), 2, errors=(DOWN,)),
    Scenario("the cause of a failure is hidden", lambda shop: shop.server(refund()), 2, errors=(RuntimeError(DOWN),)),
    Scenario("the bank is down twice", lambda shop: shop.server(refund(retryable=True)), 3, errors=(DOWN, DOWN)),
    Scenario("what is not retryable fails twice", lambda shop: shop.server(refund()), 4, errors=("no", "no")),
    Scenario(
        "an argument has no source", lambda shop: shop.server(without("amount")), ONE_VALUE, answers={"amount": 12.5}
    ),
    Scenario(
        "an argument is invalid",
        lambda shop: shop.server(refund({"reason": constant("ugly")})),
        ONE_VALUE,
        answers={"reason": "damaged"},
    ),
    Scenario(
        "an output lacks a path",
        lambda shop: shop.server(refund({"amount": step_output("order", "lines.0.total")})),
        ONE_VALUE,
        answers={"amount": 12.5},
    ),
    Scenario("a variable was never set", lambda shop: shop.server(MAIL, refund()), 3, answers={"text": "red"}),
    Scenario(
        "the function's time runs out",
        lambda shop: shop.server(refund()),
        2,
        setup=timeout_in("refund"),
    ),
    Scenario(
        "a large value and a missing one",
        lambda shop: shop.server(FIND, FILE),
        ONE_VALUE,
        answers={"label": "A"},
        payments=0,
        variables={"_workflow.result.file": {"label": "A", "characters": len(LARGE) + 6}},
    ),
    Scenario(
        "a result is too large to be kept",
        lambda shop: shop.server(HUGE, without("approved_by"), FILE),
        5,
        answers={"approved_by": "Ada", "document": "the letters", "label": "A"},
        variables={"_workflow.result.file": {"label": "A", "characters": len("the letters")}},
    ),
    Scenario(
        "a result is too large for a call of the model's",
        lambda shop: shop.server(LONG, refund(retryable=True), FILE_ALL),
        2,
        errors=(DOWN,),
        variables={"_workflow.result.file": {"label": "A", "characters": 1_100_000}},
    ),
    Scenario(
        "an argument looks like a placeholder",
        lambda shop: shop.server(without("approved_by")),
        ONE_VALUE,
        answers={"approved_by": "Ada"},
        arguments={"order_id": "<output from nothing>"},
    ),
    Scenario("a resource cannot be read at first", unreadable, 2),
    Scenario(
        "a secret must be given again",
        with_a_secret,
        ONE_VALUE,
        answers={"approved_by": "Ada", "pin": "4711-0815"},
        payments=0,
        workflow="transfer",
        arguments={"pin": "4711-0815"},
    ),
    Scenario(
        "questions to the model and the user",
        with_questions,
        2,
        answers={"reader": "Ada", "days": 7},
        payments=0,
        workflow="borrow",
        arguments={"title": "Emma"},
    ),
    Scenario("the sample: within the policy", sample, 1, payments=0, arguments={"order_id": "A-18"}),
    Scenario("the sample: a supervisor approves", sample, 2, payments=0, decisions=(approve,)),
    Scenario("the sample: the supervisor is slow", sample, 4, payments=0, decisions=(nothing, nothing, approve)),
    Scenario("the sample: the approval expires once", sample, 3, payments=0, decisions=(expire, approve)),
    Scenario(
        "the sample: a report to summarise",
        sample,
        2,
        answers={"summary": "A good month. Headphones sold best."},
        payments=0,
        workflow="monthly_report",
        arguments={"month": "2026-09"},
    ),
    regions("the sample: regions", 1),
    regions("the sample: regions without orders", 1, "2026-10", skipped=("best",)),
    regions("the sample: a region is not counted", ONE_VALUE, setup=first_calls_fail("count_orders", ToolError(DOWN))),
    regions(
        "the sample: no region is counted",
        4,
        "2026-10",
        setup=first_calls_fail("count_orders", ToolError(DOWN), 2),
        skipped=("best",),
        variables={"_workflow.result.count": [{"region": name, "orders": 0} for name in ("Berlin", "Lyon")]},
    ),
    regions(
        "the sample: the cause of a region's failure is hidden",
        2,
        setup=first_calls_fail("count_orders", RuntimeError(DOWN)),
    ),
    regions("the sample: the time runs out before the regions", 2, setup=timeout_in("find_regions")),
    regions("the sample: the time runs out after the regions", 2, setup=timeout_in("count_orders")),
    regions("the sample: neither message is sent", 4, setup=first_calls_fail("send_message", ToolError(DOWN), 2)),
    regions("the sample: the time runs out before the messages", 2, setup=timeout_in("best_region")),
]
