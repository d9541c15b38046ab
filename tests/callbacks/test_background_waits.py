"""Background workflows that wait: no worker runs meanwhile, and a callback or a sweep wakes them (docs/waiting.md)."""

from datetime import timedelta
from typing import Any, Literal

import pytest

from mcp_baton import Callback, Context, Retry, Server, ToolStep, Wait, Workflow, constant, step
from mcp_baton.local.gateway import proxy_event
from mcp_baton.protocol.json import dumps
from mcp_baton.tasks.record import WORKFLOW_TASK, timestamp
from mcp_baton.telemetry import WAKE_UP_DELAY, Collector
from tests.callbacks.test_callbacks import GREEN, Build, Shop
from tests.fakes import FunctionContext
from tests.support.background import Background, MakeBackground, killed_at_second, measured_sweep
from tests.support.client import Script

NOTHING = {"looked": 0, "woken": 0}
BASE = "https://api.example.com"


@pytest.fixture
def shop() -> Shop:
    return Shop(background=True)


@pytest.fixture
def jobs(background: MakeBackground, shop: Shop) -> Background:
    return background(shop.server, base_url=BASE)


def waiting_task(jobs: Background) -> str:
    """Return the task of a call whose workflow waits for its callback."""
    task = jobs.begin("release", {"branch": "main"})
    assert (jobs.work(), jobs.queue.events) == ("waits", [])
    return task


def send(jobs: Background, shop: Shop) -> int:
    """Send the callback to a new function. Return the status of the reply."""
    body, path = dumps(GREEN).encode(), shop.urls[-1].removeprefix(BASE)
    event = proxy_event("POST", path, [], body, request_id="callback", owner_header=None)
    function: Any = jobs.container()
    status: int = function(event, FunctionContext(lambda: 60_000, "callback"))["statusCode"]
    return status


def send_and_die(jobs: Background, shop: Shop) -> None:
    """Send the callback to a function that is killed after it has stored the callback."""
    with killed_at_second(jobs.table, "before-call.dynamodb.UpdateItem"):  # after the write of the result
        send(jobs, shop)


def test_a_callback_wakes_a_workflow_for_which_no_worker_ran(jobs: Background, shop: Shop) -> None:
    task = waiting_task(jobs)
    jobs.time.s += 3_600
    assert (jobs.sweep(), jobs.queue.events) == (NOTHING, [])
    assert jobs.client().task("get", task).result["statusMessage"].startswith("waits for a callback until ")
    assert send(jobs, shop) == 200
    assert (jobs.work(), shop.deployed, jobs.status(task)) == ("completed", [GREEN["url"]], "completed")
    assert (jobs.sweep(), jobs.queue.events) == (NOTHING, [])


def test_the_calls_task_shows_what_it_waits_for_and_when_to_poll(jobs: Background) -> None:
    task = waiting_task(jobs)
    until_ms = jobs.time.ms + 2 * 3_600_000

    def state() -> dict[str, Any]:
        return dict(jobs.client().task("get", task).result)

    message = f"waits for a callback until {timestamp(until_ms)} (step build)"
    assert (state()["status"], state()["statusMessage"]) == ("working", message)
    assert state()["pollIntervalMs"] == 900_000
    listed = jobs.client("2025").request("tasks/list").result["tasks"]
    assert next(entry["pollInterval"] for entry in listed if entry["taskId"] == task) == 900_000
    jobs.time.s += 7_000
    assert state()["pollIntervalMs"] == 100_000
    jobs.time.s += 199
    assert (state()["pollIntervalMs"], state()["_meta"]["mcp-baton/waits_for"]) == (15_000, ["callback"])


