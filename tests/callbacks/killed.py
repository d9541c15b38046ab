"""A process that handles each event in a fork, which kills itself at the point that test_kills.py chooses."""

import json
import sys
from datetime import timedelta
from pathlib import Path

from mcp_baton import Callback, Context, Server, ToolStep, Wait, Workflow, step_output
from mcp_baton.local.dynamodb import http_client
from mcp_baton.protocol.json import JsonObject
from mcp_baton.settings import Settings
from tests.fakes import FunctionContext
from tests.support.background import Time, container
from tests.support.client import JsonDict, Table
from tests.support.killed import Killer, answer_in_forks

BASE_URL = "https://api.example.com"
SETTINGS = Settings(table="tasks", state_key=b"0" * 32, base_url=BASE_URL)


class Signatures:
    """A workflow that waits for a signature and then for a minute. Its effects and its queue of events are files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.server = Server("signatures")
        self.server.add_tool(self.ask)
        self.server.add_tool(self.pay)
        steps = [
            ToolStep("ask", tool="ask", checkpoint=True),
            Wait("signed", callback=Callback(int, timedelta(hours=12))),
            Wait("night", sleep=timedelta(minutes=1)),
            ToolStep("pay", {"amount": step_output("signed")}, tool="pay"),
        ]
        self.server.add_workflow(Workflow(name="sign", description="sign", steps=steps, background=True))

    def ask(self, ctx: Context) -> str:
        self.write(f"urls-{ctx.owner}", ctx.callback_url("signed").removeprefix(BASE_URL))
        return "asked"

    def pay(self, amount: int, ctx: Context) -> str:
        self.write(f"paid-{ctx.owner}", str(amount))
        return f"paid {amount}"

    def dispatch(self, event: JsonObject) -> None:
        self.write("events", json.dumps(event))

    def write(self, name: str, line: str) -> None:
        with (self.folder / name).open("a") as file:
            file.write(f"{line}\n")


def main(url: str, folder: Path) -> None:
    client, signatures = http_client(url), Signatures(folder)
    client.describe_table(TableName="tasks")  # initializes the client before the forks

    def answer(event: JsonDict, time: Time) -> object:
        handler = container(signatures.server, Table(client, "tasks"), SETTINGS, time, signatures)
        return handler(event, FunctionContext(lambda: 60_000))

    answer_in_forks(client, folder, Killer(), answer)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
