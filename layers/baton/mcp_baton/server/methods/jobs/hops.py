"""A worker's invocation for a background workflow: go on with it as far as the time allows, then hand the call over to
a fresh worker, or end it with what the workflow's tool returns (docs/background.md, Workflows in the background).

The writes come in this order: the engine's batch, which gives the workflow's claim up; the call's task, handed over or
completed; the event. A worker that dies between two of them leaves what the next one goes on with.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from mcp_baton.exceptions import (
    ClaimLost,
    NotDispatched,
    ProtocolError,
    StoreBusy,
    StoreError,
    StoreUnavailable,
    TaskFinished,
    TaskHeld,
    TaskNotFound,
    ValueLost,
)
from mcp_baton.protocol.codes import INVALID_PARAMS
from mcp_baton.protocol.envelope import RELATED_TASK_KEY
from mcp_baton.protocol.json import JsonObject
from mcp_baton.server.methods.jobs.dispatching import dispatch
from mcp_baton.server.methods.jobs.watching import Watch
from mcp_baton.server.methods.jobs.worker_host import WorkerHost
from mcp_baton.server.methods.runs import NOT_RESUMED, NotRead, run_workflow
from mcp_baton.server.methods.twin_results import result_of_run
from mcp_baton.server.methods.twins import not_run
from mcp_baton.server.published.twin import Twin
from mcp_baton.server.request import Request
from mcp_baton.server.schema.prompt_arguments import ArgumentRefused
from mcp_baton.tasks.record import TaskRecord
from mcp_baton.tasks.store import Batch, TaskStore
from mcp_baton.tasks.work import Job
from mcp_baton.telemetry import TASKS_HANDED_OVER
from mcp_baton.workflow.holding import Hold
from mcp_baton.workflow.host import Succeeded
from mcp_baton.workflow.pause import DeadlineExceeded
from mcp_baton.workflow.run import EndedRun

MOST_DISPATCHES: Final = 1_000
"""A call is handed over no more once it has been dispatched so often: a hundred steps, each with ten dispatches."""

TAKE_AGAIN_S: Final = 5.0
"""How long a worker waits before it tries again to take the workflow's task from another run."""

logger = logging.getLogger(__name__)

type Write = Callable[[str, Callable[[], object]], str]
"""Makes a worker's last write; says what became of the call, which is the text unless the write came too late."""


