"""A Lambda handler with logs, metrics and traces (docs/operating.md)."""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from mcp_baton.observability.logs import PowertoolsHandler
from mcp_baton.observability.metrics import EmbeddedMetrics
from mcp_baton.observability.traces import XRayTraces
from mcp_baton.telemetry import Collector, Notes
from mcp_baton.transport.request_context import correlation_id

logger = logging.getLogger(__name__)

type Handler = Callable[[Any, Any, str], dict[str, Any]]
"""Handles an event. Arguments: the event, Lambda's context, the correlation id."""

type Work = Callable[[], None]


class _Invocation:
    """The correlation id of an invocation, as a key of its log lines."""

    def __init__(self, keys: dict[str, object], logs: PowertoolsHandler) -> None:
        self.request_id = str(keys["correlation_id"])
        self._keys = keys
        self._logs = logs
        logs.begin(keys)

    def correlate(self, request_id: str) -> None:
        """Replace the correlation id."""
        self.request_id = request_id
        self._logs.begin({**self._keys, "correlation_id": request_id})


class ObservedHandler:
    """Calls a handler and reports its metrics and traces.

    Args:
        handler: The handler.
        collector: Records the metrics and spans.
        logs: Writes the log records.
        metrics: Reports the measurements.
        traces: Reports the spans.
        sampled: Returns whether X-Ray samples the current invocation.
        later: Runs work after the response.
        cold_start: Whether the first request has a cold start.
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
        """Handle an event.

        Raises:
            Exception: the error of the handler. Lambda counts it, and retries the event of a worker.
        """
        cold_start, self._cold_start = self._cold_start, False
        request_id = correlation_id(event.get("requestContext") if isinstance(event, Mapping) else None, context)
        invocation = _Invocation(
            {
                "correlation_id": request_id,
                "function_request_id": getattr(context, "aws_request_id", None),
                "function_name": getattr(context, "function_name", None),
                "cold_start": cold_start,
            },
            self._logs,
        )
        self._collector.begin(invocation.correlate, traced=self._sampled())
        try:
            return self._handler(event, context, request_id)
        finally:
            notes = self._collector.take()
            if notes.measurements or notes.spans:
                self._later(partial(self._report, notes, invocation.request_id, cold_start))

    def _report(self, notes: Notes, request_id: str, cold_start: bool) -> None:
        try:
            self._metrics.report(notes.measurements, request_id)
            if notes.spans:
                self._traces.report(notes.spans, request_id, cold_start=cold_start)
        except Exception:
            # The response was sent, so an error here must not fail the invocation.
            logger.exception("request %s: its metrics or traces could not be reported", request_id)
