"""The handoff: the last message of a paused prompt, written for the model that goes on (docs/workflows.md). Pure.

It is an assistant's message, so what comes from outside is quoted in it: see `quoting`.
"""

from collections.abc import Iterator
from typing import Final, Protocol

from mcp_baton.protocol.json import Json
from mcp_baton.workflow.definition import Step, Workflow
from mcp_baton.workflow.handle import Handle
from mcp_baton.workflow.pause import (
    MAX_FIELDS,
    DeadlineExceeded,
    Interrupted,
    PauseReason,
    SchemaMismatch,
    ToolFailed,
    UnresolvableParams,
    UnresolvedDependency,
)
from mcp_baton.workflow.quoting import (
    LONGEST,
    encoded_uri,
    is_long,
    one_line,
    placeholder,
    quoted_error,
    quoted_guidance,
    shown,
)
from mcp_baton.workflow.resolve import Known, NotGiven, resolve
from mcp_baton.workflow.sources import Found, PromptArg, as_text, encoded, fill, placeholders


class Requirements(Protocol):
    """The part of a `Host` that knows what tools cannot do without."""

    def required(self, tool: str) -> frozenset[str]:
        """The names of a tool's required arguments."""


MAKE_THESE_CALLS: Final = "To continue the workflow, make these tool calls:"


def handoff(
    workflow: Workflow,
    known: Known,
    pause: PauseReason,
    tools: Requirements,
    read: frozenset[str] = frozenset(),
    handle: Handle | None = None,
) -> str:
    """What happened, then every remaining step in order, the failed or blocked one first.

    Args:
        workflow: The workflow.
        known: What the run knows at its end.
        pause: Why it stopped.
        tools: Knows what the tools require.
        read: The resources of the step where it stopped that stand in the conversation already, as the step has them.
        handle: Names the task in the text; `None` for a text that does not name it.
    """
    calls = [
        f"{number}. {call_of(step, workflow, known, pause, tools, read, handle)}"
        for number, step in enumerate(remaining_steps(workflow, known), 1)
    ]
    offer = [handle.offer(workflow.name, secrets_given(workflow, known))] if handle else []
    return "\n\n".join([what_happened(pause), MAKE_THESE_CALLS, *calls, *offer])


def secrets_given(workflow: Workflow, known: Known) -> list[str]:
    """The names of the secret arguments that this run was given."""
    return [argument.name for argument in workflow.arguments if argument.secret and argument.name in known.texts]


def remaining_steps(workflow: Workflow, known: Known) -> list[Step]:
    """The steps that are not settled, in order."""
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
    """What is left to be done of one step, a line for each action. As `handoff`.

    Args:
        longest: Characters of JSON that a value may have; a longer one stands as its placeholder.
    """
    here = step.name == pause.step
    refused = refused_arguments(step, pause)
    lines = list(_actions(step, workflow, known, tools, read if here else frozenset(), refused, handle, longest))
    if step.guidance:
        lines.append(f"Note: {quoted_guidance(step.guidance, known.shown_texts)}")
    return "\n   ".join(lines)


def what_happened(pause: PauseReason) -> str:
    """A pause reason in one or two sentences."""
    match pause:
        case ToolFailed(step, error):
            return f"Step '{step}' failed: {quoted_error(error)}. {_hint(pause)}"
        case UnresolvableParams(step, param):
            why = f": {pause.problem}" if pause.problem else ""
            return f"Step '{step}' could not start: no value was found for its argument '{param}'{why}."
        case SchemaMismatch(step):
            return f"Step '{step}' could not start: its arguments do not satisfy the tool's input schema. " + " ".join(
                _problems(pause)
            )
        case UnresolvedDependency(step, output, producer):
            return (
                f"Step '{step}' could not start: it needs the output '{output}' of step '{producer}', which has none."
            )
        case DeadlineExceeded(step):
            return f"The server ran out of time before step '{step}'. Nothing failed; the remaining steps are yours."
        case Interrupted(step):
            return (
                f"The run was interrupted at step '{step}' or later, and what it did was not recorded: this step and "
                "those after it may have happened. Check before you repeat them."
            )


def _hint(pause: ToolFailed) -> str:
    if pause.by_itself:
        return "Its tool can ask when it is called by itself, as below: nothing has to be corrected first."
    if pause.retryable:
        return "This step is retryable."
    return "This step is not retryable: correct the cause first."


def _problems(pause: SchemaMismatch) -> Iterator[str]:
    if pause.missing_fields:
        yield f"Missing: {', '.join(pause.missing_fields)}."
    for invalid in pause.invalid_fields[:MAX_FIELDS]:
        yield f"Invalid: {quoted_error(invalid.field)} ({quoted_error(invalid.problem)})."


def refused_arguments(step: Step, pause: PauseReason | None) -> frozenset[str]:
    """The arguments whose values the tool's schema refused; a field is a dotted path that begins with one of them."""
    if not isinstance(pause, SchemaMismatch) or step.name != pause.step:
        return frozenset()
    fields = [invalid.field for invalid in pause.invalid_fields]
    return frozenset(
        name for name in step.arguments if any(field == name or field.startswith(f"{name}.") for field in fields)
    )


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
    arguments = preview_arguments(step, workflow, known, tools, longest)
    arguments |= {name: f"<invalid: {name}>" for name in refused}
    if handle:
        arguments = handle.on(step.tool, arguments)
    yield f"Call {step.tool} with {one_line(arguments)}"
    for when, after in (("First", False), ("Then", True)):
        yield from (f"{when}: Read the resource {uri}" for it, uri in uris.items() if step.read_after(it) is after)


def preview_arguments(
    step: Step, workflow: Workflow, known: Known, tools: Requirements, longest: int = LONGEST
) -> dict[str, Json]:
    """A call's arguments as far as they are known, with a placeholder for each that is not, or is too long."""
    required, answers = tools.required(step.tool or ""), known.answers.get(step.name, {})
    arguments: dict[str, Json] = {}
    for name, source in step.arguments.items():
        resolution = resolve(source, workflow, known)
        if name in answers:
            continue
        if isinstance(resolution, Found):
            arguments[name] = shown(known.shown_value(resolution.value, source), source, workflow, longest)
        elif not isinstance(resolution, NotGiven) or name in required:
            arguments[name] = placeholder(source, workflow)
    for name in sorted(required - step.arguments.keys() - answers.keys()):
        arguments[name] = f"<missing: {name}>"
    return arguments | {name: known.shown_value(value, None) for name, value in answers.items()}


def preview_uris(step: Step, workflow: Workflow, known: Known) -> dict[str, str]:
    """The URIs of a step's resources as far as they are known, with placeholders in them, by what the step has."""
    return {resource: _preview_uri(resource, step, workflow, known) for resource in step.resources}


def _preview_uri(resource: str, step: Step, workflow: Workflow, known: Known) -> str:
    values: dict[str, str] = {}
    for name in placeholders(resource):
        source = step.template_bindings.get(name, PromptArg(name))
        resolution = resolve(source, workflow, known)
        text = None
        if isinstance(resolution, Found):
            text = as_text(resolution.value) if name in step.template_bindings else known.texts[name]
        stand_in = placeholder(source, workflow) if text is None or is_long(text) else None
        # A value that begins the URI stands for its scheme and what follows.
        encode = encoded_uri if resource.startswith(f"{{{name}}}") else encoded
        values[name] = stand_in or encode(text or "")
    return fill(resource, values)
