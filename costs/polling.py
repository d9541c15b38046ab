"""Compares the cost of waiting for a background task by polling and by long requests, and the cost of an approval.

Run at the root of the repository: `uv run python -m costs.polling`. It prints a table. Nothing is measured: prices and
memory come from `costs/prices.py`. Logs and outgoing data are not included.
"""

from math import ceil

from costs.prices import API_REQUEST, GB_SECOND, LAMBDA_REQUEST, MEMORY_GB, MILLION, READ_UNIT, WRITE_UNIT
from mcp_baton.present.mcp_task import INTERVALS_MS, WAITING_MS
from mcp_baton.server.methods.tasks import RESULT_READ_S
from mcp_baton.tasks.record import MAX_DISPATCH_MS

POLL_S = 0.010
"""The duration of a poll, seconds."""
POLL_UNITS, CHECK_UNITS = 1, 0.5
"""The units of a strongly consistent and of an eventually consistent read of a task of up to 4 KB."""
WAIT_S = 30
"""The maximum wait of a `tasks/result`, seconds. The client then sends it again."""

WORKER_S = 0.05
"""The duration of a worker that a poll has started and that finds no decision, seconds."""
WORKER_UNITS = {"tool": (4, 2), "workflow": (10, 2)}
"""The write and read units of such a worker and its dispatch, without the read of the poll. Items have about 1 KB."""

DURATIONS_S = (10, 30, 60, 600, 3_600)
NAMES = ("10 s", "30 s", "1 minute", "10 minutes", "1 hour")


def main() -> None:
    """Print the table."""
    print("\n".join(table()))
    for kind in WORKER_UNITS:
        print(f"a {kind} that waits for a person for three days: ${approval_cost(3, kind):.4f}")


def table() -> list[str]:
    """Return the table's lines."""
    lines = ["| a task of | polls | $ a million, polled | waited for | times as much |", "|---|---:|---:|---:|---:|"]
    for name, seconds in zip(NAMES, DURATIONS_S, strict=True):
        polling, waiting = polling_cost(seconds), waiting_cost(seconds)
        lines.append(f"| {name} | {polls(seconds)} | {polling:.0f} | {waiting:,.0f} | {waiting / polling:.1f} |")
    return lines


def polls(seconds: float) -> int:
    """Return the number of polls of a task of this duration, if the client respects the poll interval."""
    count, age_ms = 1, 0
    while age_ms < seconds * 1_000:
        age_ms += next(interval for until, interval in INTERVALS_MS if age_ms < until)
        count += 1
    return count


POLL = API_REQUEST + LAMBDA_REQUEST + POLL_S * MEMORY_GB * GB_SECOND + POLL_UNITS * READ_UNIT
"""The price of a million polls, dollars."""


def polling_cost(seconds: float) -> float:
    """Return the price of polling a million tasks of this duration, dollars."""
    return polls(seconds) * POLL


def approval_cost(days: float, kind: str) -> float:
    """Return the price of a background task that waits for an approval while its client polls, dollars.

    Polls start a worker from time to time, because the event of the decision may have been lost. Without polls, waiting
    is free.
    """
    writes, reads = WORKER_UNITS[kind]
    worker = LAMBDA_REQUEST + WORKER_S * MEMORY_GB * GB_SECOND + writes * WRITE_UNIT + reads * READ_UNIT
    wait_ms = days * 86_400_000
    return (wait_ms / WAITING_MS * POLL + wait_ms / MAX_DISPATCH_MS * worker) / MILLION


def waiting_cost(seconds: float) -> float:
    """Return the price of waiting for a million tasks of this duration with repeated `tasks/result`, dollars."""
    requests = ceil(seconds / WAIT_S) * (API_REQUEST + LAMBDA_REQUEST)
    return requests + seconds * (MEMORY_GB * GB_SECOND + CHECK_UNITS / RESULT_READ_S * READ_UNIT)


if __name__ == "__main__":
    main()
