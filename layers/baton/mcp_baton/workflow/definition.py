"""A workflow's definition: immutable, and checked when the server's handler is made (docs/workflows.md)."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property
from typing import Final, cast

from mcp_baton.definition_lines import note_definition
from mcp_baton.exceptions import RegistrationError
from mcp_baton.tasks.record import SCHEMA_VERSION, Progress, StepProgress, StepStatus
from mcp_baton.tasks.texts import within_bytes
from mcp_baton.tools.arguments import Argument
from mcp_baton.tools.labels import FLAG, OPTIONAL_TEXT, TEXT, type_faults, value_text
from mcp_baton.workflow.steps.list_step import ListStep
from mcp_baton.workflow.steps.question import Question
from mcp_baton.workflow.steps.step import Step
from mcp_baton.workflow.steps.tool_step import ToolFunction
from mcp_baton.workflow.steps.wait import Wait

MAX_GOAL_BYTES: Final = 500
"""The longest name and description of a workflow that its tasks have. Each write is charged for it."""

TASK_ACTION: Final = "task_action"
"""The argument of a workflow's tool that selects another action than running it (docs/console.md)."""

ANSWERS: Final = "answers"
"""The argument of a workflow's tool that has the answers to the workflow's questions (docs/workflows.md, Questions)."""

TASK_RESULT: Final = "task_result"
"""The argument of a workflow's tool that has the result with which `task_action` completes a task."""


_OPTION_TYPES: Final = {
    "name": TEXT,
    "description": TEXT,
    "title": OPTIONAL_TEXT,
    **dict.fromkeys(("durable", "tool", "ask", "background"), FLAG),
}


