"""Questions of background tools (docs/background.md, Asking the client in the background)."""

from itertools import count
from typing import Any

import pytest

from mcp_baton import Context, Server, elicitation, roots, sampling
from mcp_baton.exceptions import StoreUnavailable
from mcp_baton.protocol.envelope import (
    CAPABILITIES_KEY,
    RANDOM_BYTES,
    RELATED_TASK_KEY,
    SESSION_HEADER,
    TASKS_EXTENSION,
    session_id,
)
from mcp_baton.tasks.ids import new_task_question
from mcp_baton.testing import connect
from tests.noise import noise
from tests.questions.test_asked_by_tools import FORM, respond
from tests.support.background import Background, MakeBackground, created_task
from tests.support.client import BOUND_S, Answer, Client, Era, JsonDict, Sink
from tests.support.handler import Submit
from tests.tasks.test_task_status import streamed_to

ALL: JsonDict = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
INVALID_PARAMS, INVALID_REQUEST = -32602, -32600


def name_answer(name: str) -> JsonDict:
    return {"action": "accept", "content": {"name": name}}


def asking_server(runs: list[str]) -> Server:
    """Return a server whose background tools ask the client. `runs` gets an entry at each start of the first tool."""
    server, attempts = Server("asking"), count()

    @server.tool(task="optional")
    def two_rounds(ctx: Context) -> list[str]:
        runs.append("two_rounds")
        person, place = ctx.ask(elicitation("who", "Who?", FORM), elicitation("where", "Where?", FORM))
        day = ctx.elicit("When?", FORM)
        return [person.content["name"], place.content["name"], day.content["name"]]

    @server.tool(task="optional")
    def one(ctx: Context) -> str:
        answer = ctx.elicit("Who?", FORM, key="who")
        return str(answer.content.get("name", answer.action))

    @server.tool(task="optional")
    async def everything(ctx: Context) -> list[str]:
        reply, root_list = await ctx.aask(sampling("thought", "Which?"), roots("where"))
        page = ctx.elicit_url("Pay there", "https://pay.example", key="page")
        return [reply.text, root_list.roots[0].uri, page.action]

    @server.tool(task="required")
    def pay(ctx: Context) -> str:
        return ctx.elicit_url("Pay there", "https://pay.example", key="page").action

    @server.tool(task="optional")
    def able(ctx: Context) -> list[bool]:
        return [ctx.client_supports(name) for name in ("elicitation", "elicitation.url", "sampling", "roots")]

    @server.tool(task="optional")
    def changes(ctx: Context) -> str:
        return ctx.elicit(f"Who, attempt {next(attempts)}?", FORM, key="who").action

    @server.tool(task="optional")
    def in_a_tuple(ctx: Context) -> str:
        """Ask with a schema that contains a tuple, which JSON turns into a list."""
        form: Any = {"type": "object", "properties": {"size": {"type": "string", "enum": ("S", "L")}}}
        return str(ctx.elicit("Which size?", form, key="size").content["size"])

    @server.tool(task="optional")
    def in_turn(ctx: Context) -> list[Any]:
        return [ctx.elicit("Again?", FORM).content["name"] for _ in range(3)]

    @server.tool(task="optional")
    def many(ctx: Context) -> int:
        return len(ctx.ask(*(elicitation(f"q{number}", "Who?", FORM) for number in range(101))))

    return server


def begin(jobs: Background, tool: str, era: Era = "2026", kinds: JsonDict | None = None) -> str:
    """Call a tool as a task and return the task's id. By default the client supports all kinds of questions."""
    params: JsonDict = {"name": tool, "arguments": {}}
    capabilities = {**(ALL if kinds is None else kinds), "extensions": {TASKS_EXTENSION: {}}}
    if era == "2026":
        answer = jobs.client(era).request("tools/call", params, {CAPABILITIES_KEY: capabilities})
    else:
        answer = jobs.client(era).request("tools/call", {**params, "task": {}})
    task: str = created_task(answer)["taskId"]
    return task


def waiting_task(jobs: Background, tool: str, era: Era = "2026") -> str:
    task = begin(jobs, tool, era)
    assert jobs.work() == "asked"
    return task


def update(jobs: Background, task: str, **answers: object) -> Answer:
    return jobs.client().task("update", task, inputResponses=answers)


def open_questions(jobs: Background, task: str) -> JsonDict:
    state = jobs.client().task("get", task).result
    assert state["status"] == "input_required"
    questions: JsonDict = state["inputRequests"]
    return questions


def value_of(jobs: Background, task: str) -> Any:
    state = jobs.client().task("get", task).result
    assert state["status"] == "completed", state
    return state["result"]["structuredContent"]["result"]


