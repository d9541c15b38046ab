"""Jobs with simultaneous writers, and with lost responses (docs/storage.md, Jobs)."""

from collections.abc import Callable
from functools import partial

import pytest
from msgspec.structs import replace

from mcp_baton.exceptions import ClaimLost, OutcomeUnknown, TaskFinished, TaskHeld
from mcp_baton.protocol.json import JsonObject
from mcp_baton.tasks.record import FIRST_DISPATCH_MS, LEASE_MS, Claim, TaskRecord, TaskStatus
from mcp_baton.tasks.store import Batch
from tests.store.conftest import AfterRead, Clock, LostReplies
from tests.store.given import ON_MEMORY, Begin, HeldJob, MakeClaim, Rounds, Store, Threads
from tests.store.steps import Outcome, at_once

ROUNDS = 20
CROWDED = 8
"""Rounds with so many writers that they conflict every time."""
MANY = 16
WORKING, INPUT_REQUIRED, FAILED = TaskStatus.WORKING, TaskStatus.INPUT_REQUIRED, TaskStatus.FAILED
COMPLETED, CANCELLED = TaskStatus.COMPLETED, TaskStatus.CANCELLED
ERROR: JsonObject = {"code": -32603, "message": "the worker was lost"}
QUESTIONS: dict[str, JsonObject] = {
    f"q{place}": {"method": "elicitation/create", "params": {"message": f"{place}?"}} for place in range(MANY)
}


def tasks_in(outcomes: list[Outcome]) -> list[TaskRecord]:
    return [outcome for outcome in outcomes if isinstance(outcome, TaskRecord)]


def answer(key: str) -> JsonObject:
    return {"action": "accept", "content": {"is": key}}


def number_of(task: TaskRecord | None) -> int:
    assert task
    assert task.job
    return task.job.dispatches


def test_one_of_several_workers_begins(
    store: Store, create_job: Begin, worker: MakeClaim, threads: Threads, rounds: Rounds
) -> None:
    for _ in rounds(CROWDED):
        task = create_job(attempts=MANY)
        claims = [worker(f"w{place}") for place in range(MANY)]
        begun = [partial(store.jobs.claim, task.owner, task.task_id, claim, 1) for claim in claims]
        outcomes = at_once(threads, [*begun])
        (won,) = tasks_in(outcomes)
        assert won == store.get(task.owner, task.task_id)
        assert won.claim
        assert won.claim.number == 1
        refused = [outcome for outcome in outcomes if isinstance(outcome, TaskHeld)]
        assert len(refused) == MANY - 1
        assert all(error.current == won for error in refused)


def test_one_of_several_polls_dispatches_again(
    store: Store, create_job: Begin, clock: Clock, threads: Threads, rounds: Rounds
) -> None:
    for _ in rounds(CROWDED):
        task = create_job()
        clock.ms += FIRST_DISPATCH_MS + 1
        outcomes = at_once(threads, [partial(store.jobs.dispatch_again, task)] * MANY)
        assert outcomes.count(None) == MANY - 1
        (won,) = tasks_in(outcomes)
        assert won == store.get(task.owner, task.task_id)
        assert number_of(won) == 2


def test_simultaneous_answers_to_different_questions_are_all_stored_and_one_is_last(
    store: Store, held_job: HeldJob, threads: Threads, rounds: Rounds
) -> None:
    for _ in rounds(CROWDED):
        task, claim = held_job()
        store.jobs.ask(task, claim, QUESTIONS)
        calls = [partial(store.jobs.answer, task.owner, task.task_id, {key: answer(key)}) for key in QUESTIONS]
        outcomes = tasks_in(at_once(threads, [*calls]))
        statuses = [outcome.status for outcome in outcomes]
        assert (statuses.count(WORKING), statuses.count(INPUT_REQUIRED)) == (1, MANY - 1)
        after = store.get(task.owner, task.task_id)
        assert after.job
        assert after.job.answers == {key: answer(key) for key in QUESTIONS}
        assert (after.status, after.job.dispatches) == (WORKING, 2)


