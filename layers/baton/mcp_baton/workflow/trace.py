"""A run as the messages of a prompt (docs/workflows.md). Pure.

Nobody but Baton speaks as the assistant: what comes from outside is quoted there (`quoting`). Results, errors and
resources stand whole in the user's messages.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from mcp_baton.tasks.record import TaskStatus
from mcp_baton.workflow.definition import Step
from mcp_baton.workflow.ended_run import (
    Content,
    EndedRun,
    Over,
    Persisted,
    StepTrace,
    Superseded,
    TaskOver,
    UnreadResource,
)
from mcp_baton.workflow.handoff import Requirements, handoff, preview_uris
from mcp_baton.workflow.host import Failed, FetchedResource, Succeeded
from mcp_baton.workflow.questions import question_text
from mcp_baton.workflow.quoting import called_with, quoted_guidance
from mcp_baton.workflow.repeats import may_have_run, may_have_run_twice, named
from mcp_baton.workflow.sources import as_text
from mcp_baton.workflow.task_ids import Handle, looking_at

TAKEN_OVER = "This run was superseded: it was late, and another run has taken the task over."
KEPT: Mapping[Persisted, str] = {
    True: "What this run did is recorded; the task says how it stands.",
    False: "Not all that this run did is recorded, and the rest may have been done twice; the task says how it stands.",
    "unknown": "Whether all that this run did is recorded is not known; the task says how it stands.",
}
"""What is said of a superseded run's work, by whether the store holds it."""


def what_became(run: EndedRun, over: Over) -> str:
    """What ended the task or the run's hold on it, which step ran last, and that the others were not run. It hands
    nothing off."""
    ran = [trace.step.name for trace in run.traces if not trace.replayed]
    left = [name for name, status in run.statuses.items() if not status.settled and name not in ran]
    if isinstance(over, Superseded):
        lost = [f"Not recorded for certain: {named(run.lost)}."] if run.lost else []
        return " ".join([TAKEN_OVER, KEPT[run.persisted], *lost, _last_step(ran), _steps_not_run(left)])
    return " ".join([f"{_event(over.status)} while this run was under way.", _last_step(ran), _steps_not_run(left)])


def _event(status: TaskStatus | None) -> str:
    match status:
        case TaskStatus.CANCELLED:
            return "The task was cancelled"
        case TaskStatus.COMPLETED:
            return "The task was completed by somebody else"
        case None:
            return "The task expired or was deleted"
        case other:
            return f"The task became '{other}'"


def _last_step(ran: Sequence[str]) -> str:
    return f"Step '{ran[-1]}' ran last." if ran else "The run ran no step."


def _steps_not_run(left: Sequence[str]) -> str:
    names = ", ".join(f"'{name}'" for name in left)
    return f"These steps were not run: {names}." if names else "No step was left to run."


def not_recorded(run: EndedRun) -> list[str]:
    """The sentences that say which steps would be repeated if the server went on, since the task does not know of them;
    none for a run whose steps are all recorded, or that has no task."""
    if run.task is None or run.persisted is True:
        return []
    steps = f"{'step' if len(run.lost) == 1 else 'steps'} {named(run.lost)}" if run.lost else "its steps"
    if run.persisted is False:
        return [
            f"What this run did could not be recorded with its task: if the server went on, it would repeat {steps}."
        ]
    look = f"{looking_at(run.task.task_id, run.workflow)} to see what is recorded"
    unknown = "Whether this run was recorded is not known: the task store did not answer."
    return [f"{unknown} Before you repeat {steps}, {look}."]


class Message(Struct, frozen=True):
    """One message: a text, or a resource's bytes."""

    role: str
    text: str
    blob: FetchedResource | None = None