def test_a_call_whose_callback_has_arrived_does_not_say_that_it_waits(jobs: Background, shop: Shop) -> None:
    task = waiting_task(jobs)
    assert send(jobs, shop) == 200
    state = jobs.client().task("get", task).result
    assert (state["statusMessage"], state["pollIntervalMs"]) == ("the wait is over (step build)", 1_000)
    assert "mcp-baton/waits_for" not in state["_meta"]
    (entry,) = (entry for entry in jobs.client("2025").request("tasks/list").result["tasks"] if entry["taskId"] == task)
    assert (entry["statusMessage"], entry["pollInterval"]) == ("the wait is over (step build)", 1_000)


def test_a_sweep_wakes_a_workflow_if_the_process_died_after_storing_the_callback(jobs: Background, shop: Shop) -> None:
    waiting_task(jobs)
    send_and_die(jobs, shop)
    jobs.time.s += 29
    assert jobs.sweep() == NOTHING
    jobs.time.s += 2
    assert jobs.sweep() == {"looked": 1, "woken": 1}
    assert (jobs.work(), shop.deployed, jobs.sweep()) == ("completed", [GREEN["url"]], NOTHING)


@pytest.mark.parametrize("write", range(1, 6))
def test_a_callback_between_the_workers_last_writes_is_not_lost(jobs: Background, shop: Shop, write: int) -> None:
    """The callback arrives just before one of the writes that follow the creation of its address."""
    jobs.begin("release", {"branch": "main"})
    request_numbers, replies = iter(range(1_000)), list[int]()

    def deliver(**_: object) -> None:
        if shop.urls and not replies and next(request_numbers) == write:
            replies.append(200)
            assert send(jobs, shop) == 200

    events = jobs.table.client.meta.events
    events.register("before-call.dynamodb", deliver)
    jobs.work()
    events.unregister("before-call.dynamodb", deliver)
    if not replies:
        assert send(jobs, shop) == 200
    for _ in range(3):
        if jobs.queue.events:
            jobs.work()
        jobs.time.s += 31
        jobs.sweep()
    assert shop.deployed == [GREEN["url"]]


def test_a_call_that_was_cancelled_is_not_woken(jobs: Background, shop: Shop) -> None:
    task = waiting_task(jobs)
    jobs.client().task("cancel", task)
    assert send(jobs, shop) == 200  # the workflow's own task still exists
    jobs.time.s += 31
    assert (jobs.sweep(), jobs.queue.events) == ({"looked": 1, "woken": 0}, [])
    assert jobs.sweep() == NOTHING


@pytest.mark.parametrize("end", ["cancel", "complete", "task_action", "resume"])
def test_a_call_ends_at_once_if_a_client_ends_the_task_of_its_workflow(jobs: Background, shop: Shop, end: str) -> None:
    task, client = waiting_task(jobs), jobs.client()
    workflow_task = client.task("get", task).result["_meta"][WORKFLOW_TASK]
    match end:
        case "task_action":
            client.call_tool("release", {"task_id": workflow_task, "task_action": "cancel"})
        case "complete":
            client.request("tasks/cancel", {"taskId": workflow_task, "result": {"content": []}})
        case "resume":
            send_and_die(jobs, shop)
            client.get_prompt("release", task=workflow_task)
        case _:
            client.task("cancel", workflow_task)
    assert "statusMessage" not in client.task("get", task).result
    assert (jobs.work(), jobs.status(task)) == ("completed", "completed")


def flaky(script: Script, retry: Retry) -> Server:
    """Return a server with a background workflow whose second tool fails for a while."""
    server = Server("flaky")

    @server.tool
    def prepare() -> None:
        """Prepare."""

    @server.tool
    def fetch(ctx: Context) -> str:
        """Fetch from a service that is often unavailable."""
        return script.play("fetch", f"attempt {ctx.attempt}")

    @server.tool
    def finish(text: str) -> str:
        return text

    @server.workflow(background=True)
    def collect() -> None:
        step(prepare)()
        text = step(fetch, retry=retry)()
        step(finish)(text=text)

    return server


PATIENT_RETRY = Retry(attempts=4, first_s=3_600, factor=2, max_s=86_400, jitter=False)


