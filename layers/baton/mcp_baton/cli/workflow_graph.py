"""The data flow of a workflow, and where a run may pause: for an argument, an answer, an approval or a wait. Pure."""

from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Final, Literal

from msgspec import Struct

from mcp_baton.protocol.json import dumps
from mcp_baton.tools.approval import Approval
from mcp_baton.tools.arguments import Argument
from mcp_baton.tools.templates import placeholders
from mcp_baton.workflow.definition import Step, Workflow
from mcp_baton.workflow.sources import (
    Constant,
    FirstOf,
    Item,
    PromptArg,
    Source,
    StepOutput,
    TaskVariable,
    parts_of,
    source_text,
    sources_of,
)

type Kind = Literal["argument", "variable", "step"]
type Flow = Literal["value", "path", "text", "variable", "order"]
"""What an edge stands for: a whole value, a field of a value, a prompt argument's text in a constant or a URI, a task
variable, or only the order of two steps."""


class Pause(Struct, frozen=True):
    """What a run may wait for at a step.

    `argument` is an argument that may be missing (a tool's parameter, the placeholder in a resource's URI, or a
    question), `an approval by GROUP`, `a callback` or `a time`. `because` is the condition, as the end of a sentence;
    `None` for always.
    """

    argument: str
    because: str | None = None

    @property
    def text(self) -> str:
        return f"pauses for {self.argument}" + (f" {self.because}" if self.because else "")


class Input(Struct, frozen=True, rename={"text": "from"}):
    """An input of a step. `text` is its source: `order.email`, or the constant as JSON."""

    name: str
    of: Literal["tool", "resource"]
    text: str
    constant: bool


class Node(Struct, frozen=True):
    """A prompt argument, a task variable that no earlier step sets, or a step.

    `id` is the kind, a colon and the name. Notes are properties such as `required`, `checkpoint`, `up to 3 attempts`.
    """

    id: str
    kind: Kind
    name: str
    notes: tuple[str, ...]


class StepNode(Node, frozen=True):
    """A step. Numbers start with 1."""

    number: int
    tool: str | None
    resources: tuple[str, ...]
    inputs: tuple[Input, ...]
    pauses: tuple[Pause, ...]


class Edge(Struct, frozen=True, rename={"source": "from", "target": "to"}):
    """A value that a step gets from another node.

    `argument` is the step's parameter, or the placeholder in a resource's URI. `path` is the dotted path of a field. If
    a step sets a task variable, the path begins with the variable's name.
    """

    source: str
    target: str
    flow: Flow
    argument: str
    path: str | None = None


class Graph(Struct, frozen=True, rename={"name": "workflow"}):
    """The data flow of a workflow. Steps are last, in the order of execution."""

    name: str
    title: str
    description: str
    notes: tuple[str, ...]
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]


def pauses_of(
    step: Step, required: Sequence[str], arguments: Mapping[str, Argument], setters: Container[str]
) -> Iterator[Pause]:
    """Yield the arguments of a step that may be missing.

    `required` are the required parameters of its tool, `setters` the task variables that tools of earlier steps set.
    """
    if step.ask:
        yield Pause(step.name)
    yield from (Pause(name) for name in required if name not in step.arguments)
    for name, source in (*step.arguments.items(), *step.template_bindings.items()):
        match source:
            case PromptArg(argument) if name in required or name in step.template_bindings:
                if _may_be_missing(arguments[argument]):
                    yield Pause(name, f"unless {'it' if argument == name else argument} is given")
            case TaskVariable(variable) if variable not in setters:
                yield Pause(name, f"unless {variable} is set")
            case _:
                pass
    for argument in arguments_in_texts(step, arguments):
        if _may_be_missing(arguments[argument]):
            yield Pause(argument, "unless it is given")


def arguments_in_texts(step: Step, arguments: Mapping[str, Argument]) -> list[str]:
    """Return the prompt arguments that a step's question or the URIs of its resources use without a binding."""
    texts = [*step.resources, *([step.ask.question] if step.ask else [])]
    names = frozenset[str]().union(*map(placeholders, texts))
    return sorted((names & arguments.keys()).difference(step.template_bindings))


def _may_be_missing(argument: Argument) -> bool:
    return not argument.required and argument.default is None


