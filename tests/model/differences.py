"""Known differences between the package and the model: each has a shrunk plan, and the sentence of docs that it breaks.

A random plan that meets one ends there, until it is corrected.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.model.language import Task
from tests.model.plan import Line, Plan, Tool, World


@dataclass(frozen=True)
class KnownDifference:
    """A difference.

    Attributes:
        sentence: The sentence of the specification that the package breaks.
        meets: Whether a task of a random plan has come to it.
    """

    name: str
    sentence: str
    plan: Plan
    meets: Callable[[Task], bool]
    world: World = field(default_factory=World)


KNOWN: tuple[KnownDifference, ...] = (
    KnownDifference(
        "a call of which nothing is known is taken for the repetition of one with a secret argument",
        "Calls are compared by their arguments without secret ones (docs/reference/workflow-rules.md, Secrets). So "
        "every call equals that of the first step, and the second step never gets its value. It waits until a call "
        "names its step.",
        Plan(
            [
                Line("s0", tool="t0", arguments={"x": ("secret",)}),
                Line("s1", tool="t0", arguments={"x": ("output", "s0", "list.9")}),
            ],
            {"t0": Tool("t0")},
            secret=True,
        ),
        lambda _: False,
    ),
    KnownDifference(
        "a missing value that equals that of an earlier call of the same tool is not recorded in its step",
        "A completed step that was called with equal arguments comes before an open step of which nothing is known "
        "(docs/reference/workflow-rules.md, Which step a continuation means). It waits until a call names its step.",
        Plan(
            [
                Line("s0", tool="t0", arguments={"x": ("constant", 5)}),
                Line("s1", tool="t0", arguments={"x": ("output", "s0", "list.9")}),
            ],
            {"t0": Tool("t0")},
        ),
        lambda task: task.world.gives is not None,
        World(gives=5),
    ),
)


def known_difference(task: Task) -> str | None:
    """Return the name of the known difference that a task meets."""
    return next((known.name for known in KNOWN if known.meets(task)), None)
