"""Cold starts and warm invocations of Baton, other servers and two floors, interleaved in one run.

Run in the root of the repository: `uv run python -m benchmarks.cold_start`. Every round starts each function once, in
its own process, with emulators of the Runtime API and DynamoDB on loopback. A cold figure is the time from before the
start of the process until its first response is complete. A warm figure is the time from handing out an event until its
response.
"""

import argparse
import os
import platform
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from benchmarks import layers
from benchmarks.contenders import CONTENDERS, FLOORS, IN_SHARES, Contender
from benchmarks.import_time import heaviest_imports
from benchmarks.memory import resident_mb
from benchmarks.processor_share import WHOLE_MB, NoShares, share
from emulators.delivery import PATIENCE_S
from emulators.gateway_requests import Probe, WrongAnswer
from emulators.runtime_api import RuntimeApi
from emulators.small_dynamodb import SmallDynamoDB, running_dynamodb

type Figures = dict[tuple[str, str], list[float]]
"""The milliseconds of all rounds, by contender and measure."""

_COLD, _PEAK = "cold", "peak memory, MB"
_INIT, _FIRST = "initialisation, a whole processor", "first request, a share of one"
_SETTLING_INVOCATIONS = 20
"""Invocations before the warm figures count. After them, the specialising interpreter and the allocator have
settled.
"""


