"""The result of a workflow's tool, as structured content and as a text (docs/workflows.md, As a tool).

Models trust the text, so values, errors and resources are quoted there (`quoting`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

from msgspec import Struct, structs

from mcp_baton.exceptions import StoreError, TaskFinished, TaskHeld
from mcp_baton.present.fit import (
    MAX_NEXT_BYTES,
    MAX_RESULT_BYTES,
    MAX_TEXT_BYTES,
    MAX_TOTAL_BYTES,
    MAX_UNSTORED_BYTES,
    bytes_of,
    cut,
    fit,
)
from mcp_baton.present.handoff import (
    how_to_continue,
    notes_of,
    open_repeats_before,
    paused_text,
    why_stopped,
)
from mcp_baton.present.mcp_task import read_variable
from mcp_baton.present.sentences import (
    NOTHING_RUN,
    may_have_run,
    may_have_run_twice,
    progress_text,
    refusal_of,
)
from mcp_baton.present.stored_task import run_meta, task_meta, view_of, view_of_run
from mcp_baton.present.view import TaskView
from mcp_baton.protocol.json import Json, JsonObject, dumps_spaced, json_size
from mcp_baton.tasks.record import (
    RESULT_PREFIX,
    StepStatus,
    TaskRecord,
    TaskStatus,
    has_value,
    is_early,
    statuses_of,
    steps_of,
    timestamp,
)
from mcp_baton.tasks.values import FINAL_RESULT, weight_of
from mcp_baton.tools.arguments import TASK_ID
from mcp_baton.tools.content import LONG_CONTENT_BYTES, ResourceContent, error_result
from mcp_baton.tools.outcomes import Succeeded
from mcp_baton.tools.quoting import one_line
from mcp_baton.tools.resource import value_uri
from mcp_baton.tools.schema.prompt_arguments import ArgumentRefused
from mcp_baton.tools.uris import encoded
from mcp_baton.workflow.batch import run_result
from mcp_baton.workflow.definition import Workflow
from mcp_baton.workflow.ended_run import EndedRun
from mcp_baton.workflow.execution import Execution
from mcp_baton.workflow.handle import Handle, handle_of
from mcp_baton.workflow.refusals import NotResumed, WrongWorkflow
from mcp_baton.workflow.remaining import RemainingCalls, Requirements
from mcp_baton.workflow.repetitions import REPEATS_KEY, RepeatedCall
from mcp_baton.workflow.resolve import KnownValues
from mcp_baton.workflow.workflow_tool import OUTPUT_PROPERTIES, WorkflowTool

type ResultUri = Callable[[str], str | None]
"""The URI of a step's result, by the step's name; `None` if it has no URI."""


class Value(Struct, frozen=True):
    """A value in a text.

    Attributes:
        value: The value; `None` if it is long and was not read.
        uri: Its URI, if it has one.
    """

    name: str
    value: Json
    uri: str | None = None
    text_bytes: int = 0


# Structured content


def starting_result(execution: Execution, tool: WorkflowTool, repeated: RepeatedCall, *, as_task: bool) -> JsonObject:
    """Return the result while the first call is creating its task, or if it has died before that."""
    task_id, seconds = repeated.start.task_id, max((repeated.start.until_ms - execution.now_ms() + 999) // 1000, 1)
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


def introduced(result: JsonObject, introduction: str) -> JsonObject:
    """Add the sentences that say whose task this is to a result, as the first ones that the model sees."""
    text = f"{introduction}\n\n{text_in(result)}"
    content, structure, meta = result["content"], result.get("structuredContent"), result.get("_meta")
    blocks: Sequence[Json] = content if isinstance(content, Sequence) else ()
    members: dict[str, Json] = {**result, "content": [{"type": "text", "text": text}, *blocks[1:]]}
    if isinstance(structure, Mapping):
        members["structuredContent"] = {**structure, "message": text}
    return {**members, "_meta": {**(meta if isinstance(meta, Mapping) else {}), REPEATS_KEY: True}}


def not_run(
    execution: Execution, tool: WorkflowTool, reason: NotResumed | ArgumentRefused, unnamed_id: str | None = None
) -> JsonObject:
    """Return the result if nothing was run: an error that says what to do; for a held or finished task, its state.

    Args:
        unnamed_id: As for `refusal_of`.
    """
    workflow = tool.workflow
    if isinstance(reason, TaskFinished) and reason.current.workflow == workflow.name:
        return result_of_ended_task(execution, workflow, reason.current)
    if isinstance(reason, TaskFinished | WrongWorkflow):
        return _other_task_error(execution, tool, reason.current if isinstance(reason, TaskFinished) else reason.task)
    text = refusal_of(reason, workflow, execution.now_ms(), unnamed_id).text
    if not isinstance(reason, TaskHeld):
        return error_result(cut(text))
    # It is not an error: the same call works later.
    meta = _meta(execution, reason.current)
    resume_calls = handle_of(execution.server, workflow, reason.current).call()
    return _tool_result(text, {**meta, "running_until": timestamp(reason.until_ms)}, meta, suggested_calls=resume_calls)


def _meta(execution: Execution, task: TaskRecord) -> dict[str, Json]:
    return task_meta(view_of(task, execution.now_ms()), stateless=execution.stateless)


def _other_task_error(execution: Execution, tool: WorkflowTool, task: TaskRecord) -> JsonObject:
    """Return the error for a task of another workflow, with the call that resumes that task."""
    other_workflow = execution.server.workflows.get(task.workflow or "")
    if other_workflow is not None and other_workflow.has_workflow_tool:
        known = f"This task is not one of this workflow. {NOTHING_RUN}: call {task.workflow} with this {TASK_ID}."
        return error_result(known)
    return error_result(refusal_of(WrongWorkflow(task), tool.workflow, execution.now_ms()).text)


def text_in(result: JsonObject) -> str:
    match result.get("content"):
        case [{"text": str(text)}, *_]:
            return text
        case _:
            return ""


def result_of_run(execution: Execution, run: EndedRun) -> dict[str, Json]:
    server, view = execution.server, view_of_run(run, execution.now_ms())
    meta, known = run_meta(run, view, stateless=execution.stateless), _known(run, view)
    handle = handle_of(server, run.workflow, run.task, run) if run.task else None
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
        remaining = RemainingCalls(known.with_skips(), server, run.pauses, handle, resume_handle)
        suggested_calls = first_fitting(remaining.entries(with_failed=False))
        links += _resource_links(run)
    steps: Json = [{"name": name, "status": status.value} for name, status in run.statuses.items()]
    state: dict[str, Json] = {"steps": steps, **meta}
    warning = [*may_have_run_twice(run.repeated), *may_have_run(open_repeats_before(run, known))]
    if warning:
        state["warning"] = " ".join(warning)
    return _tool_result(text, state, meta, results, links, suggested_calls)


def result_of_ended_task(execution: Execution, workflow: Workflow, task: TaskRecord) -> dict[str, Json]:
    """Return the result for a finished task: its stored outcome."""
    meta, statuses = _meta(execution, task), statuses_of(task)
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
    if task.status is TaskStatus.COMPLETED:
        text = completed_text(list(statuses.values()), values)
    else:
        text = with_values(refusal_of(TaskFinished(task), workflow, execution.now_ms()).text, values)
    return _tool_result(text, meta, meta, results, links)


def first_fitting(calls: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the first entries of `next` that fit; at least one."""
    room = MAX_NEXT_BYTES - sum(map(json_size, calls[:1]))
    rest = fit(([call] for call in calls[1:]), room, json_size, in_order=True)
    return [*calls[:1], *rest]


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
    if json_size(content) > LONG_CONTENT_BYTES:
        content.append(content[0])
    result: dict[str, Json] = {"content": content, "structuredContent": structure, "isError": False}
    return result | {"_meta": meta} if meta else result


