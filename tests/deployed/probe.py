"""A function that asks its client, names its container, works in the background, waits for callbacks, and makes large
results. Deployed in the sample's place.
"""

import logging
import os
import random
import sys
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from mcp_baton import Context, Server, Step, Workflow, constant, sleep_until, step, wait_for_callback
from mcp_baton.aws import handler
from mcp_baton.clients import s3_client

FORM: Any = {"type": "object", "properties": {"name": {"type": "string"}}}
LARGE = 900_000
"""Characters: more than an item holds, compressed as well; less than the client takes in one event."""

LINGERED = "lingered to the end"
"""What is written by who was not cancelled."""
RESTS = 32
"""Of eight tenths of a second each: more than one invocation of the worker has time for."""

server = Server("probe")
# The emulator does not set the level of the template.
logging.getLogger("mcp_baton").setLevel(logging.DEBUG)


@server.tool
def greet(ctx: Context) -> dict[str, str]:
    """Ask for a name; who it is, and where the call ended."""
    answer = ctx.elicit("name", f"Who calls {here()}?", FORM)
    return {"name": str(answer.content["name"]), "container": here()}


@server.tool
def draw(seed: int) -> str:
    """A large text; the same for the same seed."""
    return random.Random(seed).randbytes(LARGE // 2).hex()


@server.tool(task="required")
def linger(seconds: float, ctx: Context) -> str:
    """Report every tenth of a second that it is here, for so long; where it was."""
    for _ in range(round(10 * seconds)):
        time.sleep(0.1)
        ctx.report_progress(0, 1, f"in {here()}")
    sys.stdout.write(f"{LINGERED}\n")
    sys.stdout.flush()
    return here()


@server.tool
def rest(seconds: float, number: int) -> str:
    """Take so long; where, and which rest it was."""
    time.sleep(seconds)
    return f"{number} in {here()}"


def here() -> str:
    """This container's own name: each has a log stream of its own."""
    return os.environ["AWS_LAMBDA_LOG_STREAM_NAME"]


drawing = Step("draw", tool="draw", arguments={"seed": constant(7)})
server.add_workflow(Workflow(name="drawing", description="draw", steps=[drawing]))

resting = [
    Step(f"rest_{number}", tool=rest, arguments={"seconds": constant(0.8), "number": constant(number)})
    for number in range(RESTS)
]
server.add_workflow(Workflow(name="night", description="rest often", steps=resting, background=True))


@dataclass
class Parcel:
    """What the supplier sends when it delivers."""

    weight: int
    note: str


@server.tool
def order(label: str, ctx: Context) -> str:
    """Order a parcel. The supplier finds the address of the callback in the bucket of the stack."""
    address = ctx.callback_url("delivery")
    bucket = os.environ["BATON_OVERFLOW_BUCKET"]
    s3_client().put_object(Bucket=bucket, Key=f"addresses/{label}", Body=address.encode())
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


lambda_handler = handler(server)
