"""`Dashboard=on`: a CloudWatch dashboard of the stack's metrics."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from mcp_baton import telemetry
from tests.template.cloudformation import PSEUDO, Stack
from tests.template.conftest import ROOT, MakeStack

OPERATING = (ROOT / "docs" / "operating.md").read_text()
DOCUMENTED = set(re.findall(r"^\| `(\w+)` \| (?:count|ms) \|", OPERATING, re.MULTILINE))
API = {"ApiName": PSEUDO["AWS::StackName"], "Stage": "v1"}
FUNCTIONS = ({"FunctionName": "${McpFunction}"}, {"FunctionName": "${WorkerFunction}"})
AWS_METRICS = {
    "AWS/ApiGateway": ({"Count", "4XXError", "5XXError", "Latency", "IntegrationLatency"}, (API,)),
    "AWS/Lambda": ({"Duration", "Errors", "Throttles", "Invocations", "ConcurrentExecutions"}, FUNCTIONS),
    "AWS/SQS": ({"ApproximateNumberOfMessagesVisible"}, ({"QueueName": "${DeadLetterQueue.QueueName}"},)),
}
"""The metrics of these services, and the dimensions of those that the dashboard shows."""
SEARCH = re.compile(r"SEARCH\('\{Baton,service,(\w+)\} MetricName=\"(\w+)\" service=\"([^\"]+)\"', '\w+', 300\)")
GRID_COLUMNS = 24


@pytest.fixture(scope="module")
def shown(stack: MakeStack) -> Stack:
    return stack(Dashboard="on")


@pytest.fixture(scope="module")
def widgets(shown: Stack) -> list[Any]:
    found: list[Any] = json.loads(shown.one("AWS::CloudWatch::Dashboard")["DashboardBody"])["widgets"]
    return found


def rows(widgets: list[Any]) -> Iterator[list[Any]]:
    for widget in widgets:
        yield from widget["properties"]["metrics"]


def plotted(widgets: list[Any]) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Yield the namespace, name and dimensions of each metric that is named."""
    for namespace, name, *rest in (row for row in rows(widgets) if isinstance(row[0], str)):
        pairs = [part for part in rest if isinstance(part, str)]
        yield namespace, name, dict(zip(pairs[::2], pairs[1::2], strict=True))


def searched(widgets: list[Any]) -> dict[str, str]:
    """Return the metrics that are searched for, each with the dimension that has a line per value."""
    found = [SEARCH.fullmatch(row[0]["expression"]) for row in rows(widgets) if isinstance(row[0], dict)]
    assert all(match and match[3] == PSEUDO["AWS::StackName"] for match in found)
    return {match[2]: match[1] for match in found if match}


def test_there_is_no_dashboard_by_default(default: Stack) -> None:
    assert default.of_type("AWS::CloudWatch::Dashboard") == []


def test_stacks_of_two_regions_have_two_dashboards(shown: Stack) -> None:
    name = shown.one("AWS::CloudWatch::Dashboard")["DashboardName"]
    assert name == f"{PSEUDO['AWS::StackName']}-{PSEUDO['AWS::Region']}"


def test_every_metric_exists_and_belongs_to_this_stack(widgets: list[Any]) -> None:
    assert len(DOCUMENTED) > 10
    for namespace, name, dimensions in plotted(widgets):
        if namespace == "Baton":
            assert name in DOCUMENTED
            assert dimensions == {"service": PSEUDO["AWS::StackName"]}, name
        else:
            names, owners = AWS_METRICS[namespace]
            assert name in names
            assert dimensions in owners, name


def test_a_metric_with_its_own_dimension_has_a_line_for_each_value(widgets: list[Any]) -> None:
    emitted = [metric for metric in vars(telemetry).values() if isinstance(metric, telemetry.Metric)]
    divided = {metric.name: metric.dimension for metric in emitted if metric.dimension}

    assert searched(widgets) == divided
    assert searched(widgets).keys() <= DOCUMENTED
    # CloudWatch has no such metric without the dimension.
    assert not {name for _, name, _ in plotted(widgets)} & divided.keys()


def test_it_shows_the_metrics_that_operators_need(widgets: list[Any]) -> None:
    assert {name for _, name, _ in plotted(widgets)} | searched(widgets).keys() >= {
        *("Count", "Latency", "Throttles", "ApproximateNumberOfMessagesVisible"),
        *("RunsCompleted", "Pauses", "StoreErrors", "DispatchesFailed"),
        *("TasksClaimedAgain", "TasksGivenUp", "WakeUpDelay"),
    }


def test_the_graphs_do_not_overlap_and_read_this_region(widgets: list[Any]) -> None:
    taken = set[tuple[int, int]]()
    for widget in widgets:
        x, y, width, height = (widget[key] for key in ("x", "y", "width", "height"))
        cells = {(column, row) for column in range(x, x + width) for row in range(y, y + height)}
        assert x + width <= GRID_COLUMNS
        assert not cells & taken, widget["properties"]["title"]
        taken |= cells
        assert widget["properties"]["region"] == PSEUDO["AWS::Region"]
