"""`tools/call` of a workflow: start a run or resume a task, and the result as a text and as structured content
(docs/workflows.md, As a tool)."""

import logging
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Final

from msgspec import structs

from mcp_baton.exceptions import ProtocolError, StoreBusy, StoreError, TaskFinished, TaskHeld, TaskNotFound, ValueLost
from mcp_baton.present.handoff import RemainingCalls
from mcp_baton.present.run_text import (
    Value,
    cut,
    open_repeats_before,
    text_of_ended_task,
    text_of_held_task,
    text_of_run,
)
from mcp_baton.present.task_view import read_variable, task_meta
from mcp_baton.protocol.json import Json, JsonObject, dumps_spaced, json_size
from mcp_baton.protocol.jsonrpc import INVALID_PARAMS
from mcp_baton.tasks.record import RESULT_PREFIX, StepStatus, TaskRecord, has_value, steps_of, timestamp
from mcp_baton.tasks.values import FINAL_RESULT, weight_of
from mcp_baton.tools.arguments import TASK_ID
from mcp_baton.tools.content import LONG_CONTENT, error_result
from mcp_baton.tools.outcomes import FetchedResource, Succeeded
from mcp_baton.tools.quoting import quoted_error
from mcp_baton.tools.resource import value_uri
from mcp_baton.tools.schema.prompt_arguments import ArgumentRefused, named
from mcp_baton.tools.uris import encoded
from mcp_baton.workflow.batch import run_result
from mcp_baton.workflow.definition import ANSWERS, NEW_TASK, TASK_ACTION, TASK_RESULT, Workflow
from mcp_baton.workflow.engine_host import ServerHost
from mcp_baton.workflow.execution import Execution
from mcp_baton.workflow.pause import ApprovalRequired
from mcp_baton.workflow.repeats import may_have_run, may_have_run_twice
from mcp_baton.workflow.repetitions import REPEATS, RepeatedCall, Starter, starter_of
from mcp_baton.workflow.request import Request
from mcp_baton.workflow.resolve import Known
from mcp_baton.workflow.run import EndedRun
from mcp_baton.workflow.runs import (
    NOT_RESUMED,
    DefinitionChanged,
    NotResumed,
    TaskUnreadable,
    WrongWorkflow,
    answer_with_run,
    run_meta,
)
from mcp_baton.workflow.task_ids import InvalidTaskReference, handle_of, named_task
from mcp_baton.workflow.workflow_tool import OUTPUT_PROPERTIES, REQUIRED, WorkflowTool

logger = logging.getLogger(__name__)

NOTHING_RUN = "Nothing was run"


class InvalidToolArguments(Exception):
    """Invalid arguments of a workflow tool. The text tells the model what to do."""


type ShowPaused = Callable[[Request, WorkflowTool, TaskRecord], JsonObject]
"""Returns the result of a call that finds a paused task."""


def call_workflow_tool(request: Request, tool: WorkflowTool, show_paused: ShowPaused) -> JsonObject:
    """Run a workflow as far as possible, or resume the task that the arguments name; in this request or by a worker."""
    as_task = tool.workflow.background or "task" in request.params
    if as_task:
        from mcp_baton.background.creating import becomes_task

        as_task = becomes_task(request, tool)
    answer = _start_or_resume(request, tool, show_paused, as_task=as_task)
    if as_task and not request.stateless and "task" not in answer:
        # A client that asks for a task accepts no other result.
        raise ProtocolError(INVALID_PARAMS, text_of(answer))
    return answer


