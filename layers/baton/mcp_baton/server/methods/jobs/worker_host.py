"""The engine's surroundings in a worker: no client waits, both claims are renewed, and a hop costs little
(docs/background.md, Workflows in the background)."""

import math
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from mcp_baton.server.asking.asker import AskedInWorkflow, CannotAsk
from mcp_baton.server.methods.engine_host import ServerHost
from mcp_baton.server.methods.jobs.watching import Watch
from mcp_baton.server.request import Request
from mcp_baton.server.running.runner import Surroundings
from mcp_baton.server.running.worker import CallerGone
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.workflow.host import (
    FIRST,
    Attempt,
    Failed,
    Failure,
    FetchedResource,
    Outcome,
    Prepared,
    ResourceUnavailable,
)

FRESH_SHARE: Final = 0.1
"""A further step is begun while no more than this share of the invocation's time is used up, so that each step has
nearly all of it: how long a step takes is not known before."""

STOPPED: Final = "stopped, as the task that it ran for was cancelled or taken over; it may still have happened"


class WorkerHost(ServerHost):
    """Implements `workflow.host.Host` for a worker's invocation.

    Args:
        request: The worker's request.
        watch: Looks after the call's task.
    """

    def __init__(self, request: Request, watch: Watch) -> None:
        super().__init__(request)
        self.announces = True
        self._watch = watch
        refusal = CannotAsk(
            "a step of a workflow cannot wait: call the tool by itself", AskedInWorkflow, request.envelope
        )
        self._asking = lambda _ask, _waited_for: refusal
        self._given_ms = request.exchange.remaining_ms()
        self._failed = False

    def run(self, prepared: Prepared, variables: TaskVariables | None, attempt: Attempt = FIRST) -> Outcome:
        """Run a tool. It is stopped when one of the two tasks is over, or another's."""
        try:
            outcome = super().run(prepared, variables, attempt)
        except CallerGone:
            if variables is not None:
                variables.close()
            outcome = Failed(STOPPED, kind=Failure.TIMED_OUT)
        self._failed = isinstance(outcome, Failed)
        return outcome

    def read(self, uri: str) -> Sequence[FetchedResource]:
        """Fetch a resource of this server.

        Raises:
            ResourceUnavailable: there is none at this URI, or reading it failed or was stopped.
        """
        try:
            return super().read(uri)
        except CallerGone as gone:
            raise ResourceUnavailable(STOPPED) from gone

    def announce(self, begun: int, total: int, step: str, task_id: str | None) -> None:
        """Say in the status of the call's task which step is about to run."""
        super().announce(begun, total, step, task_id)
        self._watch.say(f"Step {begun}/{total}: {step}")

    def may_start(self, after_s: float = 0.0) -> bool:
        """Whether a step may begin, or a failed one be tried again. A step that follows another begins in a fresh
        invocation, unless this one still is nearly that."""
        if self._watch.gone or not super().may_start(after_s):
            return False
        return self._failed or not self._begun or self._is_fresh()

    def wait(self, seconds: float) -> None:
        """Let this much time pass, or less where the run is to stop."""
        while seconds > 0:
            part = min(seconds, self._both())
            if self._watch.gone:
                return
            self._request.sleep(part)
            seconds -= part

    def _is_fresh(self) -> bool:
        left_ms = self.left_ms()
        if self._given_ms is None or left_ms is None:
            return True
        return self._given_ms - left_ms <= self._given_ms * FRESH_SHARE

    def _surroundings(self, variables: TaskVariables | None, attempt: Attempt = FIRST) -> Surroundings:
        return replace(super()._surroundings(variables, attempt), stay=False, pulse=self._both)

    def _both(self) -> float:
        """Renew the claims on both tasks, where that is due."""
        own_s = self.pulse()
        if own_s == math.inf:  # the workflow's task is over, or another run's
            self._watch.stop()
        calls_s = self._watch.pulse()
        return 0 if self._watch.gone else min(own_s, calls_s)
