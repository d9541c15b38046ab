"""Jobs whose responses are lost (ARCHITECTURE.md, Jobs)."""

import pytest
from msgspec.structs import replace

from mcp_baton.exceptions import OutcomeUnknown, TaskFinished, TaskHeld
from mcp_baton.protocol.json import JsonObject
from mcp_baton.tasks.record import LEASE_MS, TaskRecord, TaskStatus
from mcp_baton.tasks.store import Batch
from tests.store.conftest import AfterRead, Clock, LostReplies
from tests.store.fixture_types import ON_MEMORY, Begin, HeldJob, MakeClaim, Store

WORKING, INPUT_REQUIRED, FAILED = TaskStatus.WORKING, TaskStatus.INPUT_REQUIRED, TaskStatus.FAILED
COMPLETED, CANCELLED = TaskStatus.COMPLETED, TaskStatus.CANCELLED
ERROR: JsonObject = {"code": -32603, "message": "the worker was lost"}
QUESTIONS: dict[str, JsonObject] = {
    f"q{number}": {"method": "elicitation/create", "params": {"message": f"{number}?"}} for number in range(2)
}


def answer(key: str) -> JsonObject:
    return {"action": "accept", "content": {"is": key}}


def test_an_attempt_is_counted_once_if_the_response_is_lost(
    store: Store, create_job: Begin, worker: MakeClaim, losses: LostReplies
) -> None:
    task = create_job(attempts=1)
    losses.times = 2
    claimed_task = store.jobs.claim(task.owner, task.task_id, worker("a"), 1)
    assert claimed_task.claim == replace(worker("a"), number=1, dispatch=1)


def test_a_worker_without_claim_response_does_not_begin_after_a_takeover(
    store: Store, create_job: Begin, worker: MakeClaim, clock: Clock, losses: LostReplies
) -> None:
    """The function stalls between the two attempts of its request, and another worker takes the job."""
    task, first_claim = create_job(), worker("a")

    def stall() -> None:
        clock.ms += LEASE_MS + 1
        store.jobs.claim(task.owner, task.task_id, worker("b"), 2)

    losses.times, losses.meanwhile = 1, stall
    with pytest.raises(TaskHeld) as error_info:
        store.jobs.claim(task.owner, task.task_id, first_claim, 1)
    assert error_info.value.current == store.get(task.owner, task.task_id)
    assert error_info.value.until_ms == worker("b").until_ms


def test_a_worker_without_claim_response_does_not_begin_a_cancelled_job(
    store: Store, create_job: Begin, worker: MakeClaim, losses: LostReplies
) -> None:
    task = create_job()
    losses.times, losses.meanwhile = 1, lambda: store.cancel(task.owner, task.task_id)
    with pytest.raises(TaskFinished):
        store.jobs.claim(task.owner, task.task_id, worker("a"), 1)


@pytest.mark.parametrize("write", ["fail", "give up", "ask", "hand over", "result"])
def test_a_job_write_whose_response_is_lost_is_recognised_on_retry(
    store: Store, held_job: HeldJob, clock: Clock, losses: LostReplies, write: str
) -> None:
    task, claim = held_job(attempts=1)
    losses.times = 1
    match write:
        case "fail":
            changed_task: TaskRecord | None = store.jobs.fail(task, claim, ERROR)
        case "give up":
            clock.ms += LEASE_MS + 1
            changed_task = store.jobs.give_up(task, ERROR)
        case "ask":
            changed_task = store.jobs.ask(task, claim, QUESTIONS)
        case "hand over":
            changed_task = store.jobs.hand_over(task, claim, 60_000)
        case _:
            changed_task = store.write(task, Batch(result={}, claim=claim, release=True))
    assert changed_task == store.get(task.owner, task.task_id)
    assert changed_task.version == task.version + 1


def test_an_answer_is_stored_once_if_the_response_is_lost(
    store: Store, held_job: HeldJob, losses: LostReplies, after_read: AfterRead
) -> None:
    task, claim = held_job()
    store.jobs.ask(task, claim, {"q0": QUESTIONS["q0"], "q1": QUESTIONS["q1"]})

    def lose_the_write() -> None:
        losses.times = 1
        losses.meanwhile = lambda: store.jobs.answer(task.owner, task.task_id, {"q1": answer("q1")})

    after_read.run = lose_the_write
    changed_task = store.jobs.answer(task.owner, task.task_id, {"q0": answer("q0")})
    assert changed_task
    assert changed_task.job
    assert changed_task.job.answers == {"q0": answer("q0"), "q1": answer("q1")}
    assert (changed_task.status, changed_task.version) == (WORKING, task.version + 3)


@ON_MEMORY
def test_a_report_is_sent_once_its_outcome_may_be_unknown(store: Store, held_job: HeldJob, losses: LostReplies) -> None:
    task, claim = held_job()
    losses.times = 1
    with pytest.raises(OutcomeUnknown):
        store.jobs.report(task, claim, "half")
    assert losses.times == 0
    assert store.get(task.owner, task.task_id).status_message == "half"
