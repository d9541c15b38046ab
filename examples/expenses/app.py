"""Expenses: a receipt becomes a booking. The model classifies it, and the user decides if it exceeds the budget."""

from dataclasses import dataclass
from typing import Annotated, Literal

from mcp_baton import Server, ToolError, ask_model, ask_user, or_default, step
from mcp_baton.aws import handler

type Category = Literal["travel", "meals", "equipment"]

RATES = {"EUR": 1.0, "USD": 0.9, "GBP": 1.2}
BUDGETS = {"travel": 500.0, "meals": 60.0, "equipment": 1_000.0}


@dataclass(frozen=True)
class Receipt:
    """A receipt, in its own currency."""

    merchant: str
    amount: float
    currency: str


RECEIPTS = {"R-1": Receipt("Hotel Ada", 300.0, "USD"), "R-2": Receipt("Chez Mia", 90.0, "GBP")}

server = Server("expenses", instructions="Books receipts. Amounts are in EUR.")


@server.tool
def read_receipt(receipt_id: Annotated[str, "The receipt's number, such as R-1"]) -> Receipt:
    """Read a scanned receipt."""
    if receipt_id not in RECEIPTS:
        raise ToolError(f"there is no receipt {receipt_id!r}; there are {', '.join(RECEIPTS)}")
    return RECEIPTS[receipt_id]


@server.tool
def to_eur(amount: Annotated[float, "The amount"], currency: Annotated[str, "Its currency, such as USD"]) -> float:
    """Convert an amount to EUR at today's exchange rate."""
    return round(amount * RATES[currency], 2)


@server.tool
def left_in_budget(category: Annotated[Category, "The category"]) -> float:
    """Look up what is left in a budget, EUR."""
    return BUDGETS[category]


@server.tool
def book(category: Annotated[Category, "The category"], amount: Annotated[float, "EUR"]) -> str:
    """Book an expense. Returns the booking's number."""
    return f"B-{category}-{amount}"


@server.tool
def notify(text: Annotated[str, "The booking's number"], to: Annotated[str, "The employee's e-mail address"]) -> None:
    """Tell an employee how the expense was decided."""


@server.workflow
def file_expense(receipt_id: Annotated[str, "The receipt"], employee: Annotated[str, "Their e-mail address"]) -> None:
    """File an expense."""
    receipt = step(read_receipt)(receipt_id)
    amount = step(to_eur)(receipt.amount, receipt.currency)
    category: Category = ask_model("category", "Which budget fits {merchant}?", Category, merchant=receipt.merchant)
    left = step(left_in_budget)(category)
    question = "Book {amount} EUR? Only {left} EUR are left."
    approved = ask_user("approved", question, bool, amount=amount, left=left, when=amount > left)
    booking = step(book, when=(amount <= left) | or_default(approved, False))(category, amount)
    step(notify)(or_default(booking, "rejected"), employee)


lambda_handler = handler(server)
