"""The measured workflows, the values that their tools return, and a client that runs them through the handler."""

import base64
import json
import random
import zlib
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Any, Literal

from costs.client import Client, Response
from costs.metering import Usage
from costs.places import Place
from mcp_baton import ListStep, Server, ToolStep, Workflow, constant, item, step_output
from mcp_baton.aws import compose
from mcp_baton.local.dynamodb import create_table
from mcp_baton.settings import Settings
from mcp_baton.workflow.steps.step import Step

KB = 1_024
TABLES, OWNERS = count(1), count(1)

type Kind = Literal["JSON", "opaque"]
KINDS: tuple[Kind, ...] = ("JSON", "opaque")


@dataclass(frozen=True, slots=True)
class Workload:
    """A workflow that runs, pauses, is continued by the client, and ends.

    Attributes:
        name: Its name in the tables.
        value_bytes: The length of each step's result as JSON.
        before: The number of steps that the server runs before the pause.
        by_client: The number of steps whose tools the client calls.
        after: The number of steps that the server runs after a resume. If it is 0, the client completes the task.
        polls: How often the client polls the task.
    """

    name: str
    value_bytes: int
    before: int
    by_client: int
    after: int = 0
    polls: int = 0

    @property
    def steps(self) -> int:
        """The number of all steps."""
        return self.before + self.by_client + self.after

    @property
    def kb(self) -> int:
        """The size of a step's result in KB."""
        return self.value_bytes // KB

    @property
    def runs(self) -> int:
        """The number of runs: the start, and a resume."""
        return 1 + (self.after > 0)


FIRST = ("Ann", "Bo", "Carla", "Dev", "Eva", "Finn", "Gus", "Hana", "Ivo", "Jun")
LAST = ("Miller", "Chen", "Diaz", "Patel", "Novak", "Olsen", "Okafor", "Sato", "Weber", "Rossi")

TYPICAL = Workload("typical", 2 * KB, before=2, by_client=1, after=1, polls=2)
CHATTY = Workload("chatty", 20 * KB, before=10, by_client=10)
HEAVY = Workload("heavy", 60 * KB, before=3, by_client=3)
DRIVEN = Workload("driven", 2 * KB, before=0, by_client=99)
WORKLOADS = (TYPICAL, CHATTY, HEAVY, DRIVEN)

LIST_ELEMENTS, LIST_BYTES, LIST_PARALLEL = 1_000, 2 * KB, 8
"""The measured list: its elements, the length of each result, and how many calls run at the same time."""


@cache
def value(kind: Kind, size: int, seed: int) -> Any:
    """Return a step's result of this length as JSON, bytes. Equal arguments give equal results.

    `JSON` are rows as of a business application; zlib removes three quarters of 20 KB of them. `opaque` is base64 of
    random bytes; zlib removes a quarter.
    """
    generator = random.Random(f"{kind} {seed}")
    if kind == "opaque":
        return base64.b64encode(generator.randbytes(size)).decode()[: size - 2]
    rows: list[dict[str, Any]] = []
    result = {"rows": rows, "note": ""}
    while len(text_of(result)) < size:
        rows.append(_row(generator, len(rows)))
    rows.pop()
    result["note"] = "".join(generator.choices("abcdefghij ", k=size - len(text_of(result))))
    return result


def _row(generator: random.Random, number: int) -> dict[str, Any]:
    return {
        "order_id": f"ORD-{generator.randrange(10**8):08}",
        "line": number + 1,
        "sku": "".join(generator.choices("ABCDEFGHJKLMNPQRSTUVWXYZ23456789", k=10)),
        "customer": f"{generator.choice(FIRST)} {generator.choice(LAST)}",
        "account": f"{generator.randrange(10**10):010}",
        "amount": generator.randrange(100, 99_999) / 100,
        "currency": generator.choice(("EUR", "USD", "GBP")),
        "status": generator.choice(("paid", "open", "shipped", "returned")),
        "due": f"2026-{generator.randrange(1, 13):02}-{generator.randrange(1, 29):02}",
    }


def text_of(result: Any) -> str:
    """Return the JSON text of a value."""
    return json.dumps(result, separators=(",", ":"))


def zipped_share(kind: Kind, size: int) -> float:
    """Return the compressed length of a value as a share of its length."""
    return len(zlib.compress(text_of(value(kind, size, 0)).encode())) / size


