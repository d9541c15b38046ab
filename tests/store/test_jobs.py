"""Jobs: begin and end, questions and answers, dispatches and lifetimes (docs/storage.md, Jobs)."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from msgspec import structs

from mcp_baton.exceptions import (
    ClaimLost,
    Conflict,
    NoAttemptLeft,
    StoreBusy,
    StoreError,
    TaskFinished,
    TaskHeld,
    TaskNotFound,
    TooLarge,
)
from mcp_baton.protocol.json import JsonObject
from mcp_baton.tasks.dynamodb.items import Limits
from mcp_baton.tasks.dynamodb.store import DynamoDBTaskStore
from mcp_baton.tasks.ids import new_task_id
from mcp_baton.tasks.jobs import event_of
from mcp_baton.tasks.record import (
    FIRST_DISPATCH_MS,
    LEASE_MS,
    LONGEST_DISPATCH_MS,
    Claim,
    Job,
    JobSpec,
    NewTask,
    TaskRecord,
    TaskStanding,
    TaskStatus,
)
from mcp_baton.tasks.store import Batch
from tests.fakes import Pauses
from tests.sent import Requests
from tests.store.conftest import WORK, AfterRead, Clock, Engine, LostReplies
from tests.store.given import ON_MEMORY, Begin, HeldJob, MakeClaim, Store, Stores
from tests.store.steps import hooked

WORKING, INPUT_REQUIRED, FAILED = TaskStatus.WORKING, TaskStatus.INPUT_REQUIRED, TaskStatus.FAILED
ERROR: JsonObject = {"code": -32603, "message": "the worker was lost"}
NAME: JsonObject = {"method": "elicitation/create", "params": {"message": "Whose?"}}
KIM: JsonObject = {"action": "accept", "content": {"name": "Kim"}}


def job_of(task: TaskRecord) -> Job:
    assert task.job
    return task.job


def answered(store: Store, task: TaskRecord, answers: JsonObject) -> TaskRecord:
    after = store.jobs.answer(task.owner, task.task_id, answers)
    assert after
    return after


def keys(number: int) -> list[str]:
    return [f"q{place}" for place in range(number)]


def questions(number: int) -> dict[str, JsonObject]:
    return {key: {**NAME, "params": {"message": key}} for key in keys(number)}


def test_a_job_is_read_back_as_it_was_created(
    store: Store, create_job: Begin, clock: Clock, requests: Requests
) -> None:
    task = create_job()
    assert requests.take() == ["PutItem"]
    read = store.get(task.owner, task.task_id)
    assert read == task
    assert read.job == Job(WORK, due_ms=clock.ms + FIRST_DISPATCH_MS, dispatches=1, allowed=2)
    assert (read.status, read.arguments, read.claim, read.error) == (WORKING, {"month": 3}, None, None)
    assert event_of(task, 1) == {"batonTask": {"owner": task.owner, "taskId": task.task_id, "dispatch": 1}}


@ON_MEMORY
def test_a_long_job_is_compressed_and_read_back(create_job: Begin) -> None:
    answers: JsonObject = {"text": {"text": "long " * 10_000}}
    assert job_of(create_job(answers=answers)).work.answers == answers


def test_a_task_without_a_job_spec_is_not_a_job(store: Store, begin: Begin, worker: MakeClaim, clock: Clock) -> None:
    task = begin()
    assert task.job is None
    with pytest.raises(Conflict):
        store.jobs.claim(task.owner, task.task_id, worker("a"), 1)
    clock.ms += FIRST_DISPATCH_MS + 1
    assert store.jobs.dispatch_again(task) is None
    assert store.jobs.give_up(task, ERROR) is None
    assert store.jobs.answer(task.owner, task.task_id, {"name": KIM}) is None


def test_a_listed_job_has_its_tool_and_status_message(store: Store, held_job: HeldJob) -> None:
    task, claim = held_job()
    store.jobs.report(task, claim, "half of it")
    (listed,) = store.list(task.owner).tasks
    assert listed.job == Job(JobSpec("report", request_id=""), due_ms=0, dispatches=0, allowed=0)
    assert (listed.status_message, listed.claim, listed.arguments) == ("half of it", claim, {})


# Begin


def test_beginning_a_job_is_one_request_that_also_reads_it(
    store: Store, create_job: Begin, worker: MakeClaim, requests: Requests
) -> None:
    task = create_job()
    requests.take()
    taken = store.jobs.claim(task.owner, task.task_id, worker("a"), 7)
    assert requests.take() == ["UpdateItem"]
    assert taken == store.get(task.owner, task.task_id)
    assert taken.claim == structs.replace(worker("a"), number=1, dispatch=7)
    assert store.read_status(task.owner, task.task_id) == TaskStanding(WORKING, taken.claim, taken.version)
    assert (taken.job, taken.version) == (task.job, task.version)


def test_a_claimed_job_cannot_start_until_its_claim_ends(
    store: Store, create_job: Begin, worker: MakeClaim, clock: Clock
) -> None:
    task, first = create_job(), worker("a")
    taken = store.jobs.claim(task.owner, task.task_id, first, 1)
    clock.ms = first.until_ms
    with pytest.raises(TaskHeld) as refused:
        store.jobs.claim(task.owner, task.task_id, worker("b"), 2)
    assert (refused.value.until_ms, refused.value.current) == (first.until_ms, taken)
    clock.ms += 1
    after = store.jobs.claim(task.owner, task.task_id, worker("b"), 2)
    assert after.claim == structs.replace(worker("b"), number=2, dispatch=2)


def test_a_job_starts_at_most_as_often_as_its_attempts(
    store: Store, create_job: Begin, worker: MakeClaim, clock: Clock
) -> None:
    task = create_job(attempts=1)
    taken = store.jobs.claim(task.owner, task.task_id, worker("a"), 1)
    with pytest.raises(TaskHeld):
        store.jobs.claim(task.owner, task.task_id, worker("b"), 1)
    clock.ms += LEASE_MS + 1
    with pytest.raises(NoAttemptLeft) as refused:
        store.jobs.claim(task.owner, task.task_id, worker("b"), 1)
    assert refused.value.current == taken == store.get(task.owner, task.task_id)


def test_a_job_that_waits_for_the_client_does_not_start(store: Store, held_job: HeldJob, worker: MakeClaim) -> None:
    task, claim = held_job()
    waiting = store.jobs.ask(task, claim, {"name": NAME})
    with pytest.raises(Conflict) as refused:
        store.jobs.claim(task.owner, task.task_id, worker("b"), 2)
    assert refused.value.current == waiting


@pytest.mark.parametrize("name", ["claim", "answer"])
def test_a_missing_or_foreign_job_is_not_found(
    store: Store, create_job: Begin, worker: MakeClaim, clock: Clock, name: str
) -> None:
    task = create_job()

    def do(owner: str, task_id: str) -> TaskRecord | None:
        if name == "claim":
            return store.jobs.claim(owner, task_id, worker("a"), 1)
        return store.jobs.answer(owner, task_id, {"name": KIM})

    for owner, task_id in ((task.owner + "x", task.task_id), (task.owner, new_task_id(0)), (task.owner, "no id")):
        with pytest.raises(TaskNotFound):
            do(owner, task_id)
    clock.ms += task.ttl_ms + 1_000
    with pytest.raises(TaskNotFound):
        do(task.owner, task.task_id)


# A worker's writes, and the claim that they need

type Write = Callable[[DynamoDBTaskStore, TaskRecord, Claim], TaskRecord]

WRITES: dict[str, Write] = {
    "result": lambda store, task, claim: store.write(task, Batch(result={"a": 1}, claim=claim, release=True)).task,
    "renew": lambda store, task, claim: store.renew(task, claim),
    "fail": lambda store, task, claim: store.jobs.fail(task, claim, ERROR),
    "ask": lambda store, task, claim: store.jobs.ask(task, claim, {"more": NAME}),
    "report": lambda store, task, claim: store.jobs.report(task, claim, "half"),
    "hand over": lambda store, task, claim: store.jobs.hand_over(task, claim, 60_000),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_worker_cannot_write_after_a_takeover(
    store: Store,
    held_job: HeldJob,
    worker: MakeClaim,
    clock: Clock,
    write: Write,
) -> None:
    task, claim = held_job()
    clock.ms += LEASE_MS + 1
    taken = store.jobs.claim(task.owner, task.task_id, worker("b"), 2)
    with pytest.raises(ClaimLost) as lost:
        write(store, task, claim)
    assert lost.value.current == taken == store.get(task.owner, task.task_id)


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_worker_with_an_expired_claim_can_write_if_no_other_took_over(
    store: Store, held_job: HeldJob, clock: Clock, write: Write
) -> None:
    task, claim = held_job()
    clock.ms += LEASE_MS * 3
    assert write(store, task, claim) == store.get(task.owner, task.task_id)


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("is_answered", [False, True], ids=["waiting", "answered"])
def test_a_worker_cannot_write_after_the_release(
    store: Store,
    held_job: HeldJob,
    write: Write,
    is_answered: bool,
) -> None:
    task, claim = held_job()
    stands = store.jobs.ask(task, claim, {"name": NAME})
    if is_answered:
        stands = answered(store, task, {"name": KIM})
    with pytest.raises(ClaimLost):
        write(store, task, claim)
    assert store.get(task.owner, task.task_id) == stands


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("asking", [False, True], ids=["working", "input_required"])
def test_nothing_is_written_after_a_cancellation(
    store: Store,
    held_job: HeldJob,
    worker: MakeClaim,
    write: Write,
    asking: bool,
) -> None:
    task, claim = held_job()
    if asking:
        store.jobs.ask(task, claim, {"name": NAME})
    cancelled = store.cancel(task.owner, task.task_id)
    assert cancelled.status is TaskStatus.CANCELLED
    with pytest.raises(TaskFinished):
        write(store, task, claim)
    with pytest.raises(TaskFinished):
        store.jobs.claim(task.owner, task.task_id, worker("b"), 2)
    with pytest.raises(TaskFinished):
        store.jobs.answer(task.owner, task.task_id, {"name": KIM})
    assert store.get(task.owner, task.task_id) == cancelled


def test_a_result_ends_the_job(store: Store, held_job: HeldJob) -> None:
    task, claim = held_job()
    batch = Batch(result={"content": []}, variables={"rows": 3}, claim=claim, release=True)
    after = store.write(task, batch).task
    assert after == store.get(task.owner, task.task_id)
    assert (after.status, after.result, dict(after.variables)) == (
        TaskStatus.COMPLETED,
        {"content": []},
        {"rows": 3},
    )
    assert after.claim == structs.replace(claim, until_ms=0)


def test_a_failure_ends_the_job_with_its_error(store: Store, held_job: HeldJob, requests: Requests) -> None:
    task, claim = held_job()
    requests.take()
    failed = store.jobs.fail(task, claim, ERROR)
    assert requests.take() == ["UpdateItem"]
    assert failed == store.get(task.owner, task.task_id)
    assert (failed.status, failed.error, failed.status_message) == (FAILED, ERROR, ERROR["message"])


@ON_MEMORY
def test_long_messages_are_cut(store: Store, held_job: HeldJob) -> None:
    task, claim = held_job()
    assert store.jobs.report(task, claim, "x" * 1_000).status_message == "x" * 1_000
    assert store.jobs.report(task, claim, "x" * 500_000).status_message == "x" * 999 + "…"
    failed = store.jobs.fail(task, claim, {"code": 1, "message": "y" * 500_000})
    assert failed.error == {"code": 1, "message": "y" * 999 + "…"}


def test_a_report_renews_the_claim(store: Store, held_job: HeldJob, clock: Clock) -> None:
    task, claim = held_job()
    clock.ms += 15_000
    later = structs.replace(claim, until_ms=claim.until_ms + 15_000)
    reported = store.jobs.report(task, later, "half")
    assert (reported.claim, reported.status_message) == (later, "half")
    assert reported == store.get(task.owner, task.task_id)


@pytest.mark.parametrize("end", ["result", "fail", "give up", "cancel"])
def test_a_job_that_has_ended_is_not_counted_as_live(
    stores: Stores, owner: str, worker: MakeClaim, clock: Clock, end: str
) -> None:
    store = stores(limits=Limits(max_tasks_per_owner=1))
    new = NewTask(owner, {}, work=structs.replace(WORK, attempts=1))
    task = store.create(new)
    with pytest.raises(StoreError, match="live tasks"):
        store.create(new)
    taken = store.jobs.claim(owner, task.task_id, worker("a"), 1)
    assert taken.claim
    match end:
        case "result":
            store.write(taken, Batch(result={}, claim=taken.claim, release=True))
        case "fail":
            store.jobs.fail(taken, taken.claim, ERROR)
        case "give up":
            clock.ms += LEASE_MS + 1
            assert store.jobs.give_up(taken, ERROR)
        case _:
            store.cancel(owner, task.task_id)
    assert store.create(new).status is WORKING


# Redispatch and give-up


def test_a_job_is_dispatched_again_once_it_is_due(
    store: Store, create_job: Begin, clock: Clock, requests: Requests
) -> None:
    task = create_job()
    requests.take()
    clock.ms += FIRST_DISPATCH_MS
    assert store.jobs.dispatch_again(task) is None
    assert requests.take() == []
    clock.ms += 1
    again = store.jobs.dispatch_again(task)
    assert requests.take() == ["UpdateItem"]
    assert again
    assert again == store.get(task.owner, task.task_id)
    assert (job_of(again).dispatches, job_of(again).due_ms) == (2, clock.ms + 2 * FIRST_DISPATCH_MS)
    # A poll that read the task before the dispatch does not dispatch it again.
    assert store.jobs.dispatch_again(task) is None
    assert store.get(task.owner, task.task_id) == again


@ON_MEMORY
def test_each_dispatch_doubles_the_wait_up_to_ten_minutes(store: Store, create_job: Begin, clock: Clock) -> None:
    task, waits = create_job(), list[int]()
    for _ in range(8):
        clock.ms = job_of(task).due_ms + 1
        again = store.jobs.dispatch_again(task)
        assert again
        task = again
        waits.append(job_of(task).due_ms - clock.ms)
    assert waits[:4] == [60_000, 120_000, 240_000, 480_000]
    assert set(waits[4:]) == {LONGEST_DISPATCH_MS}


def test_a_claimed_job_is_not_dispatched_again(
    store: Store, create_job: Begin, worker: MakeClaim, clock: Clock
) -> None:
    task = create_job()
    clock.ms += FIRST_DISPATCH_MS + 1
    taken = store.jobs.claim(task.owner, task.task_id, worker("a"), 1)
    assert store.jobs.dispatch_again(taken) is None
    # A poll that read the job before the claim does not dispatch it either.
    assert store.jobs.dispatch_again(task) is None
    clock.ms = worker("a").until_ms - LEASE_MS
    assert store.jobs.dispatch_again(taken) is None
    clock.ms += LEASE_MS + 1
    again = store.jobs.dispatch_again(taken)
    assert again
    assert (job_of(again).dispatches, again.claim) == (2, taken.claim)


def test_only_a_job_without_attempts_is_given_up(
    store: Store, create_job: Begin, worker: MakeClaim, clock: Clock
) -> None:
    task = create_job()
    assert store.jobs.give_up(task, ERROR) is None
    first = store.jobs.claim(task.owner, task.task_id, worker("a"), 1)
    clock.ms += LEASE_MS + 1
    assert store.jobs.give_up(first, ERROR) is None
    second = store.jobs.claim(task.owner, task.task_id, worker("b"), 1)
    assert store.jobs.give_up(second, ERROR) is None
    clock.ms += LEASE_MS + 1
    assert store.jobs.dispatch_again(second) is None
    failed = store.jobs.give_up(second, ERROR)
    assert failed
    assert failed == store.get(task.owner, task.task_id)
    assert (failed.status, failed.error, failed.status_message) == (FAILED, ERROR, ERROR["message"])
    with pytest.raises(TaskFinished):
        store.jobs.give_up(second, ERROR)


def test_an_outdated_poll_does_not_end_a_job(store: Store, held_job: HeldJob, clock: Clock) -> None:
    task, claim = held_job(attempts=1)
    clock.ms += LEASE_MS + 1
    # The worker is late, and renews its claim.
    store.renew(task, structs.replace(claim, until_ms=clock.ms + LEASE_MS))
    assert store.jobs.give_up(task, ERROR) is None
    assert store.jobs.dispatch_again(task) is None
    waiting = store.jobs.ask(task, claim, {"name": NAME})
    assert store.jobs.give_up(task, ERROR) is None
    assert store.jobs.dispatch_again(task) is None
    assert store.get(task.owner, task.task_id) == waiting


# Questions and answers


def test_a_job_is_dispatched_again_after_the_last_answer(
    store: Store, held_job: HeldJob, worker: MakeClaim, clock: Clock, requests: Requests
) -> None:
    task, claim = held_job(attempts=1)
    requests.take()
    waiting = store.jobs.ask(task, claim, questions(2))
    assert requests.take() == ["UpdateItem"]
    assert waiting == store.get(task.owner, task.task_id)
    assert (waiting.status, waiting.claim) == (INPUT_REQUIRED, structs.replace(claim, until_ms=0))
    assert (job_of(waiting).open, job_of(waiting).allowed) == (questions(2), 2)
    clock.ms += 100_000
    assert store.jobs.dispatch_again(waiting) is None
    requests.take()

    first = answered(store, task, {"q1": KIM})
    assert requests.take() == ["GetItem", "UpdateItem"]
    assert (first.status, job_of(first).open, job_of(first).dispatches) == (
        INPUT_REQUIRED,
        {"q0": questions(1)["q0"]},
        1,
    )

    last = answered(store, task, {"q0": {"action": "decline"}})
    assert last == store.get(task.owner, task.task_id)
    assert (last.status, job_of(last).open) == (WORKING, {})
    assert (job_of(last).dispatches, job_of(last).due_ms) == (2, clock.ms + FIRST_DISPATCH_MS)
    assert job_of(last).answers == {"q1": KIM, "q0": {"action": "decline"}}

    taken = store.jobs.claim(task.owner, task.task_id, worker("b"), 2)
    assert taken.claim == structs.replace(worker("b"), number=2, dispatch=2)
    with pytest.raises(ClaimLost):
        store.jobs.fail(task, claim, ERROR)


def test_answers_to_questions_that_are_not_open_change_nothing(
    store: Store, held_job: HeldJob, requests: Requests
) -> None:
    task, claim = held_job()
    assert store.jobs.answer(task.owner, task.task_id, {"q0": KIM}) is None
    waiting = store.jobs.ask(task, claim, questions(2))
    requests.take()
    assert store.jobs.answer(task.owner, task.task_id, {"unknown": KIM}) is None
    assert store.get(task.owner, task.task_id) == waiting
    requests.take()
    assert store.jobs.answer(task.owner, task.task_id, {}) is None
    assert requests.take() == ["GetItem"]
    first = answered(store, task, {"q0": KIM, "unknown": KIM})
    assert store.jobs.answer(task.owner, task.task_id, {"q0": {"action": "cancel"}}) is None
    assert job_of(first).answers == {"q0": KIM}
    last = answered(store, task, {"q0": {"action": "cancel"}, "q1": KIM})
    assert job_of(last).answers == {"q0": KIM, "q1": KIM}
    assert store.jobs.answer(task.owner, task.task_id, {"q1": {"action": "cancel"}}) is None
    assert store.get(task.owner, task.task_id) == last


@pytest.mark.parametrize("key", ["", "a.b#c", "\ud800", '"', "é🎉", "k" * 1_000])
def test_any_text_can_be_the_key_of_a_question(store: Store, held_job: HeldJob, key: str) -> None:
    task, claim = held_job()
    assert job_of(store.jobs.ask(task, claim, {key: NAME})).open == {key: NAME}
    assert job_of(answered(store, task, {key: KIM})).answers == {key: KIM}


@ON_MEMORY
def test_a_key_cannot_be_used_for_two_questions(store: Store, held_job: HeldJob, worker: MakeClaim) -> None:
    task, claim = held_job()
    store.jobs.ask(task, claim, {"name": NAME})
    given = answered(store, task, {"name": KIM})
    again = store.jobs.claim(task.owner, task.task_id, worker("b"), 2)
    assert again.claim
    with pytest.raises(ValueError, match="'name' was used for another question"):
        store.jobs.ask(again, again.claim, {"name": {**NAME, "params": {"message": "Who?"}}, "more": NAME})
    with pytest.raises(ValueError, match="every question is answered: name"):
        store.jobs.ask(again, again.claim, {"name": dict(sorted(NAME.items(), reverse=True))})
    with pytest.raises(ValueError, match="every question is answered: there is none"):
        store.jobs.ask(again, again.claim, {})
    assert store.get(task.owner, task.task_id) == structs.replace(given, claim=again.claim)
    asked = store.jobs.ask(again, again.claim, {"name": NAME, "more": NAME})
    assert (asked.status, job_of(asked).open) == (INPUT_REQUIRED, {"more": NAME})


def test_a_hundred_questions_are_asked_and_answered_in_one_write_each(store: Store, held_job: HeldJob) -> None:
    task, claim = held_job()
    with pytest.raises(TooLarge, match="101 questions"):
        store.jobs.ask(task, claim, questions(101))
    assert store.get(task.owner, task.task_id) == task
    store.jobs.ask(task, claim, questions(100))
    after = answered(store, task, dict.fromkeys(keys(100), KIM))
    assert (after.status, job_of(after).answers) == (WORKING, dict.fromkeys(keys(100), KIM))


@ON_MEMORY
def test_too_large_questions_are_refused_without_a_change(stores: Stores, owner: str, worker: MakeClaim) -> None:
    store = stores(limits=Limits(item_bytes=4_000, compress_over_bytes=100_000))
    created = store.create(NewTask(owner, {}, work=WORK))
    task = store.jobs.claim(owner, created.task_id, worker("a"), 1)
    assert task.claim
    with pytest.raises(TooLarge, match="of 3000"):
        store.jobs.ask(task, task.claim, {"long": {"method": "m", "params": {"message": "x" * 3_000}}})
    assert store.get(owner, task.task_id) == task
    waiting = store.jobs.ask(task, task.claim, questions(2))
    with pytest.raises(TooLarge, match="of 4000"):
        store.jobs.answer(owner, task.task_id, {"q0": KIM, "q1": {"text": "x" * 4_000}})
    assert store.get(owner, task.task_id) == waiting
    assert answered(store, task, dict.fromkeys(keys(2), KIM)).status is WORKING


def test_too_large_answers_are_refused_and_no_other_answer_is_lost(
    stores: Stores, owner: str, worker: MakeClaim
) -> None:
    store = stores(limits=Limits(item_bytes=900_000, compress_over_bytes=1_000_000))
    created = store.create(NewTask(owner, {}, work=WORK))
    task = store.jobs.claim(owner, created.task_id, worker("a"), 1)
    assert task.claim
    with pytest.raises(TooLarge):
        store.jobs.ask(task, task.claim, {"q0": {"text": "x" * 500_000}})
    store.jobs.ask(task, task.claim, questions(2))
    first = store.jobs.answer(owner, task.task_id, {"q0": KIM})
    with pytest.raises(TooLarge):
        store.jobs.answer(owner, task.task_id, {"q1": {"text": "x" * 500_000}})
    assert store.get(owner, task.task_id) == first


@ON_MEMORY
def test_an_answer_without_time_after_a_lost_race_is_refused_as_busy(
    store: Store, held_job: HeldJob, after_read: AfterRead
) -> None:
    task, claim = held_job()
    store.jobs.ask(task, claim, questions(3))
    after_read.run = lambda: store.jobs.answer(task.owner, task.task_id, {"q0": KIM})
    with pytest.raises(StoreBusy, match="other answers"):
        store.within(lambda: 1_300).jobs.answer(task.owner, task.task_id, {"q2": KIM})
    assert job_of(store.get(task.owner, task.task_id)).answers == {"q0": KIM}


@ON_MEMORY
def test_answers_are_decided_again_after_a_lost_race(
    store: Store, held_job: HeldJob, after_read: AfterRead, pauses: Pauses, requests: Requests
) -> None:
    task, claim = held_job()
    store.jobs.ask(task, claim, questions(2))
    requests.take()
    after_read.run = lambda: store.jobs.answer(task.owner, task.task_id, {"q0": KIM})
    decline: JsonObject = {"action": "decline"}
    after = answered(store, task, {"q0": decline, "q1": decline})
    assert requests.take() == ["GetItem", "GetItem", "UpdateItem", "UpdateItem", "UpdateItem"]
    assert len(pauses.taken) == 1
    assert pauses.taken[0] <= 0.005
    assert (after.status, job_of(after).answers) == (WORKING, {"q0": KIM, "q1": decline})


def test_an_answer_after_a_cancellation_is_refused(store: Store, held_job: HeldJob, after_read: AfterRead) -> None:
    task, claim = held_job()
    store.jobs.ask(task, claim, questions(1))
    after_read.run = lambda: store.cancel(task.owner, task.task_id)
    with pytest.raises(TaskFinished):
        store.jobs.answer(task.owner, task.task_id, {"q0": KIM})
    assert job_of(store.get(task.owner, task.task_id)).answers == {}


# Handover


def test_a_handover_dispatches_a_new_worker_and_extends_the_job(
    store: Store, owner: str, worker: MakeClaim, clock: Clock
) -> None:
    created = store.create(NewTask(owner, {}, work=WORK, ttl_ms=100_000))
    clock.ms += 60_000
    task = store.jobs.claim(owner, created.task_id, worker("a"), 1)
    assert task.claim
    after = store.jobs.hand_over(task, task.claim, 100_000)
    assert after == store.get(owner, task.task_id)
    assert (after.status, after.claim, after.ttl_ms) == (WORKING, structs.replace(task.claim, until_ms=0), 160_000)
    assert (job_of(after).dispatches, job_of(after).due_ms) == (2, clock.ms + FIRST_DISPATCH_MS)
    assert job_of(after).allowed == 1 + WORK.attempts
    clock.ms += 99_000
    again = store.jobs.claim(owner, task.task_id, worker("b"), 2)
    assert again.claim == structs.replace(worker("b"), number=2, dispatch=2)
    # A shorter lifetime than the current one is ignored.
    assert store.jobs.hand_over(again, again.claim, 10).ttl_ms == 160_000
    clock.ms += 2_000
    with pytest.raises(TaskNotFound):
        store.get(owner, task.task_id)


@ON_MEMORY
def test_a_job_lives_at_most_for_the_maximum_lifetime(
    stores: Stores, owner: str, worker: MakeClaim, clock: Clock
) -> None:
    store = stores(limits=Limits(max_ttl_ms=120_000))
    created = store.create(NewTask(owner, {}, work=WORK, ttl_ms=100_000))
    clock.ms += 50_000
    task = store.jobs.claim(owner, created.task_id, worker("a"), 1)
    assert task.claim
    assert store.jobs.hand_over(task, task.claim, 500_000).ttl_ms == 120_000
    clock.ms += 71_000
    with pytest.raises(TaskNotFound):
        store.get(owner, task.task_id)


@pytest.mark.parametrize("work", [WORK, None], ids=["a job", "a workflow's task"])
def test_extending_a_task_is_one_request_or_none(
    stores: Stores, owner: str, clock: Clock, requests: Requests, work: JobSpec | None
) -> None:
    store = stores(limits=Limits(max_ttl_ms=250_000))
    task = store.create(NewTask(owner, {}, workflow=None if work else "stock", work=work, ttl_ms=100_000))
    requests.take()
    assert store.jobs.extend(task, 100_000) is task
    assert requests.take() == []
    clock.ms += 51_000
    longer = store.jobs.extend(task, 100_000)
    assert requests.take() == ["UpdateItem"]
    assert longer == store.get(owner, task.task_id)
    assert (longer.ttl_ms, longer.version, longer.status) == (151_000, task.version, WORKING)
    # Another worker that read the task before the extension gets the current task.
    assert store.jobs.extend(task, 100_000) == longer
    clock.ms += 99_000
    assert store.jobs.extend(longer, 900_000).ttl_ms == 250_000
    clock.ms += 99_000
    requests.take()
    last = store.get(owner, task.task_id)
    assert store.jobs.extend(last, 900_000) is last  # the maximum lifetime is reached
    clock.ms += 2_000
    with pytest.raises(TaskNotFound):
        store.get(owner, task.task_id)


def test_an_ended_task_is_not_extended(stores: Stores, owner: str, clock: Clock) -> None:
    store = stores(limits=Limits(max_ttl_ms=250_000))
    task = store.create(NewTask(owner, {}, work=WORK, ttl_ms=100_000))
    store.cancel(owner, task.task_id)
    clock.ms += 51_000
    with pytest.raises(TaskFinished):
        store.jobs.extend(task, 100_000)


@pytest.mark.parametrize("when", ["before", "between the request and its repetition"])
def test_extending_a_task_after_a_takeover_raises_claim_lost(
    stores: Stores, owner: str, worker: MakeClaim, clock: Clock, lost: LostReplies, when: str
) -> None:
    store = stores(limits=Limits(max_ttl_ms=250_000))
    created = store.create(NewTask(owner, {}, work=WORK, ttl_ms=100_000))
    mine = store.jobs.claim(owner, created.task_id, worker("a"), 1)
    clock.ms += 51_000

    def claim() -> None:
        store.jobs.claim(owner, created.task_id, structs.replace(worker("b"), until_ms=clock.ms + 1_000), 2)

    if when == "before":
        claim()
    else:
        lost.times, lost.meanwhile = 1, claim
    with pytest.raises(ClaimLost) as conflict:
        store.jobs.extend(mine, 100_000)
    assert conflict.value.current == store.get(owner, created.task_id)
    assert conflict.value.current.ttl_ms == (100_000 if when == "before" else 151_000)


def test_a_worker_that_has_seen_a_takeover_cannot_ask(
    store: Store, held_job: HeldJob, worker: MakeClaim, clock: Clock
) -> None:
    """The stored task has the questions of the other worker, and their answers."""
    task, claim = held_job()
    clock.ms = claim.until_ms + 1
    other = structs.replace(worker("b"), until_ms=clock.ms + 1_000)
    taken = store.jobs.claim(task.owner, task.task_id, other, 2)
    store.jobs.ask(taken, other, questions(1))
    answered(store, task, {"q0": KIM})
    with pytest.raises(ClaimLost):
        store.jobs.ask(store.get(task.owner, task.task_id), claim, questions(1))


def test_an_extended_job_is_counted_until_its_new_end(
    stores: Stores, owner: str, worker: MakeClaim, clock: Clock
) -> None:
    store = stores(limits=Limits(max_tasks_per_owner=1, max_ttl_ms=86_400_000))
    new = NewTask(owner, {}, work=WORK, ttl_ms=3_600_000)
    task = store.jobs.claim(owner, store.create(new).task_id, worker("a"), 1)
    assert task.claim
    longer = store.jobs.hand_over(task, task.claim, 10 * 3_600_000)
    clock.ms += 5 * 3_600_000
    with pytest.raises(StoreError, match="live tasks"):
        store.create(new)
    taken = store.jobs.claim(owner, task.task_id, worker("b"), longer.job.dispatches if longer.job else 0)
    assert taken.claim
    store.jobs.fail(taken, taken.claim, ERROR)
    assert store.create(new).status is WORKING
    with pytest.raises(StoreError, match="live tasks"):
        store.create(new)


@ON_MEMORY
def test_extending_a_job_from_before_the_limit_creates_no_count_item(
    stores: Stores, engine: Engine, owner: str, worker: MakeClaim
) -> None:
    before = stores()
    task = before.jobs.claim(owner, before.create(NewTask(owner, {}, work=WORK)).task_id, worker("a"), 1)
    stores(limits=Limits(max_tasks_per_owner=1)).jobs.extend(task, 10 * 3_600_000)
    items = engine.client.scan(TableName="tasks", ConsistentRead=True)["Items"]
    assert [item for item in items if owner in item["pk"]["S"] and "expires_at" not in item] == []


@pytest.mark.parametrize("ended", ["before", "after"])
def test_a_job_that_ends_while_it_is_extended_is_not_counted(
    stores: Stores, engine: Engine, owner: str, worker: MakeClaim, ended: str
) -> None:
    """The job is cancelled just before or just after the write that extends it, while its count is moved."""
    store = stores(limits=Limits(max_tasks_per_owner=1))
    new = NewTask(owner, {}, work=WORK, ttl_ms=3_600_000)
    task = store.jobs.claim(owner, store.create(new).task_id, worker("a"), 1)
    assert task.claim
    writes_head = False

    def sending(params: dict[str, Any], **_: object) -> None:
        nonlocal writes_head
        writes_head = params["Key"]["sk"]["S"].startswith("TASK#")

    cancelling = iter([lambda: store.cancel(owner, task.task_id)])

    def cancel(**_: object) -> None:
        if writes_head:
            next(cancelling, lambda: None)()

    when = "before-send" if ended == "before" else "after-call"
    with (
        suppress(TaskFinished),
        hooked(engine.client, "provide-client-params.dynamodb.UpdateItem", sending),
        hooked(engine.client, f"{when}.dynamodb.UpdateItem", cancel),
    ):
        store.jobs.extend(task, 36_000_000)
    assert store.get(owner, task.task_id).status is TaskStatus.CANCELLED
    assert store.create(new).status is WORKING
    with pytest.raises(StoreError, match="live tasks"):
        store.create(new)
