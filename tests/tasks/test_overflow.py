"""Large values over the wire: each is stored outside the head and read when it is needed (docs/storage.md)."""

import pytest

from mcp_baton import Argument, Context, Server, ToolError, ToolStep, Workflow, constant, prompt_arg, step_output
from mcp_baton.present.view import variables_in
from mcp_baton.workflow.sources import TaskVariable
from mcp_baton.workflow.steps.step import Step
from tests.noise import noise
from tests.sent import Requests
from tests.support.client import Client, Era, Table
from tests.support.handler import MakeClient
from tests.value_items import ValueItems

BIG = noise(400_000)
LOSS = {"error": f"result of {len(BIG) + 2} bytes is lost: its piece 1 is missing"}
UNREADABLE = {"error": "this value cannot be read now; ask again"}


def large_server() -> Server:
    """Return a server with workflows that make a large value, wait for a continuation, and then use the value."""
    server = Server("s")

    @server.tool
    def make(seed: int = 0) -> str:
        return noise(400_000, seed)

    @server.tool
    def approve(by: str | None = None) -> str:
        if by is None:
            raise ToolError("not yet")
        return f"approved by {by}"

    @server.tool
    def measure(text: str) -> int:
        return len(text)

    @server.tool
    def keep(ctx: Context) -> str:
        assert ctx.task is not None
        ctx.task["big"] = BIG
        return "kept"

    @server.tool
    def read(ctx: Context) -> int:
        assert ctx.task is not None
        assert "big" in ctx.task
        return sum(len(str(ctx.task["big"])) for _ in range(2)) // 2

    @server.tool
    def forget(ctx: Context) -> str:
        assert ctx.task is not None
        del ctx.task["big"]
        return "forgotten"

    def add(name: str, *steps: Step, arguments: tuple[Argument, ...] = ()) -> None:
        server.add_workflow(Workflow(name=name, description="measure", steps=steps, arguments=arguments))

    stop = ToolStep("stop", tool="approve")
    add(
        "flow",
        ToolStep("make", tool="make"),
        stop,
        ToolStep("use", tool="measure", arguments={"text": step_output("make")}),
    )
    use_variable = ToolStep("use", tool="measure", arguments={"text": TaskVariable("big")})
    add("paused_variable", ToolStep("keep", tool="keep", checkpoint=True), stop, use_variable)
    use_argument = ToolStep("use", tool="measure", arguments={"text": prompt_arg("text")})
    add("argument", stop, use_argument, arguments=(Argument("text", required=True),))
    make_steps = [ToolStep(f"make{seed}", tool="make", arguments={"seed": constant(seed)}) for seed in range(2)]
    add("two", *make_steps, stop)
    return server


IN_EACH_ERA = pytest.mark.usefixtures("era")


@pytest.fixture
def client(request: pytest.FixtureRequest, make_client: MakeClient, values: ValueItems) -> Client:
    """A client over a store with a values. It runs in each era if the test uses the fixture `era`."""
    era: Era = request.getfixturevalue("era") if "era" in request.fixturenames else "2025"
    return make_client(large_server(), era=era)


def paused_task(client: Client, requests: Requests | None = None) -> str:
    task = client.get_prompt("flow").task_id
    if requests:
        requests.take()
    return task


def approve(client: Client, task: str) -> None:
    assert client.call_tool("approve", {"by": "kim"}, task=task).meta["recorded"] is True


def test_a_large_result_is_stored_and_a_resume_uses_it(client: Client, requests: Requests, values: ValueItems) -> None:
    run = client.get_prompt("flow")
    assert requests.take() == ["PutItem", "PutItem", "UpdateItem"]
    assert run.statuses == ["completed", "failed", "pending"]
    assert ("user", f"Result from make: {BIG}") in run.conversation
    assert 'Call measure with {"text": "<output from make>"}' in run.handoff
    task = run.task_id
    approve(client, task)
    # The remaining call needs the large value. `next` shows its placeholder, so the value is not read.
    assert requests.take() == ["GetItem", "UpdateItem"]
    resumed_answer = client.get_prompt("flow", task=task)
    assert requests.take() == ["UpdateItem", "GetItem", "UpdateItem"]
    assert resumed_answer.statuses == ["completed"] * 3
    assert resumed_answer.conversation[-1] == ("user", "Result from measure: 400000")
    assert resumed_answer.meta["task_status"] == "completed"
    variables = client.variables(task)
    assert (variables["_workflow.result.make"], variables["_workflow.result.use"]) == (BIG, 400_000)
    assert requests.take() == ["GetItem", "GetItem"]
    assert len(values.keys) == 1


def test_requests_that_show_no_values_read_none(client: Client, requests: Requests, era: Era) -> None:
    task = paused_task(client, requests)
    client.task("get", task)
    client.get_prompt("argument", {"text": "x"}, task=task)
    if era == "2025":
        client.request("tasks/list")
        client.task("result", task)
    else:
        client.task("update", task, inputResponses={})
    client.task("cancel", task)
    requests.take()


def test_a_tool_reads_a_large_variable_once_and_deletes_it_unread(client: Client, requests: Requests) -> None:
    task = paused_task(client)
    client.call_tool("keep", task=task)
    requests.take()
    assert client.call_tool("read", task=task).result["content"] == [{"type": "text", "text": "400000"}]
    assert requests.take() == ["GetItem", "GetItem", "UpdateItem"]
    assert client.call_tool("forget", task=task).meta["recorded"] is True
    assert requests.take() == ["GetItem", "UpdateItem"]
    assert "big" not in client.variables(task)


