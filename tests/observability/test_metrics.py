"""Metrics in CloudWatch's embedded metric format."""

import json
from typing import Any

import pytest

from mcp_baton.observability import EmbeddedMetrics
from mcp_baton.telemetry import RUNS_PAUSED, STEPS_RUN, STORE_LATENCY, Measurement


def printed(capsys: pytest.CaptureFixture[str]) -> list[Any]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_each_set_of_dimensions_has_a_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    measurements = [
        Measurement(STEPS_RUN, 2, ""),
        Measurement(RUNS_PAUSED, 1, "toolError"),
        Measurement(STORE_LATENCY, 4.5, "PutItem"),
        Measurement(STORE_LATENCY, 7.5, "UpdateItem"),
        Measurement(STORE_LATENCY, 8.5, "UpdateItem"),
    ]
    EmbeddedMetrics("Baton", "shop", None).report(measurements, "id-1")
    lines = printed(capsys)
    assert [line.get("StepsRun") or line.get("Pauses") or line["StoreLatency"] for line in lines] == [
        [2.0],
        [1.0],
        [4.5],
        [7.5, 8.5],
    ]
    directives = [line["_aws"]["CloudWatchMetrics"][0] for line in lines]
    assert [sorted(*directive["Dimensions"]) for directive in directives] == [
        ["service"],
        ["service", "type"],
        ["operation", "service"],
        ["operation", "service"],
    ]
    assert directives[2]["Metrics"] == [{"Name": "StoreLatency", "Unit": "Milliseconds"}]
    assert [line.get("type") for line in lines] == [None, "toolError", None, None]


def test_no_line_has_more_values_than_cloudwatch_reads(capsys: pytest.CaptureFixture[str]) -> None:
    EmbeddedMetrics("Baton", "shop", None).report([Measurement(STEPS_RUN, 1, "")] * 250, "id-1")
    lines = printed(capsys)
    assert {line["correlation_id"] for line in lines} == {"id-1"}
    assert [len(line["StepsRun"]) for line in lines] == [99, 99, 52]


@pytest.mark.parametrize(("level", "has_level"), [(None, False), ("DEBUG", False), ("INFO", False), ("WARN", True)])
def test_a_line_has_a_level_only_if_lambda_would_filter_it_out_otherwise(
    level: str | None, has_level: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    EmbeddedMetrics("Baton", "shop", level).report([Measurement(STEPS_RUN, 1, "")], "id-1")
    [line] = printed(capsys)
    assert (line.get("level"), "timestamp" in line) == ((level, True) if has_level else (None, False))


def test_nothing_is_printed_if_powertools_metrics_are_disabled(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POWERTOOLS_METRICS_DISABLED", "true")
    metrics = EmbeddedMetrics("Baton", "shop", None)
    for _ in range(2):
        metrics.report([Measurement(STEPS_RUN, 1, "")], "id-1")
    assert printed(capsys) == []
