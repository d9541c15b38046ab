"""Logs, metrics and traces of the Lambda handler, through Powertools (docs/operating.md).

- Logs: one JSON object a line, with correlation ids.
- Metrics: lines in CloudWatch's embedded metric format on standard output.
- Traces: X-Ray subsegments. They are created from spans after the response. So a request that X-Ray does not sample
  costs nothing, and a sampled one imports Tracer after its response.
"""

import json
import logging
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from mcp_baton.telemetry import Collector, Measurement, Notes, Span
from mcp_baton.transport.request_context import correlation_id

if TYPE_CHECKING:
    from aws_lambda_powertools import Logger
    from aws_lambda_powertools.metrics import EphemeralMetrics

PACKAGE = "mcp_baton"
VERBOSE_LOGGERS = ("boto3", "botocore", "s3transfer", "urllib3")
"""Loggers that at DEBUG write whole requests, with the role's session token and the values of tasks."""

WITHOUT_INFO = frozenset({"WARN", "WARNING", "ERROR", "FATAL", "CRITICAL"})
"""Log levels that hide INFO lines."""

MAX_EXCEPTION_CHARS = 60_000
"""Characters of an exception in a line. Lines of more than 256 KB may be cut, and are no JSON then."""

MAX_METRIC_VALUES = 99
"""Values in one line. CloudWatch accepts 100 values of a metric."""

AWS = "aws"
"""The namespace of AWS calls. X-Ray shows them as separate services."""

MAX_SPAN_NAME_CHARS = 200
_INVALID_IN_NAME = r"[^\w\s.:/%&#=+\\@-]"

logger = logging.getLogger(__name__)

type Handler = Callable[[Any, Any, str], dict[str, Any]]
"""Handles an event. Arguments: the event, Lambda's context, the correlation id."""


class ObservedHandler(Struct, eq=False):
    """Calls a handler and reports its metrics and traces.

    Attributes:
        sampled: Returns whether X-Ray samples the current invocation.
        later: Runs work after the response.
        cold_start: Whether the first request has a cold start.
    """

    handler: Handler
    collector: Collector
    logs: "PowertoolsHandler"
    metrics: "EmbeddedMetrics"
    traces: "XRayTraces"
    sampled: Callable[[], bool]
    later: Callable[[Callable[[], None]], None]
    cold_start: bool = True

    def __call__(self, event: Any, context: Any) -> dict[str, Any]:
        """Handle an event.

        Raises:
            Exception: the error of the handler. Lambda counts it, and retries the event of a worker.
        """
        cold_start, self.cold_start = self.cold_start, False
        request_id = correlation_id(event.get("requestContext") if isinstance(event, Mapping) else None, context)
        reported_id = request_id
        keys = {
            "correlation_id": request_id,
            "function_request_id": getattr(context, "aws_request_id", None),
            "function_name": getattr(context, "function_name", None),
            "cold_start": cold_start,
        }
        self.logs.begin(keys)

        def correlate(other_id: str) -> None:
            nonlocal reported_id
            reported_id = other_id
            self.logs.begin({**keys, "correlation_id": other_id})

        self.collector.begin(correlate, traced=self.sampled())
        try:
            return self.handler(event, context, request_id)
        finally:
            notes = self.collector.take()
            if notes.measurements or notes.spans:
                self.later(partial(self._report, notes, reported_id, cold_start))

    def _report(self, notes: Notes, request_id: str, cold_start: bool) -> None:
        try:
            self.metrics.report(notes.measurements, request_id)
            if notes.spans:
                self.traces.report(notes.spans, request_id, cold_start=cold_start)
        except Exception:
            # The response was sent, so an error here must not fail the invocation.
            logger.exception("request %s: its metrics or traces could not be reported", request_id)


