"""The worker processes of one `baton serve`, and the queue in front of them."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Condition, Lock, Thread

from mcp_baton.local.workers.launch import Launch
from mcp_baton.local.workers.queue import Delivery, EventQueue, Retries
from mcp_baton.local.workers.sandbox import COMMAND, Sandbox
from mcp_baton.protocol.json import JsonObject

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Policy:
    """How workers are run.

    Attributes:
        timeout_s: Seconds that an invocation of a worker has; Lambda's longest is 900.
        retries: How failed invocations are made again.
        at_once: How many work at the same time.
    """

    timeout_s: float = 900.0
    retries: Retries = field(default_factory=Retries)
    at_once: int = 2


class Pool:
    """Invokes workers asynchronously (`tasks.jobs.Dispatcher`). Nothing is started before the first event.

    Args:
        launch: Tells what the processes serve, when the first one is started.
        policy: How they are run.
        command: What runs in them.
    """

    def __init__(
        self, launch: Callable[[], Launch], policy: Policy | None = None, command: Sequence[str] = COMMAND
    ) -> None:
        self._make_launch = launch
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
        """Take an event for a worker.

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
        """The ids of the processes that there are."""
        with self._changed:
            return [sandbox.pid for sandbox in (*self._busy, *self._idle) if sandbox.alive]

    def renew(self) -> None:
        """Have the next event of each worker served by a process that loads the files anew. Events at work end where
        they began."""
        with self._changed:
            for sandbox in self._idle:
                sandbox.kill()
            self._idle = []
            self._stale = set(self._busy)

    def stop(self, grace_s: float) -> None:
        """End the processes: the idle ones at once, those that work when they are through or the grace is over."""
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
            logger.warning("%d workers were still at work, %d events waited: their tasks stand", len(left), waiting)

    def _hand_out(self, launch: Launch) -> None:
        while self._free() and (delivery := self._queue.take()) is not None:
            with self._changed:
                self._working += 1
            Thread(target=self._work, args=(launch, delivery), name="invocation", daemon=True).start()

    def _free(self) -> bool:
        """Wait until there is a worker for one event more; whether there will be one."""
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
            self._through(sandbox)

    def _sandbox(self, launch: Launch) -> Sandbox:
        """A process that has no work: the one that had some last, or a new one."""
        with self._changed:
            alive = [sandbox for sandbox in self._idle if sandbox.alive]
            sandbox = alive.pop() if alive else Sandbox(launch, self.dispatch, self._command)
            self._idle = alive
            self._busy.add(sandbox)
            return sandbox

    def _through(self, sandbox: Sandbox | None) -> None:
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
