"""Mutants: Baton with one of its guards taken out. A simulation that notices none of them proves nothing.

Each must break an invariant within `MOST_SEEDS` seeds.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from mcp_baton import Workflow
from mcp_baton.tasks.dynamodb import expressions, table
from mcp_baton.tasks.record import StepStatus
from mcp_baton.workflow import engine
from tests.simulation.harness import Outcome, simulate, simulating
from tests.simulation.jobs.background import BackgroundWorld
from tests.simulation.jobs.world import JobWorld
from tests.simulation.rewriting import without_action, without_condition
from tests.simulation.world import Rewrite, World

MOST_SEEDS = 2_000

type Patch = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True, slots=True)
class Mutant:
    """Baton with a guard taken out.

    Attributes:
        name: What is taken out, or done wrong.
        rewrite: What becomes of its requests.
        patch: What is changed in its code.
        is_rare: Whether it takes hundreds of seeds to notice.
        kind: What is simulated.
    """

    name: str
    rewrite: Rewrite | None = None
    patch: Patch | None = None
    is_rare: bool = False
    kind: type[World] = World


def killed_by(mutant: Mutant, seeds: range = range(MOST_SEEDS)) -> Outcome | None:
    """The first simulation that notices a mutant; `None` where none does."""
    with simulating(), pytest.MonkeyPatch.context() as patch:
        if mutant.patch:
            mutant.patch(patch)
        for seed in seeds:
            outcome = simulate(seed, mutant.kind, rewrite=mutant.rewrite)
            if outcome.broken:
                return outcome
    return None


def _tokens_short_lived(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(expressions, "old_set_at", lambda now_ms: expressions.set_at(now_ms - expressions.SPAN_MS))


def _tokens_not_looked_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(table, "has_token", lambda _item, _token: False)


def _completed_steps_forgotten(patch: pytest.MonkeyPatch) -> None:
    def carried(_task: object, workflow: Workflow) -> dict[str, StepStatus]:
        return {step.name: StepStatus.PENDING for step in workflow.steps}

    patch.setattr(engine, "carried", carried)


STEP = r"variables\._workflow\.progress\.steps\[\d+\]\.status="

MUTANTS = (
    Mutant("writes are applied however often they are sent", without_condition(r"NOT contains\(w")),
    Mutant("writes leave no token", without_action("ADD w")),
    Mutant("each write drops the tokens of the last minute", patch=_tokens_short_lived, is_rare=True),
    Mutant("a write that landed is not recognised by its token", patch=_tokens_not_looked_for),
    Mutant("a task that is over can be written to", without_condition("status IN")),
    Mutant("a task that has expired can be written to", without_condition("expires_at>"), is_rare=True),
    Mutant("a new task takes the place of another", without_condition(r"attribute_not_exists\(pk", "PutItem")),
    Mutant("a step is written whatever its status", without_condition(STEP)),
    Mutant("progress is replaced whatever it was", without_condition(r"variables\._workflow\.progress="), is_rare=True),
    Mutant("a run writes without its claim", without_condition(r"run\.i=")),
    Mutant("a live claim can be taken", without_condition(r"\(run\.u<")),
    Mutant("takers are not counted", without_action(r"SET run\.n=")),
    Mutant("a run does not give its claim up", without_action(r"SET run\.u=")),
    *(
        Mutant(name, rewrite, kind=JobWorld, is_rare=is_rare)
        for name, rewrite, is_rare in (
            ("a job is begun that another worker holds", without_condition(r"\(run\.u<"), False),
            ("a job is begun that waits for its client", without_condition("status="), False),
            ("a job is begun any number of times", without_condition(r"run\.n<allowed"), False),
            ("attempts are not counted", without_action(r"SET run\.n="), False),
            ("a job is dispatched again before it is due", without_condition("due<"), True),
            ("a job that is dispatched again stays due", without_action("SET due="), False),
            ("a job is dispatched again or given up that a worker holds", without_condition(r"run\.u<"), True),
            ("a job is given up that has attempts left", without_condition(r"run\.n>="), False),
            ("a worker writes without its claim", without_condition(r"run\.i="), False),
            ("a worker writes that has given its job up", without_condition(r"run\.u>"), True),
            ("a job that is over is written to", without_condition("status IN"), False),
            ("answers are decided on what was long ago", without_condition("version="), False),
            ("attempts are not counted anew after an answer", without_action("SET allowed="), False),
            ("writes of jobs are applied however often they are sent", without_condition(r"NOT contains\(w"), True),
        )
    ),
    Mutant("a worker hands over and keeps its claim", without_action(r"SET run\.u="), kind=BackgroundWorld),
    Mutant("a worker runs completed steps again", patch=_completed_steps_forgotten, kind=BackgroundWorld),
)
