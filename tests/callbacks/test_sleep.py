"""Steps that sleep until a time (docs/waiting.md, Times)."""

from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, date, datetime, timedelta
from typing import Any, cast

import pytest

from mcp_baton import (
    Argument,
    BatonError,
    Callback,
    Server,
    Settings,
    ToolStep,
    Wait,
    Workflow,
    WorkflowError,
    prompt_arg,
    sleep_until,
    step,
    step_output,
)
from mcp_baton.testing import Client, connect
from mcp_baton.workflow.steps.step import Step
from tests.typed import returning

MINUTE = timedelta(minutes=1)


def alarm(end: Any, *, ttl: timedelta | None = None) -> Server:
    """Return a server whose workflow sleeps until a time that a tool returns."""
    server = Server("alarm")

    @server.tool
    def look_up() -> dict[str, Any]:
        return {"at": end() if callable(end) else end}

    @server.tool
    def ring() -> str:
        return "rang"

    options: Any = {} if ttl is None else {"ttl": ttl}

    @server.workflow(**options)
    def morning() -> None:
        result = step(look_up)()
        sleep_until("night", result["at"])
        step(ring)()

    return server


def iso(client: Client, delay: timedelta, offset: timedelta = timedelta()) -> str:
    """Return the time that is `delay` after now on the client's clock, written with this offset from UTC."""
    now = datetime.fromtimestamp(client.clock.now_ms() / 1000, UTC) + delay
    local_time = (now + offset).replace(tzinfo=None).isoformat(timespec="seconds")
    sign, minutes = "-" if offset < timedelta() else "+", abs(offset) // MINUTE
    return f"{local_time}{sign}{minutes // 60:02}:{minutes % 60:02}"


@pytest.mark.parametrize("offset", [timedelta(), timedelta(hours=1), timedelta(hours=-9, minutes=-30)])
def test_a_step_sleeps_until_a_time_with_an_offset(offset: timedelta) -> None:
    times: list[str] = []
    with connect(alarm(lambda: times[0])) as client:
        times.append(iso(client, 30 * MINUTE, offset))
        run = client.call_workflow("morning")
        assert (run.pause.type, run.pause.fields["for"], run.pause.step) == ("waiting", "time", "night")
        assert datetime.fromisoformat(run.pause.until) == datetime.fromisoformat(times[0])
        client.clock.advance(29 * MINUTE)
        assert client.resume(str(run.task_id)).paused
        client.clock.advance(MINUTE)
        assert client.resume(str(run.task_id)).completed


def test_the_offset_distinguishes_a_local_time_that_occurs_twice() -> None:
    """At the end of summer time, 02:30 in Berlin occurs twice, an hour apart."""
    ends = []
    for offset in ("+02:00", "+01:00"):
        server = alarm(f"2027-10-31T02:30:00{offset}", ttl=timedelta(days=399))
        with connect(server, settings=Settings(max_ttl_ms=400 * 86_400_000)) as client:
            ends.append(datetime.fromisoformat(client.call_workflow("morning").pause.until))
    assert ends[1] - ends[0] == timedelta(hours=1)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("2026-11-28T09:00:00", "the time has no offset from UTC"),
        ("tomorrow", "the value is not a time in ISO 8601"),
        (1_795_000_000, "the value is not a time in ISO 8601"),
        ("0001-01-01T00:00:00+14:00", "in the years 1 to 9999"),
        ("9999-12-31T23:59:59-14:00", "in the years 1 to 9999"),
        (None, "the value is not a time in ISO 8601"),
    ],
)
def test_a_value_that_is_not_a_time_with_an_offset_fails_the_step(value: object, message: str) -> None:
    with connect(alarm(value)) as client:
        run = client.call_workflow("morning")
        assert (run.pause.type, run.pause.step) == ("toolError", "night")
        assert message in run.pause.error
        assert "2026-11-28T09:00:00+01:00" in run.pause.error


def test_a_wrong_time_in_an_argument_can_be_corrected() -> None:
    server = Server("alarm")

    @server.workflow
    def morning(at: str) -> None:
        """Wait until a time."""
        sleep_until("night", at)

    with connect(server) as client:
        run = client.call_workflow("morning", {"at": "2026-11-28 09:00"})
        assert "correct the cause first.\n\nCall morning with" in run.text
        assert client.call_workflow("morning", {"at": "2020-11-28 09:00Z"}, run.task_id).completed


