"""`baton check`: errors that refuse a server, errors that are certain to fail a workflow's run, and suggestions."""

import inspect
import os
import shlex
import sys
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from mcp_baton import Server, Settings, Workflow
from mcp_baton.exceptions import BatonError, RegistrationError, SettingsError, WorkflowError
from mcp_baton.local.faults import Mistake, Site, SourceDefinitions, fault_of, function_site
from mcp_baton.local.framework_types import difficulties
from mcp_baton.local.loader import LoadError, find, load
from mcp_baton.local.run_checks import WorkflowChecks, blocking_calls, schema_or_empty, undefined_names
from mcp_baton.settings import approver_warnings, unknown_settings
from mcp_baton.tools.schema.signature import shown_type
from mcp_baton.tools.templates import placeholders
from mcp_baton.tools.tool import Tool
from mcp_baton.workflow.definition import Step
from mcp_baton.workflow.function_checks import all_workflow_errors, definitions_without_schema
from mcp_baton.workflow.sources import Constant, PromptArg, parts_of


@contextmanager
def _without_settings(unreadable: bool) -> Iterator[None]:
    """Load with the default settings if the environment's cannot be read, so that the rest of the file is checked."""
    variables = {name: os.environ.pop(name) for name in list(os.environ) if unreadable and name.startswith("BATON_")}
    try:
        yield
    finally:
        os.environ.update(variables)


LONGEST_NAME: Final = 45
"""The maximum length of a tool's name if hosts put a prefix before it (docs/tools.md, Names)."""


def advice(
    server: Server,
    module: ModuleType,
    folder: Path,
    environment: Mapping[str, str],
    faulty: Container[str],
    definitions: SourceDefinitions,
) -> Iterator[Mistake]:
    """Yield suggestions for a loaded server, but none about the `faulty` workflows."""
    for tool in server.tools.values():
        yield from _tool_advice(tool)
    for name, workflow in server.workflows.items():
        if name not in faulty:
            yield from _workflow_advice(server, workflow, definitions)
    yield from _workflows_not_added(server, module, folder, definitions)
    if not hasattr(module, "lambda_handler"):
        file = Path(module.__file__ or module.__name__).name
        yield Mistake(
            f"{file} has no lambda_handler, which Lambda calls",
            "write lambda_handler = handler(server) at its end, with from mcp_baton.aws import handler",
        )
    for text in unknown_settings(environment):
        yield Mistake.of(text)
    if not list(_settings_faults(environment)) and (approvers := Settings.from_environment(environment).approvers):
        for text in approver_warnings(approvers, server.full_view.approval_groups):
            yield Mistake.of(text)


def _tool_advice(tool: Tool) -> Iterator[Mistake]:
    label, site = f"tool {tool.name!r}", function_site(tool.decorated)
    yield from _name_advice(label, tool.name, site)
    if not tool.labels.description:
        yield Mistake(
            f"{label} has no description", "write a docstring: models choose tools by their description", site
        )
    undescribed: list[str] = []
    untyped = _untyped(tool)
    for parameter in tool.signature.parameters:
        default = parameter.default
        if isinstance(default, list | dict | set):
            yield Mistake(
                f"{label}: the default of the parameter {parameter.name!r} is a {type(default).__name__} that all "
                "calls of all callers share",
                f"write {parameter.name}: … | None = None, and create it in the function",
                site,
            )
        if not _is_described(tool, parameter.published_name):
            kind = "str" if parameter.name in untyped else shown_type(parameter.annotation)
            undescribed.append(f"{parameter.name}: Annotated[{kind}, '…']")
    yield from blocking_calls(tool)
    yield from undefined_names(tool)
    yield from _framework_advice(label, lambda: tool.definition["inputSchema"], site)
    if undescribed:
        names = ", ".join(repr(text.partition(":")[0]) for text in undescribed)
        lacking = "no type and no description" if untyped - {"return"} else "no description"
        yield Mistake(
            f"{label}: {lacking} of {names}, which models have to fill in", f"write {', '.join(undescribed)}", site
        )
    if "return" in untyped:
        yield Mistake(
            f"{label} has no return type, so its result is not checked", "write -> and a type, or -> None", site
        )


