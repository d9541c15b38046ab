"""`baton graph`: a picture of a workflow (docs/commands.md, Draw a workflow)."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from mcp_baton.server.server import Server
    from mcp_baton.workflow.definition import Workflow


def graph(
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="The Server: app.py, app.py:server or package.module:server.")
    ],
    workflow: Annotated[
        str | None,
        typer.Argument(metavar="WORKFLOW", help="The workflow's name; may be left out where there is one alone."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the nodes and edges as JSON.")] = False,
) -> int:
    """Draw the data flow of a workflow, and where it may pause."""
    from mcp_baton.cli.drawing.flow import graph_of, to_json
    from mcp_baton.cli.drawing.mermaid import mermaid
    from mcp_baton.local.clean_text import escaped
    from mcp_baton.local.loader import load
    from mcp_baton.server.server import Server

    server = load(target, Server)
    server.check()
    chosen = _chosen(server, workflow)
    required = {name: _required(server, name) for name in server.tools}
    made = graph_of(chosen, required, {name: tool.sets for name, tool in server.tools.items()})
    if as_json:
        typer.echo(escaped(json.dumps(to_json(made), ensure_ascii=False, indent=2)))
    else:
        typer.echo(mermaid(made), nl=False)
    return 0


def _chosen(server: "Server", name: str | None) -> "Workflow":
    """The workflow of this name, or the only one."""
    from difflib import get_close_matches

    from mcp_baton.exceptions import BatonError

    names = list(server.workflows)
    if not names:
        raise BatonError(f"the server {server.name!r} has no workflow: add one with server.add_workflow")
    if name is None and len(names) == 1:
        return server.workflows[names[0]]
    if name in server.workflows:
        return server.workflows[name]
    if name is None:
        raise BatonError(f"the server {server.name!r} has several workflows, name one of {', '.join(names)}")
    close = get_close_matches(name, names, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(names)}"
    raise BatonError(f"the server {server.name!r} has no workflow {name!r}; {hint}")


def _required(server: "Server", tool: str) -> tuple[str, ...]:
    """The parameters that a call must have."""
    found = server.tools[tool].input_schema.get("required", [])
    return tuple(name for name in found if isinstance(name, str)) if isinstance(found, list) else ()
