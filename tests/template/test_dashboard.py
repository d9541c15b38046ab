"""`Dashboard=on`: a CloudWatch dashboard of the stack's metrics."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from costs import prices
from mcp_baton import telemetry
from tests.template.cloudformation import PSEUDO, Stack
from tests.template.conftest import ROOT, MakeStack

OPERATING = (ROOT / "docs" / "operating.md").read_text()
DOCUMENTED = set(re.findall(r"^\| `(\w+)` \| (?:count|ms) \|", OPERATING, re.MULTILINE))
API = {"ApiName": PSEUDO["AWS::StackName"], "Stage": "v1"}
FUNCTIONS = ({"FunctionName": "${McpFunction}"}, {"FunctionName": "${WorkerFunction}"})
TABLE = {"TableName": "${TaskTable}"}
UNITS = {"ConsumedReadCapacityUnits", "ConsumedWriteCapacityUnits"}
AWS_METRICS = {
    "AWS/ApiGateway": ({"Count", "4XXError", "5XXError", "Latency", "IntegrationLatency"}, (API,)),
    "AWS/Lambda": ({"Duration", "Errors", "Throttles", "Invocations", "ConcurrentExecutions"}, FUNCTIONS),
    "AWS/DynamoDB": (UNITS, (TABLE, {**TABLE, "GlobalSecondaryIndexName": "lists"})),
    "AWS/SQS": ({"ApproximateNumberOfMessagesVisible"}, ({"QueueName": "${DeadLetterQueue.QueueName}"},)),
}
"""The metrics of these services, and the dimensions of those that the dashboard shows."""
SEARCH = re.compile(r"SEARCH\('\{Baton,service,(\w+)\} MetricName=\"(\w+)\" service=\"([^\"]+)\"', '\w+', 300\)")
GRID_COLUMNS = 24
DAY_S = 24 * 3600
X86_GB_SECOND = 16.6667
"""Dollars, a million GB-seconds on x86_64: https://aws.amazon.com/lambda/pricing/"""


@pytest.fixture(scope="module")
def dashboard_stack(stack: MakeStack) -> Stack:
    return stack(Dashboard="on")


@pytest.fixture(scope="module")
def widgets(dashboard_stack: Stack) -> list[Any]:
    return widgets_of(dashboard_stack)


def widgets_of(stack: Stack) -> list[Any]:
    widgets: list[Any] = json.loads(stack.single("AWS::CloudWatch::Dashboard")["DashboardBody"])["widgets"]
    return widgets


def rows(widgets: list[Any]) -> Iterator[list[Any]]:
    for widget in widgets:
        yield from widget["properties"]["metrics"]