def _waits_of(step: Step, approvals: Mapping[str, Approval]) -> Iterator[Pause]:
    """Yield the approval that the call of a step needs, or its wait."""
    approval = step.approval or approvals.get(step.tool or "")
    if approval is not None:
        yield Pause(f"an approval by {approval.audience}", "depending on its arguments" if approval.when else None)
    if step.is_wait:
        yield Pause(f"a {step.waits_for}")


def graph_of(
    workflow: Workflow,
    required: Mapping[str, Sequence[str]],
    sets: Mapping[str, Sequence[str]],
    approvals: Mapping[str, Approval] = MappingProxyType({}),
) -> Graph:
    """Return the graph of a checked workflow.

    `required` has the required parameters of each tool, `sets` the task variables that it sets, `approvals` the
    approvals of tools.
    """
    arguments = {argument.name: argument for argument in workflow.arguments}
    setters: dict[str, str] = {}
    steps: list[Node] = []
    edges: list[Edge] = []
    for number, step in enumerate(workflow.steps, 1):
        step_edges = list(_edges(step, workflow, arguments, setters))
        required_parameters = required.get(step.tool or "", ())
        pauses = (*pauses_of(step, required_parameters, arguments, setters), *_waits_of(step, approvals))
        steps.append(_step_node(step, number, pauses))
        edges += step_edges
        setters |= dict.fromkeys(sets.get(step.tool or "", ()), step.name)
    unset = dict.fromkeys(edge.source for edge in edges if edge.source.startswith("variable:"))
    variables = [Node(name, "variable", name.partition(":")[2], ("task variable",)) for name in unset]
    nodes = (*map(_argument_node, workflow.arguments), *variables, *steps)
    title = workflow.title or workflow.name
    return Graph(workflow.name, title, workflow.description, tuple(_notes(workflow)), nodes, tuple(edges))


def _argument_node(argument: Argument) -> Node:
    notes = ["required" if argument.required else "optional"]
    if argument.default is not None:
        notes = [f"default {dumps(argument.default)}"]
    if argument.secret:
        notes.append("secret")
    return Node(f"argument:{argument.name}", "argument", argument.name, tuple(notes))


def _step_node(step: Step, number: int, pauses: tuple[Pause, ...]) -> Node:
    inputs = [_input(name, "tool", source) for name, source in step.arguments.items()]
    inputs += [_input(name, "resource", source) for name, source in step.template_bindings.items()]
    notes = [f"output is called {step.binding}"] if step.binding != step.name and step.has_value else []
    if step.ask:
        notes.append(f"asks the {step.ask.of}: {step.ask.question}")
    if step.is_wait:
        notes.append(step.wait_text)
    if step.when is not None:
        notes.append(f"only if {step.when}")
    if step.each is not None:
        parallel_text = f", {step.parallel} at the same time" if step.parallel > 1 else ""
        notes.append(f"once for each element of {source_text(step.each)}{parallel_text}")
    if step.checkpoint:
        notes.append("checkpoint: written before the next step")
    if step.retry:
        notes.append(f"up to {step.retry.attempts} attempts")
    if step.retryable:
        notes.append("may be called again after a time-out")
    return StepNode(
        f"step:{step.name}",
        "step",
        step.name,
        tuple(notes),
        number,
        step.tool,
        tuple(step.resources),
        tuple(inputs),
        pauses,
    )


def _input(name: str, kind: Literal["tool", "resource"], source: Source) -> Input:
    match source:
        case Constant(value):
            text = dumps(value)
        case PromptArg(argument):
            text = argument
        case StepOutput(binding, path):
            text = ".".join(filter(None, (binding, path)))
        case FirstOf() | Item():
            text = source_text(source)
        case _:
            text = f"task variable {'.'.join(filter(None, (source.name, source.path)))}"
    return Input(name, kind, text, isinstance(source, Constant))


