"""Mutants: Baton with one of its guards taken out. A simulation that notices none of them proves nothing.

Each must break an invariant within `MOST_SEEDS` seeds.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from mcp_baton.tasks.dynamodb import expressions, table, tokens
from tests.simulation.harness import Outcome, simulate, simulating
from tests.simulation.rewriting import without_action, without_condition
from tests.simulation.world import Rewrite

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
    """

    name: str
    rewrite: Rewrite | None = None
    patch: Patch | None = None
    is_rare: bool = False


def killed_by(mutant: Mutant, seeds: range = range(MOST_SEEDS)) -> Outcome | None:
    """The first simulation that notices a mutant; `None` where none does."""
    with simulating(), pytest.MonkeyPatch.context() as patch:
        if mutant.patch:
            mutant.patch(patch)
        for seed in seeds:
            outcome = simulate(seed, rewrite=mutant.rewrite)
            if outcome.broken:
                return outcome
    return None


def _tokens_short_lived(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(expressions, "old_set_at", lambda now_ms: tokens.set_at(now_ms - tokens.MINUTE_MS))


def _tokens_not_looked_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(table, "has_token", lambda _item, _token: False)


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
)
