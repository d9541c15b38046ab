"""Values in tasks: they are stored exactly, and those over 6 MB are replaced by a note (docs/storage.md).

The storage of large values is tested in test_values.py and test_pieces.py in tests/store.
"""

from typing import Annotated, Any

import pytest

from mcp_baton import Argument, Context, Server, ToolStep, Workflow, item, step, step_output
from mcp_baton.protocol.json import MAX_LEVELS, dumps
from mcp_baton.testing import Connect
from tests.noise import nest
from tests.support.client import Clock, begin
from tests.support.handler import MakeClient

HALF = "half of a pair: \ud800"
EXACT = [
    30.0,
    -0.0,
    0.1,
    1e22,
    5e-324,
    2**60,
    -(10**40),
    None,
    True,
    "",
    "30.0",
    " \x00\u2028\t",
    "Zoë 🎉 \U0010ffff",
    HALF,
    {},
    [],
    {"": {"": []}},
    {"a.b": [1, 1.0, "1"]},
    {"error": "a value that looks like a failure"},
    nest(40, "bottom"),
]
SENT = [HALF.replace("\ud800", "\ufffd") if value == HALF else value for value in EXACT]
"""The values as clients get them: the official Python SDKs cannot read a message with a lone surrogate."""


EXCEEDS = "exceeds the task's size limit, 6000000 bytes; its tool should return less, or a link"


def note_for(value: str) -> dict[str, str]:
    """Return the note that replaces a value that is too large."""
    return {"error": f"result of {len(dumps(value))} bytes {EXCEEDS}"}


def returning(*values: Any) -> Server:
    """Return a server with a step for each value, and a step `echo` that gets the output of the first step."""
    server, steps = Server("s"), []
    for index, value in enumerate(values):

        def return_value(value: Any = value) -> Any:
            return value

        server.tool(name=f"t{index}")(return_value)
        steps.append(ToolStep(f"s{index}", tool=f"t{index}"))

    @server.tool
    def echo(value: Any) -> Any:
        return value

    steps.append(ToolStep("echo", tool="echo", arguments={"value": step_output("s0")}))
    server.add_workflow(Workflow(name="flow", description="return", steps=steps))
    return server


def are_equal(first: Any, second: Any) -> bool:
    """Return whether two values are equal and have equal types at all levels: 30 is not 30.0, and 0.0 is not -0.0."""
    return repr(first) == repr(second)


def results(variables: dict[str, Any], count: int) -> list[Any]:
    """Return the results of the steps `s0`, `s1`, …"""
    return [variables[f"_workflow.result.s{index}"] for index in range(count)]


def test_a_value_is_passed_unchanged_to_the_task_and_to_the_next_tool(make_client: MakeClient) -> None:
    client = make_client(returning(EXACT, *EXACT))
    variables = client.variables(client.get_prompt("flow").task_id)
    assert are_equal(results(variables, len(EXACT) + 1), [SENT, *SENT])
    assert are_equal(variables["_workflow.result.echo"], SENT)


def test_a_result_that_a_client_supplies_is_stored_unchanged(make_client: MakeClient) -> None:
    client = make_client(returning(""), remaining_ms=(clock := Clock()))
    task = begin(client, clock)
    client.task("cancel", task, result={"values": EXACT})
    assert are_equal(client.in_era("2025").task("result", task).result["result"], {"values": SENT})
    assert are_equal(client.in_era("2026").task("get", task).result["result"], {"values": SENT})


def test_the_reply_and_log_name_a_too_large_value(make_client: MakeClient, caplog: pytest.LogCaptureFixture) -> None:
    big = "x" * 6_000_001
    client = make_client(returning("small", big))
    answer = client.get_prompt("flow")
    assert answer.meta["oversized"] == ["s1"]
    note = f"workflow 'flow', step 's1': the {note_for(big)['error']}"
    assert [record.getMessage() for record in caplog.records] == [f"task {answer.task_id}: {note}"]
    assert "persisted" not in answer.meta
    assert answer.meta["task_status"] == "completed"
    assert answer.conversation[-3] == ("user", f"Result from t1: {big}")
    variables = client.variables(answer.task_id)
    assert variables["_workflow.result.s0"] == variables["_workflow.result.echo"] == "small"
    assert variables["_workflow.result.s1"] == note_for(big)
    assert [step["status"] for step in variables["_workflow.progress"]["steps"]] == ["completed"] * 3


