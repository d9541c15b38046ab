"""Workflow functions: functions whose calls describe a workflow's steps (docs/workflows.md, Workflow functions)."""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, TypedDict

from mcp_baton.exceptions import WorkflowError
from mcp_baton.protocol.json import Json
from mcp_baton.tools.arguments import Argument
from mcp_baton.tools.labels import name_of
from mcp_baton.tools.schema.sent_values import NO_STATIC_DEFAULT
from mcp_baton.tools.schema.signature import Parameter, is_async, read_signature
from mcp_baton.workflow.definition import Workflow
from mcp_baton.workflow.description_call import describe
from mcp_baton.workflow.recording import SECRET_PARAMETERS, Recording
from mcp_baton.workflow.reference import Reference
from mcp_baton.workflow.sources import PromptArg, recording_of_function
from mcp_baton.workflow.steps.step import Step
from mcp_baton.workflow.steps.tool_step import WORKFLOW_NAME


class WorkflowOptions(TypedDict, total=False):
    """The options of `@server.workflow`, besides its name: see `Workflow`."""

    title: str
    """A name for people."""
    description: str
    """What it does; the docstring of the function by default."""
    durable: bool
    """Whether a run creates a task."""
    tool: bool
    """Whether a durable workflow is published as a tool, too."""
    ask: bool
    """Whether the client's user is asked for arguments that a step lacks."""
    background: bool
    """Whether a worker runs it for clients that support tasks."""
    parallel: int
    """How many independent steps run at the same time."""
    ttl: timedelta
    """How long its tasks live."""
    repeats: timedelta
    """How long after a slow reply an equal call of its tool gets the same task."""


def workflow_of_function(
    function: Callable[..., object], name: str | None, tools: Mapping[str, Any], options: WorkflowOptions
) -> Workflow:
    """Create the workflow that a function describes. The function is called once, with a reference for each
    parameter."""
    name = name or name_of(function)
    parameters = _parameters(name, function)
    text, descriptions = _documentation(function.__doc__ or "")
    arguments = [_argument(parameter, descriptions, function.__annotations__) for parameter in parameters]
    references = {
        parameter.name: Reference(PromptArg(argument.name), name)
        for parameter, argument in zip(parameters, arguments, strict=True)
    }
    secrets = {parameter.name: item.name for parameter, item in zip(parameters, arguments, strict=True) if item.secret}
    SECRET_PARAMETERS[inspect.unwrap(function).__code__] = secrets
    recording = Recording(name, secrets.values())
    steps = _recorded_steps(recording, function, references, tools)
    setattr(getattr(function, "__func__", function), WORKFLOW_NAME, name)
    return Workflow(name=name, arguments=arguments, steps=steps, **{"description": text, **options})  # type: ignore[arg-type]


def _parameters(name: str, function: Callable[..., object]) -> Sequence[Parameter]:
    """The parameters of a workflow function, which become the workflow's arguments."""
    if getattr(function, "__code__", None) is None:
        raise WorkflowError(name, f"{function!r} is not a function that describes a workflow; write def")
    if is_async(function):
        raise _error(name, function, "a workflow function describes steps and waits for none; write def")
    signature = read_signature(function, f"workflow {name!r}")
    if signature.context or signature.dependencies:
        cause = "a workflow function has no Context and no Depends; give them to the tools that it calls"
        raise _error(name, function, cause)
    for parameter in signature.parameters:
        given = parameter.declaration.name
        if given not in ("", parameter.name):
            cause = f"the name of the argument {parameter.name!r} is the parameter's, and not {given!r}"
            raise _error(name, function, f"{cause}; for a description, write Argument(description=…)")
        if parameter.has_factory:
            cause = f"the argument {parameter.name!r} has a default_factory, and a workflow's default is a fixed value"
            raise _error(name, function, f"{cause}; write the value")
    return signature.parameters


def _recorded_steps(
    recording: Recording, function: Callable[..., object], references: Mapping[str, Reference], tools: Mapping[str, Any]
) -> list[Step]:
    """Call the function, and return the steps that it describes."""
    name = recording.workflow
    token = recording_of_function.set(recording)
    try:
        return_value = describe(name, function, references, tools, recording.steps)
    finally:
        recording_of_function.reset(token)
    for error in recording.refusals:
        raise error
    for uncalled_step in recording.uncalled_steps.values():
        raise uncalled_step.error()
    if inspect.isgenerator(return_value):
        raise _error(name, function, "a workflow function runs once, to its end; leave out yield")
    if return_value is not None:
        cause = "a workflow function returns nothing, because the task has all results; leave out return"
        raise _error(name, function, cause)
    return recording.steps


def _error(name: str, function: Callable[..., object], cause: str) -> WorkflowError:
    code = function.__code__
    return WorkflowError(name, f"{code.co_filename}:{code.co_firstlineno}: {cause}")


def _argument(parameter: Parameter, descriptions: Mapping[str, str], annotations: Mapping[str, Any]) -> Argument:
    declaration = parameter.declaration
    kind: Any = parameter.value_type
    if kind is Any and parameter.name not in annotations:
        kind = str
    default: Json = declaration.default if parameter.required else parameter.static_default
    if default is NO_STATIC_DEFAULT:
        default = parameter.default_value  # the check of the workflow says what is wrong with it
    return Argument(
        parameter.published_name,
        declaration.description or parameter.description or descriptions.get(parameter.name, ""),
        required=parameter.required and declaration.default is None,
        type=kind,
        default=default,
        secret=declaration.secret,
        other_names=parameter.accepted_names[1:],
    )


_SECTION: Final = re.compile(r"\n[ \t]*(?:Args|Arguments|Raises|Returns|Yields|Notes?|Examples?):[ \t]*(?=\n|$)")
_ENTRY: Final = re.compile(r"(?P<indent>[ \t]*)\*{0,2}(?P<name>\w+)(?:[ \t]*\([^)]*\))?:[ \t]*(?P<text>.*)")


def _documentation(docstring: str) -> tuple[str, dict[str, str]]:
    """Split a docstring in Google style.

    Returns:
        The text as the end of the sentence "I want to …", and the description of each parameter.
    """
    docstring = f"\n{inspect.cleandoc(docstring)}"
    text, *sections = _SECTION.split(docstring)
    titles = [title.strip(" \t\n:") for title in _SECTION.findall(docstring)]
    descriptions: dict[str, str] = {}
    for title, section in zip(titles, sections, strict=True):
        if title in ("Args", "Arguments"):
            name, margin = "", None
            for line in section.splitlines():
                entry = _ENTRY.fullmatch(line)
                if entry and (margin is None or len(entry["indent"]) <= margin):
                    name, margin = entry["name"], len(entry["indent"])
                    descriptions[name] = entry["text"].strip()
                elif name and line.strip():
                    descriptions[name] = f"{descriptions[name]} {line.strip()}"
    text = text.strip()
    if text[1:2].islower() or text[1:2] == " ":
        text = text[:1].lower() + text[1:]
    return text.removesuffix(".") if text.count(".") == 1 else text, descriptions
