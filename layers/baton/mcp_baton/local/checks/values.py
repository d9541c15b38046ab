"""Values of steps' arguments that the tools refuse, and placeholders that nothing fills, as far as it can be known."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from mcp_baton import Server, Workflow
from mcp_baton.hints import meant
from mcp_baton.local.checks.faults import Fault, Site
from mcp_baton.server.published.tool import Tool
from mcp_baton.workflow.definition import Step
from mcp_baton.workflow.paths import kinds_at
from mcp_baton.workflow.sources import Constant, StepOutput, as_text, placeholders

TAKEN: Final = {
    "number": {"number", "integer", "boolean"},
    "integer": {"number", "integer", "boolean"},
    "boolean": {"boolean", "integer", "number"},
}
"""The types that are converted to a type, beside that type itself."""

NAMES: Final = {"string": "a text", "number": "a number", "integer": "a whole number", "boolean": "true or false"} | {
    "array": "a list",
    "object": "an object",
    "null": "null",
}

type SiteOf = Callable[[str | None], Site | None]
type ToolOf = Callable[[Server, Step], Tool | None]


def value_faults(server: Server, workflow: Workflow, site: SiteOf, tool_of: ToolOf) -> Iterator[Fault]:
    """What is wrong with a workflow's values.

    Args:
        server: The server.
        workflow: The workflow.
        site: Finds a step in its file.
        tool_of: Finds a step's tool.
    """
    producers = {step.binding: tool_of(server, step) for step in workflow.steps}
    for step in workflow.steps:
        what = f"workflow {workflow.name!r}, step {step.name!r}"
        yield from _guidance_faults(step, workflow, what, site)
        tool = tool_of(server, step)
        for name, source in step.arguments.items() if tool else ():
            fault = None
            if isinstance(source, Constant):
                fault = _of_constant(tool, name, source)
            elif isinstance(source, StepOutput) and producers.get(source.binding):
                fault = _of_output(tool, name, source, producers[source.binding])
            if fault:
                problem, remedy = fault
                yield Fault(f"{what}: {problem}", remedy, site(step.name))


def _guidance_faults(step: Step, workflow: Workflow, what: str, site: SiteOf) -> Iterator[Fault]:
    known = [argument.name for argument in workflow.arguments]
    for name in sorted(placeholders(step.guidance or "").difference(known)):
        if name.isidentifier():
            hint = meant(name, known).removeprefix("; ") or "the workflow has no arguments"
            yield Fault(f"{what}: no argument fills {{{name}}} in its guidance", hint, site(step.name))


def _of_constant(tool: Tool | None, name: str, source: Constant) -> tuple[str, str] | None:
    if tool is None or placeholders(as_text(source.value)):
        return None
    problem = tool.input.problem_with(name, source.value)
    if problem is None:
        return None
    return f"{tool.name!r} refuses {source.value!r} for {name!r}: {problem}", f"give {name!r} a value of its type"


def _of_output(tool: Tool | None, name: str, source: StepOutput, producer: Tool | None) -> tuple[str, str] | None:
    if tool is None or producer is None or producer.output is None:
        return None
    takes = _kinds(lambda: tool.input_schema, name)
    makes = _kinds(lambda: producer.output.value_schema if producer.output else {}, source.path)
    if takes is None or makes is None or makes & set().union(*(TAKEN.get(kind, {kind}) for kind in takes)):
        return None
    path = f"the field {source.path!r} of the output" if source.path else "the output"
    return (
        f"{path} of {producer.name!r} is {_named(makes)}, and {name!r} of {tool.name!r} takes {_named(takes)}",
        "give another field, or change one of the types",
    )


def _kinds(schema: Callable[[], Mapping[str, Any]], path: str | None) -> set[str] | None:
    """The JSON types at a path of a schema; `None` if they are not known."""
    try:
        return kinds_at(schema(), path)
    except Exception:  # noqa: BLE001 - a type of the author's brings code along; another fault speaks of it
        return None


def _named(kinds: set[str]) -> str:
    return " or ".join(NAMES.get(kind, kind) for kind in sorted(kinds))
