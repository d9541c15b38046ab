"""Metrics through Powertools: lines in CloudWatch's embedded metric format on standard output (docs/operating.md)."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from mcp_baton.telemetry import Measurement

if TYPE_CHECKING:
    from aws_lambda_powertools.metrics import EphemeralMetrics

type Dimension = tuple[str, str]

WITHOUT_INFO = frozenset({"WARN", "WARNING", "ERROR", "FATAL", "CRITICAL"})
"""Log levels that keep back what counts as INFO."""

MAX_VALUES = 99
"""Values in one line. At the 100 that CloudWatch reads, Powertools prints by itself, and forgets the dimensions."""


class EmbeddedMetrics:
    """Prints measurements, each set of dimensions in lines of its own.

    Args:
        namespace: The metrics' namespace in CloudWatch.
        service: The value of the dimension `service`.
        log_level: The least severe level of log lines that Lambda lets through; `None` where it looks at none.
    """

    def __init__(self, namespace: str, service: str, log_level: str | None) -> None:
        self._namespace = namespace
        self._service = service
        self._log_level = log_level
        self._line: EphemeralMetrics | None = None

    def report(self, measurements: Iterable[Measurement], correlation_id: str) -> None:
        """Print these measurements, with the request's id as a property."""
        lines: dict[Dimension, list[Measurement]] = defaultdict(list)
        for measurement in measurements:
            lines[measurement.metric.dimension, measurement.of].append(measurement)
        for dimension, found in lines.items():
            for start in range(0, len(found), MAX_VALUES):
                self._print(dimension, found[start : start + MAX_VALUES], correlation_id)

    def _print(self, dimension: Dimension, measurements: list[Measurement], correlation_id: str) -> None:
        line = self._empty_line()
        try:
            self._fill(line, dimension, measurements, correlation_id)
            line.flush_metrics()
        finally:
            line.clear_metrics()  # printed or not, it is not for the next line

    def _fill(
        self, line: "EphemeralMetrics", dimension: Dimension, measurements: list[Measurement], correlation_id: str
    ) -> None:
        name, value = dimension
        if name:
            line.add_dimension(name, value)
        line.add_metadata("correlation_id", correlation_id)
        if self._log_level in WITHOUT_INFO:
            # A line without a level counts as INFO, and one without a time too: where only warnings are let through,
            # metrics would stop, and with them the alarms.
            line.add_metadata("level", self._log_level)
            line.add_metadata("timestamp", datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"))
        for measurement in measurements:
            line.add_metric(measurement.metric.name, measurement.metric.unit, measurement.value)

    def _empty_line(self) -> "EphemeralMetrics":
        """The same one each time, empty: to make one takes as long as to print it."""
        if self._line is None:
            from aws_lambda_powertools.metrics import EphemeralMetrics

            self._line = EphemeralMetrics(namespace=self._namespace, service=self._service)
        return self._line