@pytest.fixture
def runs() -> list[str]:
    return []


@pytest.fixture
def jobs(background: MakeBackground, runs: list[str]) -> Background:
    return background(asking_server(runs))


def test_a_background_tool_asks_and_runs_again_with_the_answers(jobs: Background, runs: list[str]) -> None:
    task = waiting_task(jobs, "two_rounds")
    assert {key: question["params"]["message"] for key, question in open_questions(jobs, task).items()} == {
        "who": "Who?",
        "where": "Where?",
    }

    assert update(jobs, task, who=name_answer("Kim")).meta == {}
    # After the first of two answers the status does not change, and no worker is dispatched.
    assert (list(open_questions(jobs, task)), jobs.queue.events) == (["where"], [])
    update(jobs, task, where=name_answer("Oslo"))
    assert (jobs.status(task), len(jobs.queue.events)) == ("working", 1)

    assert jobs.work() == "asked"
    [third_key] = open_questions(jobs, task)
    update(jobs, task, **{third_key: name_answer("today")})
    assert jobs.work() == "completed"
    assert (value_of(jobs, task), len(runs)) == (["Kim", "Oslo", "today"], 3)


def test_repeated_answers_and_answers_to_unknown_questions_are_ignored(jobs: Background) -> None:
    task = waiting_task(jobs, "two_rounds")

    update(jobs, task, who=name_answer("Kim"), unknown=name_answer("Pat"))
    update(jobs, task, who=name_answer("Pat"))
    update(jobs, task)
    assert list(open_questions(jobs, task)) == ["where"]
    update(jobs, task, where=name_answer("Oslo"))
    # A client may repeat an answer after its reply was lost. The worker is not dispatched again.
    update(jobs, task, where=name_answer("Rome"))
    assert len(jobs.queue.events) == 1
    jobs.work()
    [third_key] = open_questions(jobs, task)
    update(jobs, task, **{third_key: name_answer("today")})
    jobs.work()
    assert value_of(jobs, task) == ["Kim", "Oslo", "today"]


def test_an_update_with_an_answer_that_is_not_an_object_is_refused_as_a_whole_and_names_the_answer(
    jobs: Background,
) -> None:
    task = waiting_task(jobs, "two_rounds")

    for wrong_answer in ("yes", None, 3, ["accept"]):
        reply = update(jobs, task, who=name_answer("Kim"), where=wrong_answer)
        assert reply.refusal == (400, INVALID_PARAMS)
        assert "`inputResponses.where`" in reply.error["message"]
        assert list(open_questions(jobs, task)) == ["who", "where"]


def test_an_update_of_an_ended_task_is_acknowledged_and_changes_nothing(jobs: Background) -> None:
    completed_task, cancelled_task = waiting_task(jobs, "one"), waiting_task(jobs, "one")
    update(jobs, completed_task, who=name_answer("Kim"))
    jobs.work()
    jobs.client().task("cancel", cancelled_task)

    for task in (completed_task, cancelled_task):
        item_before = jobs.table.item(task)
        assert set(update(jobs, task, who=name_answer("Pat")).result) == {"resultType", "_meta"}
        assert (jobs.table.item(task), jobs.queue.events) == (item_before, [])


def test_a_task_that_waits_for_answers_can_be_cancelled_and_then_shows_no_questions(jobs: Background, era: Era) -> None:
    task = waiting_task(jobs, "one", era)

    jobs.client(era).task("cancel", task)
    state = jobs.client(era).task("get", task).result
    assert (state["status"], "inputRequests" in state) == ("cancelled", False)
    assert jobs.client(era).task("result", task).error["code"] == (INVALID_REQUEST if era == "2025" else -32601)


def test_an_answer_whose_dispatch_failed_is_processed_after_a_poll(jobs: Background) -> None:
    task = waiting_task(jobs, "one")
    jobs.queue.refuses = True
    update(jobs, task, who=name_answer("Kim"))
    jobs.queue.refuses = False

    assert (jobs.status(task), jobs.queue.events) == ("working", [])
    jobs.time.s += 31
    assert (jobs.status(task), len(jobs.queue.events)) == ("working", 1)
    assert jobs.work() == "completed"
    assert value_of(jobs, task) == "Kim"


def test_a_key_with_two_different_questions_is_an_error_whose_log_names_the_key(
    jobs: Background, caplog: pytest.LogCaptureFixture
) -> None:
    task = waiting_task(jobs, "changes")
    update(jobs, task, who=name_answer("Kim"))

    assert jobs.work() == "completed"
    result = jobs.client().task("get", task).result["result"]
    assert result["isError"] is True
    assert result["content"][0]["text"] == "internal error in changes (id worker-1)"
    assert "question key 'who'" in caplog.text


