"""The data flow of a workflow, and the steps at which a run may pause because an argument is missing. Pure."""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from mcp_baton.protocol.json import Json, JsonObject, dumps
from mcp_baton.workflow.definition import Argument, Step, Workflow
from mcp_baton.workflow.sources import (
    Constant,
    FirstOf,
    PromptArg,
    Source,
    StepOutput,
    TaskVariable,
    parts_of,
    placeholders,
    sources_of,
    written,
)


@dataclass(frozen=True, slots=True)
class Pause:
    """An argument that may be missing.

    Attributes:
        argument: The tool's parameter, or the placeholder in a resource's URI.
        because: The condition, as the end of a sentence; `None` for always.
    """

    argument: str
    because: str | None = None

    @property
    def text(self) -> str:
        """The pause in words."""
        return f"pauses for {self.argument}" + (f" {self.because}" if self.because else "")


def pauses_of(
    step: Step, must: Sequence[str], given: Mapping[str, Argument], setters: Container[str]
) -> Iterator[Pause]:
    """Yield the arguments of a step that may be missing.

    Args:
        step: A step of a checked workflow.
        must: The required parameters of its tool.
        given: The workflow's arguments by name.
        setters: The task variables that the tools of earlier steps set.
    """
    if step.ask:
        yield Pause(step.name)
    yield from (Pause(name) for name in must if name not in step.arguments)
    for name, source in (*step.arguments.items(), *step.template_bindings.items()):
        match source:
            case PromptArg(argument) if name in must or name in step.template_bindings:
                if _may_lack(given[argument]):
                    yield Pause(name, f"unless {_it(argument, name)} is given")
            case TaskVariable(variable) if variable not in setters:
                yield Pause(name, f"unless {variable} is set")
            case _:
                pass
    for argument in in_texts(step, given):
        if _may_lack(given[argument]):
            yield Pause(argument, "unless it is given")


def _it(argument: str, name: str) -> str:
    return "it" if argument == name else argument


def in_texts(step: Step, given: Mapping[str, Argument]) -> list[str]:
    """Return the prompt arguments that a step's question or the URIs of its resources use without a binding."""
    texts = [*step.resources, *([step.ask.question] if step.ask else [])]
    names = frozenset[str]().union(*map(placeholders, texts))
    return sorted((names & given.keys()).difference(step.template_bindings))


def _may_lack(argument: Argument) -> bool:
    return not argument.required and argument.default is None


type Kind = Literal["argument", "variable", "step"]
type Flow = Literal["value", "path", "text", "variable"]
"""A whole value; a field of a value; a prompt argument's text in a constant or a URI; a task variable."""


@dataclass(frozen=True, slots=True)
class Input:
    """An input of a step.

    Attributes:
        name: The tool's parameter, or the placeholder in a resource's URI.
        of: Whether the tool or the resource uses it.
        text: Its source: `order.email`, or the constant as JSON.
        constant: Whether it is a constant.
    """

    name: str
    of: Literal["tool", "resource"]
    text: str
    constant: bool = False


@dataclass(frozen=True, slots=True)
class Node:
    """A prompt argument, a task variable that no earlier step sets, or a step.

    Attributes:
        id: Unique in the graph: its kind, a colon and its name.
        kind: Its kind.
        name: Its name.
        number: The position of a step, from 1; 0 for other kinds.
        tool: The tool of a step.
        resources: The URIs that a step fetches.
        inputs: The inputs of a step, in the order of the definition.
        notes: Properties such as `required`, `checkpoint`, `up to 3 attempts`.
        pauses: The arguments that may be missing.
    """

    id: str
    kind: Kind
    name: str
    number: int = 0
    tool: str | None = None
    resources: tuple[str, ...] = ()
    inputs: tuple[Input, ...] = ()
    notes: tuple[str, ...] = ()
    pauses: tuple[Pause, ...] = ()


@dataclass(frozen=True, slots=True)
class Edge:
    """A value that a step gets from another node.

    Attributes:
        source: The id of the node that has it.
        target: The id of the step that gets it.
        flow: The kind of the value.
        argument: The step's parameter, or the placeholder in a resource's URI.
        path: The dotted path of a field. For a task variable that a step sets, it begins with the variable's name.
    """

    source: str
    target: str
    flow: Flow
    argument: str
    path: str | None = None


@dataclass(frozen=True, slots=True)
class Graph:
    """The data flow of a workflow. Steps are last, in the order of execution."""

    name: str
    title: str
    description: str
    notes: tuple[str, ...]
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]


def graph_of(workflow: Workflow, required: Mapping[str, Sequence[str]], sets: Mapping[str, Sequence[str]]) -> Graph:
    """Return the graph of a checked workflow.

    Args:
        workflow: The workflow. Its steps name their tools.
        required: The required parameters of each tool.
        sets: The task variables that each tool sets.
    """
    given = {argument.name: argument for argument in workflow.arguments}
    setters: dict[str, str] = {}
    steps: list[Node] = []
    edges: list[Edge] = []
    for number, step in enumerate(workflow.steps, 1):
        own = list(_edges(step, workflow, given, setters))
        must = required.get(step.tool or "", ())
        steps.append(_step_node(step, number, tuple(pauses_of(step, must, given, setters))))
        edges += own
        setters |= dict.fromkeys(sets.get(step.tool or "", ()), step.name)
    unset = dict.fromkeys(edge.source for edge in edges if edge.source.startswith("variable:"))
    variables = [Node(name, "variable", name.partition(":")[2], notes=("task variable",)) for name in unset]
    nodes = (*map(_argument_node, workflow.arguments), *variables, *steps)
    title = workflow.title or workflow.name
    return Graph(workflow.name, title, workflow.description, tuple(_notes(workflow)), nodes, tuple(edges))


