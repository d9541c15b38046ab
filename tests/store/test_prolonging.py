"""Values outside the item outlive their task, even if it is extended (docs/storage.md, Expiry)."""

from typing import Any

import pytest

from emulators.s3 import Bucket
from mcp_baton.exceptions import Conflict, StoreUnavailable
from mcp_baton.tasks.dynamodb.items import Limits
from mcp_baton.tasks.dynamodb.outside import object_key, piece_key
from mcp_baton.tasks.dynamodb.s3 import S3ObjectStore
from mcp_baton.tasks.dynamodb.values import Pointer, pointer_in
from mcp_baton.tasks.record import Claim, NewTask, TaskRecord
from mcp_baton.tasks.store import Batch
from tests.noise import noise
from tests.sent import Requests
from tests.store.conftest import WORK, Clock, Engine
from tests.store.given import BUT_EMBEDDED, ON_MEMORY, MakeClaim, Store, Stores
from tests.store.test_pieces import at_each, value_item

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
SMALL, LARGE = noise(6_000, 1), noise(800_000, 2)


def expiry_s(task: TaskRecord) -> int:
    assert isinstance(task.source, dict)
    return int(task.source["expires_at"]["N"])


def pointers(task: TaskRecord) -> dict[str, Pointer]:
    """Return the pointers in a task's item, by the names of the values."""
    assert isinstance(task.source, dict)
    stored: dict[str, Any] = {**task.source["variables"]["M"], "arguments": task.source["arguments"]}
    found = {name: pointer_in(value) for name, value in stored.items()}
    return {name: pointer for name, pointer in found.items() if pointer}


