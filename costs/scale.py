"""Measures the cost of workflows: the units of each operation, and dollars per million compared with other services.

Run at the root of the repository: `uv run python -m costs.scale`. The real handler runs in this process.
`costs/metering.py` counts its requests to DynamoDB, `costs/workloads.py` has the workflows, and
`costs/prices.py` the prices and all assumptions. Units are computed from the sizes of items:
tests/store/test_metering.py compares them with those of DynamoDB Local.
With `--url` they are those that the DynamoDB there returns.

`--markdown` prints the tables that are between the two marks in costs/workflows.md; `--update` writes them there.
Without either, it also prints the units of each operation, of workflows that the client drives, and of a list.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from costs import prices
from costs.metering import Usage
from costs.places import Place, by_consumed_capacity, by_sizes
from costs.prices import Dollars
from costs.workloads import (
    KB,
    KINDS,
    LIST_BYTES,
    LIST_ELEMENTS,
    LIST_PARALLEL,
    WORKLOADS,
    Driver,
    Kind,
    Workload,
    chain,
    list_usage,
)

PAGE = Path(__file__).with_name("workflows.md")
BEGIN, END = "<!-- python -m costs.scale --update: begin -->", "<!-- end -->"
ROUNDS = 5
LISTED_TASKS = 50

STEPS, CLIENT_STEPS = (1, 10, 100), (10, 30, 100)
SIZES: tuple[tuple[str, int], ...] = (("100 B", 100), ("2 KB", 2 * KB), ("20 KB", 20 * KB))
OTHER_SERVICES: tuple[tuple[str, Callable[[Workload, Usage], Dollars]], ...] = (
    ("Step Functions Standard", prices.standard),
    ("Step Functions Express", prices.express),
    ("Lambda durable functions", prices.durable),
)

type Usages = dict[tuple[str, Kind], Usage]
"""The usage of one workflow, by workload and kind of value."""


def main() -> None:
    """Measure the workloads and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--markdown", action="store_true", help="print what costs/workflows.md holds between its marks, alone"
    )
    parser.add_argument("--update", action="store_true", help="put that into costs/workflows.md")
    parser.add_argument("--url", help="a DynamoDB that returns the consumed units, such as DynamoDB Local")
    options = parser.parse_args()
    with by_consumed_capacity(options.url) if options.url else by_sizes() as place:
        block = "\n".join(_page(place))
        details = "" if options.update or options.markdown else "\n".join(_details(place))
    if options.update:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n\n{block}\n\n{END}{rest.partition(END)[2]}")
    elif options.markdown:
        print(f"{BEGIN}\n\n{block}\n\n{END}")
    else:
        print(f"{block}\n{details}\n\n{prices.__doc__}")


def _page(place: Place) -> Iterator[str]:
    """Yield the lines of the page's tables."""
    usages: Usages = {
        (workload.name, kind): _fastest_round(place, workload, kind) for workload in WORKLOADS for kind in KINDS
    }
    yield from _baton_prices(usages)
    yield from _price_comparison(usages)
    yield from _list(place)


def _list(place: Place) -> Iterator[str]:
    size = f"{LIST_ELEMENTS:,} results of {LIST_BYTES // KB} KB"
    yield f"**A list of {size}**, {LIST_PARALLEL} calls at the same time, JSON / opaque"
    yield ""
    yield from _head(("", "requests", "writes", "reads"), 1)
    for name, checkpoint in (("run", False), ("run with `checkpoint`", True)):
        usages = [list_usage(place, kind, checkpoint=checkpoint) for kind in KINDS]
        columns = zip(*((usage.requests, usage.writes, usage.reads) for usage in usages), strict=True)
        yield _row(name, *(" / ".join(dict.fromkeys(f"{number:,.0f}" for number in column)) for column in columns))
    yield ""


def _details(place: Place) -> Iterator[str]:
    """Yield the lines of the tables that are not on the page."""
    yield from _operations(place)
    yield from _client_driven(place)
    yield from _lists(place)


def _fastest_round(place: Place, workload: Workload, kind: Kind) -> Usage:
    """Return the round with the least CPU time: other processes only add to it. All rounds have the same units."""
    driver = Driver(place, workload, kind)
    return min((driver.run_to_end() for _ in range(ROUNDS)), key=lambda usage: usage.cpu_s)


