"""Background tools in the testing kit: workers, events and tasks."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta

import pytest

from mcp_baton import Context, Server, ToolError, sleep_until, step
from mcp_baton.settings import Settings
from mcp_baton.testing import Client, Connect, Era, JsonRpcError, Killed, Unanswered, aconnect, connect
from tests.testing.conftest import BOTH_ERAS

REPORT = {"year": 2025, "attempt": 1}


@pytest.fixture
def server() -> Server:
    reports = Server("reports", version="1.0.0")

    @reports.tool(task="optional")
    def report(year: int, ctx: Context) -> dict[str, int]:
        return {"year": year, "attempt": ctx.attempt}

    @reports.tool(task="required")
    def archive(year: int) -> str:
        return f"archived {year}"

    @reports.tool(task="optional", idempotent=False)
    def pay(amount: int) -> str:
        if amount > 100:
            raise ToolError("too much")
        return f"paid {amount}"

    @reports.tool(task="optional")
    def wrap(ctx: Context) -> str:
        colour, ribbon = (
            ctx.elicit(name, f"Which {name}?", {"type": "object", "properties": {name: {"type": "string"}}})
            for name in ("colour", "ribbon")
        )
        if not (colour.accepted and ribbon.accepted):
            return "not wrapped"
        return f"wrapped in {colour.content['colour']} with {ribbon.content['ribbon']}"

    @reports.tool
    def plain() -> str:
        return "done"

    return reports


@pytest.fixture
def client(server: Server, era: Era) -> Iterator[Client]:
    """A client whose workers run only when the test calls them."""
    with connect(server, era=era, workers="by hand") as new_client:
        yield new_client


@BOTH_ERAS
@pytest.mark.parametrize(("tool", "value"), [("report", REPORT), ("archive", "archived 2025")])
def test_a_call_that_becomes_a_task_returns_its_result(
    baton: Connect, server: Server, era: Era, tool: str, value: object
) -> None:
    client = baton(server, era=era)
    assert client.call_tool(tool, {"year": 2025}).value == value
    outcomes = [run.outcome for run in client.worker_runs]
    assert outcomes == (["completed"] if era == "2026" or tool == "archive" else [])
    assert client.calls(tool) == [{"year": 2025}]


@BOTH_ERAS
def test_a_task_can_be_polled(client: Client) -> None:
    task = client.start_task("report", {"year": 2025})
    assert task.status == "working"
    assert client.calls("report") == []
    [event] = client.waiting_events
    assert (event.task_id, event.dispatch, event.attempt) == (task.task_id, 1, 1)
    run = client.run_worker()
    assert (run.outcome, run.error, run.event) == ("completed", None, event)
    assert task.status == "completed"
    assert (task.result.value, task.result.structured, task.result.is_error) == (REPORT, REPORT, False)
    assert client.worker_runs == [run]
    assert client.task(task.task_id).result["structuredContent"] == REPORT


def test_a_killed_worker_raises_in_the_call_that_waits_for_it(baton: Connect, server: Server) -> None:
    client = baton(server)
    with client.killed_after("report"):
        client.start_task("report", {"year": 2025})
    [task] = client.tasks()
    assert task.status == "working"
    client.killed_after("report")
    client.clock.advance(60)
    with pytest.raises(Killed):
        client.task(task.task_id)


def test_an_event_for_a_running_task_is_delivered_again(client: Client) -> None:
    task = client.start_task("report", {"year": 2025})
    client.waiting_events.append(client.waiting_events[0])
    client.during("report", client.run_worker)
    client.run_worker()
    assert [(run.outcome, run.event.attempt) for run in client.worker_runs] == [("raised", 1), ("completed", 1)]
    assert [event.attempt for event in client.waiting_events] == [2]
    assert client.run_worker().outcome == "over: completed"
    assert task.status == "completed"


def test_after_a_failed_dispatch_a_poll_dispatches_the_task(client: Client) -> None:
    client.dispatch_fails()
    task = client.start_task("report", {"year": 2025})
    assert client.waiting_events == []
    assert task.wait().result.value == REPORT


def test_the_error_for_a_task_that_may_exist_says_so(client: Client) -> None:
    client.store.fails("PutItem", times=None)
    with pytest.raises(JsonRpcError, match="not known whether the task was created; the call may still be made"):
        client.start_task("archive", {"year": 2026})


def test_a_worker_is_retried_after_a_store_failure(client: Client) -> None:
    task = client.start_task("report", {"year": 2025})
    client.store.fails("UpdateItem")
    run = client.run_worker()
    assert (run.outcome, client.calls("report")) == ("raised", [])
    assert type(run.error).__name__ in {"OutcomeUnknown", "StoreUnavailable"}
    assert task.wait().result.value == REPORT


def test_an_event_is_delivered_at_most_three_times(client: Client) -> None:
    client.start_task("report", {"year": 2025})
    client.store.fails("UpdateItem", times=None)
    assert [client.run_worker().event.attempt for _ in range(3)] == [1, 2, 3]
    with pytest.raises(LookupError, match="no event waits"):
        client.run_worker()


@BOTH_ERAS
def test_a_task_is_cancelled(client: Client) -> None:
    task = client.start_task("report", {"year": 2025})
    assert task.cancel().status == "cancelled"
    assert client.run_worker().outcome == "over: cancelled"
    assert client.calls("report") == []
    with pytest.raises(AttributeError, match="the task has no result"):
        _ = task.result


@BOTH_ERAS
def test_prepared_answers_are_used_and_a_missing_one_is_named(client: Client) -> None:
    with pytest.raises(Unanswered, match="Which colour"):
        client.start_task("wrap").wait()
    client.answers({"Which colour?": {"colour": "blue"}, "ribbon": {"ribbon": "red"}})
    assert client.start_task("wrap").wait().result.value == "wrapped in blue with red"
    assert [run.outcome for run in client.worker_runs[-3:]] == ["asked", "asked", "completed"]


@BOTH_ERAS
def test_questions_are_answered_one_by_one(client: Client) -> None:
    task = client.start_task("wrap")
    assert client.run_worker().outcome == "asked"
    assert task.status == "input_required"
    assert list(task.input_requests) == (["colour"] if client.era == "2026" else [])
    assert task.answer({"something else": {}}).status == "input_required"
    assert task.answer({"Which colour?": {"colour": "blue"}}).status == "working"
    assert client.run_worker().outcome == "asked"
    assert task.answer({"ribbon": "decline"}).status == "working"
    client.run_worker()
    assert task.result.value == "not wrapped"


def test_the_client_refuses_an_answer_of_the_wrong_type(client: Client) -> None:
    task = client.start_task("wrap")
    client.run_worker()
    with pytest.raises(Unanswered, match="its answer is a dict"):
        task.answer({"colour": ["blue"]})


def test_the_value_of_a_workflow_is_that_of_its_last_tool_also_after_a_wait(baton: Connect) -> None:
    server = Server("timed")
    server.tool(name="first")(lambda: 1)
    server.tool(name="last")(lambda: None)

    @server.workflow(background=True)
    def wait() -> None:
        step("first")()
        sleep_until("tomorrow", timedelta(days=1))
        step("last")()

    assert baton(server).start_task("wait").wait().result.value is None


@BOTH_ERAS
def test_a_plain_tool_starts_no_task(client: Client) -> None:
    with pytest.raises((ValueError, JsonRpcError)) as error_info:
        client.start_task("plain")
    assert "start_task('plain')" in str(error_info.value) or "does not run as a task" in str(error_info.value)


def test_a_worker_has_fifteen_minutes_unless_a_test_sets_another_limit(baton: Connect) -> None:
    server, remaining_ms = Server("timed", version="1"), list[int]()

    @server.tool(task="optional")
    def look(ctx: Context) -> None:
        remaining_ms.append(ctx.remaining_ms() or 0)

    client = baton(server)
    client.start_task("look")
    client.remaining_s(60)
    client.start_task("look")
    assert 800_000 < remaining_ms[0] <= 900_000
    assert remaining_ms[1] <= 60_000


def test_another_version_of_the_server_processes_waiting_events(client: Client) -> None:
    task = client.start_task("archive", {"year": 2025})
    new_server = Server("reports", version="2.0.0")
    new_server.add_tool(lambda year: f"archived {year} twice", name="archive", description="Archive.", task="required")
    client.deployed(new_server).run_worker()
    assert task.result.text == "archived 2025 twice"


def test_workers_run_at_once_or_by_hand(server: Server) -> None:
    with pytest.raises(ValueError, match="'at once' or 'by hand'"), connect(server, workers="later"):  # type: ignore[arg-type]
        pass


def test_tasks_can_be_used_in_asynchronous_tests(server: Server) -> None:
    async def use_client() -> None:
        async with aconnect(server, workers="by hand") as client:
            task = await client.start_task("report", {"year": 2025})
            assert (await task.poll()).status == "working"
            assert (await client.run_worker()).outcome == "completed"
            assert (await task.wait()).result.value == REPORT
            question_task = await client.start_task("wrap")
            await client.run_worker()
            assert list((await question_task.answer({})).input_requests) == ["colour"]
            assert (await question_task.cancel()).status == "cancelled"
            assert (await client.call_tool("archive", {"year": 2024})).value == "archived 2024"

    asyncio.run(use_client())


# The clock

DAY_S = 86_400


def test_a_task_whose_event_was_lost_continues_in_the_minute_when_it_is_due(baton: Connect, server: Server) -> None:
    client = baton(server)
    client.dispatch_fails()
    task = client.start_task("report", {"year": 2025})
    client.clock.advance(29)
    assert client.worker_runs == []
    client.clock.advance(2 * DAY_S)  # the task lives for an hour
    assert [(run.event.task_id, run.outcome) for run in client.worker_runs] == [(task.task_id, "completed")]


def test_a_task_whose_worker_was_killed_is_continued_by_a_sweep(baton: Connect, server: Server) -> None:
    client = baton(server)
    with client.killed_after("report"):
        client.start_task("report", {"year": 2025})
    client.waiting_events.clear()
    client.clock.advance(200)
    assert [run.outcome for run in client.worker_runs] == ["killed", "completed"]


def test_a_task_whose_dispatches_fail_is_dispatched_at_growing_intervals(baton: Connect, server: Server) -> None:
    client = baton(server)
    client.dispatch_fails(times=3)
    client.start_task("report", {"year": 2025})
    client.clock.advance(30 + 60 + 110)
    assert client.worker_runs == []
    client.clock.advance(180)
    assert [run.event.dispatch for run in client.worker_runs] == [4]


def test_sweeps_leave_a_task_alone_while_its_worker_runs(baton: Connect, server: Server) -> None:
    client = baton(server)
    client.during("report", lambda: client.clock.advance(200))
    assert client.call_tool("report", {"year": 2025}).value == REPORT
    assert [run.event.dispatch for run in client.worker_runs] == [1]


def test_sweeps_can_be_turned_off(baton: Connect, server: Server) -> None:
    client = baton(server, settings=Settings(sweep=False))
    client.dispatch_fails()
    task = client.start_task("report", {"year": 2025})
    client.clock.advance(200)
    assert client.worker_runs == []
    assert task.wait().status == "completed"


def test_a_test_can_call_the_sweep_itself(client: Client) -> None:
    client.start_task("report", {"year": 2025})
    client.waiting_events.clear()
    client.clock.advance(31)
    assert client.waiting_events == []
    client.sweep()
    assert [event.dispatch for event in client.waiting_events] == [2]
