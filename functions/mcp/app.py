"""An MCP server: two tools, and a workflow that uses both. Put your own in its place: this folder is deployed."""

from dataclasses import dataclass
from typing import Annotated

from mcp_baton import Argument, Server, Step, ToolError, Workflow, prompt_arg, step_output
from mcp_baton.aws import handler

server = Server("library", version="0.1.0")

SHELVES = {"Gathering Moss": "QK-534", "Walden": "PS-3048"}


@dataclass
class Loan:
    """A book that a reader has for so many weeks."""

    shelf: str
    reader: str
    weeks: int


@server.tool
def find_book(title: Annotated[str, "The book's title"]) -> dict[str, str]:
    """Find a book in the catalogue."""
    if title not in SHELVES:
        raise ToolError(f"there is no book {title!r}; there are {', '.join(SHELVES)}")
    return {"title": title, "shelf": SHELVES[title]}


@server.tool
def lend_book(
    shelf: Annotated[str, "Where the book stands, such as QK-534"],
    reader: Annotated[str, "Who borrows the book"],
    weeks: Annotated[int, "For how many weeks"] = 2,
) -> Loan:
    """Lend the book on a shelf to a reader."""
    return Loan(shelf, reader, weeks)


server.add_workflow(
    Workflow(
        name="borrow",
        description="borrow a book",
        arguments=[Argument("title", "The book's title", required=True)],
        steps=[
            Step("find", tool=find_book, arguments={"title": prompt_arg("title")}, binding="book"),
            # Nothing says who the reader is: the workflow pauses here, and asks the model to call the tool with one.
            Step("lend", tool=lend_book, arguments={"shelf": step_output("book", "shelf")}),
        ],
    )
)

lambda_handler = handler(server)
