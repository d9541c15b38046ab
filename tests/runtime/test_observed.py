"""Logs, metrics and traces of a function in its own process, as Lambda and the X-Ray daemon receive them."""

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from emulators.delivery import PATIENCE_S
from emulators.runtime_api import RuntimeApi
from mcp_baton.local.dynamodb import LOCAL_REGION, create_table, http_client
from mcp_baton.tasks.ids import new_task_id
from tests.runtime.conftest import Function, Start

TABLES = count(1)
TRACE = "Root=1-67891233-abcdef012345678912345678;Parent=463ac35c9f6413ad;Sampled={}"


@dataclass(frozen=True, slots=True)
class WatchedFunction:
    """The function `watched`, with its logs and metrics."""

    api: RuntimeApi
    function: Function

    def request(self, method: str, request_id: str = "gateway-1", sampled: int = 0, **params: Any) -> Any:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        event = {
            "resource": "/mcp",
            "path": "/mcp",
            "httpMethod": "POST",
            "headers": {"Content-Type": "application/json"},
            "requestContext": {"requestId": request_id, "authorizer": {"claims": {"sub": "kim"}}},
            "body": body,
        }
        headers = {"Lambda-Runtime-Trace-Id": TRACE.format(sampled)}
        return json.loads(self.api.invoke(event, headers=headers).wait().streamed)

    def call(self, tool: str, request_id: str = "gateway-1", sampled: int = 0, **arguments: Any) -> Any:
        answer = self.request("tools/call", request_id, sampled, name=tool, arguments=arguments)
        return answer["result"]

    def lines(self) -> list[Any]:
        """Return the JSON objects that the function has printed, after it has finished its deferred work."""
        self.api.polled.clear()
        self.request("ping")
        assert self.api.polled.wait(PATIENCE_S)
        return [json.loads(line) for line in self.function.log.read_text().splitlines() if line.startswith("{")]

    def metrics(self) -> dict[str, dict[tuple[str, str], Any]]:
        """Return the printed metrics by request: values by name and value of the dimension."""
        metrics: dict[str, dict[tuple[str, str], Any]] = {}
        for line in self.lines():
            for directive in line.get("_aws", {}).get("CloudWatchMetrics", ()):
                [dimensions] = directive["Dimensions"]
                dimension = "".join(line[name] for name in dimensions if name != "service")
                values = {(metric["Name"], dimension): line[metric["Name"]] for metric in directive["Metrics"]}
                metrics.setdefault(line["correlation_id"], {}).update(values)
        return metrics


type Watch = Callable[..., WatchedFunction]


@pytest.fixture
def watch(api: RuntimeApi, start: Start, ministack_url: str) -> Watch:
    """Start the function with the environment that the template gives it. Keywords are more variables."""

    def begin(handler: str = "watched.lambda_handler", **environment: str) -> WatchedFunction:
        table = f"watched-{next(TABLES)}"
        with closing(http_client(ministack_url)) as client:
            create_table(client, table)
        variables = {
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_DEFAULT_REGION": LOCAL_REGION,
            "AWS_ENDPOINT_URL_DYNAMODB": ministack_url,
            "AWS_LAMBDA_FUNCTION_NAME": "watched",
            "AWS_LAMBDA_LOG_FORMAT": "JSON",
            "AWS_LAMBDA_LOG_LEVEL": "INFO",
            "AWS_SECRET_ACCESS_KEY": "test",
            "BATON_ALLOW_ANONYMOUS": "on",
            "BATON_TABLE": table,
            "LAMBDA_TASK_ROOT": "/var/task",
            "POWERTOOLS_SERVICE_NAME": "shop",
        }
        return WatchedFunction(api, start(handler, **variables | environment))

    return begin


