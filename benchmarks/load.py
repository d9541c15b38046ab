"""Load: many clients run workflows of Baton in several function environments, beside the same tools of peers.

Run at the root of the repository: `uv run python -m benchmarks.load`. Baton's environments share one embedded DynamoDB.
They are behind a front, which stands for API Gateway and Lambda. The peers run under uvicorn. The floors are the front
and uvicorn with a fixed reply.

A client starts its next workflow when its last one has ended. So all processors are busy, and a latency is mostly the
time in a queue: compare only figures of one run. Processor time and memory are those of the processes that handle
requests. The clients, the front, DynamoDB and Redis use the same processors.
"""

import argparse
import asyncio
import statistics
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from benchmarks import layers, load_servers
from benchmarks.cold_start import machine
from benchmarks.load_clients import RUNS, Run, Tally, fixed, measure, task_by_task, tool_by_tool, warm_up
from benchmarks.load_servers import NotAvailable, RunningServer
from benchmarks.memory import processor_s, resident_mb

WARM_UP = 1 / 6
"""The length of the warm-up, as a share of the measured time."""
FLOOR_S = 30.0
"""The longest time for which a floor is measured, seconds."""
MAX_ERRORS = 5


@dataclass(frozen=True, slots=True)
class Server:
    """A server that is measured.

    Attributes:
        start: Starts it in so many processes.
        run_of: Returns the client of a workflow.
        floor: The name of its floor.
        start_floor: Starts the floor.
        workflows: The workflows that it can run.
        layers: The packages that it and its floor run on; empty for those of this environment.
    """

    start: Callable[[int], AbstractContextManager[RunningServer]]
    run_of: Callable[[str], Run]
    floor: str
    start_floor: Callable[[int], AbstractContextManager[RunningServer]]
    workflows: tuple[str, ...]
    layers: tuple[str, ...] = ()


BATON = "Baton"
# The peers have neither approvals nor callbacks.
STEPS = ("typical", "chatty", "heavy")
WORKFLOWS = tuple(RUNS)
UVICORN = ("uvicorn, fixed reply", load_servers.asgi_floor, STEPS)
SERVERS = {
    BATON: Server(load_servers.baton, RUNS.__getitem__, "the front, fixed reply", load_servers.front_floor, WORKFLOWS),
    "FastMCP": Server(load_servers.fastmcp, task_by_task, *UVICORN, layers=("fastmcp_tasks", "official")),
    "SDK": Server(load_servers.official, tool_by_tool, *UVICORN, layers=("official",)),
}


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one measurement.

    Attributes:
        conflicts: The share of DynamoDB's writes that it refused because another writer was faster.
        processor_s: The processor time of the processes.
        memory_mb: The mean memory of a process, after the warm-up and at the end.
    """

    tally: Tally
    conflicts: float
    processor_s: float
    memory_mb: tuple[float, float]

    @property
    def median_ms(self) -> float:
        """The median latency of a request."""
        return 1000 * statistics.median(self.tally.latencies)

    @property
    def processor_ms(self) -> float:
        """The processor time of a workflow."""
        return 1000 * self.processor_s / max(self.tally.workflows, 1)

    def row(self, workflow: str, server: str, floor: "Figures", baton: "Figures | None") -> str:
        """A row of the table, with ratios to a floor and to Baton."""
        tally = self.tally
        centiles = [1000 * latency_s for latency_s in statistics.quantiles(tally.latencies, n=100)]
        p50, p95, p99 = (centiles[percent - 1] for percent in (50, 95, 99))
        before, after = self.memory_mb
        cells = (
            workflow,
            server,
            f"{tally.workflows:,}",
            f"{tally.workflows / tally.seconds:.1f}",
            f"{len(tally.latencies) / tally.seconds:.0f}",
            f"{tally.errors.total()}",
            f"{self.conflicts:.2%}",
            f"{p50:.0f}",
            f"{p95:.0f}",
            f"{p99:.0f}",
            f"{self.median_ms / floor.median_ms:.1f}",
            f"{self.processor_ms:.1f}",
            f"{self.processor_ms / baton.processor_ms:.2f}" if baton else "",
            f"{before:.1f}",
            f"{after:.1f}",
            f"{after / before - 1:+.1%}",
        )
        return f"| {' | '.join(cells)} |"


TITLES = (
    "workflow",
    "server",
    "ended",
    "a second",
    "requests a second",
    "errors",
    "conflicts",
    "p50 ms",
    "p95 ms",
    "p99 ms",
    "p50 of the floor",
    "CPU ms a workflow",
    "CPU of Baton's",
    "MB before",
    "MB after",
    "growth",
)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=120, help="of each workflow and server, after the warm-up")
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--workflows", nargs="+", choices=WORKFLOWS, default=WORKFLOWS)
    parser.add_argument("--servers", nargs="+", choices=SERVERS, default=[*SERVERS])
    parser.add_argument("--keep-layers", action="store_true", help="use the installed packages of the peers")
    options = parser.parse_args()
    needed_layers = {layer for name in options.servers for layer in SERVERS[name].layers}
    if needed_layers and not options.keep_layers:
        layers.build(needed_layers)
    print(
        f"{machine()}; {options.clients} clients, {options.processes} processes, {options.seconds:g} s of each, after "
        f"{options.seconds * WARM_UP:.0f} s\n"
    )
    print(f"| {' | '.join(TITLES)} |\n|---|---|{'---:|' * (len(TITLES) - 2)}")
    print(*_print_rows(options), sep="\n")


def _print_rows(options: argparse.Namespace) -> list[str]:
    """Measure, and print each row at once. Return the errors."""
    errors: list[str] = []
    floors: dict[str, Figures] = {}
    for name in options.servers:
        server = SERVERS[name]
        if server.floor not in floors:
            floor = _measure(server.start_floor, fixed, options, min(options.seconds, FLOOR_S))
            floors[server.floor] = floor
            print(floor.row("one request", server.floor, floor, None), flush=True)
    for workflow in options.workflows:
        baton: Figures | None = None
        for name in options.servers:
            server = SERVERS[name]
            if workflow not in server.workflows:
                continue
            try:
                figures = _measure(server.start, server.run_of(workflow), options, options.seconds)
            except NotAvailable as error:
                errors.append(f"{workflow}, {name}: not measured. {error}")
                continue
            if name == BATON:
                baton = figures
            print(figures.row(workflow, name, floors[server.floor], baton), flush=True)
            common_errors = figures.tally.errors.most_common(MAX_ERRORS)
            errors += (f"{workflow}, {name}: {count} times {text}" for text, count in common_errors)
    return errors


def _measure(
    start: Callable[[int], AbstractContextManager[RunningServer]], run: Run, options: argparse.Namespace, seconds: float
) -> Figures:
    with start(options.processes) as running:
        warm_up_tally = asyncio.run(warm_up(running, run, options.clients, seconds * WARM_UP))
        refused_before, received_before = running.writes()
        before_mb, before_s = _memory_mb(running), _processor_s(running)
        tally = asyncio.run(measure(running, run, options.clients, seconds))
        after_mb, after_s = _memory_mb(running), _processor_s(running)
        refused_after, received_after = running.writes()
    tally.errors += warm_up_tally.errors
    conflicts = (refused_after - refused_before) / max(received_after - received_before, 1)
    return Figures(tally, conflicts, after_s - before_s, (before_mb, after_mb))


def _memory_mb(running: RunningServer) -> float:
    return statistics.mean(resident_mb(process, "VmRSS") for process in running.processes)


def _processor_s(running: RunningServer) -> float:
    return sum(map(processor_s, running.processes))


if __name__ == "__main__":
    main()
