"""Jobs: begin and end, questions and answers, dispatches and lifetimes (ARCHITECTURE.md, Jobs)."""

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from msgspec import structs

from mcp_baton.exceptions import (
    ClaimLost,
    Conflict,
    StoreBusy,
    StoreError,
    TaskFinished,
    TaskHeld,
    TaskNotFound,
    TooLarge,
)
from mcp_baton.protocol.json import JsonObject
from mcp_baton.stores import DynamoDBStore
from mcp_baton.tasks.dynamodb.items import Limits
from mcp_baton.tasks.dynamodb.outside import keys_of
from mcp_baton.tasks.dynamodb.task_items import stored_item
from mcp_baton.tasks.dynamodb.values import item_size, pointer_in
from mcp_baton.tasks.jobs import event_of
from mcp_baton.tasks.record import (
    FIRST_DISPATCH_MS,
    LEASE_MS,
    MAX_DISPATCH_MS,
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
from tests.store.fixture_types import ON_MEMORY, Begin, HeldJob, MakeClaim, Store, Stores
from tests.store.steps import hook

WORKING, INPUT_REQUIRED, FAILED = TaskStatus.WORKING, TaskStatus.INPUT_REQUIRED, TaskStatus.FAILED
ERROR: JsonObject = {"code": -32603, "message": "the worker was lost"}
NAME: JsonObject = {"method": "elicitation/create", "params": {"message": "Whose?"}}
KIM: JsonObject = {"action": "accept", "content": {"name": "Kim"}}


def job_of(task: TaskRecord) -> Job:
    assert task.job
    return task.job


def answer_job(store: Store, task: TaskRecord, answers: JsonObject) -> TaskRecord:
    changed_task = store.jobs.answer(task.owner, task.task_id, answers)
    assert changed_task
    return changed_task


def keys(number: int) -> list[str]:
    return [f"q{index}" for index in range(number)]


def questions(number: int) -> dict[str, JsonObject]:
    return {key: {**NAME, "params": {"message": key}} for key in keys(number)}


def test_a_job_is_read_as_it_was_created(store: Store, create_job: Begin, clock: Clock, requests: Requests) -> None:
    task = create_job()
    assert requests.take() == ["PutItem"]
    record = store.get(task.owner, task.task_id)
    assert record == task
    assert record.job == Job(WORK, due_ms=clock.ms + FIRST_DISPATCH_MS, dispatches=1, allowed=2)
    assert (record.status, record.arguments, record.claim, record.error) == (WORKING, {"month": 3}, None, None)
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


def test_a_listed_job_has_its_tool_its_time_and_status_message(store: Store, held_job: HeldJob) -> None:
    task, claim = held_job()
    store.jobs.report(task, claim, "half of it")
    (entry,) = store.list(task.owner).tasks
    assert task.job is not None
    assert entry.job == Job(JobSpec("report", request_id=""), task.job.due_ms, dispatches=1, allowed=0)
    assert (entry.status_message, entry.claim, entry.arguments) == ("half of it", claim, {})


# Begin


def test_beginning_a_job_is_one_request_that_also_reads_it(
    store: Store, create_job: Begin, worker: MakeClaim, requests: Requests
) -> None:
    task = create_job()
    requests.take()
    record = store.jobs.claim(task.owner, task.task_id, worker("a"), 7)
    assert requests.take() == ["UpdateItem"]
    assert record == store.get(task.owner, task.task_id)
    assert record.claim == structs.replace(worker("a"), number=1, dispatch=7)
    assert store.read_status(task.owner, task.task_id) == TaskStanding(WORKING, record.claim, record.version)
    assert (record.job, record.version) == (task.job, task.version)


def test_a_claimed_job_cannot_start_until_its_claim_ends(
    store: Store, create_job: Begin, worker: MakeClaim, clock: Clock
) -> None:
    task, first_claim = create_job(), worker("a")
    claimed_task = store.jobs.claim(task.owner, task.task_id, first_claim, 1)
    clock.ms = first_claim.until_ms
    with pytest.raises(TaskHeld) as error_info:
        store.jobs.claim(task.owner, task.task_id, worker("b"), 2)
    assert (error_info.value.until_ms, error_info.value.current) == (first_claim.until_ms, claimed_task)
    clock.ms += 1
    second_task = store.jobs.claim(task.owner, task.task_id, worker("b"), 2)
    assert second_task.claim == structs.replace(worker("b"), number=2, dispatch=2)


def test_a_job_that_waits_for_the_client_does_not_start(store: Store, held_job: HeldJob, worker: MakeClaim) -> None:
    task, claim = held_job()
    waiting_task = store.jobs.ask(task, claim, {"name": NAME})
    with pytest.raises(Conflict) as error_info:
        store.jobs.claim(task.owner, task.task_id, worker("b"), 2)
    assert error_info.value.current == waiting_task


# A worker's writes, and the claim that they need

type Write = Callable[[DynamoDBStore, TaskRecord, Claim], TaskRecord]

WRITES: dict[str, Write] = {
    "result": lambda store, task, claim: store.write(task, Batch(result={"a": 1}, claim=claim, release=True)),
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
    claimed_task = store.jobs.claim(task.owner, task.task_id, worker("b"), 2)
    with pytest.raises(ClaimLost) as error_info:
        write(store, task, claim)
    assert error_info.value.current == claimed_task == store.get(task.owner, task.task_id)


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
    expected = store.jobs.ask(task, claim, {"name": NAME})
    if is_answered:
        expected = answer_job(store, task, {"name": KIM})
    with pytest.raises(ClaimLost):
        write(store, task, claim)
    assert store.get(task.owner, task.task_id) == expected


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("is_asking", [False, True], ids=["working", "input_required"])
def test_nothing_is_written_after_a_cancellation(
    store: Store,
    held_job: HeldJob,
    worker: MakeClaim,
    write: Write,
    is_asking: bool,
) -> None:
    task, claim = held_job()
    if is_asking:
        store.jobs.ask(task, claim, {"name": NAME})
    cancelled_task = store.cancel(task.owner, task.task_id)
    assert cancelled_task.status is TaskStatus.CANCELLED
    with pytest.raises(TaskFinished):
        write(store, task, claim)
    with pytest.raises(TaskFinished):
        store.jobs.claim(task.owner, task.task_id, worker("b"), 2)
    with pytest.raises(TaskFinished):
        store.jobs.answer(task.owner, task.task_id, {"name": KIM})
    assert store.get(task.owner, task.task_id) == cancelled_task


def test_a_failure_ends_the_job_with_its_error(store: Store, held_job: HeldJob, requests: Requests) -> None:
    task, claim = held_job()
    requests.take()
    failed_task = store.jobs.fail(task, claim, ERROR)
    assert requests.take() == ["UpdateItem"]
    assert failed_task == store.get(task.owner, task.task_id)
    assert (failed_task.status, failed_task.error, failed_task.status_message) == (FAILED, ERROR, ERROR["message"])


@ON_MEMORY
def test_long_messages_are_cut(store: Store, held_job: HeldJob) -> None:
    task, claim = held_job()
    assert store.jobs.report(task, claim, "x" * 1_000).status_message == "x" * 1_000
    assert store.jobs.report(task, claim, "x" * 500_000).status_message == "x" * 999 + "…"
    failed_task = store.jobs.fail(task, claim, {"code": 1, "message": "y" * 500_000})
    assert failed_task.error == {"code": 1, "message": "y" * 999 + "…"}


# Redispatch and give-up


def test_a_due_job_is_dispatched_again(store: Store, create_job: Begin, clock: Clock, requests: Requests) -> None:
    task = create_job()
    requests.take()
    clock.ms += FIRST_DISPATCH_MS
    assert store.jobs.dispatch_again(task) is None
    assert requests.take() == []
    clock.ms += 1
    dispatched_task = store.jobs.dispatch_again(task)
    assert requests.take() == ["UpdateItem"]
    assert dispatched_task
    assert dispatched_task == store.get(task.owner, task.task_id)
    assert (job_of(dispatched_task).dispatches, job_of(dispatched_task).due_ms) == (2, clock.ms + 2 * FIRST_DISPATCH_MS)
    # A poll that read the task before the dispatch does not dispatch it again.
    assert store.jobs.dispatch_again(task) is None
    assert store.get(task.owner, task.task_id) == dispatched_task


@ON_MEMORY
def test_each_dispatch_doubles_the_wait_up_to_ten_minutes(store: Store, create_job: Begin, clock: Clock) -> None:
    task, intervals = create_job(), list[int]()
    for _ in range(8):
        clock.ms = job_of(task).due_ms + 1
        dispatched_task = store.jobs.dispatch_again(task)
        assert dispatched_task
        task = dispatched_task
        intervals.append(job_of(task).due_ms - clock.ms)
    assert intervals[:4] == [60_000, 120_000, 240_000, 480_000]
    assert set(intervals[4:]) == {MAX_DISPATCH_MS}


def test_a_claimed_job_is_not_dispatched_again(
    store: Store, create_job: Begin, worker: MakeClaim, clock: Clock
) -> None:
    task = create_job()
    clock.ms += FIRST_DISPATCH_MS + 1
    claimed_task = store.jobs.claim(task.owner, task.task_id, worker("a"), 1)
    assert store.jobs.dispatch_again(claimed_task) is None
    # A poll that read the job before the claim does not dispatch it either.
    assert store.jobs.dispatch_again(task) is None
    clock.ms = worker("a").until_ms - LEASE_MS
    assert store.jobs.dispatch_again(claimed_task) is None
    clock.ms += LEASE_MS + 1
    dispatched_task = store.jobs.dispatch_again(claimed_task)
    assert dispatched_task
    assert (job_of(dispatched_task).dispatches, dispatched_task.claim) == (2, claimed_task.claim)


def test_only_a_job_without_attempts_is_given_up(
    store: Store, create_job: Begin, worker: MakeClaim, clock: Clock
) -> None:
    task = create_job()
    assert store.jobs.give_up(task, ERROR) is None
    first_task = store.jobs.claim(task.owner, task.task_id, worker("a"), 1)
    clock.ms += LEASE_MS + 1
    assert store.jobs.give_up(first_task, ERROR) is None
    second_task = store.jobs.claim(task.owner, task.task_id, worker("b"), 1)
    assert store.jobs.give_up(second_task, ERROR) is None
    clock.ms += LEASE_MS + 1
    assert store.jobs.dispatch_again(second_task) is None
    failed_task = store.jobs.give_up(second_task, ERROR)
    assert failed_task
    assert failed_task == store.get(task.owner, task.task_id)
    assert (failed_task.status, failed_task.error, failed_task.status_message) == (FAILED, ERROR, ERROR["message"])
    with pytest.raises(TaskFinished):
        store.jobs.give_up(second_task, ERROR)


# Questions and answers


def test_a_job_is_dispatched_again_after_the_last_answer(
    store: Store, held_job: HeldJob, worker: MakeClaim, clock: Clock, requests: Requests
) -> None:
    task, claim = held_job(attempts=1)
    requests.take()
    waiting_task = store.jobs.ask(task, claim, questions(2))
    assert requests.take() == ["UpdateItem"]
    assert waiting_task == store.get(task.owner, task.task_id)
    assert (waiting_task.status, waiting_task.claim) == (
        INPUT_REQUIRED,
        structs.replace(claim, until_ms=0, ended_ms=clock.ms),
    )
    assert (job_of(waiting_task).open, job_of(waiting_task).allowed) == (questions(2), 2)
    clock.ms += 100_000
    assert store.jobs.dispatch_again(waiting_task) is None
    requests.take()

    first_task = answer_job(store, task, {"q1": KIM})
    assert requests.take() == ["GetItem", "UpdateItem"]
    assert (first_task.status, job_of(first_task).open, job_of(first_task).dispatches) == (
        INPUT_REQUIRED,
        {"q0": questions(1)["q0"]},
        1,
    )

    last_task = answer_job(store, task, {"q0": {"action": "decline"}})
    assert last_task == store.get(task.owner, task.task_id)
    assert (last_task.status, job_of(last_task).open) == (WORKING, {})
    assert (job_of(last_task).dispatches, job_of(last_task).due_ms) == (2, clock.ms + FIRST_DISPATCH_MS)
    assert job_of(last_task).answers == {"q1": KIM, "q0": {"action": "decline"}}

    claimed_task = store.jobs.claim(task.owner, task.task_id, worker("b"), 2)
    assert waiting_task.claim
    assert claimed_task.claim == structs.replace(
        worker("b"), number=2, dispatch=2, ended_ms=waiting_task.claim.ended_ms
    )
    with pytest.raises(ClaimLost):
        store.jobs.fail(task, claim, ERROR)


def test_answers_to_questions_not_open_change_nothing(store: Store, held_job: HeldJob, requests: Requests) -> None:
    task, claim = held_job()
    assert store.jobs.answer(task.owner, task.task_id, {"q0": KIM}) is None
    waiting_task = store.jobs.ask(task, claim, questions(2))
    requests.take()
    assert store.jobs.answer(task.owner, task.task_id, {"unknown": KIM}) is None
    assert store.get(task.owner, task.task_id) == waiting_task
    requests.take()
    assert store.jobs.answer(task.owner, task.task_id, {}) is None
    assert requests.take() == ["GetItem"]
    first_task = answer_job(store, task, {"q0": KIM, "unknown": KIM})
    assert store.jobs.answer(task.owner, task.task_id, {"q0": {"action": "cancel"}}) is None
    assert job_of(first_task).answers == {"q0": KIM}
    last_task = answer_job(store, task, {"q0": {"action": "cancel"}, "q1": KIM})
    assert job_of(last_task).answers == {"q0": KIM, "q1": KIM}
    assert store.jobs.answer(task.owner, task.task_id, {"q1": {"action": "cancel"}}) is None
    assert store.get(task.owner, task.task_id) == last_task


@pytest.mark.parametrize("key", ["", "a.b#c", "\ud800", '"', "é🎉", "k" * 1_000])
def test_any_text_can_be_the_key_of_a_question(store: Store, held_job: HeldJob, key: str) -> None:
    task, claim = held_job()
    assert job_of(store.jobs.ask(task, claim, {key: NAME})).open == {key: NAME}
    assert job_of(answer_job(store, task, {key: KIM})).answers == {key: KIM}


@ON_MEMORY
def test_a_key_cannot_be_used_for_two_questions(store: Store, held_job: HeldJob, worker: MakeClaim) -> None:
    task, claim = held_job()
    store.jobs.ask(task, claim, {"name": NAME})
    answered_task = answer_job(store, task, {"name": KIM})
    record = store.jobs.claim(task.owner, task.task_id, worker("b"), 2)
    assert record.claim
    with pytest.raises(ValueError, match="'name' was used for another question"):
        store.jobs.ask(record, record.claim, {"name": {**NAME, "params": {"message": "Who?"}}, "more": NAME})
    assert store.get(task.owner, task.task_id) == structs.replace(answered_task, claim=record.claim)
    waiting_task = store.jobs.ask(record, record.claim, {"name": NAME, "more": NAME})
    assert (waiting_task.status, job_of(waiting_task).open) == (INPUT_REQUIRED, {"more": NAME})


def test_a_hundred_questions_are_asked_and_answered_in_one_write_each(store: Store, held_job: HeldJob) -> None:
    task, claim = held_job()
    with pytest.raises(TooLarge, match="101 questions"):
        store.jobs.ask(task, claim, questions(101))
    assert store.get(task.owner, task.task_id) == task
    store.jobs.ask(task, claim, questions(100))
    changed_task = answer_job(store, task, dict.fromkeys(keys(100), KIM))
    assert (changed_task.status, job_of(changed_task).answers) == (WORKING, dict.fromkeys(keys(100), KIM))


@ON_MEMORY
def test_too_large_questions_are_refused_without_a_change(stores: Stores, owner: str, worker: MakeClaim) -> None:
    store = stores(limits=Limits(compress_over_bytes=10**9))
    new_job = store.create(NewTask(owner, {}, work=WORK))
    task = store.jobs.claim(owner, new_job.task_id, worker("a"), 1)
    assert task.claim
    with pytest.raises(TooLarge, match="of 300000"):
        store.jobs.ask(task, task.claim, {"long": {"method": "m", "params": {"message": "x" * 1_950_000}}})
    assert store.get(owner, task.task_id) == task
    waiting_task = store.jobs.ask(task, task.claim, questions(2))
    with pytest.raises(TooLarge, match="of 400000"):
        store.jobs.answer(owner, task.task_id, {"q0": KIM, "q1": {"text": "x" * 1_950_000}})
    assert store.get(owner, task.task_id) == waiting_task
    assert answer_job(store, task, dict.fromkeys(keys(2), KIM)).status is WORKING


@pytest.mark.parametrize("bytes_each", [200, 5_000])
def test_questions_and_answers_leave_the_head_and_are_kept_as_long_as_the_task(
    stores: Stores, owner: str, worker: MakeClaim, bytes_each: int
) -> None:
    store = stores(limits=Limits(compress_over_bytes=10**9))
    job = store.create(NewTask(owner, {}, work=WORK))
    task = store.jobs.claim(owner, job.task_id, worker("a"), 1)
    assert task.claim
    asked: dict[str, JsonObject] = {key: {"method": key, "params": {"m": "q" * bytes_each}} for key in keys(30)}
    answers: dict[str, JsonObject] = {key: {"text": key + "a" * bytes_each} for key in keys(30)}
    assert job_of(store.jobs.ask(task, task.claim, asked)).open == asked
    answer_job(store, task, answers)
    longer_task = store.jobs.extend(store.jobs.claim(owner, task.task_id, worker("b"), 2), 100_000_000)
    assert longer_task.ttl_ms > 90_000_000
    assert (dict(job_of(longer_task).asked), dict(job_of(longer_task).answers)) == (asked, answers)
    head = stored_item(longer_task)
    assert item_size(head) <= 8_192
    pointers = [pointer for name in ("asked", "answers") for pointer in map(pointer_in, head[name]["M"].values())]
    items = [store.table.get(key) or {} for key in keys_of(owner, task.task_id, filter(None, pointers))]
    assert len(items) == 2
    assert all(int(item["expires_at"]["N"]) > int(head["expires_at"]["N"]) for item in items)


@ON_MEMORY
def test_questions_are_written_again_if_their_task_was_prolonged_meanwhile(
    store: Store, held_job: HeldJob, engine: Engine
) -> None:
    task, claim = held_job()
    prolonged = False

    def prolong(**_: object) -> None:
        nonlocal prolonged
        if not prolonged:
            prolonged = True
            store.jobs.extend(store.get(task.owner, task.task_id), 150_000_000)

    asked: dict[str, JsonObject] = {"q": {"method": "m", "params": {"m": random.Random(1).randbytes(20_000).hex()}}}
    with hook(engine.client, "before-call.dynamodb.PutItem", prolong):
        waiting_task = store.jobs.ask(task, claim, asked)
    assert job_of(waiting_task).open == asked
    head = stored_item(waiting_task)
    assert int(head["kept_until"]["N"]) >= int(head["expires_at"]["N"]) + 43_200


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
    changed_task = answer_job(store, task, {"q0": decline, "q1": decline})
    assert requests.take() == ["GetItem", "GetItem", "UpdateItem", "UpdateItem", "UpdateItem"]
    assert len(pauses.taken) == 1
    assert pauses.taken[0] <= 0.005
    assert (changed_task.status, job_of(changed_task).answers) == (WORKING, {"q0": KIM, "q1": decline})


# Handover


def test_a_handover_dispatches_a_new_worker_and_extends_the_job(
    store: Store, owner: str, worker: MakeClaim, clock: Clock
) -> None:
    new_job = store.create(NewTask(owner, {}, work=WORK, ttl_ms=100_000))
    clock.ms += 60_000
    task = store.jobs.claim(owner, new_job.task_id, worker("a"), 1)
    assert task.claim
    record = store.jobs.hand_over(task, task.claim, 100_000)
    assert record == store.get(owner, task.task_id)
    released_claim = structs.replace(task.claim, until_ms=0, ended_ms=clock.ms)
    assert (record.status, record.claim, record.ttl_ms) == (WORKING, released_claim, 160_000)
    assert (job_of(record).dispatches, job_of(record).due_ms) == (2, clock.ms + FIRST_DISPATCH_MS)
    assert job_of(record).allowed == 1 + WORK.attempts
    clock.ms += 99_000
    second_task = store.jobs.claim(owner, task.task_id, worker("b"), 2)
    assert second_task.claim == structs.replace(worker("b"), number=2, dispatch=2, ended_ms=released_claim.ended_ms)
    # A shorter lifetime than the current one is ignored.
    assert store.jobs.hand_over(second_task, second_task.claim, 10).ttl_ms == 160_000
    clock.ms += 2_000
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
    extended_task = store.jobs.extend(task, 100_000)
    assert requests.take() == ["UpdateItem"]
    assert extended_task == store.get(owner, task.task_id)
    assert (extended_task.ttl_ms, extended_task.version, extended_task.status) == (151_000, task.version, WORKING)
    # Another worker that read the task before the extension gets the current task.
    assert store.jobs.extend(task, 100_000) == extended_task
    clock.ms += 99_000
    assert store.jobs.extend(extended_task, 900_000).ttl_ms == 250_000
    clock.ms += 99_000
    requests.take()
    last_task = store.get(owner, task.task_id)
    assert store.jobs.extend(last_task, 900_000) is last_task  # the maximum lifetime is reached
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


@pytest.mark.parametrize("moment", ["before", "between the request and its repetition"])
def test_extending_a_task_after_a_takeover_raises_claim_lost(
    stores: Stores, owner: str, worker: MakeClaim, clock: Clock, losses: LostReplies, moment: str
) -> None:
    store = stores(limits=Limits(max_ttl_ms=250_000))
    new_job = store.create(NewTask(owner, {}, work=WORK, ttl_ms=100_000))
    own_task = store.jobs.claim(owner, new_job.task_id, worker("a"), 1)
    clock.ms += 51_000

    def claim() -> None:
        store.jobs.claim(owner, new_job.task_id, structs.replace(worker("b"), until_ms=clock.ms + 1_000), 2)

    if moment == "before":
        claim()
    else:
        losses.times, losses.meanwhile = 1, claim
    with pytest.raises(ClaimLost) as conflict:
        store.jobs.extend(own_task, 100_000)
    assert conflict.value.current == store.get(owner, new_job.task_id)
    assert conflict.value.current.ttl_ms == (100_000 if moment == "before" else 151_000)


def test_a_worker_that_has_seen_a_takeover_cannot_ask(
    store: Store, held_job: HeldJob, worker: MakeClaim, clock: Clock
) -> None:
    """The stored task has the questions of the other worker, and their answers."""
    task, claim = held_job()
    clock.ms = claim.until_ms + 1
    other_claim = structs.replace(worker("b"), until_ms=clock.ms + 1_000)
    claimed_task = store.jobs.claim(task.owner, task.task_id, other_claim, 2)
    store.jobs.ask(claimed_task, other_claim, questions(1))
    answer_job(store, task, {"q0": KIM})
    with pytest.raises(ClaimLost):
        store.jobs.ask(store.get(task.owner, task.task_id), claim, questions(1))


def test_an_extended_job_is_counted_until_its_new_end(
    stores: Stores, owner: str, worker: MakeClaim, clock: Clock
) -> None:
    store = stores(limits=Limits(max_tasks_per_owner=1, max_ttl_ms=86_400_000))
    new_job = NewTask(owner, {}, work=WORK, ttl_ms=3_600_000)
    task = store.jobs.claim(owner, store.create(new_job).task_id, worker("a"), 1)
    assert task.claim
    record = store.jobs.hand_over(task, task.claim, 10 * 3_600_000)
    clock.ms += 5 * 3_600_000
    with pytest.raises(StoreError, match="live tasks"):
        store.create(new_job)
    claimed_task = store.jobs.claim(owner, task.task_id, worker("b"), record.job.dispatches if record.job else 0)
    assert claimed_task.claim
    store.jobs.fail(claimed_task, claimed_task.claim, ERROR)
    assert store.create(new_job).status is WORKING
    with pytest.raises(StoreError, match="live tasks"):
        store.create(new_job)


@ON_MEMORY
def test_extending_a_job_from_before_the_limit_creates_no_count_item(
    stores: Stores, engine: Engine, owner: str, worker: MakeClaim
) -> None:
    old_store = stores()
    task = old_store.jobs.claim(owner, old_store.create(NewTask(owner, {}, work=WORK)).task_id, worker("a"), 1)
    stores(limits=Limits(max_tasks_per_owner=1)).jobs.extend(task, 10 * 3_600_000)
    items = engine.client.scan(TableName="tasks", ConsistentRead=True)["Items"]
    assert [item for item in items if owner in item["pk"]["S"] and "expires_at" not in item] == []


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_job_that_ends_while_it_is_extended_is_not_counted(
    stores: Stores, engine: Engine, owner: str, worker: MakeClaim, moment: str
) -> None:
    """The job is cancelled just before or just after the write that extends it, while its count is moved."""
    store = stores(limits=Limits(max_tasks_per_owner=1))
    new_job = NewTask(owner, {}, work=WORK, ttl_ms=3_600_000)
    task = store.jobs.claim(owner, store.create(new_job).task_id, worker("a"), 1)
    assert task.claim
    writes_head = False

    def check_target(params: dict[str, Any], **_: object) -> None:
        nonlocal writes_head
        writes_head = params["Key"]["sk"]["S"].startswith("TASK#")

    cancellations = iter([lambda: store.cancel(owner, task.task_id)])

    def cancel(**_: object) -> None:
        if writes_head:
            next(cancellations, lambda: None)()

    event_name = "before-send" if moment == "before" else "after-call"
    with (
        suppress(TaskFinished),
        hook(engine.client, "provide-client-params.dynamodb.UpdateItem", check_target),
        hook(engine.client, f"{event_name}.dynamodb.UpdateItem", cancel),
    ):
        store.jobs.extend(task, 36_000_000)
    assert store.get(owner, task.task_id).status is TaskStatus.CANCELLED
    assert store.create(new_job).status is WORKING
    with pytest.raises(StoreError, match="live tasks"):
        store.create(new_job)


def test_a_job_that_only_asks_is_not_woken(store: Store, held_job: HeldJob, clock: Clock) -> None:
    task, claim = held_job()
    asking = store.jobs.ask(task, claim, {"name": NAME})
    clock.ms += MAX_DISPATCH_MS + 1

    assert store.jobs.dispatch_again(asking) is None
    assert store.jobs.wake(task.owner, task.task_id) is None
    assert store.get(task.owner, task.task_id) == asking


@pytest.mark.parametrize("by", ["a wake-up", "the end of a wait"])
def test_a_job_that_asks_and_waits_is_woken_and_can_be_answered_then(
    store: Store, held_job: HeldJob, worker: MakeClaim, clock: Clock, by: str
) -> None:
    task, claim = held_job()
    due_ms = clock.ms + 60_000
    asking = store.jobs.ask(task, claim, {"name": NAME, "old": NAME}, due_ms)
    assert (asking.status, job_of(asking).due_ms) == (TaskStatus.INPUT_REQUIRED, due_ms)
    assert store.jobs.dispatch_again(asking) is None

    if by == "a wake-up":
        woken = store.jobs.wake(task.owner, task.task_id)
    else:
        clock.ms = due_ms + 1
        assert store.jobs.read_listed(task.owner, task.task_id) == asking
        woken = store.jobs.dispatch_again(asking)
    assert woken
    assert (woken.status, job_of(woken).dispatches, set(job_of(woken).open)) == (WORKING, 2, {"name", "old"})

    second_task = store.jobs.claim(task.owner, task.task_id, worker("b"), 2)
    assert second_task.claim
    answered = answer_job(store, second_task, {"name": KIM})
    assert set(job_of(answered).open) == {"old"}
    asking_again = store.jobs.ask(answered, second_task.claim, {"name": NAME, "new": NAME}, due_ms + 60_000)
    assert (asking_again.status, set(job_of(asking_again).open)) == (TaskStatus.INPUT_REQUIRED, {"new"})
