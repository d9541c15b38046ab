"""`tools/call` with a task: the call is made as ever, and recorded where it fits (docs/workflows.md)."""

from collections.abc import Callable
from typing import Any

import pytest

from mcp_baton import Context, Server, Step, ToolError, Workflow, constant
from mcp_baton.protocol.envelope import RELATED_TASK_KEY, TASK_ID_KEY
from mcp_baton.tasks.dynamodb.values import Variables
from mcp_baton.tasks.ids import new_task_id
from mcp_baton.tasks.record import PROGRESS
from tests.e2e.conftest import MakeClient
from tests.e2e.support import Answer, Client, Era, Table, related

NOBODYS = new_task_id(0)


def letters_server(meanwhile: dict[str, Callable[[], object]] | None = None) -> Server:
    """Steps `a1`, `b1`, `a2` with the tools `a`, `b`, `a`; each fails when its text is `fail`.

    What is to happen `meanwhile` happens, once, while a tool is called with that text.
    """
    server = Server("letters")

    def say(text: str) -> str:
        """Say a text."""
        if meanwhile and text in meanwhile:
            meanwhile.pop(text)()
        if text == "fail":
            raise ToolError("cannot say that")
        return text

    for name in ("a", "b", "c"):
        server.tool(name=name)(say)

    @server.tool
    def count(ctx: Context, by: int) -> Any:
        assert ctx.task is not None
        count = ctx.task.get("count", 0)
        assert isinstance(count, int)
        ctx.task["count"] = count + by
        return {"was": count}

    @server.tool
    def has_task(ctx: Context) -> bool:
        return ctx.task is not None

    steps = [
        Step("a1", tool="a", arguments={"text": constant("fail")}),
        Step("b1", tool="b", arguments={"text": constant("b")}, retryable=True),
        Step("a2", tool="a", arguments={"text": constant("a")}),
    ]
    server.add_workflow(Workflow(name="flow", description="say letters", steps=steps))
    return server


def paused(make_client: MakeClient, era: Era = "2025") -> tuple[Client, str]:
    """A task whose first step has failed."""
    client = make_client(letters_server(), era=era)
    answer = client.get_prompt("flow")
    assert answer.statuses == ["failed", "pending", "pending"]
    return client, answer.task_id


def say(client: Client, task: str, *calls: str) -> list[Answer]:
    """Call tools, each given as `tool:text`."""
    split = [call.partition(":") for call in calls]
    return [client.call_tool(tool, {"text": text}, task=task) for tool, _, text in split]


def statuses(client: Client, task: str) -> list[str]:
    return [step["status"] for step in client.variables(task)["_workflow.progress"]["steps"]]


def results(client: Client, task: str) -> dict[str, Any]:
    prefix = "_workflow.result."
    variables = client.variables(task)
    return {name.removeprefix(prefix): value for name, value in variables.items() if name.startswith(prefix)}


def test_the_meta_of_a_recorded_call_is_exactly_the_tasks_state(make_client: MakeClient, era: Era) -> None:
    client, task = paused(make_client, era)
    [answer] = say(client, task, "b:hello")
    assert answer.meta == {
        "task_id": task,
        "task_status": "working",
        "steps": [
            {"name": "a1", "status": "failed"},
            {"name": "b1", "status": "completed"},
            {"name": "a2", "status": "pending"},
        ],
        "pause_reason": {
            "type": "toolError",
            "failedStep": "a1",
            "error": "cannot say that",
            "retryable": False,
            "suggestedTool": "a",
        },
        "next": [{"tool": "a", "arguments": {"text": "fail"}}, {"tool": "a", "arguments": {"text": "a"}}],
        "recorded": True,
        **related(era, task),
    }


@pytest.mark.parametrize("text", ["hello", "fail"])
def test_a_tools_result_is_the_same_with_a_task_as_without(make_client: MakeClient, era: Era, text: str) -> None:
    client, task = paused(make_client, era)
    plain = client.call_tool("b", {"text": text})
    named = client.call_tool("b", {"text": text}, task=task)
    unknown = client.call_tool("b", {"text": text}, task=NOBODYS)
    assert plain.meta == {}
    for answer in (named, unknown):
        assert {**answer.result, "_meta": None} == {**plain.result, "_meta": None}
    assert plain.result.get("isError", False) is (text == "fail")