def plotted_metrics(widgets: list[Any]) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Yield the namespace, name and dimensions of each metric that is named."""
    for namespace, name, *rest in (row for row in rows(widgets) if isinstance(row[0], str)):
        pairs = [part for part in rest if isinstance(part, str)]
        yield namespace, name, dict(zip(pairs[::2], pairs[1::2], strict=True))


def searched_metrics(widgets: list[Any]) -> dict[str, str]:
    """Return the metrics that are searched for, each with the dimension that has a line per value."""
    expressions = [row[0]["expression"] for row in rows(widgets) if isinstance(row[0], dict)]
    matches = [SEARCH.fullmatch(expression) for expression in expressions if expression.startswith("SEARCH")]
    assert all(match and match[3] == PSEUDO["AWS::StackName"] for match in matches)
    return {match[2]: match[1] for match in matches if match}


def test_there_is_no_dashboard_by_default(default: Stack) -> None:
    assert default.of_type("AWS::CloudWatch::Dashboard") == []


def test_stacks_of_two_regions_have_two_dashboards(dashboard_stack: Stack) -> None:
    name = dashboard_stack.single("AWS::CloudWatch::Dashboard")["DashboardName"]
    assert name == f"{PSEUDO['AWS::StackName']}-{PSEUDO['AWS::Region']}"


def test_every_metric_exists_and_belongs_to_this_stack(widgets: list[Any]) -> None:
    assert len(DOCUMENTED) > 10
    for namespace, name, dimensions in plotted_metrics(widgets):
        if namespace == "Baton":
            assert name in DOCUMENTED
            assert dimensions == {"service": PSEUDO["AWS::StackName"]}, name
        else:
            names, owners = AWS_METRICS[namespace]
            assert name in names
            assert dimensions in owners, name


def test_a_metric_with_its_own_dimension_has_a_line_for_each_value(widgets: list[Any]) -> None:
    metrics = [metric for metric in vars(telemetry).values() if isinstance(metric, telemetry.Metric)]
    dimensions = {metric.name: metric.dimension for metric in metrics if metric.dimension}

    assert searched_metrics(widgets) == dimensions
    assert searched_metrics(widgets).keys() <= DOCUMENTED
    # CloudWatch has no such metric without the dimension.
    assert not {name for _, name, _ in plotted_metrics(widgets)} & dimensions.keys()


def test_it_shows_the_metrics_that_operators_need(widgets: list[Any]) -> None:
    assert {name for _, name, _ in plotted_metrics(widgets)} | searched_metrics(widgets).keys() >= {
        *("Count", "Latency", "Throttles", "ApproximateNumberOfMessagesVisible"),
        *("RunsCompleted", "Pauses", "StoreErrors", "DispatchesFailed"),
        *("TasksClaimedAgain", "TasksGivenUp", "WakeUpDelay", "ApprovalAge"),
    }


def dollars_a_day(stack: Stack, period_s: int, **sums: float) -> dict[str, float]:
    """The lines of the graph of the costs, each with its value for these sums of a period."""
    graphs = [widget["properties"] for widget in widgets_of(stack)]
    [graph] = [graph for graph in graphs if graph["title"] == "Cost (dollars a day)"]
    metrics = {row[-1]["id"]: 0.0 for row in graph["metrics"] if isinstance(row[0], str)}
    assert sums.keys() <= metrics.keys()
    variables = {**metrics, **sums, "PERIOD": lambda _: period_s}
    lines = [row[0] for row in graph["metrics"] if isinstance(row[0], dict)]
    return {line["label"]: eval(line["expression"], variables) for line in lines}  # noqa: S307 - the template's arithmetic


@pytest.mark.parametrize(
    ("parameters", "gb", "worker_gb", "gb_second"),
    [
        ({}, 0.5, 0.5, prices.GB_SECOND),
        ({"MemorySize": "1024", "WorkerMemorySize": "2048"}, 1, 2, prices.GB_SECOND),
        ({"Architecture": "x86_64"}, 0.5, 0.5, X86_GB_SECOND),
    ],
)
def test_the_costs_follow_from_the_prices(
    stack: MakeStack, parameters: dict[str, str], gb: float, worker_gb: float, gb_second: float
) -> None:
    variant, million = stack(Dashboard="on", **parameters), prices.MILLION
    sums = {"requests": 3 * million, "writes": 2 * million, "reads": 3 * million, "listed": 4 * million}
    times = {"calls": 5 * million, "ms": 7_000 * million, "attempts": 11 * million, "workerMs": 13_000 * million}
    hour = dollars_a_day(variant, 3600, **sums, **times, swept=6 * million)

    expected = {
        "API Gateway": 3 * prices.API_REQUEST,
        "Function": 5 * prices.LAMBDA_REQUEST + 7 * gb * gb_second,
        "Worker": 11 * prices.LAMBDA_REQUEST + 13 * worker_gb * gb_second,
        "Table, writes": 2 * prices.WRITE_UNIT,
        "Table, reads": 3 * prices.READ_UNIT,
        "Index, writes": 4 * prices.WRITE_UNIT,
        "Index, reads": 6 * prices.READ_UNIT,
    }
    assert hour == pytest.approx({label: 24 * dollars for label, dollars in expected.items()})


def test_the_costs_are_a_rate_whatever_period_cloudwatch_chooses(dashboard_stack: Stack) -> None:
    assert dollars_a_day(dashboard_stack, DAY_S, requests=1e6)["API Gateway"] == pytest.approx(prices.API_REQUEST)
    assert dollars_a_day(dashboard_stack, 3600, requests=1e6)["API Gateway"] == pytest.approx(24 * prices.API_REQUEST)


def test_the_graphs_do_not_overlap_and_read_this_region(widgets: list[Any]) -> None:
    occupied = set[tuple[int, int]]()
    for widget in widgets:
        x, y, width, height = (widget[key] for key in ("x", "y", "width", "height"))
        cells = {(column, row) for column in range(x, x + width) for row in range(y, y + height)}
        assert x + width <= GRID_COLUMNS
        assert not cells & occupied, widget["properties"]["title"]
        occupied |= cells
        assert widget["properties"]["region"] == PSEUDO["AWS::Region"]
