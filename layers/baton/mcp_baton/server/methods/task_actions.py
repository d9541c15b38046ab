"""`tools/call` of a workflow with `task_action`: list, show, complete or cancel tasks (docs/console.md, The tool).

No tool runs here. Each action makes one request to the store; `complete` makes two.
"""

import logging

from mcp_baton.exceptions import StoreBusy, StoreError, TaskFinished, TaskNotFound, TooLarge
from mcp_baton.present.fit import cut
from mcp_baton.present.sentences import NOTHING_RUN, sentence, unchanged_text
from mcp_baton.present.task_action import list_result, state_result
from mcp_baton.present.tool_result import not_run
from mcp_baton.protocol.json import JsonObject
from mcp_baton.protocol.jsonrpc import InvalidParams
from mcp_baton.tools.arguments import TASK_ID
from mcp_baton.tools.content import error_result
from mcp_baton.tools.quoting import quoted_error
from mcp_baton.workflow.definition import TASK_ACTION, TASK_RESULT
from mcp_baton.workflow.dispatching import wake_waiting_jobs
from mcp_baton.workflow.refusals import InvalidToolArguments, WrongWorkflow, unreadable
from mcp_baton.workflow.request import Request
from mcp_baton.workflow.workflow_tool import ACTIONS, WorkflowTool

logger = logging.getLogger(__name__)


def run_action(request: Request, tool: WorkflowTool) -> JsonObject:
    if "task" in request.params:
        raise InvalidParams(f"a call with {TASK_ACTION} cannot run as a task")
    try:
        action, task_id, result = _read_action(request, tool)
        if action == "list":
            return _list_tasks(request)
        return _perform(request, tool, action, task_id, result)
    except InvalidToolArguments as error:
        return error_result(cut(f"{sentence(str(error))} {NOTHING_RUN}."))


def _read_action(request: Request, tool: WorkflowTool) -> tuple[str, str, JsonObject]:
    task_id, arguments = request.named_task(request.object("arguments"))
    action, result = arguments.get(TASK_ACTION), arguments.get(TASK_RESULT)
    if not isinstance(action, str) or action not in ACTIONS:
        raise InvalidToolArguments(
            f"{TASK_ACTION} must be one of {', '.join(ACTIONS)}; leave it out to run {tool.name}"
        )
    allowed_names = {TASK_ACTION, *([TASK_RESULT] if action == "complete" else [])}
    unknown = sorted(name for name, value in arguments.items() if name not in allowed_names and value is not None)
    if unknown:
        raise InvalidToolArguments(f"{TASK_ACTION} {action} takes no {quoted_error(', '.join(unknown))}")
    if task_id is None and action != "list":
        raise InvalidToolArguments(f"{TASK_ID} is missing: {TASK_ACTION} {action} needs the id from an earlier result")
    if result is not None and not isinstance(result, dict):
        raise InvalidToolArguments(f"{TASK_RESULT} must be an object, as every MCP result is")
    if action == "complete" and not request.envelope.shows_apps:
        raise InvalidToolArguments(
            f"{TASK_ACTION} complete is for clients that show the page of MCP Apps; to let the server continue, call "
            f"{tool.name} with {TASK_ID} alone"
        )
    return action, task_id or "", result or {}


def _perform(request: Request, tool: WorkflowTool, action: str, task_id: str, result: JsonObject) -> JsonObject:
    try:
        store, owner = request.own_tasks()
        match action:
            case "cancel":
                request.check_own(task_id)
                task = store.cancel(owner, task_id)
            case _:
                # A task's workflow never changes, so the check below still holds at the write.
                task = request.own_task(task_id)
                if action == "complete" and task.job is not None:
                    return error_result(
                        f"This task is a call of {task.job.work.tool} in the background: only its worker completes it. "
                        f"{TASK_ACTION} cancel ends it. Nothing was changed."
                    )
                if task.workflow != tool.workflow.name:
                    return not_run(request, tool, WrongWorkflow(task))
                if action == "complete":
                    task = store.complete(owner, task_id, result)
        if action != "show":
            wake_waiting_jobs(request.services, store, task)
        return state_result(request, tool, task, action)
    except TaskFinished as error:
        return error_result(f"{unchanged_text(error.current.status)}.")
    except TooLarge as error:
        return error_result(cut(f"{TASK_RESULT} cannot be stored: {error}. Nothing was changed."))
    except (TaskNotFound, StoreBusy) as error:
        return not_run(request, tool, error)
    except StoreError as error:
        return not_run(request, tool, unreadable(task_id, error))


def _list_tasks(request: Request) -> JsonObject:
    """List the newest tasks of the owner, including those of tools and of other workflows, as in `tasks/list`."""
    try:
        page = request.own_page()
    except TaskNotFound:
        return list_result(request, [], "This server keeps no tasks for this caller.")
    except StoreBusy as error:
        return error_result(f"The server is busy. Make the same call again in {-(-error.retry_after_ms // 1000)} s.")
    except StoreError:
        logger.exception("request %s: the tasks cannot be listed", request.exchange.request_id)
        return error_result("The tasks cannot be read now. Make the same call again later.")
    return list_result(request, page.tasks)
