"""The server of the game, which is deployed: a shop whose tools report their effects to the ledger, outside of Baton.

The ledger makes an effect once for each idempotency key, as a payment provider does. It also sets this container's
clock.
"""

import json
import os
import random
import time
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from http.client import HTTPConnection, HTTPException
from typing import Any

from mcp_baton import Approval, Context, Server, ask_model, item, sleep_until, step, wait_for_callback
from mcp_baton.aws import dynamodb_store, handler
from mcp_baton.exceptions import ToolError
from mcp_baton.settings import Settings

RELEASE = 1
"""The deployment in the middle of the game makes it 2."""
ARTICLES = 8
LARGE_BYTES = 450_000
LEDGER_TIMEOUT_S = 5.0

server = Server("shop")
clock = {"ms": 0}
"""The error of this container's clock."""


def report(path: str, **body: Any) -> dict[str, Any]:
    """Report to the ledger, and return its answer. Raise `ToolError` if there is no answer."""
    headers = {"X-Container": os.environ["AWS_LAMBDA_LOG_STREAM_NAME"]}
    with closing(HTTPConnection(os.environ["LEDGER"], timeout=LEDGER_TIMEOUT_S)) as connection:
        try:
            connection.request("POST", path, json.dumps(body), headers)
            answer: dict[str, Any] = json.load(connection.getresponse())
        except (OSError, HTTPException) as error:
            raise ToolError("the provider did not answer") from error
    clock["ms"] = answer["clock_ms"]
    return answer


def effect(tool: str, order: str, ctx: Context, **details: Any) -> dict[str, Any]:
    """Make the effect of a tool once for each idempotency key. Return the receipt."""
    answer = report("/effects", tool=tool, order=order, key=ctx.idempotency_key, **details)
    return {"order": order, "tool": tool, "receipt": answer["receipt"], **details}


@server.tool
def reserve(order: str, ctx: Context) -> dict[str, Any]:
    """Reserve the goods of an order."""
    return effect("reserve", order, ctx)


@server.tool
def confirm(order: str, code: str, ctx: Context) -> dict[str, Any]:
    """Confirm an order with the code that only the client knows."""
    return effect("confirm", order, ctx, code=code)


@server.tool
def ship(order: str, ctx: Context) -> dict[str, Any]:
    """Ship an order."""
    return effect("ship", order, ctx)


@server.tool
def thank(order: str, ctx: Context) -> dict[str, Any]:
    """Thank the customer."""
    return effect("thank", order, ctx)


@server.tool
def list_articles(order: str) -> list[int]:
    """List the articles of an order."""
    return list(range(ARTICLES))


@server.tool
def pack(order: str, article: int, ctx: Context) -> dict[str, Any]:
    """Pack one article."""
    return effect("pack", order, ctx, article=article)


@server.tool(approval=Approval("refunds", message="Refund {amount} for {order}?"))
def refund(order: str, amount: int, ctx: Context) -> dict[str, Any]:
    """Refund an order."""
    return effect("refund", order, ctx, amount=amount)


@server.tool
def draw(order: str) -> str:
    """Draw a picture, which is too large for the table; the same one for the same order."""
    return random.Random(order).randbytes(LARGE_BYTES // 2).hex()


@server.tool(task="required")
def export(order: str, ctx: Context) -> dict[str, Any]:
    """Export an order in the background."""
    time.sleep(1)
    return effect("export", order, ctx)


@server.tool
def rate(order: str, rating: str, ctx: Context) -> dict[str, Any]:
    """Store the rating of an order."""
    return effect("rate", order, ctx, rating=rating)


@dataclass
class Parcel:
    """What the supplier sends."""

    weight: int


@server.tool
def order_parcel(order: str, ctx: Context) -> dict[str, Any]:
    """Order a parcel; the supplier gets the address of the callback."""
    report("/addresses", order=order, address=ctx.callback_url("delivery"))
    return effect("order_parcel", order, ctx)


@server.tool
def unpack(order: str, weight: int, ctx: Context) -> dict[str, Any]:
    """Unpack a parcel."""
    return effect("unpack", order, ctx, weight=weight)


@server.workflow
def purchase(order: str) -> None:
    """Buy: the model supplies the code. The second release also thanks."""
    step(reserve)(order=order)  # type: ignore[call-arg]
    step(confirm)(order=order)  # type: ignore[call-arg]
    step(ship, checkpoint=True)(order=order)  # type: ignore[call-arg]
    if RELEASE > 1:
        step(thank)(order=order)  # type: ignore[call-arg]


@server.workflow
def parcels(order: str) -> None:
    """Pack each article of a list."""
    articles = step(list_articles)(order=order)
    step(pack, each=articles, parallel=4, checkpoint=True)(order=order, article=item())  # type: ignore[call-arg]
    step(ship)(order=order)  # type: ignore[call-arg]


@server.workflow
def refund_order(order: str, amount: int) -> None:
    """Refund, after an approval."""
    step(reserve)(order=order)  # type: ignore[call-arg]
    step(refund)(order=order, amount=amount)  # type: ignore[call-arg]
    step(thank)(order=order)  # type: ignore[call-arg]


@server.workflow(background=True)
def refund_later(order: str, amount: int) -> None:
    """Refund in the background, after an approval."""
    step(reserve)(order=order)  # type: ignore[call-arg]
    step(refund)(order=order, amount=amount)  # type: ignore[call-arg]


@server.workflow(background=True)
def delivery(order: str) -> None:
    """Wait for a callback, and then for some seconds."""
    step(order_parcel)(order=order)  # type: ignore[call-arg]
    parcel = wait_for_callback("delivery", Parcel, within=timedelta(minutes=50))
    sleep_until("rest", timedelta(seconds=5))
    step(unpack)(order=order, weight=parcel.weight)  # type: ignore[call-arg]


@server.workflow
def survey(order: str) -> None:
    """Ask the model."""
    rating = ask_model("rating", "How was the order?")
    step(rate)(order=order, rating=rating)  # type: ignore[call-arg]


@server.workflow
def picture(order: str) -> None:
    """Store a large result."""
    step(draw)(order=order)
    step(ship)(order=order)  # type: ignore[call-arg]


def now_ms() -> int:
    """Return the time of this container's clock, epoch milliseconds."""
    return time.time_ns() // 1_000_000 + clock["ms"]


# The place of `BREAKS`.
if "LEDGER" in os.environ:
    report("/clock")
    settings = Settings.from_environment(os.environ)
    lambda_handler = handler(server, store=dynamodb_store(str(settings.table), settings, now_ms=now_ms))