def test_the_first_step_that_is_pending_or_failed_takes_the_result(make_client: MakeClient) -> None:
    client, task = paused(make_client)
    say(client, task, "a:one")
    assert statuses(client, task) == ["completed", "pending", "pending"]
    say(client, task, "a:two")
    assert statuses(client, task) == ["completed", "pending", "completed"]
    assert results(client, task) == {"a1": "one", "a2": "two"}


def test_steps_may_be_completed_in_any_order(make_client: MakeClient) -> None:
    client, task = paused(make_client)
    say(client, task, "b:second", "a:first")
    assert statuses(client, task) == ["completed", "completed", "pending"]
    assert results(client, task) == {"a1": "first", "b1": "second"}


def test_without_an_open_step_the_last_completed_one_is_overwritten(make_client: MakeClient) -> None:
    client, task = paused(make_client)
    answers = say(client, task, "a:one", "a:two", "a:three", "a:four")
    assert [answer.meta["recorded"] for answer in answers] == [True] * 4
    assert results(client, task) == {"a1": "one", "a2": "four"}
    assert statuses(client, task) == ["completed", "pending", "completed"]


def test_a_failure_never_takes_a_completed_steps_result_or_status(make_client: MakeClient) -> None:
    client, task = paused(make_client)
    *_, answer = say(client, task, "b:done", "b:fail")
    assert answer.meta["recorded"] is True
    assert statuses(client, task) == ["failed", "completed", "pending"]
    assert results(client, task)["b1"] == "done"
    assert client.variables(task)["_workflow.pause_reason"]["failedStep"] == "a1"


def test_a_call_that_matches_no_step_is_kept_as_an_extra(make_client: MakeClient) -> None:
    client, task = paused(make_client)
    before = client.variables(task)
    [answer] = say(client, task, "c:beside")
    assert answer.meta["recorded"] is True
    assert client.variables(task) == {**before, "_workflow.extra.c": "beside"}
    say(client, task, "c:again")
    assert client.variables(task) == {**before, "_workflow.extra.c": "again"}


def test_a_failure_makes_its_step_failed_and_pauses_for_it(make_client: MakeClient, era: Era) -> None:
    client, task = paused(make_client, era)
    [answer] = say(client, task, "b:fail")
    reason = {
        "type": "toolError",
        "failedStep": "b1",
        "error": "cannot say that",
        "retryable": True,
        "suggestedTool": "b",
    }
    assert answer.result["isError"] is True
    assert answer.meta["pause_reason"] == reason
    assert answer.meta["task_status"] == "working"
    assert client.variables(task)["_workflow.pause_reason"] == reason
    assert results(client, task)["b1"] == {"error": "cannot say that"}
    assert statuses(client, task) == ["failed", "failed", "pending"]


def test_arguments_that_the_tool_refuses_are_a_failure_of_the_call(make_client: MakeClient) -> None:
    client, task = paused(make_client)
    answer = client.call_tool("b", {"text": 5}, task=task)
    assert answer.result["isError"] is True
    assert answer.statuses == ["failed", "failed", "pending"]


def test_a_pause_ends_when_the_step_that_it_names_completes(make_client: MakeClient) -> None:
    client, task = paused(make_client)
    [answer] = say(client, task, "a:better")
    assert "pause_reason" not in answer.meta
    assert "_workflow.pause_reason" not in client.variables(task)


def test_a_pause_stays_when_another_step_completes_or_an_extra_is_kept(make_client: MakeClient) -> None:
    client, task = paused(make_client)
    for answer in say(client, task, "b:one", "c:beside", "c:fail"):
        assert answer.meta["pause_reason"]["failedStep"] == "a1"
    assert client.variables(task)["_workflow.pause_reason"]["failedStep"] == "a1"


