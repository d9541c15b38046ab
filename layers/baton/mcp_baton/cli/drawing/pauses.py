"""Where a run of a workflow pauses for want of an argument, as far as its definition tells. Pure."""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mcp_baton.workflow.definition import Argument, Step
from mcp_baton.workflow.sources import PromptArg, TaskVariable, placeholders


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