def kept_until_s(engine: Engine, task: TaskRecord, pointer: Pointer) -> int:
    """Return when the first piece of a bundle expires, epoch seconds."""
    pieces = range(-(-pointer.bundle_bytes // 350_000))
    keys = [piece_key(task.owner, task.task_id, pointer.bundle, piece) for piece in pieces]
    return min(int(value_item(engine, key)["expires_at"]["N"]) for key in keys)


def started(store: Store, owner: str, claim: Claim, ttl_ms: int = HOUR_MS) -> TaskRecord:
    """Create a job with values outside its item, and claim it."""
    values = {"small": SMALL, "large": LARGE}
    created = store.create(NewTask(owner, values, arguments={"text": SMALL}, ttl_ms=ttl_ms, work=WORK))
    return store.jobs.claim(owner, created.task_id, claim, 1)


def renewed(store: Store, task: TaskRecord, clock: Clock) -> TaskRecord:
    assert task.claim
    claim = Claim(task.claim.id, clock.ms + 45_000, task.claim.number, task.claim.dispatch)
    return store.renew(task, claim)


@BUT_EMBEDDED
@pytest.mark.parametrize("each_ms", [HOUR_MS, 12 * HOUR_MS, 400 * DAY_MS], ids=["hour", "half a day", "400 days"])
def test_no_value_expires_before_its_extended_task(
    stores: Stores, engine: Engine, owner: str, worker: MakeClaim, clock: Clock, each_ms: int
) -> None:
    task = started(stores(limits=Limits(max_ttl_ms=DAY_MS, values_ms=60_000)), owner, worker("a"))
    store = stores(limits=Limits(max_ttl_ms=400 * DAY_MS, values_ms=60_000))
    ends_ms = clock.ms + min(80 * each_ms, 399 * DAY_MS)
    while clock.ms < ends_ms:
        task = renewed(store, task, clock)
        task = store.jobs.extend(task, 2 * each_ms)
        task = store.write(task, Batch(variables={"later": noise(6_000, clock.ms % 7)})).task
        assert expiry_s(task) * 1000 >= min(clock.ms + each_ms, ends_ms)
        assert len(pointers(task)) == 4
        for pointer in pointers(task).values():
            assert expiry_s(task) <= pointer.until_s <= kept_until_s(engine, task, pointer)
        clock.ms += each_ms - 1_000
    read = store.get(owner, task.task_id)
    assert (read.variables["small"], read.variables["large"]) == (SMALL, LARGE)
    assert read.arguments == {"text": SMALL}


@ON_MEMORY
def test_a_short_extension_needs_no_request_for_values(
    stores: Stores, owner: str, worker: MakeClaim, requests: Requests, clock: Clock
) -> None:
    store = stores()
    task = started(store, owner, worker("a"))
    clock.ms += 30_000
    requests.take()
    store.jobs.extend(task, 2 * HOUR_MS + 60_000)
    assert requests.take() == ["UpdateItem"]


@ON_MEMORY
def test_a_task_does_not_outlive_values_that_cannot_be_rewritten(
    stores: Stores, engine: Engine, owner: str, worker: MakeClaim
) -> None:
    store = stores(limits=Limits(max_ttl_ms=30 * DAY_MS, values_ms=60_000))
    task = started(store, owner, worker("a"))
    kept_s = min(pointer.until_s for pointer in pointers(task).values())

    def fail(**_: object) -> None:
        raise StoreUnavailable("down")

    with at_each(engine, "PutItem", fail):
        longer = store.jobs.extend(task, 20 * DAY_MS)
    assert expiry_s(task) < expiry_s(longer) == kept_s
    assert expiry_s(store.jobs.extend(longer, 20 * DAY_MS)) > kept_s


@ON_MEMORY
def test_a_lost_value_does_not_limit_an_extension(
    stores: Stores, engine: Engine, owner: str, worker: MakeClaim
) -> None:
    store = stores(limits=Limits(max_ttl_ms=30 * DAY_MS, values_ms=60_000))
    task = started(store, owner, worker("a"))
    bundle = pointers(task)["large"].bundle
    engine.client.delete_item(TableName="tasks", Key=piece_key(owner, task.task_id, bundle, 1))
    longer = store.jobs.extend(task, 20 * DAY_MS)
    assert expiry_s(longer) * 1000 - store.now_ms() >= 20 * DAY_MS
    assert longer.variables["small"] == SMALL


@ON_MEMORY
def test_a_write_with_a_value_for_a_shorter_lifetime_is_a_conflict(
    stores: Stores, engine: Engine, owner: str, worker: MakeClaim
) -> None:
    """A writer reads the task before an extension and writes a value after it."""
    store = stores(limits=Limits(max_ttl_ms=30 * DAY_MS, values_ms=60_000))
    before = started(store, owner, worker("a"))
    store.jobs.extend(before, 20 * DAY_MS)
    batch = Batch(variables={"late": noise(600_000, 3)})
    with pytest.raises(Conflict) as conflict:
        store.write(before, batch)
    after = store.write(conflict.value.current, batch).task
    assert kept_until_s(engine, after, pointers(after)["late"]) > expiry_s(after)
    assert store.write(before, Batch(variables={"tiny": 1})).task.variables["late"] == batch.variables["late"]


@ON_MEMORY
def test_a_value_written_during_a_long_extension_prevents_it(
    stores: Stores, engine: Engine, owner: str, worker: MakeClaim
) -> None:
    store = stores(limits=Limits(max_ttl_ms=30 * DAY_MS, values_ms=60_000))
    before = started(store, owner, worker("a"))
    after = store.write(before, Batch(variables={"late": noise(600_000, 3)})).task
    assert store.jobs.extend(before, 20 * DAY_MS) == store.get(owner, before.task_id)
    assert expiry_s(store.get(owner, before.task_id)) == expiry_s(after)
    longer = store.jobs.extend(store.get(owner, before.task_id), 20 * DAY_MS)
    assert kept_until_s(engine, longer, pointers(longer)["late"]) > expiry_s(longer) > expiry_s(after)


@ON_MEMORY
def test_a_clients_result_is_stored_during_an_extension(
    stores: Stores, engine: Engine, owner: str, worker: MakeClaim
) -> None:
    store = stores(limits=Limits(max_ttl_ms=30 * DAY_MS, values_ms=60_000))
    task = started(store, owner, worker("a"))
    prolonging = iter([lambda: store.jobs.extend(task, 20 * DAY_MS)])

    def prolong(**_: object) -> None:
        next(prolonging, lambda: None)()

    with at_each(engine, "UpdateItem", prolong):
        completed = store.complete(owner, task.task_id, {"text": LARGE})
    assert isinstance(completed.source, dict)
    pointer = pointer_in(completed.source["result"])
    assert pointer
    assert kept_until_s(engine, completed, pointer) > expiry_s(completed)
    assert store.get(owner, task.task_id).result == {"text": LARGE}


@ON_MEMORY
def test_writing_a_value_again_does_not_shorten_its_life(
    stores: Stores, engine: Engine, owner: str, worker: MakeClaim
) -> None:
    store = stores(limits=Limits(max_ttl_ms=30 * DAY_MS, values_ms=60_000))
    before = started(store, owner, worker("a"))
    longer = store.jobs.extend(before, 20 * DAY_MS)
    with pytest.raises(Conflict):
        # Another process, which has not written these values.
        stores().write(before, Batch(variables={"again": LARGE}))
    assert kept_until_s(engine, longer, pointers(longer)["large"]) > expiry_s(longer)


@ON_MEMORY
def test_objects_of_an_extended_task_go_to_another_folder(
    stores: Stores, bucket: Bucket, owner: str, worker: MakeClaim
) -> None:
    store = stores(
        limits=Limits(max_ttl_ms=800 * DAY_MS, values_ms=60_000),
        objects=S3ObjectStore(bucket.name, lambda: bucket.client),
    )
    task = started(store, owner, worker("a"))
    folders = []
    for days in (20, 300, 700):
        task = store.jobs.extend(task, days * DAY_MS)
        pointer = pointers(task)["large"]
        assert pointer.until_s > expiry_s(task)
        folders.append(pointer.days)
        assert not pointer.days or object_key(owner, task.task_id, pointer.bundle, pointer.days) in bucket.keys
        assert store.get(owner, task.task_id).variables["large"] == LARGE
    # No lifecycle rule keeps an object for 700 days.
    assert folders == [31, 401, 0]
