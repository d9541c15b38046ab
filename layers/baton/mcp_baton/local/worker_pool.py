"""The workers of `baton serve`: processes that run background tasks, and the queue in front of them.

Events are retried as Lambda retries asynchronous invocations: after one minute and after two more, unless the event has
become too old (https://docs.aws.amazon.com/lambda/latest/dg/invocation-async-error-handling.html).
"""

import json
import logging
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue
from threading import Condition, Thread, Timer
from typing import Final

from msgspec.json import encode

from mcp_baton.exceptions import NotDispatched
from mcp_baton.local.worker_process import Launch
from mcp_baton.protocol.json import JsonObject, dumps

logger = logging.getLogger(__name__)

COMMAND: Final = (sys.executable, "-P", "-m", "mcp_baton.local.worker_process")
"""`-P` keeps the user's folders off the path: a file there may have the name of a module that Baton imports."""

MAX_AGE_S: Final = 3600.0
"""The maximum age of an event; the template's `MaximumEventAgeInSeconds`."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """One attempt at an event. All attempts have the same `request_id`."""

    event: JsonObject
    request_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    accepted_s: float = field(default_factory=time.monotonic)
    attempt: int = 1


class Sandbox:
    """A worker process. It processes one event after the other, and may `dispatch` others."""

    def __init__(self, launch: Launch, dispatch: Callable[[JsonObject], None], command: Sequence[str]) -> None:
        # A new session: Ctrl-C reaches only the server, and processes that a tool starts end with the worker.
        self._process = subprocess.Popen(  # noqa: S603 - a fixed list of words; no shell
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        self._dispatch = dispatch
        self._failures: SimpleQueue[str | None] = SimpleQueue()
        self._started = self._killed = False
        self._send(encode(launch, enc_hook=dict).decode())  # a mapping of the settings becomes a dict
        Thread(target=self._listen, name=f"worker {self.pid}", daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return not self._killed and self._process.poll() is None

    def invoke(self, delivery: Delivery, timeout_s: float) -> str | None:
        """Let the process handle an event. Return why it failed; `None` if its handler returned.

        The start of the process has the same time limit as the invocation. A process that exceeds it is killed.
        """
        if not self._started:
            failure = self._wait_for_outcome(timeout_s, "did not start")
            if failure is not None:
                self.kill()
                return failure
            self._started = True
        self._send(dumps({"id": delivery.request_id, "event": delivery.event, "timeout_s": timeout_s}))
        return self._wait_for_outcome(timeout_s, "did not finish")

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

    def _send(self, line: str) -> None:
        stdin = self._process.stdin
        if stdin is not None:
            with suppress(OSError):  # the process has ended, which `_listen` reports
                stdin.write(f"{line}\n")
                stdin.flush()

    def _wait_for_outcome(self, timeout_s: float, problem: str) -> str | None:
        """Wait until the process reports a failure or a success, or has ended."""
        with suppress(Empty):
            return self._failures.get(timeout=timeout_s)
        logger.error("worker %d %s within %g s and is killed", self.pid, problem, timeout_s)
        self.kill()
        return f"the worker {problem} within {timeout_s:g} s"

    def _listen(self) -> None:
        for line in self._process.stdout or ():
            document = json.loads(line)
            if "event" in document:
                with suppress(NotDispatched):  # the server stops; a poll or a sweep dispatches the task again
                    self._dispatch(document["event"])
            else:
                self._failures.put(document["failure"])
        code = self._process.wait()
        if not self._killed:
            logger.error("worker %d ended unexpectedly with exit code %d", self.pid, code)
        self._failures.put(f"the worker ended with exit code {code}")
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()


class Pool:
    """Invokes workers asynchronously (`tasks.jobs.Dispatcher`). `make_launch` is called when a process is started."""

    def __init__(
        self,
        make_launch: Callable[[], Launch],
        timeout_s: float = 900.0,
        retry_after_s: Sequence[float] = (60.0, 120.0),
        at_once: int = 2,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self._make_launch = make_launch
        self._timeout_s = timeout_s
        self._retry_after_s = retry_after_s
        self._command = command
        self._threads = ThreadPoolExecutor(at_once, "worker")
        self._changed = Condition()
        self._waiting = 0
        self._busy: set[Sandbox] = set()
        self._idle: list[Sandbox] = []
        self._stale: set[Sandbox] = set()
        self._stopping = False

    def dispatch(self, event: JsonObject) -> None:
        """Accept an event.

        Raises:
            NotDispatched: the server is stopping.
        """
        with self._changed:
            if self._stopping:
                raise NotDispatched("the local server is stopping: it accepts no more events")
            self._waiting += 1
        self._submit(Delivery(event))

    @property
    def processes(self) -> list[int]:
        """The ids of the running processes."""
        with self._changed:
            return [sandbox.pid for sandbox in (*self._busy, *self._idle) if sandbox.alive]

    def renew(self) -> None:
        """Process later events in new processes, which load the files again. Running invocations finish in their
        process."""
        with self._changed:
            for sandbox in self._idle:
                sandbox.kill()
            self._idle = []
            self._stale = set(self._busy)

    def stop(self, grace_s: float) -> None:
        """Kill the processes: idle ones at once, busy ones when they have finished or after the grace period."""
        with self._changed:
            self._stopping = True
            self._threads.shutdown(wait=False, cancel_futures=True)
            for sandbox in self._idle:
                sandbox.kill()
            self._changed.wait_for(lambda: not self._busy, grace_s)
            for sandbox in self._busy:
                sandbox.kill()
            if self._busy or self._waiting:
                busy_count, waiting_count = len(self._busy), self._waiting
                logger.warning("%d workers were still running, and %d events were waiting", busy_count, waiting_count)

    def _submit(self, delivery: Delivery) -> None:
        with suppress(RuntimeError):  # the pool has been stopped
            self._threads.submit(self._work, delivery)

    def _work(self, delivery: Delivery) -> None:
        with self._changed:
            self._waiting -= 1
        failure: str | None = f"it is older than {MAX_AGE_S:g} s"
        is_too_old = time.monotonic() - delivery.accepted_s > MAX_AGE_S
        if not is_too_old:
            failure = self._attempt(delivery)
            if failure is not None and self._stopping:
                return
            if failure is not None and delivery.attempt <= len(self._retry_after_s):
                wait_s = self._retry_after_s[delivery.attempt - 1]
                logger.warning("attempt %d of an event failed (%s): retry in %.3g s", delivery.attempt, failure, wait_s)
                timer = Timer(wait_s, self._submit, [replace(delivery, attempt=delivery.attempt + 1)])
                timer.daemon = True
                with self._changed:
                    self._waiting += 1
                timer.start()
                return
        if failure is not None:
            # On AWS, the dead-letter queue would get this event. The task stays: a poll or a sweep dispatches it
            # (docs/background.md).
            attempts, event = delivery.attempt - is_too_old, dumps(delivery.event)
            logger.error("an event was discarded after %d attempts (%s): %s", attempts, failure, event)

    def _attempt(self, delivery: Delivery) -> str | None:
        try:
            sandbox = self._sandbox()
        except Exception as error:
            logger.exception("no worker could be started")
            return str(error)
        try:
            return sandbox.invoke(delivery, self._timeout_s)
        finally:
            self._release(sandbox)

    def _sandbox(self) -> Sandbox:
        """Return an idle process, the one that worked last, or a new one."""
        with self._changed:
            if self._stopping:
                raise NotDispatched("the local server is stopping")
            alive = [sandbox for sandbox in self._idle if sandbox.alive]
            sandbox = alive.pop() if alive else Sandbox(self._make_launch(), self.dispatch, self._command)
            self._idle = alive
            self._busy.add(sandbox)
            return sandbox

    def _release(self, sandbox: Sandbox) -> None:
        with self._changed:
            self._busy.discard(sandbox)
            if self._stopping or sandbox in self._stale:
                self._stale.discard(sandbox)
                sandbox.kill()
            elif sandbox.alive:
                self._idle.append(sandbox)
            self._changed.notify_all()
