"""What a task keeps: values exactly, large ones too, and of those over 6 MB the fact (docs/storage.md)."""

import base64
import random
from typing import Any

from mcp_baton import Argument, Context, Server, Step, ToolError, Workflow, prompt_arg, step_output
from mcp_baton.protocol.json import dumps
from tests.e2e.conftest import MakeClient
from tests.e2e.support import Clock, Table, begin


def nested(levels: int) -> Any:
    value: Any = "bottom"
    for level in range(levels):
        value = [value] if level % 2 else {"down": value}
    return value


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
    "half of a pair: \ud800",
    {},
    [],
    {"": {"": []}},
    {"a.b": [1, 1.0, "1"]},
    {"error": "a value that looks like a failure"},
    nested(40),
]


def noise(size: int, seed: int = 1) -> str:
    """Text that no compression makes smaller than this many bytes."""
    return base64.b64encode(random.Random(seed).randbytes(size)).decode()


def note_for(value: str) -> dict[str, str]:
    """What is kept in the place of a value that does not fit."""
    return {"error": f"result of {len(dumps(value))} bytes exceeds the task's size limit"}


def returning(*values: Any) -> Server:
    """A step for each value, whose tool returns it; then a step `echo` that is given the first step's output."""
    server, steps = Server("s"), []
    for place, value in enumerate(values):

        def give(value: Any = value) -> Any:
            return value

        server.tool(name=f"t{place}")(give)
        steps.append(Step(f"s{place}", tool=f"t{place}"))

    @server.tool
    def echo(value: Any) -> Any:
        return value

    steps.append(Step("echo", tool="echo", arguments={"value": step_output("s0")}))
    server.add_workflow(Workflow(name="flow", description="return", steps=steps))
    return server


def same(one: Any, other: Any) -> bool:
    """Equal, and of equal types all the way down: 30 is not 30.0, and 0.0 not -0.0."""
    return repr(one) == repr(other)


def results(variables: dict[str, Any]) -> list[Any]:
    """The results of the steps `s0`, `s1`, …"""
    return [variables[f"_workflow.result.s{place}"] for place in range(len(EXACT))]


def test_a_value_survives_from_tool_to_task_in_a_run(make_client: MakeClient) -> None:
    client = make_client(returning(*EXACT))
    variables = client.variables(client.get_prompt("flow").task_id)
    for kept, value in zip(results(variables), EXACT, strict=True):
        assert same(kept, value)


def test_a_value_survives_from_one_tool_to_the_next(make_client: MakeClient) -> None:
    client = make_client(returning(EXACT))
    variables = client.variables(client.get_prompt("flow").task_id)
    assert same(variables["_workflow.result.echo"], EXACT)


def test_a_value_survives_from_tool_to_task_in_a_continuation(make_client: MakeClient) -> None:
    client = make_client(returning(*EXACT), remaining_ms=(clock := Clock()))
    task = begin(client, clock)
    assert all(client.call_tool(f"t{place}", task=task).meta["recorded"] for place in range(len(EXACT)))
    for kept, value in zip(results(client.variables(task)), EXACT, strict=True):
        assert same(kept, value)


def test_a_value_survives_in_a_variable_that_a_tool_sets(make_client: MakeClient) -> None:
    server = returning("")

    @server.tool
    def keep(ctx: Context) -> bool:
        assert ctx.task is not None
        before = ctx.task.get("kept", "nothing")
        ctx.task["kept"] = EXACT
        return same(before, EXACT)

    client = make_client(server, remaining_ms=(clock := Clock()))
    task = begin(client, clock)
    assert [client.call_tool("keep", task=task).result["content"][0]["text"] for _ in "ab"] == ["false", "true"]
    assert same(client.variables(task)["kept"], EXACT)


def test_a_value_survives_in_the_result_that_a_client_completes_with(make_client: MakeClient) -> None:
    client = make_client(returning(""), remaining_ms=(clock := Clock()))
    task = begin(client, clock)
    client.task("cancel", task, result={"values": EXACT})
    assert same(client.in_era("2025").task("result", task).result["result"], {"values": EXACT})
    assert same(client.in_era("2026").task("get", task).result["result"], {"values": EXACT})


def test_a_value_that_was_stored_binds_in_a_resume_exactly(make_client: MakeClient) -> None:
    server = Server("s")
    broken = [True]

    @server.tool
    def make() -> list[Any]:
        return EXACT

    @server.tool
    def echo(value: Any) -> Any:
        if broken:
            raise ToolError("not yet")
        return value

    steps = [Step("one", tool="make"), Step("two", tool="echo", arguments={"value": step_output("one")})]
    server.add_workflow(Workflow(name="flow", description="echo", steps=steps))
    client = make_client(server)
    task = client.get_prompt("flow").task_id
    broken.clear()
    assert client.get_prompt("flow", task=task).meta["task_status"] == "completed"
    assert same(client.variables(task)["_workflow.result.two"], EXACT)


def test_a_large_text_is_compressed_and_kept_whole(make_client: MakeClient, table: Table) -> None:
    text = "".join(f"line {number} of a long report\n" for number in range(12_000))
    assert len(text) > 300_000
    client = make_client(returning(text))
    answer = client.get_prompt("flow")
    assert answer.meta["task_status"] == "completed"
    assert "oversized" not in answer.meta
    assert client.variables(answer.task_id)["_workflow.result.s0"] == text
    assert "B" in table.item(answer.task_id)["variables"]["M"]["_workflow.result.s0"]


