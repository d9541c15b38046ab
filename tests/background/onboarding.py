"""A workflow of eleven steps with people, systems and time, as a new user wrote it."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Literal

from mcp_baton import (
    Approval,
    Argument,
    Context,
    Retry,
    Server,
    ToolError,
    ask_model,
    ask_user,
    exists,
    item,
    or_default,
    sleep_until,
    step,
    wait_for_callback,
)

server = Server("suppliers", task_ids="text")
SENT: list[str] = []
PAID: list[float] = []
ADDRESSES: list[str] = []


@dataclass
class Supplier:
    id: str
    email: str | None
    deposit: float
    documents: list[str]


@dataclass
class Screening:
    passed: bool
    score: int


@server.tool
def fetch_supplier(supplier_id: Annotated[str, "The supplier's number"]) -> Supplier:
    return Supplier(supplier_id, "lee@example.com", 500.0, ["register", "licence"])


@server.tool
def read_document(ctx: Context, name: Annotated[str, "The document"]) -> str:
    if ctx.attempt == 1 and name == "licence":
        raise ToolError("the archive is busy")
    return f"{name}: valid"


@server.tool
def start_screening(ctx: Context, supplier_id: Annotated[str, "The supplier's number"]) -> str:
    """Start the screening of a supplier by another company."""
    ADDRESSES.append(ctx.callback_url("screening"))
    return "started"


PAYMENTS = Approval("treasury", message="Pay {amount} EUR to {supplier_id}?", when=lambda amount, **_: amount > 100)


@server.tool(approval=PAYMENTS)
def pay_deposit(supplier_id: Annotated[str, "The supplier's number"], amount: Annotated[float, "EUR"]) -> str:
    PAID.append(amount)
    return f"P-{supplier_id}"


@server.tool
def send_mail(to: Annotated[str, "The address"], text: Annotated[str, "The text"]) -> None:
    SENT.append(f"{to}: {text}")


@server.tool
def close_file(supplier_id: Annotated[str, "The supplier's number"], payment: Annotated[str, "The payment"]) -> str:
    return f"{supplier_id} closed, {payment}"


@server.workflow(background=True)
def onboard(
    supplier_id: Annotated[str, Argument(description="The supplier's number")],
    note: Annotated[str | None, Argument(description="A note for the mail")] = None,
) -> None:
    supplier = step(fetch_supplier)(supplier_id=supplier_id)
    texts = step(read_document, each=supplier.documents, parallel=2, retry=Retry(attempts=3, first_s=0))(name=item())
    risk = ask_model("risk", "How risky is the supplier, given {texts}?", returns=Literal["low", "high"], texts=texts)
    agreed = ask_user("agreed", "Onboard {supplier_id}?", returns=bool)
    step(start_screening, when=agreed)(supplier_id=supplier_id)
    screening = wait_for_callback("screening", Screening, within=timedelta(hours=4), when=agreed, on_timeout="skip")
    passed = or_default(screening.passed, False)
    payment = step(pay_deposit, when=(passed == True) & (risk == "low"))(  # noqa: E712
        supplier_id=supplier_id, amount=supplier.deposit
    )
    sleep_until("cooling_off", timedelta(hours=2), when=exists(payment))
    step(send_mail, name="welcome", when=exists(payment) & (supplier.email != None))(  # noqa: E711
        to=supplier.email,  # type: ignore[arg-type]  # its condition excludes None
        text="Welcome {supplier_id}",
    )
    step(send_mail, name="mail_note", when=exists(note))(to="team@example.com", text=note)  # type: ignore[arg-type]
    step(close_file)(supplier_id=supplier_id, payment=or_default(payment, "no payment"))
