"""A run as texts: the messages of a prompt, and the text of the workflow's tool (docs/workflows.md). Pure.

Models trust the assistant's messages and the tool's text. So values, errors and resources are quoted there (`quoting`).
The user's messages contain complete results, errors and resources.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from msgspec import Struct

from mcp_baton.present.handoff import Handle, RemainingCalls, Requirements, call_that_shows, uris_of
from mcp_baton.protocol.json import Json, dumps_spaced
from mcp_baton.tasks.record import StepStatus, TaskStatus
from mcp_baton.tools.arguments import TASK_ID
from mcp_baton.tools.outcomes import Failed, FetchedResource, Succeeded
from mcp_baton.tools.quoting import LONGEST, one_line, quoted_error, quoted_guidance
from mcp_baton.tools.templates import as_text
from mcp_baton.workflow.definition import Step, Workflow
from mcp_baton.workflow.host import Skipped
from mcp_baton.workflow.lease import Over, Superseded, TaskOver
from mcp_baton.workflow.pause import AnswersRequired, PauseReason
from mcp_baton.workflow.repeats import Repeat, may_have_run, may_have_run_twice, repeats_text
from mcp_baton.workflow.resolve import Known
from mcp_baton.workflow.run import Content, EndedRun, Persisted, StepTrace, UnreadResource
from mcp_baton.workflow.sources import source_text
from mcp_baton.workflow.wait import duration_text

TAKEN_OVER = "This run was superseded: its claim expired, and another run has taken over the task."
SUPERSEDED_TEXTS: Mapping[Persisted, str] = {
    True: "Its results are recorded; read the task for its state.",
    False: "Some of its results are not recorded, and those steps may have run twice; read the task for its state.",
    "unknown": "Whether its results are recorded is not known; read the task for its state.",
}
"""The sentence about a superseded run, by whether the store has its results."""


def why_stopped(run: EndedRun, over: Over) -> str:
    """Why the run stopped, which step ran last, and which steps were not run."""
    names = [trace.step.name for trace in run.traces if not trace.replayed]
    open_steps = [f"'{name}'" for name, status in run.statuses.items() if not status.settled and name not in names]
    last_step = f"Step '{names[-1]}' ran last." if names else "The run ran no step."
    not_run = f"These steps were not run: {', '.join(open_steps)}." if open_steps else "No step was left to run."
    if isinstance(over, Superseded):
        notes = [f"Not recorded for certain: {repeats_text(run.unrecorded)}."] if run.unrecorded else []
        return " ".join([TAKEN_OVER, SUPERSEDED_TEXTS[run.persisted], *notes, last_step, not_run])
    return " ".join([f"{_task_event(over.status)} while this run was under way.", last_step, not_run])


def _task_event(status: TaskStatus | None) -> str:
    match status:
        case TaskStatus.CANCELLED:
            return "The task was cancelled"
        case TaskStatus.COMPLETED:
            return "Another request completed the task"
        case None:
            return "The task expired or was deleted"
        case other:
            return f"The task became '{other}'"


def not_recorded(run: EndedRun) -> list[str]:
    """The sentences about steps that are not recorded, and that a resume would repeat."""
    if run.task is None or run.persisted is True:
        return []
    if run.refused:
        names = ", ".join(f"'{name}'" for name in run.refused)
        return [f"The answer to {names} was not stored: another call has used the earlier answer meanwhile."]
    noun = "step" if len(run.unrecorded) == 1 else "steps"
    steps = f"{noun} {repeats_text(run.unrecorded)}" if run.unrecorded else "its steps"
    if run.persisted is False:
        return [f"The results of this run could not be recorded: if the server went on, it would repeat {steps}."]
    check = f"{call_that_shows(run.task.task_id, run.workflow)} to see what is recorded"
    problem = "Whether this run was recorded is not known: the task store did not answer."
    return [f"{problem} Before you repeat {steps}, {check}."]


def ignored_values(run: EndedRun) -> list[str]:
    """The sentence about values of this call that were not used."""
    if not run.ignored:
        return []
    rule = "In a resume, null, an empty text or a default replaces no stored value"
    return [cut(f"{rule}, so these were ignored: {', '.join(run.ignored)}.", LIMIT_OF_EVENT)]


class Message(Struct, frozen=True):
    """One message: a text, or a resource's bytes."""

    role: str
    text: str
    blob: FetchedResource | None = None


CONTINUE: Final = "Continue as described."
TELL_NEEDS: Final = "Tell me what is needed."
TELL_RESULT: Final = "Tell me the result."
REQUESTS: Final = (CONTINUE, TELL_NEEDS, TELL_RESULT)
"""The user's messages that follow the assistant's last one."""


