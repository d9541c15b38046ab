"""`tools/call` of a workflow with `task_action`: list, show, complete or cancel tasks (docs/console.md, The tool).

No tool runs here. Each action makes one request to the store; `complete` makes two.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import cast

from msgspec import Struct

from mcp_baton.exceptions import BatonError, ProtocolError, StoreBusy, StoreError, TaskFinished, TaskNotFound, TooLarge
from mcp_baton.present.handoff import RemainingCalls, uris_of
from mcp_baton.present.run_text import LIMIT, SHORT, cut
from mcp_baton.present.task_view import (
    facts_of,
    listed_meta,
    read_variable,
    shown_pause,
    status_message_of,
    task_meta,
    with_decision,
)
from mcp_baton.present.workflow_tools import (
    MAX_RESULT_BYTES,
    MAX_TOTAL_BYTES,
    NOTHING_RUN,
    InvalidToolArguments,
    first_fitting,
    not_run,
    sentence,
)
from mcp_baton.protocol.json import Json, JsonObject, dumps_spaced, json_size
from mcp_baton.protocol.jsonrpc import INVALID_PARAMS
from mcp_baton.tasks.record import RESULT_PREFIX, WAITED, StepProgress, StepStatus, TaskRecord, paused_step, timestamp
from mcp_baton.tasks.values import weight_of
from mcp_baton.tools.arguments import TASK_ID
from mcp_baton.tools.content import error_result
from mcp_baton.tools.quoting import LONGEST, one_line, quoted_error
from mcp_baton.tools.resource import value_uri
from mcp_baton.workflow.continuations import plan_of
from mcp_baton.workflow.definition import TASK_ACTION, TASK_RESULT, Step
from mcp_baton.workflow.definition_changes import conflicting_steps
from mcp_baton.workflow.dispatching import wake_waiting_jobs
from mcp_baton.workflow.pause import (
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRequired,
    PauseReason,
    Waiting,
    parse_pause,
)
from mcp_baton.workflow.repeats import may_have_run
from mcp_baton.workflow.request import Request
from mcp_baton.workflow.runs import TaskUnreadable, WrongWorkflow
from mcp_baton.workflow.sources import PromptArg
from mcp_baton.workflow.stored_calls import shown_call
from mcp_baton.workflow.task_ids import InvalidTaskReference, handle_of, named_task
from mcp_baton.workflow.workflow_tool import ACTIONS, WorkflowTool

logger = logging.getLogger(__name__)

MAX_LISTED = 50
"""The most tasks in a list."""

MAX_NAMED = 10
"""The most tasks in the text of a list."""

LONGEST_MESSAGE = 300
"""The longest status message in a list, characters."""


def run_action(request: Request, tool: WorkflowTool) -> JsonObject:
    if "task" in request.params:
        raise ProtocolError(INVALID_PARAMS, f"Invalid params: a call with {TASK_ACTION} cannot run as a task")
    try:
        action, task_id, result = _read_action(request, tool)
        if action == "list":
            return _list_tasks(request)
        return _perform(request, tool, action, task_id, result)
    except (InvalidTaskReference, InvalidToolArguments) as error:
        return error_result(cut(f"{sentence(str(error))} {NOTHING_RUN}."))


def _read_action(request: Request, tool: WorkflowTool) -> tuple[str, str, JsonObject]:
    task_id, arguments = named_task(request, request.object("arguments"))
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
                    return not_run(request, tool, task_id, WrongWorkflow(task))
                if action == "complete":
                    task = store.complete(owner, task_id, result)
        if action != "show":
            wake_waiting_jobs(request.services, store, task)
        return _result(request, tool, with_decision(task, store), action)
    except TaskFinished as error:
        return error_result(f"This task is {error.current.status.value}: nothing changes it.")
    except TooLarge as error:
        return error_result(cut(f"{TASK_RESULT} cannot be stored: {error}. Nothing was changed."))
    except (TaskNotFound, StoreBusy) as error:
        return not_run(request, tool, task_id, error)
    except StoreError as error:
        return not_run(request, tool, task_id, TaskUnreadable(error))


def _result(request: Request, tool: WorkflowTool, task: TaskRecord, action: str) -> JsonObject:
    """Return the state of the task; for a task of another workflow only its status."""
    meta = task_meta(request, task)
    if task.workflow != tool.workflow.name:
        text = f"This task is {task.status.value}."
        status_members: JsonObject = {"message": text, "task_id": task.task_id, "task_status": task.status.value}
        return _tool_result(text, {**status_members, "steps": [], "results": {}, "next": []}, meta)
    details = TaskDetails(request, tool, task)
    text = cut(details.text(with_next_call=action == "show"))
    return _tool_result(text, details.structure(text, meta), meta)


def paused_result(request: Request, tool: WorkflowTool, task: TaskRecord) -> JsonObject:
    """Return the result of a call that finds a paused task: its pause and how to continue, without the board."""
    result = _result(request, tool, task, "show")
    structure = cast("JsonObject", result["structuredContent"])
    return {**result, "structuredContent": {name: value for name, value in structure.items() if name != "board"}}


def _tool_result(text: str, structure: JsonObject, meta: JsonObject) -> JsonObject:
    content: list[Json] = [{"type": "text", "text": text}]
    return {"content": content, "structuredContent": structure, "isError": False, "_meta": meta}


class TaskDetails:
    """The state of a task of a workflow, as a text and as structured content for its page."""

    def __init__(self, request: Request, tool: WorkflowTool, task: TaskRecord) -> None:
        self._request = request
        self._tool = tool
        self._task = task
        self._plan = plan_of(request, task)
        handle = handle_of(request.server, tool.workflow, task.task_id)
        self._is_live = not task.status.terminal
        self._message = status_message_of(task, request.now_ms) if self._is_live else task.status_message
        self._pause = None if self._message == WAITED else shown_pause(task, request.now_ms)
        self._reason = parse_pause(self._pause)
        live_claim = task.claim if self._is_live and task.claim and task.claim.holds_at(request.now_ms()) else None
        self._running_until = timestamp(live_claim.until_ms) if live_claim else None
        self._can_resume = self._is_live and not conflicting_steps(tool.workflow, task)
        self._is_resumable_now = self._can_resume and not live_claim
        self._explanation = self._reason.what_happened() if self._reason else ""
        self._warning = " ".join(may_have_run(self._plan.repeats(), self._plan.why_repeated))
        known = self._plan.known if self._is_live else None
        resume_handle = handle if self._can_resume else None
        self._remaining = RemainingCalls(known, request.server, self._reason, handle, resume_handle) if known else None
        self._next = first_fitting(self._remaining.entries(with_failed=False)) if self._remaining else []

    def text(self, *, with_next_call: bool) -> str:
        """Return the state of the task as a text; if `with_next_call`, also the next call."""
        statuses = [StepStatus(step["status"]) for step in self._plan.steps]
        settled_count, steps = sum(status.settled for status in statuses), len(statuses)
        progress, name = f"{settled_count} of {steps} {'step' if steps == 1 else 'steps'} done", self._tool.name
        if not self._is_live or not with_next_call:
            by_client = " A client supplied its result." if self._task.by_client else ""
            return f"This task of {name} is {self._task.status.value}; {progress}.{by_client}"
        if self._running_until is not None:
            return f"A run holds this task of {name} until {self._running_until} or longer; {progress} so far."
        sentences = [f"This task of {name} {_wait_text(self._reason)}; {progress}.", self._explanation, self._warning]
        full_text = self._text(sentences, LONGEST)
        return full_text if len(full_text.encode()) <= LIMIT else self._text(sentences, SHORT)

    def _text(self, sentences: list[str], longest: int) -> str:
        """Return the text with the first call that the model has to make, as in the handoff."""
        remaining = self._remaining
        if remaining is None:
            return " ".join(filter(None, sentences))
        if not remaining.known.open_steps:
            handle = remaining.resume_handle
            return " ".join(filter(None, [*sentences, handle.complete_text() if handle else ""]))
        before, steps, after = remaining.frame()
        calls = [remaining.text_of(step, longest) for step in steps[:1]]
        rest = [f"And {len(steps) - 1} more after this."] if len(steps) > 1 else []
        introduction = " ".join(filter(None, [*sentences, *remaining.lost_results()]))
        return "\n\n".join([introduction, *before, *calls, *rest, *after])

    def structure(self, message: str, meta: JsonObject) -> dict[str, Json]:
        """Return the structured content: that of the workflow's tool, and `board`.

        It has at most 40 KB of JSON, not counting the names and statuses of the steps: hosts cut results of more than
        about 25,000 tokens. The space is used in this order: the first call with its form, the other calls, the
        shortest values, the other forms (docs/console.md, How much is shown).
        """
        facts = facts_of(self._task)
        timings, elements = (cast("JsonObject", facts.pop(name, {})) for name in ("timings", "elements"))
        steps = [self._step(step, timings, elements) for step in self._plan.steps]
        results: dict[str, Json] = {}
        calls: list[Json] = []
        values = [value for step in steps for value in self._values(step, results)]
        content: dict[str, Json] = {"message": message}
        content |= {name: meta[name] for name in ("task_id", "task_status", "steps", "pause_reason") if name in meta}
        if self._running_until is not None:
            content["running_until"] = self._running_until
        elif self._warning:
            content["warning"] = self._warning
        content |= {"results": results, "next": self._next}
        content["board"] = {
            "workflow": self._tool.workflow.name,
            "workflow_tool": self._tool.name,
            "task": {**self._summary(), **facts},
            "steps": steps,
            "pause": self._pause_view(),
            "running_until": self._running_until,
            "suggested_tool": self._suggested_tool(),
            "calls": calls,
            "secrets": self._secrets(),
            "can": {"go_on": self._is_resumable_now, "complete": self._is_live, "cancel": self._is_live},
        }
        space = RemainingBytes(MAX_TOTAL_BYTES - json_size(content))
        forms = self._calls()
        for index, (call, schema) in enumerate(forms):
            size = json_size(call) + 1
            if index and size > space.size:
                break
            space.size -= size
            calls.append(call)
            if index == 0:
                space.add(call, "schema", schema)
        for value in sorted(values, key=lambda value: value.size):
            if space.take(sum(value.size - json_size(holder[name]) for holder, name in value.places)):
                for holder, name in value.places:
                    holder[name] = value.value
        for call, schema in forms[1 : len(calls)]:
            space.add(call, "schema", schema)
        return content

    def _summary(self) -> JsonObject:
        task = self._task
        return {
            "task_id": task.task_id,
            "status": task.status.value,
            "status_message": self._message,
            "created_at": task.created_at,
            "updated_at": task.updated_at,
            "expires_at": timestamp(task.created_ms + task.ttl_ms),
        }

    def _pause_view(self) -> JsonObject | None:
        if self._pause is None or not self._is_live:
            return None
        # The message of an approval is its question.
        return {"message": self._explanation, **self._pause, "step": paused_step(self._pause)}

    def _suggested_tool(self) -> str | None:
        """The tool of the first call for a person, who can correct a call that has failed. `next` leaves that out."""
        entries = self._remaining.entries(with_failed=True) if self._remaining else []
        return next((str(entry["tool"]) for entry in entries if "tool" in entry), None)

    def _secrets(self) -> list[str]:
        known = self._remaining.known if self._remaining else None
        return sorted(known.secrets.names) if known and known.open_steps else []

    def _step(self, step: StepProgress, timings: JsonObject, elements: JsonObject) -> dict[str, Json]:
        """Return a step without its values: name; tool, question, wait or resource; status, error, elements, time."""
        name, timing = step["name"], timings.get(step["name"])
        view: dict[str, Json] = {"name": name}
        declared = self._tool.workflow.step(name)
        if "tool" in step:
            view["tool"] = step["tool"]
        elif "ask" in step:
            view["ask"] = step["ask"]
        elif "wait" in step:
            view["wait"] = step["wait"]
        elif declared is not None and self._plan.known is not None:
            view["resource"] = ", ".join(uris_of(declared, self._plan.known).values())
        view["status"] = step["status"]
        weight = weight_of(self._task, f"{RESULT_PREFIX}{name}")
        if step["status"] == StepStatus.FAILED and weight is not None and not weight.large:
            result = read_variable(self._task, f"{RESULT_PREFIX}{name}")
            if isinstance(result, Mapping) and isinstance(result.get("error"), str):
                view["error"] = cut(str(result["error"]))
        if name in elements:
            view["elements"] = elements[name]
        return view | (dict(timing) if isinstance(timing, Mapping) else {})

    def _values(self, step: dict[str, Json], results: dict[str, Json]) -> Iterator["StepValue"]:
        """Put notes into a step in place of its result and its arguments. Yields the values that may replace the
        notes."""
        if "tool" not in step and "ask" not in step and step.get("wait") != "callback":
            return
        name, completed = str(step["name"]), step["status"] == StepStatus.COMPLETED
        variable = f"{RESULT_PREFIX}{name}"
        weight = weight_of(self._task, variable) if completed else None
        if weight is not None:
            step["bytes"] = weight.text_bytes
            uri = value_uri(self._task.task_id, variable)
            step["result"] = results[name] = {"bytes": weight.text_bytes, "uri": uri}
            if weight.text_bytes <= MAX_RESULT_BYTES and not weight.large:
                yield StepValue(
                    weight.text_bytes, read_variable(self._task, variable), ((step, "result"), (results, name))
                )
        arguments = self._arguments(name, completed) if "tool" in step else None
        if arguments is not None:
            size = json_size(arguments)
            step["arguments"] = {"bytes": size}
            if size <= MAX_RESULT_BYTES:
                yield StepValue(size, arguments, ((step, "arguments"),))

    def _arguments(self, name: str, completed: bool) -> JsonObject | None:
        try:
            stored_arguments = shown_call(self._task.variables, name) if completed else None
        except StoreError:
            return None
        step, known = self._tool.workflow.step(name), self._plan.known
        if stored_arguments is not None or step is None or known is None:
            return stored_arguments
        return RemainingCalls(known, self._request.server, self._reason).arguments(step)

    def _calls(self) -> list[tuple[dict[str, Json], JsonObject | None]]:
        """Return the remaining calls of tools that a person can make, each with the schema of its form."""
        calls: list[tuple[dict[str, Json], JsonObject | None]] = []
        for step in self._remaining.known.open_steps if self._remaining else ():
            for entry in self._remaining.entries_of(step) if self._remaining and step.tool else ():
                if entry.get("tool") == step.tool and isinstance(arguments := entry["arguments"], Mapping):
                    missing_names = [name for name, value in arguments.items() if self._is_missing(step, name, value)]
                    calls.append(({"step": step.name, **entry, "missing": sorted(missing_names)}, self._schema(step)))
        return calls

    def _is_missing(self, step: Step, name: str, value: Json) -> bool:
        """Whether a person has to give an argument, because nothing else provides it."""
        source, known = step.arguments.get(name), self._plan.known
        is_missing = isinstance(source, PromptArg) and known is not None and source.name not in known.arguments
        return is_missing or value in (f"<missing: {name}>", f"<invalid: {name}>")

    def _schema(self, step: Step) -> JsonObject | None:
        """Return the input schema of a step's tool; `None` if a type of the author has no schema."""
        try:
            return self._request.server.tools[step.tool or ""].input_schema
        except (BatonError, ProtocolError):
            logger.exception("tool %s: its input schema cannot be shown", step.tool)
            return None


