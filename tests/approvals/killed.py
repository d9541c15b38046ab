"""A process that handles each event in a fork, which kills itself at the point that test_kills.py chooses.

The tool honours idempotency keys: its effect is a file with the key's digest in its name.
"""

import json
import os
import signal
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

from mcp_baton import Approval, Context, Server, ToolStep, Workflow, constant
from mcp_baton.local.dynamodb import http_client
from mcp_baton.settings import Settings
from mcp_baton.tasks.dynamodb.attributes import decode
from tests.fakes import FunctionContext
from tests.memory_dynamodb import MemoryDynamoDB
from tests.support.approvals import approvals_of, approver, decide
from tests.support.background import Time, container
from tests.support.client import Client, JsonDict, Table
from tests.support.killed import Killer, answer_in_forks

SETTINGS = Settings(table="tasks", state_key=b"0" * 32)
AMOUNTS = (1, 2)
"""The amounts that the workflow pays, one in each step."""

DIES_AFTER_EFFECTS = "dies-after-effects"
"""While this file exists, each process is killed after its effect, before anything else is written."""


class Payments:
    """A server whose tool writes its effects to a folder."""

    def __init__(self, folder: Path, table: Table) -> None:
        self.folder, self.table, self.killer = folder, table, Killer()

    def pay(self, amount: int, ctx: Context) -> str:
        """Pay an amount, once for each idempotency key."""
        self.killer.point()
        owner, key = str(ctx.owner), sha256(str(ctx.idempotency_key).encode()).hexdigest()
        used_ids = self.used_ids(owner, amount)
        line = json.dumps({"owner": owner, "amount": amount, "key": key, "used": used_ids})
        with (self.folder / "calls").open("a") as calls:
            calls.write(f"{line}\n")
        (self.folder / f"effect-{key}").touch()
        if (self.folder / DIES_AFTER_EFFECTS).exists():
            os.kill(os.getpid(), signal.SIGKILL)
        self.killer.point()
        return f"paid {amount}"

    def used_ids(self, owner: str, amount: int) -> list[str]:
        """Return the ids of this payment's approvals that are approved and marked as used in the table."""
        points, self.killer.points = self.killer.points, None
        rows = [row for row in self.table.items if row["pk"]["S"].startswith("APPROVAL#") and "used_by" in row]
        self.killer.points = points
        pairs: list[tuple[dict[str, Any], Any]] = [(row, decode(row["record"])) for row in rows]
        return [
            row["sk"]["S"]
            for row, record in pairs
            if record["owner"] == owner
            and record["arguments"] == {"amount": amount}
            and row["state"]["S"] == "approved"
        ]

    def server(self) -> Server:
        server = Server("payments")
        server.add_tool(self.pay, approval=Approval("refunds", message="Pay {amount}?"))
        steps = [
            ToolStep(f"pay{amount}", {"amount": constant(amount)}, tool="pay", checkpoint=True) for amount in AMOUNTS
        ]
        server.add_workflow(Workflow(name="payments", description="pay", steps=steps))
        return server


def warm_up(folder: Path, client: Any) -> None:
    """Import and initialize everything that the forks need, so that they start fast."""
    memory = MemoryDynamoDB()
    memory.create("tasks")
    client.meta.events.register("before-send.dynamodb", memory.answer)
    table = Table(client, "tasks")
    handler = container(Payments(folder, table).server(), table, SETTINGS, Time())
    run = Client(handler).get_prompt("payments")
    [approval] = approvals_of(approver(Client(handler)))
    decide(approver(Client(handler)), approval, "deny")
    Client(handler).get_prompt("payments", task=run.task_id)
    client.meta.events.unregister("before-send.dynamodb", memory.answer)


def main(url: str, folder: Path) -> None:
    client = http_client(url)
    payments = Payments(folder, Table(client, "tasks"))
    server = payments.server()
    warm_up(folder, client)

    def answer(event: JsonDict, time: Time) -> object:
        return container(server, payments.table, SETTINGS, time)(event, FunctionContext(lambda: 60_000))

    answer_in_forks(client, folder, payments.killer, answer)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