def _edges(
    step: Step, workflow: Workflow, arguments: Mapping[str, Argument], setters: Mapping[str, str]
) -> Iterator[Edge]:
    target = f"step:{step.name}"
    condition_sources = [("when", source) for comparison in step.comparisons for source in sources_of(comparison)]
    list_sources = [] if step.each is None else [("each", step.each)]
    named_sources = (*step.arguments.items(), *step.template_bindings.items(), *condition_sources, *list_sources)
    for name, source in ((name, part) for name, value_source in named_sources for part in parts_of(value_source)):
        match source:
            case FirstOf() | Item():
                pass  # their parts and the list are separate sources of this loop
            case PromptArg(argument):
                yield Edge(f"argument:{argument}", target, "value", name)
            case Constant(value):
                for argument in sorted(placeholders(dumps(value)) & arguments.keys()):
                    yield Edge(f"argument:{argument}", target, "text", name)
            case StepOutput(binding, path):
                producer = workflow.bound(binding).name
                if producer != step.name:
                    yield Edge(f"step:{producer}", target, "path" if path else "value", name, path)
            case _ if source.name in setters:
                path = ".".join(filter(None, (source.name, source.path)))
                yield Edge(f"step:{setters[source.name]}", target, "variable", name, path)
            case _:
                yield Edge(f"variable:{source.name}", target, "variable", name, source.path)
    for argument in arguments_in_texts(step, arguments):
        yield Edge(f"argument:{argument}", target, "text", argument)
    yield from (Edge(f"step:{name}", target, "order", "after") for name in step.after)


def _notes(workflow: Workflow) -> Iterator[str]:
    if not workflow.durable:
        yield "not durable: no task"
    if workflow.background:
        yield "runs in the background"
    if workflow.parallel > 1:
        yield f"up to {workflow.parallel} steps at the same time"
    if workflow.ask:
        yield "asks for what is missing"
    yield "prompt and tool" if workflow.has_workflow_tool else "prompt only"


_SHAPES: Final = {"argument": ('(["', '"])'), "variable": ('[("', '")]'), "step": ('["', '"]')}
_STYLES: Final = (
    "classDef argument fill:#dbeafe,stroke:#2563eb,color:#111827",
    "classDef variable fill:#ede9fe,stroke:#7c3aed,color:#111827",
    "classDef step fill:#ffffff,stroke:#4b5563,color:#111827",
    "classDef pauses fill:#fef3c7,stroke:#b45309,color:#111827",
)
_PLAIN: Final = frozenset(" .,:!?=*+/-_'@$()[]{}|…←→")
"""Characters that need no escape between quotes, in addition to letters and digits."""


def mermaid(graph: Graph) -> str:
    ids = {node.id: f"n{number}" for number, node in enumerate(graph.nodes)}
    steps = [node for node in graph.nodes if isinstance(node, StepNode)]
    lines = ["flowchart TB"]
    for node in graph.nodes:
        opening, closing = _SHAPES[node.kind]
        style = "pauses" if isinstance(node, StepNode) and node.pauses else node.kind
        lines.append(f"{ids[node.id]}{opening}{'<br/>'.join(map(_escape, _lines(node)))}{closing}:::{style}")
    arrows: dict[tuple[str, str], list[Edge]] = {}
    for edge in graph.edges:
        arrows.setdefault((edge.source, edge.target), []).append(edge)
    for first, second in pairwise(step.id for step in steps):
        # An invisible link keeps steps without data between them in their order.
        if (first, second) not in arrows:
            lines.append(f"{ids[first]} ~~~ {ids[second]}")
    for (source, target), edges in arrows.items():
        arrow = "-.->" if all(edge.flow in ("text", "order") for edge in edges) else "-->"
        label = "<br/>".join(dict.fromkeys(_escape(_label(edge)) for edge in edges))
        lines.append(f'{ids[source]} {arrow}|"{label}"| {ids[target]}')
    return "\n    ".join((*lines, *_STYLES)) + "\n"


def _lines(node: Node) -> Iterator[str]:
    if not isinstance(node, StepNode):
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


def _label(edge: Edge) -> str:
    """Return `email → to`, or one name if both are equal."""
    name = edge.path or edge.source.partition(":")[2]
    if name == edge.argument or (edge.flow in ("value", "order") and edge.source.startswith("step:")):
        return edge.argument
    return f"{name} → {edge.argument}"


def _escape(text: str) -> str:
    """Return a text for use between quotes. Characters with a meaning in Mermaid or HTML are escaped."""
    line = " ".join(text.split())
    return "".join(letter if letter.isalnum() or letter in _PLAIN else f"#{ord(letter)};" for letter in line)
