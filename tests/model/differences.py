"""Known differences between the package and the model: each has a shrunk plan, and the sentence of docs that it breaks.

A random plan that meets one ends there, until it is corrected.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.model.language import Task
from tests.model.plan import Approval, Line, Plan, Retry, Tool, World


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
        "a call is taken for the repetition of one whose argument was hidden",
        "A completed step that was called with equal arguments is meant (docs/reference/workflow-rules.md, Which "
        "step a continuation means). The argument x of the call of s0 is hidden, because it is secret in s2. So a "
        "call with another x counts as equal: it is recorded as s0, and needs no approval of s2.",
        Plan(
            [
                Line("s0", tool="t0"),
                Line("s2", tool="t0", arguments={"x": ("secret",)}, retry=Retry(2, 3600.0), approval=Approval()),
            ],
            {"t0": Tool("t0", fails=2)},
            secret=True,
        ),
        lambda _: False,
        World(arguments={"a": 0}),
    ),
)


def known_difference(task: Task) -> str | None:
    """Return the name of the known difference that a task meets."""
    return next((known.name for known in KNOWN if known.meets(task)), None)
