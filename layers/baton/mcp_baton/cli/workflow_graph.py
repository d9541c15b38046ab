"""Where a run of a workflow pauses for want of an argument, as far as its definition tells. Pure."""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from mcp_baton.protocol.json import Json, JsonObject, dumps
from mcp_baton.workflow.definition import Argument, Step, Workflow
from mcp_baton.workflow.sources import Constant, PromptArg, Source, StepOutput, TaskVariable, placeholders


@dataclass(frozen=True, slots=True)
class Pause:
    """An argument that a run may lack.

    Attributes:
        argument: The tool's parameter, or the placeholder in a resource's URI.
        because: When it is lacking, as the end of a sentence; `None` for always.
    """

    argument: str
    because: str | None = None

    @property
    def text(self) -> str:
        """The same in words."""
        return f"pauses for {self.argument}" + (f" {self.because}" if self.because else "")


def pauses_of(
    step: Step, must: Sequence[str], given: Mapping[str, Argument], setters: Container[str]
) -> Iterator[Pause]:
    """The arguments that a run may lack at a step.

    Args:
        step: The step, of a workflow that has been checked.
        must: The parameters of its tool that must have a value.
        given: The workflow's arguments by name.
        setters: The task variables that an earlier step's tool says it sets.
    """
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
    for argument in in_uris(step, given):
        if _may_lack(given[argument]):
            yield Pause(argument, "unless it is given")


def _it(argument: str, name: str) -> str:
    return "it" if argument == name else argument


def in_uris(step: Step, given: Mapping[str, Argument]) -> list[str]:
    """The prompt arguments whose texts stand in the URIs of a step's resources without a binding."""
    names = frozenset[str]().union(*map(placeholders, step.resources))
    return sorted((names & given.keys()).difference(step.template_bindings))


def _may_lack(argument: Argument) -> bool:
    return not argument.required and argument.default is None


type Kind = Literal["argument", "variable", "step"]
type Flow = Literal["value", "path", "text", "variable"]
"""A whole value; a field of one; a prompt argument's text within a constant or a URI; a task variable."""

ANY_STEP: Final = "Any step pauses when its tool fails or the time runs out."


@dataclass(frozen=True, slots=True)
class Input:
    """A value that a step takes.

    Attributes:
        name: The tool's parameter, or the placeholder in a resource's URI.
        of: What takes it.
        text: Where it comes from, in short: `order.email`, or the constant as JSON.
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
        kind: What it is.
        name: Its name.
        number: A step's place in the order of execution, from 1; 0 for the others.
        tool: A step's tool.
        resources: The URIs that a step fetches.
        inputs: What a step takes, in the order of the definition.
        notes: What else is to be said: `required`, `checkpoint`, `up to 3 attempts`.
        pauses: What a run may lack here.
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
    """A value on its way.

    Attributes:
        source: The id of the node that it comes from.
        target: The id of the step that takes it.
        flow: What is taken of it.
        argument: What it is for: the step's parameter, or the placeholder in a resource's URI.
        path: The field that is taken, dotted; of a task variable that a step sets, its name first.
    """

    source: str
    target: str
    flow: Flow
    argument: str
    path: str | None = None


@dataclass(frozen=True, slots=True)
class Graph:
    """A workflow's flow of data. Steps come in the order of execution, after all other nodes."""

    name: str
    title: str
    description: str
    notes: tuple[str, ...]
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]


def graph_of(workflow: Workflow, required: Mapping[str, Sequence[str]], sets: Mapping[str, Sequence[str]]) -> Graph:
    """The graph of a workflow that has been checked.

    Args:
        workflow: Each of its steps has the name of its tool.
        required: The parameters that must have a value, by the tool's name.
        sets: The task variables that a tool says that it sets, by its name.
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
    """The graph as `baton graph --json` prints it (docs/commands.md, Draw a workflow)."""
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
        case _:
            return Input(name, of, f"task variable {'.'.join(filter(None, (source.name, source.path)))}")


def _edges(step: Step, workflow: Workflow, given: Mapping[str, Argument], setters: Mapping[str, str]) -> Iterator[Edge]:
    target = f"step:{step.name}"
    for name, source in (*step.arguments.items(), *step.template_bindings.items()):
        match source:
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
    for argument in in_uris(step, given):
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
