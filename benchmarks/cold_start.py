"""Cold starts and warm invocations of Baton, its peers and two floors, interleaved in one run.

Run at the root of the repository: `uv run python -m benchmarks.cold_start`. Every round starts each function once, in a
process of its own, against a fake Runtime API and a fake DynamoDB on loopback. A cold figure is the time from before
the process is made until its first answer is complete; a warm one from handing out an event until its answer.
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
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks import layers
from benchmarks.contenders import BY_BOTO3, BY_BOTOCORE, CONTENDERS, DRESSED, FLOORS, Contender
from benchmarks.fake_dynamodb import FakeDynamoDB
from benchmarks.import_time import heaviest_imports
from benchmarks.requests import Probe, WrongAnswer
from tests.runtime.fake_runtime_api import FakeRuntimeApi

type Figures = dict[tuple[str, str], list[float]]
"""Milliseconds of each round, by contender and measure."""

_COLD = "cold"
_SETTLE = 20
"""Invocations before the warm figures count: the specialising interpreter and the allocator have settled by then."""


def main() -> None:
    """Measure, and print medians with their ratios to the floors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--warm", type=int, default=200, help="warm invocations of each kind in each round")
    parser.add_argument("--keep-layers", action="store_true", help="do not build the layers anew")
    parser.add_argument("--clients", action="store_true", help="compare clients by boto3 and by botocore alone")
    parser.add_argument("--imports", action="store_true", help="say instead where Baton's cold milliseconds go")
    options = parser.parse_args()
    contenders = [one for one in CONTENDERS if not options.clients or one.name in (*FLOORS, BY_BOTOCORE, BY_BOTO3)]
    layers.build(() if options.keep_layers else {contender.layer for contender in contenders})
    with suppress(KeyboardInterrupt):
        if options.imports:
            _print_imports()
        else:
            figures = _measure(contenders, options.rounds, options.warm)
            _print_figures(figures, options.rounds)
            _print_saving(figures)


def _measure(contenders: list[Contender], rounds: int, warm: int) -> Figures:
    figures: Figures = defaultdict(list)
    for number in range(rounds):
        first = number % len(contenders)  # so that nobody always follows the same one
        for contender in contenders[first:] + contenders[:first]:
            _show_progress(f"round {number + 1}/{rounds}: {contender.name}")
            _measure_once(contender, warm, figures)
    _show_progress("")
    return figures


def _show_progress(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{text:<70}\r")


def _measure_once(contender: Contender, warm: int, figures: Figures) -> None:
    with _runtime_api() as (api, dynamodb):
        first = api.invoke(contender.first.event)
        began = time.perf_counter()
        with _running(contender, api, dynamodb):
            figures[contender.name, _COLD].append(1000 * (first.wait().at - began))
            contender.first.check(first)
            for name, probe in contender.warm.items():
                figures[contender.name, name].append(_warm(api, probe, warm))


def _warm(api: FakeRuntimeApi, probe: Probe, count: int) -> float:
    elapsed = []
    for _ in range(_SETTLE + count):
        began = time.perf_counter()
        answer = api.invoke(probe.event).wait()
        elapsed.append(1000 * (answer.at - began))
        probe.check(answer)
    return statistics.median(elapsed[_SETTLE:])


@contextmanager
def _runtime_api() -> Iterator[tuple[FakeRuntimeApi, FakeDynamoDB]]:
    api, dynamodb = FakeRuntimeApi(), FakeDynamoDB()
    try:
        yield api, dynamodb
    finally:
        api.close()
        dynamodb.shutdown()
        dynamodb.server_close()


@contextmanager
def _running(
    contender: Contender, api: FakeRuntimeApi, dynamodb: FakeDynamoDB, *options: str
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
    print(f"| function | measure | ms | min | max | {' | '.join(f'of the {floor}' for floor in FLOORS)} |")
    print("|---|---|---:|---:|---:|" + "---:|" * len(FLOORS))
    for (name, measure), milliseconds in medians.items():
        floors = (medians[floor, _COLD if measure == _COLD else "whole"] for floor in FLOORS)
        ratios = " | ".join(f"{milliseconds / floor:.2f}" for floor in floors)
        spread = f"{min(figures[name, measure]):.2f} | {max(figures[name, measure]):.2f}"
        print(f"| {name} | {measure} | {milliseconds:.2f} | {spread} | {ratios} |")


def _print_saving(figures: Figures) -> None:
    """What botocore's client saves a first task: the median of the rounds' differences."""
    rounds = zip(figures[BY_BOTO3, _COLD], figures[BY_BOTOCORE, _COLD], strict=True)
    saved = statistics.median(by_boto3 - by_botocore for by_boto3, by_botocore in rounds)
    share = saved / statistics.median(figures[DRESSED, _COLD])
    print(f"\na client by botocore, not boto3, saves {saved:.1f} ms of a first task: {share:.3f} of the {DRESSED}")


def _print_imports() -> None:
    """The heaviest imports of the cold starts of Baton, by `-X importtime`."""
    for contender in (contender for contender in CONTENDERS if contender.streaming):
        with _runtime_api() as (api, dynamodb):
            first = api.invoke(contender.first.event)
            with _running(contender, api, dynamodb, "-X", "importtime"):
                contender.first.check(first.wait())
        print(f"{contender.name}\n")
        for line in heaviest_imports((layers.LAYERS / "function.log").read_text()):
            print(f"  {line}")
        print()


def machine() -> str:
    """What the figures were measured on."""
    cpu = "unknown CPU"
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), cpu)
    version = subprocess.run([layers.interpreter(), "-V"], check=True, capture_output=True, text=True).stdout.strip()
    return f"{platform.system()} {platform.machine()}, {cpu}, {os.cpu_count()} cores, {version}"


if __name__ == "__main__":
    main()