def _start_or_resume(request: Request, tool: WorkflowTool, show_paused: ShowPaused, *, as_task: bool) -> JsonObject:
    task_id, arguments = None, request.object("arguments")
    anew = arguments.get(TASK_ID) == NEW_TASK
    if anew:
        arguments = {name: value for name, value in arguments.items() if name != TASK_ID}
    try:
        task_id, arguments = named_task(request, arguments)
        if anew and task_id is not None:
            raise InvalidTaskReference(f'{TASK_ID} "{NEW_TASK}" starts a task, and _meta names one; keep one of them')
        arguments = first_arguments(tool, arguments) if task_id is None else _arguments(tool, arguments)
        starter = None if task_id else starter_of(request, tool, arguments, as_task=as_task, anew=anew)
        try:
            if as_task:
                from mcp_baton.background.creating import start_workflow

                return start_workflow(request, tool, arguments, task_id, starter)
            return _run(request, tool, arguments, task_id, starter)
        except RepeatedCall as repeated:
            return _answer_repeated(request, tool, arguments, repeated, show_paused, as_task=as_task)
    except (InvalidTaskReference, InvalidToolArguments) as error:
        return error_result(cut(f"{sentence(str(error))} {NOTHING_RUN}."))
    except (ArgumentRefused, *NOT_RESUMED) as error:
        return not_run(request, tool, task_id or "", error)


def _run(
    request: Request,
    tool: WorkflowTool,
    arguments: JsonObject,
    task_id: str | None,
    starter: Starter | None = None,
    *,
    takes_over: bool = False,
) -> JsonObject:
    host = ServerHost(request, until_s=request.reply_due_s())
    run = answer_with_run(request, tool.workflow, arguments, task_id, host, starter=starter, takes_over=takes_over)
    return result_of_run(request, run)


def _answer_repeated(
    request: Request,
    tool: WorkflowTool,
    arguments: JsonObject,
    repeated: RepeatedCall,
    show_paused: ShowPaused,
    *,
    as_task: bool,
) -> JsonObject:
    """Answer a repeated call with the task of the first one: its result, its pause, or that it still runs."""
    task = repeated.task
    if task is not None and as_task:
        from mcp_baton.background.creating import reply_with_task

        return reply_with_task(request, task, repeated.introduction)
    if task is None:
        result = _starting_task(request, tool, repeated, as_task=as_task)
    elif repeated.takes_over:
        try:
            result = _run(request, tool, arguments, task.task_id, takes_over=True)
        except NOT_RESUMED as error:  # another repetition has taken it over
            result = not_run(request, tool, task.task_id, error)
    elif task.status.terminal:
        result = result_of_ended_task(request, tool.workflow, task)
    elif task.claim is not None and task.claim.holds_at(request.now_ms()):
        result = not_run(request, tool, task.task_id, TaskHeld(task.claim.until_ms, task))
    else:
        result = show_paused(request, tool, task)
    return _introduced(result, repeated.introduction)


