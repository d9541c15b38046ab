"""Checks of a server's definitions (docs/workflows.md, "What is checked"): workflows, and types without a schema."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from mcp_baton.exceptions import RegistrationError, WorkflowError
from mcp_baton.hints import did_you_mean
from mcp_baton.tools.prompt import Prompt
from mcp_baton.tools.resource import Resource
from mcp_baton.tools.schema.plain import plain_type
from mcp_baton.tools.schema.prompt_arguments import default_error
from mcp_baton.tools.schema.signature import (
    UnsupportedType,
    answer_cause,
    argument_cause,
    parameter_error_in,
    tool_error,
    type_without_schema,
    unsupported_type,
)
from mcp_baton.tools.tool import Tool
from mcp_baton.workflow.checking import errors_in, not_json, resolved
from mcp_baton.workflow.definition import Workflow
from mcp_baton.workflow.schema_paths import Schema

type Published = Tool | Resource | Prompt


def definitions_without_schema(
    tools: Mapping[str, Tool], resources: Mapping[str, Resource], prompts: Mapping[str, Prompt]
) -> Iterator[tuple[Published, RegistrationError]]:
    """Yield the tools, resources and prompts whose types have no schema, with the error."""
    for tool in tools.values():
        try:
            _ = tool.definition
        except RegistrationError as error:
            yield tool, error
    others: list[tuple[str, Resource | Prompt]] = [
        *((f"resource {uri!r}", resource) for uri, resource in resources.items()),
        *((f"prompt {name!r}", prompt) for name, prompt in prompts.items()),
    ]
    for subject, item in others:
        parameter_error = None if item.input.is_plain else parameter_error_in(subject, item.signature, "conversion")
        if parameter_error is not None:
            yield item, parameter_error


def check_workflows(
    workflows: Mapping[str, Workflow], tools: Mapping[str, Tool], *, in_full: bool
) -> dict[str, Workflow]:
    """Check the workflows. Returns them with the name of each step's tool.

    Raises:
        WorkflowError: the first error, with workflow, step and cause.
    """
    resolved_workflows = {name: resolved(workflow, tools) for name, workflow in workflows.items()}
    for error in _workflow_errors(resolved_workflows, tools, partial(_output, in_full=in_full), in_full=in_full):
        raise error
    return resolved_workflows


def all_workflow_errors(workflows: Mapping[str, Workflow], tools: Mapping[str, Tool]) -> Iterator[WorkflowError]:
    resolved_workflows = {name: resolved(workflow, tools) for name, workflow in workflows.items()}
    return _workflow_errors(resolved_workflows, tools, _output_if_any, in_full=True)


def _workflow_errors(
    workflows: Mapping[str, Workflow],
    tools: Mapping[str, Tool],
    output: Callable[[Tool], Schema | None],
    *,
    in_full: bool,
) -> Iterator[WorkflowError]:
    for workflow in workflows.values():
        yield from errors_in(workflow, tools, workflows, output)
        yield from _argument_errors(workflow, in_full)
    yield from _only_in_errors(workflows, tools)


def _only_in_errors(workflows: Mapping[str, Workflow], tools: Mapping[str, Tool]) -> Iterator[WorkflowError]:
    for tool in tools.values():
        callers = {
            name for name, workflow in workflows.items() if any(step.tool == tool.name for step in workflow.steps)
        }
        for name in tool.only_in:
            if name not in workflows:
                cause = f"the tool {tool.name!r} has only_in={name!r}, which is not a workflow"
                yield WorkflowError(name, cause + did_you_mean(name, workflows))
            elif not workflows[name].durable:
                cause = f"the tool {tool.name!r} has only_in={name!r}, which has no tasks; leave out durable=False"
                yield WorkflowError(name, cause)
        for name in callers - set(tool.only_in) if tool.only_in else ():
            cause = f"the tool {tool.name!r} runs only in {' and '.join(tool.only_in)}; add {name!r} to its only_in"
            yield WorkflowError(name, cause)


def _argument_errors(workflow: Workflow, in_full: bool) -> Iterator[WorkflowError]:
    """Yield the errors of the arguments' types or, if there are none, of their defaults."""
    errors = list(_type_errors(workflow, _surely_unsupported))
    if in_full and not errors:
        errors = list(_type_errors(workflow, _unsupported))
    yield from errors
    for argument in () if errors else workflow.arguments:
        is_json = argument.default is not None and not_json(argument.default) is None
        problem = default_error(argument, in_full=in_full) if is_json else None
        if problem:
            cause = f"the default of the argument {argument.name!r} does not convert to its type: {problem}"
            yield WorkflowError(workflow.name, cause)


def _type_errors(workflow: Workflow, find: Callable[[Any], UnsupportedType | None]) -> Iterator[WorkflowError]:
    for argument in workflow.arguments:
        if unsupported := find(argument.type):
            yield WorkflowError(workflow.name, argument_cause(argument.name, unsupported.part, unsupported.cause))
    for question in workflow.questions:
        if unsupported := find(question.type):
            yield WorkflowError(workflow.name, answer_cause(unsupported.part, unsupported.cause), question.name)


def _surely_unsupported(kind: Any) -> UnsupportedType | None:
    part = None if kind is str else type_without_schema(kind)
    return None if part is None else UnsupportedType(part, None)


def _unsupported(kind: Any) -> UnsupportedType | None:
    """Return why pydantic rejects a type. Plain types are valid without pydantic."""
    return None if plain_type(kind) is not None else unsupported_type(kind, "conversion")


def _output(tool: Tool, in_full: bool) -> Schema | None:
    """Return the schema of a tool's value; `None` if it has none, or if only pydantic can create it and `in_full` is
    false."""
    if tool.output is None or not (in_full or tool.output.is_plain):
        return None
    try:
        return tool.output.value_schema
    except Exception as error:  # code of the author's type may raise anything
        raise tool_error(f"tool {tool.name!r}", tool.signature, error, has_output=True) from error


def _output_if_any(tool: Tool) -> Schema | None:
    try:
        return _output(tool, in_full=True)
    except RegistrationError:
        return None
