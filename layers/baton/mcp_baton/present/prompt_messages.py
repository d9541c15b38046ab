"""The messages of a prompt that has run a workflow (docs/workflows.md). Pure.

Models trust the assistant's messages. So values, errors and resources are quoted there (`quoting`). The user's messages
contain complete results, errors and resources.
"""

from collections.abc import Callable, Iterator
from typing import Final

from mcp_baton.present.handoff import handoff, ignored_values, not_recorded, restart_text, why_stopped
from mcp_baton.present.sentences import may_have_run, may_have_run_twice, skipped_text
from mcp_baton.protocol.json import Json
from mcp_baton.tools.outcomes import Failed, Succeeded
from mcp_baton.tools.quoting import one_line, quoted_guidance
from mcp_baton.tools.templates import as_text
from mcp_baton.workflow.ended_run import EndedRun
from mcp_baton.workflow.handle import Handle
from mcp_baton.workflow.host import Skipped
from mcp_baton.workflow.remaining import RemainingCalls, Requirements, uris_of
from mcp_baton.workflow.resolve import KnownValues
from mcp_baton.workflow.sources import source_text
from mcp_baton.workflow.step_run import Content, StepRun, UnreadResource
from mcp_baton.workflow.steps.list_step import ListStep
from mcp_baton.workflow.steps.question import Question
from mcp_baton.workflow.steps.wait import Wait

CONTINUE_AS_DESCRIBED: Final = "Continue as described."
TELL_NEEDS: Final = "Tell me what is needed."
TELL_RESULT: Final = "Tell me the result."
REQUESTS: Final = (CONTINUE_AS_DESCRIBED, TELL_NEEDS, TELL_RESULT)
"""The user's messages that follow the assistant's last one."""


type Message = dict[str, Json]
"""MCP's `PromptMessage`."""


def said(role: str, text: str) -> Message:
    return {"role": role, "content": {"type": "text", "text": text}}


def messages(
    run: EndedRun, tools: Requirements, describe: Callable[[str], str], handle: Handle | None = None
) -> list[Message]:
    """The conversation: intent, plan, and each step; then the handoff, or why the run stopped. The last message is the
    user's, because the APIs of models refuse a conversation that ends with the assistant.

    Args:
        handle: Names the task in the handoff; `None` for a handoff that does not name it.
    """
    conversation = [said("user", _intent_text(run)), said("assistant", _plan_text(run, describe))]
    for trace in run.traces:
        conversation.extend(_step_messages(trace, run))
    for blocked in run.blocked:
        conversation.extend(_resource(resource, run) for resource in blocked.resources)
    request = TELL_RESULT
    if run.over is not None:
        texts = [why_stopped(run, run.over), *(not_recorded(run) if run.persisted == "unknown" else [])]
        request = TELL_NEEDS
    elif run.pause:
        notes = [*may_have_run_twice(run.repeated), *may_have_run(run.open_repeats), *ignored_values(run)]
        remaining = RemainingCalls(run.known.with_skips(), tools, run.pauses, handle, handle, run.read_resources)
        texts = [handoff(remaining, [*notes, *not_recorded(run)]), *restart_text(remaining)]
        request = CONTINUE_AS_DESCRIBED if remaining.suggests_call() else TELL_NEEDS
    else:
        texts = [*may_have_run_twice(run.repeated), *ignored_values(run), *not_recorded(run)]
    if texts:
        conversation.append(said("assistant", "\n\n".join(texts)))
    return [*conversation, *([said("user", request)] if conversation[-1]["role"] == "assistant" else [])]


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
        if isinstance(step, Question):
            lines.append(f"{number}. {_ask_text(step)}: {step.question}")
        elif isinstance(step, Wait):
            lines.append(f"{number}. {step.name}: {one_line(step.wait_text)}")
        elif step.tool is None:
            lines.append(f"{number}. Read {', '.join(step.resources)}")
        else:
            description = describe(step.tool)
            each = f", for each element of {one_line(source_text(step.each))}" if isinstance(step, ListStep) else ""
            lines.append(f"{number}. {step.tool}{each}" + (f": {description}" if description else ""))
    return "\n".join(lines)


def _step_messages(trace: StepRun, run: EndedRun) -> Iterator[Message]:
    if isinstance(trace.outcome, Skipped):
        yield said("assistant", skipped_text(trace.step, trace.outcome.why))
        return
    if trace.step.guidance and not trace.replayed:
        yield said("assistant", quoted_guidance(trace.step.guidance, run.known.shown_texts))
    if isinstance(trace.step, Question):
        question = run.known.question_text(trace.step)
        yield said("assistant", f"{_ask_text(trace.step)}: {one_line(question or trace.step.question)}")
        yield said("user", f"Answer to '{trace.step.name}': {_answer(trace)}")
        return
    if isinstance(trace.step, Wait):
        yield said("assistant", f"Step '{trace.step.name}' {one_line(trace.step.wait_text)}")
    elif trace.step.tool is None:
        yield said("assistant", f"Reading {', '.join(uris_of(trace.step, run.known).values())}")
    for resource in trace.resources:
        yield _resource(resource, run)
    yield from _call_messages(trace, run.known)
    if isinstance(trace.outcome, Failed):
        yield said("user", f"{_source_of_error(trace)}: {trace.outcome.error}")
    elif trace.step.has_value and isinstance(trace.outcome, Succeeded):
        source = f"Result from {trace.step.tool}" if trace.step.tool else f"Callback of '{trace.step.name}'"
        yield said("user", f"{source}: {as_text(trace.outcome.value)}")
    for resource in trace.after:
        yield _resource(resource, run)


def _call_messages(trace: StepRun, known: KnownValues) -> Iterator[Message]:
    if isinstance(trace.step, ListStep):
        elements = one_line(source_text(trace.step.each))
        yield said("assistant", f"Calling {trace.step.tool} for each element of {elements}")
    elif trace.arguments is not None:
        yield said("assistant", f"Calling {trace.step.tool} with {_arguments(trace, known)}")


def _ask_text(step: Question) -> str:
    return "Ask the user" if step.of == "user" else "Decide"


def _answer(trace: StepRun) -> str:
    return as_text(trace.outcome.value) if isinstance(trace.outcome, Succeeded) else ""


def _source_of_error(trace: StepRun) -> str:
    if trace.unread is None:
        return f"Error from {trace.step.tool or trace.step.name}"
    call = f", so {trace.step.tool} was not called" if trace.step.tool else ""
    return f"The resource {trace.unread} could not be read{call}"


def _arguments(trace: StepRun, known: KnownValues) -> str:
    """A call's arguments on one line, without secrets, and with placeholders for those that are long."""
    shown_arguments: dict[str, Json] = {}
    for name, value in (trace.arguments or {}).items():
        source = trace.step.arguments.get(name)
        shown_arguments[name] = known.shortened(known.shown_value(value, source), source)
    return one_line(shown_arguments)


def _resource(resource: Content, run: EndedRun) -> Message:
    if isinstance(resource, UnreadResource):
        error = run.known.secrets.hide_text(resource.error)
        return said("user", f"The resource {resource.uri} could not be read: {error}")
    if isinstance(resource.content, bytes):
        return {"role": "user", "content": {"type": "resource", "resource": resource.to_json()}}
    return said("user", f"Resource content from {resource.uri}:\n{resource.content}")
