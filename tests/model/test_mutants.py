"""The model notices a fault in the engine: each mutant fails an example or a seed of `make test`."""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mcp_baton import Step
from mcp_baton.workflow import checking, continuation, engine
from mcp_baton.workflow.engine import Engine
from mcp_baton.workflow.items import Items
from mcp_baton.workflow.resolve import Known
from mcp_baton.workflow.run import ListRun, Run
from tests.model.differences import known_difference
from tests.model.driver import fast_connections
from tests.model.examples import EXAMPLES
from tests.model.plan import Plan, World
from tests.model.random_plans import random_plan
from tests.model.shrink import difference

SEEDS = 100
_ranked_items, _open_questions, _pause = continuation._ranked_items, Known.open_questions, ListRun.pause  # noqa: SLF001
_uses = Step.uses

type Patch = Callable[[pytest.MonkeyPatch], None]


def replacing(target: object, name: str, value: Any) -> Patch:
    return lambda patch: patch.setattr(target, name, value)


MUTANTS: dict[str, Patch] = {
    "a condition is never false": replacing(Known, "decide_condition", lambda *_: True),
    "a step in or_default(…) does not know which tool sets its variable": replacing(
        checking, "with_setters", lambda step, _: step
    ),
    "parallel steps ignore after": replacing(Step, "follows", lambda step, other: _uses(step, other.binding)),
    "a pause lists only the first question": replacing(
        Known, "open_questions", lambda known: dict(list(_open_questions(known).items())[:1])
    ),
    "the results of a list are in the wrong order": replacing(
        Items,
        "in_order",
        property(lambda items: [items.results[index] for index in reversed(range(len(items.elements)))]),
    ),
    "an element of which nothing is known takes no call": replacing(
        continuation,
        "_ranked_items",
        lambda *arguments: (found for found in _ranked_items(*arguments) if found.rank is continuation.Rank.EQUAL),
    ),
    "a failed call is not retried": replacing(engine, "_may_retry", lambda *_: False),
    "a resume uses early answers before the condition": replacing(Run, "hold_early", lambda _: None),
    "a list forgets the elements that failed": replacing(
        ListRun, "pause", lambda run: None if run.unapproved_count else _pause(run)
    ),
    "a wait ends at once": replacing(Engine, "_end_of_wait", lambda _self, _run, _until_ms, now_ms: now_ms),
}


def plans() -> Iterator[tuple[Plan, World]]:
    yield from ((example.plan, example.world) for example in EXAMPLES)
    for seed in range(SEEDS):
        plan, world = random_plan(seed)
        if not known_difference(plan, world):
            yield plan, world


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_the_model_notices_a_fault_in_the_engine(
    mutant: Patch, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL + 1)
    mutant(monkeypatch)
    with fast_connections():
        assert any(difference(plan, world) for plan, world in plans())
