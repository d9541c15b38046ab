"""A background workflow of forty steps. Every other step honours its idempotency key."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mcp_baton import Context, Server, Step, Workflow, constant
from mcp_baton.settings import Settings
from tests.e2e.cloud import Cloud, Kills
from tests.e2e.support import Client, JsonDict, Table

STEPS = 40
STEP_S = 0.3
"""The duration of a step. A worker starts steps in the first tenth of an invocation of 10 s, so four of them run."""


def cloud_of(server: Server, table: Table, kills: Kills, *, lives_s: float = 10.0, **settings: Any) -> Cloud:
    chosen = Settings(table=table.name, **{"write_reserve_ms": 2_000, **settings})
    cloud = Cloud(table, chosen, kills=kills, lives_s=lives_s)
    cloud.deploy(server)
    return cloud


@dataclass
class Shop:
    """A server with a long workflow, and the effects of its steps.

    Attributes:
        sold: The effects of the steps that honour their idempotency key: the step's number by key.
        done: The number of calls of each step that ignores its key.
        meanwhile: Runs within each step, before its effect.
        point: Runs at the start and the end of each step. It may kill the process.
    """

    sold: dict[str, int] = field(default_factory=dict)
    done: Counter[int] = field(default_factory=Counter)
    meanwhile: Callable[[int], object] = lambda _number: None
    point: Callable[[], None] = lambda: None

    def at(self, number: int, act: Callable[[], object]) -> None:
        self.meanwhile = lambda step: act() if step == number else None

    def server(self, pass_s: Callable[[float], None], *, steps: int = STEPS, step_s: float = STEP_S) -> Server:
        """Return a server with a workflow of `steps` steps. Every other one honours its idempotency key."""
        server = Server("shop")

        @server.tool
        def sell(number: int, ctx: Context) -> int:
            self.point()
            pass_s(step_s)
            self.meanwhile(number)
            self.sold.setdefault(ctx.idempotency_key, number)
            self.point()
            return number

        @server.tool
        def note(number: int) -> int:
            self.point()
            pass_s(step_s)
            self.meanwhile(number)
            self.done[number] += 1
            self.point()
            return number

        made = [
            Step(f"s{number}", tool="note" if number % 2 else "sell", arguments={"number": constant(number)})
            for number in range(steps)
        ]
        server.add_workflow(Workflow(name="stock", description="take stock", steps=made, background=True))
        return server


def opened(client: Client, name: str, arguments: JsonDict | None = None) -> str:
    """Call a workflow as a task. Return the id of the call's task."""
    if client.era == "2026":
        made = client.call_tool(name, arguments).result
        assert made["resultType"] == "task"
        return str(made["taskId"])
    made = client.request("tools/call", {"name": name, "arguments": arguments or {}, "task": {}}).result
    return str(made["task"]["taskId"])


def state(client: Client, task_id: str) -> JsonDict:
    return client.task("get", task_id).result


def own_task(client: Client, call: str) -> str:
    return str(state(client, call)["_meta"]["_workflow.task_id"])


def steps_of(client: Client, task_id: str) -> list[str]:
    progress = state(client, task_id)["_meta"]["_workflow.progress"]
    return [step["status"] for step in progress["steps"]]


def returned(client: Client, call: str) -> JsonDict:
    ended = state(client, call)
    assert ended["status"] == "completed", ended
    result: JsonDict = ended["result"]
    return result
