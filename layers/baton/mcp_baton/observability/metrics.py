"""Metrics through Powertools: lines in CloudWatch's embedded metric format on standard output (docs/operating.md)."""

import json
import sys
from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from mcp_baton.telemetry import Measurement

if TYPE_CHECKING:
    from aws_lambda_powertools.metrics import EphemeralMetrics

type Dimension = tuple[str, str]

WITHOUT_INFO = frozenset({"WARN", "WARNING", "ERROR", "FATAL", "CRITICAL"})
"""Log levels that hide INFO lines."""

MAX_VALUES = 99
"""Values in one line. CloudWatch accepts 100 values of a metric."""


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
        lines: dict[Dimension, list[Measurement]] = defaultdict(list)
        for measurement in measurements:
            lines[measurement.metric.dimension, measurement.of].append(measurement)
        for dimension, found in lines.items():
            for start in range(0, len(found), MAX_VALUES):
                self._print(dimension, found[start : start + MAX_VALUES], correlation_id)

    def _print(self, dimension: Dimension, measurements: list[Measurement], correlation_id: str) -> None:
        line = self._powertools()
        if line is None:
            return
        name, value = dimension
        metrics: dict[str, dict[str, Any]] = {}
        for each in measurements:
            metric = metrics.setdefault(each.metric.name, {"Unit": each.metric.unit, "Value": []})
            metric["Value"].append(float(each.value))
        dimensions = {**({name: value} if name else {}), "service": str(line.service)}
        text = _text(line.serialize_metric_set(metrics, dimensions, self._metadata(correlation_id)))
        sys.stdout.write(f"{text}\n")

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


_text = json.JSONEncoder(separators=(",", ":")).encode