def messages(
    run: EndedRun, tools: Requirements, describe: Callable[[str], str], handle: Handle | None = None
) -> list[Message]:
    """The conversation: intent, plan, and each step; then the handoff, or why the run stopped. The last message is the
    user's, because the APIs of models refuse a conversation that ends with the assistant.

    Args:
        handle: Names the task in the handoff; `None` for a handoff that does not name it.
    """
    conversation = [Message("user", _intent_text(run)), Message("assistant", _plan_text(run, describe))]
    for trace in run.traces:
        conversation.extend(_step_messages(trace, run))
    if run.blocked:
        conversation.extend(_resource(resource, run) for resource in run.blocked.resources)
    request = TELL_RESULT
    if isinstance(run.stop, TaskOver | Superseded):
        texts = [why_stopped(run, run.stop), *(not_recorded(run) if run.persisted == "unknown" else [])]
        request = TELL_NEEDS
    elif run.pause:
        notes = [*may_have_run_twice(run.repeated), *may_have_run(run.open_repeats), *ignored_values(run)]
        remaining = RemainingCalls(run.known, tools, run.pause, handle, handle, run.read_resources)
        texts = [remaining.handoff([*notes, *not_recorded(run)])]
        request = CONTINUE if remaining.suggests_call() else TELL_NEEDS
    else:
        texts = [*may_have_run_twice(run.repeated), *ignored_values(run), *not_recorded(run)]
    if texts:
        conversation.append(Message("assistant", "\n\n".join(texts)))
    return [*conversation, *([Message("user", request)] if conversation[-1].role == "assistant" else [])]


def _intent_text(run: EndedRun) -> str:
    lines = [f"I want to {run.workflow.description.rstrip('.')}."]
    texts = run.known.shown_texts
    arguments = {argument.name: texts[argument.name] for argument in run.workflow.arguments if argument.name in texts}
    if arguments:
        lines += ["", "Arguments:", *(f"- {name}: {value}" for name, value in arguments.items())]
    return "\n".join(lines)


def _plan_text(run: EndedRun, describe: Callable[[str], str]) -> str:
    lines = ["Here is the plan:", ""]
    for number, step in enumerate(run.workflow.steps, 1):
        if step.ask is not None:
            lines.append(f"{number}. {_ask_text(step)}: {step.ask.question}")
        elif step.is_wait:
            lines.append(f"{number}. {step.name}: {one_line(step.wait_text)}")
        elif step.tool is None:
            lines.append(f"{number}. Read {', '.join(step.resources)}")
        else:
            description = describe(step.tool)
            each = "" if step.each is None else f", for each element of {one_line(source_text(step.each))}"
            lines.append(f"{number}. {step.tool}{each}" + (f": {description}" if description else ""))
    return "\n".join(lines)


def _why_skipped(step: Step, outcome: Skipped) -> str:
    if step.callback is not None and (outcome.timed_out or step.when is None):
        return f"no callback came within {duration_text(step.callback.within)}"
    # The definition may have lost its condition since.
    return "its condition is false" if step.when is None else f"its condition {one_line(str(step.when))} is false"


def _step_messages(trace: StepTrace, run: EndedRun) -> Iterator[Message]:
    if isinstance(trace.outcome, Skipped):
        yield Message("assistant", f"Step '{trace.step.name}' is skipped: {_why_skipped(trace.step, trace.outcome)}.")
        return
    if trace.step.guidance and not trace.replayed:
        yield Message("assistant", quoted_guidance(trace.step.guidance, run.known.shown_texts))
    if trace.step.ask is not None:
        question = run.known.question_text(trace.step)
        yield Message("assistant", f"{_ask_text(trace.step)}: {quoted_error(question or trace.step.ask.question)}")
        yield Message("user", f"Answer to '{trace.step.name}': {_answer(trace)}")
        return
    if trace.step.is_wait:
        yield Message("assistant", f"Step '{trace.step.name}' {one_line(trace.step.wait_text)}")
    elif trace.step.tool is None:
        yield Message("assistant", f"Reading {', '.join(uris_of(trace.step, run.known).values())}")
    for resource in trace.resources:
        yield _resource(resource, run)
    yield from _call_messages(trace, run.known)
    if isinstance(trace.outcome, Failed):
        yield Message("user", f"{_source_of_error(trace)}: {trace.outcome.error}")
    elif trace.step.has_value:
        source = f"Result from {trace.step.tool}" if trace.step.tool else f"Callback of '{trace.step.name}'"
        yield Message("user", f"{source}: {as_text(trace.outcome.value)}")
    for resource in trace.after:
        yield _resource(resource, run)


