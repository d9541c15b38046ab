"""An MCP server: two tools, and a workflow that uses both. Put your own in its place: this folder is deployed."""

from dataclasses import dataclass
from typing import Annotated

from mcp_baton import Server, ToolError, ask_user, step
from mcp_baton.aws import handler

# With task_ids="text", prompts contain their task's id: in most hosts the model cannot read `_meta`.
server = Server("library", version="0.1.0", task_ids="text")

SHELVES = {"Gathering Moss": "QK-534", "Walden": "PS-3048"}


@dataclass
class Loan:
    """A loan of a book to a reader for a number of weeks."""

    shelf: str
    reader: str
    weeks: int


@server.tool
def find_book(title: Annotated[str, "The book's title"]) -> dict[str, str]:
    """Find a book in the catalogue."""
    if title not in SHELVES:
        raise ToolError(f"there is no book {title!r}; there are {', '.join(SHELVES)}")
    return {"title": title, "shelf": SHELVES[title]}


# For a tool that a person must approve, import Approval and write:
# @server.tool(approval=Approval("librarians", message="Lend {shelf} to {reader}?", when=lambda weeks, **_: weeks > 4))
@server.tool
def lend_book(
    shelf: Annotated[str, "Where the book stands, such as QK-534"],
    reader: Annotated[str, "Who borrows the book"],
    weeks: Annotated[int, "For how many weeks"] = 2,
) -> Loan:
    """Lend the book on a shelf to a reader."""
    return Loan(shelf, reader, weeks)


@server.workflow
def borrow(title: Annotated[str, "The book's title"]) -> None:
    """Borrow a book."""
    book = step(find_book)(title=title)
    # The workflow pauses here until the user has answered.
    reader = ask_user("reader", "Who borrows {title}?")
    step(lend_book)(shelf=book["shelf"], reader=reader)


lambda_handler = handler(server)