def test_no_worker_runs_while_a_retry_waits(background: MakeBackground, script: Script) -> None:
    jobs = background(flaky(script, PATIENT_RETRY))
    script.errors["fetch"] = "away"
    task = jobs.begin("collect")
    assert (jobs.work(), script.take()) == ("waits", ["fetch"])
    jobs.time.s += 3_590
    assert jobs.sweep() == NOTHING
    jobs.time.s += 11
    assert jobs.sweep() == {"looked": 1, "woken": 1}
    assert (jobs.work(), script.take()) == ("waits", ["fetch"])
    script.errors.clear()
    jobs.time.s += 7_201
    jobs.sweep()
    assert (jobs.work(), script.take()) == ("completed", ["fetch"])
    assert "attempt 3" in str(jobs.client().task("get", task).result)


def test_a_retry_with_long_waits_ends_after_its_last_attempt(background: MakeBackground, script: Script) -> None:
    jobs = background(flaky(script, Retry(attempts=2, first_s=3_600, max_s=3_600, jitter=False)))
    script.errors["fetch"] = "away"
    task = jobs.begin("collect")
    jobs.work()
    jobs.time.s += 3_601
    jobs.sweep()
    assert (jobs.work(), script.take()) == ("completed", ["fetch", "fetch"])
    assert "toolError" in str(jobs.client().task("get", task).result["result"])


def test_a_worker_that_comes_too_early_makes_no_attempt(background: MakeBackground, script: Script) -> None:
    jobs = background(flaky(script, PATIENT_RETRY))
    script.errors["fetch"] = "away"
    task = jobs.begin("collect")
    jobs.work()
    due_time = jobs.table.item(task)["due"]["N"]
    jobs.time.s += 100
    jobs.table.client.update_item(
        TableName=jobs.table.name,
        Key={name: jobs.table.item(task)[name] for name in ("pk", "sk")},
        UpdateExpression="SET due=:now",
        ExpressionAttributeValues={":now": {"N": "0"}},
    )
    jobs.status(task)  # the poll finds a task that seems to be due
    assert (jobs.work(), script.take()) == ("waits", ["fetch"])
    assert jobs.table.item(task)["due"]["N"] == due_time


# The delay of a wake-up by a sweep (`WakeUpDelay`)


def measured_delays(jobs: Background) -> list[float]:
    telemetry = Collector()
    measured_sweep(jobs, telemetry)
    return [measurement.value for measurement in telemetry.take().measurements if measurement.metric is WAKE_UP_DELAY]


def test_the_delay_after_a_lost_callback_counts_from_its_entry_in_the_outbox(jobs: Background, shop: Shop) -> None:
    waiting_task(jobs)
    jobs.time.s += 1_000  # the time of the wait itself does not count
    send_and_die(jobs, shop)
    jobs.time.s += 30 + 7
    assert measured_delays(jobs) == [7_000]
    # The entry still exists, but the workflow has already been woken.
    jobs.time.s += 20
    assert measured_delays(jobs) == []
    assert (jobs.work(), shop.deployed) == ("completed", [GREEN["url"]])


def test_the_delay_after_a_lost_event_counts_from_when_its_next_dispatch_was_due(jobs: Background, shop: Shop) -> None:
    waiting_task(jobs)
    jobs.time.s += 1_000
    send(jobs, shop)
    jobs.queue.lose()
    jobs.time.s += 30 + 7
    assert measured_delays(jobs) == [7_000]
    assert (jobs.work(), shop.deployed, measured_delays(jobs)) == ("completed", [GREEN["url"]], [])


def test_the_delay_after_a_timeout_counts_from_the_end_of_the_wait(jobs: Background) -> None:
    waiting_task(jobs)
    jobs.time.s += 2 * 3_600 + 7
    assert measured_delays(jobs) == [7_000]


