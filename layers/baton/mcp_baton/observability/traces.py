"""Traces through Powertools' Tracer: spans that have ended, as X-Ray subsegments (docs/operating.md).

The subsegments are created from the spans after the response. So a request that X-Ray does not sample costs nothing,
and a sampled one imports Tracer after its response.
"""

import re
from collections.abc import Iterable
from typing import Any

from mcp_baton.telemetry import Span

AWS = "aws"
"""The namespace of AWS calls. X-Ray shows them as separate services."""

NAME_LIMIT = 200
_NOT_IN_A_NAME = r"[^\w\s.:/%&#=+\\@-]"


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
