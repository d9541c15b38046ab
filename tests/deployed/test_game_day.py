"""A short game day, and what the judge notices. `make game-day` plays the long one."""

import random
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from tests.deployed.deployment import Stack
from tests.deployed.test_background import wait_until
from tests.dynamodb_local import engine
from tests.game_day.clients import Reply
from tests.game_day.game import Options, Outcome, Setup, play, prepare, remove_containers
from tests.game_day.judge import StoredTask, Verdict
from tests.game_day.ledger import Effect, Ledger

SHORT = Options(seed=20, clients=6, seconds=45, clock_ms=30_000)
RESERVATION = {"order": "o", "tool": "reserve", "receipt": 1}
STORED_TASK = StoredTask("completed", {"reserve": RESERVATION}, None)
REPLY = Reply("t", 1, 2, "completed", frozenset({"reserve"}), {"reserve": RESERVATION})


@dataclass(frozen=True)
class Game:
    """A game that runs beside the other tests."""

    setup: Setup
    outcome: Future[Outcome]


@pytest.fixture(scope="session")
def game(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Game]:
    if missing := engine.unavailable_reason():
        pytest.skip(missing)
    folder, end = tmp_path_factory.mktemp("game"), threading.Event()
    with prepare(stack, folder, SHORT) as setup, ThreadPoolExecutor(1) as thread:
        try:
            yield Game(setup, thread.submit(play, setup, SHORT, folder, end))
        finally:
            end.set()
            remove_containers(setup.stack)


def test_the_tools_of_a_game_have_effects(game: Game) -> None:
    wait_until(lambda: game.outcome.done() or bool(game.setup.ledger.effects))
    assert game.setup.ledger.effects


@pytest.mark.last
def test_in_a_short_game_nothing_is_lost_doubled_contradicted_or_stuck(game: Game) -> None:
    outcome = game.outcome.result()
    assert outcome.verdict.clean, outcome.report()


def judge_replies(*replies: Reply, stored: StoredTask | None = STORED_TASK) -> Verdict:
    verdict = Verdict()
    verdict.judge_task("t", replies, stored)
    return verdict


def test_the_judge_accepts_replies_that_agree_with_what_is_stored() -> None:
    assert judge_replies(Reply("t", 0, 1, "working", frozenset(), {}), REPLY).clean


@pytest.mark.parametrize(
    "stored",
    [
        None,
        StoredTask("cancelled", {"reserve": RESERVATION}, None),
        StoredTask("completed", {}, None),
        StoredTask("completed", {"reserve": {**RESERVATION, "receipt": 2}}, None),
    ],
    ids=["no task", "another status", "no step", "another result"],
)
def test_the_judge_notices_acknowledged_data_that_is_not_stored(stored: StoredTask | None) -> None:
    assert judge_replies(REPLY, stored=stored).lost


LINK = {"bytes": 9, "uri": "baton://tasks/t"}
NOT_STORED = {"error": "could not be written"}


@pytest.mark.parametrize(
    ("reply_value", "stored_value", "is_lost"),
    [(LINK, "large", False), (LINK, NOT_STORED, True), ({"bytes": 9}, NOT_STORED, False)],
    ids=["a link", "a link to nothing", "a value that a reply calls not stored"],
)
def test_the_judge_follows_links_to_large_values(reply_value: dict[str, Any], stored_value: Any, is_lost: bool) -> None:
    reply = Reply("t", 1, 2, "completed", frozenset({"draw"}), {"draw": reply_value})
    assert bool(judge_replies(reply, stored=StoredTask("completed", {"draw": stored_value}, None)).lost) == is_lost


def test_the_judge_does_not_miss_a_task_that_no_reply_confirmed() -> None:
    assert not judge_replies(Reply("t", 1, 2, unknown=True), stored=None).lost


def test_the_judge_notices_a_result_of_a_background_task_that_changed() -> None:
    reply = Reply("t", 1, 2, "completed", result={"a": 1})
    assert judge_replies(reply, stored=StoredTask("completed", {}, {"a": 2})).lost


@pytest.mark.parametrize(
    "later_reply",
    [Reply("t", 3, 4, "working"), Reply("t", 3, 4, steps=frozenset())],
    ids=["the status", "a step"],
)
def test_the_judge_notices_a_later_reply_that_goes_back(later_reply: Reply) -> None:
    assert judge_replies(REPLY, later_reply).contradictions


def test_the_judge_ignores_the_order_of_requests_that_were_sent_at_once() -> None:
    assert judge_replies(REPLY, Reply("t", 1, 3, "working", frozenset(), {})).clean


def test_the_judge_notices_a_stored_result_that_a_reply_calls_not_recorded() -> None:
    stored = StoredTask("completed", {"confirm": {"code": "a"}}, None)
    assert judge_replies(Reply("t", 1, 2, not_recorded={"code": "a"}), stored=stored).contradictions


def refund(order: str = "o", amount: int = 5) -> Effect:
    return Effect(1, "refund", order, {"amount": amount})


APPROVED = {"state": "approved", "arguments": {"order": "o", "amount": 5}}


@pytest.mark.parametrize(
    ("effects", "approvals", "is_doubled"),
    [
        ([refund()], [APPROVED], False),
        ([refund()], [], True),
        ([refund()], [{**APPROVED, "state": "denied"}], True),
        ([refund(amount=6)], [APPROVED], True),
        ([refund(), refund()], [APPROVED], True),
        ([Effect(1, "ship", "o", {}), Effect(2, "ship", "o", {})], [], True),
    ],
    ids=["approved", "not approved", "denied", "another amount", "twice", "two keys of one step"],
)
def test_the_judge_counts_effects(effects: list[Effect], approvals: list[dict[str, Any]], is_doubled: bool) -> None:
    verdict = Verdict()
    verdict.judge_effects(records({str(number): effect for number, effect in enumerate(effects)}), approvals)
    assert bool(verdict.doubled) == is_doubled


def test_the_judge_notices_a_result_without_an_effect() -> None:
    verdict = Verdict()
    verdict.judge_receipts({"t": STORED_TASK}, [])
    assert verdict.contradictions


def records(effects: dict[str, Effect] | None = None) -> Ledger:
    return Ledger(random.Random(0), 0, effects=effects or {})