def server_of(workload: Workload, kind: Kind) -> Server:
    """Return a server with the workload's workflow, `flow`.

    The steps that the server runs are a chain: each uses the result of the step before. A client's step needs an
    argument that only the client knows.
    """
    server = Server("benchmark")

    @server.tool
    def fetch(step: int, after: Any = None) -> Any:  # noqa: ARG001
        return value(kind, workload.value_bytes, step)

    @server.tool
    def decide(step: int, who: str) -> Any:  # noqa: ARG001
        return value(kind, workload.value_bytes, step)

    def step(number: int) -> Step:
        if workload.before <= number < workload.before + workload.by_client:
            return ToolStep(f"s{number}", tool="decide", arguments={"step": constant(number)})
        previous_result = {"after": step_output(f"s{number - 1}")} if number else {}
        return ToolStep(f"s{number}", tool="fetch", arguments={"step": constant(number), **previous_result})

    steps = [step(number) for number in range(workload.steps)]
    server.add_workflow(Workflow(name="flow", description="work through the steps", steps=steps))
    return server


class WrongAnswer(Exception):
    """The server's answer is wrong, so its cost means nothing."""


class Driver:
    """A client of one owner, whose requests are counted.

    Args:
        place: The storage and its meter.
        workload: The workflow to run.
        kind: The kind of the values that tools return.
        server: Another server than that of the workload, with a workflow `flow`.
    """

    def __init__(self, place: Place, workload: Workload, kind: Kind, *, server: Server | None = None) -> None:
        table = f"cost-{next(TABLES)}"
        create_table(place.dynamodb, table)
        settings = Settings(table=table, state_key=b"k" * 32)
        # A long run checks its task between steps, which costs units. The clock stands still, so the machine's load
        # does not matter.
        server, clock = server or server_of(workload, kind), lambda: 0.0
        handle = compose(server, settings, clock=clock, connect=lambda: place.counted)
        self.workload, self._meter = workload, place.meter
        self._client = Client(handle, owner=f"owner-{next(OWNERS)}")
        self._meter.take()

    def run(self) -> tuple[str, Usage]:
        """Start the workflow. Return the task's id and the usage."""
        response, usage = self._send("prompts/get", {"name": "flow"})
        return response.meta["task_id"], usage

    def poll(self, task: str) -> Usage:
        """Poll the task."""
        return self._send("tasks/get", {"taskId": task})[1]

    def call_step(self, task: str, number: int) -> Usage:
        """Call the tool of the client's next step as a continuation."""
        params = {"name": "decide", "arguments": {"step": number, "who": "ann"}, "_meta": {"_task_id": task}}
        response, usage = self._send("tools/call", params)
        if response.meta.get("recorded") is not True:
            raise WrongAnswer(f"step {number} was not recorded: {response.meta}")
        return usage

    def resume(self, task: str) -> Usage:
        """Resume the workflow."""
        return self._send("prompts/get", {"name": "flow", "_meta": {"_task_id": task}})[1]

    def complete(self, task: str) -> Usage:
        """Complete the task with a result."""
        return self._send("tasks/cancel", {"taskId": task, "result": {"done": True}})[1]

    def page(self) -> Usage:
        """Read the first page of the owner's tasks."""
        return self._send("tasks/list", {})[1]

    def run_to_end(self) -> Usage:
        """Run the workload from its start to its end."""
        workload, (task, usage) = self.workload, self.run()
        for _ in range(workload.polls):
            usage += self.poll(task)
        for number in range(workload.before, workload.before + workload.by_client):
            usage += self.call_step(task, number)
        usage += self.resume(task) if workload.after else self.complete(task)
        status = self._client.request("tasks/get", {"taskId": task}).result["status"]
        self._meter.take()
        if status != "completed":
            raise WrongAnswer(f"the workflow {workload.name} ended as {status}")
        return usage

    def _send(self, method: str, params: dict[str, Any]) -> tuple[Response, Usage]:
        with self._meter.request():
            response = self._client.request(method, params)
        if response.status != 200 or "result" not in response.message:
            raise WrongAnswer(f"{method}: {response.status} {response.body[:600]}")
        return response, self._meter.take()


def list_usage(place: Place, kind: Kind, *, checkpoint: bool) -> Usage:
    """Run a workflow with a list, and return the usage."""
    server = Server("benchmark")

    @server.tool
    def load(number: int) -> Any:
        return value(kind, LIST_BYTES, number)

    options: dict[str, Any] = {"parallel": LIST_PARALLEL, "checkpoint": checkpoint}
    each = constant(list(range(LIST_ELEMENTS)))
    step = ListStep("list", tool="load", each=each, arguments={"number": item()}, **options)
    server.add_workflow(Workflow(name="flow", description="load", steps=[step]))
    driver = Driver(place, TYPICAL, kind, server=server)
    return driver.run()[1]


def chain(steps: int, value_bytes: int, *, paused: bool) -> Workload:
    """Return a workload of this many steps. If `paused`, the last step is the client's."""
    return Workload(f"{steps} steps", value_bytes, before=steps - paused, by_client=int(paused))
