"""The sample application, with more workflows: every kind of form field, values that look like markup, and secrets."""

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Annotated, Any, Literal

from pydantic import AfterValidator

import orders  # noqa: F401 - registers the workflow refund_order
import sales
from mcp_baton import (
    Approval,
    Argument,
    Callback,
    Context,
    ToolError,
    ToolStep,
    Wait,
    Workflow,
    ask_model,
    ask_user,
    constant,
    item,
    prompt_arg,
    sleep_until,
    step,
    step_output,
)
from mcp_baton.aws import handler
from shop import server

type Shelf = Literal["A", "B"]


def a_week_or_less(days: int) -> int:
    """Reject more than a week. Only the server checks this."""
    if days > 7:
        raise ValueError("at most a week")
    return days


@dataclass(frozen=True)
class Address:
    """The address for the bill."""

    street: str
    city: str


@dataclass(frozen=True)
class Booking:
    """The arguments of a booking, as the tool received them."""

    guest: str
    nights: int
    price: float
    breakfast: bool
    room: str
    arrival: date
    extras: list[str]
    address: Address
    member: int | None


@server.tool
def book(
    guest: str,
    nights: int,
    price: float,
    breakfast: bool,
    room: Literal["single", "double"],
    arrival: date,
    extras: list[Literal["sauna", "bike", "parking"]],
    address: Address,
    member: int | None = None,
) -> Booking:
    """Book a room. `member` is the number of a membership card."""
    return Booking(guest, nights, price, breakfast, room, arrival, list(extras), address, member)


@server.tool
def look_up(text: str) -> dict[str, Any]:
    """Return the text in several places."""
    return {"said": text, "link": "https://example.com/a?b=c", text: [text, {"nested": text}]}


@server.tool
def refuse(text: str, why: str | None = None) -> str:
    """Fail with the text, unless `why` is given."""
    if why is None:
        raise ToolError(text)
    return why


PIN = "4711-not-to-be-seen"


@server.tool
def pay(pin: str, amount: int) -> str:
    """Pay an amount."""
    return f"{amount} paid" if pin == PIN else "not paid"


@server.tool
def countdown() -> int:
    """Take no arguments."""
    return 0


@server.tool
def sign(pin: str) -> str:
    """Sign with the PIN. Any other text fails."""
    if pin != PIN:
        raise ToolError(f"{pin} is not the PIN")
    return "signed"


@server.tool
def long_report() -> list[dict[str, Any]]:
    """Return a value that is too long to be inlined in a response."""
    return [{"row": number, "text": "a line of the report"} for number in range(400)]


@server.tool
def forge(uri: str) -> dict[str, Any]:
    """Return a value that looks like the placeholder of a long one."""
    return {"bytes": 1_000_000, "uri": uri}


server.add_workflow(
    Workflow(
        name="report_by_step",
        description="publish the sales report of a month",
        arguments=[Argument("month", "The month", required=True)],
        steps=[
            ToolStep("extract", tool=sales.extract_sales, arguments={"month": prompt_arg("month")}),
            ToolStep("validate", tool=sales.validate_sales, arguments={"rows": step_output("extract")}),
            ToolStep(
                "publish",
                tool=sales.publish_report,
                arguments={"month": prompt_arg("month"), "figures": step_output("validate")},
            ),
        ],
    )
)
server.add_workflow(Workflow(name="book_room", description="book a room", steps=[ToolStep("book", tool=book)]))
server.add_workflow(
    Workflow(
        name="hostile",
        description="carry a text everywhere",
        arguments=[Argument("text", "Any text", required=True)],
        steps=[
            ToolStep("look", tool=look_up, arguments={"text": prompt_arg("text")}),
            ToolStep("refuse", tool=refuse, arguments={"text": step_output("look", "said")}, guidance="About {text}"),
            ToolStep("again", tool=refuse, arguments={"text": constant("{text}")}, guidance="Then {text}"),
        ],
    )
)
server.add_workflow(
    Workflow(
        name="payout",
        description="pay, and sign for it",
        arguments=[Argument("pin", "The PIN", required=True, secret=True), Argument("note", "A note", secret=True)],
        steps=[
            ToolStep("pay", tool=pay, arguments={"pin": prompt_arg("pin")}),
            ToolStep("count", tool=countdown),
            ToolStep("sign", tool=sign, arguments={"pin": prompt_arg("pin")}),
        ],
    )
)
server.add_workflow(
    Workflow(
        name="forge_value",
        description="name a URI",
        arguments=[Argument("uri", "Any URI", required=True)],
        steps=[ToolStep("forge", tool=forge, arguments={"uri": prompt_arg("uri")})],
    )
)
server.add_workflow(
    Workflow(
        name="forge_later",
        description="name a URI of the same task",
        steps=[ToolStep("note", tool=look_up, arguments={"text": constant("a note")}), ToolStep("forge", tool=forge)],
    )
)


