"""What a workflow does, for a model that chooses among tools (docs/workflows.md, As a tool). Pure."""

from collections.abc import Callable
from typing import Final

from mcp_baton.workflow.definition import Step, Workflow

LONGEST: Final = 599
"""Characters of a description. Every conversation pays for each of them."""

LONGEST_GOAL: Final = 200
LONGEST_SUMMARY: Final = 80
LONGEST_TITLE: Final = 60

_HOW: Final = (
    "It may pause, for instance where a step fails or a value is missing. The result then says which calls remain and "
    "gives a task_id: make those calls, or call this tool again with task_id alone to let the server go on."
)

type Summarise = Callable[[str], str]
"""Of a tool's name: what it does, in one line; empty where that is not known."""


def title_of(workflow: Workflow) -> str:
    """The workflow's title; its description in the place of one."""
    return workflow.title or shortened(_sentence(workflow.description).rstrip("."), LONGEST_TITLE) or workflow.name


def described(workflow: Workflow, summarise: Summarise) -> str:
    """What the workflow does, step by step, that it may pause, and how to go on: fewer than 600 characters.

    Args:
        workflow: The workflow.
        summarise: Knows what its tools do.
    """
    goal = shortened(_sentence(workflow.description), LONGEST_GOAL)
    number = len(workflow.steps)
    intro = f"{goal} The server runs {number} {'step' if number == 1 else 'steps'}:".lstrip()
    room = LONGEST - len(intro) - len(_HOW) - 2
    told = [f"{place}. {_told(step, summarise)}" for place, step in enumerate(workflow.steps, 1)]
    named = [f"{place}. {shortened(step.name, LONGEST_SUMMARY)}." for place, step in enumerate(workflow.steps, 1)]
    return f"{intro} {_fitting(told, room) or _fitting(named, room) or _as_many(named, room)} {_HOW}"


def shortened(text: str, longest: int) -> str:
    """A text, cut between two words where it is longer than so many characters."""
    line = " ".join(text.split())
    if len(line) <= longest:
        return line
    words = line[: longest - 1].rpartition(" ")[0] or line[: longest - 2]
    return f"{words.rstrip(' ,;:.')} …"


def _sentence(text: str) -> str:
    line = " ".join(text.split()).rstrip(".")
    return f"{line[0].upper()}{line[1:]}." if line else ""


def _told(step: Step, summarise: Summarise) -> str:
    name = shortened(step.name, LONGEST_SUMMARY)
    what = f"read {', '.join(step.resources)}" if step.tool is None else summarise(step.tool)
    summary = shortened(what, LONGEST_SUMMARY).rstrip(".")
    return f"{name}: {summary}." if summary else f"{name}."


def _fitting(parts: list[str], room: int) -> str:
    whole = " ".join(parts)
    return whole if len(whole) <= room else ""


def _as_many(parts: list[str], room: int) -> str:
    """As many of the first parts as there is room for; the others are counted."""
    kept = ""
    for place, part in enumerate(parts):
        rest = f"… and {len(parts) - place} more."
        longer = f"{kept}{part} "
        if len(longer) + len(rest) > room:
            return f"{kept}{rest}"
        kept = longer
    return kept.rstrip()
