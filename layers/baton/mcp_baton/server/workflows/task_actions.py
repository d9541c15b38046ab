"""`tools/call` of a workflow with `task_action`: list, show, complete or cancel tasks (docs/console.md, The tool).

No tool runs here. Each action makes one request to the store; `complete` makes two.
"""

import logging
from collections.abc import Callable

from mcp_baton.exceptions import ProtocolError, StoreBusy, StoreError, TaskFinished, TaskNotFound, TooLarge
from mcp_baton.protocol.json import Json, JsonObject, dumps_spaced
from mcp_baton.protocol.jsonrpc import INVALID_PARAMS
from mcp_baton.server.definitions.workflow_tool import ACTIONS, WorkflowTool
from mcp_baton.server.request import Request
from mcp_baton.server.workflows.board import State, done_of, state_of, structure_of
from mcp_baton.server.workflows.result_meta import task_meta
from mcp_baton.server.workflows.runs import NotOfWorkflow, NotRead
from mcp_baton.server.workflows.task_ids import NamedWrongly, handle_of, named_task
from mcp_baton.server.workflows.task_view import listed_meta, status_message_of
from mcp_baton.server.workflows.workflow_tools import NOTHING_RUN, Unusable, error, not_run, sentence
from mcp_baton.tasks.record import PAUSED, TaskRecord
from mcp_baton.tasks.store import TaskStore
from mcp_baton.workflow.definition import TASK_ACTION, TASK_ID, TASK_RESULT
from mcp_baton.workflow.pause import AnswersRequired
from mcp_baton.workflow.quoting import one_line, quoted_error
from mcp_baton.workflow.run_text import cut

logger = logging.getLogger(__name__)

MOST = 50
"""The most tasks in a list."""

NAMED = 10
"""The most tasks in the text of a list."""

LONGEST_MESSAGE = 300
"""The longest status message in a list, characters."""


def act(request: Request, tool: WorkflowTool) -> JsonObject:
    """Perform the action of `task_action`.

    Raises:
        ProtocolError: the call asks for a task of its own, or its `_meta` names tasks incorrectly.
    """
    if "task" in request.params:
        raise ProtocolError(INVALID_PARAMS, f"Invalid params: a call with {TASK_ACTION} cannot run as a task")
    try:
        action, task_id, result = _asked(request, tool)
        if action == "list":
            return _listed(request)
        return _done(request, tool, action, task_id, result)
    except (NamedWrongly, Unusable) as refused:
        return error(cut(f"{sentence(str(refused))} {NOTHING_RUN}."))


def _asked(request: Request, tool: WorkflowTool) -> tuple[str, str, JsonObject]:
    """The action, the id of the task, and its new result."""
    task_id, given = named_task(request, request.object("arguments"))
    action, result = given.get(TASK_ACTION), given.get(TASK_RESULT)
    if not isinstance(action, str) or action not in ACTIONS:
        raise Unusable(f"{TASK_ACTION} must be one of {', '.join(ACTIONS)}; leave it out to run {tool.name}")
    takes = {TASK_ACTION, *([TASK_RESULT] if action == "complete" else [])}
    unknown = sorted(name for name, value in given.items() if name not in takes and value is not None)
    if unknown:
        raise Unusable(f"{TASK_ACTION} {action} takes no {quoted_error(', '.join(unknown))}")
    if task_id is None and action != "list":
        raise Unusable(f"{TASK_ID} is missing: {TASK_ACTION} {action} needs the one that an earlier result gave")
    if result is not None and not isinstance(result, dict):
        raise Unusable(f"{TASK_RESULT} must be an object, as every MCP result is")
    if action == "complete" and not request.envelope.shows_apps:
        raise Unusable(
            f"{TASK_ACTION} complete is for clients that show the page of MCP Apps; to let the server continue, call "
            f"{tool.name} with {TASK_ID} alone"
        )
    return action, task_id or "", result or {}


def _done(request: Request, tool: WorkflowTool, action: str, task_id: str, result: JsonObject) -> JsonObject:
    try:
        store, owner = _store(request)
        match action:
            case "cancel":
                task = store.cancel(owner, task_id)
            case _:
                # A task's workflow never changes, so what is read here still holds at the write.
                task = store.get(owner, task_id)
                if action == "complete" and task.job is not None:
                    return error(f"{_only_its_worker(task.job.work.tool)} Nothing was changed.")
                if task.workflow != tool.workflow.name:
                    return not_run(request, tool, task_id, NotOfWorkflow(task))
                if action == "complete":
                    task = store.complete(owner, task_id, result)
        return _result(request, tool, task, action)
    except TaskFinished as over:
        return error(f"This task is {over.current.status.value}: nothing changes it.")
    except TooLarge as large:
        return error(cut(f"{TASK_RESULT} cannot be stored: {large}. Nothing was changed."))
    except (TaskNotFound, StoreBusy) as refused:
        return not_run(request, tool, task_id, refused)
    except StoreError as failed:
        return not_run(request, tool, task_id, NotRead(failed))


