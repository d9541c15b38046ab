"""A run as the messages of a prompt (contract sections 3 and 4). Pure; the tool twin is another rendering."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from mcp_baton.protocol.json import dumps_spaced
from mcp_baton.workflow.handoff import Requirements, handoff
from mcp_baton.workflow.over import what_became
from mcp_baton.workflow.run import Failed, FetchedResource, RunRecord, StepTrace, TaskOver
from mcp_baton.workflow.sources import as_text, fill


@dataclass(frozen=True, slots=True)
class Message:
    """One message: a text, or a resource's bytes."""

    role: str
    text: str
    blob: FetchedResource | None = None


def messages(run: RunRecord, tools: Requirements, describe: Callable[[str], str]) -> list[Message]:
    """The conversation: intent, plan, what each step did; last the handoff, or what became of the task.

    Args:
        run: The run.
        tools: Knows what the tools require, for the handoff's placeholders.
        describe: A tool's description in one line.
    """
    conversation = [Message("user", _intent(run)), Message("assistant", _plan(run, describe))]
    for trace in run.traces:
        conversation.extend(_step(trace, run.known.texts))
    if isinstance(run.stop, TaskOver):
        conversation.append(Message("assistant", what_became(run, run.stop)))
    elif run.pause:
        conversation.append(Message("assistant", handoff(run.workflow, run.known, run.pause, tools)))
    return conversation


def _intent(run: RunRecord) -> str:
    lines = [f"I want to {run.workflow.description.rstrip('.')}."]
    given = {
        argument.name: run.known.texts[argument.name]
        for argument in run.workflow.arguments
        if argument.name in run.known.texts
    }
    if given:
        lines += ["", "Arguments:", *(f"- {name}: {value}" for name, value in given.items())]
    return "\n".join(lines)


def _plan(run: RunRecord, describe: Callable[[str], str]) -> str:
    lines = ["Here is the plan:", ""]
    for number, step in enumerate(run.workflow.steps, 1):
        if step.tool is None:
            lines.append(f"{number}. Read {', '.join(step.resources)}")
        else:
            description = describe(step.tool)
            lines.append(f"{number}. {step.tool}: {description}" if description else f"{number}. {step.tool}")
    return "\n".join(lines)


def _step(trace: StepTrace, texts: Mapping[str, str]) -> Iterator[Message]:
    if trace.step.guidance and not trace.replayed:
        yield Message("assistant", fill(trace.step.guidance, texts))
    for resource in trace.resources:
        yield _resource(resource)
    if trace.arguments is not None:
        yield Message("assistant", f"Calling {trace.step.tool} with {dumps_spaced(trace.arguments)}")
    if isinstance(trace.outcome, Failed):
        yield Message("user", f"Error from {trace.step.tool or trace.step.name}: {trace.outcome.error}")
    elif trace.step.tool is not None:
        yield Message("user", f"Result from {trace.step.tool}: {as_text(trace.outcome.value)}")


def _resource(resource: FetchedResource) -> Message:
    heading = f"Resource content from {resource.uri}:"
    if resource.text is None:
        return Message("user", heading, blob=resource)
    return Message("user", f"{heading}\n{resource.text}")