def _known(run: EndedRun, view: TaskView | None) -> KnownValues:
    """Return the known values of the run, with the steps that continuations have completed meanwhile. A step whose
    value came early is open."""
    shown, variables = view.statuses if view else {}, run.task.variables if run.task else {}
    names = [name for name in run.statuses if shown.get(name) == StepStatus.COMPLETED and not is_early(variables, name)]
    return structs.replace(run.known, statuses={**run.statuses, **dict.fromkeys(names, StepStatus.COMPLETED)})


def _resource_links(run: EndedRun) -> list[str]:
    """Return links to the resources that were read for the model: their contents do not fit into a text."""
    contents = [content for trace in run.traces for content in (*trace.resources, *trace.after)]
    contents += [content for blocked in run.blocked for content in blocked.resources]
    resources = dict.fromkeys(content.uri for content in contents if isinstance(content, ResourceContent))
    return [f"Resource {encoded(uri)}" for uri in resources]


def _results(
    sizes: Mapping[str, int], uris: Mapping[str, str], read: Callable[[str], Json]
) -> tuple[dict[str, Json], list[str]]:
    """Return the results of completed steps, and links to those that are left out: the long ones and, if the others do
    not fit together, the longest of these."""
    names = sorted(sizes, key=lambda name: sizes[name])
    stored = [name for name in names if name in uris and sizes[name] <= MAX_RESULT_BYTES]
    unstored = [name for name in names if name not in uris]
    shown = fit(([name] for name in stored), MAX_TOTAL_BYTES, sizes.__getitem__)
    room = MAX_UNSTORED_BYTES - sum(sizes[name] for name in stored if name in shown)
    shown += fit(([name] for name in unstored), room, sizes.__getitem__)
    omitted = {name: uris.get(name) for name in sizes if name not in shown}
    links = [f"Resource {uri}: result of {name}" for name, uri in omitted.items() if uri]
    notes: dict[str, JsonObject] = {
        name: {"bytes": sizes[name]} | ({} if uri is None else {"uri": uri}) for name, uri in omitted.items()
    }
    return {name: notes[name] if name in notes else read(name) for name in sizes}, links


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