def test_the_task_stays_working_when_every_step_is_completed(make_client: MakeClient, era: Era, table: Table) -> None:
    client, task = paused(make_client, era)
    *_, answer = say(client, task, "a:one", "b:two", "a:three")
    assert answer.statuses == ["completed"] * 3
    assert answer.meta["task_status"] == "working"
    assert table.statuses == ["working"]


def test_a_task_is_named_by_either_key_or_by_both_alike(make_client: MakeClient, era: Era) -> None:
    client, task = paused(make_client, era)
    standard = {RELATED_TASK_KEY: {"taskId": task}}
    for meta in ({TASK_ID_KEY: task}, standard, {TASK_ID_KEY: task, **standard}):
        assert client.call_tool("b", {"text": "x"}, meta=meta).meta["recorded"] is True


def test_a_step_that_another_call_takes_meanwhile_is_left_to_it(make_client: MakeClient) -> None:
    meanwhile: dict[str, Callable[[], object]] = {}
    client = make_client(letters_server(meanwhile))
    task = client.get_prompt("flow").task_id
    meanwhile["outer"] = lambda: say(client, task, "a:inner")
    [answer] = say(client, task, "a:outer")
    assert answer.meta["recorded"] is True
    assert results(client, task) == {"a1": "inner", "a2": "outer"}
    assert statuses(client, task) == ["completed", "pending", "completed"]


def test_a_pause_that_another_call_causes_meanwhile_is_left_alone(make_client: MakeClient) -> None:
    meanwhile: dict[str, Callable[[], object]] = {}
    client = make_client(letters_server(meanwhile))
    task = client.get_prompt("flow").task_id
    meanwhile["outer"] = lambda: say(client, task, "b:fail")
    [answer] = say(client, task, "a:outer")
    assert answer.statuses == ["completed", "failed", "pending"]
    assert answer.meta["pause_reason"]["failedStep"] == "b1"
    assert client.variables(task)["_workflow.pause_reason"]["failedStep"] == "b1"


@pytest.mark.parametrize("how", ["cancelled", "completed"])
def test_a_task_that_ends_meanwhile_stays_as_it_ended(
    make_client: MakeClient, era: Era, table: Table, how: str
) -> None:
    meanwhile: dict[str, Callable[[], object]] = {}
    client = make_client(letters_server(meanwhile), era=era)
    task = client.get_prompt("flow").task_id
    ended: list[Any] = []

    def end() -> None:
        client.task("cancel", task, **({"result": {}} if how == "completed" else {}))
        ended.append(table.item(task))

    meanwhile["outer"] = end
    [answer] = say(client, task, "b:outer")
    assert answer.result["content"] == [{"type": "text", "text": "outer"}]
    assert (answer.meta["recorded"], answer.meta["task_status"]) == (False, how)
    assert [table.item(task)] == ended


@pytest.mark.parametrize("how", ["expires", "vanishes"])
def test_a_task_that_is_gone_meanwhile_is_unknown(make_client: MakeClient, table: Table, how: str) -> None:
    meanwhile: dict[str, Callable[[], object]] = {}
    client = make_client(letters_server(meanwhile))
    task = client.get_prompt("flow").task_id
    meanwhile["outer"] = lambda: table.expire(task) if how == "expires" else table.delete(task)
    [answer] = say(client, task, "b:outer")
    [unknown] = say(client, NOBODYS, "b:outer")
    assert answer.body.replace(task, "ID") == unknown.body.replace(NOBODYS, "ID")
    assert table.items == [] or table.item(task)["version"] == {"N": "2"}


@pytest.mark.parametrize("how", ["cancelled", "completed"])
def test_a_terminal_task_leaves_the_result_alone_and_says_so(
    make_client: MakeClient, era: Era, table: Table, how: str
) -> None:
    client, task = paused(make_client, era)
    client.task("cancel", task, **({"result": {"ok": True}} if how == "completed" else {}))
    before = table.item(task)
    [answer] = say(client, task, "b:late")
    assert answer.result["content"] == [{"type": "text", "text": "late"}]
    assert answer.meta["recorded"] is False
    assert answer.meta["task_status"] == how
    assert how in answer.meta["record_error"]
    assert table.item(task) == before