@pytest.fixture
def daemon() -> Iterator[socket.socket]:
    """An X-Ray daemon that records what it receives."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.settimeout(PATIENCE_S)
        yield listener


def address(daemon: socket.socket) -> str:
    return "{}:{}".format(*daemon.getsockname())


def received(daemon: socket.socket) -> dict[str, Any]:
    _, _, document = daemon.recv(65_536).partition(b"\n")
    subsegment: dict[str, Any] = json.loads(document)
    return subsegment


def unrecorded(function: WatchedFunction, request_id: str) -> None:
    """Call a tool for a task that does not exist, or that cannot be read."""
    task = {"_task_id": new_task_id(1_795_000_000_000)}
    answer = function.request("tools/call", request_id, name="add", arguments={"left": 1, "right": 2}, _meta=task)
    assert answer["result"]["_meta"]["recorded"] is False


def test_runs_are_counted_by_request_even_at_log_level_error(watch: Watch) -> None:
    function = watch(AWS_LAMBDA_LOG_LEVEL="ERROR", POWERTOOLS_METRICS_NAMESPACE="Own")
    for name in ("sums", "again", "sum"):
        function.request("prompts/get", name, name=name)
    unrecorded(function, "no such task")

    metrics = function.metrics()
    latencies = {name: metrics["sums"].pop(("StoreLatency", name)) for name in ("PutItem", "UpdateItem")}
    assert all(value > 0 for [value] in latencies.values())
    assert metrics["sums"] == {("StepsRun", ""): [2.0], ("StepsFailed", ""): [1.0], ("Pauses", "toolError"): [1.0]}
    assert (metrics["again"]["StepRetries", ""], metrics["again"]["StepsFailed", ""]) == ([3.0], [1.0])
    counts = {name: value for (name, dimension), value in metrics["sum"].items() if not dimension}
    assert counts == {"StepsRun": [1.0], "RunsCompleted": [1.0]}
    assert ("RecordingsLost", "") not in metrics["no such task"]
    lines = [line for line in function.lines() if "_aws" in line]
    assert {line["_aws"]["CloudWatchMetrics"][0]["Namespace"] for line in lines} == {"Own"}
    assert {(line["service"], line["level"], line["timestamp"][-1]) for line in lines} == {("shop", "ERROR", "Z")}


def test_a_request_without_metrics_or_traces_does_not_load_powertools(watch: Watch) -> None:
    function = watch(BATON_ALLOW_ANONYMOUS="off")
    for sampled in (0, 1):
        function.request("tools/list", sampled=sampled)
    assert function.call("loaded")["structuredContent"] == {"result": []}
    function.request("prompts/get", name="sum")
    assert function.call("loaded")["structuredContent"] == {"result": ["aws_lambda_powertools"]}


def test_an_internal_error_is_counted_and_logged_under_the_id_in_the_reply(watch: Watch) -> None:
    function = watch("watched.faulty_handler")
    answer = function.request("tools/list", "gateway-9")
    assert answer["error"]["data"] == {"correlationId": "gateway-9"}
    [entry] = [line for line in function.lines() if line.get("level") == "ERROR"]
    assert entry["correlation_id"] == "gateway-9"
    assert entry["function_request_id"].startswith("00000000-0000-4000-8000-")
    assert (entry["service"], entry["cold_start"]) == ("shop", True)
    assert entry["xray_trace_id"] == "1-67891233-abcdef012345678912345678"
    assert entry["timestamp"].endswith(("Z", "+00:00"))
    assert "an unexpected \ud800 error" in entry["exception"]
    assert function.metrics() == {"gateway-9": {("InternalErrors", ""): [1.0]}}


def test_store_errors_and_lost_recordings_are_counted(watch: Watch) -> None:
    function = watch(AWS_ENDPOINT_URL_DYNAMODB="http://127.0.0.1:9")
    function.request("prompts/get", "run", name="sum")
    unrecorded(function, "call")
    metrics = function.metrics()
    counts = {name: value for (name, dimension), value in metrics["run"].items() if not dimension}
    assert counts == {"StoreErrors": [1.0], "StepsRun": [1.0], "RunsCompleted": [1.0], "RecordingsLost": [1.0]}
    assert metrics["call"]["RecordingsLost", ""] == [1.0]


def test_a_tools_powertools_logs_have_the_correlation_id(watch: Watch) -> None:
    function = watch()
    function.request("prompts/get", "gateway-1", name="sum")
    function.call("say", "gateway-2", text="hello")
    function.call("say", "gateway-3", text="goodbye")
    entries = {line["message"]: line for line in function.lines() if "message" in line}
    assert (entries["hello"]["correlation_id"], entries["hello"]["cold_start"]) == ("gateway-2", False)
    assert entries["goodbye"]["correlation_id"] == "gateway-3"
    assert entries["goodbye"]["function_request_id"] != entries["hello"]["function_request_id"]


def test_a_process_with_provisioned_concurrency_has_no_cold_start(watch: Watch) -> None:
    function = watch("watched.faulty_handler", AWS_LAMBDA_INITIALIZATION_TYPE="provisioned-concurrency")
    function.request("tools/list")
    assert [line["cold_start"] for line in function.lines() if line.get("level") == "ERROR"] == [False]


def test_missing_settings_are_logged_once_after_the_response(watch: Watch) -> None:
    function = watch(BATON_TABLE="")
    assert function.call("loaded", "gateway-1")["structuredContent"] == {"result": []}
    function.request("tools/list", "gateway-2")
    warnings = [line for line in function.lines() if line.get("level") == "WARNING"]
    assert [(line["message"].split(" is ")[0], line["correlation_id"]) for line in warnings] == [
        ("BATON_ALLOW_ANONYMOUS", "gateway-1"),
        ("BATON_TABLE", "gateway-1"),
    ]


def test_no_log_level_writes_credentials_or_values(watch: Watch) -> None:
    function = watch(AWS_LAMBDA_LOG_LEVEL="DEBUG", AWS_SESSION_TOKEN="a-session-token")
    function.request("prompts/get", name="sums")
    assert any("_aws" in line for line in function.lines())
    log = function.function.log.read_text()
    assert [word for word in ("a-session-token", "_workflow.", "X-Amz-Target") if word in log] == []


def test_a_sampled_run_is_traced_with_its_tools_and_requests(watch: Watch, daemon: socket.socket) -> None:
    function = watch(AWS_XRAY_DAEMON_ADDRESS=address(daemon))
    function.request("prompts/get", "gateway-3", 1, name="sums")
    subsegments: dict[str, Any] = {}
    requests: list[str] = []
    while "workflow sums" not in subsegments:
        subsegment = received(daemon)
        subsegments[subsegment["name"]] = subsegment
        if subsegment["name"] == "DynamoDB":
            requests.append(subsegment["aws"]["operation"])
    workflow, tool, request = subsegments["workflow sums"], subsegments["tool refuse"], subsegments["DynamoDB"]
    assert workflow["trace_id"] == "1-67891233-abcdef012345678912345678"
    assert workflow["parent_id"] == "463ac35c9f6413ad"
    assert workflow["annotations"] == {"Service": "shop", "ColdStart": True, "correlation_id": "gateway-3"}
    assert (tool["parent_id"], request["parent_id"]) == (workflow["id"], workflow["id"])
    assert workflow["start_time"] <= tool["start_time"] <= tool["end_time"] <= workflow["end_time"]
    assert (tool.get("fault"), workflow.get("fault")) == (True, None)
    assert request["namespace"] == "aws"
    assert requests == ["PutItem", "UpdateItem"]


def test_a_request_that_is_not_sampled_is_not_traced(watch: Watch, daemon: socket.socket) -> None:
    function = watch(AWS_XRAY_DAEMON_ADDRESS=address(daemon))
    function.call("add", left=1, right=2)
    function.call("add", sampled=1, left=3, right=4)
    function.lines()
    assert received(daemon)["name"] == "tool add"
    daemon.setblocking(False)
    with pytest.raises(BlockingIOError):
        daemon.recv(65_536)


def test_deferred_work_runs_after_the_response_and_may_fail(api: RuntimeApi, start: Start, gate: Path) -> None:
    function = start("watched.left", AWS_LAMBDA_FUNCTION_NAME="")
    for event in ({}, {"gate": str(gate), "text": "later"}):
        assert api.invoke(event).wait().json() == {"answered": True}
    assert gate.read_text() == "later"
    assert "the work failed" in function.log.read_text()
