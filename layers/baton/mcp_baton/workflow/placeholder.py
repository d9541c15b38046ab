"""Placeholders: what stands in an assistant's message for a value that is not known or too long (docs/workflows.md).
Pure."""

from mcp_baton.protocol.json import Json
from mcp_baton.workflow.definition import Step, Workflow
from mcp_baton.workflow.quoting import LONGEST, is_long
from mcp_baton.workflow.sources import PromptArg, Source, StepOutput, TaskVariable


def placeholder(source: Source, workflow: Workflow) -> str | None:
    """The placeholder of a source's value; a constant has none."""
    match source:
        case PromptArg(name):
            return f"<prompt arg {name}>"
        case StepOutput(binding, path):
            producer = _producer(workflow.bound(binding), workflow)
            return f"<output from {producer}>" if path is None else f"<field '{path}' from {producer}>"
        case TaskVariable(name, path, set_by):
            setter = f" (set by {' or '.join(set_by)})" if set_by else ""
            whole = f"task variable {name}{setter}"
            return f"<{whole}>" if path is None else f"<field '{path}' from {whole}>"
        case _:
            return None


def shown(value: Json, source: Source | None, workflow: Workflow, longest: int = LONGEST) -> Json:
    """A value, or its placeholder where it is long and has one."""
    if source is None or not is_long(value, longest):
        return value
    return placeholder(source, workflow) or value


def _producer(step: Step, workflow: Workflow) -> str:
    """The tool that makes the value; with its step where another step calls the same tool."""
    if step.tool is None:
        return step.name
    alone = sum(other.tool == step.tool for other in workflow.steps) == 1
    return step.tool if alone else f"{step.tool} (step '{step.name}')"
