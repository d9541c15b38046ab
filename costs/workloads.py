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
from mcp_baton import Server, Step, Workflow, constant, step_output
from mcp_baton.aws import compose
from mcp_baton.local.dynamodb import create_table
from mcp_baton.settings import Settings

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
WORKLOADS = (TYPICAL, CHATTY, HEAVY)


@cache
def value(kind: Kind, size: int, seed: int) -> Any:
    """Return a step's result of this length as JSON, bytes. Equal arguments give equal results.

    `JSON` are rows as of a business application; zlib removes three quarters of 20 KB of them. `opaque` is base64 of
    random bytes; zlib removes a quarter.
    """
    draw = random.Random(f"{kind} {seed}")
    if kind == "opaque":
        return base64.b64encode(draw.randbytes(size)).decode()[: size - 2]
    rows: list[dict[str, Any]] = []
    result = {"rows": rows, "note": ""}
    while len(text_of(result)) < size:
        rows.append(_row(draw, len(rows)))
    rows.pop()
    result["note"] = "".join(draw.choices("abcdefghij ", k=size - len(text_of(result))))
    return result


def _row(draw: random.Random, place: int) -> dict[str, Any]:
    return {
        "order_id": f"ORD-{draw.randrange(10**8):08}",
        "line": place + 1,
        "sku": "".join(draw.choices("ABCDEFGHJKLMNPQRSTUVWXYZ23456789", k=10)),
        "customer": f"{draw.choice(FIRST)} {draw.choice(LAST)}",
        "account": f"{draw.randrange(10**10):010}",
        "amount": draw.randrange(100, 99_999) / 100,
        "currency": draw.choice(("EUR", "USD", "GBP")),
        "status": draw.choice(("paid", "open", "shipped", "returned")),
        "due": f"2026-{draw.randrange(1, 13):02}-{draw.randrange(1, 29):02}",
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

    def step(place: int) -> Step:
        if workload.before <= place < workload.before + workload.by_client:
            return Step(f"s{place}", tool="decide", arguments={"step": constant(place)})
        chained = {"after": step_output(f"s{place - 1}")} if place else {}
        return Step(f"s{place}", tool="fetch", arguments={"step": constant(place), **chained})

    steps = [step(place) for place in range(workload.steps)]
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
        bucket: Whether large values may be stored in S3.
    """

    def __init__(self, place: Place, workload: Workload, kind: Kind, *, bucket: bool) -> None:
        table = f"cost-{next(TABLES)}"
        create_table(place.dynamodb, table)
        settings = Settings(table=table, overflow_bucket=place.bucket if bucket else None, state_key=b"k" * 32)
        # A long run checks its task between steps, which costs units. The clock stands still, so the machine's load
        # does not matter.
        flow, still = server_of(workload, kind), lambda: 0.0
        handle = compose(flow, settings, clock=still, connect=lambda: place.counted, connect_s3=lambda: place.s3)
        self.workload, self._meter = workload, place.meter
        self._client = Client(handle, owner=f"owner-{next(OWNERS)}")
        self._meter.take()

    def run(self) -> tuple[str, Usage]:
        """Start the workflow. Return the task's id and the usage."""
        answer, usage = self._measured("prompts/get", {"name": "flow"})
        return answer.meta["task_id"], usage

    def poll(self, task: str) -> Usage:
        """Poll the task."""
        return self._measured("tasks/get", {"taskId": task})[1]

    def call_step(self, task: str, place: int) -> Usage:
        """Call the tool of the client's next step as a continuation."""
        params = {"name": "decide", "arguments": {"step": place, "who": "ann"}, "_meta": {"_task_id": task}}
        answer, usage = self._measured("tools/call", params)
        if answer.meta.get("recorded") is not True:
            raise WrongAnswer(f"step {place} was not recorded: {answer.meta}")
        return usage

    def resume(self, task: str) -> Usage:
        """Resume the workflow."""
        return self._measured("prompts/get", {"name": "flow", "_meta": {"_task_id": task}})[1]

    def complete(self, task: str) -> Usage:
        """Complete the task with a result."""
        return self._measured("tasks/cancel", {"taskId": task, "result": {"done": True}})[1]

    def page(self) -> Usage:
        """Read the first page of the owner's tasks."""
        return self._measured("tasks/list", {})[1]

    def whole(self) -> Usage:
        """Run the workload from its start to its end."""
        work, (task, usage) = self.workload, self.run()
        for _ in range(work.polls):
            usage += self.poll(task)
        for place in range(work.before, work.before + work.by_client):
            usage += self.call_step(task, place)
        usage += self.resume(task) if work.after else self.complete(task)
        status = self._client.request("tasks/get", {"taskId": task}).result["status"]
        self._meter.take()
        if status != "completed":
            raise WrongAnswer(f"the workflow {work.name} ended as {status}")
        return usage

    def _measured(self, method: str, params: dict[str, Any]) -> tuple[Response, Usage]:
        with self._meter.request():
            answer = self._client.request(method, params)
        if answer.status != 200 or "result" not in answer.message:
            raise WrongAnswer(f"{method}: {answer.status} {answer.body[:600]}")
        return answer, self._meter.take()


def chain(steps: int, value_bytes: int, *, paused: bool) -> Workload:
    """Return a workload of this many steps. If `paused`, the last step is the client's."""
    return Workload(f"{steps} steps", value_bytes, before=steps - paused, by_client=int(paused))
