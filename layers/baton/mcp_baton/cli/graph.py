"""`baton graph`: a flowchart of a workflow (docs/commands.md, Draw a workflow)."""

from typing import TYPE_CHECKING, Annotated

import typer

from mcp_baton.cli import options

if TYPE_CHECKING:
    from mcp_baton.server.server import Server
    from mcp_baton.workflow.definition import Workflow


def graph(
    target: options.Target,
    workflow: Annotated[
        str | None,
        typer.Argument(metavar="WORKFLOW", help="The workflow's name; optional if there is only one."),
    ] = None,
) -> int:
    """Draw the data flow of a workflow and where it may pause."""
    from mcp_baton.cli.mermaid import mermaid
    from mcp_baton.local.checking import load_checked

    server = load_checked(target)
    typer.echo(mermaid(_select_workflow(server, workflow), server.tools), nl=False)
    return 0


def _select_workflow(server: "Server", name: str | None) -> "Workflow":
    from mcp_baton.cli.remote.arguments import unknown
    from mcp_baton.exceptions import BatonError

    names = list(server.workflows)
    if not names:
        raise BatonError(f"the server {server.options.name!r} has no workflow: add one with server.add_workflow")
    if name is None and len(names) > 1:
        raise BatonError(f"the server {server.options.name!r} has several workflows: name one of {', '.join(names)}")
    if name is not None and name not in names:
        raise unknown("workflow", name, names)
    return server.workflows[name or names[0]]
