"""The outbox: which jobs sweeps find, and when (ARCHITECTURE.md, Jobs and the outbox)."""

from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
from typing import Any

import pytest

from mcp_baton.protocol.json import JsonObject
from mcp_baton.tasks.dynamodb.items import OUTBOX_SHARDS, key_of
from mcp_baton.tasks.dynamodb.table import system_ms
from mcp_baton.tasks.ids import TASK_ID_ALPHABET, new_task_id
from mcp_baton.tasks.record import FIRST_DISPATCH_MS, LEASE_MS, Claim, JobWaits, NewTask, TaskRecord
from mcp_baton.tasks.store import Batch
from tests.sent import Requests
from tests.store.conftest import TABLE, WORK, Clock, Engine
from tests.store.fixture_types import ON_MEMORY, Begin, HeldJob, MakeClaim, Store, run_on
from tests.store.steps import hook

ERROR: JsonObject = {"code": -32603, "message": "the worker was lost"}
QUESTIONS: dict[str, JsonObject] = {"name": {"method": "elicitation/create", "params": {"message": "Whose?"}}}
KIM: JsonObject = {"action": "accept", "content": {"name": "Kim"}}
RESULT: JsonObject = {"content": []}
DAYS = count(1)


@pytest.fixture(autouse=True)
def _own_day(clock: Clock) -> None:
    """Give each test an earlier day than the tests before it, because all tests share the outbox of their engine."""
    clock.ms -= next(DAYS) * 86_400_000


def is_due(store: Store, task: TaskRecord) -> bool:
    return (task.owner, task.task_id) in set(store.jobs.due())


def listed_at(engine: Engine, task: TaskRecord) -> int | None:
    """Return the time of a task's entry, epoch milliseconds; `None` if it has none."""
    item: Any = engine.client.get_item(TableName=TABLE, Key=key_of(task.owner, task.task_id))["Item"]
    return int(item["listed_at"]["S"].partition("#")[0]) if "listed_in" in item else None


def test_only_a_new_job_is_due_after_half_a_minute(store: Store, begin: Begin, create_job: Begin, clock: Clock) -> None:
    job, workflow_task = create_job(), begin()
    clock.ms += FIRST_DISPATCH_MS
    assert not is_due(store, job)
    clock.ms += 1
    assert (is_due(store, job), is_due(store, workflow_task)) == (True, False)
    assert store.jobs.read_listed(job.owner, job.task_id) == store.get(job.owner, job.task_id)


def shard_of(task_id: str) -> int:
    return TASK_ID_ALPHABET.index(task_id[-1]) % OUTBOX_SHARDS


def in_shard(task_ids: list[str], shard: int) -> list[str]:
    return [task_id for task_id in task_ids if shard_of(task_id) == shard]


@ON_MEMORY
def test_jobs_of_all_shards_are_found_in_random_order(
    store: Store, create_job: Begin, clock: Clock, requests: Requests
) -> None:
    task_ids = [create_job().task_id for _ in range(400)]
    clock.ms += FIRST_DISPATCH_MS + 1
    requests.take()
    first_ids = [task_id for _, task_id in store.jobs.due() if task_id in set(task_ids)]
    assert requests.take() == ["Query"] * OUTBOX_SHARDS
    second_ids = [task_id for _, task_id in store.jobs.due() if task_id in set(task_ids)]
    assert sorted(first_ids) == sorted(second_ids) == sorted(task_ids)
    assert {shard_of(task_id) for task_id in task_ids} == set(range(OUTBOX_SHARDS))
    assert in_shard(first_ids, 3) != in_shard(second_ids, 3)
    assert [shard_of(task_id) for task_id in first_ids] != [shard_of(task_id) for task_id in second_ids]


@ON_MEMORY
def test_jobs_of_owners_with_special_characters_are_found(store: Store, clock: Clock) -> None:
    owners = {f"{name}-{clock.ms}" for name in ("a#b", "k\ud800m", "OWNER#x")}
    for owner in owners:
        store.create(NewTask(owner, {}, work=WORK))
    clock.ms += FIRST_DISPATCH_MS + 1
    assert {owner for owner, _ in store.jobs.due() if owner.endswith(str(clock.ms - FIRST_DISPATCH_MS - 1))} == owners