def test_large_arguments_are_stored_and_a_resume_without_them_runs_nothing(
    client: Client, requests: Requests, values: ValueItems, table: Table
) -> None:
    task = client.get_prompt("argument", {"text": BIG}).task_id
    assert requests.take() == ["PutItem", "PutItem", "UpdateItem"]
    approve(client, task)
    [key] = values.keys
    content, variables_before = values.item(key), table.item(task)["variables"]
    values.expire(key)
    error = client.get_prompt("argument", task=task).error
    assert (error["code"], "arguments are lost" in error["message"]) == (-32603, True)
    assert table.item(task)["variables"] == variables_before
    values.put(content)
    requests.take()
    assert client.get_prompt("argument", task=task).conversation[-1] == ("user", "Result from measure: 400000")
    assert requests.take() == ["UpdateItem", "GetItem", "UpdateItem"]


@IN_EACH_ERA
def test_a_task_is_completed_with_a_large_result(client: Client, requests: Requests, values: ValueItems) -> None:
    task, task_result = client.get_prompt("argument", {"text": "short"}).task_id, {"text": BIG}
    requests.take()
    assert client.task("cancel", task, result=task_result).status == 200
    assert requests.take() == ["GetItem", "PutItem", "UpdateItem"]
    method = "result" if client.era == "2025" else "get"
    with values.refusing("GetItem"):
        error = client.task(method, task).error
    assert (error["code"], "same request again" in error["message"]) == (-32603, True)
    assert client.task(method, task).result["result"] == task_result
    values.expire(values.keys[-1])
    assert client.task("get", task).result["status"] == "completed"
    assert client.task(method, task).result["result"]["error"].endswith("is lost: its piece 1 is missing")


def test_a_resume_pauses_at_the_step_that_needs_a_lost_value(client: Client, values: ValueItems, table: Table) -> None:
    task = paused_task(client)
    approve(client, task)
    [key] = values.keys
    values.expire(key)
    resumed_answer = client.get_prompt("flow", task=task)
    assert resumed_answer.meta["pause_reason"] == {
        "type": "unresolvedDependency",
        "blockedStep": "use",
        "missingOutput": "make",
        "producingStep": "make",
        "reason": LOSS["error"],
        "suggestedTool": "measure",
    }
    assert client.call_tool("make", task=task).meta["recorded"] is True
    assert client.get_prompt("flow", task=task).statuses == ["completed"] * 3


def test_tasks_get_marks_values_that_are_lost_or_cannot_be_read_and_shows_the_others(
    client: Client, values: ValueItems, requests: Requests, caplog: pytest.LogCaptureFixture
) -> None:
    task = client.get_prompt("two").task_id
    requests.take()
    with values.refusing("GetItem"):
        answer = client.task_with("all", task)
    # The task, and the first value that is refused. Two values are read at the same time, so the second may be, too.
    assert requests.take() in (["GetItem"] * 2, ["GetItem"] * 3)
    assert answer.result["status"] == "working"
    assert [answer.meta[f"_workflow.result.make{seed}"] for seed in range(2)] == [UNREADABLE] * 2
    assert answer.meta["_workflow.pause_reason"]["failedStep"] == "stop"
    assert "_workflow.result.make0" in caplog.text
    full_answer = client.task_with("all", task)
    assert variables_in(full_answer.meta)["_workflow.result.make0"] == BIG
    values.expire(values.keys[0])
    answer = client.task_with("all", task)
    assert [value for name, value in answer.meta.items() if full_answer.meta[name] != value] == [LOSS]
    assert answer.meta.keys() == full_answer.meta.keys()


@pytest.mark.parametrize("fault", ["lost", "unreadable"])
def test_a_step_whose_variable_is_lost_or_cannot_be_read_pauses(
    client: Client, values: ValueItems, table: Table, fault: str
) -> None:
    task = client.get_prompt("paused_variable").task_id
    approve(client, task)
    [key] = values.keys
    content = values.item(key)
    if fault == "lost":
        values.expire(key)
        resumed_answer = client.get_prompt("paused_variable", task=task)
    else:
        with values.refusing("GetItem"):
            resumed_answer = client.get_prompt("paused_variable", task=task)
    assert resumed_answer.meta["pause_reason"] == {
        "type": "unresolvableParams",
        "blockedStep": "use",
        "missingParam": "text",
        "problem": "the value of the task variable 'big' was lost or cannot be read",
        "suggestedTool": "measure",
    }
    placeholder = "<missing: text>" if fault == "lost" else "<task variable big>"
    assert f'Call measure with {{"text": "{placeholder}"}}' in resumed_answer.handoff
    values.put(content)
    assert client.get_prompt("paused_variable", task=task).statuses == ["completed"] * 3


def test_a_tool_that_reads_a_lost_variable_fails_and_the_log_has_the_reason(
    client: Client, values: ValueItems, caplog: pytest.LogCaptureFixture
) -> None:
    task = client.get_prompt("paused_variable").task_id
    [key] = values.keys
    values.expire(key)
    answer = client.call_tool("read", task=task)
    assert answer.result["isError"] is True
    assert answer.result["content"][0]["text"] == "internal error in read (id api-1)"
    assert "is lost" in caplog.text
    assert answer.meta["recorded"] is True
