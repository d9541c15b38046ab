"""What is noted of Baton's own work."""

from collections.abc import Iterator
from contextvars import copy_context
from itertools import count
from threading import Thread

import pytest

from mcp_baton.telemetry import PAUSES, SILENT, STEPS_RUN, Collector, Measurement


@pytest.fixture
def collector() -> Collector:
    """A collector whose clock goes on by a second whenever it is read."""
    ticks: Iterator[int] = count(100)
    return Collector(clock=lambda: float(next(ticks)))


def test_what_was_noted_is_taken_once(collector: Collector) -> None:
    collector.add(STEPS_RUN, 3)
    collector.add(PAUSES, of="toolError")
    assert collector.take().measurements == (Measurement(STEPS_RUN, 3, ""), Measurement(PAUSES, 1, "toolError"))
    assert collector.take().measurements == ()


def test_a_span_within_another_is_its_part(collector: Collector) -> None:
    with collector.span("outer"), collector.span("inner", operation="GetItem"):
        pass
    with collector.span("next"):
        pass
    outer, following = collector.take().spans
    [inner] = outer.parts
    assert [outer.name, inner.name, following.name] == ["outer", "inner", "next"]
    assert [outer.began_s, inner.began_s, inner.ended_s, outer.ended_s] == [100.0, 101.0, 102.0, 103.0]
    assert inner.details == {"operation": "GetItem"}


def test_a_span_that_an_exception_ends_has_failed_and_so_has_what_it_passes_through(collector: Collector) -> None:
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


def test_a_span_of_another_thread_is_a_part_of_the_one_that_its_context_came_from(collector: Collector) -> None:
    def work() -> None:
        with collector.span("beside"):
            pass

    with collector.span("outer"):
        thread = Thread(target=copy_context().run, args=(work,))
        thread.start()
        thread.join()
    [outer] = collector.take().spans
    assert [part.name for part in outer.parts] == ["beside"]


def test_a_span_that_outlives_the_one_around_it_is_not_lost(collector: Collector) -> None:
    with collector.span("outer"):
        context = copy_context()
    assert [span.name for span in collector.take().spans] == ["outer"]

    def late() -> None:
        with collector.span("late"):
            pass

    context.run(late)
    assert [span.name for span in collector.take().spans] == ["late"]


def test_notes_of_many_threads_are_all_kept(collector: Collector) -> None:
    def work() -> None:
        for _ in range(500):
            collector.add(STEPS_RUN)

    threads = [Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(collector.take().measurements) == 4_000


def test_the_report_of_an_invocation_names_its_request(collector: Collector) -> None:
    heard: list[str] = []
    collector.correlate("nobody listens")
    collector.begin(heard.append)
    collector.correlate("gateway-7")
    SILENT.correlate("gateway-8")
    assert heard == ["gateway-7"]


@pytest.mark.parametrize("failed", [True, False])
def test_a_request_is_noted_when_it_has_ended_as_a_part_of_the_work_around_it(failed: bool) -> None:
    collector = Collector(clock=lambda: 10.0)

    with collector.span("workflow greet"):
        collector.add_request("DynamoDB", "PutItem", 0.5, failed=failed, table_name="tasks")

    notes = collector.take()
    [part] = notes.spans[0].parts
    assert (part.began_s, part.ended_s, part.failed) == (9.5, 10.0, failed)
    assert part.details == {"operation": "PutItem", "table_name": "tasks"}
    assert [(each.metric.name, each.value, each.of) for each in notes.measurements] == [
        ("StoreLatency", 500, "PutItem")
    ]
