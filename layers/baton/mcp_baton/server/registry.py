"""What a server publishes, each by its name: tools, resources, prompts, workflows and completions."""

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal

from mcp_baton.exceptions import RegistrationError, WorkflowError
from mcp_baton.server.definitions.completion import Completion
from mcp_baton.server.definitions.prompt import Prompt
from mcp_baton.server.definitions.resource import Resource
from mcp_baton.server.definitions.tool import Tool
from mcp_baton.server.definitions.workflow_checks import checked_workflows
from mcp_baton.server.definitions.workflow_tool import TO_GO_ON, WorkflowTool
from mcp_baton.tasks.record import ENGINE_PREFIX
from mcp_baton.tasks.variables import MCP_PREFIX
from mcp_baton.workflow.definition import TASK_ID, Argument, ToolFunction, Workflow

type Handles = Literal["meta", "text"]
"""Where clients read and write a task's id: in `_meta` alone, or in prompts' texts and arguments, too."""

GO_ON: Final = Argument(TASK_ID, TO_GO_ON)


class Registry:
    """What a server publishes.

    Attributes:
        tools: By name.
        resources: By URI, or by URI template.
        prompts: By name.
        workflows: By name, which no prompt has.
        handles: Where clients read and write a task's id: in `_meta`, or in texts and arguments, too.
        completions: By what they complete (a prompt, a workflow or a URI template) and the name of its argument.
        is_view: Whether this is what one caller sees of a server, by their scopes.
        lacks_tools: Whether the caller lacks the scopes of some tool, so that it is not here.
    """

    def __init__(self) -> None:
        self.tools: dict[str, Tool] = {}
        self.resources: dict[str, Resource] = {}
        self.prompts: dict[str, Prompt] = {}
        self.workflows: dict[str, Workflow] = {}
        self.completions: dict[tuple[str, str], Completion] = {}
        self.handles: Handles = "meta"
        self.is_view = False
        self.lacks_tools = False
        self._workflow_tools: dict[str, WorkflowTool] = {}
        self._is_closed = False

    def publish_tool(self, tool: Tool) -> None:
        """Add a tool that has been made.

        Raises:
            RegistrationError: the name is taken, or the server is closed.
        """
        self._refuse_closed("tool", tool.name)
        _refuse_taken("tool", tool.name, self.tools.get(tool.name))
        self.tools[tool.name] = tool

    def publish_resource(self, resource: Resource) -> None:
        """Add a resource that has been made.

        Raises:
            RegistrationError: the URI is taken, or the server is closed.
        """
        self._refuse_closed("resource", resource.uri)
        _refuse_taken("resource", resource.uri, self.resources.get(resource.uri))
        self.resources[resource.uri] = resource

    def publish_prompt(self, prompt: Prompt) -> None:
        """Add a prompt that has been made.

        Raises:
            RegistrationError: the name is taken, or the server is closed.
        """
        self._refuse_closed("prompt", prompt.name)
        _refuse_taken("prompt", prompt.name, self.prompts.get(prompt.name) or self.workflows.get(prompt.name))
        self.prompts[prompt.name] = prompt

    def publish_completion(self, of: str, argument: str, completion: Completion) -> None:
        """Add a completion that has been made.

        Raises:
            RegistrationError: the argument has one, or the server is closed.
        """
        self._refuse_closed("completion", f"{of} {argument}")
        _refuse_taken("completion", f"{of} {argument}", self.completions.get((of, argument)))
        self.completions[of, argument] = completion

    def add_workflow(self, workflow: Workflow) -> Workflow:
        """Publish a workflow as a prompt of the same name. Its tools may be registered before it or after it.

        It is checked with all others by `handler(server)`.

        Raises:
            RegistrationError: it is no workflow, or the server is closed.
            WorkflowError: the name is taken.
        """
        given: object = workflow
        if not isinstance(given, Workflow):
            from mcp_baton.workflow.misuse import not_added

            raise not_added(given)
        self._refuse_closed("workflow", workflow.name)
        if workflow.name in self.prompts or workflow.name in self.workflows:
            raise WorkflowError(workflow.name, "the name is already taken by a prompt; give it another")
        self.workflows |= {workflow.name: workflow}
        return workflow

    def close(self) -> None:
        """Refuse everything that is added from now on. `handler(server)` does this after its checks."""
        self._is_closed = True

    def _refuse_closed(self, kind: str, name: str) -> None:
        if self._is_closed:
            raise RegistrationError(
                f"{kind} {name!r}: handler(server) has checked and closed the server; add it before that call"
            )

    def check(self, *, in_full: bool = True) -> None:
        """Refuse workflows that cannot work, and give each step whose tool is a function that tool's name.

        Args:
            in_full: Ask pydantic, too: about types, paths into what tools return and defaults that only it knows.
                `handler(server)` does not, since importing pydantic is most of a cold start; `baton serve` and
                `mcp_baton.testing` do (docs/workflows.md, "What is checked").

        Raises:
            WorkflowError: one cannot work; names workflow, step and cause.
            RegistrationError: a type of a tool, resource or prompt has no schema; names it and the parameter.
        """
        if in_full:
            from mcp_baton.server.definitions.descriptions import undescribed

            for _, error in undescribed(self.tools, self.resources, self.prompts):
                raise error
        self.workflows = checked_workflows(self.workflows, self.tools, self.workflow_tool_names, in_full=in_full)

    @property
    def tools_with_handle(self) -> frozenset[str]:
        """The names of the tools whose calls may name their task by an argument: durable workflows use them, and they
        have no parameter of that name themselves."""
        used = {step.tool for workflow in self.workflows.values() if workflow.durable for step in workflow.steps}
        return frozenset(name for name, tool in self.tools.items() if name in used and not tool.has_parameter(TASK_ID))

    @property
    def workflow_tool_names(self) -> list[str]:
        """The names of the workflows that are tools, too, in the order of their registration."""
        return [name for name, workflow in self.workflows.items() if workflow.has_workflow_tool]

    def twin(self, name: str) -> WorkflowTool | None:
        """A workflow as a tool; `None` where there is none of this name, or it is none."""
        workflow = self.workflows.get(name)
        if workflow is None or not workflow.has_workflow_tool:
            return None
        made = self._workflow_tools.get(name)
        if made is None or made.workflow is not workflow:
            made = self._workflow_tools[name] = WorkflowTool(workflow, self.tools)
        return made

    @property
    def has_jobs(self) -> bool:
        """Whether some call of a tool, or of a workflow as a tool, may become a task of its own."""
        tools = any(tool.tasks.support != "forbidden" for tool in self.tools.values())
        return tools or any(workflow.background for workflow in self.workflows.values())

    @property
    def needs_store(self) -> bool:
        """Whether the server has durable workflows or background tools."""
        return self.has_jobs or any(workflow.durable for workflow in self.workflows.values())

    def names_tasks_in_text(self, workflow: Workflow) -> bool:
        """Whether a workflow's prompt names its task in the handoff, and takes its id as an argument."""
        return workflow.durable and self.handles == "text"

    def prompt_arguments(self, workflow: Workflow) -> Sequence[Argument]:
        """The arguments of a workflow's prompt."""
        return [*workflow.arguments, GO_ON] if self.names_tasks_in_text(workflow) else workflow.arguments

    def arguments_of(self, of: str) -> frozenset[str]:
        """The names of the arguments of a prompt or workflow, or of the variables of a resource's template."""
        if of in self.resources:
            return frozenset(self.resources[of].variables)
        if of in self.workflows:
            return frozenset(argument.name for argument in self.prompt_arguments(self.workflows[of]))
        published = self.prompts.get(of)
        return frozenset(argument.name for argument in published.arguments) if published else frozenset()

    def check_argument(self, of: str, argument: str) -> None:
        """Refuse what has no completion.

        Raises:
            RegistrationError: nothing is called `of`, or it has no such argument.
        """
        known = self.arguments_of(of)
        if argument in known:
            return
        from mcp_baton.hints import meant

        named = {**self.prompts, **self.workflows, **self.resources}
        if of in named:
            cause = f"it has no argument {argument!r}{meant(argument, sorted(known))}"
        else:
            cause = f"no prompt, workflow or resource before it is called so{meant(of, named)}"
        raise RegistrationError(f"completion of {of!r}: {cause}")