def _call_messages(trace: StepTrace, known: Known) -> Iterator[Message]:
    if trace.step.each is not None:
        elements = one_line(source_text(trace.step.each))
        yield Message("assistant", f"Calling {trace.step.tool} for each element of {elements}")
    elif trace.arguments is not None:
        yield Message("assistant", f"Calling {trace.step.tool} with {_arguments(trace, known)}")


def _ask_text(step: Step) -> str:
    return "Ask the user" if step.ask and step.ask.of == "user" else "Decide"


def _answer(trace: StepTrace) -> str:
    return as_text(trace.outcome.value) if isinstance(trace.outcome, Succeeded) else ""


def _source_of_error(trace: StepTrace) -> str:
    if trace.unread is None:
        return f"Error from {trace.step.tool or trace.step.name}"
    call = f", so {trace.step.tool} was not called" if trace.step.tool else ""
    return f"The resource {trace.unread} could not be read{call}"


def _arguments(trace: StepTrace, known: Known) -> str:
    """A call's arguments on one line, without secrets, and with placeholders for those that are long."""
    shown_arguments: dict[str, Json] = {}
    for name, value in (trace.arguments or {}).items():
        source = trace.step.arguments.get(name)
        shown_arguments[name] = known.shortened(known.shown_value(value, source), source)
    return one_line(shown_arguments)


def _resource(resource: Content, run: EndedRun) -> Message:
    if isinstance(resource, UnreadResource):
        error = run.known.secrets.hide_text(resource.error)
        return Message("user", f"The resource {resource.uri} could not be read: {error}")
    heading = f"Resource content from {resource.uri}:"
    if resource.text is None:
        return Message("user", heading, blob=resource)
    return Message("user", f"{heading}\n{resource.text}")


LIMIT: Final = 2_000
"""Bytes of a text, as UTF-8."""

LIMIT_OF_EVENT: Final = 700
"""Bytes of the sentences about what happened."""

SHORT: Final = 80
"""Characters of JSON that a value may have in the first call, if the call does not fit otherwise."""

_ROOM_FOR_COUNT: Final = 40

NO_TASK: Final = "This run has no task, so the server cannot continue it: make the calls yourself."
NO_TASK_TO_ANSWER: Final = "This run has no task, so this call starts the workflow again."

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


def text_of_run(run: EndedRun, known: Known, tools: Requirements, handle: Handle | None, uri_of: ResultUri) -> str:
    """The text of a run. A paused run has the remaining calls."""
    if isinstance(run.stop, TaskOver | Superseded):
        return cut(" ".join([why_stopped(run, run.stop), *_how_to_continue(run.stop, known, handle)]))
    if run.pause:
        return _paused_text(run, run.pause, known, tools, handle)
    notes = [*may_have_run_twice(run.repeated), *_notes(run)]
    values = (
        Value(f"Result of {trace.step.tool}", trace.outcome.value, uri_of(trace.step.name))
        for trace in reversed(run.traces)
        if trace.step.tool is not None and isinstance(trace.outcome, Succeeded)
    )
    return _with_values(_progress_text(list(run.statuses.values())), list(islice(values, 1)), notes)


def open_repeats_before(run: EndedRun, known: Known) -> list[Repeat]:
    """The open steps that an earlier run may have run."""
    return [step for step in run.open_repeats if not known.statuses[step.step].settled]


def text_of_held_task(
    workflow: Workflow, statuses: Sequence[StepStatus], until: str, seconds: int, task_id: str
) -> str:
    """The text for a task that another run holds."""
    next_call = f"call {workflow.name} again in {seconds} s with {dumps_spaced({TASK_ID: task_id})}"
    return (
        f"Another run holds this task until {until} or longer; {_settled_count(statuses)} are done so far. "
        f"Nothing was run: {next_call}."
    )


def text_of_ended_task(
    workflow: Workflow, status: TaskStatus, statuses: Sequence[StepStatus], values: Sequence[Value]
) -> str:
    if status is TaskStatus.COMPLETED:
        head = f"{_progress_text(statuses)} This task is completed; nothing was run."
    else:
        next_call = f"call {workflow.name} without {TASK_ID} to start anew"
        head = f"This task is {status.value}; {_settled_count(statuses)} were done. Nothing was run: {next_call}."
    return _with_values(head, values, [])