def _starting_task(request: Request, tool: WorkflowTool, repeated: RepeatedCall, *, as_task: bool) -> JsonObject:
    """Return the result while the first call is creating its task, or if it has died before that."""
    task_id, seconds = repeated.start.task_id, max((repeated.start.until_ms - request.now_ms() + 999) // 1000, 1)
    if as_task:
        text = f"The equal call is starting. Nothing was run: make the same call again in {seconds} s."
        return error_result(text)
    resume = dumps_spaced({TASK_ID: task_id})
    text = (
        f"The equal call is starting. Nothing was run: call {tool.name} in some seconds with {resume}. If there is no "
        f"such task, make the same call again in {seconds} s."
    )
    statuses: Json = [{"name": step.name, "status": StepStatus.PENDING.value} for step in tool.workflow.steps]
    meta: JsonObject = {"task_id": task_id}
    return _tool_result(text, {**meta, "steps": statuses}, meta)


def _introduced(result: JsonObject, introduction: str) -> JsonObject:
    """Add the sentences that say whose task this is to a result, as the first ones that the model sees."""
    text = f"{introduction}\n\n{text_of(result)}"
    content, structure, meta = result["content"], result.get("structuredContent"), result.get("_meta")
    blocks: Sequence[Json] = content if isinstance(content, Sequence) else ()
    members: dict[str, Json] = {**result, "content": [{"type": "text", "text": text}, *blocks[1:]]}
    if isinstance(structure, Mapping):
        members["structuredContent"] = {**structure, "message": text}
    return {**members, "_meta": {**(meta if isinstance(meta, Mapping) else {}), REPEATS: True}}


def first_arguments(tool: WorkflowTool, arguments: JsonObject) -> dict[str, Json]:
    """Return the arguments of a call that starts a task, without those that count as left out. Raises
    `InvalidToolArguments`."""
    arguments = _arguments(tool, arguments)
    arguments = {name: value for name, value in arguments.items() if value is not None or name not in tool.without_null}
    missing = [item.name for item in tool.workflow.arguments if item.required and item.name not in arguments]
    if missing:
        raise InvalidToolArguments(f"missing: {', '.join(missing)} ({REQUIRED})")
    return arguments


def _arguments(tool: WorkflowTool, arguments: JsonObject) -> dict[str, Json]:
    declared = {argument.name: argument for argument in tool.workflow.arguments}
    # Some hosts send empty values for optional arguments that their model has left out.
    arguments = named(tool.workflow.arguments, arguments)
    optional = (TASK_ACTION, TASK_RESULT, ANSWERS)
    arguments = {name: value for name, value in arguments.items() if value or name not in optional}
    answers = {ANSWERS: arguments.pop(ANSWERS)} if tool.workflow.questions and arguments.get(ANSWERS) else {}
    unknown = sorted(arguments.keys() - declared.keys())
    if unknown:
        known_names = ", ".join([*declared, *([ANSWERS] if tool.workflow.questions else []), TASK_ID])
        raise InvalidToolArguments(
            f"unknown arguments: {quoted_error(', '.join(unknown))}; {tool.workflow.name} takes {known_names}"
        )
    return arguments | answers


def sentence(problem: str) -> str:
    """Turn a problem into a sentence."""
    return f"{problem if problem.startswith('task_') else problem[0].upper() + problem[1:]}."


def not_run(execution: Execution, tool: WorkflowTool, task_id: str, reason: NotResumed | ArgumentRefused) -> JsonObject:
    """Return the result if nothing was run: an error that says what to do; for a held or finished task, its state."""
    workflow = tool.workflow
    new_start = f"call {workflow.name} without {TASK_ID} to start anew"
    match reason:
        case ArgumentRefused(problem=problem):
            corrected_call = f"call {workflow.name} again with arguments that its input schema allows"
            return error_result(cut(f"{sentence(problem)} {NOTHING_RUN}: {corrected_call}."))
        case TaskHeld(until_ms=until_ms, current=task):
            # It is not an error: the same call works later.
            until, seconds = timestamp(until_ms), max((until_ms - execution.now_ms() + 999) // 1000, 1)
            text = text_of_held_task(workflow, list(_statuses(task).values()), until, seconds, task.task_id)
            meta = task_meta(execution, task)
            resume_calls = handle_of(execution.server, workflow, task.task_id).resume_call()
            return _tool_result(text, {**meta, "running_until": until}, meta, suggested_calls=resume_calls)
        case TaskFinished(current=task) if task.workflow == workflow.name:
            return result_of_ended_task(execution, workflow, task)
        case TaskFinished(current=task) | WrongWorkflow(task=task):
            return _other_task_error(execution, tool, task)
        case TaskNotFound():
            causes = "it never existed, it has expired, or it belongs to another caller"
            return error_result(f"There is no such task: {causes}. {NOTHING_RUN}: {new_start}, with all its arguments.")
        case StoreBusy(retry_after_ms=after_ms):
            return error_result(
                f"The server is busy. {NOTHING_RUN}: make the same call again in {-(-after_ms // 1000)} s."
            )
        case DefinitionChanged(steps=steps):
            names = ", ".join(steps)
            change = f"The workflow has changed since this task was started, in steps that it has completed: {names}"
            return error_result(cut(f"{change}. {NOTHING_RUN}: {new_start}, or make the remaining calls yourself."))
        case TaskUnreadable(error=cause):
            logger.error("task %s: it could not be read, so it was not resumed", task_id, exc_info=cause)
            return error_result(_unreadable_text(cause, new_start))


def _unreadable_text(error: StoreError, new_start: str) -> str:
    if isinstance(error, ValueLost):
        return cut(f"The task cannot continue, because its arguments are lost: {error}. {NOTHING_RUN}: {new_start}.")
    return f"The task's state cannot be read now. {NOTHING_RUN}: make the same call again later."


def _other_task_error(execution: Execution, tool: WorkflowTool, task: TaskRecord) -> JsonObject:
    """Return the error for a task of another workflow, with the call that resumes that task. A background call has its
    own task in addition to the workflow's: if the model started anew, the workflow would run twice."""
    if task.job is not None and task.job.work.workflow_task is not None:
        name, arguments = task.job.work.tool, dumps_spaced({TASK_ID: task.job.work.workflow_task})
        return error_result(
            f"This task is a call of {name} in the background. {NOTHING_RUN}: call {name} with {arguments}."
        )
    problem = f"This task is not one of this workflow. {NOTHING_RUN}"
    if task.workflow is not None and execution.server.workflow_tool(task.workflow) is not None:
        return error_result(f"{problem}: call {task.workflow} with this {TASK_ID}.")
    return error_result(f"{problem}: call {tool.workflow.name} without {TASK_ID} to start anew.")


MAX_RESULT_BYTES: Final = 2_000
"""The longest result in the structured content, bytes of JSON. A longer one is a resource."""

MAX_TOTAL_BYTES: Final = 40_000
"""The most bytes of JSON for all results: hosts cut results of more than about 25,000 tokens."""

MAX_UNSTORED_BYTES: Final = 200_000
"""The same for results that cannot be read as resources."""

MAX_NEXT_BYTES: Final = 20_000
"""The most bytes of JSON in `next`. Later results have the rest."""


def text_of(result: JsonObject) -> str:
    match result.get("content"):
        case [{"text": str(text)}, *_]:
            return text
        case _:
            return ""


def result_of_run(execution: Execution, run: EndedRun) -> dict[str, Json]:
    meta, server = run_meta(execution, run), execution.server
    known = _known(run, meta)
    handle = handle_of(server, run.workflow, run.task.task_id) if run.task else None
    if handle is not None and isinstance(run.pause, ApprovalRequired):
        # The approval covers exactly these arguments.
        handle = structs.replace(handle, extra_arguments=run.changed_arguments)
    values = {
        trace.step.name: trace.outcome.value
        for trace in run.traces
        if trace.step.has_value and isinstance(trace.outcome, Succeeded)
    }
    stored_names = [name for name in run.statuses if run.stored and f"{RESULT_PREFIX}{name}" not in run.oversized]
    uris = {name: value_uri(run.task.task_id, f"{RESULT_PREFIX}{name}") for name in stored_names} if run.task else {}
    sizes = {name: json_size(value) for name, value in values.items()}
    results, links = _results(sizes, uris, values.__getitem__)
    text = text_of_run(run, known, server, handle, uris.get)
    suggested_calls: list[JsonObject] = []
    if run.pause:
        resume_handle = handle if run.stored else None
        remaining = RemainingCalls(known, server, run.pause, handle, resume_handle)
        suggested_calls = first_fitting(remaining.entries(with_failed=False))
        links += _resource_links(run)
    steps: Json = meta.get("steps") or [{"name": name, "status": status.value} for name, status in run.statuses.items()]
    state: dict[str, Json] = {**meta, "steps": steps}
    warning = [*may_have_run_twice(run.repeated), *may_have_run(open_repeats_before(run, known))]
    if warning:
        state["warning"] = " ".join(warning)
    return _tool_result(text, state, meta, results, links, suggested_calls)


def result_of_ended_task(execution: Execution, workflow: Workflow, task: TaskRecord) -> dict[str, Json]:
    """Return the result for a finished task: its stored outcome."""
    meta, statuses = task_meta(execution, task), _statuses(task)
    completed = [step for step in steps_of(task) if step["status"] == StepStatus.COMPLETED and has_value(step)]
    names = {step["name"]: f"{RESULT_PREFIX}{step['name']}" for step in completed}
    weights = {step: weight for step, name in names.items() if (weight := weight_of(task, name))}
    uris = {step: value_uri(task.task_id, names[step]) for step in weights}
    sizes = {step: weight.text_bytes for step, weight in weights.items()}
    results, links = _results(sizes, uris, lambda step: read_variable(task, names[step]))
    values = [
        _stored_value(task, names[step["name"]], f"Result of {step.get('tool', step['name'])}")
        for step in completed[-1:]
    ]
    final = _stored_value(
        task, FINAL_RESULT, "Result of the task" + (", which a client supplied" if task.by_client else "")
    )
    if weight_of(task, FINAL_RESULT) and (task.by_client or final.value != run_result(statuses)):
        values.insert(0, final)
    text = text_of_ended_task(workflow, task.status, list(statuses.values()), values)
    return _tool_result(text, meta, meta, results, links)


def first_fitting(calls: list[JsonObject]) -> list[JsonObject]:
    """Return the first entries of `next` that fit; at least one."""
    sizes = accumulate(json_size(entry) for entry in calls)
    return [
        entry
        for index, (entry, size) in enumerate(zip(calls, sizes, strict=True))
        if index == 0 or size <= MAX_NEXT_BYTES
    ]


def _tool_result(
    text: str,
    state: JsonObject,
    meta: JsonObject,
    results: JsonObject | None = None,
    links: Sequence[str] = (),
    suggested_calls: Sequence[JsonObject] = (),
) -> dict[str, Json]:
    structure = {name: state[name] for name in OUTPUT_PROPERTIES if name in state}
    structure |= {"message": text, "results": results or {}, "next": list(suggested_calls)}
    # As a text: some frameworks refuse results with other links, or lose the rest of the result.
    content: list[Json] = [{"type": "text", "text": part} for part in (text, "\n".join(links)) if part]
    if json_size(content) > LONG_CONTENT:
        content.append(content[0])
    result: dict[str, Json] = {"content": content, "structuredContent": structure, "isError": False}
    return result | {"_meta": meta} if meta else result


def _known(run: EndedRun, meta: JsonObject) -> Known:
    """Return the known values of the run, with the steps that continuations have completed meanwhile."""
    steps = meta.get("steps")
    stored_statuses = {
        step["name"]: step["status"] for step in (steps if isinstance(steps, list) else ()) if isinstance(step, Mapping)
    }
    statuses = {
        name: StepStatus.COMPLETED if stored_statuses.get(name) == StepStatus.COMPLETED else status
        for name, status in run.statuses.items()
    }
    return structs.replace(run.known, statuses=statuses)


def _resource_links(run: EndedRun) -> list[str]:
    """Return links to the resources that were read for the model: their contents do not fit into a text."""
    contents = [content for trace in run.traces for content in (*trace.resources, *trace.after)]
    contents += run.blocked.resources if run.blocked else ()
    resources = dict.fromkeys(content.uri for content in contents if isinstance(content, FetchedResource))
    return [f"Resource {encoded(uri)}" for uri in resources]


def _results(
    sizes: Mapping[str, int], uris: Mapping[str, str], read: Callable[[str], Json]
) -> tuple[dict[str, Json], list[str]]:
    """Return the results of completed steps, and links to those that are left out: the long ones and, if the others do
    not fit together, the longest of these."""
    omitted, total = set(), 0
    for name in sorted(sizes, key=lambda name: sizes[name]):
        total += sizes[name]
        if (name in uris and (sizes[name] > MAX_RESULT_BYTES or total > MAX_TOTAL_BYTES)) or total > MAX_UNSTORED_BYTES:
            omitted.add(name)
            total -= sizes[name]
    notes: dict[str, JsonObject] = {
        name: {"bytes": sizes[name]} | ({"uri": uris[name]} if name in uris else {}) for name in omitted
    }
    links = [f"Resource {uris[name]}: result of {name}" for name in sizes if name in omitted and name in uris]
    return {name: notes[name] if name in omitted else read(name) for name in sizes}, links


def _stored_value(task: TaskRecord, name: str, label: str) -> Value:
    weight, uri = weight_of(task, name), value_uri(task.task_id, name)
    if weight is None or weight.text_bytes > MAX_RESULT_BYTES:
        return Value(label, None, uri, weight.text_bytes if weight else 0)
    if name != FINAL_RESULT:
        return Value(label, read_variable(task, name), uri)
    try:
        return Value(label, task.result, uri)
    except StoreError as error:
        return Value(label, {"error": str(error)}, uri)


def _statuses(task: TaskRecord) -> dict[str, StepStatus]:
    return {step["name"]: StepStatus(step["status"]) for step in steps_of(task)}
