"""Claims: one run at a time owns a task, until its claim ends (docs/storage.md, Claims)."""

from typing import Any

import pytest

from mcp_baton.exceptions import ClaimLost, Conflict, TaskFinished, TaskHeld, TaskNotFound
from mcp_baton.tasks.dynamodb.expressions import TOKEN_SETS
from mcp_baton.tasks.ids import new_task_id
from mcp_baton.tasks.record import LEASE_MS, Claim, StepStatus, TaskRecord, steps_of
from mcp_baton.tasks.store import Batch, StepWrite
from tests.sent import Requests
from tests.store.conftest import Clock, LostReplies
from tests.store.fixture_types import Begin, MakeClaim, Store

PENDING, COMPLETED = StepStatus.PENDING, StepStatus.COMPLETED
BATCH = Batch(steps=(StepWrite(0, "s0", PENDING, COMPLETED, "value"),))


@pytest.fixture
def run(clock: Clock) -> MakeClaim:
    return lambda name: Claim(name, clock.ms + LEASE_MS)


def batch(claim: Claim, *, release: bool = False) -> Batch:
    return Batch(variables={"by": claim.id}, claim=claim, release=release)


def test_a_new_task_has_the_claim_of_its_run(store: Store, begin: Begin, run: MakeClaim) -> None:
    task = begin(claim=run("a"), workflow="flow")
    assert store.get(task.owner, task.task_id).claim == task.claim == Claim("a", run("a").until_ms, 1)
    assert begin().claim is None


def test_a_new_task_does_not_expire_before_its_claim(store: Store, begin: Begin, run: MakeClaim, clock: Clock) -> None:
    task = begin(claim=run("a"), ttl_ms=1_000)
    clock.ms += LEASE_MS - 1_000
    assert store.get(task.owner, task.task_id).ttl_ms == 1_000
    clock.ms += 2_000
    with pytest.raises(TaskNotFound):
        store.get(task.owner, task.task_id)


def test_taking_a_task_is_one_request_that_also_reads_it(
    store: Store, begin: Begin, run: MakeClaim, requests: Requests
) -> None:
    task = begin(workflow="flow")
    requests.take()
    claimed_task = store.take(task.owner, task.task_id, "flow", run("a"))
    assert requests.take() == ["UpdateItem"]
    assert claimed_task == store.get(task.owner, task.task_id)
    assert (claimed_task.claim, steps_of(claimed_task)) == (Claim("a", run("a").until_ms, 1), steps_of(task))
    assert (claimed_task.version, claimed_task.updated_at) == (task.version, task.updated_at)


def test_a_live_claim_cannot_be_taken_but_an_expired_one_can(
    store: Store, begin: Begin, run: MakeClaim, clock: Clock
) -> None:
    task = begin(claim=run("a"), workflow="flow")
    until_ms = run("a").until_ms
    clock.ms = until_ms
    with pytest.raises(TaskHeld) as error_info:
        store.take(task.owner, task.task_id, "flow", run("b"))
    assert (error_info.value.until_ms, error_info.value.current) == (until_ms, store.get(task.owner, task.task_id))
    clock.ms += 1
    claimed_task = store.take(task.owner, task.task_id, "flow", run("b"))
    assert claimed_task.claim == Claim("b", run("b").until_ms, 2, interrupted=True)


def test_later_claims_show_that_an_earlier_one_expired_without_release(
    store: Store, begin: Begin, run: MakeClaim, clock: Clock, requests: Requests
) -> None:
    task = begin(claim=run("a"), workflow="flow")
    released_task = store.write(task, batch(run("a"), release=True))
    claimed_task = store.take(task.owner, task.task_id, "flow", run("b"))
    ended_ms = clock.ms
    assert released_task.claim == Claim("a", 0, 1, ended_ms=ended_ms)
    assert claimed_task.claim == Claim("b", run("b").until_ms, 2, ended_ms=ended_ms)
    for name in ("c", "d", "e"):
        clock.ms += LEASE_MS + 1
        requests.take()
        claimed_task = store.take(task.owner, task.task_id, "flow", run(name))
        assert requests.take() == ["UpdateItem"]
        assert claimed_task.claim is not None
        assert claimed_task.claim.interrupted
    assert claimed_task.claim is not None
    store.write(claimed_task, batch(claimed_task.claim, release=True))
    last_claim = store.take(task.owner, task.task_id, "flow", run("f")).claim
    assert last_claim == Claim("f", run("f").until_ms, 6, interrupted=True, ended_ms=clock.ms)


