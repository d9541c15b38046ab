"""Known differences between the package and the model: each has a shrunk plan, and the sentence of docs that it breaks.

Random plans that may meet one are not run, until it is corrected.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.model.plan import Approval, Line, Plan, Retry, Tool, World


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


def is_guarded(line: Line, plan: Plan) -> bool:
    return line.kind == "tool" and (line.approval is not None or plan.tools[line.tool].approval is not None)


KNOWN: tuple[KnownDifference, ...] = (
    KnownDifference(
        "an approval is not used again after a clean failure",
        "After the call failed cleanly, the approval can be used again while it is valid: with Retry for its attempts "
        "over all runs, with retryable=True alone once.",
        Plan(
            [Line("s0", tool="t0", arguments={"x": ("constant", 5)}, retryable=True)],
            {"t0": Tool("t0", Approval(), fails=1)},
        ),
        lambda plan, _: any(
            is_guarded(line, plan) and (line.retryable or line.retry) and plan.tools[line.tool].fails
            for line in plan.lines
        ),
    ),
    KnownDifference(
        "a list without elements needs arguments",
        "A step with `each` calls its tool once for each element of a list (docs/workflows.md, Lists).",
        Plan(
            [
                Line("s0", tool="t0", arguments={"x": ("constant", 5)}, when=(">", ("argument", "a"), ("constant", 5))),
                Line("s1", tool="t1", arguments={"x": ("variable", "v0")}, each=("constant", [])),
            ],
            {"t0": Tool("t0", sets="v0"), "t1": Tool("t1")},
        ),
        lambda plan, _: any(
            line.each is not None and any("variable" in source for source in line.arguments.values())
            for line in plan.lines
        ),
    ),
    KnownDifference(
        "a call is never recorded as an element whose arguments are not known",
        "Its open elements compete by rule 1: all known arguments of the element's call must equal those of the call "
        "(docs/reference/workflow-rules.md, Which step a continuation means).",
        Plan(
            [
                Line("s0", tool="t0", arguments={"x": ("constant", 5)}),
                Line("s1", tool="t1", arguments={"x": ("output", "s0", "list.9")}, each=("constant", [3])),
            ],
            {"t0": Tool("t0"), "t1": Tool("t1")},
        ),
        lambda plan, _: any(
            line.each is not None and any("list.0" in source or "b" in source for source in line.arguments.values())
            for line in plan.lines
        ),
    ),
    KnownDifference(
        "an answer that comes early settles a question whose condition is false",
        "An answer to a skipped question is ignored (docs/workflows.md, Conditions).",
        Plan(
            [
                Line("s0", tool="t0", arguments={"x": ("constant", 5)}),
                Line("s1", "model", when=(">", ("output", "s0", "n"), ("constant", 9))),
            ],
            {"t0": Tool("t0")},
        ),
        lambda plan, world: (
            any(plan.line(name).when is not None for name in world.early)
            or any(line.kind == "callback" and line.when is not None for line in plan.lines)
        ),
        World(answers={"s1": 1}, early=("s1",)),
    ),
    KnownDifference(
        "a step that uses a task variable in or_default(…) needs all earlier steps",
        "It needs the steps whose tools declare that they set it, or else all earlier steps with a tool "
        "(docs/workflows.md, Parallel steps).",
        Plan(
            [
                Line("s0", tool="t0", arguments={"x": ("constant", 5)}),
                Line("s1", tool="t1", arguments={"x": ("constant", 5)}),
                Line("s2", tool="t2", arguments={"x": ("default", ("variable", "v0"), 4)}),
            ],
            {"t0": Tool("t0", sets="v0"), "t1": Tool("t1", fails=1), "t2": Tool("t2")},
            parallel=3,
        ),
        lambda plan, _: plan.parallel > 1 and "('default', ('variable'" in repr(plan.lines),
    ),
    KnownDifference(
        "the pause of a list says that an element has failed, although it waits for an approval",
        "The pause toolError names the failed elements (docs/workflows.md, Lists).",
        Plan(
            [Line("s0", tool="t0", arguments={"x": ("item", None)}, each=("constant", [3, 8]))],
            {"t0": Tool("t0", Approval(), fails=1)},
            way="task",
        ),
        lambda plan, _: any(
            line.each is not None and is_guarded(line, plan) and plan.tools[line.tool].fails for line in plan.lines
        ),
    ),
    KnownDifference(
        "a pause of parallel steps lists only some of the open questions",
        "The pause answersRequired lists every open question whose values are known (docs/workflows.md, Questions).",
        Plan(
            [
                Line("s0", "model"),
                Line("s1", tool="t1", arguments={"x": ("constant", 5)}),
                Line("s2", "model", arguments={"v": ("output", "s1", "n")}),
            ],
            {"t1": Tool("t1")},
            parallel=2,
        ),
        lambda plan, _: plan.parallel > 1 and sum(line.kind in ("model", "user") for line in plan.lines) > 1,
        World(answers={"s0": 1, "s2": 2}),
    ),
    KnownDifference(
        "only the first stop of parallel steps in the background counts",
        "The decision starts one (docs/background.md, Waiting for an approval).",
        Plan(
            [Line("s0", tool="t0", arguments={"x": ("constant", 5)})],
            {"t0": Tool("t0", Approval())},
            parallel=2,
            way="task",
        ),
        lambda plan, _: (
            plan.way == "task"
            and max(plan.parallel, *(line.parallel for line in plan.lines)) > 1
            and any(is_guarded(line, plan) or line.kind in ("callback", "sleep") for line in plan.lines)
        ),
    ),
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
            and any(
                (line.each is not None or plan.parallel > 1) and line.retry and line.retry.wait_s > 60
                for line in plan.lines
            )
        ),
    ),
)


def known_difference(plan: Plan, world: World) -> str:
    """Return the name of the known difference that a plan may meet, or an empty text."""
    return next((known.name for known in KNOWN if known.excludes(plan, world)), "")
