"""A run under way."""

from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.workflow.definition import Step, Workflow
from mcp_baton.workflow.resolve import resolve
from mcp_baton.workflow.run import Invocation, Run
from mcp_baton.workflow.sources import Found, task_variable


def test_after_a_write_sources_draw_on_the_variables_that_the_run_goes_on_with() -> None:
    workflow = Workflow(name="w", description="d", steps=[Step("one", tool="do")])
    run = Run(workflow, Invocation({}, {}), None, TaskVariables({"who": "ann"}), {})
    assert resolve(task_variable("who"), workflow, run.known) == Found("ann")

    run.use_variables(TaskVariables({"who": "ann"}))
    run.variables["who"] = "bob"
    assert resolve(task_variable("who"), workflow, run.known) == Found("bob")