def main() -> None:
    """Measure. Print medians and their ratios to the floors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--warm", type=int, default=200, help="warm invocations of each kind in each round")
    parser.add_argument("--keep-layers", action="store_true", help="use the existing layers")
    parser.add_argument("--imports", action="store_true", help="only: list the slowest imports of Baton's cold starts")
    parser.add_argument("--memory", type=int, help="only: first requests with the processor's share of so many MB")
    options = parser.parse_args()
    layers.build(() if options.keep_layers else {contender.layer for contender in CONTENDERS})
    with suppress(KeyboardInterrupt):
        if options.imports:
            _print_imports()
        elif options.memory:
            _compare_in_share(options.memory, options.rounds)
        else:
            _print_figures(_measure([*CONTENDERS], options.rounds, options.warm), options.rounds)


def _measure(contenders: list[Contender], rounds: int, warm: int) -> Figures:
    figures: Figures = defaultdict(list)
    for number in range(rounds):
        offset = number % len(contenders)  # so that no contender always follows the same one
        for contender in contenders[offset:] + contenders[:offset]:
            _show_progress(f"round {number + 1}/{rounds}: {contender.name}")
            _measure_once(contender, warm, figures)
    _show_progress("")
    return figures


def _show_progress(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{text:<70}\r")


def _measure_once(contender: Contender, warm: int, figures: Figures) -> None:
    with _runtime_api() as (api, dynamodb):
        delivery = api.invoke(contender.first.event)
        start_s = time.perf_counter()
        with _running_function(contender, api, dynamodb) as process:
            figures[contender.name, _COLD].append(1000 * (delivery.wait().at - start_s))
            figures[contender.name, _PEAK].append(resident_mb(process.pid, "VmHWM"))
            contender.first.check(delivery)
            for name, probe in contender.warm.items():
                figures[contender.name, name].append(_warm_median(api, probe, warm))


def _compare_in_share(memory_mb: int, rounds: int) -> None:
    """Print the time of initialisation with a whole processor, and of a first request with a share of one."""
    figures: Figures = defaultdict(list)
    for number in range(rounds):
        for place in range(len(IN_SHARES)):
            try:
                _measure_in_share(IN_SHARES[(place + number) % len(IN_SHARES)], memory_mb / WHOLE_MB, figures)
            except NoShares as error:
                print(f"not measured: {error}")
                return
    print(f"{machine()}; medians of {rounds} rounds, interleaved; {memory_mb} MB\n")
    print(f"| function | {_INIT}, ms | {_FIRST}, ms |\n|---|---:|---:|")
    for contender in IN_SHARES:
        medians = (statistics.median(figures[contender.name, measure]) for measure in (_INIT, _FIRST))
        print(f"| {contender.name} | {' | '.join(f'{milliseconds:.0f}' for milliseconds in medians)} |")


def _measure_in_share(contender: Contender, processor_share: float, figures: Figures) -> None:
    with _runtime_api() as (api, dynamodb), share() as group:
        start_s = time.perf_counter()
        with _running_function(contender, api, dynamodb) as process:
            group.add(process.pid)
            if not api.polled.wait(PATIENCE_S):
                raise TimeoutError("the runtime did not ask for an invocation")
            figures[contender.name, _INIT].append(1000 * (time.perf_counter() - start_s))
            group.limit(min(processor_share, 1.0))
            start_s = time.perf_counter()
            delivery = api.invoke(contender.first.event).wait()
            figures[contender.name, _FIRST].append(1000 * (delivery.at - start_s))
            contender.first.check(delivery)


def _warm_median(api: RuntimeApi, probe: Probe, count: int) -> float:
    times_ms = []
    for _ in range(_SETTLING_INVOCATIONS + count):
        start_s = time.perf_counter()
        delivery = api.invoke(probe.event).wait()
        times_ms.append(1000 * (delivery.at - start_s))
        probe.check(delivery)
    return statistics.median(times_ms[_SETTLING_INVOCATIONS:])


@contextmanager
def _runtime_api() -> Iterator[tuple[RuntimeApi, SmallDynamoDB]]:
    with closing(RuntimeApi()) as api, running_dynamodb() as dynamodb:
        yield api, dynamodb


@contextmanager
def _running_function(
    contender: Contender, api: RuntimeApi, dynamodb: SmallDynamoDB, *options: str
) -> Iterator[subprocess.Popen[str]]:
    log = layers.LAYERS / "function.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            contender.command(*options),
            env=contender.variables(api.address, dynamodb.url),
            cwd=layers.LAYERS / contender.functions,
            stdout=output,
            stderr=output,
            text=True,
        )
    try:
        yield process
    except (TimeoutError, WrongAnswer) as error:
        raise RuntimeError(f"{contender.name}: {error}; it printed:\n{log.read_text()}") from error
    finally:
        process.kill()
        process.wait()


def _print_figures(figures: Figures, rounds: int) -> None:
    medians = {key: statistics.median(values) for key, values in figures.items()}
    print(f"{machine()}; medians of {rounds} rounds, interleaved\n")
    print(f"| function | measure | ms (or MB) | min | max | {' | '.join(f'of the {floor}' for floor in FLOORS)} |")
    print("|---|---|---:|---:|---:|" + "---:|" * len(FLOORS))
    for (name, measure), milliseconds in medians.items():
        floor_measure = measure if measure in (_COLD, _PEAK) else "whole"
        floors = (medians[floor, floor_measure] for floor in FLOORS)
        ratios = " | ".join(f"{milliseconds / floor:.2f}" for floor in floors)
        spread = f"{min(figures[name, measure]):.2f} | {max(figures[name, measure]):.2f}"
        print(f"| {name} | {measure} | {milliseconds:.2f} | {spread} | {ratios} |")


def _print_imports() -> None:
    """Print the slowest imports in Baton's cold starts, measured with `-X importtime`."""
    for contender in (contender for contender in CONTENDERS if contender.streaming):
        with _runtime_api() as (api, dynamodb):
            delivery = api.invoke(contender.first.event)
            with _running_function(contender, api, dynamodb, "-X", "importtime"):
                contender.first.check(delivery.wait())
        print(f"{contender.name}\n")
        for line in heaviest_imports((layers.LAYERS / "function.log").read_text()):
            print(f"  {line}")
        print()


def machine() -> str:
    """Describe the machine on which the figures were measured."""
    cpu = "unknown CPU"
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), cpu)
    version = subprocess.run([layers.interpreter(), "-V"], check=True, capture_output=True, text=True).stdout.strip()
    return f"{platform.system()} {platform.machine()}, {cpu}, {os.cpu_count()} cores, {version}"


if __name__ == "__main__":
    main()
