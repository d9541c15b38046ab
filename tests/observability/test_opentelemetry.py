"""The spans of a function whose layer sets up OpenTelemetry: one trace from the client to the worker."""

import logging
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from mcp_baton import Server, ToolError, ToolStep, Workflow, constant
from mcp_baton.aws import compose
from mcp_baton.observability import PACKAGE, VERBOSE_LOGGERS
from mcp_baton.open_telemetry import OpenTelemetry
from mcp_baton.settings import Settings
from tests.fakes import FunctionContext
from tests.support.background import Queue, created_task, unreachable
from tests.support.client import Answer, Client, Era, Table

TRACE_ID, SPAN_ID = "0af7651916cd43dd8448eb211c80319c", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE_ID}-{SPAN_ID}-01"
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-b7ad6b7169203331-01"
SECRET = "hunter2"

type Tree = dict[str, Any]


@dataclass(frozen=True)
class TracedFunction:
    """A function on Lambda, its queue, and the spans that its layer exports."""

    server: Server
    table: Table
    exporter: InMemorySpanExporter
    queue: Queue = field(default_factory=Queue)

    def handler(self) -> Any:
        settings = Settings(table=self.table.name, observed=True, default_ttl_ms=3_600_000)
        return compose(self.server, settings, connect=lambda: self.table.client, dispatcher=self.queue)

    def client(self, era: Era = "2026") -> Client:
        return Client(self.handler(), "alice", era)

    def work(self) -> None:
        event: Any = self.queue.events.pop(0)
        assert self.handler()(event, FunctionContext(lambda: 60_000))["outcome"] == "completed"

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self.exporter.get_finished_spans()

    def span(self, name: str) -> ReadableSpan:
        [only_span] = [span for span in self.spans if span.name == name]
        return only_span

    def tree(self, parent: str = SPAN_ID) -> list[Tree | str]:
        """Return the names of the spans within a span, in the order of their starts. Check that all are in the client's
        trace."""
        child_spans = [span for span in self.spans if parent_of(span) == parent]
        assert {hex_of(span.context.trace_id, 32) for span in child_spans} <= {TRACE_ID}
        names = [(span.name, self.tree(hex_of(span.context.span_id, 16))) for span in sorted(child_spans, key=start_ns)]
        return [{name: inner} if inner else name for name, inner in names]


def hex_of(number: int, digits: int) -> str:
    return f"{number:0{digits}x}"


def parent_of(span: ReadableSpan) -> str | None:
    return hex_of(span.parent.span_id, 16) if span.parent else None


def start_ns(span: ReadableSpan) -> int:
    return span.start_time or 0


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """The exporter of the operator's layer, which sets up the SDK before the function is imported."""
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    yield exporter
    provider.shutdown()


