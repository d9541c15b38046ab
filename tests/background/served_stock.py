"""A server for the test of a killed process: a long workflow in which one step kills it once.

The steps write their effects to the folder in the environment variable `STOCK`.
"""

import os
import signal
from pathlib import Path
from threading import Event

from mcp_baton import Context, Server, ToolStep, Workflow, constant

STEPS = 12
FATAL = 4
server = Server("stock", version="1.0.0")
folder = Path(os.environ["STOCK"])


@server.tool
def count(number: int, ctx: Context) -> int:
    """Count one shelf, once for each idempotency key. Every third shelf takes more than a tenth of an invocation."""
    Path(folder, f"done-{number}-{ctx.idempotency_key}").touch()
    with Path(folder, "calls").open("a") as calls:
        calls.write(f"{number}\n")
    fatal = Path(folder, f"fatal-{number}")
    if number == FATAL and not fatal.exists():
        fatal.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if number % 3 == 2:
        Event().wait(0.15 * (ctx.remaining_ms() or 0) / 1000)
    return number


steps = [ToolStep(f"s{number}", tool="count", arguments={"number": constant(number)}) for number in range(STEPS)]
server.add_workflow(Workflow(name="stock", description="take stock", steps=steps, background=True))
