"""The handoff: the last message of a paused prompt, for the model that continues the workflow. Pure.

Models trust the assistant's messages, so all values in the handoff are quoted (`quoting`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol

from msgspec import Struct

from mcp_baton.protocol.json import Json, JsonObject, dumps, dumps_spaced
from mcp_baton.tasks.record import StepStatus
from mcp_baton.workflow.definition import TASK_ACTION, TASK_ID, Step, Workflow
from mcp_baton.workflow.pause import PauseReason, Remedy, UnresolvedDependency, refused_arguments
from mcp_baton.workflow.plan import Plan
from mcp_baton.workflow.questions import answer_call
from mcp_baton.workflow.quoting import (
    LONGEST,
    encoded_uri,
    is_long,
    one_line,
    placeholder,
    quoted_guidance,
    shown,
)
from mcp_baton.workflow.resolve import (
    Known,
    NoField,
    NoOutput,
    NotGiven,
    NoVariable,
    Resolution,
    resolve,
    shows_placeholder,
    stored_bytes,
)
from mcp_baton.workflow.secrets import stand_in
from mcp_baton.workflow.sources import (
    Constant,
    Found,
    PromptArg,
    Source,
    StepOutput,
    TaskVariable,
    as_text,
    encoded,
    fill,
    placeholders,
)


class Requirements(Protocol):
    """The part of a `Host` that knows the tools' required arguments and the limit for placeholders."""

    def required(self, tool: str) -> frozenset[str]:
        """The names of a tool's required arguments."""

    def carries(self, size: int) -> bool:
        """Whether placeholders may put this many bytes into one call."""


class Handle(Struct, frozen=True):
    """A task's id and the calls that continue the task, for texts.

    Attributes:
        task_id: The task's id.
        taken_by: Whether a tool of this name accepts the id. A tool with its own parameter `task_id` does not.
        tool: The workflow's tool, which continues the task; `None` if it has none.
        secrets: The workflow's required secret arguments, which must be given again to continue.
    """

    task_id: str
    taken_by: Callable[[str], bool]
    tool: str | None
    secrets: tuple[str, ...] = ()

    def on(self, tool: str, arguments: Mapping[str, Json]) -> dict[str, Json]:
        """A call's arguments with the task's id, if the tool accepts it."""
        return {**arguments, TASK_ID: self.task_id} if self.taken_by(tool) else dict(arguments)

    def going_on(self) -> list[JsonObject]:
        """The call that lets the server continue, for `next`; none without a workflow tool."""
        return [] if self.tool is None else [{"tool": self.tool, "arguments": self.arguments}]

    def finishing(self) -> list[JsonObject]:
        """The call that completes a task whose steps are all settled, for `next`; none without a workflow tool."""
        return [] if self.tool is None else [{"tool": self.tool, "arguments": {TASK_ID: self.task_id}}]

    def offer(self, prompt: str, secrets: Sequence[str] = (), *, begin: str = "Or ") -> str:
        """The sentence that says how to let the server continue: by the workflow's tool, otherwise by its prompt.

        Args:
            prompt: The prompt.
            secrets: The secret arguments, which are not stored.
            begin: The beginning of the sentence with a space; may be empty.
        """
        again = f" Give {', '.join(secrets)} again with it: secrets are not stored." if secrets else ""
        how = f"get the prompt {prompt}" if self.tool is None else f"call {self.tool}"
        begun = f"{begin}{how}"
        return f"{begun[0].upper()}{begun[1:]} with {self._named} to let the server continue.{again}"

    def finish(self) -> str:
        """The sentence that says how to complete a task whose steps are all settled."""
        if self.tool is None:
            return "The client completes the task."
        return f"Call {self.tool} with {dumps_spaced({TASK_ID: self.task_id})} to finish."

    @property
    def _named(self) -> str:
        return dumps_spaced(self.arguments)

    @property
    def arguments(self) -> dict[str, Json]:
        """The arguments by which the workflow's tool continues the task."""
        return naming(self.task_id, self.secrets)


def naming(task_id: str, secrets: Iterable[str]) -> dict[str, Json]:
    """The arguments that continue a task: its id, and a text for each secret that must be given again."""
    return {TASK_ID: task_id, **{name: stand_in(name) for name in secrets}}


def call_that_shows(task_id: str, workflow: Workflow | None) -> str:
    """The call that shows a task and changes nothing, as a part of a sentence that begins with the verb."""
    if workflow is None or not workflow.has_workflow_tool:
        return f"send tasks/get with {dumps_spaced({'taskId': task_id})}"
    return f"call {workflow.name} with {dumps_spaced({TASK_ID: task_id, TASK_ACTION: 'show'})}"