def _untyped(tool: Tool) -> set[str]:
    """Return the parameters without an annotation, and `return`."""
    signature = inspect.signature(tool.decorated)
    names = {name for name, item in signature.parameters.items() if item.annotation is item.empty}
    return names | ({"return"} if signature.return_annotation is signature.empty else set())


def _framework_advice(label: str, make: Callable[[], Any], site: Site | None) -> Iterator[Mistake]:
    """Yield the types that some agent frameworks cannot use."""
    for parameter, problem, remedy in difficulties(schema_or_empty(make)):
        yield Mistake(f"{label}: {'' if parameter is None else f'the type of {parameter!r} '}{problem}", remedy, site)


def _is_described(tool: Tool, parameter: str) -> bool:
    """Whether a parameter has a description. A tool whose schema cannot be made has another fault."""
    schema: Any = schema_or_empty(lambda: tool.input_schema)
    return bool(schema.get("properties", {}).get(parameter, {"description": "none"}).get("description"))


def _name_advice(label: str, name: str, site: Site | None) -> Iterator[Mistake]:
    if len(name) > LONGEST_NAME:
        yield Mistake(
            f"{label}: the name has {len(name)} characters, and hosts add a prefix and allow 64 in total",
            f"use a shorter name, of at most {LONGEST_NAME} characters",
            site,
        )


def _workflow_advice(server: Server, workflow: Workflow, definitions: SourceDefinitions) -> Iterator[Mistake]:
    label = f"workflow {workflow.name!r}"

    def site(step: str | None = None) -> Site | None:
        return definitions.site(workflow.name, step)

    workflow_tool = server.full_view.workflow_tool(workflow.name)
    if workflow_tool is not None:
        yield from _name_advice(label, workflow.name, site())
        yield from _framework_advice(label, lambda: workflow_tool.input_schema, site())
    used_arguments = set[str]().union(*(_arguments_in(step) for step in workflow.steps))
    for argument in workflow.arguments:
        name = argument.name
        if name not in used_arguments:
            yield Mistake(
                f"{label}: nothing uses the argument {name!r}",
                f"use prompt_arg({name!r}) in a step, or remove the argument",
                site(),
            )
        elif not argument.description:
            yield Mistake(
                f"{label}: the argument {name!r} has no description, and a person or a model has to fill it in",
                f"write Argument({name!r}, '…')",
                site(),
            )
    yield from WorkflowChecks(server, workflow, definitions).suggestions()


def _arguments_in(step: Step) -> Iterator[str]:
    texts = [*step.resources, step.guidance or ""]
    sources = (*step.arguments.values(), *step.template_bindings.values())
    for part in (part for source in sources for part in parts_of(source)):
        if isinstance(part, PromptArg):
            yield part.name
        elif isinstance(part, Constant):
            texts.append(repr(part.value))
    for text in texts:
        yield from placeholders(text)