class PowertoolsHandler(logging.Handler):
    """Passes Baton's log records to the Powertools Logger of the service, which is created with the first record.

    All `Logger()` objects of a service share its keys (`correlation_id`, `function_request_id`, …), so the lines of
    tools have the same ids. The keys are updated for each request once the Logger was imported.
    """

    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service
        self._keys: Mapping[str, object] = {}
        self._powertools: Logger | None = None

    def begin(self, keys: Mapping[str, object]) -> None:
        """Begin a request: set the keys of its log lines."""
        self._keys = keys
        if self._powertools is not None or "aws_lambda_powertools.logging.logger" in sys.modules:
            try:
                self._logger().append_keys(**keys)
            except Exception:
                logger.exception("Powertools' Logger cannot be used")

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record with Powertools; if that fails, write it and the error to standard error."""
        try:
            self._logger().logger_handler.handle(_with_exception_text(record))
        except (ImportError, TypeError, ValueError):
            # An invalid variable of Powertools must not fail a request that logs.
            self.handleError(record)

    def _logger(self) -> "Logger":
        if self._powertools is None:
            self._powertools = _powertools_logger(self._service)
            self._powertools.append_keys(**self._keys)
        return self._powertools


def _with_exception_text(record: logging.LogRecord) -> logging.LogRecord:
    """Return the record with its exception as a text of limited length. Powertools would write the whole exception
    twice, and nothing at all if its `str` raises."""
    if record.exc_info is None or record.exc_info[0] is None:
        return record
    text = logging.Formatter().formatException(record.exc_info)
    if len(text) > MAX_EXCEPTION_CHARS:
        half = MAX_EXCEPTION_CHARS // 2
        text = f"{text[:half]}\n({len(text) - 2 * half} characters left out)\n{text[-half:]}"
    exception = {"exception": text, "exception_name": record.exc_info[0].__name__}
    return logging.makeLogRecord({**vars(record), "exc_info": None, **exception})


def _powertools_logger(service: str) -> "Logger":
    """Return the Logger of the service, which a tool may have created before.

    Lambda only recognizes the level of a line with an RFC 3339 timestamp, and otherwise filters the line as INFO. So
    timestamps have this format, unless the function's code chose another.
    """
    from aws_lambda_powertools import Logger
    from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter

    # A lone surrogate, as in the JSON "\\ud800", cannot be encoded. This writes the escape of JSON instead. On Lambda,
    # awslambdaric has wrapped the stream.
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")
    handlers = logging.getLogger().handlers
    filters = {handler: list(handler.filters) for handler in handlers}
    service_logger = Logger(service=service, use_rfc3339=True, utc=True)
    formatter = service_logger.registered_formatter
    if isinstance(formatter, LambdaPowertoolsFormatter) and formatter.datefmt is None:
        formatter.use_rfc3339_iso8601 = True
    # To avoid duplicate lines, Powertools lets Lambda's handler drop the records of all loggers whose name contains the
    # service's name. That can hit other loggers. Disabling propagation has the same effect for the right one.
    logging.getLogger(service).propagate = False
    for handler in handlers:
        handler.filters[:] = filters.get(handler, handler.filters)
    return service_logger


def install(service: str) -> PowertoolsHandler:
    """Let one handler write Baton's log records, and keep secrets and the values of tasks out of the log.

    `VERBOSE_LOGGERS` write nothing below INFO, unless the function's code sets their level.

    Returns:
        The handler. All Lambda handlers of a process share it.
    """
    package_logger = logging.getLogger(PACKAGE)
    existing_handlers = (handler for handler in package_logger.handlers if isinstance(handler, PowertoolsHandler))
    handler = next(existing_handlers, None) or PowertoolsHandler(service)
    package_logger.handlers = [handler]
    package_logger.propagate = False
    for name in VERBOSE_LOGGERS:
        verbose_logger = logging.getLogger(name)
        if verbose_logger.level == logging.NOTSET:
            verbose_logger.setLevel(logging.INFO)
    return handler


class EmbeddedMetrics:
    """Prints measurements. Each set of dimensions has separate lines.

    Args:
        namespace: The metrics' namespace in CloudWatch.
        service: The value of the dimension `service`.
        log_level: The level at which Lambda filters log lines; `None` without a filter.
    """

    def __init__(self, namespace: str, service: str, log_level: str | None) -> None:
        self._namespace = namespace
        self._service = service
        self._log_level = log_level
        self._line: EphemeralMetrics | None = None
        self._is_off = False

    def report(self, measurements: Iterable[Measurement], correlation_id: str) -> None:
        """Print measurements, with the correlation id as a property."""
        lines: dict[tuple[str, str], list[Measurement]] = defaultdict(list)
        for measurement in measurements:
            lines[measurement.metric.dimension, measurement.of].append(measurement)
        for (name, value), group in lines.items():
            dimension = {name: value} if name else {}
            for start in range(0, len(group), MAX_METRIC_VALUES):
                self._print(dimension, group[start : start + MAX_METRIC_VALUES], correlation_id)

    def _print(self, dimension: dict[str, str], measurements: list[Measurement], correlation_id: str) -> None:
        line = self._powertools()
        if line is None:
            return
        metrics: dict[str, dict[str, Any]] = {}
        for measurement in measurements:
            metric = metrics.setdefault(measurement.metric.name, {"Unit": measurement.metric.unit, "Value": []})
            metric["Value"].append(float(measurement.value))
        dimensions = {**dimension, "service": str(line.service)}
        document = line.serialize_metric_set(metrics, dimensions, self._metadata(correlation_id))
        sys.stdout.write(f"{json.dumps(document, separators=(',', ':'))}\n")

    def _metadata(self, correlation_id: str) -> dict[str, str]:
        if self._log_level not in WITHOUT_INFO:
            return {"correlation_id": correlation_id}
        # Lambda treats a line without a level or a timestamp as INFO. A filter for warnings would hide the metrics, and
        # the alarms would stop working.
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return {"correlation_id": correlation_id, "level": str(self._log_level), "timestamp": now}

    def _powertools(self) -> "EphemeralMetrics | None":
        """Return Powertools' serializer; `None` if Powertools' variables disable metrics.

        It serializes whole lines, which is three times as fast as single measurements.
        """
        if self._line is None and not self._is_off:
            from aws_lambda_powertools.metrics import EphemeralMetrics
            from aws_lambda_powertools.metrics.functions import is_metrics_disabled

            self._is_off = is_metrics_disabled()
            self._line = None if self._is_off else EphemeralMetrics(namespace=self._namespace, service=self._service)
        return self._line


class XRayTraces:
    """Sends spans to the X-Ray daemon that Lambda runs.

    Args:
        service: The annotation `Service` of the outermost subsegments.
    """

    def __init__(self, service: str) -> None:
        self._service = service

    def report(self, spans: Iterable[Span], correlation_id: str, *, cold_start: bool) -> None:
        """Send spans. The outermost ones get Powertools' annotations and the correlation id."""
        from aws_lambda_powertools import Tracer

        # A Tracer takes omitted arguments from the last Tracer of the process. This one must patch nothing.
        tracer = Tracer(service=self._service, patch_modules=())
        if tracer.disabled:
            return
        annotations = {"Service": self._service, "ColdStart": cold_start, "correlation_id": correlation_id}
        for span in spans:
            _send(tracer.provider, span, annotations)


def _send(recorder: Any, span: Span, annotations: dict[str, Any]) -> None:
    # X-Ray drops subsegments with other characters, such as the braces of resource templates.
    name = re.sub(_INVALID_IN_NAME, "_", span.name)[:MAX_SPAN_NAME_CHARS]
    subsegment = recorder.begin_subsegment(name, namespace=AWS if span.details else "local")
    if subsegment is None:
        return
    subsegment.start_time = span.began_s
    for key, value in annotations.items():
        subsegment.put_annotation(key, value)
    if span.details:
        subsegment.set_aws(span.details)
    if span.failed:
        subsegment.add_fault_flag()
    for part in span.parts:
        _send(recorder, part, {})
    recorder.end_subsegment(span.ended_s)
