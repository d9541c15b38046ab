"""All reasons for which the handler, `baton serve` and the testing client would refuse a server, and suggestions."""

import os
import sys
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from mcp_baton import Server, Settings, Workflow
from mcp_baton.exceptions import SettingsError, WorkflowError
from mcp_baton.hints import meant
from mcp_baton.local.faults import Definitions, Fault, Site, fault_of, function_site
from mcp_baton.local.loader import LoadError, find, load
from mcp_baton.server.definitions.tool import Tool
from mcp_baton.server.definitions.workflow_checks import all_workflow_errors, undescribed
from mcp_baton.server.schema.signature import shown_type
from mcp_baton.settings import unknown_settings
from mcp_baton.workflow.definition import Step, ToolFunction
from mcp_baton.workflow.resolve import kinds_at
from mcp_baton.workflow.sources import Constant, PromptArg, Source, StepOutput, as_text, placeholders


@contextmanager
def _without_settings(unreadable: bool) -> Iterator[None]:
    """Load with the default settings if the environment's cannot be read, so that the rest of the file is checked."""
    hidden = {name: os.environ.pop(name) for name in list(os.environ) if unreadable and name.startswith("BATON_")}
    try:
        yield
    finally:
        os.environ.update(hidden)


TAKEN: Final = {
    "number": {"number", "integer", "boolean"},
    "integer": {"number", "integer", "boolean"},
    "boolean": {"boolean", "integer", "number"},
}
"""The other types that are converted to a type."""

NAMES: Final = {"string": "a string", "number": "a number", "integer": "a whole number", "boolean": "true or false"} | {
    "array": "a list",
    "object": "an object",
    "null": "null",
}

type SiteOf = Callable[[str | None], Site | None]
type ToolOf = Callable[[Server, Step], Tool | None]


def value_faults(server: Server, workflow: Workflow, site: SiteOf, tool_of: ToolOf) -> Iterator[Fault]:
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
    """Return the JSON types at a path of a schema; `None` if they are unknown."""
    try:
        return kinds_at(schema(), path)
    except Exception:  # noqa: BLE001 - code of the author's type runs; another fault reports the error
        return None


def _named(kinds: set[str]) -> str:
    return " or ".join(NAMES.get(kind, kind) for kind in sorted(kinds))


LONGEST_NAME: Final = 45
"""The maximum length of a tool's name if hosts put a prefix before it (docs/tools.md, Names)."""


def advice(
    server: Server,
    module: ModuleType,
    folder: Path,
    environment: Mapping[str, str],
    wrong: Container[str],
    definitions: Definitions,
) -> Iterator[Fault]:
    """Yield suggestions for a loaded server, but none about the workflows in `wrong`."""
    for tool in server.tools.values():
        yield from _of_tool(tool)
    for name, workflow in server.workflows.items():
        if name not in wrong:
            yield from _of_workflow(server, workflow, definitions)
    yield from _left_out(server, module, folder, definitions)
    if not hasattr(module, "lambda_handler"):
        file = Path(module.__file__ or module.__name__).name
        yield Fault(
            f"{file} has no lambda_handler, which Lambda calls",
            "write lambda_handler = handler(server) at its end, with from mcp_baton.aws import handler",
        )
    for text in unknown_settings(environment):
        yield Fault.of(text)


def _of_tool(tool: Tool) -> Iterator[Fault]:
    what, site = f"tool {tool.name!r}", function_site(tool.decorated)
    yield from _long_name(what, tool.name, site)
    if not tool.labels.description:
        yield Fault(f"{what} has no description", "write a docstring: models choose tools by their description", site)
    bare: list[str] = []
    for parameter in tool.signature.parameters:
        default = parameter.default
        if isinstance(default, list | dict | set):
            yield Fault(
                f"{what}: the default of the parameter {parameter.name!r} is a {type(default).__name__} that all "
                "calls of all callers share",
                f"write {parameter.name}: … | None = None, and create it in the function",
                site,
            )
        if not _is_described(tool, parameter.published):
            bare.append(f"{parameter.name}: Annotated[{shown_type(parameter.annotation)}, '…']")
    if bare:
        names = ", ".join(repr(text.partition(":")[0]) for text in bare)
        yield Fault(
            f"{what}: no description of {names}, which models have to fill in", f"write {', '.join(bare)}", site
        )


def _is_described(tool: Tool, parameter: str) -> bool:
    """Whether a parameter has a description. A tool whose schema cannot be made has another fault."""
    try:
        shown: Any = tool.input_schema
    except Exception:  # noqa: BLE001 - code of the author's type runs and may raise anything
        return True
    return bool(shown.get("properties", {}).get(parameter, {"description": "none"}).get("description"))


def _long_name(what: str, name: str, site: Site | None) -> Iterator[Fault]:
    if len(name) > LONGEST_NAME:
        yield Fault(
            f"{what}: the name has {len(name)} characters, and hosts add a prefix and allow 64 in total",
            f"use a shorter name, of at most {LONGEST_NAME} characters",
            site,
        )


def _of_workflow(server: Server, workflow: Workflow, definitions: Definitions) -> Iterator[Fault]:
    what = f"workflow {workflow.name!r}"

    def site(step: str | None = None) -> Site | None:
        return definitions.site(workflow.name, step)

    if workflow.has_workflow_tool:
        yield from _long_name(what, workflow.name, site())
    used = set[str]().union(*(_arguments_in(step) for step in workflow.steps))
    for argument in workflow.arguments:
        name = argument.name
        if name not in used:
            yield Fault(
                f"{what}: nothing uses the argument {name!r}",
                f"use prompt_arg({name!r}) in a step, or remove the argument",
                site(),
            )
        elif not argument.description:
            yield Fault(
                f"{what}: the argument {name!r} has no description, and a person or a model has to fill it in",
                f"write Argument({name!r}, '…')",
                site(),
            )
    yield from value_faults(server, workflow, site, _tool_of)
    if workflow.durable:
        yield from _unknown_outputs(server, workflow, site)