def test_one_of_several_answers_to_a_question_is_stored(
    store: Store, held_job: HeldJob, threads: Threads, rounds: Rounds
) -> None:
    for _ in rounds(CROWDED):
        task, claim = held_job()
        store.jobs.ask(task, claim, {"q0": QUESTIONS["q0"], "q1": QUESTIONS["q1"]})
        texts = [f"t{place}" for place in range(MANY)]
        calls = [partial(store.jobs.answer, task.owner, task.task_id, {"q0": answer(text)}) for text in texts]
        outcomes = tasks_in(at_once(threads, [*calls]))
        after = store.get(task.owner, task.task_id)
        assert outcomes == [after]
        assert (after.version, after.status) == (task.version + 2, INPUT_REQUIRED)


def test_after_a_cancellation_a_racing_worker_writes_nothing(
    store: Store, create_job: Begin, worker: MakeClaim, threads: Threads, rounds: Rounds
) -> None:
    for _ in rounds(ROUNDS):
        task = create_job()
        begun, cancelled = at_once(
            threads,
            [
                partial(store.jobs.claim, task.owner, task.task_id, worker("a"), 1),
                partial(store.cancel, task.owner, task.task_id),
            ],
        )
        assert isinstance(cancelled, TaskRecord)
        assert cancelled == store.get(task.owner, task.task_id)
        if isinstance(begun, TaskRecord):
            assert begun.claim == cancelled.claim
            with pytest.raises(TaskFinished):
                store.write(begun, Batch(result={}, claim=begun.claim, release=True))
        else:
            assert isinstance(begun, TaskFinished)
            assert cancelled.claim is None


def test_a_job_is_given_up_or_begun_but_not_both(
    store: Store, held_job: HeldJob, worker: MakeClaim, clock: Clock, threads: Threads, rounds: Rounds
) -> None:
    """Its worker asks and is answered while a poll still believes that its only attempt is used up."""
    for _ in rounds(ROUNDS):
        task, claim = held_job(attempts=1)
        clock.ms += LEASE_MS + 1

        def get_on(task: TaskRecord = task, claim: Claim = claim) -> TaskRecord:
            store.jobs.ask(task, claim, {"q0": QUESTIONS["q0"]})
            store.jobs.answer(task.owner, task.task_id, {"q0": answer("q0")})
            return store.jobs.claim(task.owner, task.task_id, worker("b"), 2)

        given_up, begun = at_once(threads, [partial(store.jobs.give_up, task, ERROR), get_on])
        after = store.get(task.owner, task.task_id)
        if isinstance(given_up, TaskRecord):
            assert (given_up, after.status) == (after, FAILED)
            assert isinstance(begun, TaskFinished)
        else:
            assert (given_up, after) == (None, begun)


def test_a_job_ends_once(store: Store, held_job: HeldJob, clock: Clock, threads: Threads, rounds: Rounds) -> None:
    for _ in rounds(ROUNDS):
        task, claim = held_job(attempts=1)
        clock.ms += LEASE_MS + 1

        def complete(task: TaskRecord = task, claim: Claim = claim) -> TaskRecord:
            return store.write(task, Batch(result={"by": "worker"}, claim=claim, release=True)).task

        ends: list[Callable[[], TaskRecord | None]] = [
            complete,
            partial(store.jobs.fail, task, claim, ERROR),
            partial(store.jobs.give_up, task, ERROR),
            partial(store.cancel, task.owner, task.task_id),
            partial(store.complete, task.owner, task.task_id, {"by": "client"}),
        ]
        outcomes = at_once(threads, ends)
        assert tasks_in(outcomes) == [store.get(task.owner, task.task_id)]
        assert all(isinstance(outcome, TaskRecord | TaskFinished) for outcome in outcomes)


# Lost answers


def test_a_job_is_created_once_if_the_response_is_lost(store: Store, create_job: Begin, lost: LostReplies) -> None:
    lost.times = 1
    task = create_job()
    assert store.list(task.owner).tasks[0].task_id == task.task_id
    assert store.get(task.owner, task.task_id) == task


def test_an_attempt_is_counted_once_if_the_response_is_lost(
    store: Store, create_job: Begin, worker: MakeClaim, lost: LostReplies
) -> None:
    task = create_job(attempts=1)
    lost.times = 2
    taken = store.jobs.claim(task.owner, task.task_id, worker("a"), 1)
    assert taken.claim == replace(worker("a"), number=1, dispatch=1)