class StepValue(Struct, frozen=True):
    """A value of a step, and the places where it may replace its note."""

    size: int
    value: Json
    places: tuple[tuple[dict[str, Json], str], ...]


class RemainingBytes:
    """The free bytes of a structured content."""

    def __init__(self, size: int) -> None:
        self.size = size

    def take(self, size: int) -> bool:
        """Take this many bytes if they fit. Returns whether they do."""
        fits = size <= self.size
        self.size -= size if fits else 0
        return fits

    def add(self, holder: dict[str, Json], name: str, value: Json) -> None:
        """Add a member if it fits."""
        if value is not None and self.take(json_size(value) + len(name) + 4):
            holder[name] = value


def _list_tasks(request: Request) -> JsonObject:
    """List the newest tasks of the owner, including those of tools and of other workflows, as in `tasks/list`."""
    try:
        store, _ = request.own_tasks()
        page = request.own_page()
    except TaskNotFound:
        return _list_result([], "This server keeps no tasks for this caller.")
    except StoreBusy as error:
        return error_result(f"The server is busy. Make the same call again in {-(-error.retry_after_ms // 1000)} s.")
    except StoreError:
        logger.exception("request %s: the tasks cannot be listed", request.exchange.request_id)
        return error_result("The tasks cannot be read now. Make the same call again later.")
    # A background call of a workflow has a task of its own. The row of the workflow's task shows the same run.
    entries, workflow_tools = (
        [_entry(with_decision(task, store), request.now_ms) for task in page.tasks],
        request.server.workflow_tool_names,
    )
    tasks = [entry for entry in entries if entry.get("tool") not in workflow_tools][:MAX_LISTED]
    lines = [_line(task) for task in tasks[:MAX_NAMED]]
    rest = [f"And {len(tasks) - MAX_NAMED} more."] if len(tasks) > MAX_NAMED else []
    heading = f"The newest {'task' if len(tasks) == 1 else f'{len(tasks)} tasks'}:" if tasks else "There are no tasks."
    return _list_result(tasks, cut("\n".join([heading, *lines, *rest])))


