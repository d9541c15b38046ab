"""Put around the call of each MCP method: logs one entry a request (`mcp_baton.server.methods.call_method`)."""

import logging
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, cast

from msgspec import structs

from mcp_baton.exceptions import ProtocolError
from mcp_baton.local.report.entry import Entry, Status, one_line
from mcp_baton.local.report.results import Outcome, outcome_of, task_of
from mcp_baton.protocol.json import JsonObject
from mcp_baton.server.asking.asker import InputRequired
from mcp_baton.server.methods import Method, call_method
from mcp_baton.server.methods.engine_host import START_MARGIN_MS
from mcp_baton.server.request import Request
from mcp_baton.server.running.worker import CallerGone

if TYPE_CHECKING:
    from mcp_baton.tasks.store import TaskStore

logger = logging.getLogger("baton.requests")

NAMES: Final = ("name", "uri")
QUIET: Final = frozenset({"ping"})
"""What hosts send all day to see whether the server is there: at the debug level alone."""

told: ContextVar[bool] = ContextVar("told", default=False)
"""Whether an entry was logged for the HTTP request that this thread answers."""


def watched(method: Method = call_method, clock: Callable[[], float] = time.perf_counter) -> Method:
    """A method that logs an entry for each request.

    Args:
        method: Answers it.
        clock: Seconds, from any moment on.
    """

    def call(request: Request) -> JsonObject:
        watch = _Watch(request, clock)
        try:
            result = method(watch.request)
        except InputRequired as asks:
            watch.end(*watch.of(asks.result), asks.result)
            raise
        except ProtocolError as error:
            watch.end(Status.FAILED, one_line(error.message))
            raise
        except CallerGone:
            watch.end(Status.FAILED, "the client went away")
            raise
        except Exception as error:
            watch.end(Status.FAILED, one_line(f"internal error: {type(error).__name__}: {error}"))
            raise
        watch.end(*watch.of(result), result)
        return result

    return call


class _Watch:
    """One request that is being watched.

    Attributes:
        request: The request, whose store tells which step a call is recorded as.
    """

    def __init__(self, request: Request, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began_s = clock()
        self._steps: list[str] = []
        store = request.store
        if store is not None and request.message.method == "tools/call":
            request = structs.replace(request, store=cast("TaskStore", _Recorder(store, self._steps)))
        self.request = request

    def of(self, result: JsonObject) -> Outcome:
        """How the request ended that has this result."""
        step = self._steps[-1] if self._steps else None
        return outcome_of(self.request.message.method, result, step, time_over(self.request))

    def end(self, status: Status, words: str, result: JsonObject | None = None) -> None:
        """Log the entry."""
        method, params = self.request.message.method, self.request.params
        told.set(True)
        if method in QUIET and not logger.isEnabledFor(logging.DEBUG):
            return
        Entry(
            method=one_line(method),
            name=named(method, params),
            task=(task_of(result) if result else "") or _named_task(self.request),
            ms=1000 * (self._clock() - self._began_s),
            status=status,
            words=words,
            request_id=self.request.exchange.request_id,
        ).log(logger)


class _Recorder:
    """A store that notes the steps which continuations are recorded as; everything else is the store's own.

    Args:
        store: The store.
        steps: Where the names go.
    """

    def __init__(self, store: "TaskStore", steps: list[str]) -> None:
        self._store = store
        self._steps = steps

    def __getattr__(self, name: str) -> Any:
        """What the store has."""
        return getattr(self._store, name)

    def write(self, task: Any, batch: Any) -> Any:
        """Write, and note the step of a batch that no run has made."""
        written = self._store.write(task, batch)
        if batch.claim is None:
            self._steps[:] = [step.name for step in batch.steps]
        return written


def named(method: str, params: JsonObject) -> str:
    """What a request is about: a tool, a prompt, a resource, or the client that introduces itself."""
    if method == "initialize":
        info = params.get("clientInfo")
        told_name = info.get("name") if isinstance(info, dict) else None
        return one_line(told_name, 40) if isinstance(told_name, str) else ""
    found = next((params[name] for name in NAMES if isinstance(params.get(name), str)), "")
    return one_line(str(found), 80)


def time_over(request: Request) -> str:
    """Which limit a workflow met that had no time for its next step, and where it is set."""
    budget_s, left_ms = request.server.reply_budget_s, request.left_ms()
    if request.reply.silent and request.elapsed_s() >= budget_s:
        return f"reply_budget_s={budget_s:g} of the Server, as the client listens to no progress"
    if left_ms is not None and left_ms <= START_MARGIN_MS:
        return "--timeout of baton serve, FunctionTimeout when deployed"
    return "no time for another attempt: reply_budget_s of the Server, --timeout"


def _named_task(request: Request) -> str:
    """The task that the request names."""
    named = request.params.get("taskId")
    try:
        found = named if isinstance(named, str) else request.bound_task()
    except ProtocolError:
        found = None
    return one_line(found, 80) if found else ""
