"""What clients see of a running background task: its message, the poll interval, lists, and its result
(docs/background.md, Status and polling)."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from mcp_baton import Context, RegistrationError, Server
from mcp_baton.present.view import view_in_result
from mcp_baton.tasks.dynamodb.attributes import Item
from mcp_baton.transport.exchange import stream_opener
from tests.sent import Requests
from tests.support.background import Background, MakeBackground, call, created_task, unreachable
from tests.support.client import Answer, Era, JsonDict, Sink, Table


class Reports:
    """Functions that the tool runs before each report and after the last one."""

    def __init__(self) -> None:
        self.hook: Callable[[], object] = lambda: None
        self.last: Callable[[], object] = lambda: None


@contextmanager
def streamed_to(sink: Sink) -> Iterator[None]:
    token = stream_opener.set(sink.open)
    try:
        yield
    finally:
        stream_opener.reset(token)


def counting_server(reports: Reports, **options: Any) -> Server:
    server = Server("s", **options)

    @server.tool(task="optional")
    def count(ctx: Context, total: int = 100) -> str:
        for number in range(1, total + 1):
            reports.hook()
            ctx.report_progress(number, total, "counting")
        reports.last()
        return "counted"

    @server.tool
    def at_once() -> str:
        return "done"

    return server


@pytest.fixture
def reports() -> Reports:
    return Reports()


@pytest.fixture
def jobs(background: MakeBackground, reports: Reports) -> Background:
    return background(counting_server(reports))


def test_a_burst_of_reports_is_one_write_and_the_last_report_is_written_with_the_result(
    jobs: Background, era: Era, requests: Requests
) -> None:
    task = jobs.begin("count", era=era)
    requests.take()
    jobs.work()
    assert requests.take() == ["UpdateItem", "UpdateItem", "UpdateItem"]  # the claim, one message, the end
    assert jobs.client(era).task("get", task).result["statusMessage"] == "100/100: counting"


def test_a_report_is_written_at_once_and_renews_the_claim(jobs: Background, reports: Reports, table: Table) -> None:
    task, claim_ends = jobs.begin("count", {"total": 3}), list[int]()

    def claimed_until() -> int:
        return int(table.item(task)["run"]["M"]["until"]["N"])

    def check_claim() -> None:
        claim_ends.append(claimed_until())
        # Slowly, so that the request's thread can write before the invocation's time is over. And not for ever, because
        # an abandoned thread would send requests during other tests.
        for _ in range(2_000):
            if table.item(task).get("status_message") == {"S": "3/3: counting"}:
                break
            jobs.time.s += 0.1
            time.sleep(0.005)
        claim_ends.append(claimed_until())

    reports.last = check_claim
    jobs.work()
    first_end, last_end = claim_ends
    assert last_end > first_end


def test_the_poll_interval_grows_with_the_tasks_age(jobs: Background, era: Era) -> None:
    task, name = jobs.begin("count", era=era), "pollInterval" if era == "2025" else "pollIntervalMs"
    intervals = list[int]()
    for seconds in (0, 9, 1, 49, 1, 400):
        jobs.time.s += seconds
        intervals.append(jobs.client(era).task("get", task).result[name])
    assert intervals == [1_000, 1_000, 5_000, 5_000, 15_000, 15_000]


def test_a_server_may_choose_the_poll_interval(
    background: MakeBackground, reports: Reports, era: Era, table: Table
) -> None:
    jobs = background(counting_server(reports, poll_interval_s=0.25))
    task = created_task(call(jobs.client(era), "count"))
    assert task["pollInterval" if era == "2025" else "pollIntervalMs"] == 250
    table.replace({**table.item(task["taskId"]), "status": {"S": "input_required"}})
    assert jobs.client().task("get", task["taskId"]).result["pollIntervalMs"] == 250


@pytest.mark.parametrize("name", ["poll_interval_s", "result_wait_s"])
@pytest.mark.parametrize("value", [-1, "1", None, True, float("nan"), float("inf")])
def test_invalid_numbers_of_seconds_are_refused(name: str, value: Any) -> None:
    if (name, value) == ("poll_interval_s", None):
        return
    with pytest.raises(RegistrationError, match=name):
        Server("s", **{name: value})


def test_a_list_and_a_task_show_the_tool_and_the_progress(jobs: Background) -> None:
    task = jobs.begin("count", era="2025")
    jobs.work()
    (entry,) = jobs.client("2025").request("tasks/list").result["tasks"]
    assert (entry["taskId"], entry["_meta"]) == (task, {"tool": "count"})
    assert (entry["status"], entry["statusMessage"]) == ("completed", "100/100: counting")
    assert view_in_result(jobs.client("2025").task("get", task).result).tool == "count"


# tasks/result


def result(jobs: Background, task: str, **client: Any) -> Answer:
    return jobs.client("2025", **client).task("result", task)


def test_tasks_result_polls_the_status_and_reads_the_task_when_it_is_over(jobs: Background, requests: Requests) -> None:
    task = jobs.begin("count", era="2025")
    jobs.time.meanwhile = [lambda: None, lambda: None, lambda: (requests.take(), jobs.work(), requests.take())]
    assert result(jobs, task).result["structuredContent"] == {"result": "counted"}
    assert requests.take() == ["GetItem"] * 2  # the status, then the whole task
    assert jobs.time.sleeps == [1.0] * 3


@pytest.mark.parametrize(
    ("wait_s", "remaining_ms", "slept_s"),
    [(30, 60_000, 25), (10, 60_000, 10), (0, 60_000, 0), (30, 12_000, 7)],
    ids=["the limit without streaming", "the server's choice", "no wait", "the function's time"],
)
def test_tasks_result_waits_no_longer_than_its_limits(
    background: MakeBackground, reports: Reports, wait_s: float, remaining_ms: int, slept_s: float
) -> None:
    jobs = background(counting_server(reports, result_wait_s=wait_s))
    task = jobs.begin("count", era="2025")
    start_s = jobs.time.s
    answer = result(jobs, task, remaining_ms=lambda: remaining_ms - round((jobs.time.s - start_s) * 1000))
    assert answer.refusal == (200, -32600)
    interval = 1_000 if slept_s < 10 else 5_000
    assert answer.error["data"] == {"status": "working", "pollInterval": interval}
    assert sum(jobs.time.sleeps) == slept_s


def test_a_stream_is_kept_alive_while_tasks_result_waits(jobs: Background) -> None:
    task, chunks = jobs.begin("count", era="2025"), list[bytes]()
    jobs.time.meanwhile = [lambda: None] * 20 + [jobs.work]

    class Raw(Sink):
        def write(self, data: bytes) -> None:
            chunks.append(data)

    with streamed_to(Raw()):
        result(jobs, task)
    assert chunks[0] == b": keep-alive\n\n"
    assert b'"counted"' in chunks[1]
    assert len(chunks) == 2


def test_a_result_that_arrives_before_the_first_keep_alive_is_not_streamed(jobs: Background) -> None:
    task, sink = jobs.begin("count", era="2025"), Sink()
    jobs.time.meanwhile = [jobs.work]
    with streamed_to(sink):
        answer = result(jobs, task)
    assert answer.headers["Content-Type"] == "application/json"


def test_a_waiting_request_dispatches_the_task_again_if_that_is_due(jobs: Background) -> None:
    task = jobs.begin("count", era="2025")
    jobs.queue.lose()
    jobs.time.s += 20
    jobs.time.meanwhile = [lambda: None] * 11 + [jobs.work]
    assert result(jobs, task).result["structuredContent"] == {"result": "counted"}
    assert jobs.head(task)[1] == 2


def test_tasks_result_does_not_wait_for_a_task_that_waits_for_the_client(jobs: Background, table: Table) -> None:
    task = jobs.begin("count", era="2025")
    table.replace({**table.item(task), "status": {"S": "input_required"}})
    assert result(jobs, task).error["data"] == {"status": "input_required", "pollInterval": 60_000}
    assert jobs.time.sleeps == []


# notifications/tasks


def listen(jobs: Background, ids: Any, owner: str = "alice") -> list[Any]:
    """Open a stream for these tasks. Return its messages, of which the last is the result."""
    sink, messages = Sink(), list[Any]()
    with streamed_to(sink):
        jobs.client("2026", owner).request("subscriptions/listen", {"notifications": {"taskIds": ids}})
    while not messages or "result" not in messages[-1]:
        messages.append(sink.next())
    return messages


SUBSCRIPTION = {"io.modelcontextprotocol/subscriptionId": 1}


def notified_statuses(messages: list[Any]) -> list[tuple[str, str | None]]:
    notifications = [message["params"] for message in messages if message.get("method") == "notifications/tasks"]
    return [(params["status"], params.get("statusMessage")) for params in notifications]


def test_a_stream_reports_the_status_and_each_change_of_a_task_and_ends_with_the_task(jobs: Background) -> None:
    task = jobs.begin("count", {"total": 1})
    jobs.time.meanwhile = [lambda: None, jobs.work]
    messages = listen(jobs, [task])
    assert messages[0]["params"] == {"_meta": SUBSCRIPTION, "notifications": {"taskIds": [task]}}
    assert notified_statuses(messages) == [("working", None), ("completed", "1/1: counting")]
    state = jobs.client().task("get", task).result
    assert messages[-2]["params"] | {"_meta": None, "resultType": "complete"} == state | {"_meta": None}
    assert messages[-2]["params"]["_meta"].items() >= SUBSCRIPTION.items()
    assert messages[-1]["result"]["_meta"].items() >= SUBSCRIPTION.items()
    assert jobs.time.sleeps == [1.0] * 2


def test_each_change_of_the_message_is_reported(jobs: Background, reports: Reports, table: Table) -> None:
    task = jobs.begin("count")

    def say(message: str) -> None:
        item = table.item(task)
        changes: Item = {"version": {"N": str(int(item["version"]["N"]) + 1)}, "status_message": {"S": message}}
        table.replace({**item, **changes})

    jobs.time.meanwhile = [lambda: say("half"), lambda: None, lambda: say("most"), lambda: say("most"), jobs.work]
    states = [("working", None), ("working", "half"), ("working", "most"), ("completed", "100/100: counting")]
    assert notified_statuses(listen(jobs, [task])) == states


def test_a_stream_of_an_ended_task_reports_it_and_ends(jobs: Background) -> None:
    task = jobs.begin("count", {"total": 1})
    jobs.work()
    assert notified_statuses(listen(jobs, [task])) == [("completed", "1/1: counting")]
    assert jobs.time.sleeps == []


def test_a_stream_reads_the_status_of_tasks_at_their_poll_interval(jobs: Background, requests: Requests) -> None:
    task = jobs.begin("count")
    jobs.time.s += 20
    requests.take()
    listen(jobs, [task])
    operations = requests.take()
    # The task is read once. Its status is read at the ages of 25, 30, … 60 s and of 75 s. At 35 s a dispatch is due, so
    # the task is read again and dispatched. The stream ends at the age of 80 s.
    assert operations.count("UpdateItem") == 1
    assert operations.count("GetItem") == 1 + 9 + 1
    assert len(jobs.queue.events) == 2


def test_a_subscription_covers_the_owners_tasks_among_the_first_32_ids(jobs: Background) -> None:
    bobs_task = jobs.begin("count", owner="bob")
    own_tasks = [jobs.begin("count") for _ in range(33)]
    for task in own_tasks:
        jobs.client().task("cancel", task)
    messages = listen(jobs, [bobs_task, "unknown", own_tasks[0], *own_tasks])
    assert messages[0]["params"]["notifications"] == {"taskIds": own_tasks[:30]}


def test_a_subscription_without_known_tasks_covers_nothing(jobs: Background) -> None:
    assert listen(jobs, ["unknown"])[0]["params"]["notifications"] == {}
    assert sum(jobs.time.sleeps) == 60


@pytest.mark.parametrize("ids", ["t", [1], {}])
def test_task_ids_that_are_not_a_list_of_strings_are_refused(jobs: Background, ids: Any) -> None:
    assert jobs.client().request("subscriptions/listen", {"notifications": {"taskIds": ids}}).refusal == (400, -32602)


def test_a_client_that_has_not_declared_the_extension_is_refused(jobs: Background) -> None:
    capabilities: JsonDict = {"io.modelcontextprotocol/clientCapabilities": {}}
    answer = jobs.client().request("subscriptions/listen", {"notifications": {"taskIds": ["t"]}}, capabilities)
    assert answer.refusal == (400, -32021)
    assert answer.error["data"] == {"requiredCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}}


def test_without_a_stream_each_task_is_reported_once(jobs: Background) -> None:
    task = jobs.begin("count")
    answer = jobs.client().request("subscriptions/listen", {"notifications": {"taskIds": [task]}})
    assert notified_statuses(answer.messages) == [("working", None)]
    assert jobs.time.sleeps == []


def test_a_stream_continues_while_the_store_is_unavailable(jobs: Background, table: Table) -> None:
    task = jobs.begin("count", {"total": 1})
    outage = unreachable(table.client, "GetItem")
    jobs.time.meanwhile = [outage.__enter__, lambda: None, lambda: outage.__exit__(None, None, None), jobs.work]
    assert notified_statuses(listen(jobs, [task])) == [("working", None), ("completed", "1/1: counting")]


def test_an_expired_task_is_reported_as_failed_and_the_others_continue(jobs: Background, table: Table) -> None:
    expiring_task, live_task = jobs.begin("count", {"total": 1}), jobs.begin("count", {"total": 1})
    jobs.queue.events.pop(0)
    jobs.time.meanwhile = [lambda: table.expire(expiring_task), jobs.work]
    messages = listen(jobs, [expiring_task, live_task])
    states = [
        (message["params"]["taskId"], *notified_statuses([message])[0])
        for message in messages
        if notified_statuses([message])
    ]
    assert states == [
        (expiring_task, "working", None),
        (live_task, "working", None),
        (expiring_task, "failed", "The task has expired."),
        (live_task, "completed", "1/1: counting"),
    ]
    error = next(
        message["params"]["error"] for message in messages if notified_statuses([message])[:1] == [states[2][1:]]
    )
    assert error == jobs.client().task("get", expiring_task).error | {"message": "The task has expired."}


def test_a_task_that_expires_while_the_stream_opens_does_not_affect_the_others(jobs: Background, table: Table) -> None:
    """A dispatch of the task is due, but the task expires before the dispatch is written."""
    expiring_task, live_task = jobs.begin("count", {"total": 1}), jobs.begin("count", {"total": 1})
    jobs.work(jobs.queue.events[1])
    jobs.time.s += 40

    def expire(**_: object) -> None:
        table.client.meta.events.unregister("after-call.dynamodb.GetItem", expire)
        table.expire(expiring_task)

    table.client.meta.events.register("after-call.dynamodb.GetItem", expire)
    messages = listen(jobs, [expiring_task, live_task])
    assert messages[0]["params"]["notifications"] == {"taskIds": [live_task]}
    assert notified_statuses(messages) == [("completed", "1/1: counting")]
