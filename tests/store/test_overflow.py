"""Large values in a bucket (docs/storage.md, Values outside the head)."""

from collections.abc import Callable
from typing import Any

import pytest

from emulators.s3 import Bucket
from mcp_baton.exceptions import Conflict, TaskFinished, TaskNotFound, ValueLost
from mcp_baton.protocol.json import Json
from mcp_baton.tasks.dynamodb.items import Limits
from mcp_baton.tasks.dynamodb.s3 import ObjectTooLarge, S3ObjectStore
from mcp_baton.tasks.dynamodb.values import pointer_in
from mcp_baton.tasks.record import PROGRESS, NewTask, StepStatus, TaskRecord, TaskStatus
from mcp_baton.tasks.store import Batch, SetPause
from tests.noise import noise
from tests.sent import Requests
from tests.store.conftest import Engine
from tests.store.given import OVER_S3, Begin, Store, Stores
from tests.store.steps import done, result, statuses
from tests.store.test_values import EXACT, same

pytestmark = OVER_S3

PENDING, COMPLETED = StepStatus.PENDING, StepStatus.COMPLETED


def moved(task: TaskRecord) -> list[str]:
    """Return the names of the variables and attributes that are stored outside a task's item."""
    assert isinstance(task.source, dict)
    values: dict[str, Any] = {**task.source, **task.source["variables"]["M"]}
    return sorted(name for name, value in values.items() if pointer_in(value))


BIG = noise(600_000)


@pytest.fixture
def uncompressed(stores: Stores, bucket: Bucket) -> Store:
    """A store with a bucket that does not compress values in the item."""
    limits = Limits(compress_over_bytes=10**9)
    return stores(limits=limits, objects=S3ObjectStore(bucket.name, lambda: bucket.client))


def test_a_large_result_goes_to_the_bucket_and_comes_back_exactly(
    overflowing: Store, owner: str, bucket: Bucket, begin: Begin, requests: Requests
) -> None:
    task = begin(2)
    requests.take()
    written = overflowing.write(task, Batch(steps=(done(0, BIG), done(1, "small"))))
    assert requests.take() == ["PutObject", "UpdateItem"]
    assert written.oversized == ()
    assert moved(written.task) == ["_workflow.result.s0"]
    assert (result(written.task, 0), result(written.task, 1)) == (BIG, "small")
    requests.take()
    read = overflowing.get(owner, task.task_id)
    assert (statuses(read), result(read, 1), read.version) == (["completed"] * 2, "small", 2)
    assert requests.take() == ["GetItem"]
    assert [result(read, 0), result(read, 0)] == [BIG, BIG]
    assert requests.take() == ["GetObject"]
    assert len(bucket.keys) == 1


def test_a_value_that_is_small_when_compressed_stays_in_the_item(
    overflowing: Store, begin: Begin, requests: Requests
) -> None:
    task = begin()
    requests.take()
    written = overflowing.write(task, Batch(steps=(done(0, "x" * 1_000_000),)))
    assert requests.take() == ["UpdateItem"]
    assert moved(written.task) == []


def test_values_of_one_write_are_one_object_up_to_the_size_of_a_bundle(
    uncompressed: Store, bucket: Bucket, begin: Begin, requests: Requests
) -> None:
    values = [letter * size for letter, size in zip("abc", (100_000, 250_000, 200_000), strict=True)]
    task = begin(3)
    requests.take()
    batch = Batch(steps=tuple(done(i, value) for i, value in enumerate(values)), variables={"v": "d" * 240_000})
    written = uncompressed.write(task, batch)
    # Bundles: 250,000 and a small value, 240,000 and a small value, 200,000. No object exceeds 350,000 bytes.
    assert requests.take() == ["PutObject"] * 3 + ["UpdateItem"]
    assert len(moved(written.task)) == 4
    requests.take()
    assert [result(written.task, index) for index in range(3)] == values
    assert written.task.variables["v"] == "d" * 240_000
    assert requests.take() == ["GetObject"] * 3
    assert written.oversized == ()


def test_a_task_is_created_with_large_variables_and_arguments(
    overflowing: Store, owner: str, requests: Requests
) -> None:
    other, small = noise(700_000, 1), noise(10_000, 2)
    new = NewTask(owner, {"large": BIG, "small": small}, arguments={"text": other})
    task = overflowing.create(new)
    assert requests.take() == ["PutObject", "PutObject", "PutObject", "PutItem"]
    assert moved(task) == ["arguments", "large", "small"]
    read = overflowing.get(owner, task.task_id)
    assert requests.take() == ["GetItem"]
    assert read.arguments == {"text": other}
    assert dict(read.variables) == {"large": BIG, "small": small}
    assert requests.take() == ["GetObject"] * 3


