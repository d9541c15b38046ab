"""A task, or a list of tasks, as `task_action` of a workflow's tool shows it: the text, and the structured content with
the board for the tool's page (docs/console.md)."""

from collections.abc import Iterator, Sequence
from typing import Final, cast

from mcp_baton.present.board import WorkflowState, board_of
from mcp_baton.present.fit import MAX_EVENT_BYTES, MAX_TEXT_BYTES, bytes_of, cut, fit
from mcp_baton.present.handoff import COUNT_BYTES, complete_text, frame, lost_results, wordings_of
from mcp_baton.present.mcp_task import listed_meta
from mcp_baton.present.pause_sentences import waits_text, what_happened_within
from mcp_baton.present.stored_task import task_meta, view_of
from mcp_baton.present.tool_result import first_fitting
from mcp_baton.present.view import TaskView
from mcp_baton.protocol.json import Json, JsonObject, dumps_spaced
from mcp_baton.tasks.record import TaskRecord
from mcp_baton.tools.arguments import TASK_ID
from mcp_baton.tools.quoting import one_line
from mcp_baton.workflow.execution import Execution
from mcp_baton.workflow.workflow_tool import WorkflowTool

STATE_MEMBERS: Final = ("task_id", "task_status", "steps", "pause_reason", "pause_reasons")
"""The members of `_meta` that the structured content has, too."""

MAX_TASKS_LISTED: Final = 50
"""The most tasks in a list."""

MAX_TASKS_NAMED: Final = 10
"""The most tasks in the text of a list."""

MAX_MESSAGE_CHARS: Final = 300
"""The longest status message in a list, characters."""


def state_result(execution: Execution, tool: WorkflowTool, task: TaskRecord, action: str) -> JsonObject:
    """Return the state of the task; for a task of another workflow only its status."""
    view = view_of(task, execution.now_ms(), execution.store)
    meta = task_meta(view, stateless=execution.stateless)
    if task.workflow != tool.workflow.name:
        text = f"This task is {view.status}."
        status_members: JsonObject = {"message": text, "task_id": view.task_id, "task_status": view.status}
        return _tool_result(text, {**status_members, "steps": [], "results": {}, "next": []}, meta)
    state = WorkflowState(execution, tool, task, view)
    text = _state_text(state, with_next_call=action == "show")
    return _tool_result(text, _structure(state, text, meta), meta)


def paused_result(execution: Execution, tool: WorkflowTool, task: TaskRecord) -> JsonObject:
    """Return the result of a call that finds a paused task: its pause and how to continue, without the board."""
    result = state_result(execution, tool, task, "show")
    structure = cast("JsonObject", result["structuredContent"])
    return {**result, "structuredContent": {name: value for name, value in structure.items() if name != "board"}}


def _tool_result(text: str, structure: JsonObject, meta: JsonObject) -> JsonObject:
    content: list[Json] = [{"type": "text", "text": text}]
    return {"content": content, "structuredContent": structure, "isError": False, "_meta": meta}


def _state_text(state: WorkflowState, *, with_next_call: bool) -> str:
    """Return the state of the task as a text; if `with_next_call`, also the next call."""
    view, name = state.view, state.tool.name
    if view.ended or not with_next_call:
        by_client = " A client supplied its result." if view.result_by else ""
        return f"This task of {name} is {view.status}; {view.progress}.{by_client}"
    if view.running_until is not None:
        return f"A run holds this task of {name} until {view.running_until} or longer; {view.progress} so far."
    sentences = [f"This task of {name} {waits_text(view.reasons)}; {view.progress}.", state.warning]
    texts = list(_with_next_call(state, sentences))
    return next((text for text in texts if bytes_of(text) <= MAX_TEXT_BYTES), texts[-1])