def seen_by[R: Registry](server: R, claims: Mapping[str, object]) -> R:
    """The server as a caller sees it: without what they lack the scopes for, as if it had never been registered."""
    kinds: tuple[Iterable[Tool | Resource | Prompt], ...] = (
        server.tools.values(),
        server.resources.values(),
        server.prompts.values(),
    )
    if not any(item.requires for published in kinds for item in published):
        return server
    import copy

    from mcp_baton.server.definitions.labels import scopes_in

    has = scopes_in(claims)
    seen = copy.copy(server)
    seen.is_view = True
    seen.tools = {name: tool for name, tool in server.tools.items() if tool.requires <= has}
    seen.lacks_tools = len(seen.tools) < len(server.tools)
    seen.resources = {uri: resource for uri, resource in server.resources.items() if resource.requires <= has}
    seen.prompts = {name: prompt for name, prompt in server.prompts.items() if prompt.requires <= has}
    seen.workflows = {
        name: workflow
        for name, workflow in server.workflows.items()
        if all(step.tool is None or step.tool in seen.tools for step in workflow.steps)
    }
    return seen


def _refuse_taken(kind: str, name: str, by: object) -> None:
    """Refuse a name that something else has."""
    if by is not None:
        from mcp_baton.hints import place_of

        place = place_of(getattr(by, "function", None))
        where = f" by {place}" if place else ""
        raise RegistrationError(f"{kind} {name!r}: the name is already taken{where}; give it another")


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


RESERVED: Final = (ENGINE_PREFIX, MCP_PREFIX)


def set_by_tool(names: Sequence[str], what: str) -> tuple[str, ...]:
    """What `sets=` says.

    Args:
        names: The names of task variables.
        what: The tool, for errors.

    Raises:
        RegistrationError: it is one text, or holds what is no name of a variable that a tool can set.
    """
    if isinstance(names, str):
        raise RegistrationError(f"{what}: sets is a list of task variables; write sets=[{names!r}]")
    for name in names:
        if not isinstance(name, str) or not name:
            raise RegistrationError(f"{what}: sets has {name!r}; a task variable's name is a text that is not empty")
        if name.startswith(RESERVED):
            raise RegistrationError(f"{what}: sets has {name!r}; names with this beginning are not a tool's to set")
    return tuple(dict.fromkeys(names))
