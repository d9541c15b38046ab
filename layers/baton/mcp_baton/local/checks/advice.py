"""What works, and is worth a second look before it is deployed (docs/commands.md, Check a server)."""

from collections.abc import Callable, Container, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from mcp_baton import Server, Workflow
from mcp_baton.local.checks.collecting import NOTHING, Collected
from mcp_baton.local.checks.definitions import function_site, workflow_site
from mcp_baton.local.checks.faults import Fault, Site
from mcp_baton.local.checks.values import value_faults
from mcp_baton.server.published.tool import Tool
from mcp_baton.server.schema.undescribed import shown_type
from mcp_baton.settings import unknown_settings
from mcp_baton.workflow.definition import Step
from mcp_baton.workflow.sources import Constant, PromptArg, Source, StepOutput, placeholders
from mcp_baton.workflow.tool_function import ToolFunction

LONGEST_NAME: Final = 45
"""Characters of a tool's name that fit beside what hosts put before it (docs/tools.md, Names)."""


def advice(
    server: Server,
    module: ModuleType,
    folder: Path,
    environment: Mapping[str, str],
    wrong: Container[str] = (),
    collected: Collected = NOTHING,
) -> Iterator[Fault]:
    """What is worth knowing of a server that was loaded.

    Args:
        server: The server.
        module: The module that it was taken from.
        folder: Where its files are.
        environment: The process's variables.
        wrong: The names of workflows that are refused, of which no more is said.
        collected: What the files made while they were loaded.
    """
    for tool in server.tools.values():
        yield from _of_tool(tool)
    for name, workflow in server.workflows.items():
        if name not in wrong:
            yield from _of_workflow(server, workflow, folder)
    yield from _left_out(server, module, folder, collected)
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
        yield Fault(f"{what} has no description", "say in a docstring what it does: models choose by it", site)
    bare: list[str] = []
    for parameter in tool.signature.parameters:
        default = parameter.default
        if isinstance(default, list | dict | set):
            yield Fault(
                f"{what}: the default of the parameter {parameter.name!r} is one {type(default).__name__} that all "
                "calls share, also those of different callers",
                f"write {parameter.name}: … | None = None, and make it in the function",
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
    """Whether clients are told what a parameter is; of a tool that cannot be described at all another fault speaks."""
    try:
        shown: Any = tool.input_schema
    except Exception:  # noqa: BLE001 - a type of the author's brings code along, which may raise anything
        return True
    return bool(shown.get("properties", {}).get(parameter, {"description": "none"}).get("description"))


def _long_name(what: str, name: str, site: Site | None) -> Iterator[Fault]:
    if len(name) > LONGEST_NAME:
        yield Fault(
            f"{what}: the name has {len(name)} characters, and hosts put more before it, up to 64 in all",
            f"give it a shorter one, of {LONGEST_NAME} at most",
            site,
        )


def _of_workflow(server: Server, workflow: Workflow, folder: Path) -> Iterator[Fault]:
    what = f"workflow {workflow.name!r}"

    def site(step: str | None = None) -> Site | None:
        return workflow_site(folder, workflow.name, step)

    if workflow.has_twin:
        yield from _long_name(what, workflow.name, site() if len(workflow.name) > LONGEST_NAME else None)
    used = set[str]().union(*(_arguments_in(step) for step in workflow.steps))
    for argument in workflow.arguments:
        name = argument.name
        if name not in used:
            yield Fault(
                f"{what}: nothing uses the argument {name!r}",
                f"give it to a step, with prompt_arg({name!r}), or leave it out",
                site(),
            )
        elif not argument.description:
            yield Fault(
                f"{what}: the argument {name!r} has no description, and somebody has to fill it in",
                f"write Argument({name!r}, '…')",
                site(),
            )
    yield from value_faults(server, workflow, site, _tool_of)
    if workflow.durable:
        yield from _unknown_outputs(server, workflow, site)


def _arguments_in(step: Step) -> Iterator[str]:
    """The arguments of its workflow that a step uses."""
    texts = [*step.resources, step.guidance or ""]
    for source in (*step.arguments.values(), *step.template_bindings.values()):
        if isinstance(source, PromptArg):
            yield source.name
        elif isinstance(source, Constant):
            texts.append(repr(source.value))
    for text in texts:
        yield from placeholders(text)


def _unknown_outputs(server: Server, workflow: Workflow, site: Callable[[str | None], Site | None]) -> Iterator[Fault]:
    """Paths into outputs of which nothing is known, so that a typo shows when the workflow runs."""
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


def _left_out(server: Server, module: ModuleType, folder: Path, collected: Collected) -> Iterator[Fault]:
    """Workflows that the author's files made and did not add to a server."""
    added, variables = set(map(id, collected.added)), {id(value): name for name, value in vars(module).items()}
    for workflow, site in collected.made:
        if (
            id(workflow) in added
            or workflow.name in server.workflows
            or not (site and site.file.is_relative_to(folder))
        ):
            continue
        yield Fault(
            f"workflow {workflow.name!r} is not added to the server",
            f"write server.add_workflow({variables.get(id(workflow), 'Workflow(…)')})",
            workflow_site(folder, workflow.name) or site,
        )