def secrets_of(workflow: Workflow) -> tuple[str, ...]:
    """The secret arguments that must be given again to continue a task of this workflow."""
    return tuple(argument.name for argument in workflow.arguments if argument.secret and argument.required)


MAKE_THESE_CALLS: Final = "To continue the workflow, make these tool calls:"
CORRECTED_MAKE_THESE_CALLS: Final = "When the cause is corrected, make these tool calls:"


def handoff(
    workflow: Workflow,
    known: Known,
    pause: PauseReason,
    tools: Requirements,
    read: frozenset[str] = frozenset(),
    handle: Handle | None = None,
    notes: Sequence[str] = (),
) -> str:
    """What happened, and what to do next: at best one call that lets the server continue.

    Args:
        workflow: The workflow.
        known: The values that are known at the end of the run.
        pause: Why the run stopped.
        tools: Knows the required arguments.
        read: The resources of that step that the conversation already has, as the step declares them.
        handle: Names the task in the text; `None` for a text that does not name it.
        notes: More sentences about the run.
    """
    frame = frame_of(pause, workflow, known, handle)
    calls = [
        f"{number}. {call_of(step, workflow, known, pause, tools, read, handle)}"
        for number, step in enumerate(frame.steps, 1)
    ]
    head = [pause.what_happened(), *lost_results(known, pause), *notes, *frame.before]
    return "\n\n".join([*head, *calls, *frame.after])


def lost_results(known: Known, pause: PauseReason) -> Iterator[str]:
    """A sentence for each result that later calls cannot refer to, except the one that the pause is about."""
    for step, why in known.lost.items():
        if not (isinstance(pause, UnresolvedDependency) and pause.producing_step == step):
            yield f"Later calls cannot refer to the result of step '{step}': {why}."


class Frame(Struct, frozen=True):
    """How a handoff presents what to do next.

    Attributes:
        before: The sentences before the calls.
        steps: The steps whose calls the model has to make.
        after: The sentences after the calls.
    """

    before: list[str]
    steps: list[Step]
    after: list[str]


def frame_of(pause: PauseReason, workflow: Workflow, known: Known, handle: Handle | None) -> Frame:
    """How the next calls are presented.

    Args:
        pause: Why the run stopped.
        workflow: The workflow.
        known: What the run knows at its end.
        handle: Names the task; `None` if the server cannot continue it, or the text does not name it.
    """
    answer = (
        answer_call(workflow, known, handle.arguments if handle else None) if pause.remedy is Remedy.ANSWERS else None
    )
    if answer is not None:
        call = f"Call {answer['tool']} with {one_line(answer['arguments'])}"
        return Frame([f"{call} to let the server continue."], [], [])
    steps = steps_to_call(workflow, known, pause, can_continue=_has_tool(handle))
    if handle is None:
        return Frame([CORRECTED_MAKE_THESE_CALLS if pause.is_for_the_operator else MAKE_THESE_CALLS], steps, [])
    secrets = secrets_given(workflow, known)
    if not steps:
        begin = "When the cause is corrected, " if pause.is_for_the_operator else ""
        return Frame([handle.offer(workflow.name, secrets, begin=begin)], [], [])
    begin = "Or " if handle.tool is None else "Then "
    return Frame([MAKE_THESE_CALLS], steps, [handle.offer(workflow.name, secrets, begin=begin)])


def _has_tool(handle: Handle | None) -> bool:
    return handle is not None and handle.tool is not None


def steps_to_call(workflow: Workflow, known: Known, pause: PauseReason | None, *, can_continue: bool) -> list[Step]:
    """The remaining steps that the model has to do itself. The server runs all others when it continues.

    Args:
        workflow: The workflow.
        known: What is known by now.
        pause: Why the last run stopped; `None` if nothing stops the next one.
        can_continue: Whether a call of the workflow's tool lets the server continue.
    """
    left = remaining_steps(workflow, known)
    if not can_continue:
        return [step for step in left if step.ask is None]
    if pause is None or pause.is_for_the_operator or pause.server_can_continue or pause.remedy is Remedy.ANSWERS:
        return []
    stopped = next((step for step in left if step.name == pause.step), None)
    if stopped is None:
        return []
    # The model's reading of a resource is not recorded, so the server would stop there again.
    return [stopped] if stopped.tool is not None else left


def secrets_given(workflow: Workflow, known: Known) -> list[str]:
    """The names of the secret arguments that have values in this run."""
    return [argument.name for argument in workflow.arguments if argument.secret and argument.name in known.texts]


def remaining_steps(workflow: Workflow, known: Known) -> list[Step]:
    """The open steps, in order."""
    return [step for step in workflow.steps if not known.statuses[step.name].settled]


