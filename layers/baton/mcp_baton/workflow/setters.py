"""Which tools set the task variables that a workflow reads, so that a placeholder can name them. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mcp_baton.workflow.definition import Step
from mcp_baton.workflow.sources import Source, TaskVariable


def with_setters(step: Step, setters: Mapping[str, Sequence[str]]) -> Step:
    """A step whose task variables know the tools that say that they set them.

    Args:
        step: The step.
        setters: The variables that each tool says it sets, by the tool's name.
    """

    def with_setter(source: Source) -> Source:
        if not isinstance(source, TaskVariable):
            return source
        return replace(source, set_by=tuple(tool for tool, names in setters.items() if source.name in names))

    if not any(
        isinstance(source, TaskVariable) for source in (*step.arguments.values(), *step.template_bindings.values())
    ):
        return step
    arguments = {name: with_setter(source) for name, source in step.arguments.items()}
    bindings = {name: with_setter(source) for name, source in step.template_bindings.items()}
    return replace(step, arguments=arguments, template_bindings=bindings)
