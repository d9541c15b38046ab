"""Sweeps: a scheduled event dispatches background tasks that no client polls (docs/background.md, The clock)."""

import pytest

from mcp_baton import Context, Server
from mcp_baton.exceptions import EventError
from mcp_baton.server.endpoint import Endpoint
from mcp_baton.settings import Settings
from mcp_baton.tasks.dynamodb.items import OUTBOX_SHARDS
from mcp_baton.tasks.ids import TASK_ID_ALPHABET
from mcp_baton.tasks.record import LEASE_MS, MAX_DISPATCH_MS
from mcp_baton.telemetry import STORE_ERRORS, Collector
from tests.approvals.test_waiting_for_approvals import CALLS, shop
from tests.fakes import Line, services_of
from tests.questions.test_task_questions import update, waiting_task
from tests.sent import Requests
from tests.store.steps import hook
from tests.support.background import Background, MakeBackground, measured_sweep, unreachable
from tests.support.client import Script, Table

NOTHING = {"looked": 0, "woken": 0}
LEASE_S = LEASE_MS / 1000


def job_server(script: Script) -> Server:
    server = Server("s")

    @server.tool(task="optional")
    def report(month: int = 1) -> str:
        return script.play("report", f"report {month}")

    @server.tool(task="optional")
    def delete(ctx: Context) -> str:
        return "deleted" if ctx.elicit("Delete it?", bool, key="sure").data else "kept"

    return server


@pytest.fixture
def jobs(background: MakeBackground, script: Script) -> Background:
    return background(job_server(script))


def test_a_task_whose_event_was_lost_is_dispatched_again_once(jobs: Background, script: Script) -> None:
    task = jobs.begin("report")
    jobs.queue.lose()
    assert jobs.sweep() == NOTHING
    jobs.time.s += 31
    assert jobs.sweep() == {"looked": 1, "woken": 1}
    assert jobs.sweep() == {"looked": 1, "woken": 0}
    assert [event["batonTask"]["dispatch"] for event in jobs.queue.events] == [2]  # type: ignore[index, call-overload]
    assert (jobs.work(), script.take(), jobs.sweep()) == ("completed", ["report"], NOTHING)
    assert jobs.status(task) == "completed"


def test_a_task_without_attempts_left_fails_before_its_next_dispatch_is_due(jobs: Background) -> None:
    """The third dispatch was the last one, so the next dispatch would be due only minutes later."""
    task = jobs.begin("report")
    for _ in range(2):
        jobs.queue.lose()
        jobs.time.s += 130
        jobs.sweep()
    for _ in range(3):
        jobs.kill(jobs.queue.events[0])
        jobs.time.s += LEASE_S + 1
    jobs.sweep()
    assert jobs.head(task) == ("failed", 3, 3)


def test_a_task_that_waits_for_its_client_is_not_dispatched_until_the_answer(jobs: Background) -> None:
    task = waiting_task(jobs, "delete")
    jobs.time.s += 1_000
    assert jobs.sweep() == NOTHING
    answer = {"sure": {"action": "accept", "content": {"value": True}}}
    update(jobs, task, **answer)
    jobs.queue.lose()
    jobs.time.s += 31
    assert jobs.sweep() == {"looked": 1, "woken": 1}
    assert jobs.work() == "completed"


def test_a_suspended_task_that_was_not_woken_is_dispatched_after_the_longest_interval(
    background: MakeBackground, script: Script
) -> None:
    """The decision's process was killed before it could wake the task."""
    jobs = background(shop(script))
    task = jobs.begin("refund", CALLS["refund"])
    jobs.work()
    jobs.time.s += MAX_DISPATCH_MS / 1000 + 1
    assert (jobs.sweep(), jobs.work()) == ({"looked": 1, "woken": 1}, "waits")
    assert jobs.head(task)[0] == "working"


# Failures


