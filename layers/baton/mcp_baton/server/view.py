"""`ServerView`: what one caller sees of a server (docs/tools.md, Scopes)."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct

from mcp_baton.protocol.budget import PLACEHOLDER_BYTES
from mcp_baton.protocol.json import JsonObject
from mcp_baton.server.definitions.completion import Completion
from mcp_baton.server.definitions.prompt import Prompt
from mcp_baton.server.definitions.resource import Resource
from mcp_baton.server.definitions.tool import Tool
from mcp_baton.server.definitions.workflow_tool import TO_GO_ON, WorkflowTool
from mcp_baton.workflow.definition import TASK_ID, Argument, Workflow

type TaskIds = Literal["meta", "text"]
"""Where clients read and write a task's id: only in `_meta`, or also in prompts' texts and arguments."""

TASK_ARGUMENT: Final = Argument(TASK_ID, TO_GO_ON)


class Options(Struct, frozen=True):
    """The options of a server: the arguments of `Server`, which describes them."""

    name: str
    version: str = "0.0.0"
    title: str | None = None
    instructions: str | None = None
    website_url: str | None = None
    icons: Sequence[JsonObject] = ()
    mask_errors: bool = True
    reply_budget_s: float = 50
    task_ids: TaskIds = "meta"
    poll_interval_s: float | None = None
    result_wait_s: float = 30
    placeholder_bytes: int = PLACEHOLDER_BYTES


class ServerView(Struct, frozen=True):
    """What one caller sees of a server. What the caller lacks the scopes for is left out, as if it did not exist.

    Attributes:
        options: The server's options.
        tools: By name.
        resources: By URI, or by URI template.
        prompts: By name.
        workflows: By name.
        completions: By what they complete (a prompt, a workflow or a URI template) and the name of its argument.
        is_filtered: Whether the view depends on the caller's scopes.
        lacks_tools: Whether a tool is left out.
        workflow_tools: The workflows as tools that were made so far, by name.
    """

    options: Options
    tools: Mapping[str, Tool]
    resources: Mapping[str, Resource]
    prompts: Mapping[str, Prompt]
    workflows: Mapping[str, Workflow]
    completions: Mapping[tuple[str, str], Completion]
    workflow_tools: dict[str, WorkflowTool]
    is_filtered: bool = False
    lacks_tools: bool = False

    @property
    def tools_with_task_id(self) -> frozenset[str]:
        """The names of the tools whose calls may name their task by an argument: a durable workflow uses them, and they
        have no parameter of that name."""
        used = {step.tool for workflow in self.workflows.values() if workflow.durable for step in workflow.steps}
        return frozenset(name for name, tool in self.tools.items() if name in used and not tool.has_parameter(TASK_ID))

    @property
    def workflow_tool_names(self) -> list[str]:
        """The names of the workflows that are also tools, in the order of their registration."""
        return [name for name, workflow in self.workflows.items() if workflow.has_workflow_tool]

    def workflow_tool(self, name: str) -> WorkflowTool | None:
        """A workflow as a tool; `None` if there is no such workflow, or if it is not a tool."""
        workflow = self.workflows.get(name)
        if workflow is None or not workflow.has_workflow_tool:
            return None
        made = self.workflow_tools.get(name)
        if made is None or made.workflow is not workflow:
            made = self.workflow_tools[name] = WorkflowTool(workflow, self.tools)
        return made

    def required(self, tool: str) -> frozenset[str]:
        """The names of a tool's required arguments."""
        return self.tools[tool].signature.required

    def carries(self, size: int) -> bool:
        """Whether placeholders may put this many bytes into one call."""
        return size <= self.options.placeholder_bytes

    @property
    def has_jobs(self) -> bool:
        """Whether a call of a tool, or of a workflow as a tool, may become a background task."""
        tools = any(tool.tasks.support != "forbidden" for tool in self.tools.values())
        return tools or any(workflow.background for workflow in self.workflows.values())

    @property
    def needs_store(self) -> bool:
        """Whether there are durable workflows or background tools."""
        return self.has_jobs or any(workflow.durable for workflow in self.workflows.values())

    def names_tasks_in_text(self, workflow: Workflow) -> bool:
        """Whether a workflow's prompt names its task in the handoff, and takes its id as an argument."""
        return workflow.durable and self.options.task_ids == "text"

    def prompt_arguments(self, workflow: Workflow) -> Sequence[Argument]:
        """The arguments of a workflow's prompt."""
        return [*workflow.arguments, TASK_ARGUMENT] if self.names_tasks_in_text(workflow) else workflow.arguments

    def arguments_of(self, of: str) -> frozenset[str]:
        """The names of the arguments of a prompt or workflow, or of the variables of a resource's template."""
        if of in self.resources:
            return frozenset(self.resources[of].variables)
        if of in self.workflows:
            return frozenset(argument.name for argument in self.prompt_arguments(self.workflows[of]))
        prompt = self.prompts.get(of)
        return frozenset(argument.name for argument in prompt.arguments) if prompt else frozenset()
