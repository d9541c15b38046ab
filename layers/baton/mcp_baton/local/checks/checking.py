"""All that the handler, `baton serve` and the testing client would refuse a server for, at once."""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mcp_baton import Server, Settings
from mcp_baton.exceptions import SettingsError, WorkflowError
from mcp_baton.local.checks.advice import advice
from mcp_baton.local.checks.collecting import NOTHING, Collected, collecting
from mcp_baton.local.checks.definitions import function_site, workflow_site
from mcp_baton.local.checks.faults import Fault, Site, fault_of
from mcp_baton.local.loader import LoadError, find, load
from mcp_baton.server.published.descriptions import undescribed
from mcp_baton.server.published.workflow_checks import all_workflow_errors


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check found.

    Attributes:
        errors: What would be refused.
        warnings: What works, and is worth a second look.
        published: How many there are of each kind: `{"tools": 3, …}`; empty where there is no server.
        whole: Whether the file was read to its end, so that these are all errors.
    """

    errors: tuple[Fault, ...]
    warnings: tuple[Fault, ...]
    published: Mapping[str, int]
    whole: bool


def check_target(target: str, environment: Mapping[str, str]) -> Checked:
    """Load a server and check all of it.

    Args:
        target: As `loader.load` takes it.
        environment: The process's variables: Baton's settings are checked, too.

    Raises:
        LoadError: there is no such file or module.
    """
    place = find(target)
    faults = list(_settings_faults(environment))
    try:
        with collecting() as collected:
            server = load(target, Server)
    except LoadError as error:
        if error.__cause__ is None and place.name not in sys.modules:
            raise
        more, whole = _load_fault(error), error.__cause__ is None
        return Checked((*faults, *collected.faults, more), (), {}, whole)
    module = sys.modules[place.name]
    errors = (*faults, *collected.faults, *server_faults(server, place.folder, collected))
    wrong = {name for name in server.workflows if any(f"workflow {name!r}" in fault.problem for fault in errors)}
    warnings = tuple(advice(server, module, place.folder, environment, wrong, collected))
    counts = {
        "tools": len(server.tools),
        "resources": len(server.resources),
        "prompts": len(server.prompts),
        "workflows": len(server.workflows),
    }
    return Checked(errors, warnings, counts, whole=True)


def _load_fault(error: LoadError) -> Fault:
    """Why there is no server: the author's own exception, or that none is to be had from the file."""
    if isinstance(error.__cause__, SyntaxError) and error.__cause__.filename:
        # No frame has the line: Python names it in the error.
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


def server_faults(server: Server, folder: Path, collected: Collected = NOTHING) -> Iterator[Fault]:
    """All that is wrong with a server, but what comes of an earlier mistake.

    Args:
        server: The server.
        folder: Where its files are.
        collected: What was wrong while they were loaded.
    """
    for published, error in undescribed(server.tools, server.resources, server.prompts):
        yield Fault.of(str(error), function_site(published.function))
    for refused in all_workflow_errors(server.workflows, server.tools, server.twin_names):
        if not isinstance(refused, WorkflowError):
            yield Fault.of(str(refused))
        elif not _follows(server, refused, collected):
            yield Fault.of(str(refused), workflow_site(folder, refused.workflow, refused.step))


def _follows(server: Server, error: WorkflowError, collected: Collected) -> bool:
    """Whether an error comes of another one that has been taken down: a tool, a step or a workflow that was refused."""
    if error.workflow in collected.parts or error.step in collected.parts:
        return True
    workflow = server.workflows[error.workflow]
    step = workflow.step(error.step) if error.step is not None else None
    if step is None or not error.cause.startswith(("unknown tool", "the function")):
        return False
    return step.tool in collected.tools or getattr(step.tool, "function", None) in collected.tools
