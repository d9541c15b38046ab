"""A server's workflows, held against its tools (docs/workflows.md, "What is checked")."""

from collections.abc import Container, Mapping
from functools import partial

from mcp_baton.exceptions import RegistrationError, WorkflowError
from mcp_baton.server.published.tool import Tool
from mcp_baton.server.schema.prompt_arguments import default_fault
from mcp_baton.workflow.checking import Callee, checked
from mcp_baton.workflow.definition import Workflow
from mcp_baton.workflow.paths import Schema


def checked_workflows(
    workflows: Mapping[str, Workflow], tools: Mapping[str, Tool], twins: Container[str], *, in_full: bool
) -> dict[str, Workflow]:
    """The workflows as they are served: each step with the name of its tool.

    Args:
        workflows: What was added, by name.
        tools: The tools that they may call.
        twins: The names of all workflows that are tools, too.
        in_full: Hold paths and defaults also against types that only pydantic knows, which is imported for it.

    Raises:
        WorkflowError: one cannot work; names workflow, step and cause.
        RegistrationError: a tool's return type has no schema.
    """
    callees = {
        name: Callee(tool.decorated, tool.signature.names, partial(_output, tool, in_full), tool.sets, tool.requires)
        for name, tool in tools.items()
    }
    return {name: _checked(workflow, callees, twins, in_full) for name, workflow in workflows.items()}


def _checked(workflow: Workflow, callees: Mapping[str, Callee], twins: Container[str], in_full: bool) -> Workflow:
    made = checked(workflow, callees, twins)
    _check_defaults(made, in_full)
    return made


def _check_defaults(workflow: Workflow, in_full: bool) -> None:
    for argument in workflow.arguments:
        fault = None if argument.default is None else default_fault(argument, in_full=in_full)
        if fault:
            cause = f"the default of the argument {argument.name!r} does not convert to its type: {fault}"
            raise WorkflowError(workflow.name, cause)


def _output(tool: Tool, in_full: bool) -> Schema | None:
    """The schema of a tool's value; `None` where it says nothing of it, or where only pydantic could say it."""
    if tool.output is None:
        return None
    if tool.output.is_plain:
        return tool.output.value_schema
    if not in_full:
        return None
    from pydantic.errors import PydanticUserError

    try:
        return tool.output.value_schema
    except PydanticUserError as error:
        raise RegistrationError(f"tool {tool.name!r}: its return type has no schema: {error}") from error
