"""The handler's own time, in process: Baton beside its peers, interleaved in one run.

Run at the root of the repository: `uv run python -m benchmarks.handler`. Each handler lives in a process of its own, on
a layer of its own, and is called there with the same events, with no runtime around it. Every round calls each of them
a few hundred times for each request. The figures are medians of the rounds' medians, microseconds of one call.
"""

import argparse
import json
import statistics
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from benchmarks import layers
from benchmarks.cold_start import machine
from benchmarks.contenders import COMMON
from emulators.gateway_requests import Probe, WrongAnswer, echo_call, prompts_get, tools_list
from emulators.small_dynamodb import SmallDynamoDB

type Figures = dict[tuple[str, str, str], list[float]]
"""Microseconds of each round, by handler, request and clock."""

LIST, CALL, PLAIN, DURABLE = "tools/list", "tools/call echo", "three-step prompt", "the same with a task"
REQUESTS = {
    LIST: tools_list(),
    CALL: echo_call(),
    PLAIN: prompts_get("plain", expected="messages", start="1"),
    DURABLE: prompts_get("durable", start="1"),
}
WITHOUT_PROMPTS = (LIST, CALL)
BATON = "Baton"


@dataclass(frozen=True, slots=True)
class Handler:
    """One handler.

    Attributes:
        name: As it is printed.
        layer: The directory of packages that it runs on.
        target: `module:function`.
        requests: What it can be asked.
    """

    name: str
    layer: str
    target: str
    requests: tuple[str, ...] = (LIST, CALL, PLAIN)
    environment: dict[str, str] = field(default_factory=dict)


HANDLERS = (
    Handler(
        BATON,
        "baton",
        "baton_handler:handler",
        (LIST, CALL, PLAIN, DURABLE),
        {"BATON_TABLE": "tasks", "BATON_ALLOW_ANONYMOUS": "on"},
    ),
    Handler("awslabs handler", "awslabs", "awslabs_handler:handler", WITHOUT_PROMPTS),
    Handler("official SDK, Mangum", "official", "official_handler:handler"),
    Handler("official SDK, its ASGI app alone", "official", "official_handler:direct"),
)


class Calls:
    """A running handler."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def batch(self, probe: Probe, count: int) -> dict[str, float]:
        """The median call of a batch, microseconds by clock."""
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the process has no pipes")
        told = {"event": probe.event, "expected": probe.expected, "count": count}
        self._process.stdin.write(json.dumps(told) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise WrongAnswer("the process has ended")
        medians: dict[str, float] = json.loads(line)
        return medians


def main() -> None:
    """Measure, and print medians with their ratios to Baton's."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--calls", type=int, default=300, help="calls of each kind in each round")
    parser.add_argument("--keep-layers", action="store_true", help="build none but Baton's own code anew")
    options = parser.parse_args()
    layers.build(() if options.keep_layers else {handler.layer for handler in HANDLERS})
    _print_figures(_measure(options.rounds, options.calls), options.rounds)


def _measure(rounds: int, count: int) -> Figures:
    figures: Figures = defaultdict(list)
    dynamodb = SmallDynamoDB()
    with ExitStack() as stack:
        stack.callback(dynamodb.server_close)
        stack.callback(dynamodb.shutdown)
        running = [stack.enter_context(_running(handler, dynamodb)) for handler in HANDLERS]
        for number in range(rounds + 1):
            for place in range(len(HANDLERS)):
                chosen = (place + number) % len(HANDLERS)  # so that nobody always follows the same one
                for name in HANDLERS[chosen].requests:
                    medians = running[chosen].batch(REQUESTS[name], count)
                    for clock, microseconds in medians.items():
                        figures[HANDLERS[chosen].name, name, clock].append(microseconds)
    # The first round settles the specialising interpreter, the allocator and what is made at its first use.
    return {key: values[1:] for key, values in figures.items()}


@contextmanager
def _running(handler: Handler, dynamodb: SmallDynamoDB) -> Iterator[Calls]:
    functions, packages = layers.LAYERS / "functions", layers.LAYERS / handler.layer / "python"
    own = {"PYTHONPATH": f"{functions}:{packages}", "AWS_ENDPOINT_URL_DYNAMODB": dynamodb.url}
    log = layers.LAYERS / f"{handler.target.replace(':', '.')}.log"
    with (
        log.open("w") as output,
        subprocess.Popen(
            [layers.interpreter(), "-P", str(functions / "in_process.py"), handler.target],
            env={**COMMON, **own, **handler.environment},
            cwd=functions,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            text=True,
        ) as process,
    ):
        try:
            yield Calls(process)
        except WrongAnswer as error:
            raise RuntimeError(f"{handler.name} failed; it printed:\n{log.read_text()}") from error
        finally:
            process.kill()


def _print_figures(figures: Figures, rounds: int) -> None:
    medians = {key: statistics.median(values) for key, values in figures.items()}
    print(f"{machine()}; medians of {rounds} rounds, interleaved\n")
    print("| request | handler | CPU µs | least | most | wall µs | CPU as a multiple of Baton's |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for request in REQUESTS:
        for handler in HANDLERS:
            if request not in handler.requests:
                continue
            key = (handler.name, request)
            cpu, rounds_cpu = medians[*key, "cpu"], figures[*key, "cpu"]
            ratio = cpu / medians[BATON, request, "cpu"]
            spread = f"{min(rounds_cpu):.0f} | {max(rounds_cpu):.0f}"
            print(f"| {request} | {handler.name} | {cpu:.0f} | {spread} | {medians[*key, 'wall']:.0f} | {ratio:.2f} |")
    store = {clock: medians[BATON, DURABLE, clock] - medians[BATON, PLAIN, clock] for clock in ("cpu", "wall")}
    print(f"\nA workflow run's task costs {store['cpu']:.0f} µs of CPU, {store['wall']:.0f} µs in all:")
    print("two requests to a fake DynamoDB on loopback, over Baton's own connection.")


if __name__ == "__main__":
    main()
