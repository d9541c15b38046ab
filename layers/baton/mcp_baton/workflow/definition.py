"""A workflow's definition: immutable, checked when it is added to a server (docs/workflows.md)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, cast

from mcp_baton.exceptions import RegistrationError, WorkflowError
from mcp_baton.protocol.json import Json, dumps
from mcp_baton.tasks.record import SCHEMA_VERSION, Progress, StepProgress, StepStatus
from mcp_baton.workflow.retry import Retry
from mcp_baton.workflow.sources import Constant, PromptArg, Source, StepOutput, TaskVariable, placeholders, sources_in

MAX_STEPS = 100
"""Steps that one workflow may have: what one `UpdateExpression` of 4 KB surely holds."""


@dataclass(frozen=True, slots=True)
class Argument:
    """A prompt argument.

    Attributes:
        name: Its name.
        description: What it is, for the person or model that fills it in.
        required: Whether the prompt can be used without it.
        type: What the string that a client sends is converted to: any type that pydantic knows.
    """

    name: str
    description: str = ""
    required: bool = False
    type: Any = str


@dataclass(frozen=True, slots=True, init=False)
class Step:
    """One step: a tool call with argument sources, or one or more resources to fetch, or both.

    Attributes:
        name: Unique in its workflow.
        tool: The tool to call; `None` for a step that only fetches resources.
        arguments: Sources by the tool's parameter.
        binding: The name under which later steps refer to this step's output; the step's own unless given.
        guidance: What a model should bear in mind when it makes this call itself; `{arg}` is replaced.
        resources: URIs to fetch before the tool is called; `{name}` is replaced from `template_bindings`, else by a
            prompt argument.
        template_bindings: Sources for the `{name}`s in `resources`. One may be the step's own output: such resources
            are fetched after the tool.
        retryable: Whether a failure may pass when the call is simply made again.
        checkpoint: Write the batch so far right after this step: for effects that must not happen twice.
        retry: How often, and after which waits, the tool is called again within a run; `None` for one call.
    """

    name: str
    tool: str | None
    arguments: Mapping[str, Source]
    binding: str
    guidance: str | None
    resources: Sequence[str]
    template_bindings: Mapping[str, Source]
    retryable: bool
    checkpoint: bool
    retry: Retry | None

    def __init__(
        self,
        name: str,
        *,
        tool: str | None = None,
        arguments: Mapping[str, Source] | None = None,
        binding: str | None = None,
        guidance: str | None = None,
        resources: Sequence[str] = (),
        template_bindings: Mapping[str, Source] | None = None,
        retryable: bool = False,
        checkpoint: bool = False,
        retry: Retry | None = None,
    ) -> None:
        _check_retry(name, tool, retry)
        if isinstance(resources, str):
            raise TypeError(f"step {name!r}: resources is a list of URIs; write resources=[{resources!r}]")
        _freeze(
            self,
            name=name,
            tool=tool,
            arguments=MappingProxyType(dict(arguments or {})),
            binding=binding or name,
            guidance=guidance,
            resources=tuple(resources),
            template_bindings=MappingProxyType(dict(template_bindings or {})),
            retryable=retryable,
            checkpoint=checkpoint,
            retry=retry,
        )

    def read_after(self, resource: str) -> bool:
        """Whether one of the step's resources can only be fetched after its tool: its URI needs the tool's output."""
        sources = (self.template_bindings.get(name) for name in placeholders(resource))
        return any(isinstance(source, StepOutput) and source.binding == self.binding for source in sources)

    @property
    def fingerprint(self) -> str:
        """Eight hex digits that change with what the step does; its texts for readers do not count."""
        from hashlib import sha256

        parts = [
            self.name,
            self.tool,
            {name: _describe(source) for name, source in self.arguments.items()},
            self.binding,
            list(self.resources),
            {name: _describe(source) for name, source in self.template_bindings.items()},
        ]
        return sha256(dumps(parts).encode()).hexdigest()[:8]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """An ordered list of steps, published as an MCP prompt of the same name.

    Attributes:
        name: The prompt's name.
        description: Continues the sentence "I want to …": `"refund an order"`.
        arguments: The prompt's arguments.
        steps: At least one, at most `MAX_STEPS`.
        title: A name for people.
        durable: Whether invoking it creates a task.
        tool: Whether it is published as a tool, too (contract section 11; takes effect with a later release).
    """

    name: str
    description: str
    arguments: Sequence[Argument] = ()
    steps: Sequence[Step] = ()
    title: str | None = None
    durable: bool = True
    tool: bool = True

    def __post_init__(self) -> None:
        _freeze(self, arguments=tuple(self.arguments), steps=tuple(self.steps))

    @property
    def fingerprint(self) -> str:
        """One fingerprint a step, joined by spaces: what a task remembers of its definition."""
        return " ".join(step.fingerprint for step in self.steps)

    def bound(self, binding: str) -> Step:
        """The step that a binding names; the definition has been checked, so there is one."""
        return next(step for step in self.steps if step.binding == binding)

    def step(self, name: str) -> Step | None:
        """The step of this name, if there is one."""
        return next((step for step in self.steps if step.name == name), None)

    def progress(self, statuses: Sequence[StepStatus]) -> Progress:
        """The value of `_workflow.progress` for these statuses, in the order of the steps."""
        return {
            "goal": f"{self.name}: {self.description}",
            "steps": [_step_progress(step, status) for step, status in zip(self.steps, statuses, strict=True)],
            "schemaVersion": SCHEMA_VERSION,
        }


def check(workflow: Workflow, parameters: Mapping[str, frozenset[str]]) -> None:
    """Refuse a workflow that cannot work.

    Args:
        workflow: What is being added.
        parameters: The server's tools, and the names of the arguments that each takes.

    Raises:
        WorkflowError: naming workflow, step and cause.
    """
    _check_size(workflow)
    _check_unique(workflow)
    arguments = frozenset(argument.name for argument in workflow.arguments)
    before: set[str] = set()
    for step in workflow.steps:
        for cause in _step_faults(step, parameters, arguments):
            raise WorkflowError(workflow.name, cause, step.name)
        for cause in _reference_faults(workflow, step, before):
            raise WorkflowError(workflow.name, cause, step.name)
        before.add(step.binding)


def _check_size(workflow: Workflow) -> None:
    if not workflow.steps:
        raise WorkflowError(workflow.name, "it has no steps; give it at least one")
    if len(workflow.steps) > MAX_STEPS:
        raise WorkflowError(workflow.name, f"it has {len(workflow.steps)} steps; at most {MAX_STEPS} are possible")


def _check_unique(workflow: Workflow) -> None:
    names: set[str] = set()
    bindings: set[str] = set()
    for step in workflow.steps:
        if not step.name:
            raise WorkflowError(workflow.name, "a step has an empty name")
        if step.name in names:
            raise WorkflowError(workflow.name, "two steps have this name; step names are unique", step.name)
        if step.binding in bindings:
            cause = f"the binding {step.binding!r} is taken by an earlier step; give this one another"
            raise WorkflowError(workflow.name, cause, step.name)
        names.add(step.name)
        bindings.add(step.binding)
    repeated = [argument.name for argument in workflow.arguments]
    for name in {name for name in repeated if repeated.count(name) > 1}:
        raise WorkflowError(workflow.name, f"two arguments are named {name!r}")


def _step_faults(step: Step, parameters: Mapping[str, frozenset[str]], arguments: frozenset[str]) -> Iterator[str]:
    if step.tool is None:
        if not step.resources:
            yield "it has neither a tool nor resources; give it one of them"
        if step.arguments:
            yield "it only fetches resources, so it takes no arguments; use template_bindings"
    elif step.tool not in parameters:
        yield f"unknown tool {step.tool!r}; register the tool before the workflow"
    else:
        for name in step.arguments.keys() - parameters[step.tool]:
            yield f"the tool {step.tool!r} has no parameter {name!r}"
    for name, source in (*step.arguments.items(), *step.template_bindings.items()):
        yield from _source_faults(name, source, arguments)
    for name in {name for uri in step.resources for name in placeholders(uri)} - arguments:
        if name not in step.template_bindings:
            yield f"the resource placeholder {{{name}}} has no template binding"


def _source_faults(name: str, source: object, arguments: frozenset[str]) -> Iterator[str]:
    match source:
        case PromptArg(argument):
            if argument not in arguments:
                yield f"prompt_arg({argument!r}) names no argument of the workflow"
        case Constant(value):
            try:
                dumps(value)
            except (TypeError, ValueError) as error:
                yield f"the constant for {name!r} is not JSON: {error}"
        case StepOutput() | TaskVariable():
            pass
        case _:
            yield f"{name!r} is given {source!r}, which is no data source; write constant({source!r})"


def _reference_faults(workflow: Workflow, step: Step, before: set[str]) -> Iterator[str]:
    known = {other.binding for other in workflow.steps}
    in_uris = before | {step.binding} if step.tool else before
    for sources, allowed in ((step.arguments, before), (step.template_bindings, in_uris)):
        for source in sources_in(sources):
            if source.binding not in known:
                yield f"step_output({source.binding!r}) refers to an unknown binding"
            elif source.binding not in allowed:
                yield f"step_output({source.binding!r}) does not refer to an earlier step"


def _step_progress(step: Step, status: StepStatus) -> StepProgress:
    if step.tool is None:
        return {"name": step.name, "status": status.value}
    return {"name": step.name, "tool": step.tool, "status": status.value}


def _describe(source: Source) -> Json:
    match source:
        case PromptArg(name):
            return ["prompt_arg", name]
        case Constant(value):
            return ["constant", value]
        case StepOutput(binding, path):
            return ["step_output", binding, path]
        case _:
            return ["task_variable", source.name, source.path]


def _check_retry(step: str, tool: object, retry: object) -> None:
    if retry is not None and not isinstance(retry, Retry):
        raise RegistrationError(f"step {step!r}: retry={retry!r}: write retry=Retry(attempts=3)")
    if retry is not None and tool is None:
        raise RegistrationError(f"step {step!r}: retry is for a step with a tool; leave it out")


def _freeze(instance: Step | Workflow, **values: object) -> None:
    """Set fields of a frozen dataclass while it is being made."""
    for name, value in values.items():
        object.__setattr__(cast("object", instance), name, value)
