"""Values outside the item outlive their task, even if it is extended (ARCHITECTURE.md, Values outside the head)."""

from typing import Any

import pytest

from mcp_baton.exceptions import Conflict, StoreUnavailable
from mcp_baton.tasks.dynamodb.items import Limits
from mcp_baton.tasks.dynamodb.outside import piece_key
from mcp_baton.tasks.dynamodb.values import ValuePointer, pointer_in
from mcp_baton.tasks.record import Claim, NewTask, TaskRecord
from mcp_baton.tasks.store import Batch
from tests.noise import noise
from tests.sent import Requests
from tests.store.conftest import WORK, Clock, Engine
from tests.store.fixture_types import NOT_ON_MOTO, ON_MEMORY, MakeClaim, Store, Stores
from tests.store.test_pieces import at_each, value_item

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
SMALL, LARGE = noise(6_000, 1), noise(800_000, 2)


def expiry_s(task: TaskRecord) -> int:
    assert isinstance(task.source, dict)
    return int(task.source["expires_at"]["N"])


def kept_until_s(task: TaskRecord) -> int:
    assert isinstance(task.source, dict)
    return int(task.source["kept_until"]["N"])


def pointers(task: TaskRecord) -> dict[str, ValuePointer]:
    assert isinstance(task.source, dict)
    values: dict[str, Any] = {**task.source["variables"]["M"], "arguments": task.source["arguments"]}
    pointer_by_name = {name: pointer_in(value) for name, value in values.items()}
    return {name: pointer for name, pointer in pointer_by_name.items() if pointer}


def value_expiry_s(engine: Engine, task: TaskRecord, pointer: ValuePointer) -> int:
    """Return when the first piece of a bundle expires, epoch seconds."""
    pieces = range(-(-pointer.bundle_bytes // 350_000))
    keys = [piece_key(task.owner, task.task_id, pointer.bundle, piece) for piece in pieces]
    return min(int(value_item(engine, key)["expires_at"]["N"]) for key in keys)


def start_job(store: Store, owner: str, claim: Claim, ttl_ms: int = HOUR_MS) -> TaskRecord:
    values = {"small": SMALL, "large": LARGE}
    new_job = store.create(NewTask(owner, values, arguments={"text": SMALL}, ttl_ms=ttl_ms, work=WORK))
    return store.jobs.claim(owner, new_job.task_id, claim, 1)


def renew_claim(store: Store, task: TaskRecord, clock: Clock) -> TaskRecord:
    assert task.claim
    claim = Claim(task.claim.id, clock.ms + 45_000, task.claim.number, task.claim.dispatch)
    return store.renew(task, claim)


@NOT_ON_MOTO
@pytest.mark.parametrize("interval_ms", [HOUR_MS, 12 * HOUR_MS, 400 * DAY_MS], ids=["hour", "half a day", "400 days"])
def test_no_value_expires_before_its_extended_task(
    stores: Stores, engine: Engine, owner: str, worker: MakeClaim, clock: Clock, interval_ms: int
) -> None:
    task = start_job(stores(limits=Limits(max_ttl_ms=DAY_MS, values_ms=60_000)), owner, worker("a"))
    store = stores(limits=Limits(max_ttl_ms=400 * DAY_MS, values_ms=60_000))
    end_ms = clock.ms + min(80 * interval_ms, 399 * DAY_MS)
    while clock.ms < end_ms:
        task = renew_claim(store, task, clock)
        task = store.jobs.extend(task, 2 * interval_ms)
        task = store.write(task, Batch(variables={"later": noise(6_000, clock.ms % 7)}))
        assert expiry_s(task) * 1000 >= min(clock.ms + interval_ms, end_ms)
        assert len(pointers(task)) == 4
        for pointer in pointers(task).values():
            assert expiry_s(task) <= kept_until_s(task) <= value_expiry_s(engine, task, pointer)
        clock.ms += interval_ms - 1_000
    stored_task = store.get(owner, task.task_id)
    assert (stored_task.variables["small"], stored_task.variables["large"]) == (SMALL, LARGE)
    assert stored_task.arguments == {"text": SMALL}


@ON_MEMORY
def test_a_short_extension_needs_no_request_for_values(
    stores: Stores, owner: str, worker: MakeClaim, requests: Requests, clock: Clock
) -> None:
    store = stores()
    task = start_job(store, owner, worker("a"))
    clock.ms += 30_000
    requests.take()
    store.jobs.extend(task, 2 * HOUR_MS + 60_000)
    assert requests.take() == ["UpdateItem"]


@ON_MEMORY
def test_a_task_does_not_outlive_values_that_cannot_be_kept_longer(
    stores: Stores, engine: Engine, owner: str, worker: MakeClaim
) -> None:
    store = stores(limits=Limits(max_ttl_ms=30 * DAY_MS, values_ms=60_000))
    task = start_job(store, owner, worker("a"))
    values_end_s = kept_until_s(task)

    def fail(request: Any, **_: object) -> None:
        if b"VALUE#" in request.body:
            raise StoreUnavailable("down")

    with at_each(engine, "UpdateItem", fail):
        extended_task = store.jobs.extend(task, 20 * DAY_MS)
    assert expiry_s(task) < expiry_s(extended_task) == values_end_s
    assert expiry_s(store.jobs.extend(extended_task, 20 * DAY_MS)) > values_end_s


@ON_MEMORY
def test_a_write_with_a_value_for_a_shorter_lifetime_is_a_conflict(
    stores: Stores, engine: Engine, owner: str, worker: MakeClaim
) -> None:
    """A writer reads the task before an extension and writes a value after it."""
    store = stores(limits=Limits(max_ttl_ms=30 * DAY_MS, values_ms=60_000))
    old_task = start_job(store, owner, worker("a"))
    store.jobs.extend(old_task, 20 * DAY_MS)
    batch = Batch(variables={"late": noise(600_000, 3)})
    with pytest.raises(Conflict) as conflict:
        store.write(old_task, batch)
    changed_task = store.write(conflict.value.current, batch)
    assert value_expiry_s(engine, changed_task, pointers(changed_task)["late"]) > expiry_s(changed_task)
    assert store.write(old_task, Batch(variables={"tiny": 1})).variables["late"] == batch.variables["late"]