def _baton_prices(usages: Usages) -> Iterator[str]:
    yield "**Dollars a million workflows**"
    yield ""
    columns = ("workload", "values", "requests", "writes", "reads")
    yield from _head((*columns, "HTTP $", "compute $", "state $", "all $"), 3)
    for (name, kind), usage in usages.items():
        cost = prices.baton(usage)
        units = (usage.http, f"{usage.writes:g}", f"{usage.reads:g}")
        dollars = (f"{cost.http:.1f}", f"{cost.compute:.1f}", f"{cost.state:.1f}", f"{cost.total:.1f}")
        yield _row(name, kind, *units, *dollars)
    yield ""


def _price_comparison(usages: Usages) -> Iterator[str]:
    yield "**Beside the same job on other services, dollars a million**"
    yield ""
    yield from _head(("", *(workload.name for workload in WORKLOADS)), 1)
    cells = [
        " / ".join(f"{prices.baton(usages[workload.name, kind]).total:.0f}" for kind in KINDS) for workload in WORKLOADS
    ]
    yield _row("Baton, JSON / opaque", *cells)
    for name, price_of in OTHER_SERVICES:
        totals = (price_of(workload, usages[workload.name, "JSON"]).total for workload in WORKLOADS)
        yield _row(f"MCP server in front of {name}", *(f"{total:.0f}" for total in totals))
    yield ""


def _operations(place: Place) -> Iterator[str]:
    yield "**Units of each operation** (writes + reads)"
    yield ""
    names = ("run completed", "run paused", "continuation", "resume", "`tasks/get`", "complete")
    yield from _head(("values", "a step", "steps", *names), 2)
    for kind in KINDS:
        for size_name, size in SIZES:
            if kind == "opaque" and size < KB:
                continue  # too small to be compressed: the same as JSON
            for number in STEPS:
                yield _row(kind, size_name, number, *_cells(place, number, size, kind))
    yield ""


def _cells(place: Place, number: int, size: int, kind: Kind) -> Iterator[str]:
    _, completed = Driver(place, chain(number, size, paused=False), kind).run()
    driver = Driver(place, chain(number, size, paused=True), kind)
    task, paused = driver.run()
    second_task, _ = driver.run()
    continuation, poll = driver.call_step(task, number - 1), driver.poll(task)
    driver.call_step(second_task, number - 1)
    for usage in (completed, paused, continuation, driver.resume(task), poll, driver.complete(second_task)):
        yield _units(usage)


def _client_driven(place: Place) -> Iterator[str]:
    yield "**Workflows that the client drives, all continuations together**, opaque values"
    yield ""
    yield from _head(("a step", "steps", "units"), 1)
    for size_name, size in SIZES[:2]:
        for number in CLIENT_STEPS:
            yield _row(size_name, number, _all_calls(place, number, size))
    yield ""


def _all_calls(place: Place, number: int, size: int) -> str:
    workload = Workload("driven", size, before=0, by_client=number)
    driver = Driver(place, workload, "opaque")
    task, _ = driver.run()
    return _units(sum((driver.call_step(task, step) for step in range(number)), Usage()))


def _lists(place: Place) -> Iterator[str]:
    yield f"**A page of `tasks/list`**, {LISTED_TASKS} paused tasks of ten steps"
    yield ""
    yield from _head(("values", "a step", "reads"), 2)
    for kind in KINDS:
        for size_name, size in SIZES:
            driver = Driver(place, chain(10, size, paused=True), kind)
            for _ in range(LISTED_TASKS):
                driver.run()
            yield _row(kind, size_name, f"{driver.page().reads:g}")


def _units(usage: Usage) -> str:
    return f"{usage.writes:g} + {usage.reads:g}"


def _head(columns: Sequence[str], left_aligned: int) -> Iterator[str]:
    yield _row(*columns)
    yield "|" + "---|" * left_aligned + "---:|" * (len(columns) - left_aligned)


def _row(*cells: object) -> str:
    return f"| {' | '.join(str(cell) for cell in cells)} |"


if __name__ == "__main__":
    main()
