"""A workflow function in which type checkers find nothing."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from mcp_baton import Argument, Context, Retry, Server, ask_model, ask_user, fetch, step

server = Server("library")


@dataclass
class Book:
    shelf: str
    copies: int


@dataclass
class Loan:
    reader: str


@server.tool
def find_book(title: str) -> Book:
    """Find a book."""
    return Book("QK-534", 1)


@server.tool
async def lend(ctx: Context, shelf: str, reader: str, days: int = 14) -> Loan:
    """Lend a book."""
    return Loan(reader)


@server.tool
def remind(reader: str) -> dict[str, Any]:
    """Remind a reader."""
    return {"reader": reader}


@server.workflow
def borrow(title: str, pin: Annotated[str, Argument(secret=True)], days: int = 7) -> None:
    """Borrow a book."""
    book = step(find_book)(title=title)
    fetch("rules", "rules://{shelf}", shelf=book.shelf)
    loan = step(lend, retry=Retry(attempts=3), checkpoint=True)(shelf=book.shelf, reader=pin, days=days)
    reminder = step(remind)(loan.reader)
    step(lend, name="again")(reminder["reader"], "kim", book.copies)
    reader = ask_user("reader", "Who borrows {title}?", title=title)
    days = ask_model("days", "For how long?", returns=int)
    size = ask_model("size", "Which size?", returns=Literal["small", "large"])
    step(lend, name="third")(reader, size, days)


@server.workflow(title="Borrow", background=True)
def borrow_later(title: str) -> None:
    """Borrow a book."""
    step("find_book")(title=title)
