"""Traces through Powertools' Tracer: spans that have ended, as X-Ray subsegments (docs/operating.md).

They are made after the fact, from spans. So a request that X-Ray does not sample costs nothing, and one that it does
pays for Tracer's import when its answer is on its way.
"""

import re
from collections.abc import Iterable
from typing import Any

from mcp_baton.telemetry import Span

AWS = "aws"
"""The namespace of calls of AWS services, which X-Ray's maps show as services of their own."""

NAME_LIMIT = 200
_NOT_IN_A_NAME = r"[^\w\s.:/%&#=+\\@-]"


class XRayTraces:
    """Sends spans to the X-Ray daemon that Lambda runs.

    Args:
        service: Every outermost subsegment's annotation `Service`.
    """

    def __init__(self, service: str) -> None:
        self._service = service

    def report(self, spans: Iterable[Span], correlation_id: str, *, cold_start: bool) -> None:
        """Send these spans, the outermost with Powertools' annotations and the request's id."""
        from aws_lambda_powertools import Tracer

        # Patches nothing, and leaves it to others whether theirs do: a Tracer takes what it is not told from the last.
        tracer = Tracer(service=self._service, patch_modules=())
        if tracer.disabled:
            return
        annotations = {"Service": self._service, "ColdStart": cold_start, "correlation_id": correlation_id}
        for span in spans:
            _send(tracer.provider, span, annotations)


def _send(recorder: Any, span: Span, annotations: dict[str, Any]) -> None:
    # X-Ray drops a subsegment for its name: resources are named by templates, which have braces.
    name = re.sub(_NOT_IN_A_NAME, "_", span.name)[:NAME_LIMIT]
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
