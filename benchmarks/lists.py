"""Lists and parallel steps: how much longer they take than their tools, and the storage cost of a large list.

Run in the root of the repository: `uv run python -m benchmarks.lists`. The real handler runs in this process. DynamoDB
is in memory. "Ideal" is the time of the tools alone, with as many at the same time as allowed. Write and read
units are computed from the items' sizes (`costs/metering.py`). Bytes are those of the requests' bodies.
"""

import argparse
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from botocore.awsrequest import AWSPreparedRequest

from costs.client import Client
from costs.places import Place, by_sizes
from costs.workloads import KB, KINDS, Kind, value
from mcp_baton import ListStep, Server, ToolError, ToolStep, Workflow, constant, item
from mcp_baton.aws import compose
from mcp_baton.local.dynamodb import create_table
from mcp_baton.settings import Settings
from mcp_baton.tasks.dynamodb.outside import VALUE_PREFIX
from mcp_baton.workflow.list_elements import MAX_ELEMENTS

STEPS, STEP_S, STEPS_TARGET_S = 8, 0.2, 0.3
ELEMENTS, ELEMENT_S, ELEMENTS_TARGET_S = 100, 0.05, 1.0
PARALLEL = 8
RESULT_BYTES = 2 * KB
TABLE = "tasks"


class Meter:
    """Measures the requests of a client.

    Attributes:
        task: The task of the last run.
    """

    def __init__(self, place: Place, client: Client) -> None:
        self._place, self._client = place, client
        self._bytes = 0
        self.task = ""
        place.counted.meta.events.register_first("before-send.dynamodb", self._count_bytes)

    def _count_bytes(self, request: AWSPreparedRequest, **_: object) -> None:
        self._bytes += int(request.headers.get("Content-Length", 0))

    def figures(self, workflow: str, task: str | None = None, *, status: str = "completed") -> tuple[str, ...]:
        """Run a workflow, or resume a task. Return the figures."""
        items_before, self._bytes = self._count_overflow_items(), 0
        self._place.meter.take()
        self.task = run(self._client, workflow, task, status)
        usage = self._place.meter.take()
        new = self._count_overflow_items() - items_before
        counts = (usage.requests, usage.writes, usage.reads, new)
        requests, *rest = (f"{count:,.0f}" for count in counts)
        return (requests, f"{self._bytes / 1e6:.1f}", *rest)

    def _count_overflow_items(self) -> int:
        """Count the items that hold values outside their task's item."""
        pages = self._place.dynamodb.get_paginator("scan").paginate(TableName=TABLE)
        keys = (record["pk"]["S"] + record["sk"]["S"] for page in pages for record in page["Items"])
        return sum(VALUE_PREFIX in key for key in keys)