def test_a_step_does_not_wait_for_a_time_in_the_past() -> None:
    with connect(alarm("2020-01-01T00:00:00Z")) as client:
        assert client.call_workflow("morning").completed


def test_the_lifetime_of_a_task_is_extended_to_a_time_that_is_known_only_in_the_run() -> None:
    times: list[str] = []
    with connect(alarm(lambda: times[0])) as client:
        times.append(iso(client, timedelta(hours=20)))
        run = client.call_workflow("morning")
        client.clock.advance(timedelta(hours=20, seconds=1))
        assert client.resume(str(run.task_id)).completed


def test_a_time_after_the_longest_possible_lifetime_of_the_task_fails_the_step() -> None:
    times: list[str] = []
    with connect(alarm(lambda: times[0])) as client:
        times.append(iso(client, timedelta(days=3)))
        run = client.call_workflow("morning")
        assert run.pause.type == "toolError"
        assert "give it a longer ttl" in run.pause.error
    with connect(alarm(lambda: times[0], ttl=timedelta(days=4)), settings=Settings(max_ttl_ms=400_000_000)) as client:
        run = client.call_workflow("morning")
        client.clock.advance(timedelta(days=3, seconds=1))
        assert client.resume(str(run.task_id)).completed


def sleep_server(hours: float) -> Server:
    server = Server("sleepy")
    steps = [Wait("nap", sleep=timedelta(hours=hours))]
    server.add_workflow(Workflow(name="rest", description="rest", steps=steps))
    return server


@pytest.mark.parametrize("new_hours", [1.0, 9.0])
def test_the_end_of_a_wait_stays_the_same_when_the_definition_changes(new_hours: float) -> None:
    with connect(sleep_server(5)) as client:
        run = client.call_workflow("rest")
        client.clock.advance(timedelta(hours=4, minutes=59))
        new_client = client.deployed(sleep_server(new_hours))
        assert new_client.resume(str(run.task_id)).paused
        client.clock.advance(MINUTE)
        assert new_client.resume(str(run.task_id)).completed


def test_a_wait_can_be_skipped_by_its_condition() -> None:
    server = Server("maybe")

    @server.workflow
    def rest(tired: bool) -> None:
        sleep_until("nap", timedelta(hours=1), when=tired == True)  # noqa: E712

    with connect(server) as client:
        assert client.call_workflow("rest", {"tired": "false"}).steps == {"nap": "skipped"}
        assert client.call_workflow("rest", {"tired": "true"}).steps == {"nap": "pending"}


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        (date, "its time begin.* is a date, and no moment; give a timedelta"),
        (timedelta | None, None),
        (timedelta, "is a duration"),
        (datetime, None),
        (str, None),
    ],
)
def test_a_time_that_cannot_be_a_moment_is_found_by_the_check(kind: Any, problem: str | None) -> None:
    server = Server("sleep")
    server.add_tool(returning(None, kind), name="begin")
    arguments = [Argument("begin", type=kind, required=True)]
    for source in (prompt_arg("begin"), step_output("begin")):
        steps = [ToolStep("begin", tool="begin"), Wait("nap", sleep=source)]
        server.workflows.clear()
        server.add_workflow(Workflow(name="rest", description="rest", arguments=arguments, steps=steps))
        with nullcontext() if problem is None else pytest.raises(WorkflowError, match=problem):
            server.check()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Wait("nap", sleep=timedelta()), "give a time of more than 0 s"),
        (lambda: Wait("nap", sleep="2026-11-28T09:00:00"), "has no offset from UTC"),
        (lambda: Wait("nap", sleep=5), "step 'nap': its time 5 is number, and not a text"),
        (lambda: Wait("nap"), "give it one of callback=… and sleep=…"),
        (
            lambda: Wait("nap", Callback(bool, timedelta(1)), sleep=timedelta(1)),
            "give it one of callback=… and sleep=…",
        ),
        (lambda: Wait("nap", Callback(bool, timedelta())), "step 'nap': within=.* is not a time"),
        (lambda: Wait("nap", Callback(bool, timedelta(1), cast("Any", "end"))), "on_timeout='end' is not possible"),
        (lambda: Wait("nap", Callback("bool", timedelta(1))), "returns='bool' is text; write the type bool"),
    ],
)
def test_an_invalid_wait_is_refused_when_the_handler_is_built(make: Callable[[], Step], message: str) -> None:
    server = Server("wrong")
    server.add_workflow(Workflow(name="rest", description="rest", steps=[make()]))
    with pytest.raises(BatonError, match=message), connect(server):
        pass
