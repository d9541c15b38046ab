"""Tools that declare the task variables that they set (docs/workflows.md, Task variables)."""

from typing import Any

import pytest

from mcp_baton import Context, RegistrationError, Server, ToolStep, Workflow, task_variable
from tests.support.handler import MakeClient


def server_of_setters() -> Server:
    server = Server("s")

    @server.tool(sets=("restarted",))
    def restart(ctx: Context) -> str:
        assert ctx.task is not None
        ctx.task["restarted"] = {"at": "noon"}
        return "done"

    @server.tool
    def report(at: str, whole: dict[str, Any]) -> str:
        return f"{at} {whole}"

    arguments = {"at": task_variable("restarted", "at"), "whole": task_variable("restarted")}
    server.add_workflow(
        Workflow(name="flow", description="report", steps=[ToolStep("report", tool="report", arguments=arguments)])
    )
    return server


def test_a_handoff_names_the_tool_that_sets_a_missing_variable(make_client: MakeClient) -> None:
    client = make_client(server_of_setters())

    answer = client.get_prompt("flow")
    assert (
        'Call report with {"at": "<field \'at\' from task variable restarted (set by restart)>", '
        '"whole": "<task variable restarted (set by restart)>"}'
    ) in answer.handoff

    client.call_tool("restart", task=answer.task_id)
    assert client.get_prompt("flow", task=answer.task_id).meta["task_status"] == "completed"


@pytest.mark.parametrize("sets", ["restarted", [""], [5], ["_workflow.progress"], ["io.modelcontextprotocol/x"]])
def test_an_invalid_declaration_of_variables_is_refused(sets: Any) -> None:
    server = Server("s")

    with pytest.raises(RegistrationError, match="sets"):
        server.add_tool(print, name="print", sets=sets)
