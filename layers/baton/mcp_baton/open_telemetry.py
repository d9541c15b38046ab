"""Spans of OpenTelemetry, if the operator's layer brings its SDK (docs/operating.md, OpenTelemetry).

Names and attributes follow the semantic conventions for MCP, generative AI and the AWS SDK, without arguments, results,
URIs and error messages. Spans are not delayed until the response is sent, so they can be parents of others.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

from mcp_baton.exceptions import ProtocolError
from mcp_baton.telemetry import Collector, Span

OPERATIONS: Final = {"tool": "execute_tool", "workflow": "invoke_workflow"}
"""GenAI's names of operations, by the first word of a span's name."""

AWS_INSTRUMENTATION: Final = "opentelemetry.instrumentation.botocore"
"""If this module is loaded, it creates the spans of AWS calls."""


class OpenTelemetry(Collector):
    """A collector with spans of OpenTelemetry. X-Ray gets none."""

    def __init__(self) -> None:
        super().__init__()
        from opentelemetry import trace
        from opentelemetry.context import Context
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._api, self._new_context, self._format = trace, Context, TraceContextTextMapPropagator()
        self._start = trace.get_tracer("mcp_baton").start_span

    def begin(self, on_correlate: Callable[[str], None], *, traced: bool = True) -> None:  # noqa: ARG002 - the SDK samples
        super().begin(on_correlate, traced=False)

    def receive(self, name: str, *senders: Mapping[str, object], **details: str) -> AbstractContextManager[Span]:
        outer = self._api.get_current_span().get_span_context()
        sender = next(filter(None, map(self._sender, senders)), None)
        links = [self._api.Link(outer)] if sender and outer.is_valid else []
        kind = self._api.SpanKind.SERVER if details else self._api.SpanKind.CONSUMER
        return self._open(self._start(name, sender, kind, details, links))

    def span(self, name: str, **details: str) -> AbstractContextManager[Span]:
        if details:
            is_double = AWS_INSTRUMENTATION in sys.modules
            return super().span(name) if is_double else self._open(self._start_call(name, details), "_OTHER")
        kind, _, target = name.partition(" ")
        if kind not in OPERATIONS:
            return self._open(self._start(name))
        attributes = {"gen_ai.operation.name": OPERATIONS[kind], f"gen_ai.{kind}.name": target}
        return self._open(self._start(f"{OPERATIONS[kind]} {target}", attributes=attributes))

    def add_request(self, service: str, operation: str, took_s: float, *, failed: bool, **details: str) -> None:
        super().add_request(service, operation, took_s, failed=failed, **details)
        if AWS_INSTRUMENTATION not in sys.modules:
            began_ns = time.time_ns() - round(took_s * 1e9)
            with self._open(self._start_call(service, {"operation": operation, **details}, began_ns), "_OTHER") as span:
                span.failed = failed

    def traceparent(self) -> str:
        carrier: dict[str, str] = {}
        self._format.inject(carrier)
        return carrier.get("traceparent", "")

    def _sender(self, members: Mapping[str, object]) -> Any:
        """Return the context of the sender's span. It is empty if `members` has no valid one."""
        carrier = {name: value for name in self._format.fields if isinstance(value := members.get(name), str)}
        return self._format.extract(carrier, self._new_context())

    def _start_call(self, service: str, details: Mapping[str, str], began_ns: int | None = None) -> Any:
        operation, kind = details["operation"], self._api.SpanKind.CLIENT
        attributes: dict[str, Any] = {"rpc.system": "aws-api", "rpc.service": service, "rpc.method": operation}
        if service == "DynamoDB":
            attributes |= {"db.system.name": "aws.dynamodb", "aws.dynamodb.table_names": [details["table_name"]]}
        return self._start(f"{service}.{operation}", kind=kind, attributes=attributes, start_time=began_ns)

    @contextmanager
    def _open(self, live: Any, failure: str = "tool_error") -> Iterator[Span]:
        span = Span("", {}, 0.0)
        with self._api.use_span(live, end_on_exit=True, record_exception=False, set_status_on_exception=False):
            try:
                yield span
            except BaseException as error:
                failure = str(error.code) if isinstance(error, ProtocolError) else type(error).__qualname__
                span.failed = True
                raise
            finally:
                if span.failed:
                    live.set_attribute("error.type", failure)
                    live.set_status(self._api.StatusCode.ERROR)
