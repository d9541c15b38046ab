"""Stored tasks without their clients, for operators: whether a task would continue under this code (docs/commands.md,
Check stored tasks)."""

from mcp_baton.server.schema.prompt_arguments import ArgumentRefused
from mcp_baton.server.view import ServerView
from mcp_baton.server.workflows.runs import Drifted, resumed_input
from mcp_baton.tasks.record import TaskRecord, statuses_of
from mcp_baton.workflow.definition import Workflow


def why_refused(server: ServerView, task: TaskRecord) -> str | None:
    """Why a resume of a live task would be refused under this code; `None` if the task would continue.

    The resume has no new arguments, except for secret ones: the client gives these again. A call in the background has
    no workflow. It would be refused if its tool is gone.
    """
    if task.job is not None:
        tool = task.job.work.tool
        is_known = tool in server.tools or server.workflow_tool(tool) is not None
        return None if is_known else f"the tool {tool!r} is gone"
    workflow = server.workflows.get(task.workflow or "")
    if workflow is None:
        return "its workflow is gone"
    try:
        resumed_input(workflow, task, {}, assumes_secrets=True)
    except Exception as error:  # noqa: BLE001 - the types of arguments run code of the author
        return refusal_text(error, workflow, task)
    return None


def refusal_text(error: Exception, workflow: Workflow, task: TaskRecord) -> str:
    """Why a task was not resumed, for the operator."""
    match error:
        case Drifted(steps=names):
            return "; ".join(_drift(name, workflow, task) for name in names)
        case ArgumentRefused(problem=problem):
            return problem
        case _:
            return str(error) or type(error).__name__


def _drift(name: str, workflow: Workflow, task: TaskRecord) -> str:
    change = "its definition changed" if workflow.step(name) else "it was removed"
    return f"step {name!r} is {statuses_of(task)[name].value} and {change}"