def test_a_schema_with_tuples_equals_the_same_schema_with_lists(jobs: Background) -> None:
    task = waiting_task(jobs, "in_a_tuple")
    update(jobs, task, size={"action": "accept", "content": {"size": "L"}})

    jobs.work()
    assert value_of(jobs, task) == "L"


def test_a_worker_knows_the_capabilities_that_the_clients_request_or_session_declared(jobs: Background) -> None:
    params: JsonDict = {"name": "able", "arguments": {}, "task": {}}
    declarations: list[JsonDict] = [ALL, {"elicitation": {}}, {}]
    tasks = [begin(jobs, "able", kinds=capabilities) for capabilities in declarations]
    sessions = [{}, {SESSION_HEADER: session_id(["elicitation"], bytes(RANDOM_BYTES))}]
    calls = [jobs.client("2025").request("tools/call", params, headers=headers) for headers in sessions]
    tasks += [created_task(answer)["taskId"] for answer in calls]
    while jobs.queue.events:
        jobs.work()
    all_kinds, forms_only, no_kinds = [True] * 4, [True, False, False, False], [False] * 4
    assert [value_of(jobs, task) for task in tasks] == [all_kinds, forms_only, no_kinds, all_kinds, forms_only]


def test_a_client_that_cannot_be_asked_makes_the_tool_fail_at_once(jobs: Background) -> None:
    task = begin(jobs, "one", kinds={})

    assert jobs.work() == "completed"
    result = jobs.client().task("get", task).result["result"]
    assert result["isError"] is True
    assert "has not declared the capability 'elicitation'" in result["content"][0]["text"]


def test_more_questions_than_one_write_stores_end_the_task_with_an_error(jobs: Background) -> None:
    task = begin(jobs, "many")

    assert jobs.work() == "completed"
    result = jobs.client().task("get", task).result["result"]
    assert (result["isError"], "questions cannot be stored" in result["content"][0]["text"]) == (True, True)


def stream_messages(client: Client, method: str, task: str, **headers: str) -> list[JsonDict]:
    sink = Sink()
    with streamed_to(sink):
        answer = client.request(f"tasks/{method}", {"taskId": task}, headers=headers)
    if answer.body:
        return answer.messages
    messages = [sink.next()]
    while "method" in messages[-1]:
        messages.append(sink.next())
    return messages


def test_in_the_2025_era_tasks_get_sends_questions_once_on_its_stream(jobs: Background) -> None:
    task = waiting_task(jobs, "two_rounds", "2025")

    first_question, second_question, reply = stream_messages(jobs.client("2025"), "get", task)
    assert (reply["result"]["status"], "inputRequests" in reply["result"]) == ("input_required", False)
    for question, message in ((first_question, "Who?"), (second_question, "Where?")):
        assert question["method"] == "elicitation/create"
        assert (question["params"]["message"], question["params"]["mode"]) == (message, "form")
        assert question["params"]["_meta"] == {RELATED_TASK_KEY: {"taskId": task}}
    assert len(stream_messages(jobs.client("2025"), "get", task)) == 1

    # No request waits for the answers. Each answer is a request of its own, to another function.
    assert respond(jobs.client("2025"), first_question, result=name_answer("Kim")).status == 202
    assert respond(jobs.client("2025"), second_question, result=name_answer("Oslo")).status == 202
    assert jobs.work() == "asked"
    third_question, _ = stream_messages(jobs.client("2025"), "get", task)
    respond(jobs.client("2025"), third_question, result=name_answer("today"))
    jobs.work()
    assert jobs.client("2025").task("result", task).result["structuredContent"] == {"result": ["Kim", "Oslo", "today"]}


def test_a_question_is_sent_again_after_a_while_because_the_client_may_have_lost_it(jobs: Background) -> None:
    task, window_s = waiting_task(jobs, "one", "2025"), 300
    # The window starts when the question is sent, which is long after it was asked.
    jobs.time.s += window_s - 50
    assert len(stream_messages(jobs.client("2025"), "get", task)) == 2

    jobs.time.s += window_s - 1
    assert len(stream_messages(jobs.client("2025"), "get", task)) == 1
    jobs.time.s += window_s + 1
    question, _ = stream_messages(jobs.client("2025"), "get", task)
    assert respond(jobs.client("2025"), question, result=name_answer("Kim")).status == 202


def test_a_client_without_a_stream_gets_only_the_status(jobs: Background) -> None:
    task = waiting_task(jobs, "one", "2025")

    assert jobs.client("2025").task("get", task).result["status"] == "input_required"
    answer = jobs.client("2025").task("result", task)
    assert answer.error["code"] == INVALID_REQUEST
    assert answer.error["data"]["status"] == "input_required"