def _list_result(tasks: list[dict[str, Json]], text: str) -> JsonObject:
    return _tool_result(text, {"message": text, "steps": [], "results": {}, "next": [], "tasks": tasks}, {})


def _entry(task: TaskRecord, now_ms: Callable[[], int]) -> dict[str, Json]:
    meta = listed_meta(task, now_ms)
    pause = meta.get("pause_reason")
    entry: dict[str, Json] = {"task_id": task.task_id}
    entry |= {name: meta[name] for name in ("workflow", "tool") if name in meta}
    entry["status"] = task.status.value
    message = status_message_of(task, now_ms)
    if message:
        entry["status_message"] = message[:LONGEST_MESSAGE]
    if "step" in meta:
        entry["step"] = meta["step"]
    if isinstance(pause, dict):
        entry["pause_type"] = pause["type"]
        entry |= {f"waits_{name}": pause[name] for name in ("for", "until") if name in pause}
    return entry | {"created_at": task.created_at, "updated_at": task.updated_at}


def _wait_text(reason: PauseReason | None) -> str:
    if isinstance(reason, Waiting):
        return "waits for a callback" if reason.waits_for == "callback" else "waits for a time"
    if isinstance(reason, ApprovalGranted | ApprovalExpired):
        return "can continue"
    return "waits for a person" if isinstance(reason, ApprovalRequired) else "waits for the model"


def _line(task: JsonObject) -> str:
    name = task.get("workflow") or task.get("tool") or "task"
    step = f" at step {one_line(task['step'])}" if "pause_type" in task and "step" in task else ""
    pause = f", {task.get('status_message')} ({task['pause_type']}){step}" if "pause_type" in task else ""
    return f"- {name}: {task['status']}{pause}; {dumps_spaced({TASK_ID: task['task_id']})}"