def _arguments_in(step: Step) -> Iterator[str]:
    """Yield the workflow's arguments that a step uses."""
    texts = [*step.resources, step.guidance or ""]
    for source in (*step.arguments.values(), *step.template_bindings.values()):
        if isinstance(source, PromptArg):
            yield source.name
        elif isinstance(source, Constant):
            texts.append(repr(source.value))
    for text in texts:
        yield from placeholders(text)


def _unknown_outputs(server: Server, workflow: Workflow, site: Callable[[str | None], Site | None]) -> Iterator[Fault]:
    """Yield paths into outputs of unknown form: a typing error in them is found only when the workflow runs."""
    tools = {step.binding: _tool_of(server, step) for step in workflow.steps}
    for step in workflow.steps:
        sources: list[Source] = [*step.arguments.values(), *step.template_bindings.values()]
        for source in sources:
            if not isinstance(source, StepOutput) or not source.path:
                continue
            tool = tools.get(source.binding)
            if tool is not None and tool.output is None:
                yield Fault(
                    f"workflow {workflow.name!r}, step {step.name!r}: the fields of the output of {tool.name!r} are "
                    f"not known, so {source.path!r} is not checked",
                    f"give {tool.name!r} a return type with fields: a dataclass, a typed dict or a model",
                    site(step.name),
                )


def _tool_of(server: Server, step: Step) -> Tool | None:
    if isinstance(step.tool, ToolFunction):
        function = step.tool.function
        return next((tool for tool in server.tools.values() if tool.decorated == function), None)
    return server.tools.get(step.tool or "")


def _left_out(server: Server, module: ModuleType, folder: Path, definitions: Definitions) -> Iterator[Fault]:
    """Yield workflows that the author's files made and did not add to a server."""
    added, variables = set(map(id, definitions.given)), {id(value): name for name, value in vars(module).items()}
    for workflow in definitions.workflows:
        site = definitions.site(workflow.name)
        is_own = site is not None and site.file.is_relative_to(folder)
        if is_own and id(workflow) not in added and workflow.name not in server.workflows:
            yield Fault(
                f"workflow {workflow.name!r} is not added to the server",
                f"write server.add_workflow({variables.get(id(workflow), 'Workflow(…)')})",
                site,
            )


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a check.

    `whole` is whether the file was read to its end, so that all errors are known.
    """

    errors: tuple[Fault, ...]
    warnings: tuple[Fault, ...]
    published: Mapping[str, int]
    whole: bool


def check_target(target: str, environment: Mapping[str, str]) -> Checked:
    """Load a server and check all of it."""
    place = find(target)
    faults, definitions = list(_settings_faults(environment)), Definitions(collects=True)
    try:
        with _without_settings(bool(faults)):
            server = load(target, Server, definitions)
    except LoadError as error:
        if error.__cause__ is None and place.name not in sys.modules:
            raise
        more, whole = _load_fault(error), error.__cause__ is None
        return Checked((*faults, *definitions.faults, more), (), {}, whole)
    module = sys.modules[place.name]
    errors = (*faults, *definitions.faults, *server_faults(server, definitions))
    wrong = {name for name in server.workflows if any(f"workflow {name!r}" in fault.problem for fault in errors)}
    warnings = tuple(advice(server, module, place.folder, environment, wrong, definitions))
    counts = {
        "tools": len(server.tools),
        "resources": len(server.resources),
        "prompts": len(server.prompts),
        "workflows": len(server.workflows),
    }
    return Checked(errors, warnings, counts, whole=True)


def _load_fault(error: LoadError) -> Fault:
    """Return why there is no server: the author's exception, or a file without a server."""
    if isinstance(error.__cause__, SyntaxError) and error.__cause__.filename:
        # The error names the line, which is in no frame.
        site = Site(Path(error.__cause__.filename), error.__cause__.lineno or 1)
        return Fault(f"{type(error.__cause__).__name__}: {error.__cause__.msg}", "", site)
    if error.__cause__ is not None:
        return fault_of(error.__cause__) or Fault(str(error), "")
    problem, _, remedy = str(error).partition(": ")
    return Fault(problem, remedy)


def _settings_faults(environment: Mapping[str, str]) -> Iterator[Fault]:
    try:
        Settings.from_environment(environment)
    except SettingsError as error:
        yield Fault.of(str(error))


def server_faults(server: Server, definitions: Definitions) -> Iterator[Fault]:
    """Yield the errors of a server, without those that follow from an earlier one."""
    for published, error in undescribed(server.tools, server.resources, server.prompts):
        yield Fault.of(str(error), function_site(published.function))
    for refused in all_workflow_errors(server.workflows, server.tools, server.full_view.workflow_tool_names):
        if not isinstance(refused, WorkflowError):
            yield Fault.of(str(refused))
        elif not _follows(server, refused, definitions):
            yield Fault.of(str(refused), definitions.site(refused.workflow, refused.step))


def _follows(server: Server, error: WorkflowError, definitions: Definitions) -> bool:
    """Whether an error follows from another one: a tool, a step or a workflow that was refused."""
    if error.workflow in definitions.names or (error.step is not None and error.step in definitions.names):
        return True
    workflow = server.workflows[error.workflow]
    step = workflow.step(error.step) if error.step is not None else None
    if step is None or not error.cause.startswith(("unknown tool", "the function")):
        return False
    return step.tool in definitions.names or getattr(step.tool, "function", None) in definitions.names