def to_json(graph: Graph) -> JsonObject:
    """Return the graph as `baton graph --json` prints it (docs/commands.md, Draw a workflow)."""
    return {
        "workflow": graph.name,
        "title": graph.title,
        "description": graph.description,
        "notes": list(graph.notes),
        "nodes": [_node_json(node) for node in graph.nodes],
        "edges": [
            {"from": edge.source, "to": edge.target, "flow": edge.flow, "argument": edge.argument, "path": edge.path}
            for edge in graph.edges
        ],
    }


def _node_json(node: Node) -> dict[str, Json]:
    made: dict[str, Json] = {"id": node.id, "kind": node.kind, "name": node.name, "notes": list(node.notes)}
    if node.kind == "step":
        made |= {"number": node.number, "tool": node.tool, "resources": list(node.resources)}
        made["inputs"] = [{"name": item.name, "of": item.of, "from": item.text} for item in node.inputs]
        made["pauses"] = [{"argument": pause.argument, "because": pause.because} for pause in node.pauses]
    return made


def _argument_node(argument: Argument) -> Node:
    notes = ["required" if argument.required else "optional"]
    if argument.default is not None:
        notes = [f"default {dumps(argument.default)}"]
    if argument.secret:
        notes.append("secret")
    return Node(f"argument:{argument.name}", "argument", argument.name, notes=tuple(notes))


def _step_node(step: Step, number: int, pauses: tuple[Pause, ...]) -> Node:
    inputs = [_input(name, "tool", source) for name, source in step.arguments.items()]
    inputs += [_input(name, "resource", source) for name, source in step.template_bindings.items()]
    notes = [f"output is called {step.binding}"] if step.binding != step.name and step.has_value else []
    if step.ask:
        notes.append(f"asks the {step.ask.of}: {step.ask.question}")
    if step.when is not None:
        notes.append(f"only if {step.when}")
    if step.checkpoint:
        notes.append("checkpoint: written before the next step")
    if step.retry:
        notes.append(f"up to {step.retry.attempts} attempts")
    if step.retryable:
        notes.append("may be called again after a time-out")
    return Node(
        f"step:{step.name}",
        "step",
        step.name,
        number,
        step.tool,
        tuple(step.resources),
        tuple(inputs),
        tuple(notes),
        pauses,
    )


def _input(name: str, of: Literal["tool", "resource"], source: Source) -> Input:
    match source:
        case Constant(value):
            return Input(name, of, dumps(value), constant=True)
        case PromptArg(argument):
            return Input(name, of, argument)
        case StepOutput(binding, path):
            return Input(name, of, ".".join(filter(None, (binding, path))))
        case FirstOf():
            return Input(name, of, written(source))
        case _:
            return Input(name, of, f"task variable {'.'.join(filter(None, (source.name, source.path)))}")


def _edges(step: Step, workflow: Workflow, given: Mapping[str, Argument], setters: Mapping[str, str]) -> Iterator[Edge]:
    target = f"step:{step.name}"
    of_condition = [("when", source) for it in step.comparisons for source in sources_of(it)]
    given_sources = (*step.arguments.items(), *step.template_bindings.items(), *of_condition)
    for name, source in ((name, part) for name, whole in given_sources for part in parts_of(whole)):
        match source:
            case FirstOf():
                pass  # its parts are here
            case PromptArg(argument):
                yield Edge(f"argument:{argument}", target, "value", name)
            case Constant(value):
                for argument in sorted(placeholders(dumps(value)) & given.keys()):
                    yield Edge(f"argument:{argument}", target, "text", name)
            case StepOutput(binding, path):
                producer = workflow.bound(binding).name
                if producer != step.name:
                    yield Edge(f"step:{producer}", target, "path" if path else "value", name, path)
            case _:
                yield _variable_edge(source, target, name, setters)
    for argument in in_texts(step, given):
        yield Edge(f"argument:{argument}", target, "text", argument)


def _variable_edge(source: TaskVariable, target: str, name: str, setters: Mapping[str, str]) -> Edge:
    if source.name in setters:
        path = ".".join(filter(None, (source.name, source.path)))
        return Edge(f"step:{setters[source.name]}", target, "variable", name, path)
    return Edge(f"variable:{source.name}", target, "variable", name, source.path)


def _notes(workflow: Workflow) -> Iterator[str]:
    if not workflow.durable:
        yield "not durable: no task"
    if workflow.background:
        yield "runs in the background"
    if workflow.ask:
        yield "asks for what is missing"
    if workflow.has_workflow_tool:
        yield "prompt and tool"
    else:
        yield "prompt only"