def test_missing_foreign_and_expired_tasks_are_told_apart_by_nothing(
    make_client: MakeClient, era: Era, table: Table
) -> None:
    client, expired = paused(make_client, era)
    foreign = client.as_owner("bob").get_prompt("flow").task_id
    table.expire(expired)
    before = sorted(table.items, key=str)
    bodies = set()
    for task in (NOBODYS, foreign, expired):
        [answer] = say(client, task, "b:hello")
        assert answer.result["content"] == [{"type": "text", "text": "hello"}]
        assert answer.meta["recorded"] is False
        bodies.add(answer.body.replace(task, "ID"))
    assert len(bodies) == 1
    assert sorted(table.items, key=str) == before


def test_an_id_that_cannot_be_one_is_as_unknown_as_any_other(make_client: MakeClient) -> None:
    client, _ = paused(make_client)
    [nobodys] = say(client, NOBODYS, "b:hello")
    [odd] = say(client, "no id at all", "b:hello")
    assert odd.body.replace("no id at all", "ID") == nobodys.body.replace(NOBODYS, "ID")


def test_a_tool_reads_and_writes_the_tasks_variables(make_client: MakeClient, era: Era) -> None:
    client, task = paused(make_client, era)
    assert client.call_tool("count", {"by": 2}, task=task).result["content"][0]["text"] == '{"was":0}'
    assert client.call_tool("count", {"by": 3}, task=task).result["content"][0]["text"] == '{"was":2}'
    variables = client.variables(task)
    assert variables["count"] == 5
    assert variables["_workflow.extra.count"] == {"was": 2}


def test_a_tool_of_an_unrecordable_call_has_no_task(make_client: MakeClient) -> None:
    client, task = paused(make_client)
    texts = [client.call_tool("has_task", task=named).result["content"][0]["text"] for named in (task, NOBODYS, None)]
    assert texts == ["true", "false", "false"]


def test_the_engines_variables_are_not_a_tools_to_write(make_client: MakeClient) -> None:
    server = letters_server()

    @server.tool
    def meddle(ctx: Context) -> None:
        assert ctx.task is not None
        ctx.task["_workflow.progress"] = {}

    client = make_client(server)
    task = client.get_prompt("flow").task_id
    assert client.call_tool("meddle", task=task).result["isError"] is True
    assert statuses(client, task) == ["failed", "pending", "pending"]


def test_a_variable_that_a_tool_deletes_is_gone(make_client: MakeClient) -> None:
    server = letters_server()

    @server.tool
    def forget(ctx: Context) -> None:
        assert ctx.task is not None
        del ctx.task["count"]

    client = make_client(server)
    task = client.get_prompt("flow").task_id
    client.call_tool("count", {"by": 1}, task=task)
    client.call_tool("forget", task=task)
    assert "count" not in client.variables(task)


def test_a_call_is_recorded_with_a_task_whose_workflow_is_no_longer_there(make_client: MakeClient) -> None:
    _, task = paused(make_client)
    server = Server("later")

    @server.tool
    def b(text: str) -> str:
        return text

    [answer] = say(make_client(server), task, "b:still")
    assert answer.meta["recorded"] is True
    assert answer.statuses == ["failed", "completed", "pending"]


def test_a_store_that_is_not_there_leaves_the_result_alone_and_says_so(make_client: MakeClient, era: Era) -> None:
    _, task = paused(make_client, era)
    cut_off = make_client(letters_server(), era=era, table_name="nowhere")
    [answer] = say(cut_off, task, "b:hello")
    assert answer.result["content"] == [{"type": "text", "text": "hello"}]
    assert answer.meta["task_id"] == task
    assert answer.meta["recorded"] is False
    assert answer.meta["record_error"]


def test_a_continuation_decodes_the_progress_once_as_read_and_once_as_written(
    make_client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, task = paused(make_client)
    decoded = list[str]()
    decode = Variables.__getitem__

    def counted(self: Variables, name: str) -> Any:
        decoded.append(name)
        return decode(self, name)

    monkeypatch.setattr(Variables, "__getitem__", counted)

    say(client, task, "b:hello")

    assert decoded.count(PROGRESS) == 2