# Texts


def text_of_run(
    run: EndedRun, known: KnownValues, tools: Requirements, handle: Handle | None, uri_of: ResultUri
) -> str:
    """The text of a run. A paused run has the remaining calls."""
    if run.over is not None:
        return cut(" ".join([why_stopped(run, run.over), *how_to_continue(run.over, known, handle)]))
    if run.pauses:
        return paused_text(run, known, tools, handle)
    notes = [*may_have_run_twice(run.repeated), *notes_of(run)]
    values = (
        Value(f"Result of {trace.step.tool}", trace.outcome.value, uri_of(trace.step.name))
        for trace in reversed(run.traces)
        if trace.step.tool is not None and isinstance(trace.outcome, Succeeded)
    )
    return with_values(f"Done: {progress_text(list(run.statuses.values()))}.", list(islice(values, 1)), notes)


def completed_text(statuses: Sequence[str], values: Sequence[Value]) -> str:
    """The text of a completed task."""
    return with_values(f"Done: {progress_text(statuses)}. This task is completed; nothing was run.", values)


def with_values(head: str, values: Sequence[Value], notes: Sequence[str] = ()) -> str:
    """A text with values, one on each line, as far as they fit."""
    room = MAX_TEXT_BYTES - bytes_of("\n".join([head, *notes]))
    lines = fit((_lines(value, room) for value in values), room, lambda line: bytes_of(line) + 1)
    return "\n".join([head, *lines, *notes])


def _lines(value: Value, room: int) -> Iterator[str]:
    """A value as JSON on one line; a shorter form has its URI, or its beginning."""
    if value.text_bytes == 0:
        line = f"{value.name}: {one_line(value.value)}"
        yield line
        if value.uri is None:
            yield cut(line, room - 1)
            return
    size = value.text_bytes or bytes_of(dumps_spaced(value.value))
    yield cut(f"{value.name}: {size} bytes, which can be read as the resource {value.uri}", room - 1)