def test_a_call_with_a_result_that_is_too_large_is_recorded_and_blocks_later_steps(make_client: MakeClient) -> None:
    big = "x" * 6_000_001
    client = make_client(returning(big), remaining_ms=(clock := Clock()))
    task = begin(client, clock)
    answer = client.call_tool("t0", task=task)
    assert answer.result["content"] == [{"type": "text", "text": big}]
    assert answer.meta["recorded"] is True
    assert answer.meta["oversized"] == ["s0"]
    assert answer.statuses == ["completed", "pending"]
    assert client.variables(task)["_workflow.result.s0"] == note_for(big)
    assert client.get_prompt("flow", task=task).meta["pause_reason"] == {
        "type": "unresolvedDependency",
        "blockedStep": "echo",
        "missingOutput": "s0",
        "producingStep": "s0",
        "reason": note_for(big)["error"],
        "suggestedTool": "echo",
    }


def test_a_variable_that_is_too_large_is_replaced_and_the_result_is_kept(make_client: MakeClient) -> None:
    server, big = returning("small"), "x" * 6_000_001

    @server.tool
    def keep(ctx: Context) -> str:
        assert ctx.task is not None
        ctx.task["big"] = big
        return "kept"

    client = make_client(server, remaining_ms=(clock := Clock()))
    task = begin(client, clock)
    assert client.call_tool("keep", task=task).meta["oversized"] == ["big"]
    variables = client.variables(task)
    assert variables["_workflow.extra.keep"] == "kept"
    assert variables["big"] == note_for(big)


@pytest.mark.parametrize(
    "value",
    [
        {"error": "result of 5 bytes exceeds the task's size limit"},
        {"error": "result of 5 bytes is lost: its piece 1 is missing"},
        f"L,5,{EXCEEDS}",
        {"_workflow.digest": "0" * 32, "bytes": 5},
        {"_workflow.secret": True},
        "<secret pin>",
    ],
    ids=str,
)
def test_a_result_that_looks_like_a_pointer_is_stored_unchanged(make_client: MakeClient, value: Any) -> None:
    client = make_client(returning(value), remaining_ms=(clock := Clock()))
    task = begin(client, clock)
    client.call_tool("t0", task=task)
    assert client.get_prompt("flow", task=task).meta["task_status"] == "completed"
    assert client.variables(task)["_workflow.result.echo"] == value


def deep_server(levels: int) -> Server:
    """Return a server whose workflow uses a value of a tool that is nested this deep."""
    server = Server("deep")

    @server.tool
    def read() -> dict[str, Any]:
        result: dict[str, Any] = {"a": "x"}
        for _ in range(levels - 1):
            result = {"a": result}
        return result

    @server.tool
    def rows(row: dict[str, Any]) -> list[dict[str, Any]]:
        return [row["a"], row["a"]]

    @server.tool
    def use(ctx: Context, row: dict[str, Any]) -> dict[str, Any]:
        assert ctx.task is not None
        ctx.task[ctx.idempotency_key] = row
        return row

    @server.workflow
    def flow(pin: Annotated[str, Argument(secret=True)]) -> None:
        """Use the value as an argument, in a condition and as an element."""
        first, second = step(read)(), step(read, name="again")()
        step(use, when=first == second)(row=first)  # type: ignore[no-untyped-call]
        table = step(rows)(row=second)
        step(use, name="each", each=table, parallel=2)(row=item())  # type: ignore[no-untyped-call]

    return server


def test_the_deepest_value_of_a_tool_can_be_used_everywhere(baton: Connect) -> None:
    run = baton(deep_server(MAX_LEVELS)).call_workflow("flow", {"pin": "4711"})
    assert run.completed
    assert set(run.steps.values()) == {"completed"}


def test_a_deeper_value_fails_its_step_and_not_the_request(baton: Connect) -> None:
    run = baton(deep_server(MAX_LEVELS + 1)).call_workflow("flow", {"pin": "4711"})
    assert (run.pause.type, run.pause.failed_step) == ("toolError", "read")