def call_of(
    step: Step,
    workflow: Workflow,
    known: Known,
    pause: PauseReason,
    tools: Requirements,
    read: frozenset[str] = frozenset(),
    handle: Handle | None = None,
    longest: int = LONGEST,
) -> str:
    """What remains of one step, one line for each action. The arguments are those of `handoff`.

    Args:
        longest: Characters of JSON that a value may have. A longer value is replaced by its placeholder.
    """
    here = step.name == pause.step
    refused = refused_arguments(step, pause)
    lines = list(_actions(step, workflow, known, tools, read if here else frozenset(), refused, handle, longest))
    if step.guidance:
        lines.append(f"Note: {quoted_guidance(step.guidance, known.shown_texts)}")
    return "\n   ".join(lines)


def _actions(
    step: Step,
    workflow: Workflow,
    known: Known,
    tools: Requirements,
    read: frozenset[str],
    refused: frozenset[str],
    handle: Handle | None,
    longest: int,
) -> Iterator[str]:
    uris = {resource: uri for resource, uri in preview_uris(step, workflow, known).items() if resource not in read}
    if step.tool is None:
        yield from (f"Read the resource {uri}" for uri in uris.values())
        return
    if not tools.carries(carried_bytes(step, workflow, known)):
        yield f"Let the server call {step.tool}: the values of its arguments are too long for a call of yours"
        return
    arguments = preview_arguments(step, workflow, known, tools, longest)
    arguments |= {name: f"<invalid: {name}>" for name in refused}
    if handle:
        arguments = handle.on(step.tool, arguments)
    first = [f"read the resource {uri}" for it, uri in uris.items() if not step.read_after(it)]
    line = ", then ".join([*first, f"call {step.tool} with {one_line(arguments)}"])
    yield line[0].upper() + line[1:]
    yield from (f"Then: Read the resource {uri}" for it, uri in uris.items() if step.read_after(it))


def preview_arguments(
    step: Step, workflow: Workflow, known: Known, tools: Requirements, longest: int = LONGEST
) -> dict[str, Json]:
    """A call's arguments. Unknown and long values are replaced by placeholders."""
    required, answers = tools.required(step.tool or ""), known.answers.get(step.name, {})
    arguments: dict[str, Json] = {}
    for name, source in step.arguments.items():
        if name in answers:
            continue
        if shows_placeholder(source, workflow, known):
            arguments[name] = placeholder(source, workflow)
            continue
        resolution = resolve(source, workflow, known)
        if isinstance(resolution, Found):
            value = known.shown_value(resolution.value, source)
            is_lost = _is_lost(source, workflow, known) and is_long(value, longest)
            arguments[name] = missing(name) if is_lost else shown(value, source, workflow, longest)
        elif not isinstance(resolution, NotGiven) or name in required:
            comes = _may_come(resolution, source, step, workflow, known)
            arguments[name] = placeholder(source, workflow) if comes else missing(name)
    for name in sorted(required - step.arguments.keys() - answers.keys()):
        arguments[name] = missing(name)
    return arguments | {name: known.shown_value(value, None) for name, value in answers.items()}


def carried_bytes(step: Step, workflow: Workflow, known: Known) -> int:
    """The bytes that placeholders put into a step's call, as far as they are known."""
    total = 0
    for source in step.arguments.values():
        is_field = isinstance(source, StepOutput | TaskVariable) and source.path is not None
        if shows_placeholder(source, workflow, known):
            total += 0 if is_field else stored_bytes(source, workflow, known)
            continue
        resolution = None if isinstance(source, Constant) else resolve(source, workflow, known)
        if isinstance(resolution, Found) and not _is_lost(source, workflow, known) and is_long(resolution.value):
            total += len(dumps(resolution.value).encode())
    return total


def missing(name: str) -> str:
    """The placeholder of an argument that the model must supply."""
    return f"<missing: {name}>"


def _may_come(resolution: Resolution, source: Source, step: Step, workflow: Workflow, known: Known) -> bool:
    """Whether a source that has no value now can get one later, so that its placeholder will work."""
    match resolution:
        case NoOutput(producer):
            # A result that cannot be read now may be readable later.
            return known.statuses[producer.name] is not StepStatus.SKIPPED and producer.name not in known.lost
        case NoField():
            return False
        case NoVariable() if isinstance(source, TaskVariable):
            if resolution.later or source.set_by:
                return True
            # If no tool declares that it sets the variable, any earlier step may set it.
            before = workflow.steps[: workflow.steps.index(step)]
            return any(it.tool and not known.statuses[it.name].settled for it in before)
        case _:
            return True


