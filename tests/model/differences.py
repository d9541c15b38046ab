"""Known differences between the package and the model: each has a shrunk plan, and the sentence of docs that it breaks.

Random plans that may meet one are not run, until it is corrected.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.model.plan import Line, Plan, Retry, Tool, World


@dataclass(frozen=True)
class KnownDifference:
    """A difference.

    Attributes:
        sentence: The sentence of the specification that the package breaks.
        excludes: Whether a random plan may meet it.
    """

    name: str
    sentence: str
    plan: Plan
    excludes: Callable[[Plan, World], bool]
    world: World = field(default_factory=World)


KNOWN: tuple[KnownDifference, ...] = (
    KnownDifference(
        "a long retry of an element does not become a wait",
        "If the wait would exceed the function's time, a background workflow waits without a worker, and a later one "
        "makes the attempt (docs/workflows.md, Trying again).",
        Plan(
            [Line("s0", tool="t0", arguments={"x": ("item", None)}, each=("constant", [3]), retry=Retry(2, 3600.0))],
            {"t0": Tool("t0", fails=1)},
            way="task",
        ),
        lambda plan, _: (
            plan.way == "task"
            and any(line.each is not None and line.retry and line.retry.wait_s > 60 for line in plan.lines)
        ),
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
        lambda _, world: world.gives is not None,
        World(gives=5),
    ),
)


def is_guarded(line: Line, plan: Plan) -> bool:
    return line.kind == "tool" and (line.approval is not None or plan.tools[line.tool].approval is not None)


def is_unsorted(plan: Plan, world: World) -> bool:
    """Whether a plan is of a kind in which differences are not sorted yet: it is not known whether the package or the
    model is wrong. The examples of these kinds pass."""
    tools = [line for line in plan.lines if line.kind == "tool"]
    used_again = any(
        is_guarded(line, plan) and (line.retryable or line.retry) and plan.tools[line.tool].fails for line in tools
    )
    is_early = any(plan.line(name).when is not None for name in world.early) or any(
        line.kind == "callback" and line.when is not None for line in plan.lines
    )
    asks_several = plan.parallel > 1 and sum(line.kind in ("model", "user") for line in plan.lines) > 1
    waits_in_parallel = (
        plan.way == "task"
        and max(plan.parallel, *(line.parallel for line in plan.lines)) > 1
        and any(
            is_guarded(line, plan) or line.kind in ("callback", "sleep") or (line.retry and line.retry.wait_s > 60)
            for line in plan.lines
        )
    )
    return used_again or is_early or asks_several or waits_in_parallel


def known_difference(plan: Plan, world: World) -> str:
    """Return the name of the known difference that a plan may meet, or an empty text."""
    names = (known.name for known in KNOWN if known.excludes(plan, world))
    return next(names, "not sorted yet" if is_unsorted(plan, world) else "")
