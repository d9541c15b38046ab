"""What can be told of a workflow before it runs (docs/workflows.md, "What is checked"). Pure."""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import replace

from msgspec import Struct

from mcp_baton.exceptions import WorkflowError
from mcp_baton.workflow.definition import Step, Workflow
from mcp_baton.workflow.faults import faults_of, not_json
from mcp_baton.workflow.paths import Schema, astray
from mcp_baton.workflow.secrets import mentions
from mcp_baton.workflow.setters import with_setters
from mcp_baton.workflow.sources import Constant, PromptArg, StepOutput, TaskVariable, placeholders, sources_in
from mcp_baton.workflow.tool_function import ToolFunction

_NULL: Schema = {"type": "null"}


class Callee(Struct, frozen=True):
    """A tool, as far as a workflow is concerned.

    Attributes:
        function: The function that was published.
        parameters: The names of the arguments that it takes.
        output: The JSON Schema of its value; `None` where nothing is known of it.
        sets: The task variables that it sets.
        requires: The scopes that a caller must have.
    """

    function: object
    parameters: frozenset[str]
    output: Callable[[], Schema | None]
    sets: tuple[str, ...] = ()
    requires: frozenset[str] = frozenset()


def checked(workflow: Workflow, tools: Mapping[str, Callee], twins: Container[str] = ()) -> Workflow:
    """A workflow that can work, each of its steps with the name of its tool, each task variable with those that set it.

    Args:
        workflow: What is published.
        tools: The server's tools by name.
        twins: The names of the workflows that are tools, too.

    Raises:
        WorkflowError: it cannot work; names workflow, step and cause.
    """
    made = _resolved(workflow, tools)
    for error in errors_in(made, tools, twins):
        raise error
    return made


def all_errors(workflow: Workflow, tools: Mapping[str, Callee], twins: Container[str] = ()) -> list[WorkflowError]:
    """Everything for which `checked` refuses a workflow, in order."""
    return list(errors_in(_resolved(workflow, tools), tools, twins))


def errors_in(workflow: Workflow, tools: Mapping[str, Callee], twins: Container[str]) -> Iterator[WorkflowError]:
    """What is wrong with a workflow whose tools have their names, each found when it is asked for."""
    for cause in faults_of(workflow):
        yield WorkflowError(workflow.name, cause)
    if workflow.has_twin and workflow.name in tools:
        cause = "a tool has this name, and this workflow is a tool, too; give it another, or tool=False"
        yield WorkflowError(workflow.name, cause)
    yield from _unique_errors(workflow)
    arguments = [argument.name for argument in workflow.arguments]
    before: dict[str, Step] = {}
    for step in workflow.steps:
        for faults in (
            _tool_faults(step, tools, twins),
            _source_faults(step, arguments, before),
            _placeholder_faults(step, arguments),
            _secret_faults(step, workflow.secrets),
            _reference_faults(workflow, step, before, tools),
        ):
            for cause in faults:
                yield WorkflowError(workflow.name, cause, step.name)
        before[step.binding] = step


def _unique_errors(workflow: Workflow) -> Iterator[WorkflowError]:
    names: set[str] = set()
    bindings: set[str] = set()
    for step in workflow.steps:
        if not step.name:
            yield WorkflowError(workflow.name, "a step has an empty name")
        elif step.name in names:
            yield WorkflowError(workflow.name, "two steps have this name; step names are unique", step.name)
        elif step.binding in bindings:
            cause = f"the binding {step.binding!r} is taken by an earlier step; give this one another"
            yield WorkflowError(workflow.name, cause, step.name)
        names.add(step.name)
        bindings.add(step.binding)


def _resolved(workflow: Workflow, tools: Mapping[str, Callee]) -> Workflow:
    """The workflow with its functions' tools' names, and those that set its variables; itself where it has them."""
    steps = [_resolved_step(step, tools) for step in workflow.steps]
    own = (tools[step.tool].requires for step in steps if step.tool and step.tool in tools)
    scopes: frozenset[str] = frozenset().union(*own)
    # A tool that is not there for everybody who sees the workflow is not named to them.
    setters = {name: callee.sets for name, callee in tools.items() if callee.sets and callee.requires <= scopes}
    steps = [with_setters(step, setters) for step in steps] if setters else steps
    if all(one is other for one, other in zip(steps, workflow.steps, strict=True)):
        return workflow
    return replace(workflow, steps=steps)