@pytest.mark.parametrize("on_timeout", ["fail", "skip"])
def test_a_run_with_a_fast_clock_uses_a_callback_that_arrived_in_time(
    background: MakeBackground, on_timeout: Literal["fail", "skip"]
) -> None:
    """The callback arrives after the worker has read the task, when the wait has timed out by the worker's clock."""
    shop = Shop(on_timeout, background=True)
    jobs = background(shop.server, base_url=BASE)
    waiting_task(jobs)
    jobs.time.s += 2 * 3_600 + 1
    jobs.sweep()
    write_numbers = iter(range(1_000))

    def deliver(**_: object) -> None:
        if next(write_numbers) == 2:  # after the claims of both tasks
            jobs.time.s -= 60
            assert send(jobs, shop) == 200
            jobs.time.s += 60

    events = jobs.table.client.meta.events
    events.register("before-call.dynamodb.UpdateItem", deliver)
    assert jobs.work() == "completed"
    events.unregister("before-call.dynamodb.UpdateItem", deliver)
    assert shop.deployed == [GREEN["url"]]


def test_a_callback_to_an_address_from_a_continuation_wakes_the_job(jobs: Background, shop: Shop) -> None:
    task = waiting_task(jobs)
    workflow_task = jobs.client().task("get", task).result["_meta"][WORKFLOW_TASK]
    jobs.client().call_tool("start_build", {"branch": "main"}, task=workflow_task)
    assert len(shop.urls) == 2
    assert send(jobs, shop) == 200
    assert (jobs.work(), shop.deployed) == ("completed", [GREEN["url"]])


def test_a_repeated_event_does_not_start_a_job_that_waits(jobs: Background) -> None:
    """If its worker were killed, the callback could not wake the job."""
    jobs.begin("release", {"branch": "main"})
    [event] = jobs.queue.events
    assert jobs.work() == "waits"
    assert jobs.work(event) == "nothing to do: working"


def test_a_sweep_wakes_a_workflow_whose_wait_began_after_a_late_event(jobs: Background, shop: Shop) -> None:
    """The worker of the late event starts the wait although the job was dispatched again before."""
    jobs.begin("release", {"branch": "main"})
    late_event = jobs.queue.events.pop()
    jobs.time.s += 31
    assert jobs.sweep() == {"looked": 1, "woken": 1}
    jobs.queue.lose()
    assert jobs.work(late_event) == "waits"
    send_and_die(jobs, shop)
    jobs.time.s += 31
    jobs.sweep()
    assert (jobs.work(), shop.deployed) == ("completed", [GREEN["url"]])


def nightly(background: MakeBackground, shop: Shop) -> tuple[Background, str]:
    """Return a job that waits for a callback and then for eight hours, and the id of its workflow's task."""
    steps = [
        ToolStep(shop.start_build, {"branch": constant("main")}),
        Wait("build", callback=Callback(Build, timedelta(hours=2))),
        Wait("night", sleep=timedelta(hours=8)),
    ]
    shop.server.add_workflow(Workflow(name="nightly", description="build", steps=steps, background=True))
    jobs = background(shop.server, base_url=BASE)
    task = jobs.begin("nightly")
    assert jobs.work() == "waits"
    return jobs, jobs.client().task("get", task).result["_meta"][WORKFLOW_TASK]


def test_a_callback_at_a_fast_clock_does_not_wake_a_job_whose_worker_runs(jobs: Background, shop: Shop) -> None:
    """The wake-up would move the outbox entry, which the worker needs unchanged to hand the job over."""
    jobs.begin("release", {"branch": "main"})
    event_counts = list[int]()

    def deliver(**_: object) -> None:
        if shop.urls and not event_counts:
            event_counts.append(0)
            jobs.time.s += 300
            assert send(jobs, shop) == 200
            jobs.time.s -= 300
            event_counts.append(len(jobs.queue.events))

    events = jobs.table.client.meta.events
    events.register("before-call.dynamodb.UpdateItem", deliver)
    outcome = jobs.work()
    events.unregister("before-call.dynamodb.UpdateItem", deliver)
    assert event_counts == [0, 0]
    assert (outcome, shop.deployed) == ("completed", [GREEN["url"]])