class WorkflowJob:
    """A worker's attempt at a call of a workflow.

    Args:
        request: The worker's request.
        watch: Looks after the call's task.
        hold: The worker's claim on it.
        job: What is to be done.
    """

    def __init__(self, request: Request, watch: Watch, hold: Hold, job: Job) -> None:
        self._request = request
        self._watch = watch
        self._hold = hold
        self._job = job
        self._lives_ms = max(request.settings.default_ttl_ms, 2 * (request.exchange.remaining_ms() or 0))

    def run(self, write: Write) -> str:
        """Go on with the workflow, and write what became of the call; what that was, for the log.

        Raises:
            ProtocolError: there is no such workflow any more.
            TaskHeld: another run holds the workflow's task: the event is to be delivered again.
            NotDispatched: the call was handed over, and nobody could be sent for: as above.
            StoreError: the store does not answer, or the run could not be written: as above.
        """
        twin, store = self._request.server.twin(self._job.work.tool), self._request.store
        if twin is None or store is None:
            raise ProtocolError(INVALID_PARAMS, f"Unknown tool: {self._job.work.tool}")
        try:
            self._hold.task = store.jobs.extend(self._hold.task, self._lives_ms)
        except (ClaimLost, TaskFinished, TaskNotFound) as over:
            return f"stopped: {over}"
        host = WorkerHost(self._request, self._watch)
        ended = self._run(twin, host)
        if self._watch.ended:
            return "stopped: it is over, or another worker's"
        if isinstance(ended, EndedRun):
            if self._goes_on(ended):
                return self._handed_over(store, write)
            ended = result_of_run(self._request, ended, host)
        return self._completed(store, ended, write)

    def _run(self, twin: Twin, host: WorkerHost) -> EndedRun | JsonObject:
        """The run, which has ended; or, where nothing could be run, what the workflow's tool returns then."""
        # A workflow that was deployed anew may ask its user; in the background nobody hears it.
        workflow = replace(twin.workflow, ask=False) if twin.workflow.ask else twin.workflow
        given, task_id = self._request.object("arguments"), self._job.work.workflow_task or ""
        while True:
            try:
                return run_workflow(self._request, workflow, given, task_id, host, lives_ms=self._lives_ms)
            except TaskHeld as held:
                if self._may_wait(host, held):
                    continue
                if not self._is_last():
                    self._give_back()
                    raise
                return not_run(self._request, twin, task_id, held)
            except StoreBusy:
                raise
            except NotRead as refused:
                if not isinstance(refused.error, ValueLost):
                    raise refused.error from refused
                return not_run(self._request, twin, task_id, refused)
            except (ArgumentRefused, *NOT_RESUMED) as refused:
                return not_run(self._request, twin, task_id, refused)

    def _may_wait(self, host: WorkerHost, held: TaskHeld) -> bool:
        """Let some time pass, if there is time: the other run may give the task up, or have died."""
        until_s = (held.until_ms - self._request.now_ms()) / 1000
        wait_s = min(max(until_s, 0) + 0.1, TAKE_AGAIN_S)
        if not host.may_start(wait_s):
            return False
        host.wait(wait_s)
        return not self._watch.gone

    def _is_last(self) -> bool:
        claim = self._hold.task.claim
        return self._watch.gone or (claim is not None and claim.number >= self._job.allowed)

    def _give_back(self) -> None:
        """Give the call's claim up, so that the next delivery of the event need not wait for its end."""
        if self._request.store is None:
            return
        try:
            self._request.store.renew(self._hold.task, replace(self._hold.claim(), until_ms=0))
        except StoreError:
            task_id = self._hold.task.task_id
            logger.warning("task %s: its claim could not be given back; it will run out", task_id, exc_info=True)

    def _goes_on(self, run: EndedRun) -> bool:
        """Whether the run has paused for want of time alone, and has come at least one step further.

        Raises:
            StoreUnavailable: it has, and that could not be written.
        """
        settled = [trace for trace in run.traces if not trace.replayed and isinstance(trace.outcome, Succeeded)]
        if not isinstance(run.pause, DeadlineExceeded) or not settled:
            return False
        if not run.stored:
            raise StoreUnavailable("the run could not be written; it is to be run again")
        if self._request.dispatcher is None or self._job.dispatches >= MOST_DISPATCHES:
            logger.error("task %s: it is handed over no more; set BATON_WORKER for the worker", self._hold.task.task_id)
            return False
        return True

    def _handed_over(self, store: TaskStore, write: Write) -> str:
        handed: list[TaskRecord] = []

        def hand_over() -> None:
            handed.append(store.jobs.hand_over(self._hold.task, self._hold.claim(), self._lives_ms))

        outcome = write("handed over", hand_over)
        for task in handed:
            self._request.telemetry.add(TASKS_HANDED_OVER)
            if not dispatch(self._request, task):
                raise NotDispatched(f"task {task.task_id}: it was handed over, and no worker could be sent for")
        return outcome

    def _completed(self, store: TaskStore, result: JsonObject, write: Write) -> str:
        batch = Batch(result=_of_call(result), claim=self._hold.claim(), release=True, message=self._watch.unwritten)
        return write("completed", lambda: store.write(self._hold.task, batch))


def _of_call(result: JsonObject) -> JsonObject:
    """A workflow's result as that of the call's task, which relates to this task and no other."""
    meta = result.get("_meta")
    if not isinstance(meta, Mapping):
        return result
    return {**result, "_meta": {name: value for name, value in meta.items() if name != RELATED_TASK_KEY}}