def test_tasks_result_asks_waits_for_the_answers_and_then_for_the_result(jobs: Background, submit: Submit) -> None:
    task, sink = waiting_task(jobs, "one", "2025"), Sink()

    def answer_and_work() -> None:
        question = sink.next()
        assert question["params"]["_meta"] == {RELATED_TASK_KEY: {"taskId": task}}
        # The answer takes longer than the time limit for results.
        jobs.time.s += 60
        assert respond(jobs.client("2025"), question, result=name_answer("Kim")).status == 202

    jobs.time.meanwhile += [lambda: None, answer_and_work, jobs.work]
    call = submit(sink, lambda: jobs.client("2025", remaining_ms=lambda: 600_000).task("result", task))
    assert call.result(BOUND_S).body == ""
    message = sink.next()
    assert call.result(BOUND_S).body == ""
    assert message["result"]["structuredContent"] == {"result": "Kim"}
    assert message["result"]["_meta"][RELATED_TASK_KEY] == {"taskId": task}


def test_tasks_result_waits_for_an_answer_until_its_time_limit(jobs: Background, background: MakeBackground) -> None:
    jobs = background(asking_server([]), question_ms=10_000)
    task = waiting_task(jobs, "one", "2025")
    start_s = jobs.time.s

    _, message = stream_messages(jobs.client("2025", remaining_ms=lambda: 600_000), "result", task)
    assert message["error"]["data"]["status"] == "input_required"
    assert 10 <= jobs.time.s - start_s <= 12
    # The wait also ends if the function's time ends.
    start_s = jobs.time.s
    hurried_client = jobs.client("2025", remaining_ms=lambda: 8_000 - round(1000 * (jobs.time.s - start_s)))
    stream_messages(hurried_client, "result", task)
    assert jobs.time.s - start_s <= 3


def test_a_client_of_the_2025_era_may_refuse_to_answer(jobs: Background) -> None:
    task = waiting_task(jobs, "one", "2025")
    question, _ = stream_messages(jobs.client("2025"), "get", task)

    assert respond(jobs.client("2025"), question, error={"code": -1, "message": "User rejected"}).status == 202
    jobs.work()
    result = jobs.client("2025").task("result", task).result
    assert result["isError"] is True
    assert result["content"][0]["text"] == "The client refused elicitation/create: User rejected"


def test_an_answer_to_a_task_is_accepted_once_and_only_from_its_owner(jobs: Background) -> None:
    task = waiting_task(jobs, "one", "2025")
    question, _ = stream_messages(jobs.client("2025"), "get", task)

    forged_question = {"id": new_task_question(task, "another")}
    assert respond(jobs.client("2025", owner="mallory"), question, result=name_answer("Pat")).status == 400
    assert respond(jobs.client("2025"), forged_question, result=name_answer("Pat")).status == 400
    assert respond(jobs.client("2025"), question, result=name_answer("Kim")).status == 202
    assert respond(jobs.client("2025"), question, result=name_answer("Pat")).status == 400
    assert len(jobs.queue.events) == 1
    jobs.work()
    assert value_of(jobs, task) == "Kim"


def test_a_url_question_keeps_its_elicitation_id_when_it_is_sent_again(jobs: Background) -> None:
    task = waiting_task(jobs, "pay", "2025")
    first, _ = stream_messages(jobs.client("2025"), "get", task)
    jobs.time.s += 601
    second, _ = stream_messages(jobs.client("2025"), "get", task)
    assert first["params"]["elicitationId"] == second["params"]["elicitationId"]
    assert first["id"] != second["id"]
    assert respond(jobs.client("2025"), first, result={"action": "accept"}).status == 202


def test_a_worker_that_cannot_read_an_answer_does_not_start_the_tool_and_a_later_one_uses_the_answer() -> None:
    """The answer is stored outside the head, because it is long (docs/storage.md)."""
    server, starts, long_name = Server("asking"), list[str](), noise(20_000)

    @server.tool(task="required")
    def one(ctx: Context) -> Any:
        starts.append("one")
        return ctx.elicit("Who?", FORM, key="who").content["name"]

    with connect(server, workers="by hand") as client:
        task = client.start_task("one")
        client.run_worker()
        task.answer({"who": {"name": long_name}})
        client.store.fails("GetItem", times=None)
        assert isinstance(client.run_worker().error, StoreUnavailable)
        assert len(starts) == 1
        client.store.fails("GetItem", times=0)
        client.clock.advance(120)
        client.sweep()
        client.run_worker()
        assert client.task(task.task_id).status == "completed"
        assert len(starts) == 2
