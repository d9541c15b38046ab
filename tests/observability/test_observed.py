"""The handler that reports logs, metrics and traces."""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from mcp_baton.observability import EmbeddedMetrics, ObservedHandler, PowertoolsHandler, XRayTraces
from mcp_baton.telemetry import STEPS_RUN, TASKS_CLAIMED_AGAIN, Collector, Measurement, Span

EVENT = {"requestContext": {"requestId": "gateway-1"}}
WORKER_EVENT = {"batonTask": {"owner": "kim", "taskId": "t-1", "dispatch": 1}}


@dataclass(frozen=True, slots=True)
class WorkerContext:
    aws_request_id: str = "invocation-1"
    function_name: str = "baton-worker"


class RecordingTraces(XRayTraces):
    def __init__(self) -> None:
        super().__init__("shop")
        self.reports: list[tuple[list[str], str, bool]] = []

    def report(self, spans: Iterable[Span], correlation_id: str, *, cold_start: bool) -> None:
        self.reports.append(([span.name for span in spans], correlation_id, cold_start))


class RecordingLogs(PowertoolsHandler):
    """Keeps the keys that log lines would have."""

    keys: Mapping[str, object] = {}

    def begin(self, keys: Mapping[str, object]) -> None:
        self.keys = keys


class TaskIsHeld(Exception):
    """Raised by a worker so that Lambda retries its event."""


class BrokenMetrics(EmbeddedMetrics):
    def report(self, measurements: Iterable[Measurement], correlation_id: str) -> None:
        raise OSError(f"no room for {list(measurements)} of {correlation_id}")


class ObservedFunction:
    """An observed handler that counts a step, and what it reports."""

    def __init__(self, metrics: EmbeddedMetrics | None = None) -> None:
        self.sampled = True
        self.logs = RecordingLogs("shop")
        self.log_keys: list[dict[str, object]] = []
        self.traces = RecordingTraces()
        self.deferred_work: list[Callable[[], None]] = []
        self.request_ids: list[str] = []
        self._collector = Collector()
        self.handler = ObservedHandler(
            self._answer,
            self._collector,
            logs=self.logs,
            metrics=metrics or EmbeddedMetrics("Baton", "shop", None),
            traces=self.traces,
            sampled=lambda: self.sampled,
            later=self.deferred_work.append,
        )

    def _answer(self, event: Any, context: Any, request_id: str) -> dict[str, Any]:
        self.request_ids.append(request_id)
        if event.get("quiet"):
            return {}
        if "batonTask" in event:
            return self._work(event)
        with self._collector.span("work"):
            self._collector.add(STEPS_RUN)
            if event.get("fails"):
                raise KeyError("no such thing")
        return {"context": context}

    def _work(self, event: Any) -> dict[str, Any]:
        """Do what a worker does: set the correlation id of the task's request, or raise because another worker holds
        the task."""
        self.log_keys.append(dict(self.logs.keys))
        if "of" in event:
            self._collector.correlate(event["of"])
        self.log_keys.append(dict(self.logs.keys))
        with self._collector.span("work"):
            self._collector.add(TASKS_CLAIMED_AGAIN)
            if event.get("held"):
                raise TaskIsHeld
        return {}

    def serve(self, *events: dict[str, Any], context: object = None) -> None:
        """Handle the events. Then do the deferred work."""
        for event in events:
            self.handler(event, context)
        self.do_deferred_work()

    def do_deferred_work(self) -> None:
        for work in self.deferred_work:
            work()


@pytest.fixture
def error_log() -> Iterator[list[str]]:
    messages: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    logger, keep = logging.getLogger("mcp_baton.observability"), Keep()
    logger.addHandler(keep)
    yield messages
    logger.removeHandler(keep)


def test_reports_are_written_after_the_reply_and_only_if_there_is_something_to_report(
    capsys: pytest.CaptureFixture[str],
) -> None:
    observed = ObservedFunction()
    observed.handler({"quiet": True}, None)
    assert observed.deferred_work == []
    assert observed.handler(EVENT, "the context") == {"context": "the context"}
    assert (capsys.readouterr().out, observed.traces.reports) == ("", [])
    observed.do_deferred_work()
    assert json.loads(capsys.readouterr().out)["correlation_id"] == "gateway-1"
    assert observed.traces.reports == [(["work"], "gateway-1", False)]


def test_a_request_without_an_id_gets_one_for_its_reply_and_its_logs() -> None:
    observed = ObservedFunction()
    observed.serve({})
    assert [request_id for _, request_id, _ in observed.traces.reports] == observed.request_ids
    assert len(observed.request_ids[0]) == 36


def test_a_failed_request_is_reported_and_still_fails(capsys: pytest.CaptureFixture[str]) -> None:
    observed = ObservedFunction()
    with pytest.raises(KeyError):
        observed.handler({**EVENT, "fails": True}, None)
    observed.do_deferred_work()
    assert json.loads(capsys.readouterr().out)["StepsRun"] == [1.0]


def test_metrics_that_cannot_be_written_are_logged_and_the_request_succeeds(error_log: list[str]) -> None:
    observed = ObservedFunction(BrokenMetrics("Baton", "shop", None))
    observed.serve(EVENT)
    assert error_log == ["request gateway-1: its metrics or traces could not be reported"]


def test_a_worker_logs_and_reports_under_the_id_of_its_tasks_request(capsys: pytest.CaptureFixture[str]) -> None:
    observed = ObservedFunction()
    observed.serve({**WORKER_EVENT, "of": "gateway-7"}, context=WorkerContext())
    keys_before, keys_after = observed.log_keys
    assert (keys_before["correlation_id"], keys_after["correlation_id"]) == ("invocation-1", "gateway-7")
    assert {**keys_after, "correlation_id": "invocation-1"} == keys_before
    assert keys_after["function_request_id"] == "invocation-1"
    assert json.loads(capsys.readouterr().out)["correlation_id"] == "gateway-7"
    assert observed.traces.reports == [(["work"], "gateway-7", True)]


def test_a_worker_error_for_a_retry_is_reported_once(capsys: pytest.CaptureFixture[str], error_log: list[str]) -> None:
    observed = ObservedFunction()
    with pytest.raises(TaskIsHeld):
        observed.handler({**WORKER_EVENT, "of": "gateway-7", "held": True}, WorkerContext())
    observed.do_deferred_work()
    [line] = capsys.readouterr().out.splitlines()
    assert (json.loads(line)["TasksClaimedAgain"], json.loads(line)["correlation_id"]) == ([1.0], "gateway-7")
    # Lambda counts it among the function's errors, and the runtime client logs it. Baton does neither a second time.
    assert "InternalErrors" not in line
    assert error_log == []
