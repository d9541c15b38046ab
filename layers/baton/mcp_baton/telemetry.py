"""What Baton notes of its own work, as data: counts, times and spans (docs/operating.md).

Where a request is served, notes go to a `Collector`, and what was collected is reported when the answer is on its way.
Where they are not wanted (`baton serve`, tests) they go to `SILENT`.
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from threading import Lock
from typing import Protocol

from msgspec import Struct, field


class Metric(Struct, frozen=True):
    """A figure that operators watch.

    Attributes:
        unit: As CloudWatch names it.
        dimension: What the figure is told apart by; empty for one figure in all.
    """

    name: str
    unit: str = "Count"
    dimension: str = ""


STEPS_RUN = Metric("StepsRun")
STEPS_FAILED = Metric("StepsFailed")
STEP_RETRIES = Metric("StepRetries")
RUNS_COMPLETED = Metric("RunsCompleted")
PAUSES = Metric("Pauses", dimension="type")
RECORDINGS_LOST = Metric("RecordingsLost")
STORE_LATENCY = Metric("StoreLatency", "Milliseconds", "operation")
STORE_CONFLICTS = Metric("StoreConflicts")
STORE_ERRORS = Metric("StoreErrors")
INTERNAL_ERRORS = Metric("InternalErrors")
ABANDONED_THREADS = Metric("AbandonedThreads")
TASKS_DISPATCHED = Metric("TasksDispatched")
DISPATCHES_FAILED = Metric("DispatchesFailed")
TASKS_CLAIMED_AGAIN = Metric("TasksClaimedAgain")
TASKS_GIVEN_UP = Metric("TasksGivenUp")
TASKS_HANDED_OVER = Metric("TasksHandedOver")


class Measurement(Struct, frozen=True):
    """One value of a metric; `of` is the value of its dimension."""

    metric: Metric
    value: float
    of: str


class Span(Struct):
    """A piece of work with a beginning and an end, seconds since the epoch.

    Attributes:
        name: What was done: `workflow refund_order`, `tool issue_refund`, `DynamoDB`.
        details: More about it, by name. A span with details is a call of an AWS service.
        failed: Whether it went wrong.
        parts: The spans within it, in the order in which they ended.
    """

    name: str
    details: dict[str, str]
    began_s: float
    ended_s: float | None = None
    failed: bool = False
    parts: list["Span"] = field(default_factory=list)


class Notes(Struct, frozen=True):
    """What was collected."""

    measurements: tuple[Measurement, ...]
    spans: tuple[Span, ...]


class Telemetry(Protocol):
    """Where notes go. Safe to use from several threads."""

    def add(self, metric: Metric, value: float = 1, *, of: str = "") -> None:
        """Note a value of a metric."""

    def span(self, name: str, **details: str) -> AbstractContextManager[Span]:
        """Note a piece of work; one that an exception ends has failed."""

    def add_request(self, service: str, operation: str, took_s: float, *, failed: bool, **details: str) -> None:
        """Note a request to where tasks are kept, which has just ended: as a span, and by its time.

        Args:
            service: The AWS service, such as `DynamoDB`.
            operation: What it was asked for, such as `GetItem`.
            took_s: How long it took, seconds.
            failed: Whether it went wrong.
            details: What else the span says of it.
        """

    def correlate(self, request_id: str) -> None:
        """What is logged from here on, and noted in this invocation, belongs to this request: a worker says so of the
        one that created its task.
        """


_UNTRACED = nullcontext(Span("untraced", {}, 0.0))


class Silent:
    """Drops every note."""

    def add(self, metric: Metric, value: float = 1, *, of: str = "") -> None:
        """Forget it."""

    def span(self, name: str, **details: str) -> AbstractContextManager[Span]:  # noqa: ARG002 - as `Telemetry` has it
        """Forget it."""
        return _UNTRACED

    def add_request(self, service: str, operation: str, took_s: float, *, failed: bool, **details: str) -> None:
        """Forget it."""

    def correlate(self, request_id: str) -> None:
        """Forget it."""


SILENT = Silent()

_within: ContextVar[Span | None] = ContextVar("_within", default=None)


class _Open:
    """A piece of work under way. A class, as `contextmanager` takes three times as long, which each tool would pay."""

    __slots__ = ("_around", "_clock", "_end", "_span", "_token")

    def __init__(self, span: Span, clock: Callable[[], float], end: Callable[[Span, Span | None], None]) -> None:
        self._span, self._clock, self._end = span, clock, end

    def __enter__(self) -> Span:
        self._around = _within.get()
        self._span.began_s = self._clock()
        self._token = _within.set(self._span)
        return self._span

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._span.failed = True
        _within.reset(self._token)
        self._end(self._span, self._around)


class Collector:
    """Notes in memory, until they are taken.

    Args:
        clock: Seconds since the epoch.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = Lock()
        self._measurements: list[Measurement] = []
        self._spans: list[Span] = []
        self._correlated: Callable[[str], None] | None = None
        self._traced = True

    def begin(self, correlated: Callable[[str], None], *, traced: bool = True) -> None:
        """A request begins.

        Args:
            correlated: Hears of it if the request turns out to belong to another one.
            traced: Whether anybody wants its spans; they are not noted otherwise.
        """
        self._correlated, self._traced = correlated, traced

    def correlate(self, request_id: str) -> None:
        """Tell whoever reports this invocation which request it belongs to."""
        if self._correlated is not None:
            self._correlated(request_id)

    def add(self, metric: Metric, value: float = 1, *, of: str = "") -> None:
        """Note a value of a metric."""
        with self._lock:
            self._measurements.append(Measurement(metric, value, of))

    def span(self, name: str, **details: str) -> AbstractContextManager[Span]:
        """Note a piece of work when it has ended, as a part of the one around it."""
        return _Open(Span(name, details, 0.0), self._clock, self._end) if self._traced else _UNTRACED

    def add_request(self, service: str, operation: str, took_s: float, *, failed: bool, **details: str) -> None:
        """Note a request that has just ended, as a part of the work around it, and its time."""
        if self._traced:
            span = Span(service, {"operation": operation, **details}, self._clock() - took_s, failed=failed)
            self._end(span, _within.get())
        self.add(STORE_LATENCY, 1000 * took_s, of=operation)

    def take(self) -> Notes:
        """All that has been noted since the last time."""
        with self._lock:
            notes = Notes(tuple(self._measurements), tuple(self._spans))
            self._measurements.clear()
            self._spans.clear()
        return notes

    def _end(self, span: Span, around: Span | None) -> None:
        with self._lock:
            span.ended_s = self._clock()
            # What outlives the work around it, as an abandoned tool does, may have been taken without it already.
            (self._spans if around is None or around.ended_s is not None else around.parts).append(span)
