"""What clients see of a running background task: its message, the poll interval, lists, and its result
(docs/background.md, Status and polling)."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from mcp_baton import Context, RegistrationError, Server
from mcp_baton.server.methods.tasks import MAX_UNSTREAMED_WAIT_S
from mcp_baton.tasks.dynamodb.attributes import Item
from mcp_baton.transport.stream import stream_opener
from tests.e2e.background_support import Background, MakeBackground, away, call, created
from tests.e2e.support import Answer, Era, JsonDict, Sink, Table
from tests.sent import Requests


class Reports:
    """Functions that the tool runs before each report and after the last one."""

    def __init__(self) -> None:
        self.each: Callable[[], object] = lambda: None
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
            reports.each()
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


def test_a_report_is_written_while_the_tool_runs_and_renews_the_claim(
    jobs: Background, reports: Reports, table: Table
) -> None:
    task, seen = jobs.begin("count", {"total": 3}), list[int]()

    def claimed_until() -> int:
        return int(table.item(task)["run"]["M"]["until"]["N"])

    def look() -> None:
        seen.append(claimed_until())
        while table.item(task).get("status_message") != {"S": "3/3: counting"}:
            jobs.time.s += 1
        seen.append(claimed_until())

    reports.last = look
    jobs.work()
    before, after = seen
    assert after > before


def test_the_poll_interval_grows_with_the_tasks_age(jobs: Background, era: Era) -> None:
    task, name = jobs.begin("count", era=era), "pollInterval" if era == "2025" else "pollIntervalMs"
    seen = list[int]()
    for passed in (0, 9, 1, 49, 1, 400):
        jobs.time.s += passed
        seen.append(jobs.client(era).task("get", task).result[name])
    assert seen == [1_000, 1_000, 5_000, 5_000, 15_000, 15_000]


def test_a_server_may_choose_the_poll_interval(
    background: MakeBackground, reports: Reports, era: Era, table: Table
) -> None:
    jobs = background(counting_server(reports, poll_interval_s=0.25))
    made = created(call(jobs.client(era), "count"))
    assert made["pollInterval" if era == "2025" else "pollIntervalMs"] == 250
    table.replace({**table.item(made["taskId"]), "status": {"S": "input_required"}})
    assert jobs.client().task("get", made["taskId"]).result["pollIntervalMs"] == 250


@pytest.mark.parametrize("name", ["poll_interval_s", "result_wait_s"])
@pytest.mark.parametrize("value", [-1, "1", None, True, float("nan"), float("inf")])
def test_invalid_numbers_of_seconds_are_refused(name: str, value: Any) -> None:
    if (name, value) == ("poll_interval_s", None):
        return
    with pytest.raises(RegistrationError, match=name):
        Server("s", **{name: value})


def test_a_list_shows_the_tool_and_the_progress_of_a_task(jobs: Background) -> None:
    task = jobs.begin("count", era="2025")
    jobs.work()
    (listed,) = jobs.client("2025").request("tasks/list").result["tasks"]
    assert (listed["taskId"], listed["_meta"]) == (task, {"tool": "count"})
    assert (listed["status"], listed["statusMessage"]) == ("completed", "100/100: counting")


# tasks/result


def result(jobs: Background, task: str, **client: Any) -> Answer:
    return jobs.client("2025", **client).task("result", task)


def test_tasks_result_polls_the_status_until_a_worker_is_done_and_then_reads_the_task(
    jobs: Background, requests: Requests
) -> None:
    task = jobs.begin("count", era="2025")
    jobs.time.meanwhile = [lambda: None, lambda: None, lambda: (requests.take(), jobs.work(), requests.take())]
    assert result(jobs, task).result["structuredContent"] == {"result": "counted"}
    assert requests.take() == ["GetItem"] * 2  # the status, then the whole task
    assert jobs.time.slept == [1.0] * 3


@pytest.mark.parametrize(
    ("wait_s", "left_ms", "slept_s"),
    [(30, 60_000, 25), (10, 60_000, 10), (0, 60_000, 0), (30, 12_000, 7)],
    ids=["the limit without streaming", "the server's choice", "no wait", "the function's time"],
)
def test_tasks_result_waits_no_longer_than_its_limits(
    background: MakeBackground, reports: Reports, wait_s: float, left_ms: int, slept_s: float
) -> None:
    jobs = background(counting_server(reports, result_wait_s=wait_s))
    task = jobs.begin("count", era="2025")
    began = jobs.time.s
    answer = result(jobs, task, remaining_ms=lambda: left_ms - round((jobs.time.s - began) * 1000))
    assert answer.refusal == (200, -32600)
    interval = 1_000 if slept_s < 10 else 5_000
    assert answer.error["data"] == {"status": "working", "pollInterval": interval}
    assert sum(jobs.time.slept) == slept_s


def test_all_messages_of_a_batch_together_wait_no_longer_than_one_request(jobs: Background) -> None:
    tasks = [jobs.begin("count", era="2025") for _ in range(3)]
    jobs.work()
    asked = [
        {"jsonrpc": "2.0", "id": number, "method": "tasks/result", "params": {"taskId": task}}
        for number, task in enumerate(tasks)
    ]
    done, *open_ones = json.loads(
        jobs.client("2025").post(json.dumps(asked), {"MCP-Protocol-Version": "2025-03-26"}).body
    )
    assert done["result"]["structuredContent"] == {"result": "counted"}
    assert [answer["error"]["data"]["status"] for answer in open_ones] == ["working"] * 2
    assert sum(jobs.time.slept) == MAX_UNSTREAMED_WAIT_S


def test_a_stream_is_kept_alive_while_tasks_result_waits(jobs: Background) -> None:
    task, written = jobs.begin("count", era="2025"), list[bytes]()
    jobs.time.meanwhile = [lambda: None] * 20 + [jobs.work]

    class Raw(Sink):
        def write(self, data: bytes) -> None:
            written.append(data)

    with streamed_to(Raw()):
        result(jobs, task)
    assert written[0] == b": keep-alive\n\n"
    assert b'"counted"' in written[1]
    assert len(written) == 2


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
    answer = result(jobs, task)
    assert answer.error["data"] == {"status": "input_required", "pollInterval": 60_000}
    assert jobs.time.slept == []


# notifications/tasks


def listen(jobs: Background, ids: Any, owner: str = "alice") -> list[Any]:
    """Open a stream for these tasks. Return its messages, of which the last is the result."""
    sink, heard = Sink(), list[Any]()
    with streamed_to(sink):
        jobs.client("2026", owner).request("subscriptions/listen", {"notifications": {"taskIds": ids}})
    while not heard or "result" not in heard[-1]:
        heard.append(sink.next())
    return heard


SUBSCRIPTION = {"io.modelcontextprotocol/subscriptionId": 1}


def reported(heard: list[Any]) -> list[tuple[str, str | None]]:
    """Return the status and the message of each notification about a task."""
    notified = [message["params"] for message in heard if message.get("method") == "notifications/tasks"]
    return [(params["status"], params.get("statusMessage")) for params in notified]


def test_a_stream_reports_the_status_and_each_change_of_a_task_and_ends_with_the_task(jobs: Background) -> None:
    task = jobs.begin("count", {"total": 1})
    jobs.time.meanwhile = [lambda: None, jobs.work]
    heard = listen(jobs, [task])
    acknowledged = {"_meta": SUBSCRIPTION, "notifications": {"taskIds": [task]}}
    assert heard[0]["params"] == acknowledged
    assert reported(heard) == [("working", None), ("completed", "1/1: counting")]
    shown = jobs.client().task("get", task).result
    assert heard[-2]["params"] | {"_meta": None, "resultType": "complete"} == shown | {"_meta": None}
    assert heard[-2]["params"]["_meta"].items() >= SUBSCRIPTION.items()
    assert heard[-1]["result"]["_meta"].items() >= SUBSCRIPTION.items()
    assert jobs.time.slept == [1.0] * 2


def test_each_change_of_the_message_is_reported(jobs: Background, reports: Reports, table: Table) -> None:
    task = jobs.begin("count")

    def say(message: str) -> None:
        item = table.item(task)
        said: Item = {"version": {"N": str(int(item["version"]["N"]) + 1)}, "status_message": {"S": message}}
        table.replace({**item, **said})

    jobs.time.meanwhile = [lambda: say("half"), lambda: None, lambda: say("most"), lambda: say("most"), jobs.work]
    states = [("working", None), ("working", "half"), ("working", "most"), ("completed", "100/100: counting")]
    assert reported(listen(jobs, [task])) == states


def test_a_stream_of_an_ended_task_reports_it_and_ends(jobs: Background) -> None:
    task = jobs.begin("count", {"total": 1})
    jobs.work()
    assert reported(listen(jobs, [task])) == [("completed", "1/1: counting")]
    assert jobs.time.slept == []


def test_a_stream_reads_the_status_of_tasks_at_their_poll_interval(jobs: Background, requests: Requests) -> None:
    task = jobs.begin("count")
    jobs.time.s += 20
    requests.take()
    listen(jobs, [task])
    read = requests.take()
    # The task is read once. Its status is read at the ages of 25, 30, … 60 s and of 75 s. At 35 s a dispatch is due, so
    # the task is read again and dispatched. The stream ends at the age of 80 s.
    assert read.count("UpdateItem") == 1
    assert read.count("GetItem") == 1 + 9 + 1
    assert len(jobs.queue.events) == 2


def test_a_subscription_covers_the_owners_tasks_among_the_first_32_ids(jobs: Background) -> None:
    bobs = jobs.begin("count", owner="bob")
    mine = [jobs.begin("count") for _ in range(33)]
    for task in mine:
        jobs.client().task("cancel", task)
    heard = listen(jobs, [bobs, "nobodys", mine[0], *mine])
    assert heard[0]["params"]["notifications"] == {"taskIds": mine[:30]}


def test_a_subscription_without_known_tasks_covers_nothing(jobs: Background) -> None:
    heard = listen(jobs, ["nobodys"])
    assert heard[0]["params"]["notifications"] == {}
    assert sum(jobs.time.slept) == 60


@pytest.mark.parametrize("ids", ["t", [1], {}, None])
def test_task_ids_that_are_not_a_list_of_strings_are_refused(jobs: Background, ids: Any) -> None:
    answer = jobs.client().request("subscriptions/listen", {"notifications": {"taskIds": ids}})
    assert answer.refusal == (400, -32602)


def test_a_client_that_has_not_declared_the_extension_is_refused(jobs: Background) -> None:
    capabilities: JsonDict = {"io.modelcontextprotocol/clientCapabilities": {}}
    asked = {"notifications": {"taskIds": ["t"]}}
    answer = jobs.client().request("subscriptions/listen", asked, capabilities)
    assert answer.refusal == (400, -32021)
    assert answer.error["data"] == {"requiredCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}}


def test_without_a_stream_each_task_is_reported_once(jobs: Background) -> None:
    task = jobs.begin("count")
    answer = jobs.client().request("subscriptions/listen", {"notifications": {"taskIds": [task]}})
    assert reported(answer.messages) == [("working", None)]
    assert jobs.time.slept == []


def test_a_stream_continues_while_the_store_is_unavailable(jobs: Background, table: Table) -> None:
    task = jobs.begin("count", {"total": 1})
    down = away(table.client, "GetItem")
    jobs.time.meanwhile = [down.__enter__, lambda: None, lambda: down.__exit__(None, None, None), jobs.work]
    assert reported(listen(jobs, [task])) == [("working", None), ("completed", "1/1: counting")]


def test_an_expired_task_is_reported_as_failed_and_the_others_continue(jobs: Background, table: Table) -> None:
    expires, stays = jobs.begin("count", {"total": 1}), jobs.begin("count", {"total": 1})
    jobs.queue.events.pop(0)
    jobs.time.meanwhile = [lambda: table.expire(expires), jobs.work]
    heard = listen(jobs, [expires, stays])
    told_of = [(message["params"]["taskId"], *reported([message])[0]) for message in heard if reported([message])]
    assert told_of == [
        (expires, "working", None),
        (stays, "working", None),
        (expires, "failed", "The task has expired."),
        (stays, "completed", "1/1: counting"),
    ]
    error = next(message["params"]["error"] for message in heard if reported([message])[:1] == [told_of[2][1:]])
    assert error == jobs.client().task("get", expires).error | {"message": "The task has expired."}


def test_a_task_that_expires_while_the_stream_opens_does_not_affect_the_others(jobs: Background, table: Table) -> None:
    """A dispatch of the task is due, but the task expires before the dispatch is written."""
    expires, stays = jobs.begin("count", {"total": 1}), jobs.begin("count", {"total": 1})
    jobs.work(jobs.queue.events[1])
    jobs.time.s += 40

    def expire(**_: object) -> None:
        table.client.meta.events.unregister("after-call.dynamodb.GetItem", expire)
        table.expire(expires)

    table.client.meta.events.register("after-call.dynamodb.GetItem", expire)
    heard = listen(jobs, [expires, stays])
    assert heard[0]["params"]["notifications"] == {"taskIds": [stays]}
    assert reported(heard) == [("completed", "1/1: counting")]
