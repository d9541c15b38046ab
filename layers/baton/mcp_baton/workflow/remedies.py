"""What to write instead of what a workflow was given, for the errors of `checking`. Imported when one is made. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from mcp_baton.hints import closest, meant
from mcp_baton.workflow.definition import Step
from mcp_baton.workflow.faults import not_json
from mcp_baton.workflow.misuse import shown
from mcp_baton.workflow.paths import Astray
from mcp_baton.workflow.sources import StepOutput, constant, prompt_arg, sources_in, step_output, task_variable
from mcp_baton.workflow.tool_function import ToolFunction

MAX_FIELDS: Final = 20
"""Fields of an output that are named."""


def no_source(name: str, source: object, arguments: Sequence[str], before: Mapping[str, Step]) -> str:
    """What is wrong with a value that stands where a data source is wanted.

    Args:
        name: The parameter, or the placeholder, that it is given to.
        source: The value.
        arguments: The workflow's arguments.
        before: The earlier steps by their bindings.
    """
    if callable(source):
        return _no_call(name, source, arguments)
    cause = not_json(source)
    if cause:
        return f"{name!r} is given {shown(source)}, which is no data source, and not JSON: {_json_form(source)}"
    binding, _, path = source.partition(".") if isinstance(source, str) else ("", "", "")
    instead = f"constant({shown(source)})"
    if isinstance(source, str) and source.strip("{}") in arguments:
        instead = f"prompt_arg({source.strip('{}')!r}) for the argument, or {instead} for the text"
    elif binding in before:
        instead = f"{_call(binding, path)} for the step's output, or {instead} for the text"
    elif isinstance(source, str):
        instead = f"{instead} for the text, or prompt_arg(…), step_output(…) or task_variable(…)"
    return f"{name!r} is given {shown(source)}, which is no data source; write {instead}"


def _no_call(name: str, function: Callable[..., object], arguments: Sequence[str]) -> str:
    """What is wrong with a function that stands where a data source is wanted."""
    said = f"{name!r} is given {shown(function)}, which is no data source"
    argument = closest(name, arguments) or "…"
    calls = {prompt_arg: f"prompt_arg({argument!r})", step_output: "step_output('…')", constant: "constant(…)"}
    call = {**calls, task_variable: "task_variable('…')"}.get(function)
    if call is not None:
        return f"{said}, but the function that makes one; call it: {call}"
    return f"{said}; write step_output('…') for what a step's tool returns, or constant(…) for a fixed value"


def no_json(name: str, value: object, cause: str) -> str:
    """What is wrong with a constant that is not JSON.

    Args:
        name: The parameter, or the placeholder, that it is given to.
        value: The constant.
        cause: Why it is not JSON.
    """
    return f"the constant for {name!r} is not JSON ({cause}); {_json_form(value)}"


def _json_form(value: object) -> str:
    """What to write instead of a value that is not JSON."""
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    try:
        return f"write constant({shown(to_jsonable_python(value))})"
    except (PydanticSerializationError, ValueError, RecursionError):
        return "write constant(…) with texts, numbers, booleans, None, lists and dicts"


def no_binding(source: StepOutput, steps: Sequence[Step], before: Mapping[str, Step]) -> str:
    """What is wrong with a reference to a binding that no step has."""
    binding: object = source.binding
    said = f"{_written(source)} refers to an unknown binding"
    if not isinstance(binding, str):
        said = f"{_written(source)} takes a binding, which is a text"
        binding = getattr(binding, "name", None) or getattr(binding, "__name__", binding)
        for step in before.values():
            if binding in (step.name, step.tool):
                return f"{said}; write {_call(step.binding, source.path)}"
        return said + meant(None, before)
    named = next((step for step in steps if step.name == binding), None)
    if named is not None:
        return f"{said}: the step {binding!r} has another; write {_call(named.binding, source.path)}"
    head, _, rest = binding.partition(".")
    if rest and head in before:
        return f"{said}: a path stands by itself; write {_call(head, '.'.join(filter(None, (rest, source.path))))}"
    return said + meant(binding, before)


def not_earlier(source: StepOutput, step: Step, steps: Sequence[Step]) -> str:
    """What is wrong with a reference to a step that has not run yet."""
    said = f"{_written(source)} does not refer to an earlier step"
    if source.binding == step.binding:
        return f"{said}, but to the step itself; name an earlier step's binding"
    other = next(found for found in steps if found.binding == source.binding)
    if step.binding in _bindings(other):
        return f"{said}: {step.name!r} and {other.name!r} need each other's output; give one of them another source"
    return f"{said}; put {other.name!r} before {step.name!r}"


def no_field(source: StepOutput, producing: Step, wrong: Astray) -> str:
    """What is wrong with a path that leads out of a step's output."""
    of = f"tool {producing.tool!r}" if producing.tool else f"step {producing.name!r}, which has no tool,"
    said = f"{_written(source)}: the output of the {of} has no {wrong.path!r}"
    if not wrong.instead:
        return said
    written, known = ".".join((wrong.path, *wrong.rest)), [".".join((path, *wrong.rest)) for path in wrong.instead]
    close = closest(written, known)
    fields = ", ".join((*wrong.instead[:MAX_FIELDS], *["…"][: len(wrong.instead) > MAX_FIELDS]))
    return f"{said}, only {fields}; did you mean {close!r}?" if close else f"{said}; it has {fields}"


def no_tool(tool: str, functions: Mapping[str, object]) -> str:
    """What is wrong with a step's tool that the server does not have, or has more than once.

    Args:
        tool: Its name, or the stand-in for a function.
        functions: The functions that are published, by the tools' names.
    """
    if not isinstance(tool, ToolFunction):
        return f"unknown tool {tool!r}{meant(tool, functions)}"
    # Each look at a method makes a new object, which is equal to the last.
    names = [name for name, function in functions.items() if function == tool.function]
    if names:
        several = " and ".join(repr(name) for name in names)
        return f"the function {str(tool)!r} is published as {several}; give the name that is meant, as a text"
    twin = next((function for function in functions.values() if _is_twin(function, tool.function)), None)
    if twin is not None:
        modules = " and ".join(repr(getattr(one, "__module__", "?")) for one in (twin, tool.function))
        return (
            f"the function {str(tool)!r} is no tool of this server, though one from the same line is: its file was "
            f"imported twice, as {modules}; import it under one name, or move the server into another file than the "
            "one that is served"
        )
    return f"the function {str(tool)!r} is no tool of this server; publish it with @server.tool"


def _is_twin(one: object, other: Callable[..., object]) -> bool:
    """Whether two functions come from the same line of one file."""
    ours, theirs = getattr(one, "__code__", None), getattr(other, "__code__", None)
    if ours is None or theirs is None:
        return False
    return (ours.co_filename, ours.co_firstlineno) == (theirs.co_filename, theirs.co_firstlineno)


def _bindings(step: Step) -> Iterable[object]:
    return (source.binding for sources in (step.arguments, step.template_bindings) for source in sources_in(sources))


def _call(binding: str, path: str | None) -> str:
    return f"step_output({binding!r}, {path!r})" if path else f"step_output({binding!r})"


def _written(source: StepOutput) -> str:
    binding: Any = source.binding
    return _call(binding, source.path) if isinstance(binding, str) else f"step_output({shown(binding)})"