def test_a_worker_whose_claim_response_was_lost_and_that_was_taken_over_does_not_begin(
    store: Store, create_job: Begin, worker: MakeClaim, clock: Clock, lost: LostReplies
) -> None:
    """Its function stood still between the first attempt at the request and the second."""
    task, first = create_job(), worker("a")

    def stand_still() -> None:
        clock.ms += LEASE_MS + 1
        store.jobs.claim(task.owner, task.task_id, worker("b"), 2)

    lost.times, lost.meanwhile = 1, stand_still
    with pytest.raises(TaskHeld) as held:
        store.jobs.claim(task.owner, task.task_id, first, 1)
    assert held.value.current == store.get(task.owner, task.task_id)
    assert held.value.until_ms == worker("b").until_ms


def test_a_worker_whose_claim_response_was_lost_and_whose_job_was_cancelled_does_not_begin(
    store: Store, create_job: Begin, worker: MakeClaim, lost: LostReplies
) -> None:
    task = create_job()
    lost.times, lost.meanwhile = 1, lambda: store.cancel(task.owner, task.task_id)
    with pytest.raises(TaskFinished):
        store.jobs.claim(task.owner, task.task_id, worker("a"), 1)


def test_a_dispatch_is_noted_once_if_the_response_is_lost(
    store: Store, create_job: Begin, clock: Clock, lost: LostReplies
) -> None:
    task = create_job()
    clock.ms += FIRST_DISPATCH_MS + 1
    lost.times = 1
    again = store.jobs.dispatch_again(task)
    assert again
    assert number_of(again) == 2


@pytest.mark.parametrize("write", ["fail", "give up", "ask", "hand over", "result"])
def test_a_write_of_a_job_whose_response_is_lost_is_recognised_as_its_own(
    store: Store, held_job: HeldJob, clock: Clock, lost: LostReplies, write: str
) -> None:
    task, claim = held_job(attempts=1)
    lost.times = 1
    match write:
        case "fail":
            after: TaskRecord | None = store.jobs.fail(task, claim, ERROR)
        case "give up":
            clock.ms += LEASE_MS + 1
            after = store.jobs.give_up(task, ERROR)
        case "ask":
            after = store.jobs.ask(task, claim, QUESTIONS)
        case "hand over":
            after = store.jobs.hand_over(task, claim, 60_000)
        case _:
            after = store.write(task, Batch(result={}, claim=claim, release=True)).task
    assert after == store.get(task.owner, task.task_id)
    assert after.version == task.version + 1


def test_an_answer_is_stored_once_if_the_response_is_lost(
    store: Store, held_job: HeldJob, lost: LostReplies, after_read: AfterRead
) -> None:
    task, claim = held_job()
    store.jobs.ask(task, claim, {"q0": QUESTIONS["q0"], "q1": QUESTIONS["q1"]})

    def lose_the_write() -> None:
        lost.times = 1
        lost.meanwhile = lambda: store.jobs.answer(task.owner, task.task_id, {"q1": answer("q1")})

    after_read.run = lose_the_write
    after = store.jobs.answer(task.owner, task.task_id, {"q0": answer("q0")})
    assert after
    assert after.job
    assert after.job.answers == {"q0": answer("q0"), "q1": answer("q1")}
    assert (after.status, after.version) == (WORKING, task.version + 3)


@ON_MEMORY
def test_a_report_is_sent_once_and_its_outcome_may_be_unknown(
    store: Store, held_job: HeldJob, lost: LostReplies
) -> None:
    task, claim = held_job()
    lost.times = 1
    with pytest.raises(OutcomeUnknown):
        store.jobs.report(task, claim, "half")
    assert lost.times == 0
    assert store.get(task.owner, task.task_id).status_message == "half"


@ON_MEMORY
def test_questions_are_stored_once_if_the_response_is_lost(store: Store, held_job: HeldJob, lost: LostReplies) -> None:
    task, claim = held_job()
    lost.times = 1_000
    with pytest.raises(OutcomeUnknown):
        store.jobs.ask(task, claim, QUESTIONS)
    lost.times = 0
    with pytest.raises(ClaimLost):
        store.jobs.fail(task, claim, ERROR)
    after = store.get(task.owner, task.task_id)
    assert after.job
    assert (after.status, after.job.open) == (INPUT_REQUIRED, QUESTIONS)