def _resolved_step(step: Step, tools: Mapping[str, Callee]) -> Step:
    """The step with its function's tool's name; itself where it has a name, or no tool or several have the function."""
    tool = step.tool
    if not isinstance(tool, ToolFunction):
        return step
    # Each look at a method makes a new object, which is equal to the last.
    names = [name for name, callee in tools.items() if callee.function == tool.function]
    return step.calling(names[0]) if len(names) == 1 else step


def _tool_faults(step: Step, tools: Mapping[str, Callee], twins: Container[str]) -> Iterator[str]:
    if step.tool is None:
        if not step.resources:
            yield "it has neither a tool nor resources; give it one of them"
        if step.arguments:
            yield "it only fetches resources, so it takes no arguments; use template_bindings"
    elif step.tool in twins and not isinstance(step.tool, ToolFunction):
        yield f"the tool {step.tool!r} is a workflow, which no step can call; take over its steps"
    elif isinstance(step.tool, ToolFunction) or step.tool not in tools:
        from mcp_baton.workflow.remedies import no_tool

        yield no_tool(step.tool, {name: callee.function for name, callee in tools.items()})
    else:
        parameters = tools[step.tool].parameters
        for name in step.arguments:
            if name not in parameters:
                yield f"the tool {step.tool!r} has no parameter {name!r}{_meant(name, sorted(parameters))}"


def _source_faults(step: Step, arguments: list[str], before: Mapping[str, Step]) -> Iterator[str]:
    for name, source in (*step.arguments.items(), *step.template_bindings.items()):
        yield from _value_faults(name, source, arguments, before)


def _value_faults(name: str, source: object, arguments: list[str], before: Mapping[str, Step]) -> Iterator[str]:
    match source:
        case PromptArg(argument):
            if argument not in arguments:
                yield f"prompt_arg({argument!r}) names no argument of the workflow{_meant(argument, arguments)}"
        case Constant(value):
            cause = not_json(value)
            if cause:
                from mcp_baton.workflow.remedies import no_json

                yield no_json(name, value, cause)
        case StepOutput() | TaskVariable():
            pass
        case _:
            from mcp_baton.workflow.remedies import no_source

            yield no_source(name, source, arguments, before)


def _placeholder_faults(step: Step, arguments: list[str]) -> Iterator[str]:
    known = [*step.template_bindings, *arguments]
    for uri in step.resources:
        for name in sorted(placeholders(uri).difference(known)):
            yield f"the resource placeholder {{{name}}} has no template binding{_meant(name, known)}"


def _secret_faults(step: Step, secrets: frozenset[str]) -> Iterator[str]:
    """A URI names a resource: it is shown, and what reads it logs it."""
    for uri in step.resources:
        for name in sorted(placeholders(uri)):
            if mentions(step.template_bindings.get(name, PromptArg(name)), secrets):
                yield f"the resource placeholder {{{name}}} would put a secret argument into a URI; read it with a tool"


def _reference_faults(
    workflow: Workflow, step: Step, before: Mapping[str, Step], tools: Mapping[str, Callee]
) -> Iterator[str]:
    known = [other.binding for other in workflow.steps]
    in_uris = {**before, step.binding: step} if step.tool else before
    for sources, allowed in ((step.arguments, before), (step.template_bindings, in_uris)):
        for source in sources_in(sources):
            if source.binding not in known:
                from mcp_baton.workflow.remedies import no_binding

                yield no_binding(source, workflow.steps, before)
            elif source.binding not in allowed:
                from mcp_baton.workflow.remedies import not_earlier

                yield not_earlier(source, step, workflow.steps)
            else:
                yield from _path_faults(source, allowed[source.binding], tools)


def _path_faults(source: StepOutput, producing: Step, tools: Mapping[str, Callee]) -> Iterator[str]:
    if not source.path or (producing.tool and producing.tool not in tools):
        return
    schema = tools[producing.tool].output() if producing.tool else _NULL
    wrong = None if schema is None else astray(schema, source.path)
    if wrong is not None:
        from mcp_baton.workflow.remedies import no_field

        yield no_field(source, producing, wrong)


def _meant(name: str, known: Iterable[str]) -> str:
    from mcp_baton.hints import meant

    return meant(name, known)