def messages(
    run: EndedRun, tools: Requirements, describe: Callable[[str], str], handle: Handle | None = None
) -> list[Message]:
    """The conversation: intent, plan, what each step did; last the handoff, or what became of the task.

    Args:
        run: The run.
        tools: Knows what the tools require, for the handoff's placeholders.
        describe: A tool's description in one line.
        handle: Names the task in the handoff; `None` for one that does not name it.
    """
    conversation = [Message("user", _intent(run)), Message("assistant", _plan(run, describe))]
    for trace in run.traces:
        conversation.extend(_step(trace, run))
    if run.blocked:
        conversation.extend(_resource(resource, run) for resource in run.blocked.resources)
    if isinstance(run.stop, TaskOver | Superseded):
        said = [what_became(run, run.stop), *(not_recorded(run) if run.persisted == "unknown" else [])]
    elif run.pause:
        notes = [*may_have_run_twice(run.twice), *may_have_run(run.before), *not_recorded(run)]
        said = [handoff(run.workflow, run.known, run.pause, tools, run.read, handle, notes)]
    else:
        said = [*may_have_run_twice(run.twice), *not_recorded(run)]
    return [*conversation, *([Message("assistant", "\n\n".join(said))] if said else [])]


def _intent(run: EndedRun) -> str:
    lines = [f"I want to {run.workflow.description.rstrip('.')}."]
    texts = run.known.shown_texts
    given = {argument.name: texts[argument.name] for argument in run.workflow.arguments if argument.name in texts}
    if given:
        lines += ["", "Arguments:", *(f"- {name}: {value}" for name, value in given.items())]
    return "\n".join(lines)


def _plan(run: EndedRun, describe: Callable[[str], str]) -> str:
    lines = ["Here is the plan:", ""]
    for number, step in enumerate(run.workflow.steps, 1):
        if step.ask is not None:
            lines.append(f"{number}. {_asking(step)}: {step.ask.question}")
        elif step.tool is None:
            lines.append(f"{number}. Read {', '.join(step.resources)}")
        else:
            description = describe(step.tool)
            lines.append(f"{number}. {step.tool}: {description}" if description else f"{number}. {step.tool}")
    return "\n".join(lines)


def _step(trace: StepTrace, run: EndedRun) -> Iterator[Message]:
    if trace.step.guidance and not trace.replayed:
        yield Message("assistant", quoted_guidance(trace.step.guidance, run.known.shown_texts))
    if trace.step.ask is not None:
        yield Message("assistant", f"{_asking(trace.step)}: {question_text(trace.step, run.workflow, run.known)}")
        yield Message("user", f"Answer to '{trace.step.name}': {_answer(trace)}")
        return
    if trace.step.tool is None:
        uris = preview_uris(trace.step, run.workflow, run.known)
        yield Message("assistant", f"Reading {', '.join(uris.values())}")
    for resource in trace.resources:
        yield _resource(resource, run)
    if trace.arguments is not None:
        yield Message("assistant", f"Calling {trace.step.tool} with {_arguments(trace, run)}")
    if isinstance(trace.outcome, Failed):
        yield Message("user", f"{_source_of_error(trace)}: {trace.outcome.error}")
    elif trace.step.tool is not None:
        yield Message("user", f"Result from {trace.step.tool}: {as_text(trace.outcome.value)}")
    for resource in trace.after:
        yield _resource(resource, run)


def _asking(step: Step) -> str:
    return "Ask the user" if step.ask and step.ask.of == "user" else "Decide"


def _answer(trace: StepTrace) -> str:
    return as_text(trace.outcome.value) if isinstance(trace.outcome, Succeeded) else ""


def _source_of_error(trace: StepTrace) -> str:
    if trace.unread is None:
        return f"Error from {trace.step.tool or trace.step.name}"
    call = f", so {trace.step.tool} was not called" if trace.step.tool else ""
    return f"The resource {trace.unread} could not be read{call}"


def _arguments(trace: StepTrace, run: EndedRun) -> str:
    sources = trace.step.arguments
    arguments = trace.arguments or {}
    if run.known.secrets.names:
        arguments = {name: run.known.shown_value(value, sources.get(name)) for name, value in arguments.items()}
    return called_with(arguments, sources, run.workflow)


def _resource(resource: Content, run: EndedRun) -> Message:
    if isinstance(resource, UnreadResource):
        error = run.known.secrets.hide_text(resource.error)
        return Message("user", f"The resource {resource.uri} could not be read: {error}")
    heading = f"Resource content from {resource.uri}:"
    if resource.text is None:
        return Message("user", heading, blob=resource)
    return Message("user", f"{heading}\n{resource.text}")
