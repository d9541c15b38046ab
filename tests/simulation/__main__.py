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

from tests.simulation.harness import KINDS, Chunk, Failed, Outcome, digest, failing_of

CHUNK = 250

TRACES = 3

FRESH = 10**9
"""The first seed is a random number below this."""

ALONE = ("background", "questions", "parallel", "lists", "approvals", "waits", "background-waits")
SHARES = {"workflows": 3, "jobs": 3, **dict.fromkeys(ALONE, 1)}
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
    given = parser.parse_args()
    if given.digest:
        first = given.first or 0
        _say(digest(range(first, first + given.seeds)))
        return 0
    first = secrets.randbelow(FRESH) if given.first is None else given.first
    _say(f"The first seed is {first}. To repeat them: --first {first} --seeds {given.seeds}")
    began = time.monotonic()
    found: list[Outcome] = []
    struck = Counter[str]()
    for failed, attacks in _simulated(_chunks(first, given.seeds, given.of), given.processes):
        struck.update(attacks)
        for outcome in failed:
            found.append(outcome)
            whole = len(found) <= given.traces
            _say(f"{outcome}\n" if whole else f"seed {outcome.seed}: {outcome.broken[0]}")
    seconds = time.monotonic() - began
    rate = f"{given.seeds / seconds:.0f} a second"
    _say(f"{given.seeds} seeds in {seconds:.0f} s ({rate}): {len(found)} break an invariant")
    for number, count in sorted(Counter(outcome.broken[0].number for outcome in found).items()):
        _say(f"  invariant {number}: {count}")
    _say("Simulations with each attack:")
    for attack, count in struck.most_common():
        _say(f"  {count:7} {attack}")
    return 1 if found else 0


def _chunks(first: int, seeds: int, kind: str | None) -> list[Chunk]:
    wanted = (
        {name: seeds * share // sum(SHARES.values()) for name, share in SHARES.items()}
        if kind is None
        else {kind: seeds}
    )
    return [(chunk, name) for name, count in wanted.items() for chunk in batched(range(first, first + count), CHUNK)]


def _simulated(chunks: list[Chunk], processes: int) -> Iterator[Failed]:
    if processes == 1:
        yield from map(failing_of, chunks)
        return
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap_unordered(failing_of, chunks)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
