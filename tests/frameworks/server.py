"""The server for whole sessions of agent frameworks: the sample's server with a library's tools beside its own.

BATON_APPROVERS='{"refunds": ["ada"]}' EFFECTS=FILE baton serve tests/frameworks/server.py --owner-header x-owner
"""

import os
import sys
import time
from pathlib import Path
from typing import Annotated

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "sample"))

import orders  # noqa: F401 - registers the refund
import sales  # noqa: F401 - registers the reports
from mcp_baton import Context, ToolError, ask_user, step
from mcp_baton.aws import handler
from shop import server

TITLES = {"Walden": "PS-3048"}
STEP_S = 2.0
"""The duration of each step of `fulfil`. Three of them exceed the shortest timeout of a framework, 5 s."""


def record_effect(ctx: Context, name: str) -> None:
    """Append a line that names the effect and the caller to the file that the environment names."""
    with Path(os.environ["EFFECTS"]).open("a") as file:
        file.write(f"{name} for {ctx.owner}\n")


@server.tool
def find_book(title: Annotated[str, "The book's title"]) -> dict[str, str]:
    """Find a book in the catalogue."""
    if title not in TITLES:
        raise ToolError(f"there is no {title!r}; there is {', '.join(TITLES)}")
    return {"shelf": TITLES[title], "title": title}


@server.tool
def lend(
    ctx: Context,
    shelf: Annotated[str, "Where it stands"],
    reader: Annotated[str, "Who borrows it"],
    weeks: Annotated[int, "For how long"] = 2,
) -> str:
    """Lend a book to a reader."""
    record_effect(ctx, f"lend {shelf} to {reader} for {weeks} weeks")
    return f"{reader} has {shelf} for {weeks} weeks"


@server.workflow
def borrow(title: Annotated[str, "The book's title"], weeks: Annotated[int, "For how long"] = 2) -> None:
    """Borrow a book."""
    book = step(find_book)(title=title)
    reader = ask_user("reader", "Who borrows {title}?")
    step(lend)(shelf=book["shelf"], reader=reader, weeks=weeks)


@server.tool
def label(number: Annotated[int, "A number"]) -> str:
    """Label a book with a number."""
    time.sleep(0.1)
    return f"label {number}."


@server.tool
def send_reminder(ctx: Context, reader: Annotated[str, "Who is reminded"]) -> None:
    """Remind a reader."""
    record_effect(ctx, f"remind {reader}")


def prepare(ctx: Context, name: str, order: str) -> str:
    time.sleep(STEP_S)
    record_effect(ctx, f"{name} {order}")
    return f"{name} of {order}"


@server.tool
def charge(ctx: Context, order: Annotated[str, "The order"]) -> str:
    """Charge an order."""
    return prepare(ctx, "charge", order)


@server.tool
def pack(ctx: Context, order: Annotated[str, "The order"], proof: Annotated[str, "The charge"]) -> str:
    """Pack an order."""
    return prepare(ctx, "pack", order)


@server.tool
def ship(ctx: Context, order: Annotated[str, "The order"], parcel: Annotated[str, "The parcel"]) -> str:
    """Ship an order."""
    return prepare(ctx, "ship", order)


@server.workflow
def fulfil(order: Annotated[str, "The order"]) -> None:
    """Fulfil an order."""
    proof = step(charge)(order=order)
    parcel = step(pack)(order=order, proof=proof)
    step(ship)(order=order, parcel=parcel)


lambda_handler = handler(server)