def _with_next_call(state: WorkflowState, sentences: list[str]) -> Iterator[str]:
    """Yield the text with the first call that the model has to make, as in the handoff, from the longest to the
    shortest."""
    remaining, wordings = state.remaining, [list[str]()]
    if remaining is not None and not remaining.known.open_steps:
        if remaining.resume_handle:
            arguments = next((call["arguments"] for call in remaining.entries()), None)
            sentences = [*sentences, complete_text(remaining.resume_handle, arguments)]
    elif remaining is not None:
        before, steps, after = frame(remaining)
        rest = [f"And {len(steps) - 1} more after this."] if len(steps) > 1 else []
        sentences = [*sentences, cut(" ".join(lost_results(remaining)), MAX_EVENT_BYTES)]
        calls = [[text] for text in wordings_of(steps[0], remaining)] if steps else [[]]
        wordings = [[*before, *call, *rest, *after] for call in calls]
    for parts in wordings:
        room = MAX_TEXT_BYTES - bytes_of("\n\n".join([*sentences, *parts]))
        head, *others = sentences
        introduction = " ".join(filter(None, [head, *what_happened_within(state.view.reasons, room), *others]))
        yield "\n\n".join([introduction, *parts])


def _structure(state: WorkflowState, message: str, meta: JsonObject) -> dict[str, Json]:
    """Return the structured content: that of the workflow's tool, and `board`."""
    content: dict[str, Json] = {"message": message}
    content |= {name: meta[name] for name in STATE_MEMBERS if name in meta}
    if state.view.running_until is not None:
        content["running_until"] = state.view.running_until
    elif state.warning:
        content["warning"] = state.warning
    suggested_calls = first_fitting(state.remaining.entries(with_failed=False)) if state.remaining else []
    content |= {"results": {}, "next": suggested_calls}
    return board_of(state, content)


def list_result(execution: Execution, tasks: Sequence[TaskRecord], heading: str | None = None) -> JsonObject:
    """Return a list of tasks, newest first. `heading` replaces that of the list."""
    workflow_tools = [name for name, workflow in execution.server.workflows.items() if workflow.has_workflow_tool]
    views = [view_of(task, execution.now_ms(), execution.store) for task in tasks]
    # A background call of a workflow has a task of its own. The row of the workflow's task shows the same run.
    views = [view for view in views if view.workflow is not None or view.tool not in workflow_tools][:MAX_TASKS_LISTED]
    count = "task" if len(views) == 1 else f"{len(views)} tasks"
    heading = heading or (f"The newest {count}:" if views else "There are no tasks.")
    room = MAX_TEXT_BYTES - bytes_of(heading) - COUNT_BYTES
    forms = ([_line(view)] for view in views[:MAX_TASKS_NAMED])
    lines = fit(forms, room, lambda line: bytes_of(line) + 1, in_order=True)
    rest = [f"And {len(views) - len(lines)} more."] if len(views) > len(lines) else []
    text = "\n".join([heading, *lines, *rest])
    entries: list[Json] = [_entry(view) for view in views]
    return _tool_result(text, {"message": text, "steps": [], "results": {}, "next": [], "tasks": entries}, {})


def _entry(view: TaskView) -> dict[str, Json]:
    meta = listed_meta(view)
    entry: dict[str, Json] = {"task_id": view.task_id}
    entry |= {name: meta[name] for name in ("workflow", "tool") if name in meta}
    entry["status"] = view.status
    if view.message:
        entry["status_message"] = view.message[:MAX_MESSAGE_CHARS]
    if "step" in meta:
        entry["step"] = meta["step"]
    if view.pause is not None:
        entry["pause_type"] = view.pause["type"]
        names = ("for",) if view.pause.get("over") else ("for", "until")
        entry |= {f"waits_{name}": view.pause[name] for name in names if name in view.pause}
        if view.pauses[1:]:
            entry["stopped_steps"] = len(view.pauses)
    return entry | {"created_at": view.created, "updated_at": view.updated}


def _line(view: TaskView) -> str:
    name = view.workflow or view.tool or "task"
    pause = ""
    if view.workflow is not None and view.pause is not None:
        step = f" at step {one_line(view.open_step)}" if view.open_step else ""
        types = ", ".join(dict.fromkeys(str(pause["type"]) for pause in view.pauses))
        pause = f", {(view.message or '')[:MAX_MESSAGE_CHARS]} ({types}){step}"
    return f"- {name}: {view.status}{pause}; {dumps_spaced({TASK_ID: view.task_id})}"
