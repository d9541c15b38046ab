"""Calls of a run's steps in other threads (docs/workflows.md, Parallel steps).

Only the request's thread writes to the client and renews claims. The other threads send it jobs through a queue.
"""

from collections.abc import Callable
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from mcp_baton.exceptions import Abandoned
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tools.running.tool_threads import Listener, run_in_thread
from mcp_baton.transport.exchange import KEEP_ALIVE_S
from mcp_baton.workflow.host import Host
from mcp_baton.workflow.lease import ThreadLease

type Job = Callable[[], object]


class ParallelCalls:
    """Implements `workflow.host.Threads`. All methods except `ask` are for the request's thread.

    Args:
        host_for: Makes the host of a call from its listener and its lease.
        pulse: Called while a call runs, as `tool_threads.run_and_deliver` does.
    """

    def __init__(
        self,
        listener: Listener,
        host_for: Callable[[Listener, ThreadLease | None], Host],
        pulse: Callable[[], float],
    ) -> None:
        self._listener = listener
        self._host_for = host_for
        self._pulse = pulse
        self._jobs: SimpleQueue[Job] = SimpleQueue()
        self._outcomes: list[tuple[Any, BaseException | None]] = []
        self._is_closed = False

    def start(self, call: Callable[[Host], Any], lease: ThreadLease | None) -> None:
        host = self._host_for(ForwardingListener(self._listener, self._jobs.put), lease)
        run_in_thread(partial(self._run, call, host))

    def _run(self, call: Callable[[Host], Any], host: Host, free: Callable[[], None]) -> None:
        value, error = _outcome(partial(call, host))
        free()
        self._jobs.put(lambda: self._outcomes.append((value, error)))

    def ask(self, question: Callable[[], Any]) -> Any:
        answers: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        self._jobs.put(lambda: answers.put(_outcome(question)))
        while True:
            try:
                return _value(*answers.get(timeout=KEEP_ALIVE_S))
            except Empty:
                if self._is_closed:
                    raise Abandoned from None

    def next(self) -> Any:
        while not self._outcomes:
            # After the end of a job the pulse is 0 until its calls have noticed. Without a pause, this would be a busy
            # wait.
            pulse_s = self._pulse() or KEEP_ALIVE_S
            try:
                self._jobs.get(timeout=min(KEEP_ALIVE_S, pulse_s))()
            except Empty:
                self._listener.keep_alive()
        return _value(*self._outcomes.pop(0))

    def close(self) -> None:
        self._is_closed = True


def _outcome(call: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    try:
        return call(), None
    except BaseException as error:  # noqa: BLE001 - the other thread raises it
        return None, error


def _value(value: Any, error: BaseException | None) -> Any:
    if error is not None:
        raise error
    return value


class ForwardingListener:
    """Forwards a function's notifications and questions to the request's thread."""

    def __init__(self, listener: Listener, post: Callable[[Job], None]) -> None:
        self._listener = listener
        self._post = post

    @property
    def gone(self) -> bool:
        return self._listener.gone

    def notify(self, method: str, params: dict[str, Json]) -> None:
        self._post(partial(self._listener.notify, method, params))

    def request(self, identifier: str, method: str, params: JsonObject) -> None:
        self._post(partial(self._listener.request, identifier, method, params))

    def keep_alive(self) -> None:
        """Do nothing: the request's thread keeps the connection alive."""
