"""The collector of measurements and spans, and metrics in CloudWatch's embedded metric format."""

import json
from collections.abc import Iterator
from contextvars import copy_context
from itertools import count
from threading import Thread
from typing import Any

import pytest

from mcp_baton.observability import EmbeddedMetrics
from mcp_baton.telemetry import RUNS_PAUSED, SILENT, STEPS_RUN, STORE_LATENCY, Collector, Measurement


@pytest.fixture
def collector() -> Collector:
    """A collector whose clock advances by one second at each reading."""
    ticks: Iterator[int] = count(100)
    return Collector(clock=lambda: float(next(ticks)))


def test_measurements_are_taken_once(collector: Collector) -> None:
    collector.add(STEPS_RUN, 3)
    collector.add(RUNS_PAUSED, of="toolError")
    assert collector.take().measurements == (Measurement(STEPS_RUN, 3, ""), Measurement(RUNS_PAUSED, 1, "toolError"))
    assert collector.take().measurements == ()


def test_a_span_inside_another_is_its_part(collector: Collector) -> None:
    with collector.span("outer"), collector.span("inner", operation="GetItem"):
        pass
    with collector.span("next"):
        pass
    outer, following = collector.take().spans
    [inner] = outer.parts
    assert [outer.name, inner.name, following.name] == ["outer", "inner", "next"]
    assert [outer.began_s, inner.began_s, inner.ended_s, outer.ended_s] == [100.0, 101.0, 102.0, 103.0]
    assert inner.details == {"operation": "GetItem"}


def test_an_exception_fails_all_spans_that_it_leaves(collector: Collector) -> None:
    def work() -> None:
        with collector.span("outer"):
            with collector.span("good"):
                pass
            with collector.span("bad"):
                raise KeyError

    with pytest.raises(KeyError):
        work()
    [outer] = collector.take().spans
    assert [(part.name, part.failed) for part in outer.parts] == [("good", False), ("bad", True)]
    assert outer.failed


def test_a_span_in_another_thread_is_part_of_the_span_of_its_context(collector: Collector) -> None:
    def work() -> None:
        with collector.span("beside"):
            pass

    with collector.span("outer"):
        thread = Thread(target=copy_context().run, args=(work,))
        thread.start()
        thread.join()
    [outer] = collector.take().spans
    assert [part.name for part in outer.parts] == ["beside"]


def test_a_span_that_outlives_its_outer_span_is_kept(collector: Collector) -> None:
    with collector.span("outer"):
        context = copy_context()
    assert [span.name for span in collector.take().spans] == ["outer"]

    def late() -> None:
        with collector.span("late"):
            pass

    context.run(late)
    assert [span.name for span in collector.take().spans] == ["late"]


def test_measurements_of_all_threads_are_kept(collector: Collector) -> None:
    def work() -> None:
        for _ in range(500):
            collector.add(STEPS_RUN)

    threads = [Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(collector.take().measurements) == 4_000


def test_the_correlation_id_is_passed_to_the_current_invocation(collector: Collector) -> None:
    correlation_ids: list[str] = []
    collector.correlate("ignored")
    collector.begin(correlation_ids.append)
    collector.correlate("gateway-7")
    SILENT.correlate("gateway-8")
    assert correlation_ids == ["gateway-7"]


@pytest.mark.parametrize("is_failed", [True, False])
def test_a_request_is_recorded_after_it_ended_as_part_of_the_outer_span(is_failed: bool) -> None:
    collector = Collector(clock=lambda: 10.0)

    with collector.span("workflow greet"):
        collector.add_request("DynamoDB", "PutItem", 0.5, failed=is_failed, table_name="tasks")

    collected = collector.take()
    [part] = collected.spans[0].parts
    assert (part.began_s, part.ended_s, part.failed) == (9.5, 10.0, is_failed)
    assert part.details == {"operation": "PutItem", "table_name": "tasks"}
    assert [(measurement.metric.name, measurement.value, measurement.of) for measurement in collected.measurements] == [
        ("StoreLatency", 500, "PutItem")
    ]


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
