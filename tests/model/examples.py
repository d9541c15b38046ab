"""Corrected differences between the package and the model: each has a shrunk plan, and the sentence of docs that the
package, or the driver of the model, broke."""

from dataclasses import dataclass, field

from tests.model.plan import Approval, Line, Plan, Retry, Tool, World


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
    Example(
        "an early answer settles a question before the steps that it follows",
        "With parallel, the same holds before the steps that the waiting step needs are settled (docs/workflows.md, "
        "Conditions).",
        Plan(
            [
                Line("s0", "user"),
                Line("s1", "sleep", within_s=10800.0),
                Line("s2", "model", after=("s1",)),
                Line("s3", tool="t3", arguments={"x": ("constant", 5)}, after=("s2",)),
            ],
            {"t3": Tool("t3")},
            parallel=2,
        ),
        World(answers={"s0": 4, "s2": 2}, early=("s2",)),
    ),
    Example(
        "an early callback completes a step whose condition has no result",
        "If the step has a condition, no step uses the callback before the condition holds (docs/waiting.md, "
        "Callbacks).",
        Plan(
            [
                Line("s0", tool="t0", arguments={"x": ("constant", 5)}),
                Line("s1", "fetch", arguments={"v": ("constant", 5)}),
                Line("s2", "callback", within_s=7200.0, when=("!=", ("output", "s0", "list.9"), ("constant", 1))),
            ],
            {"t0": Tool("t0", callback="s2")},
        ),
        World(unreadable={"s1": 1}, seed=1),
    ),
    Example(
        "a retryable list whose arguments have no value never ends",
        "If the arguments of an element's call have no value, its call counts as failed, and the step is not retryable "
        "(docs/workflows.md, Lists).",
        Plan(
            [Line("s0", tool="t0", arguments={"x": ("argument", "b")}, each=("constant", [3, 8]), retryable=True)],
            {"t0": Tool("t0")},
        ),
    ),
    Example(
        "the handoff has an empty line for a question, and suggests a call whose condition is not decided",
        "A step with a condition runs only if the condition holds (docs/workflows.md, Conditions).",
        Plan(
            [
                Line("s0", tool="t0", arguments={"x": ("constant", 5)}),
                Line("s1", "model", arguments={"v": ("output", "s0", "list.9")}),
                Line(
                    "s2",
                    tool="t2",
                    arguments={"x": ("constant", 5)},
                    when=(">", ("output", "s1", None), ("constant", 5)),
                ),
                Line("s3", tool="t3", arguments={"x": ("constant", 5)}),
            ],
            {"t0": Tool("t0"), "t2": Tool("t2"), "t3": Tool("t3")},
        ),
    ),
    Example(
        "a callback that comes during the run that skips its step keeps the task from completing",
        "If the condition is false, the step is skipped, and the callback is not used (docs/waiting.md, Callbacks).",
        Plan(
            [
                Line("s0", tool="t0", arguments={"x": ("constant", 5)}),
                Line("s1", tool="t1", arguments={"x": ("constant", 5)}),
                Line("s2", "callback", within_s=7200.0, when=(">", ("output", "s0", "n"), ("constant", 9))),
                Line("s3", tool="t3", arguments={"x": ("constant", 5)}),
            ],
            {"t0": Tool("t0", callback="s2"), "t1": Tool("t1", fails=1), "t3": Tool("t3", fails=1)},
        ),
        World(meanwhile="callback", seed=0),
    ),
    Example(
        "an answer that comes before the condition of its question fails hides why the run has stopped",
        "If another value does not exist, the run pauses with unresolvableParams, and the reason names the condition "
        "(docs/workflows.md, Conditions).",
        Plan(
            [
                Line("s0", tool="t0", arguments={"x": ("constant", 5)}),
                Line("s1", "model", when=("in", ("output", "s0", "list.9"), ("constant", [1, 3]))),
            ],
            {"t0": Tool("t0")},
        ),
        World(answers={"s1": 1}, early=("s1",)),
    ),
    Example(
        "a callback brings the value of a question while another question is open",
        "If a callback brings the values of another question meanwhile, the suggested call has that question, too "
        "(docs/workflows.md, Questions).",
        Plan(
            [
                Line("s0", tool="t0", arguments={"x": ("constant", 5)}),
                Line("s1", "user"),
                Line("s2", "callback", within_s=72000.0),
                Line("s3", "model", arguments={"v": ("output", "s2", None)}),
            ],
            {"t0": Tool("t0", callback="s2")},
        ),
        World(answers={"s1": 4, "s3": 1}, seed=1),
    ),
    Example(
        "the driver lets two waits that begin in one run end in two",
        "After the time limit the step fails (docs/waiting.md, Callbacks). The run finds both waits at their ends.",
        Plan(
            [Line("s0", "callback", within_s=72000.0), Line("s1", "callback", within_s=72000.0)],
            {},
            parallel=2,
            way="task",
        ),
    ),
    Example(
        "the driver expects a run at the moment at which a wait ends",
        "A later worker makes the attempt (docs/workflows.md, Trying again): the first sweep after the wait.",
        Plan(
            [
                Line("s0", tool="t0", arguments={"x": ("constant", 5)}, retry=Retry(2, 3600.0)),
                Line("s1", tool="t1", arguments={"x": ("constant", 5)}, retry=Retry(3, 3600.0)),
            ],
            {"t0": Tool("t0", fails=1), "t1": Tool("t1", Approval(), fails=1)},
            parallel=8,
            way="task",
        ),
    ),
    Example(
        "a step that needs the model does not end a call whose first stopped step waits",
        "If a step needs the model, the call ends (docs/background.md, Waiting for a callback or a time).",
        Plan(
            [Line("s0", "sleep", within_s=300.0), Line("s1", tool="t1", arguments={"x": ("constant", 5)})],
            {"t1": Tool("t1", fails=1)},
            parallel=2,
            way="task",
        ),
    ),
    Example(
        "a long retry of an element does not become a wait",
        "If the wait would exceed the function's time, a background workflow waits without a worker, and a later one "
        "makes the attempt (docs/workflows.md, Trying again).",
        Plan(
            [Line("s0", tool="t0", arguments={"x": ("item", None)}, each=("constant", [3]), retry=Retry(2, 3600.0))],
            {"t0": Tool("t0", fails=1)},
            way="task",
        ),
    ),
    Example(
        "a list waits for an approval, and forgets that the next attempt of another element is due",
        "A later one makes the attempt (docs/workflows.md, Trying again).",
        Plan(
            [Line("s0", tool="t0", arguments={"x": ("item", None)}, each=("constant", [3, 8]), retry=Retry(2, 3600.0))],
            {"t0": Tool("t0", Approval(above=5), fails=1)},
            way="task",
        ),
        World(expiring=("s0",)),
    ),
    Example(
        "a call of which nothing is known is taken for the repetition of one with a secret argument",
        "A call that names a step is recorded as that step (docs/reference/workflow-rules.md, Which step a "
        "continuation means).",
        Plan(
            [
                Line("s0", tool="t0", arguments={"x": ("secret",)}),
                Line("s1", tool="t0", arguments={"x": ("output", "s0", "list.9")}),
            ],
            {"t0": Tool("t0")},
            secret=True,
        ),
    ),
    Example(
        "a missing value that equals that of an earlier call of the same tool is not recorded in its step",
        "A call that names a step is recorded as that step (docs/reference/workflow-rules.md, Which step a "
        "continuation means).",
        Plan(
            [
                Line("s0", tool="t0", arguments={"x": ("constant", 5)}),
                Line("s1", tool="t0", arguments={"x": ("output", "s0", "list.9")}),
            ],
            {"t0": Tool("t0")},
        ),
        World(gives=5),
    ),
    Example(
        "an element whose attempt is due, and whose approval has expired, wakes its call again and again",
        "No worker runs meanwhile (docs/background.md, Waiting for a callback or a time).",
        Plan(
            [Line("s0", tool="t0", arguments={"x": ("item", None)}, each=("constant", [3]), retry=Retry(2, 3600.0))],
            {"t0": Tool("t0", Approval(expires_s=3600.0), fails=1)},
            way="task",
        ),
    ),
    Example(
        "the driver looks for a value that is hidden because it is secret in another step",
        "Secrets are hidden in arguments of a continuation that another step with the same tool takes from it "
        "(docs/reference/workflow-rules.md, Secrets).",
        Plan(
            [
                Line("s0", tool="t0", arguments={"x": ("secret",)}),
                Line("s1", tool="t0", arguments={"x": ("output", "s0", "list.9")}),
            ],
            {"t0": Tool("t0", Approval())},
            secret=True,
        ),
    ),
    Example(
        "the handoff has a line without a call for a list whose calls are all denied",
        "A denied call is not made, and no handoff or `next` suggests it again "
        "(docs/approvals.md, What an approval covers).",
        Plan(
            [
                Line("s1", tool="t1", arguments={"x": ("item", None)}, each=("constant", [5])),
                Line("s2", tool="t1", arguments={"x": ("constant", 5)}),
                Line("s3", "fetch", arguments={"v": ("constant", 5)}),
            ],
            {"t1": Tool("t1", Approval())},
            parallel=2,
        ),
        World(arguments={"a": 6}, denied=("s1", "s2"), unreadable={"s3": 1}, seed=1386, changes=2),
    ),
    Example(
        "a call is taken for the repetition of one whose argument was hidden",
        "A completed step that was called with equal arguments is meant (docs/reference/workflow-rules.md, Which "
        "step a continuation means). The argument x of the call of s0 is hidden, because it is secret in s2. So "
        "another call cannot equal it: the call may be meant for s2, and needs its approval.",
        Plan(
            [
                Line("s0", tool="t0"),
                Line("s2", tool="t0", arguments={"x": ("secret",)}, retry=Retry(2, 3600.0), approval=Approval()),
            ],
            {"t0": Tool("t0", fails=2)},
            secret=True,
        ),
        World(arguments={"a": 0}),
    ),
    Example(
        "the model takes a call for the repetition of one that was hidden for another step's secret",
        "Calls are compared by their other arguments; one that was hidden for another step's secret equals no call "
        "(docs/reference/workflow-rules.md, Secrets). The argument y of the call of s1 is secret in s3.",
        Plan(
            [
                Line("s0", "sleep", within_s=10800.0),
                Line("s1", tool="t0", arguments={"x": ("secret",)}, after=("s0",)),
                Line("s3", tool="t0", arguments={"y": ("secret",)}),
            ],
            {"t0": Tool("t0")},
            parallel=2,
            secret=True,
        ),
        World(arguments={"a": 2}),
    ),
    Example(
        "the value of an element counts as secret, because it is secret in another step",
        "An argument that another step takes from a secret is secret, unless the value is the one that its own step "
        "has (docs/reference/workflow-rules.md, Secrets). So the call of an element uses the approval that the run "
        "requested.",
        Plan(
            [
                Line("s0", tool="t0", arguments={"x": ("secret",)}),
                Line(
                    "s3",
                    tool="t0",
                    arguments={"x": ("item", None), "y": ("item", "n")},
                    each=("constant", [{"n": 3}, {"n": 8}, {"odd": 5}]),
                ),
            ],
            {"t0": Tool("t0", approval=Approval(expires_s=86400.0))},
            secret=True,
        ),
        World(arguments={"a": 1}, seed=3),
    ),
    Example(
        "a decision is lost when a new definition no longer has the step in which an argument is secret",
        "An approval covers one call and its step's definition (docs/approvals.md, What an approval covers). "
        "A change of another step does not end it.",
        Plan(
            [
                Line("s1", tool="t0"),
                Line("s3", "callback", within_s=7200.0),
                Line("s4", tool="t0", arguments={"x": ("secret",)}),
            ],
            {"t0": Tool("t0", approval=Approval(expires_s=86400.0))},
            era="2026",
            secret=True,
        ),
        World(arguments={"a": 2}, seed=8068, changes=2),
    ),
    Example(
        "a call has the secret in one of two arguments that are secret, and its error quotes it",
        "An error of a continuation that quotes the call's own secret argument is stored without it "
        "(docs/reference/workflow-rules.md, Secrets).",
        Plan(
            [
                Line("s0", tool="t0", arguments={"x": ("secret",), "y": ("variable", "vt0")}),
                Line("s1", tool="t0", arguments={"y": ("secret",)}),
            ],
            {"t0": Tool("t0", fails=1)},
            secret=True,
        ),
        World(arguments={"a": 1}),
    ),
    Example(
        "the driver looks for a value that is hidden because another argument with this value is secret",
        "Other arguments with the value of a secret are hidden (docs/reference/workflow-rules.md, Secrets).",
        Plan(
            [
                Line("s1", tool="t0", arguments={"x": ("secret",)}),
                Line("s2", tool="t0", arguments={"y": ("output", "s1", "list.0")}),
            ],
            {"t0": Tool("t0", approval=Approval(expires_s=86400.0))},
            secret=True,
        ),
        World(arguments={"a": 3}, gives=50),
    ),
    Example(
        "a pause lists only the first question, and the suggested call asks two",
        "The pause `answersRequired` lists every open question whose values are known (docs/workflows.md, Questions).",
        Plan(
            [
                Line("s0", "user"),
                Line("s1", tool="t0", arguments={"x": ("constant", 3)}, when=(">", ("argument", "a"), ("constant", 5))),
                Line("s2", "model", arguments={"v": ("default", ("output", "s1", "n"), 1)}),
            ],
            {"t0": Tool("t0")},
        ),
        World(answers={"s0": 0, "s2": 2}),
    ),
)
