"""Checks of a workflow's definition before it runs (docs/workflows.md, "What is checked"). Pure."""

import operator
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from mcp_baton.exceptions import RegistrationError, WorkflowError
from mcp_baton.hints import closest, did_you_mean
from mcp_baton.protocol.json import dumps
from mcp_baton.tools.approval import check_approval
from mcp_baton.tools.arguments import NAME, TASK_ID, Argument, is_portable_name
from mcp_baton.tools.labels import value_text
from mcp_baton.tools.templates import placeholders
from mcp_baton.tools.tool import Tool
from mcp_baton.workflow.definition import ANSWERS, TASK_ACTION, TASK_RESULT, Workflow
from mcp_baton.workflow.reference import task_variable
from mcp_baton.workflow.schema_paths import Schema
from mcp_baton.workflow.secrets import contains_argument
from mcp_baton.workflow.sources import (
    Condition,
    Constant,
    Item,
    PromptArg,
    StepOutput,
    TaskVariable,
    constant,
    parts_of,
    prompt_arg,
    source_text,
    step_output,
)
from mcp_baton.workflow.steps.context import StepContext, as_code, width_fault
from mcp_baton.workflow.steps.list_step import ListStep
from mcp_baton.workflow.steps.question import Question
from mcp_baton.workflow.steps.step import Step
from mcp_baton.workflow.steps.tool_step import ToolFunction

MAX_STEPS = 100
"""The maximum number of steps of a workflow. An `UpdateExpression` of 4 KB is certain to have room for them."""

MAX_STEP_NAME_CHARS = 64
"""The longest name of a step. Its stored state has the name up to five times."""

MAX_LIST_STEPS = 20
"""The maximum number of steps with `each` of a workflow. Their items fit into the same expression."""


def definition_faults(workflow: Workflow) -> Iterator[str]:
    """The errors of a workflow that do not depend on tools, each with the correction."""
    if workflow.has_workflow_tool and not is_portable_name(workflow.name):
        yield f"a workflow's name is {NAME}; give it another, or tool=False, which keeps it a prompt"
    if workflow.ask and not workflow.durable:
        yield "ask=True needs a stored task; leave out durable=False"
    if workflow.ttl is not None and not (isinstance(workflow.ttl, timedelta) and workflow.ttl > timedelta()):
        yield f"ttl={workflow.ttl!r} is not a time; write ttl=timedelta(days=30)"
    if workflow.repeats is not None and not (
        isinstance(workflow.repeats, timedelta) and workflow.repeats >= timedelta()
    ):
        yield f"repeats={workflow.repeats!r} is not a time; write repeats=timedelta(minutes=2), or timedelta(0)"
    if workflow.background:
        yield from _background_faults(workflow)
    yield from _size_faults(workflow)
    names = [argument.name for argument in workflow.arguments]
    for argument in workflow.arguments:
        if names.count(argument.name) > 1:
            yield f"two arguments are named {argument.name!r}"
        if not is_portable_name(argument.name):
            yield f"the argument {argument.name!r}: an argument's name is {NAME}"
        owner = _reserved_names(workflow).get(argument.name)
        if owner:
            yield f"the argument {argument.name!r}: this name is taken, {owner}; give it another"
        yield from _default_faults(argument)


def _size_faults(workflow: Workflow) -> Iterator[str]:
    if not workflow.steps:
        yield "it has no steps; give it at least one"
    if len(workflow.steps) > MAX_STEPS:
        yield f"it has {len(workflow.steps)} steps; at most {MAX_STEPS} are possible"
    if sum(isinstance(step, ListStep) for step in workflow.steps) > MAX_LIST_STEPS:
        yield f"more than {MAX_LIST_STEPS} steps have each=…; make two workflows"
    if problem := width_fault(workflow.parallel):
        yield problem


def _reserved_names(workflow: Workflow) -> dict[str, str]:
    if not workflow.durable:
        return {}
    reserved = dict.fromkeys((TASK_ACTION, TASK_RESULT), "by the workflow's tool") if workflow.tool else {}
    if any(isinstance(step, Question) for step in workflow.steps):
        reserved[ANSWERS] = "by the answers to its questions"
    return {TASK_ID: "by the id of the task to continue", **reserved}