def cut(text: str, limit: int = LIMIT) -> str:
    """The text, cut to this many bytes."""
    data = text.encode(errors="replace")
    return text if len(data) <= limit else f"{data[: limit - 4].decode(errors='ignore')} …"


def _how_to_continue(over: Over, known: Known, handle: Handle | None) -> list[str]:
    """How to continue after another request has completed or taken over the task."""
    cannot_continue = isinstance(over, TaskOver) and over.status is not TaskStatus.COMPLETED
    if handle is None or cannot_continue:
        return []
    return [handle.resume_text(known, begin="")]


def _paused_text(run: EndedRun, pause: PauseReason, known: Known, tools: Requirements, handle: Handle | None) -> str:
    event = cut(pause.what_happened(), LIMIT_OF_EVENT)
    if known.statuses[pause.step].settled:
        event = cut(f"Another call has completed step '{pause.step}' while this run was under way.", LIMIT_OF_EVENT)
    if not known.open_steps:
        finish = [f"All {len(known.statuses)} steps are done. {handle.complete_text()}"] if handle else []
        return "\n\n".join([event, *may_have_run_twice(run.repeated), *ignored_values(run), *finish])
    remaining = RemainingCalls(known, tools, pause, handle, handle if run.stored else None)
    introduction, steps, closing = remaining.frame()
    lost_text = " ".join(remaining.lost_results())
    head = [event, *([cut(lost_text, LIMIT_OF_EVENT)] if lost_text else [])]
    head += [*may_have_run_twice(run.repeated), *may_have_run(open_repeats_before(run, known)), *introduction]
    tail = [*_notes(run), *closing]
    if not steps:
        return "\n\n".join([*head, *tail])
    room = LIMIT - _size("\n\n".join([*head, *tail])) - _ROOM_FOR_COUNT
    calls: list[str] = []
    for number, step in enumerate(steps, 1):
        # The first call must be in the text. Later results show the others.
        wordings = _wordings(step, remaining) if number == 1 else iter([remaining.text_of(step)])
        text = next((text for text in wordings if _size(text) + 6 <= room), None)
        if text is None:
            break
        calls.append(f"{number}. {text}")
        room -= _size(calls[-1]) + 2
    count = len(steps) - len(calls)
    note = [f"And {count} more after {'this' if len(calls) == 1 else 'these'}."] if count else []
    return "\n\n".join([*head, *calls, *note, *tail])


def _wordings(step: Step, remaining: RemainingCalls) -> Iterator[str]:
    """What remains of a step, from the longest to the shortest text."""
    yield remaining.text_of(step)
    short = remaining.text_of(step, limit=SHORT)
    yield short
    yield short.partition("\n")[0]
    if step.tool is None:
        yield f"Read the resources of step '{cut(step.name, LONGEST)}'"
    else:
        alternative = ": let the server make it" if remaining.handle and remaining.handle.tool else ""
        yield f"A call of {step.tool}, whose arguments are too long to show here{alternative}"


def _notes(run: EndedRun) -> list[str]:
    if run.task is None:
        if isinstance(run.pause, AnswersRequired):
            return [NO_TASK_TO_ANSWER]
        return [NO_TASK] if run.pause else []
    return [*ignored_values(run), *not_recorded(run)]


def _with_values(head: str, values: Sequence[Value], notes: Sequence[str]) -> str:
    room = LIMIT - _size("\n".join([head, *notes]))
    lines = []
    for value in values:
        lines.append(_line(value, room))
        room -= _size(lines[-1]) + 1
    return "\n".join([head, *lines, *notes])


def _line(value: Value, room: int) -> str:
    """A value as JSON on one line. If it does not fit: its URI, or its beginning."""
    if value.text_bytes == 0:
        text = one_line(value.value)
        if _size(text) + _size(value.name) + 3 <= room:
            return f"{value.name}: {text}"
        if value.uri is None:
            return cut(f"{value.name}: {text}", max(room - 1, 0))
    size = value.text_bytes or _size(dumps_spaced(value.value))
    return cut(f"{value.name}: {size} bytes, which can be read as the resource {value.uri}", max(room - 1, 0))


def _progress_text(statuses: Sequence[StepStatus]) -> str:
    return f"Done: {_settled_count(statuses)}."


def _settled_count(statuses: Sequence[StepStatus]) -> str:
    count = sum(status.settled for status in statuses)
    return f"{count} of {len(statuses)} {'step' if len(statuses) == 1 else 'steps'}"


def _size(text: str) -> int:
    return len(text.encode(errors="replace"))
