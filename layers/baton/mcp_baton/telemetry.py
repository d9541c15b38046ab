"""Baton's metrics and spans as data (docs/operating.md). On Lambda, a `Collector` records them, and they are reported
after the response.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from threading import Lock

from msgspec import Struct, field


class Metric(Struct, frozen=True):
    """A metric. `unit` is CloudWatch's name of the unit, `dimension` the name of the dimension, or empty."""

    name: str
    unit: str = "Count"
    dimension: str = ""


STEPS_RUN = Metric("StepsRun")
STEPS_FAILED = Metric("StepsFailed")
STEP_RETRIES = Metric("StepRetries")
RUNS_COMPLETED = Metric("RunsCompleted")
RUNS_PAUSED = Metric("Pauses", dimension="type")
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
WAKE_UP_DELAY = Metric("WakeUpDelay", "Milliseconds")
APPROVAL_AGE = Metric("ApprovalAge", "Milliseconds")
NOTIFICATIONS_FAILED = Metric("NotificationsFailed")
EVENTS_STARTED = Metric("EventsStarted")
REPEATED_CALLS = Metric("RepeatedCalls", dimension="kind")


class Measurement(Struct, frozen=True):
    """A value of a metric. `of` is the value of the dimension."""

    metric: Metric
    value: float
    of: str


class Span(Struct):
    """A piece of work. Times are seconds since the epoch.

    Attributes:
        name: `workflow refund_order`, `tool issue_refund`, `DynamoDB`, …
        details: Properties of the call, if the span is a call of an AWS service.
        parts: The inner spans, in the order in which they ended.
    """

    name: str
    details: dict[str, str]
    began_s: float
    ended_s: float | None = None
    failed: bool = False
    parts: list["Span"] = field(default_factory=list)


class Notes(Struct, frozen=True):
    measurements: tuple[Measurement, ...]
    spans: tuple[Span, ...]


_UNTRACED = nullcontext(Span("untraced", {}, 0.0))


class Telemetry:
    """Records metrics and spans, from any thread. This class drops them: for `baton serve` and tests."""

    def add(self, metric: Metric, value: float = 1, *, of: str = "") -> None:
        """Record a value of a metric."""

    def span(self, name: str, **details: str) -> AbstractContextManager[Span]:  # noqa: ARG002 - for `Collector`
        """Record work when it has ended, as a part of the outer span. An exception marks the span as failed."""
        return _UNTRACED

    def add_request(self, service: str, operation: str, took_s: float, *, failed: bool, **details: str) -> None:
        """Record a request to an AWS service that has just ended, as a span and as a latency.

        Args:
            service: The service, such as `DynamoDB`.
            operation: The operation, such as `GetItem`.
            took_s: The duration, seconds.
            failed: Whether the request failed.
            details: Further properties of the span.
        """

    def receive(self, name: str, *senders: Mapping[str, object], **details: str) -> AbstractContextManager[Span]:  # noqa: ARG002
        """Record work on a message, with OpenTelemetry. Its parent is the first valid `traceparent` of `senders`."""
        return _UNTRACED

    def traceparent(self) -> str:
        """Return the current span for another process (W3C Trace Context); empty without OpenTelemetry."""
        return ""

    def correlate(self, request_id: str) -> None:
        """Set the correlation id of the invocation. A worker uses the id of the request that created the task."""


SILENT = Telemetry()

_current_span: ContextVar[Span | None] = ContextVar("_current_span", default=None)


class _OpenSpan:
    """The context manager of a span. `contextlib.contextmanager` would take three times as long, for each tool call."""

    __slots__ = ("_clock", "_end", "_outer", "_span", "_token")

    def __init__(self, span: Span, clock: Callable[[], float], end: Callable[[Span, Span | None], None]) -> None:
        self._span, self._clock, self._end = span, clock, end

    def __enter__(self) -> Span:
        self._outer = _current_span.get()
        self._span.began_s = self._clock()
        self._token = _current_span.set(self._span)
        return self._span

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._span.failed = True
        _current_span.reset(self._token)
        self._end(self._span, self._outer)


class Collector(Telemetry):
    """Collects metrics and spans in memory. The clock returns seconds since the epoch."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = Lock()
        self._measurements: list[Measurement] = []
        self._spans: list[Span] = []
        self._on_correlate: Callable[[str], None] | None = None
        self._traced = True

    def begin(self, on_correlate: Callable[[str], None], *, traced: bool = True) -> None:
        """Begin an invocation.

        Args:
            on_correlate: Called if the invocation belongs to another request.
            traced: Whether spans are recorded.
        """
        self._on_correlate, self._traced = on_correlate, traced

    def correlate(self, request_id: str) -> None:
        if self._on_correlate is not None:
            self._on_correlate(request_id)

    def add(self, metric: Metric, value: float = 1, *, of: str = "") -> None:
        with self._lock:
            self._measurements.append(Measurement(metric, value, of))

    def span(self, name: str, **details: str) -> AbstractContextManager[Span]:
        return _OpenSpan(Span(name, details, 0.0), self._clock, self._end) if self._traced else _UNTRACED

    def add_request(self, service: str, operation: str, took_s: float, *, failed: bool, **details: str) -> None:
        if self._traced:
            span = Span(service, {"operation": operation, **details}, self._clock() - took_s, failed=failed)
            self._end(span, _current_span.get())
        self.add(STORE_LATENCY, 1000 * took_s, of=operation)

    def take(self) -> Notes:
        with self._lock:
            notes = Notes(tuple(self._measurements), tuple(self._spans))
            self._measurements.clear()
            self._spans.clear()
        return notes

    def _end(self, span: Span, outer: Span | None) -> None:
        with self._lock:
            span.ended_s = self._clock()
            # An abandoned tool can outlive the outer span, which may have been taken before.
            (self._spans if outer is None or outer.ended_s is not None else outer.parts).append(span)
