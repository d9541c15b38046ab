"""Errors for tools and prompts that the server does not have (docs/workflows.md, When the workflow changes)."""

import logging

from mcp_baton.exceptions import ProtocolError, StoreError
from mcp_baton.protocol.json import JsonObject, dumps_spaced
from mcp_baton.protocol.jsonrpc import INVALID_PARAMS
from mcp_baton.tasks.record import TaskRecord, steps_of
from mcp_baton.workflow.execution import Execution
from mcp_baton.workflow.handle import Handle
from mcp_baton.workflow.refusals import InvalidToolArguments
from mcp_baton.workflow.request import Request

logger = logging.getLogger(__name__)


def unknown_name(request: Request, kind: str, name: str, arguments: JsonObject) -> ProtocolError:
    """Return the error for a name that the server does not have. If the task of the request was started with it, the
    error says that it was removed.

    Args:
        kind: `tool` or `prompt`.
    """
    text = f"Unknown {kind}: {name}"
    task = _named_task(request, arguments)
    if task is not None and task.workflow == name:
        text = _removed_text(name, "the task")
    elif task is not None and kind == "tool" and any(step.get("tool") == name for step in steps_of(task)):
        workflow = request.server.workflows.get(task.workflow or "")
        calls = Handle(task.task_id, workflow, given=workflow.secrets).call() if workflow else []
        resume = "".join(f": call {call['tool']} with {dumps_spaced(call['arguments'])}" for call in calls)
        text = (
            f"The tool {name!r} was removed from this server after the task was started. Nothing was run. Resume the "
            f"task, which then follows the present definition of its workflow{resume}. Or cancel it with tasks/cancel."
        )
    return ProtocolError(INVALID_PARAMS, text)


def unknown_in_worker(execution: Execution, name: str, workflow_task: str | None = None) -> ProtocolError:
    """Return the error for a background task, which ends with it: the worker does not see its tool or, with
    `workflow_task`, its workflow."""
    view = execution.services.server
    is_hidden = name in view.tools or view.workflow_tool(name) is not None
    # Callers without the scopes of a tool do not learn that it exists.
    if is_hidden:
        text = f"Unknown tool: {name}"
    elif workflow_task is None:
        text = f"The tool {name!r} was removed from this server after the task was started. Nothing was run."
    else:
        text = _removed_text(name, f"its task {workflow_task}")
    return ProtocolError(INVALID_PARAMS, text)


def _removed_text(name: str, task: str) -> str:
    """Return what happened to a task whose workflow was removed, and what can be done."""
    return (
        f"The workflow {name!r} was removed from this server after the task was started, so {task} cannot continue. "
        "Nothing was run. Read its results with tasks/get and cancel it with tasks/cancel, or publish the workflow "
        "again."
    )


def _named_task(request: Request, arguments: JsonObject) -> TaskRecord | None:
    """Return the task that a request names, if the caller may see it."""
    try:
        task_id, _ = request.named_task(arguments)
        if task_id is None or request.store is None or request.owner is None:
            return None
        return request.own_task(task_id)
    except (InvalidToolArguments, ProtocolError):
        return None
    except StoreError:
        logger.info("request %s: the task that it names cannot be read", request.exchange.request_id, exc_info=True)
        return None
