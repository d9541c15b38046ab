"""The probe: a function deployed instead of the sample. It asks its client, names its container, runs background tasks,
waits for callbacks, returns large results, and has the workflows that the events of docs/events.md start.
"""

import logging
import os
import random
import sys
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from mcp_baton import Context, Server, ToolStep, Workflow, constant, sleep_until, step, wait_for_callback
from mcp_baton.aws import handler
from mcp_baton.clients import dynamodb_client

FORM: Any = {"type": "object", "properties": {"name": {"type": "string"}}}
LARGE = 900_000
"""Characters: more than an item can hold even when compressed, and less than the client accepts in one event."""

LINGER_OUTPUT = "lingered to the end"
"""The output of a `linger` that was not cancelled."""
REST_COUNT = 32
"""The number of rests, 0.8 seconds each: more than one invocation of the worker has time for."""

server = Server("probe")
# The emulator does not set the log level that the template configures.
logging.getLogger("mcp_baton").setLevel(logging.DEBUG)


@server.tool
def greet(ctx: Context) -> dict[str, str]:
    """Ask for a name. Return it, and the container in which the call ended."""
    answer = ctx.elicit("name", f"Who calls {container_name()}?", FORM)
    return {"name": str(answer.content["name"]), "container": container_name()}


@server.tool
def draw(seed: int) -> str:
    """Return a large text, which depends only on the seed."""
    return random.Random(seed).randbytes(LARGE // 2).hex()


@server.tool(task="required")
def linger(seconds: float, ctx: Context) -> str:
    """Report progress every tenth of a second for this long. Return the container's name."""
    for _ in range(round(10 * seconds)):
        time.sleep(0.1)
        ctx.report_progress(0, 1, f"in {container_name()}")
    sys.stdout.write(f"{LINGER_OUTPUT}\n")
    sys.stdout.flush()
    return container_name()


@server.tool
def rest(seconds: float, number: int) -> str:
    """Sleep for this long. Return the number of the rest and the container's name."""
    time.sleep(seconds)
    return f"{number} in {container_name()}"


def container_name() -> str:
    """Return this container's name: each container has its own log stream."""
    return os.environ["AWS_LAMBDA_LOG_STREAM_NAME"]


draw_step = ToolStep("draw", tool="draw", arguments={"seed": constant(7)})
server.add_workflow(Workflow(name="drawing", description="draw", steps=[draw_step]))

rest_steps = [
    ToolStep(f"rest_{number}", tool=rest, arguments={"seconds": constant(0.8), "number": constant(number)})
    for number in range(REST_COUNT)
]
server.add_workflow(Workflow(name="night", description="rest often", steps=rest_steps, background=True))


@dataclass
class Parcel:
    """What the supplier sends on delivery."""

    weight: int
    note: str


@server.tool
def order(label: str, ctx: Context) -> str:
    """Order a parcel. The supplier finds the address of the callback in the table of the stack."""
    address = ctx.callback_url("delivery")
    item: Any = {"pk": {"S": f"ADDRESS#{label}"}, "sk": {"S": "ADDRESS"}, "address": {"S": address}}
    dynamodb_client().put_item(TableName=os.environ["BATON_TABLE"], Item=item)
    return f"{label} is ordered; the supplier calls {address}"


@server.tool
def unpack(weight: int) -> str:
    """Unpack a parcel."""
    return f"{weight} kg"


@server.workflow(background=True)
def purchase(label: str) -> None:
    """Order a parcel, and wait until it is delivered."""
    step(order)(label=label)  # type: ignore[call-arg]
    parcel = wait_for_callback("delivery", Parcel, within=timedelta(hours=1))
    step(unpack)(weight=parcel.weight)


@server.workflow(background=True)
def receipt(label: str) -> None:
    """Order a parcel, and wait for a number or a word."""
    step(order)(label=label)  # type: ignore[call-arg]
    wait_for_callback("delivery", int | str, within=timedelta(hours=1))


@server.workflow(background=True)
def slow_purchase(label: str) -> None:
    """Order a parcel, sleep, and wait until it is delivered."""
    step(order)(label=label)  # type: ignore[call-arg]
    sleep_until("transport", timedelta(minutes=2))
    parcel = wait_for_callback("delivery", Parcel, within=timedelta(hours=1))
    step(unpack)(weight=parcel.weight)


@server.workflow
def doze(seconds: float) -> None:
    """Rest once, while the client waits."""
    step(rest)(seconds=seconds, number=0)


@server.tool
def note(text: str) -> str:
    """Return the text."""
    return text


@server.workflow
def settle_day(day: str) -> None:
    """Settle a day."""
    step(note)(text=day)


@server.workflow
def handle_alarm(alarm: str) -> None:
    """Handle an alarm."""
    step(note)(text=alarm)


@server.workflow
def fulfil_order(order_id: str) -> None:
    """Fulfil an order."""
    step(note)(text=order_id)


@server.workflow
def book_invoice(bucket: str, key: str) -> None:
    """Book the invoice in a file."""
    step(note, name="bucket")(text=bucket)
    step(note, name="key")(text=key)


lambda_handler = handler(server)
