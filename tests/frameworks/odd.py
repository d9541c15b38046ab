"""A server of types that every framework can use, for the tests of their conversions."""

import enum
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal, NotRequired, TypedDict
from uuid import UUID

from pydantic import BaseModel, Field

from mcp_baton import Context, Server, ask_model, ask_user, step
from mcp_baton.aws import handler

server = Server("odd", task_ids="text")


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


class Address(BaseModel):
    """A postal address."""

    street: Annotated[str, Field(description="Street and number")]
    city: Annotated[str, Field(description="The city", min_length=2)]
    zip: Annotated[str | None, Field(description="The code", pattern=r"^\d{4,5}$")] = None


class Line(BaseModel):
    """What is ordered."""

    sku: Annotated[str, Field(description="The article")]
    quantity: Annotated[int, Field(description="How many", ge=1, le=99)] = 1
    price: Annotated[Decimal, Field(description="The price of one")] = Decimal("1.50")
    colour: Annotated[Colour, Field(description="The colour")] = Colour.RED


class Options(TypedDict):
    level: Literal["low", "high"]
    is_verbose: NotRequired[bool]


@dataclass
class Point:
    x: float
    y: float = 0.0
    labels: dict[str, int] = field(default_factory=dict)


@server.tool
def no_arguments() -> str:
    """Take nothing."""
    return "nothing"


@server.tool
def place_order(
    address: Annotated[Address, "Where to send it"],
    lines: Annotated[list[Line], "What is ordered"],
    speed: Annotated[Literal["slow", "fast"], "How fast"] = "slow",
    colour: Annotated[Colour, "The wrapping"] = Colour.GREEN,
    deliver_on: Annotated[date | None, "The day"] = None,
    note: Annotated[str | None, "A note"] = None,
    billing: Annotated[Address | None, "Where to send the bill"] = None,
) -> str:
    """Place an order."""
    return f"{address} {lines} {speed} {colour} {deliver_on} {note} {billing}"


@server.tool
def scalars(
    when: Annotated[datetime, "A moment"],
    identifier: Annotated[UUID, "An identifier"],
    price: Annotated[Decimal, "A price"],
    ratio: Annotated[float, Field(description="A share", gt=0, lt=1)],
    is_urgent: Annotated[bool, "Whether it is urgent"] = False,
    period: Annotated[timedelta, "A duration"] = timedelta(hours=1),
    count: Annotated[int, Field(description="A number", ge=1, le=9)] = 3,
    limit: Annotated[int | None, "The highest number"] = None,
    either: Annotated[int | str, "A number or a name"] = "all",
) -> str:
    """Take all kinds of values."""
    return f"{when} {identifier} {price} {ratio} {is_urgent} {period} {count} {limit} {either}"


@server.tool
def collections(
    labels: Annotated[dict[str, int], "Numbers by name"],
    points: Annotated[list[Point], "Points"],
    options: Annotated[Options, "Options"],
    anything: Annotated[Any, "Any value"] = None,
    extra: Annotated[dict[str, Any] | None, "Any members"] = None,
    tags: Annotated[set[str], "Tags"] = frozenset(),  # type: ignore[assignment]
    colours: Annotated[list[Colour] | None, "Colours"] = None,
    grid: Annotated[list[list[float]] | None, "Rows"] = None,
) -> str:
    """Take collections."""
    return f"{labels} {points} {options} {anything} {extra} {tags} {colours} {grid}"


@server.tool(task="optional")
def with_context(ctx: Context, name: Annotated[str, "A name"]) -> str:
    """Take the context, too."""
    return f"{ctx.owner} {name}"


@server.workflow
def order(
    customer: Annotated[str, "Who orders"],
    lines: Annotated[list[Line], "What is ordered"],
    priority: Annotated[int, "How urgent"],
    payment: Annotated[Literal["card", "cash"], "How it is paid"] = "card",
    limit: Annotated[float | None, "The highest price"] = None,
) -> None:
    """Order what a customer wants."""
    address = ask_user("address", "Where does {customer} live?", Address)
    speed = ask_model("speed", "How fast?", Literal["slow", "fast"])
    is_sure = ask_user("is_sure", "Really?", bool)
    step(no_arguments, when=is_sure)()
    step(place_order, when=is_sure)(address=address, lines=lines, speed=speed)
    step(with_context)(name=customer)


lambda_handler = handler(server)