def test_a_creation_over_the_limit_writes_no_object(stores: Stores, bucket: Bucket, owner: str) -> None:
    store = stores(limits=Limits(max_tasks_per_owner=1), objects=S3ObjectStore(bucket.name, lambda: bucket.client))
    store.create(NewTask(owner, {}))
    with pytest.raises(Exception, match="as many as are allowed"):
        store.create(NewTask(owner, {"large": BIG}))
    assert bucket.keys == []


def test_a_small_result_is_stored_outside_a_full_item(
    overflowing: Store, owner: str, begin: Begin, requests: Requests
) -> None:
    small = noise(4_000)
    task = overflowing.write(begin(), Batch(pause=SetPause({"error": "e" * 407_000}))).task
    requests.take()
    completed = overflowing.complete(owner, task.task_id, {"small": small})
    assert requests.take() == ["UpdateItem", "GetItem", "PutObject", "UpdateItem"]
    assert (completed.result, moved(completed), completed.by_client) == ({"small": small}, ["result"], True)


def test_a_refused_completion_writes_no_object(overflowing: Store, owner: str, bucket: Bucket, begin: Begin) -> None:
    task = begin()
    with pytest.raises(TaskNotFound):
        overflowing.complete("another", task.task_id, {"large": BIG})
    with pytest.raises(TaskNotFound):
        overflowing.complete(owner, "no id", {"large": BIG})
    overflowing.cancel(owner, task.task_id)
    with pytest.raises(TaskFinished) as finished:
        overflowing.complete(owner, task.task_id, {"large": BIG})
    assert finished.value.current.status is TaskStatus.CANCELLED
    assert bucket.keys == []


def test_a_list_fetches_no_values(overflowing: Store, owner: str, begin: Begin, requests: Requests) -> None:
    task = begin()
    overflowing.write(task, Batch(steps=(done(0, BIG),), result={"large": BIG}))
    requests.take()
    [listed] = overflowing.list(owner).tasks
    assert (listed.status, [*listed.variables], listed.result) == (TaskStatus.COMPLETED, [PROGRESS], None)
    assert requests.take() == ["Query"]


def test_a_write_fetches_no_values(overflowing: Store, owner: str, begin: Begin, requests: Requests) -> None:
    task = begin(2)
    overflowing.write(task, Batch(steps=(done(0, BIG),)))
    read = overflowing.get(owner, task.task_id)
    requests.take()
    written = overflowing.write(read, Batch(steps=(done(1, "small"),))).task
    assert statuses(written) == ["completed"] * 2
    overflowing.cancel(owner, task.task_id)
    with pytest.raises(TaskFinished):
        overflowing.write(written, Batch(variables={"late": 1}))
    assert requests.take() == ["UpdateItem"] * 3


@pytest.mark.parametrize("value", EXACT, ids=range(len(EXACT)))
def test_a_value_in_the_bucket_comes_back_exactly(stores: Stores, bucket: Bucket, owner: str, value: Json) -> None:
    # Compressed and uncompressed: the same text is moved.
    for threshold in (100, 10**9):
        limits = Limits(compress_over_bytes=threshold, item_bytes=1_500)
        store = stores(limits=limits, objects=S3ObjectStore(bucket.name, lambda: bucket.client))
        large: Json = [value, noise(2_000)]
        task = store.create(NewTask(owner, {"variable": large}, arguments={"argument": large}))
        store.write(task, Batch(variables={"written": large}, result={"result": large}))
        read = store.get(owner, task.task_id)
        assert moved(read) == ["arguments", "result", "variable", "written"]
        assert same(read.arguments, {"argument": large})
        assert same([read.variables["variable"], read.variables["written"]], [large, large])
        assert same(read.result, {"result": large})


def test_a_text_that_looks_like_a_pointer_stays_a_value(overflowing: Store, owner: str, requests: Requests) -> None:
    forged: Json = "V,other,1,1"
    task = overflowing.create(NewTask(owner, {"forged": forged}, arguments={"forged": forged}))
    overflowing.complete(owner, task.task_id, {"S": forged})
    requests.take()
    read = overflowing.get(owner, task.task_id)
    assert (read.variables["forged"], read.arguments) == (forged, {"forged": forged})
    assert read.result == {"S": forged}
    assert requests.take() == ["GetItem"]


def test_two_writes_that_are_too_large_together_are_both_stored(
    stores: Stores, begin: Begin, requests: Requests
) -> None:
    store = stores(limits=Limits(compress_over_bytes=10**9, values_ms=60_000))
    task = store.write(begin(), Batch(pause=SetPause({"error": "e" * 200_000}))).task
    first, second = ({f"{letter}{n}": letter * 4_000 for n in range(30)} for letter in "xy")
    store.write(task, Batch(variables=first))
    requests.take()
    written = store.write(task, Batch(variables=second))
    assert requests.take() == ["UpdateItem", "PutItem", "UpdateItem"]
    assert written.oversized == ()
    assert (first | second).items() <= dict(written.task.variables).items()


