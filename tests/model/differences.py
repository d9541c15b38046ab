"""Known differences between the package and the model: each has a shrunk plan, and the sentence of docs that it breaks.

A random plan that meets one ends there, until it is corrected.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.model.language import Task
from tests.model.plan import Plan, World


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


KNOWN: tuple[KnownDifference, ...] = ()


def known_difference(task: Task) -> str | None:
    """Return the name of the known difference that a task meets."""
    return next((known.name for known in KNOWN if known.meets(task)), None)
