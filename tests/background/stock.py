"""A background workflow of forty steps. Every other step honours its idempotency key."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mcp_baton import Context, Server, ToolStep, Workflow, constant
from mcp_baton.settings import Settings
from tests.support.client import Client, JsonDict, Table
from tests.support.cloud import Cloud, Kills

STEPS = 40
STEP_S = 0.3
"""The duration of a step. A worker starts steps in the first tenth of an invocation of 10 s, so four of them run."""


def cloud_of(server: Server, table: Table, kills: Kills, *, timeout_s: float = 10.0, **settings: Any) -> Cloud:
    all_settings = Settings(table=table.name, **{"write_reserve_ms": 2_000, **settings})
    cloud = Cloud(table, all_settings, kills=kills, timeout_s=timeout_s)
    cloud.deploy(server)
    return cloud


@dataclass
class Shop:
    """A server with a long workflow, and the effects of its steps.

    Attributes:
        effects: The effects of the steps that honour their idempotency key: the step's number by key.
        calls: The number of calls of each step that ignores its key.
        meanwhile: Runs within each step, before its effect.
        point: Runs at the start and the end of each step. It may kill the process.
    """

    effects: dict[str, int] = field(default_factory=dict)
    calls: Counter[int] = field(default_factory=Counter)
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
            self.effects.setdefault(ctx.idempotency_key, number)
            self.point()
            return number

        @server.tool
        def note(number: int) -> int:
            self.point()
            pass_s(step_s)
            self.meanwhile(number)
            self.calls[number] += 1
            self.point()
            return number

        workflow_steps = [
            ToolStep(f"s{number}", tool="note" if number % 2 else "sell", arguments={"number": constant(number)})
            for number in range(steps)
        ]
        server.add_workflow(Workflow(name="stock", description="take stock", steps=workflow_steps, background=True))
        return server


def call_as_task(client: Client, name: str, arguments: JsonDict | None = None) -> str:
    """Call a workflow as a task. Return the id of the call's task."""
    if client.era == "2026":
        result = client.call_tool(name, arguments).result
        assert result["resultType"] == "task"
        return str(result["taskId"])
    result = client.request("tools/call", {"name": name, "arguments": arguments or {}, "task": {}}).result
    return str(result["task"]["taskId"])


def state(client: Client, task_id: str) -> JsonDict:
    return client.task("get", task_id).result


def workflow_task_of(client: Client, call_id: str) -> str:
    return str(state(client, call_id)["_meta"]["_workflow.task_id"])


def steps_of(client: Client, task_id: str) -> list[str]:
    progress = state(client, task_id)["_meta"]["_workflow.progress"]
    return [step["status"] for step in progress["steps"]]


def result_of(client: Client, call_id: str) -> JsonDict:
    task = state(client, call_id)
    assert task["status"] == "completed", task
    result: JsonDict = task["result"]
    return result