@dataclass(frozen=True, kw_only=True)
class Workflow:
    """An ordered list of steps, published as an MCP prompt of the same name.

    Attributes:
        name: The prompt's name.
        description: Continues the sentence "I want to …": `"refund an order"`.
        arguments: The prompt's arguments.
        steps: At least one, at most 100.
        title: A name for people.
        durable: Whether invoking it creates a task.
        tool: Whether a durable workflow is also published as a tool (docs/workflows.md, As a tool).
        ask: Whether the client's user is asked for missing arguments (docs/workflows.md).
        background: Whether workers run it, if a client that supports tasks calls it as a tool (docs/background.md).
        parallel: How many steps that need nothing of each other run at the same time: 1 to 100 (docs/workflows.md,
            Parallel steps).
        ttl: How long its tasks live; `None` for the operator's default, or as long as its waits need. A client cannot
            shorten the life of a task that waits (docs/waiting.md).
        repeats: How long after a slow reply an equal first call of its tool gets the same task; `None` for the server's
            value, `timedelta(0)` for never (docs/workflows.md, Repeated calls).
        setters: The tools that set a task variable, by its name. The check of the server fills it in.
        faults: What is wrong with `arguments` and `steps`, each with the correction. They have been left out.
    """

    name: str
    description: str
    arguments: Sequence[Argument] = ()
    steps: Sequence[Step] = ()
    title: str | None = None
    durable: bool = True
    tool: bool = True
    ask: bool = False
    background: bool = False
    parallel: int = 1
    ttl: timedelta | None = None
    repeats: timedelta | None = None
    setters: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False, compare=False)
    faults: Sequence[str] = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        wrong_types = type_faults(vars(self), _OPTION_TYPES).values()
        faults = list(dict.fromkeys((*self.faults, *wrong_types)))  # a copy has them already
        arguments = _members("arguments", self.arguments, Argument, faults)
        steps = _members("steps", self.steps, Step, faults)
        vars(self).update(arguments=arguments, steps=steps, faults=tuple(faults))
        note_definition(self)

    @property
    def has_workflow_tool(self) -> bool:
        """Whether the workflow has a tool."""
        return self.durable and self.tool

    @property
    def fingerprint(self) -> str:
        """The fingerprints of the steps, joined by spaces. Tasks store it."""
        return " ".join(step.fingerprint for step in self.steps)

    @property
    def secrets(self) -> frozenset[str]:
        """The names of the secret arguments."""
        return frozenset(argument.name for argument in self.arguments if argument.secret)

    @property
    def questions(self) -> tuple[Argument, ...]:
        """The questions, each with its type, as arguments of the workflow's tool."""
        return tuple(
            Argument(step.name, step.question, type=step.returns) for step in self.steps if isinstance(step, Question)
        )

    @cached_property
    def _by_binding(self) -> Mapping[str, Step]:
        return {step.binding: step for step in reversed(self.steps)}

    @cached_property
    def _by_name(self) -> Mapping[str, Step]:
        return {step.name: step for step in reversed(self.steps)}

    @property
    def callbacks(self) -> Mapping[str, Wait]:
        """The steps that wait for callbacks, by name."""
        waits = (step for step in self.steps if isinstance(step, Wait))
        return {step.name: step for step in waits if step.callback is not None}

    def bound(self, binding: str) -> Step:
        """The step that a binding names. The definition was checked, so the step exists."""
        return self._by_binding[binding]

    def step(self, name: str) -> Step | None:
        """The step of this name, if there is one."""
        return self._by_name.get(name)

    @cached_property
    def is_parallel(self) -> bool:
        """Whether several calls may run at the same time."""
        return max(self.parallel, *(step.parallel for step in self.steps if isinstance(step, ListStep)), 1) > 1

    @cached_property
    def _needs(self) -> Mapping[str, frozenset[str]]:
        previous: list[Step] = []
        needs: dict[str, frozenset[str]] = {}
        for later in self.steps:
            is_serial = self.parallel == 1
            steps = [earlier for earlier in previous if is_serial or later.follows(earlier, self.setters)]
            needs[later.name] = frozenset(earlier.name for earlier in steps)
            previous.append(later)
        return needs

    def needs(self, step: Step) -> frozenset[str]:
        """The names of the earlier steps that must be settled before a step starts.

        With `parallel=1` these are all earlier steps. Otherwise they are those whose outputs it uses, those in `after`,
        and those whose tools may set a task variable that it uses.
        """
        return self._needs[step.name]

    def ready(self, statuses: Mapping[str, StepStatus], started: Container[str] = ()) -> Iterator[Step]:
        """The steps that can run now, in order: all that they need is settled, and they were not started.

        If the steps run one after the other, each step needs all steps before it.
        """
        for step in self.steps:
            if not statuses[step.name].settled:
                needs = self.needs(step) if self.parallel > 1 else ()
                if step.name not in started and all(statuses[name].settled for name in needs):
                    yield step
                if self.parallel == 1:
                    return  # all later steps need this one

    def renamed(self, prefix: str) -> "Workflow":
        """The same workflow with a prefix before its name and its tools' names."""
        steps = [
            step.replace(tool=prefix + step.tool) if step.tool and not isinstance(step.tool, ToolFunction) else step
            for step in self.steps
        ]
        return replace(self, name=prefix + self.name, steps=steps)

    def progress(self, statuses: Sequence[StepStatus]) -> Progress:
        """The value of `_workflow.progress` for these statuses, in the order of the steps."""
        return {
            "goal": within_bytes(f"{self.name}: {self.description}", MAX_GOAL_BYTES),
            "steps": [
                cast("StepProgress", {"name": step.name, **step.label, "status": status.value})
                for step, status in zip(self.steps, statuses, strict=True)
            ],
            "schemaVersion": SCHEMA_VERSION,
        }


def _members(field: str, value: object, kind: type, faults: list[str]) -> tuple[object, ...]:
    """A workflow's `steps` or `arguments`."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        faults.append(_type_fault(field, value, kind))
        return ()
    members = tuple(value)
    others = [member for member in members if not isinstance(member, kind)]
    faults += [_member_fault(field, member) for member in others[:1]]
    return () if others else members


def _type_fault(field: str, value: object, kind: type) -> str:
    if isinstance(value, str) or callable(value):
        return _member_fault(field, value) + f", in a list: {field}=[…]"
    inner = f"{type(value).__name__}(…)" if isinstance(value, kind) else value_text(value)
    return f"{field} is a list; write {field}=[{inner}]"


def _member_fault(field: str, member: object) -> str:
    name = member if isinstance(member, str) else getattr(member, "__name__", None)
    if field == "arguments":
        return f"{value_text(member)} is not an argument; write Argument({repr(name) if name else "'…'"})"
    if name is None:
        return f"{value_text(member)} is not a step; write ToolStep('…', tool=…, arguments={{…}})"
    tool = repr(member) if isinstance(member, str) else name
    return f"{value_text(member)} is not a step; write ToolStep({name!r}, tool={tool}, arguments={{…}})"


def workflow_type_error(thing: object) -> RegistrationError:
    """The error for an object that cannot be added as a workflow."""
    problem = f"add_workflow({value_text(thing)}): this is not a workflow"
    return RegistrationError(f"{problem}; write Workflow(name=…, description=…, steps=[…])")