def _background_faults(workflow: Workflow) -> Iterator[str]:
    if not workflow.durable:
        yield "background=True needs a stored task; leave out durable=False"
    if not workflow.tool:
        yield "background=True is for calls of the workflow as a tool; leave out tool=False"
    if workflow.ask:
        yield "ask=True asks the user while the client waits, and with background=True it does not; leave out one"
    for argument in workflow.arguments:
        if argument.secret:
            name = repr(argument.name)
            yield f"the argument {name} is secret, so it is not stored and no worker has it; leave out background=True"


def _default_faults(argument: Argument) -> Iterator[str]:
    if argument.required and argument.default is not None:
        yield f"the argument {argument.name!r} is required, so its default is never used; leave out one of them"
    cause = not_json(argument.default)
    if argument.secret and argument.default is not None:
        yield f"the argument {argument.name!r} is secret, so it has no default; leave out one of them"
    if cause:
        yield f"the default of the argument {argument.name!r} is not JSON ({cause}); write text, a number or a list"


def not_json(value: object) -> str | None:
    """Why a value is not JSON; `None` if it is JSON."""
    try:
        dumps(value)
    except (TypeError, ValueError) as error:
        return str(error)
    return None


def source_error(name: str, source: object, arguments: Sequence[str], earlier_steps: Mapping[str, Step]) -> str:
    """The error for a value that is not a data source."""
    if callable(source):
        error = f"{name!r} is given {value_text(source)}, which is not a data source"
        argument = closest(name, arguments) or "…"
        calls: dict[object, str] = {
            prompt_arg: f"prompt_arg({argument!r})",
            step_output: "step_output('…')",
            constant: "constant(…)",
            task_variable: "task_variable('…')",
        }
        call = calls.get(source)
        if call is not None:
            return f"{error}, but the function that makes one; call it: {call}"
        return f"{error}; write step_output('…') for what a step's tool returns, or constant(…) for a fixed value"
    cause = not_json(source)
    if cause:
        return f"{name!r} is given {value_text(source)}, which is not a data source, and not JSON: {_json_hint(source)}"
    binding, _, path = source.partition(".") if isinstance(source, str) else ("", "", "")
    instead = f"constant({value_text(source)})"
    if isinstance(source, str) and source.strip("{}") in arguments:
        instead = f"prompt_arg({source.strip('{}')!r}) for the argument, or {instead} for the text"
    elif binding in earlier_steps:
        instead = f"{as_code(binding, path)} for the step's output, or {instead} for the text"
    elif isinstance(source, str):
        instead = f"{instead} for the text, or prompt_arg(…), step_output(…) or task_variable(…)"
    return f"{name!r} is given {value_text(source)}, which is not a data source; write {instead}"


def json_error(name: str, value: object, cause: str) -> str:
    """The error for a constant that is not JSON."""
    return f"the constant for {name!r} is not JSON ({cause}); {_json_hint(value)}"


def _json_hint(value: object) -> str:
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    try:
        json_value = to_jsonable_python(value)
    except (PydanticSerializationError, ValueError, RecursionError):
        json_value = value
    if not_json(json_value):
        return "write constant(…) with texts, numbers, booleans, None, lists and dicts"
    return f"write constant({value_text(json_value)})"


def binding_error(source: StepOutput, steps: Sequence[Step], earlier_steps: Mapping[str, Step]) -> str:
    """The error for a reference to an unknown binding."""
    binding: object = source.binding
    error = f"{as_code(source.binding, source.path)} refers to an unknown binding"
    if not isinstance(binding, str):
        error = f"{as_code(source.binding, source.path)} takes a binding, which is a text"
        binding = getattr(binding, "name", None) or getattr(binding, "__name__", binding)
        for step in earlier_steps.values():
            if binding in (step.name, step.tool):
                return f"{error}; write {as_code(step.binding, source.path)}"
        return error + did_you_mean(None, earlier_steps)
    named_step = next((step for step in steps if step.name == binding), None)
    if named_step is not None:
        return f"{error}: the step {binding!r} has another; write {as_code(named_step.binding, source.path)}"
    head, _, path = binding.partition(".")
    if path and head in earlier_steps:
        return f"{error}: a path stands by itself; write {as_code(head, '.'.join(filter(None, (path, source.path))))}"
    return error + did_you_mean(binding, earlier_steps)


def order_error(source: StepOutput, step: Step, steps: Sequence[Step]) -> str:
    """The error for a reference to a later step."""
    error = f"{as_code(source.binding, source.path)} does not refer to an earlier step"
    if source.binding == step.binding:
        return f"{error}, but to the step itself; name an earlier step's binding"
    target = next(candidate for candidate in steps if candidate.binding == source.binding)
    if target.uses(step.binding):
        return f"{error}: {step.name!r} and {target.name!r} need each other's output; give one of them another source"
    return f"{error}; put {target.name!r} before {step.name!r}"


