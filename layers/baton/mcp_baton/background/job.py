"""A background job while it runs: its execution, and the monitor that renews the claim on its task."""

import logging
import math
from collections.abc import Callable
from typing import Final

from mcp_baton.exceptions import ClaimLost, StoreError, TaskFinished, TaskNotFound
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.jobs import JobStore
from mcp_baton.tasks.record import LEASE_MS
from mcp_baton.workflow.execution import Execution
from mcp_baton.workflow.lease import CHECK_AFTER_S, RENEWAL_RETRY_MS, Lease

logger = logging.getLogger(__name__)

MESSAGE_INTERVAL_S: Final = 1.0
"""Seconds between two writes of a status message."""


class JobMonitor:
    """Monitors a job's task while its function runs: renews the claim, checks that this worker still owns the task, and
    writes the status message (docs/background.md, Cancelling; Status and polling).

    Implements `tool_threads.Listener`.
    """

    def __init__(self, lease: Lease, jobs: JobStore, clock: Callable[[], float]) -> None:
        self._lease = lease
        self._jobs = jobs
        self._clock = clock
        self.ended = False
        """Whether the task has finished or belongs to another worker."""
        self.unwritten: str | None = None
        """The status message that waits for its turn to be written."""
        self._stopped = False
        self._next_s = -math.inf

    @property
    def task_id(self) -> str:
        return self._lease.task.task_id

    @property
    def gone(self) -> bool:
        return self.ended or self._stopped

    def stop(self) -> None:
        """Stop the function because its workflow's task has ended. The job's task continues."""
        self._stopped = True

    def pulse(self) -> float:
        """Renew the claim, check the task, and write the status message, if due. Returns the seconds until the next
        pulse."""
        message_s = self._write_if_due()
        self.ended = self.ended or self._lease.check() is not None or not self._extend_lifetime()
        if self.ended:
            return 0
        pulse_s = self._lease.pulse()
        # The claim may have expired before the function begins. A poll or a sweep then dispatches the task again.
        self._stopped = self._stopped or pulse_s == math.inf
        return min(pulse_s, CHECK_AFTER_S, message_s)

    def write_message(self) -> None:
        """Write the status message now, if one is waiting."""
        self._next_s = -math.inf
        self._write_if_due()

    def notify(self, method: str, params: dict[str, Json]) -> None:
        """Turn progress into the task's status message. Other notifications are dropped: no client is connected."""
        if method == "notifications/progress":
            self.unwritten = status_message(params)

    def request(self, identifier: str, method: str, params: JsonObject) -> None:
        """Drop a question: a job asks through its task, see `TaskAsker`."""

    def keep_alive(self) -> None:
        """Do nothing: there is no connection."""

    def _extend_lifetime(self) -> bool:
        """Extend the lifetime of the task while its function runs. Returns whether the task is still this worker's."""
        try:
            self._lease.task = self._jobs.extend(self._lease.task, 2 * LEASE_MS)
        except (ClaimLost, TaskFinished, TaskNotFound):
            return False
        except StoreError:
            logger.warning("task %s: its lifetime could not be extended", self._lease.task.task_id, exc_info=True)
        return True

    def _write_if_due(self) -> float:
        """Write the status message if it is due. Returns the seconds until the next write."""
        message = self.unwritten
        if message is None:
            return math.inf
        remaining_s = self._next_s - self._clock()
        if remaining_s > 0:
            return remaining_s
        is_written = self._lease.renew_by(lambda task, claim: self._jobs.report(task, claim, message))
        pause_s = MESSAGE_INTERVAL_S if is_written else RENEWAL_RETRY_MS / 1000
        self._next_s = self._clock() + pause_s
        if is_written:
            self.unwritten = None
            return math.inf
        return pause_s


def status_message(params: JsonObject) -> str:
    """Return progress as a text: `3/10: message`, without the parts that were not reported."""
    progress, total, message = params.get("progress"), params.get("total"), params.get("message")
    count_text = _number(progress) if total is None else f"{_number(progress)}/{_number(total)}"
    return f"{count_text}: {message}" if message else count_text


def _number(value: Json) -> str:
    # 3 instead of 3.0, and 0.3 instead of 0.30000000000000004.
    return f"{value:.12g}" if isinstance(value, float) else str(value)


class JobExecution(Execution, frozen=True, kw_only=True):
    """One attempt at a background job. There is no client: the monitor receives what the function reports."""

    monitor: JobMonitor

    @property
    def job_id(self) -> str:
        return self.monitor.task_id
