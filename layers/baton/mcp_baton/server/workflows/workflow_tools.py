"""`tools/call` of a workflow: start a run, or resume a task (docs/workflows.md, As a tool)."""

import logging

from mcp_baton.exceptions import ProtocolError, StoreBusy, StoreError, TaskFinished, TaskHeld, TaskNotFound, ValueLost
from mcp_baton.protocol.json import Json, JsonObject, dumps_spaced
from mcp_baton.protocol.jsonrpc import INVALID_PARAMS
from mcp_baton.server.definitions.workflow_tool import REQUIRED, WorkflowTool
from mcp_baton.server.execution import Execution
from mcp_baton.server.request import Request
from mcp_baton.server.schema.prompt_arguments import ArgumentRefused
from mcp_baton.server.workflows.engine_host import ServerHost
from mcp_baton.server.workflows.runs import NOT_RESUMED, Drifted, NotOfWorkflow, NotRead, NotResumed, answer_with_run
from mcp_baton.server.workflows.task_ids import NamedWrongly, named_task
from mcp_baton.server.workflows.workflow_tool_results import (
    error,
    result_of_held,
    result_of_over,
    result_of_run,
    text_of,
)
from mcp_baton.tasks.record import TaskRecord
from mcp_baton.workflow.definition import ANSWERS, TASK_ACTION, TASK_ID, TASK_RESULT
from mcp_baton.workflow.quoting import quoted_error
from mcp_baton.workflow.run_text import cut

logger = logging.getLogger(__name__)

NOTHING_RUN = "Nothing was run"


class Unusable(Exception):
    """Invalid arguments of a workflow tool. The text tells the model what to do."""


def call_workflow_tool(request: Request, twin: WorkflowTool) -> JsonObject:
    """Run a workflow as far as possible, or resume the task that the arguments name; in this request or by a worker.

    Raises:
        ProtocolError: invalid params, or a call that asks for a task and cannot become one.
    """
    if not _becomes_task(request, twin):
        return _answered(request, twin, as_task=False)
    answer = _answered(request, twin, as_task=True)
    if request.stateless or "task" in answer:
        return answer
    # A client that asks for a task accepts no other result.
    raise ProtocolError(INVALID_PARAMS, text_of(answer))


def _becomes_task(request: Request, twin: WorkflowTool) -> bool:
    if not twin.workflow.background and "task" not in request.params:
        return False
    from mcp_baton.server.background.creating import becomes_task

    return becomes_task(request, twin)


def _answered(request: Request, twin: WorkflowTool, *, as_task: bool) -> JsonObject:
    task_id = None
    try:
        task_id, given = named_task(request, request.object("arguments"))
        arguments = _arguments(twin, given, task_id)
        if as_task:
            from mcp_baton.server.background.creating import start_workflow

            return start_workflow(request, twin, arguments, task_id)
        host = ServerHost(request, until_s=request.reply_due_s())
        return result_of_run(request, answer_with_run(request, twin.workflow, arguments, task_id, host), host)
    except (NamedWrongly, Unusable) as refused:
        return error(cut(f"{sentence(str(refused))} {NOTHING_RUN}."))
    except (ArgumentRefused, *NOT_RESUMED) as refused:
        return not_run(request, twin, task_id or "", refused)


def _arguments(twin: WorkflowTool, given: JsonObject, task_id: str | None) -> dict[str, Json]:
    """The workflow's arguments, without those that count as absent."""
    declared = {argument.name: argument for argument in twin.workflow.arguments}
    # What else the tool takes, left empty, is what some hosts send where their model has left it out.
    given = {name: value for name, value in given.items() if value or name not in (TASK_ACTION, TASK_RESULT, ANSWERS)}
    answers = {ANSWERS: given.pop(ANSWERS)} if twin.workflow.questions and given.get(ANSWERS) else {}
    unknown = sorted(given.keys() - declared.keys())
    if unknown:
        takes = ", ".join([*declared, *([ANSWERS] if twin.workflow.questions else []), TASK_ID])
        raise Unusable(f"unknown arguments: {quoted_error(', '.join(unknown))}; {twin.workflow.name} takes {takes}")
    present = {name: value for name, value in given.items() if value is not None or name not in twin.without_null}
    missing = [name for name, argument in declared.items() if argument.required and name not in present]
    if missing and task_id is None:
        raise Unusable(f"missing: {', '.join(missing)} ({REQUIRED})")
    return present | answers


def sentence(problem: str) -> str:
    """A problem as a sentence."""
    return f"{problem if problem.startswith('task_') else problem[0].upper() + problem[1:]}."


def not_run(
    execution: Execution, twin: WorkflowTool, task_id: str, refused: NotResumed | ArgumentRefused
) -> JsonObject:
    """The result if nothing was run: an error that says what to do; for a held or finished task, its state."""
    workflow = twin.workflow
    anew = f"call {workflow.name} without {TASK_ID} to start anew"
    match refused:
        case ArgumentRefused(problem=problem):
            again = f"call {workflow.name} again with arguments that its input schema allows"
            return error(cut(f"{sentence(problem)} {NOTHING_RUN}: {again}."))
        case TaskHeld(until_ms=until_ms, current=task):
            return result_of_held(execution, workflow, task, until_ms, execution.now_ms())
        case TaskFinished(current=task) if task.workflow == workflow.name:
            return result_of_over(execution, workflow, task)
        case TaskFinished(current=task) | NotOfWorkflow(task=task):
            return _others(execution, twin, task)
        case TaskNotFound():
            known = "it never was, it has expired, or it is another's"
            return error(f"There is no such task: {known}. {NOTHING_RUN}: {anew}, with all its arguments.")
        case StoreBusy(retry_after_ms=after_ms):
            return error(f"The server is busy. {NOTHING_RUN}: make the same call again in {-(-after_ms // 1000)} s.")
        case Drifted(steps=steps):
            names = ", ".join(steps)
            why = f"The workflow has changed since this task was started, in steps that it has completed: {names}"
            return error(cut(f"{why}. {NOTHING_RUN}: {anew}, or make the remaining calls yourself."))
        case NotRead(error=cause):
            logger.error("task %s: it could not be read, so it was not resumed", task_id, exc_info=cause)
            return error(_unread(cause, anew))


def _unread(cause: StoreError, anew: str) -> str:
    if isinstance(cause, ValueLost):
        return cut(f"The task cannot go on, since its arguments are gone: {cause}. {NOTHING_RUN}: {anew}.")
    return f"The task's state cannot be read now. {NOTHING_RUN}: make the same call again later."


def _others(execution: Execution, twin: WorkflowTool, task: TaskRecord) -> JsonObject:
    """The error for a task of another workflow, with the call that resumes it. A background call has a task of its own
    beside the workflow's: starting a new one would run the workflow twice."""
    if task.job is not None and task.job.work.workflow_task is not None:
        tool, own = task.job.work.tool, dumps_spaced({TASK_ID: task.job.work.workflow_task})
        return error(f"This task is a call of {tool} in the background. {NOTHING_RUN}: call {tool} with {own}.")
    of = "is not one of this workflow"
    if task.workflow is not None and execution.server.workflow_tool(task.workflow) is not None:
        return error(f"This task {of}. {NOTHING_RUN}: call {task.workflow} with this {TASK_ID}.")
    return error(f"This task {of}. {NOTHING_RUN}: call {twin.workflow.name} without {TASK_ID} to start anew.")
