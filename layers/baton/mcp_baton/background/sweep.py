"""The sweep: once a minute, a schedule lets the server check the jobs in the outbox (docs/background.md, The clock)."""

import logging
from typing import Final

from mcp_baton.exceptions import EventError, StoreError, TaskNotFound
from mcp_baton.protocol.json import JsonObject
from mcp_baton.tasks.record import TaskRecord
from mcp_baton.tasks.store import TaskStore
from mcp_baton.telemetry import STORE_ERRORS, WAKE_UP_DELAY
from mcp_baton.transport.exchange import Exchange
from mcp_baton.workflow.dispatching import redispatch_if_due, wake
from mcp_baton.workflow.services import Services

logger = logging.getLogger(__name__)

SWEEP_RESERVE_MS: Final = 5_000
"""The sweep ends when less of the function's time is left, milliseconds. If it were stopped after it marked a job as
dispatched, the job would wait for a later sweep."""


def sweep(services: Services, exchange: Exchange) -> JsonObject:
    """Check each job in the outbox that is due, as a poll does. Returns the numbers of jobs, for the log.

    Sweeps may be late, lost or concurrent, because they change jobs by conditional writes. The next sweep repeats what
    failed. Raises `EventError` if the function has no table.
    """
    if services.store is None:
        raise EventError("a sweep was sent to a function without a task store: set BATON_TABLE")
    store, checked_count, woken_count = services.store.within(exchange.remaining_ms), 0, 0
    try:
        for owner, task_id in store.jobs.due():
            remaining_ms = exchange.remaining_ms()
            if remaining_ms is not None and remaining_ms < SWEEP_RESERVE_MS:
                logger.warning("the sweep had no time for all jobs; the next one checks the others")
                break
            checked_count += 1
            try:
                task = store.jobs.read_listed(owner, task_id)
                woken_count += task is not None and _check(services, store, task)
            except Exception:  # a damaged item must not stop the others
                logger.exception("task %s: the sweep could not check it; the next one tries again", task_id)
    except StoreError:
        logger.exception("the sweep could not read the outbox; the next one tries again")
        services.telemetry.add(STORE_ERRORS)
    if woken_count:
        logger.info("the sweep sent %d of %d jobs to the worker, or gave them up", woken_count, checked_count)
    return {"looked": checked_count, "woken": woken_count}


def _check(services: Services, store: TaskStore, task: TaskRecord) -> bool:
    """Send a job to the worker if it is due, or if a callback has arrived for its workflow's task."""
    if not task.wakes:
        return redispatch_if_due(services, store, task) is not task
    jobs = [job_task for job_id in task.wakes if (job_task := _live_job(store, task.owner, job_id)) is not None]
    if not jobs:
        store.jobs.unlist(task)
        return False
    woken_count = sum(_is_asleep(job_task) and wake(services, store, task.owner, job_task.task_id) for job_task in jobs)
    if woken_count:
        services.telemetry.add(WAKE_UP_DELAY, store.now_ms() - task.wakes_ms)
    return woken_count > 0


def _live_job(store: TaskStore, owner: str, job_id: str) -> TaskRecord | None:
    try:
        task = store.get(owner, job_id)
    except TaskNotFound:
        return None
    return None if task.job is None or task.status.terminal else task


def _is_asleep(task: TaskRecord) -> bool:
    """Whether no wake-up was sent to a job since it waits. Otherwise the outbox has the job itself."""
    return task.claim is not None and task.job is not None and task.claim.dispatch == task.job.dispatches