def errors_in(
    workflow: Workflow,
    tools: Mapping[str, Tool],
    workflows: Container[str],
    output: Callable[[Tool], Schema | None],
) -> Iterator[WorkflowError]:
    """The errors of a resolved workflow, in order. Each is found when the iterator reaches it.

    Args:
        workflows: The names of the server's workflows.
        output: As in `StepContext`.
    """
    for cause in workflow.faults or definition_faults(workflow):
        yield WorkflowError(workflow.name, cause)
    if workflow.faults:
        return
    if workflow.has_workflow_tool and workflow.name in tools:
        cause = "a tool has this name, and this workflow is a tool, too; give it another, or tool=False"
        yield WorkflowError(workflow.name, cause)
    yield from _unique_errors(workflow)
    earlier_steps: dict[str, Step] = {}
    for step in workflow.steps:
        for cause in step.faults or _step_faults(step, StepContext(workflow, earlier_steps, tools, workflows, output)):
            yield WorkflowError(workflow.name, cause, step.name)
        earlier_steps[step.binding] = step


def _step_faults(step: Step, context: StepContext) -> Iterator[str]:
    yield from step.tool_faults(context)
    if step.has_misplaced_option(context):
        return
    yield from _source_faults(step, context)
    yield from _resource_faults(step, context)
    yield from step.own_faults(context)
    yield from _item_faults(step)
    yield from _order_faults(step, context.earlier_steps)
    yield from _value_faults(step, context)
    yield from _approval_faults(step, context)


def _unique_errors(workflow: Workflow) -> Iterator[WorkflowError]:
    names: set[str] = set()
    bindings: set[str] = set()
    for step in workflow.steps:
        if not step.name:
            yield WorkflowError(workflow.name, "a step has an empty name")
        elif len(step.name) > MAX_STEP_NAME_CHARS:
            cause = f"its name has {len(step.name)} characters; give it one of at most {MAX_STEP_NAME_CHARS}"
            yield WorkflowError(workflow.name, cause, step.name)
        elif step.name in names:
            yield WorkflowError(workflow.name, "two steps have this name; step names are unique", step.name)
        elif step.binding in bindings:
            cause = f"the binding {step.binding!r} is taken by an earlier step; give this one another"
            yield WorkflowError(workflow.name, cause, step.name)
        names.add(step.name)
        bindings.add(step.binding)


def resolved(workflow: Workflow, tools: Mapping[str, Tool]) -> Workflow:
    """The workflow with the names of its tools and the setters of its variables; the same object if nothing changes."""
    steps = [_resolved_step(step, tools) for step in workflow.steps]
    required_scopes = (tools[step.tool].requires for step in steps if step.tool and step.tool in tools)
    scopes: frozenset[str] = frozenset().union(*required_scopes)
    setters: dict[str, tuple[str, ...]] = {}
    for name, tool in tools.items():
        # Do not name a tool to callers who may use the workflow but not the tool.
        for variable in tool.sets if tool.requires <= scopes else ():
            setters[variable] = (*setters.get(variable, ()), name)
    is_same = setters == workflow.setters and all(map(operator.is_, steps, workflow.steps))
    return workflow if is_same else replace(workflow, steps=steps, setters=setters)


def _resolved_step(step: Step, tools: Mapping[str, Tool]) -> Step:
    if isinstance(step.tool, ToolFunction):
        # Each access to a method creates a new object, which equals the last one.
        names = [name for name, tool in tools.items() if tool.decorated == step.tool.function]
        step = step.replace(tool=names[0]) if len(names) == 1 else step
    tool = tools.get(step.tool) if isinstance(step.tool, str) else None
    arguments = step.arguments if tool is None else tool.by_published_name(step.arguments)
    return step if arguments is step.arguments else step.replace(arguments=arguments)


def _source_faults(step: Step, context: StepContext) -> Iterator[str]:
    earlier_steps, arguments = context.earlier_steps, context.arguments
    uri_steps = {**earlier_steps, step.binding: step} if step.tool else earlier_steps
    for field, name, source in step.used_sources:
        allowed = uri_steps if field == "template_bindings" else earlier_steps
        for part in parts_of(source):
            match part:
                case PromptArg(argument) if argument not in arguments:
                    hint = did_you_mean(argument, arguments)
                    yield f"prompt_arg({argument!r}) names no argument of the workflow{hint}"
                case Constant(value) if cause := not_json(value):
                    yield json_error(name, value, cause)
                case StepOutput():
                    yield from _output_faults(part, step, allowed, context)
                case PromptArg() | Constant() | TaskVariable() | Item():
                    pass
                case _:
                    yield source_error(name, part, arguments, earlier_steps)