def _workflows_not_added(
    server: Server, module: ModuleType, folder: Path, definitions: SourceDefinitions
) -> Iterator[Mistake]:
    """Yield workflows that the author's files made and did not add to a server."""
    added_ids, variables = set(map(id, definitions.added)), {id(value): name for name, value in vars(module).items()}
    for workflow in definitions.workflows:
        site = definitions.site(workflow.name)
        is_own = site is not None and site.file.is_relative_to(folder)
        if is_own and id(workflow) not in added_ids and workflow.name not in server.workflows:
            yield Mistake(
                f"workflow {workflow.name!r} is not added to the server",
                f"write server.add_workflow({variables.get(id(workflow), 'Workflow(…)')})",
                site,
            )


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of a check.

    `refused` is whether a handler would refuse the server; the other errors fail when a workflow runs. `is_complete` is
    whether the file was read to its end, so that all errors are known. `server` is missing if it could not be loaded.
    """

    refused: bool
    errors: tuple[Mistake, ...]
    warnings: tuple[Mistake, ...]
    published: Mapping[str, int]
    is_complete: bool
    server: Server | None = None


def load_checked(target: str) -> Server:
    """Return the server that a target names, after a full check.

    Raises:
        BatonError: a file cannot be loaded, or the handler would refuse the server.
    """
    definitions = SourceDefinitions()
    server = load(target, Server, definitions)
    try:
        server.check()
    except RegistrationError as error:
        first, *others = [*map(str, server_faults(server, definitions))] or [str(error)]
        hint = f"\n{len(others)} more: baton check {shlex.quote(target)}" if others else ""
        raise BatonError(f"{first}{hint}") from error
    return server


def check_target(target: str, environment: Mapping[str, str]) -> CheckResult:
    location = find(target)
    faults, definitions = list(_settings_faults(environment)), SourceDefinitions(collects=True)
    try:
        with _without_settings(bool(faults)):
            server = load(target, Server, definitions)
    except LoadError as error:
        if error.__cause__ is None and location.name not in sys.modules:
            raise
        load_fault, is_complete = _load_fault(error), error.__cause__ is None
        return CheckResult(True, (*faults, *definitions.faults, load_fault), (), {}, is_complete)
    module = sys.modules[location.name]
    errors = [*faults, *definitions.faults, *server_faults(server, definitions)]
    faulty = {name for name in server.workflows if any(f"workflow {name!r}" in fault.problem for fault in errors)}
    refused = bool(errors)
    for name, workflow in server.workflows.items():
        if name not in faulty:
            errors += WorkflowChecks(server, workflow, definitions).errors()
    warnings = tuple(advice(server, module, location.folder, environment, faulty, definitions))
    counts = {
        "tools": len(server.tools),
        "resources": len(server.resources),
        "prompts": len(server.prompts),
        "workflows": len(server.workflows),
    }
    return CheckResult(refused, tuple(errors), warnings, counts, is_complete=True, server=server)


def _load_fault(error: LoadError) -> Mistake:
    """Return why there is no server: the author's exception, or a file without a server."""
    if isinstance(error.__cause__, SyntaxError) and error.__cause__.filename:
        # The error names the line, which is in no frame.
        site = Site(Path(error.__cause__.filename), error.__cause__.lineno or 1)
        return Mistake(f"{type(error.__cause__).__name__}: {error.__cause__.msg}", "", site)
    if error.__cause__ is not None:
        return fault_of(error.__cause__) or Mistake(str(error), "")
    problem, _, remedy = str(error).partition(": ")
    return Mistake(problem, remedy)


def _settings_faults(environment: Mapping[str, str]) -> Iterator[Mistake]:
    try:
        Settings.from_environment(environment)
    except SettingsError as error:
        yield Mistake.of(str(error))


def server_faults(server: Server, definitions: SourceDefinitions) -> Iterator[Mistake]:
    """Yield the errors of a server, without those that follow from an earlier one."""
    for definition, error in definitions_without_schema(server.tools, server.resources, server.prompts):
        yield Mistake.of(str(error), function_site(definition.function))
    for workflow_error in all_workflow_errors(server.workflows, server.tools):
        if not isinstance(workflow_error, WorkflowError):
            yield Mistake.of(str(workflow_error))
        elif not _is_consequence(server, workflow_error, definitions):
            yield Mistake.of(str(workflow_error), definitions.site(workflow_error.workflow, workflow_error.step))


def _is_consequence(server: Server, error: WorkflowError, definitions: SourceDefinitions) -> bool:
    """Whether an error follows from another one: a tool, a step or a workflow that was refused."""
    if error.workflow in definitions.names or (error.step is not None and error.step in definitions.names):
        return True
    workflow = server.workflows[error.workflow]
    step = workflow.step(error.step) if error.step is not None else None
    if step is None or not error.cause.startswith(("unknown tool", "the function")):
        return False
    return step.tool in definitions.names or getattr(step.tool, "function", None) in definitions.names
