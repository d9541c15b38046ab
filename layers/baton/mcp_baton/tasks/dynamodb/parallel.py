"""Runs several requests at once, on a few threads, with a time limit."""

import threading
import time
from collections.abc import Callable, Sequence
from contextvars import copy_context
from functools import partial
from queue import Empty, SimpleQueue

from mcp_baton.exceptions import StoreUnavailable

MAX_PARALLEL_REQUESTS = 4


def run_jobs(
    jobs: Sequence[Callable[[], object]], until_s: float | None, monotonic: Callable[[], float]
) -> list[Exception | None]:
    """Run jobs, at most four at once, until a time on `monotonic`; `None` waits for all jobs. A single job runs in the
    calling thread. No job begins after the time limit. A request that hangs is left to its thread, which ends with the
    process.

    Returns:
        The exception of each job, in order: `None` for a job that succeeded, `StoreUnavailable` for a job that was not
        done in time.
    """
    outcomes: list[Exception | None] = [_timeout_error() for _ in jobs]
    results = SimpleQueue[tuple[int, BaseException | None]]()
    waiting = iter(enumerate(jobs))
    lock = threading.Lock()

    def work() -> None:
        while until_s is None or monotonic() < until_s:
            with lock:
                index, job = next(waiting, (-1, None))
            if job is None:
                return
            results.put((index, _error_of(job)))

    if len(jobs) == 1:
        work()
        until_s = monotonic()
    for _ in range(min(MAX_PARALLEL_REQUESTS, len(jobs)) if len(jobs) > 1 else 0):
        threading.Thread(target=copy_context().run, args=(work,), daemon=True).start()
    for _ in jobs:
        try:
            index, error = results.get(timeout=None if until_s is None else max(0.0, until_s - monotonic()))
        except Empty:
            break
        if error is not None and not isinstance(error, Exception):
            raise error
        outcomes[index] = error
    return outcomes


def results_of[T](jobs: Sequence[Callable[[], T]]) -> list[T]:
    """Run jobs, at most four at once, and wait for all of them. Returns the results, in order, or raises the exception
    of the first job that failed."""
    results: dict[int, T] = {}

    def run(index: int, job: Callable[[], T]) -> None:
        results[index] = job()

    failures = run_jobs([partial(run, index, job) for index, job in enumerate(jobs)], None, time.monotonic)
    for failure in failures:
        if failure is not None:
            raise failure
    return [results[index] for index in range(len(jobs))]


def _error_of(job: Callable[[], object]) -> BaseException | None:
    try:
        job()
    except BaseException as error:  # noqa: BLE001 - the calling thread raises it again
        return error
    return None


def _timeout_error() -> StoreUnavailable:
    return StoreUnavailable("it was not done within the remaining time")
