"""`baton graph`: a diagram of a workflow (docs/commands.md, Draw a workflow)."""

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Final

import typer

from mcp_baton.cli import options

if TYPE_CHECKING:
    from mcp_baton.cli.workflow_graph import Edge, Graph, Node
    from mcp_baton.server.server import Server
    from mcp_baton.workflow.definition import Workflow


def graph(
    target: options.Target,
    workflow: Annotated[
        str | None,
        typer.Argument(metavar="WORKFLOW", help="The workflow's name; optional if there is only one."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the nodes and edges as JSON.")] = False,
) -> int:
    """Draw the data flow of a workflow and where it may pause."""
    from mcp_baton.cli.workflow_graph import graph_of, to_json
    from mcp_baton.local.clean_text import print_json
    from mcp_baton.local.loader import load
    from mcp_baton.server.server import Server

    server = load(target, Server)
    server.check()
    chosen = _chosen(server, workflow)
    required = {name: _required(server, name) for name in server.tools}
    made = graph_of(chosen, required, {name: tool.sets for name, tool in server.tools.items()})
    if as_json:
        print_json(to_json(made))
    else:
        typer.echo(mermaid(made), nl=False)
    return 0


def _chosen(server: "Server", name: str | None) -> "Workflow":
    """Return the workflow with this name, or the only one."""
    from difflib import get_close_matches

    from mcp_baton.exceptions import BatonError

    names = list(server.workflows)
    if not names:
        raise BatonError(f"the server {server.options.name!r} has no workflow: add one with server.add_workflow")
    if name is None and len(names) == 1:
        return server.workflows[names[0]]
    if name in server.workflows:
        return server.workflows[name]
    if name is None:
        raise BatonError(f"the server {server.options.name!r} has several workflows: name one of {', '.join(names)}")
    close = get_close_matches(name, names, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(names)}"
    raise BatonError(f"the server {server.options.name!r} has no workflow {name!r}; {hint}")


def _required(server: "Server", tool: str) -> tuple[str, ...]:
    """Return the required parameters of a tool."""
    found = server.tools[tool].input_schema.get("required", [])
    return tuple(name for name in found if isinstance(name, str)) if isinstance(found, list) else ()


_SHAPES: Final = {"argument": ('(["', '"])'), "variable": ('[("', '")]'), "step": ('["', '"]')}
_STYLES: Final = (
    "classDef argument fill:#dbeafe,stroke:#2563eb,color:#111827",
    "classDef variable fill:#ede9fe,stroke:#7c3aed,color:#111827",
    "classDef step fill:#ffffff,stroke:#4b5563,color:#111827",
    "classDef pauses fill:#fef3c7,stroke:#b45309,color:#111827",
)
_PLAIN: Final = frozenset(" .,:!?=*+/-_'@$()[]{}|…←→")
"""Characters that need no escape between quotes, in addition to letters and digits."""


def mermaid(graph: "Graph") -> str:
    """Return the flowchart as text."""
    ids = {node.id: f"n{number}" for number, node in enumerate(graph.nodes)}
    lines = ["flowchart TB", *_nodes(graph, ids), *_order(graph, ids)]
    for source, target, labels in _bundled(graph.edges):
        arrow = "-.->" if all(edge.flow == "text" for edge in labels) else "-->"
        label = "<br/>".join(dict.fromkeys(_escaped(_label(edge)) for edge in labels))
        lines.append(f'{ids[source]} {arrow}|"{label}"| {ids[target]}')
    return "\n    ".join((*lines, *_STYLES)) + "\n"


def _nodes(graph: "Graph", ids: dict[str, str]) -> Iterator[str]:
    for node in graph.nodes:
        before, after = _SHAPES[node.kind]
        style = "pauses" if node.pauses else node.kind
        yield f"{ids[node.id]}{before}{'<br/>'.join(map(_escaped, _lines(node)))}{after}:::{style}"


def _order(graph: "Graph", ids: dict[str, str]) -> Iterator[str]:
    """Yield invisible links that keep steps without data between them in their order."""
    steps = [node.id for node in graph.nodes if node.kind == "step"]
    linked = {(edge.source, edge.target) for edge in graph.edges}
    for one, other in pairwise(steps):
        if (one, other) not in linked:
            yield f"{ids[one]} ~~~ {ids[other]}"


def _lines(node: "Node") -> Iterator[str]:
    if node.kind != "step":
        yield node.name
        yield ", ".join(node.notes)
        return
    yield f"{node.number}. {node.name}"
    if node.tool:
        yield f"calls {node.tool}"
    yield from (f"reads {uri}" for uri in node.resources)
    yield from (f"{item.name} = {item.text}" for item in node.inputs if item.constant)
    yield from node.notes
    yield from (pause.text for pause in node.pauses)


def _bundled(edges: "tuple[Edge, ...]") -> "Iterator[tuple[str, str, list[Edge]]]":
    """Yield the edges between two nodes together."""
    pairs = dict.fromkeys((edge.source, edge.target) for edge in edges)
    for source, target in pairs:
        yield source, target, [edge for edge in edges if (edge.source, edge.target) == (source, target)]


def _label(edge: "Edge") -> str:
    """Return `email → to`, or one name if both are equal."""
    name = edge.path or edge.source.partition(":")[2]
    if edge.flow == "value" and edge.source.startswith("step:"):
        return edge.argument
    return edge.argument if name == edge.argument else f"{name} → {edge.argument}"


def _escaped(text: str) -> str:
    """Return a text for use between quotes. Characters with a meaning in Mermaid or HTML are escaped."""
    flat = " ".join(text.split())
    return "".join(letter if letter.isalnum() or letter in _PLAIN else f"#{ord(letter)};" for letter in flat)