def test_a_task_that_cannot_be_read_does_not_keep_others_waiting(jobs: Background, table: Table) -> None:
    tasks = [jobs.begin("report"), jobs.begin("report")]
    damaged_task, other_task = sorted(
        tasks, key=lambda task: TASK_ID_ALPHABET.index(task[-1]) % OUTBOX_SHARDS
    )  # in the order of the sweep
    jobs.queue.lose()
    jobs.time.s += 31
    item = table.item(damaged_task)
    key = {"pk": item["pk"], "sk": item["sk"]}
    table.client.update_item(TableName=table.name, Key=key, UpdateExpression="REMOVE ttl_ms")
    assert jobs.sweep() == {"looked": 2, "woken": 1}
    assert jobs.head(other_task) == ("working", 2, 0)


def test_a_sweep_without_time_leaves_tasks_to_the_next_sweep(jobs: Background) -> None:
    for _ in range(3):
        jobs.begin("report")
    jobs.queue.lose()
    jobs.time.s += 31
    assert jobs.sweep(lambda: 4_999) == NOTHING
    assert jobs.sweep(lambda: 4_999 if jobs.queue.events else 60_000) == {"looked": 1, "woken": 1}
    assert (jobs.sweep()["woken"], len(jobs.queue.events)) == (2, 3)


@pytest.mark.parametrize("operation", ["Query", "GetItem", "UpdateItem"])
def test_the_next_sweep_dispatches_a_task_after_a_request_to_the_table_failed(
    jobs: Background, table: Table, operation: str
) -> None:
    jobs.begin("report")
    jobs.queue.lose()
    jobs.time.s += 31
    with unreachable(table.client, operation):
        assert jobs.sweep()["woken"] == 0
    assert jobs.sweep()["woken"] == 1


def test_two_sweeps_at_once_send_one_event(jobs: Background, table: Table) -> None:
    task = jobs.begin("report")
    jobs.queue.lose()
    jobs.time.s += 31
    reports = list[object]()

    def sweep_again(**_: object) -> None:
        if not reports:
            reports.append(None)
            reports[0] = jobs.sweep()

    with hook(table.client, "before-call.dynamodb.UpdateItem", sweep_again):
        assert jobs.sweep() == {"looked": 1, "woken": 0}
    assert (reports, len(jobs.queue.events)) == ([{"looked": 1, "woken": 1}], 1)
    assert jobs.head(task) == ("working", 2, 0)


def test_a_sweep_needs_a_table(script: Script) -> None:
    endpoint = Endpoint(services_of(job_server(script), None, Settings()))
    with pytest.raises(EventError, match="BATON_TABLE"):
        endpoint.sweep({}, Line(request_id="1", can_stream=False))


# Requests and metrics


def test_a_sweep_with_nothing_to_do_only_reads_the_index(jobs: Background, table: Table, requests: Requests) -> None:
    jobs.begin("report")
    requests.take()
    telemetry = Collector()
    assert measured_sweep(jobs, telemetry) == NOTHING
    assert (requests.take(), telemetry.take().measurements) == (["Query"] * OUTBOX_SHARDS, ())


def test_a_sweep_that_cannot_read_the_index_counts_an_error(jobs: Background, table: Table) -> None:
    telemetry = Collector()
    with unreachable(table.client, "Query"):
        assert measured_sweep(jobs, telemetry) == NOTHING
    assert [measurement.metric for measurement in telemetry.take().measurements] == [STORE_ERRORS]


def test_sweeps_do_not_touch_a_task_that_a_worker_holds(jobs: Background, script: Script) -> None:
    jobs.begin("report")
    event = jobs.queue.events[0]
    reports = list[object]()
    jobs.time.s += 31
    script.meanwhile["report"] = lambda: reports.append(jobs.sweep())
    assert jobs.work(event) == "completed"
    assert (reports, script.take()) == ([{"looked": 1, "woken": 0}], ["report"])


def test_a_task_whose_workers_die_three_times_fails(jobs: Background) -> None:
    task = jobs.begin("report")
    for _ in range(3):
        jobs.kill()
        jobs.time.s += 130
        jobs.sweep()
    assert (jobs.head(task), jobs.queue.events) == (("failed", 3, 3), [])