@server.tool
def lend(book: str, reader: str, days: int, shelf: Shelf, insured: bool, notes: list[str]) -> str:
    """Lend a book."""
    return f"{reader} has {book} from shelf {shelf} for {days} days; {insured=}, {notes=}"


@server.workflow
def borrow(title: str) -> None:
    """Borrow a book."""
    values = {
        "reader": ask_user("reader", "Who borrows {title}?"),
        "days": ask_user("days", "For how many days?", returns=Annotated[int, AfterValidator(a_week_or_less)]),
        "shelf": ask_user("shelf", "From which shelf?", returns=Shelf),
        "insured": ask_user("insured", "Is it insured?", returns=bool),
        "notes": ask_model("notes", "What did the reader say?", returns=list[str]),
    }
    step(lend)(book=title, **values)


@server.tool
def pack(article: str) -> str:
    """Pack an article."""
    if article == "desk":
        raise ToolError("too large")
    return f"packed {article}"


@server.workflow
def pack_all() -> None:
    """Pack all articles."""
    step(pack, each=["lamp", "desk", "book"])(article=item())


@server.tool(approval=Approval("payments", message="Pay {amount} EUR to {to}?"))
def pay_out(amount: float, to: str) -> str:
    """Pay somebody."""
    return f"{amount} paid to {to}"


@server.workflow
def settle(amount: float, to: str) -> None:
    """Settle a bill."""
    step(pay_out)(amount=amount, to=to)


@server.workflow(parallel=2)
def pack_and_rest() -> None:
    """Pack an article, and rest meanwhile."""
    sleep_until("rest", timedelta(hours=1))
    step(pack)(article=ask_user("article", "Which article?"))


addresses: dict[str, str] = {}


@server.tool
def start_build(branch: str, ctx: Context) -> str:
    """Start a build."""
    addresses[branch] = ctx.callback_url("build")
    return "started"


@server.tool
def build_address(branch: str) -> str:
    """Return the address of a build's callback, for the test that sends it."""
    return addresses[branch]


server.add_workflow(
    Workflow(
        name="release",
        description="release a branch",
        arguments=[Argument("branch", "The branch", required=True)],
        steps=[
            ToolStep("start", tool=start_build, arguments={"branch": prompt_arg("branch")}),
            Wait("build", callback=Callback(dict[str, str], within=timedelta(days=2)), after=["start"]),
            ToolStep("deploy", tool=look_up, arguments={"text": step_output("build", "image")}),
        ],
    )
)
server.add_workflow(
    Workflow(
        name="remind",
        description="remind somebody",
        ttl=timedelta(days=30),
        arguments=[Argument("at", "When", required=True)],
        steps=[
            Wait("sleep", sleep=prompt_arg("at")),
            ToolStep("tell", tool=look_up, arguments={"text": constant("now")}, after=["sleep"]),
        ],
    )
)
server.add_workflow(Workflow(name="write_report", description="write it", steps=[ToolStep("write", tool=long_report)]))

lambda_handler = handler(server)
