"""One of several processes that continue the same tasks: a Lambda environment of its own, started by `test_races`.

`python -m tests.e2e.race_worker URL TABLE` says `ready`, then reads a line of JSON a round: the task and the texts to
call the tool with, all at once. It answers each with a line: whether each call was recorded.
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from mcp_baton import Server, Step, Workflow, constant
from mcp_baton.aws import dynamodb_store, handler
from mcp_baton.local.dynamodb import http_client
from mcp_baton.settings import Settings
from mcp_baton.tasks.ids import new_task_id
from tests.e2e.support import BOUND_S, Client

STEPS = 16


def steps_server() -> Server:
    """Sixteen steps with one tool."""
    server = Server("steps")

    @server.tool
    def work(text: str) -> str:
        return text

    steps = [Step(f"s{number}", tool="work", arguments={"text": constant("engine")}) for number in range(STEPS)]
    server.add_workflow(Workflow(name="flow", description="work", steps=steps))
    return server


def call_together(pool: ThreadPoolExecutor, client: Client, task: str, texts: list[str]) -> list[bool]:
    """Call the tool with each text at the same moment; whether each call was recorded."""
    together = Barrier(len(texts), timeout=BOUND_S)

    def call(text: str) -> bool:
        together.wait()
        recorded: bool = client.call_tool("work", {"text": text}, task=task).meta["recorded"]
        return recorded

    return list(pool.map(call, texts))


def main() -> None:
    """Work until there is nothing more to read."""
    url, table = sys.argv[1:]
    settings = Settings(table=table)
    store = dynamodb_store(table, settings, connect=lambda: http_client(url))
    client = Client(handler(steps_server(), settings=settings, store=store))
    # What is imported and connected at the first use must not keep the first round from being a race.
    client.call_tool("work", {"text": ""}, task=new_task_id(0))
    with ThreadPoolExecutor(STEPS) as pool:
        print("ready", flush=True)  # noqa: T201 - this is how it talks to the test
        for line in sys.stdin:
            order = json.loads(line)
            print(json.dumps(call_together(pool, client, order["task"], order["texts"])), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
