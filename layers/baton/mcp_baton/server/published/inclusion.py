"""What one server publishes, included in another (docs/tools.md, Several servers in one)."""

import copy
from collections.abc import Mapping
from dataclasses import replace

from mcp_baton.server.published.registry import Registry
from mcp_baton.server.published.tool import Tool
from mcp_baton.workflow.definition import Workflow
from mcp_baton.workflow.tool_function import ToolFunction


def include(server: Registry, other: Registry, prefix: str) -> None:
    """Add to a server what another one has now. URIs stay as they are.

    Raises:
        RegistrationError: a name or URI is taken, or is not allowed with the prefix. Then nothing was added.
    """
    staged = _copy(server)
    for tool in list(other.tools.values()):
        staged.publish_tool(tool.renamed(prefix + tool.name))
    for resource in list(other.resources.values()):
        staged.publish_resource(resource)
    for prompt in list(other.prompts.values()):
        staged.publish_prompt(prompt.renamed(prefix + prompt.name))
    for workflow in list(other.workflows.values()):
        staged.add_workflow(renamed(workflow, other.tools, prefix))
    for (of, argument), completion in list(other.completions.items()):
        staged.publish_completion(of if of in other.resources else prefix + of, argument, completion)
    server.tools.update(staged.tools)
    server.resources.update(staged.resources)
    server.prompts.update(staged.prompts)
    server.workflows.update(staged.workflows)
    server.completions.update(staged.completions)


def renamed(workflow: Workflow, tools: Mapping[str, Tool], prefix: str) -> Workflow:
    """A workflow under another name, with its steps' tools under theirs."""
    steps = [
        step if step.tool is None else replace(step, tool=_name_of(step.tool, tools, prefix)) for step in workflow.steps
    ]
    return replace(workflow, name=prefix + workflow.name, steps=steps)


def _name_of(tool: str, tools: Mapping[str, Tool], prefix: str) -> str:
    """The new name of a step's tool. A function that is no tool, or several, is left to `Server.check`."""
    if not isinstance(tool, ToolFunction):
        return prefix + tool
    names = [name for name, published in tools.items() if published.decorated is tool.function]
    return prefix + names[0] if len(names) == 1 else tool


def _copy(server: Registry) -> Registry:
    made = copy.copy(server)
    made.tools, made.resources = dict(server.tools), dict(server.resources)
    made.prompts, made.workflows = dict(server.prompts), dict(server.workflows)
    made.completions = dict(server.completions)
    return made