def test_a_lost_race_does_not_change_the_winners_value(
    overflowing: Store, owner: str, bucket: Bucket, begin: Begin
) -> None:
    task, theirs, mine = begin(), noise(600_000, 1), noise(600_000, 2)
    overflowing.write(task, Batch(steps=(done(0, theirs),)))
    with pytest.raises(Conflict) as conflict:
        overflowing.write(task, Batch(steps=(done(0, mine),)))
    assert result(conflict.value.current, 0) == theirs
    assert result(overflowing.get(owner, task.task_id), 0) == theirs
    assert len(bucket.keys) == 2


def test_the_same_value_is_the_same_object_each_time(
    overflowing: Store, owner: str, bucket: Bucket, begin: Begin
) -> None:
    task = begin()
    for _ in range(3):
        task = overflowing.write(task, Batch(variables={"same": BIG})).task
    assert len(bucket.keys) == 1
    assert overflowing.get(owner, task.task_id).variables["same"] == BIG


@pytest.mark.parametrize(("ttl_ms", "days"), [(1_000, 2), (86_400_000, 2), (86_400_001, 8), (31_536_000_000, 401)])
def test_an_object_outlives_its_task_and_does_not_contain_the_owners_name(
    stores: Stores, bucket: Bucket, ttl_ms: int, days: int
) -> None:
    store = stores(limits=Limits(max_ttl_ms=10**12), objects=S3ObjectStore(bucket.name, lambda: bucket.client))
    task = store.create(NewTask("kim@example.com", {"large": BIG}, ttl_ms=ttl_ms))
    store.write(task, Batch(variables={"later": BIG}))
    store.complete("kim@example.com", task.task_id, {"large": BIG})
    assert len(bucket.keys) == 2
    for key in bucket.keys:
        prefix, owner, task_id, name = key.split("/")
        assert (prefix, task_id) == (f"{days}d", task.task_id)
        assert (len(owner), len(name)) == (32, 22)
        assert "kim" not in key


def test_the_first_large_value_creates_the_s3_client(
    stores: Stores, engine: Engine, bucket: Bucket, begin: Begin
) -> None:
    made: list[str] = []

    def connect() -> Any:
        made.append("client")
        return engine.s3

    store = stores(objects=S3ObjectStore(bucket.name, connect))
    task = store.write(begin(), Batch(variables={"small": 1})).task
    assert made == []
    for _ in range(2):
        task = store.write(task, Batch(variables={"large": BIG})).task
    assert (task.variables["large"], made) == (BIG, ["client"])


LOSSES: dict[str, Callable[[Bucket, str], None]] = {
    "expired": lambda bucket, key: bucket.expire(key),
    "replaced": lambda bucket, key: bucket.replace(key, b"something else"),
    "cut short": lambda bucket, key: bucket.replace(key, bucket.content(key)[:-1]),
    "empty": lambda bucket, key: bucket.replace(key, b""),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_a_missing_or_changed_object_loses_only_its_value(
    overflowing: Store,
    owner: str,
    bucket: Bucket,
    begin: Begin,
    requests: Requests,
    caplog: pytest.LogCaptureFixture,
    loss: str,
) -> None:
    task, kept = begin(2), noise(600_000, 1)
    overflowing.write(task, Batch(steps=(done(0, BIG),)))
    [key] = bucket.keys
    overflowing.write(task, Batch(steps=(done(1, kept),)))
    LOSSES[loss](bucket, key)
    read = overflowing.get(owner, task.task_id)
    with pytest.raises(ValueLost, match="600002 bytes"):
        result(read, 0)
    assert (result(read, 1), statuses(read), read.status) == (kept, ["completed"] * 2, TaskStatus.WORKING)
    assert key.rpartition("/")[2] in caplog.text
    overflowing.write(read, Batch(variables={"later": 1}))


def test_an_object_larger_than_its_pointer_says_is_not_read(overflowing: Store, bucket: Bucket, begin: Begin) -> None:
    task = overflowing.write(begin(), Batch(steps=(done(0, BIG),))).task
    [key] = bucket.keys
    bucket.replace(key, bucket.content(key) + bytes(1_000_000))
    with pytest.raises(ObjectTooLarge):
        list(S3ObjectStore(bucket.name, lambda: bucket.client).get(key, 1_000_000))
    with pytest.raises(ValueLost, match="damaged"):
        result(task, 0)