def _output_faults(source: StepOutput, step: Step, allowed: Mapping[str, Step], context: StepContext) -> Iterator[str]:
    steps = context.workflow.steps
    if all(candidate.binding != source.binding for candidate in steps):
        yield binding_error(source, steps, context.earlier_steps)
    elif source.binding not in allowed:
        yield order_error(source, step, steps)
    else:
        yield from context.path_faults(source, allowed[source.binding])


def _resource_faults(step: Step, context: StepContext) -> Iterator[str]:
    names, secrets = [*step.template_bindings, *context.arguments], context.workflow.secrets
    for name in (name for uri in step.resources for name in sorted(placeholders(uri))):
        if name not in names:
            yield f"the resource placeholder {{{name}}} has no template binding{did_you_mean(name, names)}"
        elif contains_argument(step.template_bindings.get(name, PromptArg(name)), secrets):
            # A URI is shown to people, and servers log it.
            yield f"the resource placeholder {{{name}}} would put a secret argument into a URI; read it with a tool"


def _item_faults(step: Step) -> Iterator[str]:
    """The error for `item()` where there is no current element."""
    in_list = "arguments" if isinstance(step, ListStep) else None
    sources = [source for field, _, source in step.used_sources if field != in_list]
    if any(isinstance(part, Item) for source in sources for part in parts_of(source)):
        yield "item() is the current element of a list, for the arguments of a step with each=…"


def _order_faults(step: Step, earlier_steps: Mapping[str, Step]) -> Iterator[str]:
    names = [earlier.name for earlier in earlier_steps.values()]
    for name in step.after:
        if name not in names:
            yield f"after={name!r} names no earlier step{did_you_mean(name, names)}"


def _value_faults(step: Step, context: StepContext) -> Iterator[str]:
    """The errors for values that may be missing, and for comparisons that cannot be true."""
    value_comparisons = [comparison for comparison in step.comparisons if comparison.operator != "exists"]
    for source in (
        *(source for field, _, source in step.used_sources if field != "when"),
        *(source for comparison in value_comparisons for source in comparison.operands),
    ):
        producer = context.earlier_steps.get(source.binding) if isinstance(source, StepOutput) else None
        if isinstance(source, StepOutput) and producer is not None and producer.may_be_skipped:
            yield (
                f"{as_code(source.binding, source.path)} has no value if the step {producer.name!r} is skipped; "
                "write or_default(…, VALUE), or first_of(…) with another source"
            )
    for comparison in value_comparisons:
        yield from _comparison_faults(comparison, context)


def _approval_faults(step: Step, context: StepContext) -> Iterator[str]:
    tool = context.tools.get(step.tool or "")
    if tool is None or (step.approval is None and tool.approval is None):
        return
    if step.approval is not None and tool.approval is not None:
        yield f"{tool.name!r} has an approval itself; leave out the step's approval"
    elif step.approval is not None:
        try:
            check_approval(step.approval, "", tool.signature)
        except RegistrationError as error:
            yield str(error).removeprefix(": ")
    if not context.workflow.durable:
        yield f"{tool.name!r} needs an approval, and the workflow has no tasks; leave out durable=False"


def _comparison_faults(comparison: Condition, context: StepContext) -> Iterator[str]:
    left_kinds, right_kinds = map(context.kinds_of, comparison.operands)
    if left_kinds is None or right_kinds is None:
        return
    left, right = (
        f"{source_text(source)} ({' or '.join(sorted(kinds))})"
        for source, kinds in zip(comparison.operands, (left_kinds, right_kinds), strict=True)
    )
    compares = f"the condition {comparison.text} compares {left} with {right}"
    common, is_decimal = left_kinds & right_kinds, "decimal" in left_kinds | right_kinds
    if comparison.operator in ("==", "!=") and not common:
        yield f"{compares}, which are never equal; compare equal types"
    elif comparison.operator in ("<", "<=", ">", ">=") and (is_decimal or not common & {"number", "string"}):
        yield f"{compares}; compare two numbers or two texts"
