"""A Lambda handler that is watched: its logs, metrics and traces (docs/operating.md)."""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from mcp_baton.observability.logs import PowertoolsHandler
from mcp_baton.observability.metrics import EmbeddedMetrics
from mcp_baton.observability.traces import XRayTraces
from mcp_baton.telemetry import Collector, Notes
from mcp_baton.transport.correlation import correlation_id

logger = logging.getLogger(__name__)

type Handler = Callable[[Any, Any, str], dict[str, Any]]
"""Answers an event: the event, Lambda's context, and the request's id."""

type Work = Callable[[], None]


class ObservedHandler:
    """Calls a handler, and reports what it has noted of its work.

    Args:
        handler: The handler.
        collector: Where it notes its work.
        logs: What writes its log records.
        metrics: Takes the measurements.
        traces: Takes the spans.
        sampled: Whether X-Ray keeps the present invocation's trace.
        later: Does a piece of work when the answer is on its way.
        cold_start: Whether the first request waits for the process to start.
    """

    def __init__(
        self,
        handler: Handler,
        collector: Collector,
        *,
        logs: PowertoolsHandler,
        metrics: EmbeddedMetrics,
        traces: XRayTraces,
        sampled: Callable[[], bool],
        later: Callable[[Work], None],
        cold_start: bool = True,
    ) -> None:
        self._handler = handler
        self._collector = collector
        self._logs = logs
        self._metrics = metrics
        self._traces = traces
        self._sampled = sampled
        self._later = later
        self._cold_start = cold_start

    def __call__(self, event: Any, context: Any) -> dict[str, Any]:
        """Answer an event as the handler does."""
        cold_start, self._cold_start = self._cold_start, False
        request_id = correlation_id(event.get("requestContext") if isinstance(event, Mapping) else None, context)
        self._logs.begin(
            {
                "correlation_id": request_id,
                "function_request_id": getattr(context, "aws_request_id", None),
                "function_name": getattr(context, "function_name", None),
                "cold_start": cold_start,
            }
        )
        try:
            return self._handler(event, context, request_id)
        finally:
            notes = self._collector.take()
            if notes.measurements or notes.spans:
                self._later(partial(self._report, notes, request_id, cold_start))

    def _report(self, notes: Notes, request_id: str, cold_start: bool) -> None:
        try:
            self._metrics.report(notes.measurements, request_id)
            if notes.spans and self._sampled():
                self._traces.report(notes.spans, request_id, cold_start=cold_start)
        except Exception:
            # The request has been answered, and its metrics must not make it fail.
            logger.exception("request %s: its metrics or traces could not be reported", request_id)
