"""Corrected differences between the package and the model: each has a shrunk plan, and the sentence of docs that the
package broke."""

from dataclasses import dataclass, field

from tests.model.plan import Approval, Line, Plan, Tool, World


@dataclass(frozen=True)
class Example:
    """A plan that once differed from the model."""

    name: str
    sentence: str
    plan: Plan
    world: World = field(default_factory=World)


EXAMPLES: tuple[Example, ...] = (
    Example(
        "an approval is not used again after a clean failure",
        "After the call failed cleanly, the approval can be used again while it is valid: with Retry for its attempts "
        "over all runs, with retryable=True alone once.",
        Plan(
            [Line("s0", tool="t0", arguments={"x": ("constant", 5)}, retryable=True)],
            {"t0": Tool("t0", Approval(), fails=1)},
        ),
    ),
    Example(
        "a list without elements needs arguments",
        "A step with `each` calls its tool once for each element of a list (docs/workflows.md, Lists).",
        Plan(
            [
                Line("s0", tool="t0", arguments={"x": ("constant", 5)}, when=(">", ("argument", "a"), ("constant", 5))),
                Line("s1", tool="t1", arguments={"x": ("variable", "v0")}, each=("constant", [])),
            ],
            {"t0": Tool("t0", sets="v0"), "t1": Tool("t1")},
        ),
    ),
    Example(
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
    ),
    Example(
        "an answer that comes early settles a question whose condition is false",
        "An answer to a skipped question is ignored (docs/workflows.md, Conditions).",
        Plan(
            [
                Line("s0", tool="t0", arguments={"x": ("constant", 5)}),
                Line("s1", "model", when=(">", ("output", "s0", "n"), ("constant", 9))),
            ],
            {"t0": Tool("t0")},
        ),
        World(answers={"s1": 1}, early=("s1",)),
    ),
    Example(
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
    ),
    Example(
        "the pause of a list says that an element has failed, although it waits for an approval",
        "The pause toolError names the failed elements (docs/workflows.md, Lists).",
        Plan(
            [Line("s0", tool="t0", arguments={"x": ("item", None)}, each=("constant", [3, 8]))],
            {"t0": Tool("t0", Approval(), fails=1)},
            way="task",
        ),
    ),
    Example(
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
        World(answers={"s0": 1, "s2": 2}),
    ),
    Example(
        "only the first stop of parallel steps in the background counts",
        "The decision starts one (docs/background.md, Waiting for an approval).",
        Plan(
            [Line("s0", tool="t0", arguments={"x": ("constant", 5)})],
            {"t0": Tool("t0", Approval())},
            parallel=2,
            way="task",
        ),
    ),
)
