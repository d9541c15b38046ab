"""A worker process, and the Runtime API that it polls: what a container is to Lambda."""

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from threading import Thread
from typing import Final

from mcp_baton.local.workers.launch import Launch
from mcp_baton.local.workers.queue import Delivery
from mcp_baton.local.workers.runtime_api import Failure, RuntimeApi
from mcp_baton.protocol.json import JsonObject

logger = logging.getLogger(__name__)

COMMAND: Final = (sys.executable, "-P", "-m", "mcp_baton.local.workers")


class Sandbox:
    """A worker process. It is started when this is made, and kept for one event after the other.

    Args:
        launch: What it serves.
        dispatch: Takes the events that it sends.
        command: What runs in the process: whatever speaks to a Runtime API.
    """

    def __init__(
        self, launch: Launch, dispatch: Callable[[JsonObject], None], command: Sequence[str] = COMMAND
    ) -> None:
        self._api = RuntimeApi(dispatch)
        # A session of its own: Ctrl-C is the server's to hear, and what a tool starts ends with the worker.
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
        """The process's id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process is there, and was not killed."""
        return not self._killed and self._process.poll() is None

    def invoke(self, delivery: Delivery, timeout_s: float) -> Failure | None:
        """Have the process work on an event; `None` where its handler returned.

        Starting the process may take as long as the invocation. A process that takes longer is killed.
        """
        failure = self._within(self._api.ready, timeout_s, "did not start")
        if failure is not None:
            self.kill()
            return failure
        return self._within(self._api.offer(delivery, timeout_s).outcome, timeout_s, "was not through")

    def kill(self) -> None:
        """End the process, and what its tools have started, at once. Does nothing to one that has ended."""
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
        logger.error("worker %d %s within %g s: it is killed", self.pid, what, timeout_s)
        self.kill()
        return failure

    def _watch(self) -> None:
        code = self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        if not self._killed:
            logger.error("worker %d has ended by itself: exit code %d", self.pid, code)
        self._api.process_ended(f"the worker ended with exit code {code}")
