"""The handoff: the last message of a paused prompt, written for the model that goes on (contract section 4). Pure."""

from collections.abc import Iterator
from typing import Protocol

from mcp_baton.protocol.json import Json, dumps_spaced
from mcp_baton.workflow.definition import Step, Workflow
from mcp_baton.workflow.pause import (
    DeadlineExceeded,
    PauseReason,
    SchemaMismatch,
    ToolFailed,
    UnresolvableParams,
    UnresolvedDependency,
)
from mcp_baton.workflow.resolve import Known, NoField, NoOutput, NotGiven, NoVariable, needed_in_uris, resolve
from mcp_baton.workflow.sources import Found, PromptArg, as_text, fill, fill_uri


class Requirements(Protocol):
    """The part of a `Host` that knows what tools cannot do without."""

    def required(self, tool: str) -> frozenset[str]:
        """The names of a tool's required arguments."""


def handoff(workflow: Workflow, known: Known, pause: PauseReason, tools: Requirements) -> str:
    """What happened, then every remaining step in order, the failed or blocked one first."""
    remaining = [step for step in workflow.steps if not known.statuses[step.name].settled]
    calls = [_call(number, step, workflow, known, tools) for number, step in enumerate(remaining, 1)]
    return "\n\n".join([what_happened(pause), "To continue the workflow, make these tool calls:", *calls])


def what_happened(pause: PauseReason) -> str:
    """A pause reason in one or two sentences."""
    match pause:
        case ToolFailed(step, error, retryable):
            return f"Step '{step}' failed: {_sentence(error)} {_retry_hint(retryable=retryable)}"
        case UnresolvableParams(step, param):
            return f"Step '{step}' could not start: no value was found for its argument '{param}'."
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


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _retry_hint(*, retryable: bool) -> str:
    return "This step is retryable." if retryable else "This step is not retryable: correct the cause first."


def _problems(pause: SchemaMismatch) -> Iterator[str]:
    if pause.missing_fields:
        yield f"Missing: {', '.join(pause.missing_fields)}."
    for invalid in pause.invalid_fields:
        yield f"Invalid: {invalid.field} ({invalid.problem})."


def _call(number: int, step: Step, workflow: Workflow, known: Known, tools: Requirements) -> str:
    lines = [
        f"{number}. {text}" if index == 0 else f"   {text}"
        for index, text in enumerate(_actions(step, workflow, known, tools))
    ]
    if step.guidance:
        lines.append(f"   Note: {fill(step.guidance, known.texts)}")
    return "\n".join(lines)


def _actions(step: Step, workflow: Workflow, known: Known, tools: Requirements) -> Iterator[str]:
    if step.tool is None:
        for uri in preview_uris(step, workflow, known):
            yield f"Read the resource {uri}"
    else:
        yield f"Call {step.tool} with {dumps_spaced(preview_arguments(step, workflow, known, tools))}"


def preview_arguments(step: Step, workflow: Workflow, known: Known, tools: Requirements) -> dict[str, Json]:
    """A call's arguments as far as they are known, with a placeholder for each that is not."""
    required = tools.required(step.tool or "")
    arguments: dict[str, Json] = {}
    for name, source in step.arguments.items():
        resolution = resolve(source, workflow, known)
        if isinstance(resolution, Found):
            arguments[name] = resolution.value
        elif not isinstance(resolution, NotGiven) or name in required:
            arguments[name] = _placeholder(resolution)
    for name in sorted(required - step.arguments.keys()):
        arguments[name] = f"<missing: {name}>"
    return arguments


def preview_uris(step: Step, workflow: Workflow, known: Known) -> list[str]:
    """The URIs of a step's resources as far as they are known, with placeholders in them."""
    texts, notes = dict(known.texts), {}
    for name in needed_in_uris(step):
        resolution = resolve(step.template_bindings.get(name, PromptArg(name)), workflow, known)
        if isinstance(resolution, Found):
            texts[name] = as_text(resolution.value) if name in step.template_bindings else known.texts[name]
        else:
            notes[name] = _placeholder(resolution)
    return [fill_uri(uri, texts, notes) for uri in step.resources]


def _placeholder(missing: NotGiven | NoOutput | NoField | NoVariable) -> str:
    match missing:
        case NotGiven(name):
            return f"<prompt arg {name}>"
        case NoVariable(name):
            return f"<task variable {name}>"
        case NoOutput(step, path) | NoField(step, path):
            producer = step.tool or step.name
            return f"<output from {producer}>" if path is None else f"<field '{path}' from {producer}>"