@pytest.fixture(autouse=True)
def _restored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore the loggers at the end of the test."""
    for name in (PACKAGE, *VERBOSE_LOGGERS):
        for member in ("handlers", "propagate", "level"):
            monkeypatch.setattr(logging.getLogger(name), member, vars(logging.getLogger(name))[member])


@pytest.fixture
def server() -> Server:
    server = Server("shop", version="1.0.0")

    @server.tool
    def find(order: str) -> str:
        """Find an order, in a span of its own."""
        with trace.get_tracer("app").start_as_current_span("own"):
            return order

    @server.tool
    async def refund(order: str) -> str:
        if order == SECRET:
            raise ToolError(f"no order {order}")
        return order

    @server.tool(task="optional")
    def report(month: int) -> str:
        return f"report {month}"

    @server.resource("docs://{topic}")
    def page(topic: str) -> str:
        return topic

    steps = [ToolStep(tool.__name__, tool=tool, arguments={"order": constant("A-1")}) for tool in (find, refund)]
    server.add_workflow(Workflow(name="settle", description="settle an order", steps=steps))
    return server


@pytest.fixture
def function(server: Server, table: Table, exporter: InMemorySpanExporter) -> TracedFunction:
    return TracedFunction(server, table, exporter)


def send(
    client: Client, method: str, params: dict[str, Any], meta: Mapping[str, Any], headers: dict[str, str]
) -> Answer:
    return client.request(method, params, dict(meta), headers)


META_OR_HEADER = pytest.mark.parametrize(
    ("meta", "headers"),
    [
        ({"traceparent": TRACEPARENT}, {}),
        ({}, {"Traceparent": TRACEPARENT}),
        ({"traceparent": TRACEPARENT}, {"Traceparent": PARENT}),
        ({"traceparent": "00-invalid"}, {"Traceparent": TRACEPARENT}),
    ],
    ids=["in _meta", "in the header", "in both", "invalid in _meta"],
)


@META_OR_HEADER
def test_the_spans_of_a_request_its_steps_and_its_store_calls_are_in_the_clients_trace(
    function: TracedFunction, era: Era, meta: dict[str, str], headers: dict[str, str]
) -> None:
    send(function.client(era), "prompts/get", {"name": "settle", "arguments": {}}, meta, headers)
    run = ["DynamoDB.PutItem", {"execute_tool find": ["own"]}, "execute_tool refund", "DynamoDB.UpdateItem"]
    assert function.tree() == [{"prompts/get settle": [{"invoke_workflow settle": run}]}]


@META_OR_HEADER
def test_the_workers_span_is_a_child_of_the_request_that_created_its_task(
    function: TracedFunction, meta: dict[str, str], headers: dict[str, str]
) -> None:
    send(function.client(), "tools/call", {"name": "report", "arguments": {"month": 3}}, meta, headers)
    function.work()
    worker = {"process task": ["DynamoDB.UpdateItem", "execute_tool report", "DynamoDB.UpdateItem"]}
    assert function.tree() == [{"tools/call report": ["DynamoDB.PutItem", worker]}]
    assert function.span("process task").kind is SpanKind.CONSUMER


def test_an_event_that_a_poll_dispatches_again_names_the_request_that_created_the_task(
    function: TracedFunction, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = function.client()
    params = {"name": "report", "arguments": {"month": 3}}
    task = created_task(send(client, "tools/call", params, {"traceparent": TRACEPARENT}, {}))["taskId"]
    function.queue.lose()
    function.table.replace({**function.table.item(task), "due": {"N": "1"}})
    client.request("tasks/get", {"taskId": task}, {"traceparent": PARENT})
    function.work()
    request = function.span("tools/call report")
    assert request.context
    assert parent_of(function.span("process task")) == hex_of(request.context.span_id, 16)


def test_spans_have_the_attributes_of_the_semantic_conventions(function: TracedFunction) -> None:
    client = function.client()
    client.call_tool("find", {"order": "A-1"})
    client.get_prompt("settle")
    request, tool = function.span("tools/call find"), function.spans[1]
    assert (request.kind, request.status.status_code) == (SpanKind.SERVER, StatusCode.UNSET)
    assert dict(request.attributes or {}) == {
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": "2026-07-28",
        "jsonrpc.request.id": "1",
        "baton.correlation_id": "api-1",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "find",
    }
    assert (tool.name, tool.kind) == ("execute_tool find", SpanKind.INTERNAL)
    assert dict(tool.attributes or {}) == {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find"}
    assert (function.span("prompts/get settle").attributes or {})["gen_ai.prompt.name"] == "settle"
    workflow = function.span("invoke_workflow settle").attributes
    assert workflow == {"gen_ai.operation.name": "invoke_workflow", "gen_ai.workflow.name": "settle"}
    write = function.span("DynamoDB.PutItem")
    assert write.kind is SpanKind.CLIENT
    assert dict(write.attributes or {}) == {
        "rpc.system": "aws-api",
        "rpc.service": "DynamoDB",
        "rpc.method": "PutItem",
        "db.system.name": "aws.dynamodb",
        "aws.dynamodb.table_names": (function.table.name,),
    }


@pytest.mark.parametrize(
    "traceparent",
    [
        "",
        "00-0-0-01",
        f"00-{'0' * 32}-{SPAN_ID}-01",
        f"ff-{TRACE_ID}-{SPAN_ID}-01",
        TRACEPARENT.upper(),
        7,
        [TRACEPARENT],
    ],
)
def test_an_invalid_traceparent_is_ignored(function: TracedFunction, traceparent: object) -> None:
    headers = {"Traceparent": str(traceparent)}
    answer = send(
        function.client(),
        "tools/call",
        {"name": "find", "arguments": {"order": "A"}},
        {"traceparent": traceparent},
        headers,
    )
    assert answer.result["structuredContent"] == {"result": "A"}
    request = function.span("tools/call find")
    assert (request.parent, list(request.links)) == (None, [])


def test_the_lambda_handlers_span_is_linked_and_is_the_parent_of_requests_without_a_traceparent(
    function: TracedFunction,
) -> None:
    client, find = function.client(), {"name": "find", "arguments": {"order": "A"}}
    with trace.get_tracer("lambda").start_as_current_span("handler") as root:
        send(client, "tools/call", find, {"traceparent": TRACEPARENT}, {})
        send(client, "tools/call", find, {}, {})
    first_span, second_span = [span for span in function.spans if span.name == "tools/call find"]
    assert (parent_of(first_span), [link.context for link in first_span.links]) == (SPAN_ID, [root.get_span_context()])
    assert (second_span.parent, list(second_span.links)) == (root.get_span_context(), [])


def test_spans_record_the_types_of_errors_and_no_arguments_results_or_messages(function: TracedFunction) -> None:
    client = function.client("2025")
    assert client.call_tool("find", {"order": SECRET}).result["structuredContent"] == {"result": SECRET}
    assert client.call_tool("refund", {"order": SECRET}).result["isError"]
    assert client.call_tool(SECRET).error
    assert client.request("resources/read", {"uri": f"docs://{SECRET}"}).result
    assert client.request(f"tools/{SECRET}").error
    assert SECRET not in "".join(span.to_json() for span in function.spans)
    kinds = [(span.name, (span.attributes or {}).get("error.type"), span.status.is_ok) for span in function.spans]
    assert [kind for kind in kinds if kind[0] != "own"] == [
        ("execute_tool find", None, True),
        ("tools/call find", None, True),
        ("execute_tool refund", "tool_error", False),
        ("tools/call refund", "tool_error", False),
        ("tools/call", "-32602", False),
        ("resource docs://{topic}", None, True),
        ("resources/read", None, True),
        ("_OTHER", "-32601", False),
    ]


def test_the_span_of_a_failed_store_call_has_an_error(function: TracedFunction) -> None:
    client = function.client()
    task = client.get_prompt("settle").task_id
    client.task("get", task)
    with unreachable(function.table.client, "GetItem"):
        client.task("get", task)
    first, *spans = [span for span in function.spans if span.name == "DynamoDB.GetItem"]
    assert first.status.is_ok
    assert {(span.status.is_ok, (span.attributes or {}).get("error.type")) for span in spans} == {(False, "_OTHER")}


def test_store_calls_are_left_to_the_layers_own_instrumentation(
    function: TracedFunction, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "opentelemetry.instrumentation.botocore"
    monkeypatch.setitem(sys.modules, name, ModuleType(name))
    function.client().get_prompt("settle", meta={"traceparent": TRACEPARENT})
    run = [{"execute_tool find": ["own"]}, "execute_tool refund"]
    assert function.tree() == [{"prompts/get settle": [{"invoke_workflow settle": run}]}]


@pytest.mark.parametrize("is_sampled", [True, False])
def test_spans_go_to_x_ray_if_only_the_opentelemetry_api_is_installed(
    server: Server, table: Table, monkeypatch: pytest.MonkeyPatch, is_sampled: bool
) -> None:
    span_names: list[str] = []
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setenv("_X_AMZN_TRACE_ID", f"Root=1-67891233-abcdef012345678912345678;Sampled={int(is_sampled)}")
    monkeypatch.setattr(
        "mcp_baton.observability.XRayTraces.report",
        lambda _, spans, *_ids, **_more: span_names.extend(span.name for span in spans),
    )
    function = TracedFunction(server, table, InMemorySpanExporter())
    answer = send(
        function.client(), "tools/call", {"name": "report", "arguments": {"month": 3}}, {"traceparent": PARENT}, {}
    )
    assert "traceparent" not in str(function.queue.events)
    assert "traceparent" not in str(table.item(created_task(answer)["taskId"]))
    function.work()
    assert span_names == (["DynamoDB", "DynamoDB", "tool report", "DynamoDB"] if is_sampled else [])


def test_with_opentelemetry_no_span_goes_to_x_ray(function: TracedFunction, monkeypatch: pytest.MonkeyPatch) -> None:
    reports: list[object] = []
    monkeypatch.setenv("_X_AMZN_TRACE_ID", "Root=1-67891233-abcdef012345678912345678;Sampled=1")
    monkeypatch.setattr("mcp_baton.observability.XRayTraces.report", lambda *arguments, **_: reports.append(arguments))
    function.client().get_prompt("settle")
    assert (reports, len(function.spans)) == ([], 7)


def test_the_span_of_an_aws_call_has_its_duration(exporter: InMemorySpanExporter) -> None:
    OpenTelemetry().add_request("S3", "GetObject", 0.5, failed=False, bucket_name="values")
    [span] = exporter.get_finished_spans()
    assert span.name == "S3.GetObject"
    assert 0.5 <= ((span.end_time or 0) - start_ns(span)) / 1e9 < 5


def test_a_function_without_the_sdk_does_not_import_the_api() -> None:
    code = (
        "import sys; from mcp_baton import Server; from mcp_baton.aws import compose;"
        "from mcp_baton.settings import Settings;"
        "compose(Server('shop'), Settings(observed=True));"
        "print([name for name in sys.modules if 'telemetry' in name])"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert process.stdout.strip() == "['mcp_baton.telemetry']"
