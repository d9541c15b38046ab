"""`baton check`: errors that refuse a server, errors that are certain to fail a workflow's run, and suggestions."""

import inspect
import shlex
import sys
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from mcp_baton import Server, Settings, Workflow
from mcp_baton.exceptions import BatonError, RegistrationError, WorkflowError
from mcp_baton.local.framework_types import difficulties
from mcp_baton.local.loader import LoadError, find, load
from mcp_baton.local.mistakes import DefinitionLines, Mistake, Site, function_site
from mcp_baton.local.step_checks import StepChecks, schema_or_empty
from mcp_baton.settings import approver_warnings, unknown_settings
from mcp_baton.tools.schema.signature import shown_type
from mcp_baton.tools.templates import placeholders
from mcp_baton.tools.tool import Tool
from mcp_baton.workflow.function_checks import all_workflow_errors, definitions_without_schema
from mcp_baton.workflow.sources import Constant, PromptArg
from mcp_baton.workflow.steps.step import Step

MAX_PORTABLE_NAME_CHARS: Final = 45
"""The maximum length of a tool's name if hosts put a prefix before it (docs/tools.md, Names)."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """`refused` is whether a handler would refuse the server; the other errors fail when a workflow runs. `server` is
    missing if it could not be loaded. Then there may be more errors."""

    refused: bool
    errors: tuple[Mistake, ...]
    warnings: tuple[Mistake, ...] = ()
    server: Server | None = None

    @property
    def published(self) -> dict[str, int]:
        """How many tools, resources, prompts and workflows the server has; empty without a server."""
        kinds = ("tools", "resources", "prompts", "workflows") if self.server else ()
        return {kind: len(getattr(self.server, kind)) for kind in kinds}


def load_checked(target: str) -> Server:
    """Return the server that a target names, after a full check. Raises `BatonError` if a file cannot be loaded, or the
    handler would refuse the server."""
    lines = DefinitionLines()
    server = load(target, Server, lines)
    try:
        server.check()
    except RegistrationError as error:
        first, *others = [*map(str, _server_errors(server, lines))] or [str(error)]
        hint = f"\n{len(others)} more: baton check {shlex.quote(target)}" if others else ""
        raise BatonError(f"{first}{hint}") from error
    return server


def check_target(target: str, environment: Mapping[str, str]) -> CheckResult:
    location, lines = find(target), DefinitionLines()
    try:
        server = load(target, Server, lines)
    except LoadError as error:
        if error.mistake is None:
            raise
        return CheckResult(True, (error.mistake,))
    errors = list(_server_errors(server, lines))
    faulty = {name for name in server.workflows if any(f"workflow {name!r}" in error.problem for error in errors)}
    refused = bool(errors)
    for name, workflow in server.workflows.items():
        if name not in faulty:
            errors += StepChecks(server, workflow, lines).errors()
    warnings = tuple(_advice(server, sys.modules[location.name], environment, faulty, lines))
    return CheckResult(refused, tuple(errors), warnings, server)


def _server_errors(server: Server, lines: DefinitionLines) -> Iterator[Mistake]:
    for definition, error in definitions_without_schema(server.tools, server.resources, server.prompts):
        yield Mistake.of(str(error), function_site(definition.function))
    for found in all_workflow_errors(server.workflows, server.tools):
        site = lines.site(found.workflow, found.step) if isinstance(found, WorkflowError) else None
        yield Mistake.of(str(found), site)


# Suggestions


def _advice(
    server: Server, module: ModuleType, environment: Mapping[str, str], faulty: Container[str], lines: DefinitionLines
) -> Iterator[Mistake]:
    """Yield suggestions for a loaded server, but none about the `faulty` workflows."""
    for tool in server.tools.values():
        yield from _tool_advice(tool)
    for name, workflow in server.workflows.items():
        if name not in faulty:
            yield from _workflow_advice(server, workflow, lines)
    if not hasattr(module, "lambda_handler"):
        file = Path(module.__file__ or module.__name__).name
        yield Mistake(
            f"{file} has no lambda_handler, which Lambda calls",
            "write lambda_handler = handler(server) at its end, with from mcp_baton.aws import handler",
        )
    yield from map(Mistake.of, unknown_settings(environment))
    if approvers := Settings.from_environment(environment).approvers:
        yield from map(Mistake.of, approver_warnings(approvers, server.full_view.approval_groups))


def _tool_advice(tool: Tool) -> Iterator[Mistake]:
    label, site = f"tool {tool.name!r}", function_site(tool.decorated)
    if not tool.labels.description:
        remedy = "write a docstring: models choose tools by their description"
        yield Mistake(f"{label} has no description", remedy, site)
    yield from _host_advice(label, tool.name, lambda: tool.definition["inputSchema"], site)
    signature = inspect.signature(tool.decorated)
    properties: Any = schema_or_empty(lambda: tool.input_schema).get("properties", {})
    untyped = {name for name, item in signature.parameters.items() if item.annotation is item.empty}
    undescribed = {
        parameter.published_name: "str" if parameter.name in untyped else shown_type(parameter.annotation)
        for parameter in tool.signature.parameters
        # A tool whose schema cannot be made has another mistake.
        if not properties.get(parameter.published_name, {"description": "none"}).get("description")
    }
    if undescribed:
        names = ", ".join(map(repr, undescribed))
        lacking = "no type and no description" if untyped else "no description"
        kinds = {
            name: kind[:-1] if kind.startswith("Annotated[") else f"Annotated[{kind}"
            for name, kind in undescribed.items()
        }
        remedy = ", ".join(f"{name}: {kind}, '…']" for name, kind in kinds.items())
        yield Mistake(f"{label}: {lacking} of {names}, which models have to fill in", f"write {remedy}", site)
    if signature.return_annotation is signature.empty:
        problem = f"{label} has no return type, so its result is not checked"
        yield Mistake(problem, "write -> and a type, or -> None", site)


def _host_advice(label: str, name: str, make: Callable[[], Any], site: Site | None) -> Iterator[Mistake]:
    """Yield the names and types that some hosts and agent frameworks cannot use."""
    if len(name) > MAX_PORTABLE_NAME_CHARS:
        problem = f"{label}: the name has {len(name)} characters, and hosts add a prefix and allow 64 in total"
        yield Mistake(problem, f"use a shorter name, of at most {MAX_PORTABLE_NAME_CHARS} characters", site)
    for parameter, problem, remedy in difficulties(schema_or_empty(make)):
        yield Mistake(f"{label}: {'' if parameter is None else f'the type of {parameter!r} '}{problem}", remedy, site)


def _workflow_advice(server: Server, workflow: Workflow, lines: DefinitionLines) -> Iterator[Mistake]:
    label, site = f"workflow {workflow.name!r}", lines.site(workflow.name)
    workflow_tool = server.full_view.workflow_tool(workflow.name)
    if workflow_tool is not None:
        yield from _host_advice(label, workflow.name, lambda: workflow_tool.input_schema, site)
    used_arguments = set[str]().union(*(_arguments_in(step) for step in workflow.steps))
    for argument in workflow.arguments:
        name = argument.name
        if name not in used_arguments:
            remedy = f"use it in a step (without a workflow function: prompt_arg({name!r})), or remove it"
            yield Mistake(f"{label}: nothing uses the argument {name!r}", remedy, site)
        elif not argument.description:
            problem = f"{label}: the argument {name!r} has no description, and a person or a model has to fill it in"
            remedy = f"write {name}: Annotated[…, '…'] (without a workflow function: Argument({name!r}, '…'))"
            yield Mistake(problem, remedy, site)
    yield from StepChecks(server, workflow, lines).suggestions()


def _arguments_in(step: Step) -> Iterator[str]:
    yield from (source.name for source in step.sources if isinstance(source, PromptArg))
    constants = [repr(source.value) for source in step.sources if isinstance(source, Constant)]
    for text in (*step.texts, *constants):
        yield from placeholders(text)