@dataclass(slots=True)
class Tools:
    """The tools of the measured workflows.

    Attributes:
        kind: What `load` returns.
        fails: Whether `load` fails for every second element.
    """

    kind: Kind = "JSON"
    fails: bool = False
    server: Server = field(default_factory=lambda: Server("lists"))

    def __post_init__(self) -> None:
        self.server.tool(self.wait)
        self.server.tool(self.load)

    def wait(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def load(self, number: int) -> Any:
        """Return a value."""
        if self.fails and number % 2:
            raise ToolError("not now")
        return value(self.kind, RESULT_BYTES, number)


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    print("\n".join(_times(options.rounds)))
    print()
    print("\n".join(_sizes()))


def _times(rounds: int) -> Iterator[str]:
    wait_steps = [ToolStep(f"step {number}", {"seconds": constant(STEP_S)}, tool="wait") for number in range(STEPS)]
    list_step = ListStep(
        "list", {"seconds": item()}, tool="wait", each=constant([ELEMENT_S] * ELEMENTS), parallel=PARALLEL
    )
    cases = (
        (f"{STEPS} steps of {STEP_S * 1000:.0f} ms", wait_steps, STEP_S, STEPS_TARGET_S),
        (
            f"a list of {ELEMENTS} calls of {ELEMENT_S * 1000:.0f} ms",
            [list_step],
            ceil(ELEMENTS / PARALLEL) * ELEMENT_S,
            ELEMENTS_TARGET_S,
        ),
    )
    yield f"| {PARALLEL} at the same time | ideal ms | least ms | median ms | of ideal | target ms |"
    yield "|---|---:|---:|---:|---:|---:|"
    for title, steps, ideal_s, target_s in cases:
        tools = Tools()
        tools.server.add_workflow(Workflow(name="flow", description="wait", steps=steps, parallel=PARALLEL))
        with by_sizes() as place:
            client = client_of(tools.server, place)
            times_s = sorted([_run_time_s(client) for _ in range(rounds + 1)][1:])
        median_s = statistics.median(times_s)
        figures = f"{ideal_s * 1000:.0f} | {times_s[0] * 1000:.0f} | {median_s * 1000:.0f} | {median_s / ideal_s:.2f}"
        yield f"| {title} | {figures} | {target_s * 1000:.0f}{'' if median_s < target_s else ' (missed)'} |"


def _run_time_s(client: Client) -> float:
    start_s = time.monotonic()
    run(client, "flow")
    return time.monotonic() - start_s


def _sizes() -> Iterator[str]:
    yield f"A list of {MAX_ELEMENTS:,} results of {RESULT_BYTES // KB} KB, {PARALLEL} at the same time, JSON / opaque:"
    yield ""
    yield "| | requests | MB sent | writes | reads | new items |"
    yield "|---|---:|---:|---:|---:|---:|"
    for rows in zip(*(_list_figures(kind) for kind in KINDS), strict=True):
        cells = (" / ".join(dict.fromkeys(column)) for column in zip(*rows, strict=True))
        yield f"| {' | '.join(cells)} |"


def _list_figures(kind: Kind) -> Iterator[tuple[str, ...]]:
    """Yield the figures of a run, a run with a checkpoint, a run in which every second call fails, and its resume."""
    tools = Tools(kind)
    options: dict[str, Any] = {"arguments": {"number": item()}, "tool": "load", "parallel": PARALLEL}
    for checkpoint in (False, True):
        list_step = ListStep("list", each=constant(list(range(MAX_ELEMENTS))), checkpoint=checkpoint, **options)
        name = "checkpoint" if checkpoint else "run"
        tools.server.add_workflow(Workflow(name=name, description="load", steps=[list_step]))
    with by_sizes() as place:
        meter = Meter(place, client_of(tools.server, place, frozen_clock=True))
        yield ("run", *meter.figures("run"))
        yield ("run with `checkpoint`", *meter.figures("checkpoint"))
        tools.fails = True
        yield ("run, half of the calls fail", *meter.figures("run", status="working"))
        tools.fails = False
        yield ("its resume", *meter.figures("run", meter.task))


def client_of(server: Server, place: Place, *, frozen_clock: bool = False) -> Client:
    """Return a client of a handler with a new table. With `frozen_clock`, time stands still: a slow machine adds
    no requests.
    """
    create_table(place.dynamodb, TABLE)
    settings = Settings(table=TABLE, state_key=b"k" * 32)
    clock = (lambda: 0.0) if frozen_clock else time.monotonic
    handle = compose(server, settings, clock=clock, connect=lambda: place.counted)
    return Client(handle, owner="owner")


def run(client: Client, workflow: str, task: str | None = None, status: str = "completed") -> str:
    """Run a workflow, or resume a task. Check its status, and return its id."""
    arguments = {} if task is None else {"task_id": task}
    response = client.request("tools/call", {"name": workflow, "arguments": arguments})
    if response.status != 200 or response.message.get("result", {}).get("_meta", {}).get("task_status") != status:
        raise RuntimeError(f"a wrong response: {response.body[:600]}")
    task_id: str = response.meta["task_id"]
    return task_id


if __name__ == "__main__":
    main()
