"""`make simulate`: simulate many seeds in several processes. Print the failing seeds, the first ones with their traces.

Without `--first`, each run uses new seeds, because the seeds of `make test` run every day and find nothing new.
"""

import argparse
import multiprocessing
import secrets
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import batched

from tests.simulation.harness import KINDS, Chunk, Failures, Outcome, digest, failures_of_chunk

CHUNK = 250

TRACES = 3

FRESH = 10**9
"""The first seed is a random number below this."""

SHARES = {**dict.fromkeys(KINDS, 1), "workflows": 3, "jobs": 3}
"""The relative number of seeds of each kind."""


def main() -> int:
    """Run the simulations and print the results. Return 1 if an invariant was broken, otherwise 0."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5_000, help="how many (5000)")
    parser.add_argument("--first", type=int, help="the first seed (random and printed; 0 for a digest)")
    parser.add_argument("--of", choices=sorted(KINDS), help="what is simulated (all kinds)")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--traces", type=int, default=TRACES, help="how many failures are printed with traces (3)")
    parser.add_argument("--digest", action="store_true", help="print only a digest of everything that happened")
    options = parser.parse_args()
    if options.digest:
        first = options.first or 0
        _print(digest(range(first, first + options.seeds)))
        return 0
    first = secrets.randbelow(FRESH) if options.first is None else options.first
    _print(f"The first seed is {first}. To repeat them: --first {first} --seeds {options.seeds}")
    began = time.monotonic()
    failures: list[Outcome] = []
    incidents = Counter[str]()
    for chunk_failures, chunk_incidents in _run_chunks(_chunks(first, options.seeds, options.of), options.processes):
        incidents.update(chunk_incidents)
        for outcome in chunk_failures:
            failures.append(outcome)
            is_traced = len(failures) <= options.traces
            _print(f"{outcome}\n" if is_traced else f"seed {outcome.seed}: {outcome.broken[0]}")
    seconds = time.monotonic() - began
    rate = f"{options.seeds / seconds:.0f} a second"
    _print(f"{options.seeds} seeds in {seconds:.0f} s ({rate}): {len(failures)} break an invariant")
    for number, count in sorted(Counter(outcome.broken[0].number for outcome in failures).items()):
        _print(f"  invariant {number}: {count}")
    _print("Simulations with each incident:")
    for incident, count in incidents.most_common():
        _print(f"  {count:7} {incident}")
    return 1 if failures else 0


def _chunks(first: int, seeds: int, kind: str | None) -> list[Chunk]:
    counts = (
        {name: seeds * share // sum(SHARES.values()) for name, share in SHARES.items()}
        if kind is None
        else {kind: seeds}
    )
    return [(chunk, name) for name, count in counts.items() for chunk in batched(range(first, first + count), CHUNK)]


def _run_chunks(chunks: list[Chunk], processes: int) -> Iterator[Failures]:
    if processes == 1:
        yield from map(failures_of_chunk, chunks)
        return
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap_unordered(failures_of_chunk, chunks)


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