def _only_its_worker(tool: str) -> str:
    return (
        f"This task is a call of {tool} in the background: only its worker completes it. {TASK_ACTION} cancel ends it."
    )


def _store(request: Request) -> tuple[TaskStore, str]:
    if request.store is None or request.owner is None:
        raise TaskNotFound
    return request.store, request.owner


def _result(request: Request, tool: WorkflowTool, task: TaskRecord, action: str) -> JsonObject:
    """The state of the task. For a task of another workflow only its status."""
    meta = task_meta(request, task)
    if task.workflow != tool.workflow.name:
        text = f"This task is {task.status.value}."
        bare: JsonObject = {"message": text, "task_id": task.task_id, "task_status": task.status.value}
        return _made(text, {**bare, "steps": [], "results": {}, "next": []}, meta)
    state = state_of(request, tool, task)
    text = cut(_text(request, tool, state, shows=action == "show"))
    return _made(text, structure_of(request, tool, state, text), meta)


def _made(text: str, structure: JsonObject, meta: JsonObject) -> JsonObject:
    content: list[Json] = [{"type": "text", "text": text}]
    return {"content": content, "structuredContent": structure, "isError": False, "_meta": meta}


def _text(request: Request, tool: WorkflowTool, state: State, *, shows: bool) -> str:
    """The state of the task and the next call, as a text."""
    done, steps = done_of(state)
    settled = f"{done} of {steps} {'step' if steps == 1 else 'steps'} done"
    if not state.live or not shows:
        by_client = " A client supplied its result." if state.task.by_client else ""
        return f"This task of {tool.name} is {state.task.status.value}; {settled}.{by_client}"
    if state.running_until is not None:
        return f"A run holds this task of {tool.name} until {state.running_until} or longer; {settled} so far."
    sentences = [f"This task of {tool.name} waits for the model; {settled}.", state.why, state.warning]
    first = next((call.entry for call in state.calls if "tool" in call.entry), None)
    corrected = state.reason is not None and state.reason.is_for_the_operator
    if first is not None and isinstance(state.reason, AnswersRequired):
        call = f"Call {first['tool']} with {one_line(first['arguments'])} to let the server continue."
        return " ".join(filter(None, [*sentences, call]))
    if first is not None and first["tool"] != tool.name and not corrected:
        sentences.append(f"Next: call {first['tool']} with {one_line(first['arguments'])}.")
    if state.can_go_on:
        begin = "When the cause is corrected, " if corrected else "Or " if state.calls else ""
        sentences.append(_offer(request, tool, state, begin))
    return " ".join(filter(None, sentences))


def _offer(request: Request, tool: WorkflowTool, state: State, begin: str) -> str:
    return handle_of(request.server, tool.workflow, state.task.task_id).offer(state.plan.known, begin=begin)


def _listed(request: Request) -> JsonObject:
    """The newest tasks of the owner, also those of tools and of other workflows, as in `tasks/list`."""
    try:
        store, owner = _store(request)
        page = store.list(owner)
    except TaskNotFound:
        return _list_of([], "This server keeps no tasks for this caller.")
    except StoreBusy as busy:
        return error(f"The server is busy. Make the same call again in {-(-busy.retry_after_ms // 1000)} s.")
    except StoreError:
        logger.exception("request %s: the tasks cannot be listed", request.exchange.request_id)
        return error("The tasks cannot be read now. Make the same call again later.")
    tasks = [_entry(task, request.now_ms) for task in page.tasks[:MOST]]
    lines = [_line(task) for task in tasks[:NAMED]]
    more = [f"And {len(tasks) - NAMED} more."] if len(tasks) > NAMED else []
    head = f"The newest {'task' if len(tasks) == 1 else f'{len(tasks)} tasks'}:" if tasks else "There are no tasks."
    return _list_of(tasks, cut("\n".join([head, *lines, *more])))


def _list_of(tasks: list[dict[str, Json]], text: str) -> JsonObject:
    return _made(text, {"message": text, "steps": [], "results": {}, "next": [], "tasks": tasks}, {})


def _entry(task: TaskRecord, now_ms: Callable[[], int]) -> dict[str, Json]:
    where = listed_meta(task, now_ms)
    pause = where.get("pause_reason")
    made: dict[str, Json] = {"task_id": task.task_id}
    made |= {name: where[name] for name in ("workflow", "tool") if name in where}
    made["status"] = task.status.value
    message = status_message_of(task, now_ms)
    if message:
        made["status_message"] = message[:LONGEST_MESSAGE]
    if "step" in where:
        made["step"] = where["step"]
    if isinstance(pause, dict):
        made["pause_type"] = pause["type"]
    return made | {"created_at": task.created_at, "updated_at": task.updated_at}


def _line(task: JsonObject) -> str:
    what = task.get("workflow") or task.get("tool") or "task"
    at = f" at step {one_line(task['step'])}" if "pause_type" in task and "step" in task else ""
    paused = f", {PAUSED} ({task['pause_type']}){at}" if "pause_type" in task else ""
    return f"- {what}: {task['status']}{paused}; {dumps_spaced({TASK_ID: task['task_id']})}"