def test_a_run_can_repeat_its_own_claim(store: Store, begin: Begin, run: MakeClaim) -> None:
    task = begin(claim=run("a"), workflow="flow")
    claim = store.take(task.owner, task.task_id, "flow", run("a")).claim
    assert claim is not None
    assert (claim.id, claim.until_ms, claim.number) == ("a", run("a").until_ms, 2)


@pytest.mark.parametrize("end", ["cancel", "complete"])
def test_a_terminal_task_cannot_be_taken(store: Store, begin: Begin, run: MakeClaim, end: str) -> None:
    task = begin(claim=run("a"), workflow="flow")
    record = store.cancel(task.owner, task.task_id) if end == "cancel" else store.complete(task.owner, task.task_id, {})
    for claim in (run("a"), run("b")):
        with pytest.raises(TaskFinished) as error_info:
            store.take(task.owner, task.task_id, "flow", claim)
        assert error_info.value.current == record
    with pytest.raises(TaskFinished):
        store.renew(task, run("a"))


def test_a_task_of_another_workflow_cannot_be_taken(store: Store, begin: Begin, run: MakeClaim) -> None:
    task = begin(workflow="flow")
    with pytest.raises(Conflict) as conflict:
        store.take(task.owner, task.task_id, "another", run("a"))
    assert conflict.value.current == task
    tool_task = begin()
    with pytest.raises(Conflict):
        store.take(tool_task.owner, tool_task.task_id, "flow", run("a"))


def test_missing_and_foreign_tasks_cannot_be_claimed(store: Store, begin: Begin, run: MakeClaim, clock: Clock) -> None:
    task = begin(claim=run("a"), workflow="flow")
    for owner, task_id in ((task.owner + "x", task.task_id), (task.owner, new_task_id(0)), (task.owner, "no id")):
        with pytest.raises(TaskNotFound):
            store.take(owner, task_id, "flow", run("b"))
    clock.ms += task.ttl_ms + 1_000
    with pytest.raises(TaskNotFound):
        store.take(task.owner, task.task_id, "flow", run("b"))
    with pytest.raises(TaskNotFound):
        store.renew(task, run("a"))


def tokens(task: TaskRecord) -> dict[str, Any]:
    assert isinstance(task.source, dict)
    return {name: task.source[name] for name in TOKEN_SETS if name in task.source}


def test_renewing_a_claim_is_one_request_that_fails_after_a_takeover(
    store: Store, begin: Begin, run: MakeClaim, clock: Clock, requests: Requests
) -> None:
    task = begin(claim=run("a"), workflow="flow")
    requests.take()
    clock.ms += LEASE_MS + 1_000
    renewed_task = store.renew(task, run("a"))
    assert requests.take() == ["UpdateItem"]
    assert renewed_task == store.get(task.owner, task.task_id)
    assert (renewed_task.claim, renewed_task.version) == (Claim("a", run("a").until_ms, 1), task.version)
    assert tokens(store.get(task.owner, task.task_id)) == tokens(task)  # a renewal has no token
    clock.ms += LEASE_MS + 1
    claimed_task = store.take(task.owner, task.task_id, "flow", run("b"))
    with pytest.raises(ClaimLost) as error_info:
        store.renew(renewed_task, run("a"))
    assert error_info.value.current == claimed_task


def test_a_checkpoint_renews_the_claim(store: Store, begin: Begin, run: MakeClaim, clock: Clock) -> None:
    task = begin(claim=run("a"), workflow="flow")
    clock.ms += 10_000
    assert store.write(task, batch(run("a"))).claim == Claim("a", run("a").until_ms, 1)


def test_a_continuation_needs_no_claim(store: Store, begin: Begin, run: MakeClaim) -> None:
    task = begin(claim=run("a"), workflow="flow")
    assert store.write(task, BATCH).claim == task.claim
    with pytest.raises(Conflict):
        store.write(task, Batch(steps=BATCH.steps, claim=run("a"), release=True))


def test_a_run_without_claim_response_has_no_claim_after_a_takeover(
    store: Store, begin: Begin, run: MakeClaim, clock: Clock, losses: LostReplies
) -> None:
    """The function stalls between the two attempts of its request, and another run takes the task."""
    task, first_claim = begin(workflow="flow"), run("a")

    def stall() -> None:
        clock.ms += LEASE_MS + 1
        store.take(task.owner, task.task_id, "flow", run("b"))

    losses.times, losses.meanwhile = 1, stall
    with pytest.raises(TaskHeld) as error_info:
        store.take(task.owner, task.task_id, "flow", first_claim)
    assert error_info.value.current == store.get(task.owner, task.task_id)
