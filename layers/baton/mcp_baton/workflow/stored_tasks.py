"""Commands of operators for stored tasks: check whether this code would resume a task, and resume it (docs/commands.md,
Check stored tasks; Resume many tasks)."""

from types import MappingProxyType

from mcp_baton.exceptions import StoreUnavailable
from mcp_baton.protocol.envelope import STATELESS_REVISIONS, Envelope, Era
from mcp_baton.protocol.http import Exchange
from mcp_baton.tasks.record import TaskRecord, statuses_of
from mcp_baton.tools.schema.prompt_arguments import ArgumentRefused
from mcp_baton.transport.reply import Reply
from mcp_baton.workflow.definition import Workflow
from mcp_baton.workflow.engine_host import ServerHost
from mcp_baton.workflow.execution import DetachedExecution
from mcp_baton.workflow.refusals import DefinitionChanged
from mcp_baton.workflow.run import EndedRun
from mcp_baton.workflow.runs import resumed_input, run_workflow
from mcp_baton.workflow.server_view import ServerView
from mcp_baton.workflow.services import Services


def why_refused(server: ServerView, task: TaskRecord) -> str | None:
    """Return why this code would refuse to resume a live task; `None` if the task would continue.

    The resume has no new arguments, except for secret ones: the client gives these again. A call in the background has
    no workflow. It would be refused if its tool is gone.

    Raises:
        StoreUnavailable: arguments outside the task's item cannot be read now.
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
    except StoreUnavailable:
        raise
    except Exception as error:  # noqa: BLE001 - the types of arguments run code of the author
        return refusal_text(error, workflow, task)
    return None


def refusal_text(error: Exception, workflow: Workflow, task: TaskRecord) -> str:
    """Return why a task was not resumed, as a text for the operator."""
    match error:
        case DefinitionChanged(steps=names):
            return "; ".join(_change_text(name, workflow, task) for name in names)
        case ArgumentRefused(problem=problem):
            return problem
        case _:
            return str(error) or type(error).__name__


def _change_text(name: str, workflow: Workflow, task: TaskRecord) -> str:
    change = "its definition changed" if workflow.step(name) else "it was removed"
    return f"step {name!r} is {statuses_of(task)[name].value} and {change}"


def resume_stored(services: Services, workflow: Workflow, owner: str, task_id: str, exchange: Exchange) -> EndedRun:
    """Resume a task in this process, for its owner and without a client.

    Raises:
        ArgumentRefused: an argument is missing or does not convert.
        NotResumed: the task could not be resumed. Nothing was run.
    """
    execution = DetachedExecution(
        services=services,
        server=services.server.full_view,
        store=services.store,
        owner=owner,
        claims=MappingProxyType({}),
        envelope=Envelope(Era.STATELESS, STATELESS_REVISIONS[0], {}, {}, None, None),
        exchange=exchange,
        # The run's notifications are dropped: the reply has no stream.
        reports_to=Reply(exchange, streams=False),
        base_url=services.settings.base_url or "",
    )
    try:
        return run_workflow(execution, workflow, {}, task_id, ServerHost(execution))
    finally:
        execution.notify()
