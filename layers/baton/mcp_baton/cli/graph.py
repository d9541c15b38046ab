"""`baton graph`: a flowchart of a workflow, of where the values of its steps come from and where a run pauses
(docs/commands.md, Draw a workflow)."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Annotated, Any, Final

import typer

from mcp_baton.cli import options
from mcp_baton.cli.remote.arguments import unknown
from mcp_baton.exceptions import BatonError
from mcp_baton.protocol.json import dumps
from mcp_baton.server.server import Server
from mcp_baton.tools.arguments import Argument
from mcp_baton.tools.templates import placeholders
from mcp_baton.tools.tool import Tool
from mcp_baton.workflow.definition import Workflow
from mcp_baton.workflow.sources import Constant, PromptArg, StepOutput, TaskVariable, parts_of
from mcp_baton.workflow.steps.question import Question
from mcp_baton.workflow.steps.step import Step
from mcp_baton.workflow.steps.wait import Wait

_STYLES: Final = """\
    classDef argument fill:#dbeafe,stroke:#2563eb,color:#111827
    classDef variable fill:#ede9fe,stroke:#7c3aed,color:#111827
    classDef step fill:#ffffff,stroke:#4b5563,color:#111827
    classDef pauses fill:#fef3c7,stroke:#b45309,color:#111827
"""
_PLAIN: Final = frozenset(" .,:!?=*+/-_'@$()[]{}|…←→")
"""Characters that need no escape between quotes, in addition to letters and digits."""


def graph(
    target: options.Target,
    workflow: Annotated[
        str | None,
        typer.Argument(metavar="WORKFLOW", help="The workflow's name; optional if there is only one."),
    ] = None,
) -> int:
    """Draw the data flow of a workflow and where it may pause."""
    from mcp_baton.local.checking import load_checked

    server = load_checked(target)
    typer.echo(mermaid(_select_workflow(server, workflow), server.tools), nl=False)
    return 0


def _select_workflow(server: Server, name: str | None) -> Workflow:
    names = list(server.workflows)
    if not names:
        raise BatonError(f"the server {server.options.name!r} has no workflow: add one with server.add_workflow")
    if name is None and len(names) > 1:
        raise BatonError(f"the server {server.options.name!r} has several workflows: name one of {', '.join(names)}")
    if name is not None and name not in names:
        raise unknown("workflow", name, names)
    return server.workflows[name or names[0]]


def mermaid(workflow: Workflow, tools: Mapping[str, Tool]) -> str:
    """Return a Mermaid flowchart of a checked workflow: its arguments, the task variables that it needs, its steps."""
    nodes = {f"argument:{item.name}": f'(["{_text(_about(item))}"]):::argument' for item in workflow.arguments}
    steps: dict[str, str] = {}
    arrows: dict[tuple[str, str], list[str]] = {}
    setters: dict[str, str] = {}
    for number, step in enumerate(workflow.steps, 1):
        tool, target = tools.get(step.tool or ""), f"step:{step.name}"
        for source, label in _inputs(step, workflow, setters):
            arrows.setdefault((source, target), []).append(label)
            if source.startswith("variable:"):
                nodes[source] = f'[("{_text([source.removeprefix("variable:"), "task variable"])}")]:::variable'
        pauses = [f"pauses for {reason}" for reason in _pauses(step, tool)]
        text = _text([f"{number}. {step.name}", *_notes(step), *pauses])
        steps[target] = f'["{text}"]:::{"pauses" if pauses else "step"}'
        setters |= dict.fromkeys(tool.sets if tool else (), target)
    ids = {name: f"n{number}" for number, name in enumerate([*nodes, *steps])}
    lines = [f"{ids[name]}{node}" for name, node in (*nodes.items(), *steps.items())]
    # An invisible link keeps steps without data between them in their order.
    lines += [f"{ids[first]} ~~~ {ids[second]}" for first, second in pairwise(steps) if (first, second) not in arrows]
    lines += [f'{ids[source]} -->|"{_text(texts)}"| {ids[target]}' for (source, target), texts in arrows.items()]
    return "\n    ".join(["flowchart TB", *lines]) + f"\n{_STYLES}"


def _about(argument: Argument) -> list[str]:
    kind = "required" if argument.required else "optional"
    kind = kind if argument.default is None else f"default {dumps(argument.default)}"
    return [argument.name, f"{kind}, secret" if argument.secret else kind]


def _notes(step: Step) -> Iterator[str]:
    if step.tool:
        yield f"calls {step.tool}"
    yield from (f"reads {uri}" for uri in step.resources)
    if isinstance(step, Question):
        yield f"asks the {step.of}: {step.question}"
    if isinstance(step, Wait):
        yield step.wait_text
    if step.when is not None:
        yield f"only if {step.when.text}"


def _pauses(step: Step, tool: Tool | None) -> Iterator[str]:
    """Yield what a run waits for at a step: an answer, an approval, a wait, or an argument that nothing supplies."""
    schema: Any = tool.input_schema if tool else {}
    if isinstance(step, Question):
        yield step.name
    if (approval := step.approval or (tool.approval if tool else None)) is not None:
        yield f"an approval by {approval.audience}{', depending on its arguments' if approval.when else ''}"
    if isinstance(step, Wait):
        yield f"a {step.waits_for}"
    yield from (name for name in schema.get("required", ()) if name not in step.arguments)


def _inputs(step: Step, workflow: Workflow, setters: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the node of each value that a step gets, and the label of its arrow: `email → to`, or one name."""
    names = {argument.name for argument in workflow.arguments}
    for _, name, value in step.used_sources:
        for source in parts_of(value):
            match source:
                case PromptArg(argument):
                    yield f"argument:{argument}", _label(argument, name)
                case Constant(constant):
                    for argument in sorted(placeholders(dumps(constant)) & names):
                        yield f"argument:{argument}", _label(argument, name)
                case StepOutput(binding, path) if (producer := workflow.bound(binding).name) != step.name:
                    yield f"step:{producer}", _label(path or name, name)
                case TaskVariable(variable, path):
                    field = f"{variable}.{path}" if path else variable
                    yield setters.get(variable, f"variable:{variable}"), _label(field, name)
                case _:
                    pass  # the parts of other sources are separate sources of this loop
    texts = [*step.resources, *([step.question] if isinstance(step, Question) else [])]
    in_texts = (frozenset[str]().union(*map(placeholders, texts)) & names) - step.template_bindings.keys()
    yield from ((f"argument:{argument}", argument) for argument in sorted(in_texts))
    yield from ((f"step:{name}", "after") for name in step.after)


def _label(origin: str, name: str) -> str:
    return name if origin == name else f"{origin} → {name}"


def _text(lines: Iterable[str]) -> str:
    """Return lines for use between quotes. Characters with a meaning in Mermaid or HTML are escaped."""
    texts = dict.fromkeys(" ".join(line.split()) for line in lines)
    return "<br/>".join(
        "".join(letter if letter.isalnum() or letter in _PLAIN else f"#{ord(letter)};" for letter in text)
        for text in texts
    )
