"""Mistakes in a workflow function that type checkers find, each in a line with `# wrong`."""

from mcp_baton import ask_model, step
from tests.type_checkers.good import find_book, lend, server


@server.workflow
def borrow(title: str) -> None:
    """Borrow a book."""
    step(find_book)(titel=title)  # wrong
    step(find_book, name="second")()  # wrong
    book = step(find_book, name="third")(title=title)
    step(lend)(shelf=book.copies, reader="kim")  # wrong
    step(lend, name="fourth")(shelf=book.shelv, reader="kim")  # wrong
    step(lend, name="fifth")(shelf=book.shelf, reader="kim", days="seven")  # wrong
    step(lend, name="sixth", retries=3)(shelf=book.shelf, reader="kim")  # wrong
    days = ask_model("days", "For how long?", returns=int)
    step(lend, name="seventh")(shelf=days, reader="kim")  # wrong


@server.workflow(durably=True)  # wrong
def again(title: str) -> None:
    """Borrow a book."""
    step(find_book)(title=title)
