"""Placeholders that a model sends back as arguments, and the values that they stand for (docs/workflows.md,
Placeholders). Pure."""

import re
from collections.abc import Iterator
from typing import Final

from mcp_baton.light_dataclasses import dataclass
from mcp_baton.protocol.json import JsonObject
from mcp_baton.tasks.record import StepStatus
from mcp_baton.workflow.canonical import digest
from mcp_baton.workflow.definition import Step, Workflow
from mcp_baton.workflow.plan import Plan
from mcp_baton.workflow.quoting import placeholder, quoted_error
from mcp_baton.workflow.resolve import Known, NoField, NoOutput, NotGiven, NoVariable, resolve
from mcp_baton.workflow.sources import Found, PromptArg, Source, StepOutput, TaskVariable

LONGEST: Final = 2_000
"""Characters of the longest text that is looked at as a placeholder."""

_OUTPUT = re.compile(r"<(?:output|field '(?P<path>.+)') from (?P<of>.+)>")
_NAMED = re.compile(r"<(?P<kind>prompt arg|task variable|secret|missing:|invalid:) (?P<name>.+)>")
_SECRET = re.compile(r"<secret .+>")
_OF_STEP = re.compile(r".+ \(step '(?P<step>.+)'\)")
_VARIABLE = re.compile(r"task variable (?P<name>.+?)(?: \(set by .+\))?")

GIVE: Final = "give the value itself"
SUPPLY: Final = f"a value that you must supply; {GIVE}"
SECRET: Final = f"a value that is secret, and is not kept; {GIVE}"
NO_STATE: Final = "what it stands for cannot be found out now"
CHANGED: Final = (
    "Nothing was run. What the placeholders in the arguments stand for has changed since the question was asked. Make "
    "the call anew."
)


@dataclass(frozen=True, slots=True)
class Unknown:
    """A placeholder whose value is not known.

    Attributes:
        argument: The argument that it was sent as.
        placeholder: The placeholder.
        why: Why there is no value, and what to do.
    """

    argument: str
    placeholder: str
    why: str


@dataclass(frozen=True, slots=True)
class Replaced:
    """A call's arguments with values in the place of placeholders.

    Attributes:
        arguments: All of them, those without a placeholder as they were sent.
        names: The arguments that were placeholders, sorted.
        unknown: Those whose values are not known; while there are any, the call must not be made.
    """

    arguments: JsonObject
    names: tuple[str, ...] = ()
    unknown: tuple[Unknown, ...] = ()

    @property
    def digest(self) -> str | None:
        """Changes with the values that were put in; `None` where there was no placeholder."""
        return digest({name: self.arguments[name] for name in self.names}) if self.names else None


def replaced(arguments: JsonObject, plan: Plan | None) -> Replaced:
    """Replace each argument that is exactly a placeholder by the value that it stands for, as JSON.

    Args:
        arguments: As the client sent them.
        plan: The plan against the task that the call names; `None` where the task is not known.
    """
    made = dict(arguments)
    unknown: list[Unknown] = []
    sent = {name: text for name, text in arguments.items() if isinstance(text, str) and is_placeholder(text)}
    for name in sorted(sent):
        value = _value(sent[name], plan)
        if isinstance(value, Found):
            made[name] = value.value
        else:
            unknown.append(Unknown(name, sent[name], value))
    return Replaced(made, tuple(sorted(sent)), tuple(unknown))


def is_placeholder(text: str) -> bool:
    """Whether a text is exactly a placeholder, of whatever workflow."""
    if not text.startswith("<") or not text.endswith(">") or len(text) > LONGEST:
        return False
    return _OUTPUT.fullmatch(text) is not None or _NAMED.fullmatch(text) is not None


def refusal(unknown: tuple[Unknown, ...]) -> str:
    """Why a call was not made, one sentence for each placeholder without a value."""
    sentences = [f"The argument '{item.argument}' is {quoted_error(item.placeholder)}: {item.why}." for item in unknown]
    return " ".join(["Nothing was run.", *sentences])


def _value(text: str, plan: Plan | None) -> Found | str:
    """The value that a placeholder stands for, or why there is none."""
    named = _NAMED.fullmatch(text)
    if named and named["kind"] not in {"prompt arg", "task variable"}:
        return SECRET if named["kind"] == "secret" else SUPPLY
    if plan is None or plan.workflow is None or plan.known is None:
        return f"{NO_STATE}; {GIVE}"
    source = _source(text, plan.workflow)
    if isinstance(source, str):
        return source
    match resolve(source, plan.workflow, plan.known):
        case Found(value) as found:
            # Of a secret argument nothing but its stand-in is known.
            return SECRET if isinstance(value, str) and _SECRET.fullmatch(value) else found
        case NotGiven(name):
            return f"the workflow was started without its argument '{name}'; {GIVE}"
        case NoOutput(step):
            return _no_output(step, plan.known)
        case NoField(step, path):
            return f"the result of step '{step.name}' has no '{path}'; {GIVE}"
        case NoVariable(name):
            return f"the task has no such value in its variable '{name}' now; {GIVE}"


def _no_output(step: Step, known: Known) -> str:
    match known.statuses[step.name]:
        case StepStatus.COMPLETED:
            return f"the result of step '{step.name}' was not kept, or cannot be read now; {GIVE}"
        case StepStatus.PENDING if step.tool is not None:
            return f"step '{step.name}' has no result yet; call {step.tool} first"
        case status:
            return f"step '{step.name}' is {status.value} and has no result; {GIVE}"


def _source(text: str, workflow: Workflow) -> Source | str:
    """The data source that a placeholder stands for, or why there is none."""
    for source in _sources(workflow):
        if placeholder(source, workflow) == text:
            return source
    named = _NAMED.fullmatch(text)
    if named and named["kind"] == "prompt arg":
        return PromptArg(named["name"])
    output = _OUTPUT.fullmatch(text)
    of, path = (output["of"], output["path"]) if output else (text[1:-1], None)
    variable = _VARIABLE.fullmatch(of)
    if variable:
        return TaskVariable(variable["name"], path)
    of_step = _OF_STEP.fullmatch(of)
    steps = [step for step in workflow.steps if (step.name == of_step["step"] if of_step else step.tool == of)]
    if len(steps) == 1:
        return StepOutput(steps[0].binding, path)
    if not steps:
        return f"no step of the workflow makes it; {GIVE}"
    return f"several steps call {of}; say which, as in <output from {of} (step '{steps[0].name}')>"


def _sources(workflow: Workflow) -> Iterator[Source]:
    for step in workflow.steps:
        yield from step.arguments.values()
        yield from step.template_bindings.values()
