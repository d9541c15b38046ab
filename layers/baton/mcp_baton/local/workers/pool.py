"""The worker processes of `baton serve`, and the queue in front of them."""

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Condition, Lock, Thread
from typing import Final

from mcp_baton.local.workers.event_queue import Delivery, EventQueue, Retries
from mcp_baton.local.workers.function import Launch
from mcp_baton.local.workers.runtime_api import Failure, RuntimeApi
from mcp_baton.protocol.json import JsonObject

logger = logging.getLogger(__name__)

COMMAND: Final = (sys.executable, "-P", "-m", "mcp_baton.local.workers")


class Sandbox:
    """A worker process. The constructor starts it. It processes one event after the other.

    Args:
        launch: Its settings.
        dispatch: Takes the events that it sends.
        command: The command, a client of a Runtime API.
    """

    def __init__(
        self, launch: Launch, dispatch: Callable[[JsonObject], None], command: Sequence[str] = COMMAND
    ) -> None:
        self._api = RuntimeApi(dispatch)
        # A new session: Ctrl-C reaches only the server, and processes that a tool starts end with the worker.
        self._process = subprocess.Popen(  # noqa: S603 - a fixed list of words; no shell
            command,
            env={**os.environ, **launch.variables(self._api.address)},
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        self._killed = False
        Thread(target=self._watch, name=f"worker {self._process.pid}", daemon=True).start()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process runs and was not killed."""
        return not self._killed and self._process.poll() is None

    def invoke(self, delivery: Delivery, timeout_s: float) -> Failure | None:
        """Have the process work on an event. Return `None` if its handler returned.

        The start of the process has the same time limit as the invocation. A process that exceeds it is killed.
        """
        failure = self._within(self._api.ready, timeout_s, "did not start")
        if failure is not None:
            self.kill()
            return failure
        return self._within(self._api.offer(delivery, timeout_s).outcome, timeout_s, "did not finish")

    def kill(self) -> None:
        """Kill the process and the processes that its tools have started, if it still runs."""
        self._killed = True
        if self._process.poll() is not None:
            return
        if not hasattr(os, "killpg"):
            self._process.kill()
            return
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def _within(self, future: "Future[Failure | None]", timeout_s: float, what: str) -> Failure | None:
        try:
            return future.result(timeout_s)
        except TimeoutError:
            failure = Failure(f"the worker {what} within {timeout_s:g} s")
        logger.error("worker %d %s within %g s and is killed", self.pid, what, timeout_s)
        self.kill()
        return failure

    def _watch(self) -> None:
        code = self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        if not self._killed:
            logger.error("worker %d ended unexpectedly with exit code %d", self.pid, code)
        self._api.process_ended(f"the worker ended with exit code {code}")


@dataclass(frozen=True, slots=True)
class Policy:
    """The limits of workers.

    Attributes:
        timeout_s: The time limit of an invocation, seconds; Lambda's maximum is 900.
        retries: When failed invocations are retried.
        at_once: The number of workers that run at the same time.
    """

    timeout_s: float = 900.0
    retries: Retries = field(default_factory=Retries)
    at_once: int = 2


class Pool:
    """Invokes workers asynchronously (`tasks.jobs.Dispatcher`). It starts with the first event.

    Args:
        make_launch: Returns the settings of the processes. Called with the first event.
        policy: How they are run.
        command: The command of a worker process.
    """

    def __init__(
        self, make_launch: Callable[[], Launch], policy: Policy | None = None, command: Sequence[str] = COMMAND
    ) -> None:
        self._make_launch = make_launch
        self._policy = policy or Policy()
        self._command = command
        self._queue = EventQueue(self._policy.retries)
        self._lock = Lock()
        self._launch: Launch | None = None
        self._changed = Condition()
        self._busy: set[Sandbox] = set()
        self._idle: list[Sandbox] = []
        self._stale: set[Sandbox] = set()
        self._working = 0
        self._stopping = False

    def dispatch(self, event: JsonObject) -> None:
        """Accept an event.

        Raises:
            NotDispatched: the server is stopping.
        """
        with self._lock:
            if self._launch is None:
                self._launch = self._make_launch()
                Thread(target=self._hand_out, args=(self._launch,), name="workers", daemon=True).start()
        self._queue.put(event)

    @property
    def processes(self) -> list[int]:
        """The ids of the running processes."""
        with self._changed:
            return [sandbox.pid for sandbox in (*self._busy, *self._idle) if sandbox.alive]

    def renew(self) -> None:
        """Serve each following event by a process that loads the files again. A running invocation ends in its
        process."""
        with self._changed:
            for sandbox in self._idle:
                sandbox.kill()
            self._idle = []
            self._stale = set(self._busy)

    def stop(self, grace_s: float) -> None:
        """Kill the processes: idle ones at once, busy ones when they have finished or after the grace period."""
        waiting = self._queue.close()
        with self._changed:
            self._stopping = True
            for sandbox in self._idle:
                sandbox.kill()
            self._changed.wait_for(lambda: not self._working, grace_s)
            left = list(self._busy)
            for sandbox in left:
                sandbox.kill()
        if left or waiting:
            logger.warning("%d workers were still running, and %d events were waiting", len(left), waiting)

    def _hand_out(self, launch: Launch) -> None:
        while self._free() and (delivery := self._queue.take()) is not None:
            with self._changed:
                self._working += 1
            Thread(target=self._work, args=(launch, delivery), name="invocation", daemon=True).start()

    def _free(self) -> bool:
        """Wait until another worker may run. Return false if the pool stops."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or self._working < self._policy.at_once)
            return not self._stopping

    def _work(self, launch: Launch, delivery: Delivery) -> None:
        sandbox = None
        try:
            sandbox = self._sandbox(launch)
            failure = sandbox.invoke(delivery, self._policy.timeout_s)
            if failure is not None:
                self._queue.failed(delivery, failure.why)
        except Exception as error:
            logger.exception("no worker could be started")
            self._queue.failed(delivery, str(error))
        finally:
            self._release(sandbox)

    def _sandbox(self, launch: Launch) -> Sandbox:
        """Return an idle process, the one that worked last, or a new one."""
        with self._changed:
            alive = [sandbox for sandbox in self._idle if sandbox.alive]
            sandbox = alive.pop() if alive else Sandbox(launch, self.dispatch, self._command)
            self._idle = alive
            self._busy.add(sandbox)
            return sandbox

    def _release(self, sandbox: Sandbox | None) -> None:
        with self._changed:
            self._working -= 1
            if sandbox is not None:
                self._busy.discard(sandbox)
                if self._stopping or sandbox in self._stale:
                    self._stale.discard(sandbox)
                    sandbox.kill()
                elif sandbox.alive:
                    self._idle.append(sandbox)
            self._changed.notify_all()
