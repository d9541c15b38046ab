"""`python -m tests.model --seeds 1000 --first 0` drives random plans, and prints each failing one, shrunk.

`--kills` also kills functions.
"""

import argparse
import logging
import sys
import time
from collections import Counter
from multiprocessing import Pool

from tests.model.coverage import pairs_of, table
from tests.model.driver import fast_connections
from tests.model.kills import drive_with_kills, random_plan_to_kill
from tests.model.random_plans import random_plan
from tests.model.shrink import difference, report, shrunk


def check(seed: int) -> tuple[int, list[str], bool, str]:
    """Return a seed, its pairs of features, whether its plan is left out, and its difference."""
    plan, world = random_plan(seed)
    return seed, pairs_of(plan, world), False, difference(plan, world)


def check_with_kills(seed: int) -> tuple[int, list[str], bool, str]:
    """As `check`. A plan that does not complete without kills is left out."""
    plan, world = random_plan_to_kill(seed)
    events: list[str] = []
    try:
        completes = drive_with_kills(plan, world, trace=events.append)
    except Exception as error:  # noqa: BLE001 - an error of the server or of the client is a difference, too
        return seed, pairs_of(plan, world), False, "\n  ".join([f"{type(error).__name__}: {error}", *events])
    return seed, pairs_of(plan, world), not completes, ""


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--print", type=int, default=3, help="how many failing plans are shrunk and printed")
    parser.add_argument("--kills", action="store_true", help="kill functions")
    parser.add_argument("--coverage", action="store_true", help="print the table of the feature pairs of these seeds")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    began, seeds = time.monotonic(), range(options.first, options.first + options.seeds)
    failed, left_out, pairs = list[tuple[int, str]](), 0, Counter[str]()
    run = check_with_kills if options.kills else check
    with fast_connections(), Pool(options.processes) as pool:
        results = pool.imap_unordered(run, seeds) if options.processes > 1 else map(run, seeds)
        for seed, features, is_left_out, text in results:
            if is_left_out:
                left_out += 1
                continue
            pairs.update(features)
            if text:
                failed.append((seed, text))
                _print(f"seed {seed}: {text if options.kills else text[:200]}")
        for seed, _ in failed[: 0 if options.kills else options.print]:
            _print(f"\n# Seed {seed}\n{report(*shrunk(*random_plan(seed)))}")
    seconds, count = time.monotonic() - began, options.seeds - left_out
    _print(f"{count} plans in {seconds:.0f} s, {count / seconds * 60:.0f} a minute; {len(failed)} differ")
    if left_out:
        _print(f"  {left_out} more do not complete without kills")
    if options.coverage:
        _print(table(pairs))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