def test_a_value_that_does_not_fit_is_named_and_costs_nothing_else(make_client: MakeClient) -> None:
    server, big = Server("s"), "x" * 6_000_001

    @server.tool
    def small() -> str:
        return "small"

    @server.tool
    def large() -> str:
        return big

    steps = [Step("before", tool="small"), Step("big", tool="large"), Step("after", tool="small")]
    server.add_workflow(Workflow(name="flow", description="grow", steps=steps))
    client = make_client(server)
    answer = client.get_prompt("flow")
    assert answer.meta["oversized"] == ["big"]
    assert "persisted" not in answer.meta
    assert answer.meta["task_status"] == "completed"
    assert answer.conversation[-3] == ("user", f"Result from large: {big}")
    variables = client.variables(answer.task_id)
    assert variables["_workflow.result.before"] == variables["_workflow.result.after"] == "small"
    assert variables["_workflow.result.big"] == note_for(big)
    assert [step["status"] for step in variables["_workflow.progress"]["steps"]] == ["completed"] * 3


def test_of_many_large_values_all_are_kept(make_client: MakeClient) -> None:
    values = [noise(100_000, seed) for seed in range(6)]
    client = make_client(returning(*values, "small"))
    answer = client.get_prompt("flow")
    assert (answer.meta["task_status"], "oversized" in answer.meta) == ("completed", False)
    variables = client.variables(answer.task_id)
    assert [variables[f"_workflow.result.s{place}"] for place in range(7)] == [*values, "small"]
    assert variables["_workflow.result.echo"] == values[0]


def test_a_paused_run_keeps_its_pause_beside_a_value_that_does_not_fit(make_client: MakeClient) -> None:
    server = returning("x" * 6_000_001)

    @server.tool
    def fails() -> None:
        raise ToolError("no")

    server.add_workflow(
        Workflow(name="paused", description="pause", steps=[Step("big", tool="t0"), Step("stop", tool="fails")])
    )
    client = make_client(server)
    answer = client.get_prompt("paused")
    assert answer.meta["oversized"] == ["big"]
    assert answer.statuses == ["completed", "failed"]
    assert client.variables(answer.task_id)["_workflow.pause_reason"] == answer.meta["pause_reason"]


def test_a_step_that_needs_a_value_which_was_not_kept_is_an_unresolved_dependency(make_client: MakeClient) -> None:
    big = "x" * 6_000_001
    client = make_client(returning(big), remaining_ms=(clock := Clock()))
    task = begin(client, clock)
    assert client.call_tool("t0", task=task).meta["oversized"] == ["s0"]
    assert client.get_prompt("flow", task=task).meta["pause_reason"] == {
        "type": "unresolvedDependency",
        "blockedStep": "echo",
        "missingOutput": "s0",
        "producingStep": "s0",
        "suggestedTool": "echo",
    }


def test_a_call_whose_value_does_not_fit_is_recorded_and_the_value_returned(make_client: MakeClient) -> None:
    big = "x" * 6_000_001
    client = make_client(returning(big), remaining_ms=(clock := Clock()))
    task = begin(client, clock)
    answer = client.call_tool("t0", task=task)
    assert answer.result["content"] == [{"type": "text", "text": big}]
    assert answer.meta["recorded"] is True
    assert answer.meta["oversized"] == ["s0"]
    assert answer.statuses == ["completed", "pending"]
    assert client.variables(task)["_workflow.result.s0"] == note_for(big)


def test_calls_go_on_being_recorded_however_large_the_task_grows(make_client: MakeClient) -> None:
    values = [noise(150_000, seed) for seed in range(4)]
    client = make_client(returning(*values), remaining_ms=(clock := Clock()))
    task = begin(client, clock)
    answers = [client.call_tool(f"t{place}", task=task) for place in range(4)]
    assert [(answer.meta["recorded"], "oversized" in answer.meta) for answer in answers] == [(True, False)] * 4
    variables = client.variables(task)
    assert [variables[f"_workflow.result.s{place}"] for place in range(4)] == values
    assert answers[-1].statuses == ["completed"] * 4 + ["pending"]


def test_a_variable_that_does_not_fit_gives_way_and_the_result_is_kept(make_client: MakeClient) -> None:
    server, big = returning("small"), "x" * 6_000_001

    @server.tool
    def keep(ctx: Context) -> str:
        assert ctx.task is not None
        ctx.task["big"] = big
        return "kept"

    client = make_client(server, remaining_ms=(clock := Clock()))
    task = begin(client, clock)
    answer = client.call_tool("keep", task=task)
    assert answer.meta["oversized"] == ["big"]
    variables = client.variables(task)
    assert variables["_workflow.extra.keep"] == "kept"
    assert variables["big"] == note_for(big)


def test_arguments_of_half_a_megabyte_are_kept_with_the_task(make_client: MakeClient) -> None:
    server, big, broken = Server("s"), noise(375_000), [True]

    @server.tool
    def length(text: str) -> int:
        if broken:
            raise ToolError("not yet")
        return len(text)

    step = Step("only", tool="length", arguments={"text": prompt_arg("text")})
    server.add_workflow(Workflow(name="flow", description="count", arguments=[Argument("text")], steps=[step]))
    client = make_client(server)
    task = client.get_prompt("flow", {"text": big}).task_id
    broken.clear()
    assert client.get_prompt("flow", task=task).conversation[-1] == ("user", f"Result from length: {len(big)}")