def _is_lost(source: Source, workflow: Workflow, known: Known) -> bool:
    """Whether later calls cannot get a value that this run has in memory."""
    return isinstance(source, StepOutput) and workflow.bound(source.binding).name in known.lost


def preview_uris(step: Step, workflow: Workflow, known: Known) -> dict[str, str]:
    """The URIs of a step's resources by their templates. Unknown values are replaced by placeholders."""
    return {resource: _preview_uri(resource, step, workflow, known) for resource in step.resources}


def _preview_uri(resource: str, step: Step, workflow: Workflow, known: Known) -> str:
    values: dict[str, str] = {}
    for name in placeholders(resource):
        source = step.template_bindings.get(name, PromptArg(name))
        heavy = shows_placeholder(source, workflow, known)
        resolution = None if heavy else resolve(source, workflow, known)
        text = None
        if isinstance(resolution, Found):
            text = as_text(resolution.value) if name in step.template_bindings else known.texts[name]
        stand_in = placeholder(source, workflow) if text is None or is_long(text) else None
        # A value at the beginning of the URI contains its scheme.
        encode = encoded_uri if resource.startswith(f"{{{name}}}") else encoded
        values[name] = stand_in or encode(text or "")
    return fill(resource, values)


def next_calls(plan: Plan, tools: Requirements, handle: Handle | None = None) -> list[JsonObject]:
    """The suggested calls for a stored task, as in `suggestions`.

    Args:
        plan: The plan, against the task as it stands. Without a workflow nothing can be suggested.
        tools: Knows what the tools require, for the placeholders.
        handle: Names the task in each call's arguments; `None` for calls that name it otherwise.
    """
    workflow, known = plan.workflow, plan.known
    if workflow is None or known is None or plan.task.status.terminal:
        return []
    naming_it = Handle(plan.task.task_id, lambda _: False, workflow.name, secrets_of(workflow))
    go_on = naming_it if workflow.has_workflow_tool else None
    return suggestions(workflow, known, plan.pause, tools, plan.refused, handle, go_on)


def suggestions(
    workflow: Workflow,
    known: Known,
    pause: PauseReason | None,
    tools: Requirements,
    refused: Callable[[Step], frozenset[str]],
    handle: Handle | None,
    go_on: Handle | None,
) -> list[JsonObject]:
    """The suggested calls, in order: `{"tool", "arguments", "guidance"?}` for a call, `{"resource"}` for a resource to
    read, before or after its step's call as the step has it. Arguments are those of the handoff. The last one is a call
    of the workflow's tool, which lets the server continue, or complete the task.

    Args:
        workflow: The workflow.
        known: What is known by now.
        pause: Why the last run stopped; `None` if nothing stops the next one.
        tools: Knows what the tools require.
        refused: The arguments of a step whose values the tool's schema has refused.
        handle: Names the task in the calls of tools; `None` for calls that name it otherwise.
        go_on: Names the task in the call of the workflow's tool; `None` if the server cannot continue the task.
    """
    left = remaining_steps(workflow, known)
    if not left:
        return go_on.finishing() if go_on else []
    if pause is not None and pause.remedy is Remedy.ANSWERS:
        answer = answer_call(workflow, known, go_on.arguments if go_on else None)
        return [answer] if answer else []
    steps = steps_to_call(workflow, known, pause, can_continue=_has_tool(go_on))
    last = go_on.going_on() if go_on else []
    calls = [it for step in steps for it in entries_of(step, workflow, known, tools, refused(step), handle, last)]
    return [*(call for call in calls if call not in last), *last]


def entries_of(
    step: Step,
    workflow: Workflow,
    known: Known,
    tools: Requirements,
    refused: frozenset[str],
    handle: Handle | None,
    go_on: Sequence[JsonObject] = (),
) -> Iterator[JsonObject]:
    """The remaining calls of one step, as in `next_calls`."""
    uris = preview_uris(step, workflow, known)
    yield from ({"resource": uri} for it, uri in uris.items() if not step.read_after(it))
    if step.tool is not None and go_on and not tools.carries(carried_bytes(step, workflow, known)):
        yield from go_on
    elif step.tool is not None:
        arguments = preview_arguments(step, workflow, known, tools)
        arguments |= {name: f"<invalid: {name}>" for name in refused}
        entry: dict[str, Json] = {
            "tool": step.tool,
            "arguments": handle.on(step.tool, arguments) if handle else arguments,
        }
        if step.guidance:
            entry["guidance"] = quoted_guidance(step.guidance, known.shown_texts)
        yield entry
    yield from ({"resource": uri} for it, uri in uris.items() if step.read_after(it))