# Writes to a job that a worker holds.
ENDS: dict[str, Callable[[Store, TaskRecord, Claim], object]] = {
    "completed by the worker": lambda store, task, claim: store.write(
        task, Batch(result=RESULT, claim=claim, release=True)
    ),
    "failed": lambda store, task, claim: store.jobs.fail(task, claim, ERROR),
    "cancelled": lambda store, task, _: store.cancel(task.owner, task.task_id),
    "completed by the client": lambda store, task, _: store.complete(task.owner, task.task_id, RESULT),
    "asks the client": lambda store, task, claim: store.jobs.ask(task, claim, QUESTIONS),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_job_that_ends_or_asks_its_client_leaves_the_outbox(
    store: Store, held_job: HeldJob, clock: Clock, engine: Engine, end: str
) -> None:
    task, claim = held_job()
    clock.ms += FIRST_DISPATCH_MS + 1
    assert is_due(store, task)
    ENDS[end](store, task, claim)
    assert (listed_at(engine, task), is_due(store, task)) == (None, False)


def test_claims_dispatches_and_handovers_do_not_move_the_entry(
    store: Store, create_job: Begin, clock: Clock, engine: Engine, worker: MakeClaim
) -> None:
    task = create_job()
    listed_ms = listed_at(engine, task)
    claim = worker("a")
    claimed_task = store.jobs.claim(task.owner, task.task_id, claim, 1)
    store.renew(claimed_task, claim)
    store.jobs.report(claimed_task, claim, "half of it")
    clock.ms += LEASE_MS + 1
    dispatched_task = store.jobs.dispatch_again(store.get(task.owner, task.task_id))
    assert dispatched_task
    claim = worker("b")
    claimed_task = store.jobs.claim(task.owner, task.task_id, claim, 2)
    store.jobs.hand_over(claimed_task, claim, 600_000)
    assert (listed_at(engine, task), is_due(store, task)) == (listed_ms, True)


def test_a_suspended_job_is_due_later_and_a_woken_one_soon(
    store: Store, held_job: HeldJob, clock: Clock, engine: Engine
) -> None:
    task, claim = held_job()
    store.jobs.suspend(task, claim, 600_000, JobWaits("waits", ("time",)), clock.ms + 1)
    assert listed_at(engine, task) == clock.ms + 1
    assert store.jobs.wake(task.owner, task.task_id)
    assert listed_at(engine, task) == clock.ms + FIRST_DISPATCH_MS


def without_entry(engine: Engine, task: TaskRecord) -> None:
    """Remove a job's entry, as for a job of an older release without outbox."""
    key = key_of(task.owner, task.task_id)
    engine.client.update_item(TableName=TABLE, Key=key, UpdateExpression="REMOVE listed_in, listed_at")


def test_the_next_dispatch_adds_a_job_of_an_older_release(
    store: Store, create_job: Begin, clock: Clock, engine: Engine, worker: MakeClaim
) -> None:
    dispatched_job, handed_job = create_job(), create_job()
    for task in (dispatched_job, handed_job):
        without_entry(engine, task)
    claim = worker("a")
    store.jobs.hand_over(store.jobs.claim(handed_job.owner, handed_job.task_id, claim, 1), claim, 600_000)
    assert listed_at(engine, handed_job) == clock.ms + FIRST_DISPATCH_MS
    clock.ms += FIRST_DISPATCH_MS + 1
    store.jobs.dispatch_again(store.get(dispatched_job.owner, dispatched_job.task_id))
    assert listed_at(engine, dispatched_job) == clock.ms + 2 * FIRST_DISPATCH_MS


# Checks by sweeps


def test_a_job_that_has_expired_by_every_clock_is_removed(
    store: Store, create_job: Begin, clock: Clock, engine: Engine
) -> None:
    task = create_job()
    clock.ms += 3_600_000
    assert store.jobs.read_listed(task.owner, task.task_id) is None
    assert is_due(store, task)  # by a slow clock it may still be live
    clock.ms += 600_000
    assert store.jobs.read_listed(task.owner, task.task_id) is None
    assert (listed_at(engine, task), is_due(store, task)) == (None, False)


def test_a_job_that_another_release_ended_is_removed(store: Store, create_job: Begin, engine: Engine) -> None:
    task = create_job()
    engine.client.update_item(
        TableName=TABLE,
        Key=key_of(task.owner, task.task_id),
        UpdateExpression="SET #status=:status",
        ExpressionAttributeNames={"#status": "status"},
        ExpressionAttributeValues={":status": {"S": "completed"}},
    )
    assert store.jobs.read_listed(task.owner, task.task_id) is None
    assert listed_at(engine, task) is None


def test_a_stale_index_entry_changes_nothing(
    store: Store, held_job: HeldJob, owner: str, engine: Engine, requests: Requests
) -> None:
    task, claim = held_job()
    store.jobs.ask(task, claim, QUESTIONS)
    requests.take()
    assert store.jobs.read_listed(task.owner, task.task_id) is None
    assert store.jobs.read_listed(owner, new_task_id(system_ms())) is None
    assert requests.take() == ["GetItem"] * 2


def test_a_job_that_is_extended_during_its_removal_stays(
    store: Store, create_job: Begin, clock: Clock, engine: Engine, after_read: Any
) -> None:
    """By the clock of its worker it is live. The worker extends it just after the sweep's read."""
    task = create_job()
    entry_ms = clock.ms + FIRST_DISPATCH_MS
    clock.ms += 3_600_000 + 600_000

    def extend() -> None:
        engine.client.update_item(
            TableName=TABLE,
            Key=key_of(task.owner, task.task_id),
            UpdateExpression="SET expires_at=:end",
            ExpressionAttributeValues={":end": {"N": str(clock.ms // 1000 + 3_600)}},
        )

    after_read.run = extend
    assert store.jobs.read_listed(task.owner, task.task_id) is None
    assert listed_at(engine, task) == entry_ms


# Cost


@run_on("dynamodb_local")
def test_the_outbox_costs_two_write_units_a_job_and_two_for_each_round_of_questions(
    store: Store, create_job: Begin, engine: Engine, worker: MakeClaim, clock: Clock
) -> None:
    units = list[float]()

    def ask(params: dict[str, Any], **_: object) -> None:
        params["ReturnConsumedCapacity"] = "INDEXES"

    def note(parsed: dict[str, Any], **_: object) -> None:
        indexes = parsed["ConsumedCapacity"].get("GlobalSecondaryIndexes", {})
        units.append(sum(index["CapacityUnits"] for index in indexes.values()))

    names = ("PutItem", "UpdateItem")
    with ExitStack() as stack:
        for name in names:
            stack.enter_context(hook(engine.client, f"provide-client-params.dynamodb.{name}", ask))
            stack.enter_context(hook(engine.client, f"after-call.dynamodb.{name}", note))
        task = create_job()
        claim = worker("a")
        claimed_task = store.jobs.claim(task.owner, task.task_id, claim, 1)
        store.renew(claimed_task, claim)
        store.jobs.ask(claimed_task, claim, QUESTIONS)
        store.jobs.answer(task.owner, task.task_id, {"name": KIM})
        claim = worker("b")
        claimed_task = store.jobs.claim(task.owner, task.task_id, claim, 2)
        store.jobs.hand_over(claimed_task, claim, 600_000)
        claim = worker("c")
        claimed_task = store.jobs.claim(task.owner, task.task_id, claim, 3)
        store.write(claimed_task, Batch(result=RESULT, claim=claim, release=True))

    # The creation, a claim, its renewal, the questions, the answer, a claim, the handover, a claim, the result.
    assert units == [1, 0, 0, 1, 1, 0, 0, 0, 1]
