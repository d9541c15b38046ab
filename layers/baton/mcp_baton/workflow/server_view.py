"""What a caller sees of a server, and which tasks of its owner it may use (docs/tools.md, Scopes).

One owner may have several tokens with different scopes.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct, structs

from mcp_baton.exceptions import RegistrationError, WorkflowError
from mcp_baton.protocol.json import JsonObject
from mcp_baton.tasks.record import EXTRA_PREFIX, ITEMS_PREFIX, StepStatus, TaskRecord, steps_of
from mcp_baton.tools.approval import AFTER_WAITS_MS
from mcp_baton.tools.arguments import TASK_ARGUMENT, TASK_ID, Argument
from mcp_baton.tools.completion import Completion
from mcp_baton.tools.labels import FLAG, OPTIONAL_TEXT, TEXT, check_icons, check_types, scopes_in
from mcp_baton.tools.prompt import Prompt
from mcp_baton.tools.resource import Resource
from mcp_baton.tools.tool import Tool
from mcp_baton.workflow.times import hours_text, milliseconds

if TYPE_CHECKING:
    from mcp_baton.workflow.definition import Workflow
    from mcp_baton.workflow.steps.step import Step
    from mcp_baton.workflow.workflow_tool import WorkflowTool

type TaskIds = Literal["meta", "text"]
"""Where clients read and write a task's id: only in `_meta`, or also in prompts' texts and arguments."""

_OPTION_TYPES: Final = {
    **dict.fromkeys(("name", "version"), TEXT),
    **dict.fromkeys(("title", "instructions", "website_url"), OPTIONAL_TEXT),
    "mask_errors": FLAG,
}


class ServerOptions(Struct, frozen=True):
    """The options of a server: the arguments of `Server`, which describes them. Raises `RegistrationError` if one of
    them has a value that it cannot have."""

    name: str
    version: str
    title: str | None
    instructions: str | None
    website_url: str | None
    icons: Sequence[JsonObject]
    mask_errors: bool
    reply_budget_s: float
    task_ids: TaskIds
    poll_interval_s: float | None
    result_wait_s: float
    placeholder_bytes: int
    repeats: timedelta

    def __post_init__(self) -> None:
        check_types(structs.asdict(self), _OPTION_TYPES)
        check_icons(self.icons)
        if self.task_ids not in ("meta", "text"):
            raise RegistrationError(f"task_ids={self.task_ids!r} is not possible; use 'meta' or 'text'")
        _check_number("reply_budget_s", self.reply_budget_s, infinite=True)
        if self.poll_interval_s is not None:
            _check_number("poll_interval_s", self.poll_interval_s)
        _check_number("result_wait_s", self.result_wait_s, zero=True)
        _check_number("placeholder_bytes", self.placeholder_bytes, int, zero=True)
        repeats: object = self.repeats
        if not isinstance(repeats, timedelta) or repeats < timedelta():
            remedy = "write repeats=timedelta(minutes=2), or timedelta(0)"
            raise RegistrationError(f"repeats={repeats!r} is not a time; {remedy}")


def _check_number(
    option: str, value: float, kinds: Any = (int, float), *, zero: bool = False, infinite: bool = False
) -> None:
    """Check that a value is a number above 0; with `zero` also 0, with `infinite` also infinity."""
    is_number = isinstance(value, kinds) and not isinstance(value, bool)
    if not is_number or not (value > 0 or (zero and value == 0)) or (value * 1000 == math.inf and not infinite):
        unit = "bytes" if kinds is int else "seconds"
        raise RegistrationError(
            f"{option}={value!r} is not possible; give a number of {unit}, {'0 or more' if zero else 'above 0'}"
        )


class ServerView(Struct, frozen=True):
    """What a caller sees of a server: see `Server`. Definitions whose scopes the caller lacks are omitted.

    Attributes:
        workflow_tools: A cache of the workflows as tools, by name.
        is_filtered: Whether the view depends on the caller's scopes.
        lacks_tools: Whether a tool is omitted.
    """

    options: ServerOptions
    tools: Mapping[str, Tool]
    resources: Mapping[str, Resource]
    prompts: Mapping[str, Prompt]
    workflows: "Mapping[str, Workflow]"
    completions: Mapping[tuple[str, str], Completion]
    workflow_tools: "dict[str, WorkflowTool]"
    approval_listeners: Sequence[Callable[[Any], object]]
    is_filtered: bool = False
    lacks_tools: bool = False

    def visible_to(self, claims: Mapping[str, object]) -> "ServerView":
        """Return what a caller with these claims sees."""
        published: list[Tool | Resource | Prompt] = [*self.tools.values(), *self.resources.values()]
        published += self.prompts.values()
        if not any(item.requires for item in published):
            return self
        scopes = scopes_in(claims)
        tools = {name: tool for name, tool in self.tools.items() if tool.requires <= scopes}
        workflows = {
            name: workflow
            for name, workflow in self.workflows.items()
            if all(step.tool is None or step.tool in tools for step in workflow.steps)
        }
        return structs.replace(
            self,
            tools=tools,
            resources={uri: resource for uri, resource in self.resources.items() if resource.requires <= scopes},
            prompts={name: prompt for name, prompt in self.prompts.items() if prompt.requires <= scopes},
            workflows=workflows,
            is_filtered=True,
            lacks_tools=len(tools) < len(self.tools),
        )

    def hides(self, task: TaskRecord) -> bool:
        """Whether the caller lacks a scope of a task, so that it must not use it."""
        return self.lacks_tools and not may_use(self, task)

    @property
    def tools_with_task_id(self) -> frozenset[str]:
        """The names of the tools whose calls may name their task in an argument: a durable workflow uses them, and they
        have no parameter of that name."""
        names = {step.tool for workflow in self.workflows.values() if workflow.durable for step in workflow.steps}
        return frozenset(name for name, tool in self.tools.items() if name in names and not tool.has_parameter(TASK_ID))

    @property
    def tools_with_approval(self) -> frozenset[str]:
        """The names of the tools with an approval, of their own or of a step."""
        of_steps = {step.tool for workflow in self.workflows.values() for step in workflow.steps if step.approval}
        return frozenset(name for name, tool in self.tools.items() if tool.approval or name in of_steps)

    @property
    def approval_groups(self) -> frozenset[str]:
        """The groups whose approval a tool or a step needs."""
        approvals = [tool.approval for tool in self.tools.values()]
        approvals += [step.approval for workflow in self.workflows.values() for step in workflow.steps]
        return frozenset(approval.audience for approval in approvals if approval is not None)

    def waits_ms(self, workflow: "Workflow") -> int:
        """Return how long a run may wait for approvals, callbacks and times, milliseconds: the sum on its longest
        path."""
        return sum(wait_ms for _, wait_ms in self._longest_waits(workflow))

    def _longest_waits(self, workflow: "Workflow") -> tuple[tuple[str, int], ...]:
        """Return the waits on the longest path of a workflow: what waits, and for how long, milliseconds."""
        paths: dict[str, tuple[tuple[str, int], ...]] = {}

        def length_ms(path: tuple[tuple[str, int], ...]) -> int:
            return sum(wait_ms for _, wait_ms in path)

        waits = {step.name: self._waits_of(step) for step in workflow.steps}
        if not any(waits.values()):
            return ()
        for step in workflow.steps:
            before = max((paths[name] for name in workflow.needs(step)), key=length_ms, default=())
            paths[step.name] = (*before, *waits[step.name])
        return max(paths.values(), key=length_ms)

    def _waits_of(self, step: "Step") -> tuple[tuple[str, int], ...]:
        """Return what a step itself waits for, and for how long at the most, milliseconds."""
        tool = self.tools.get(step.tool or "")
        approval = (tool and tool.approval) or step.approval
        if approval:
            return ((f"the approval of {step.name!r}", milliseconds(approval.expires)),)
        return ((repr(step.name), step.longest_wait_ms),) if step.longest_wait_ms else ()

    def check_lifetimes(self, max_ttl_ms: int) -> None:
        """Check that the tasks of each workflow can live as long as its waits.

        Raises:
            WorkflowError: a workflow waits longer than its `ttl` or the operator's limit allows.
        """
        for workflow in self.workflows.values():
            from mcp_baton.workflow.steps.wait import Wait

            waits = self._longest_waits(workflow) if any(isinstance(step, Wait) for step in workflow.steps) else ()
            needed_ms = sum(wait_ms for _, wait_ms in waits) + AFTER_WAITS_MS if waits else 0
            ttl_ms = needed_ms if workflow.ttl is None else milliseconds(workflow.ttl)
            parts = [f"{hours_text(wait_ms)} for {subject}" for subject, wait_ms in waits]
            needs = f"it needs {hours_text(needed_ms)} ({', '.join(parts)}, and {hours_text(AFTER_WAITS_MS)} more)"
            shorter = "lower the approval's expires or the wait's time"
            if needed_ms > ttl_ms:
                cause = f"{needs}, and its ttl is {hours_text(ttl_ms)}; make ttl longer, or {shorter}"
                raise WorkflowError(workflow.name, cause)
            if ttl_ms > max_ttl_ms:
                needs = needs if workflow.ttl is None else f"its ttl is {hours_text(ttl_ms)}"
                shorter = shorter if workflow.ttl is None else "make ttl shorter"
                cause = f"{needs}, and the operator allows {hours_text(max_ttl_ms)}"
                raise WorkflowError(workflow.name, f"{cause}; raise MaxTtlMs (BATON_MAX_TTL_MS), or {shorter}")

    @property
    def workflow_tool_names(self) -> list[str]:
        return [name for name, workflow in self.workflows.items() if workflow.has_workflow_tool]

    def workflow_tool(self, name: str) -> "WorkflowTool | None":
        workflow = self.workflows.get(name)
        if workflow is None or not workflow.has_workflow_tool:
            return None
        tool = self.workflow_tools.get(name)
        if tool is None or tool.workflow is not workflow:
            from mcp_baton.workflow.workflow_tool import WorkflowTool

            tool = self.workflow_tools[name] = WorkflowTool(workflow, self.tools)
        return tool

    def required(self, tool: str) -> frozenset[str]:
        return self.tools[tool].signature.required

    def carries(self, size: int) -> bool:
        """Whether placeholders may put this many bytes into one call."""
        return size <= self.options.placeholder_bytes

    @property
    def has_jobs(self) -> bool:
        tools = any(tool.tasks.support != "forbidden" for tool in self.tools.values())
        return tools or any(workflow.background for workflow in self.workflows.values())

    @property
    def needs_store(self) -> bool:
        return self.has_jobs or any(workflow.durable for workflow in self.workflows.values())

    def names_tasks_in_text(self, workflow: "Workflow") -> bool:
        """Whether a workflow's prompt names its task in the handoff, and takes its id as an argument."""
        return workflow.durable and self.options.task_ids == "text"

    def prompt_arguments(self, workflow: "Workflow") -> Sequence[Argument]:
        return [*workflow.arguments, TASK_ARGUMENT] if self.names_tasks_in_text(workflow) else workflow.arguments

    def arguments_of(self, name: str) -> frozenset[str]:
        if name in self.resources:
            return frozenset(self.resources[name].variables)
        if name in self.workflows:
            return frozenset(argument.name for argument in self.prompt_arguments(self.workflows[name]))
        prompt = self.prompts.get(name)
        return frozenset(argument.name for argument in prompt.arguments) if prompt else frozenset()


def may_use(view: ServerView, task: TaskRecord) -> bool:
    """Whether a caller may use a task: it must see the task's tool, or the task's workflow and so all tools of it.

    It must also see each tool whose result the task contains: those of steps of an earlier definition, and of other
    recorded calls. The scopes of a removed tool are unknown, so a caller who lacks any scope does not see it.
    """
    if task.workflow is not None and task.workflow not in view.workflows:
        return False
    tool = None if task.job is None else task.job.work.tool
    if tool is not None and tool not in view.tools and tool not in view.workflow_tool_names:
        return False
    run_tools = {
        step["tool"]
        for step in steps_of(task)
        if "tool" in step
        # The elements of a list may have results before the step has ended.
        and (step["status"] != StepStatus.PENDING or f"{ITEMS_PREFIX}{step['name']}" in task.variables)
    }
    extra_tools = {name.removeprefix(EXTRA_PREFIX) for name in task.variables if name.startswith(EXTRA_PREFIX)}
    return run_tools | extra_tools <= view.tools.keys()
