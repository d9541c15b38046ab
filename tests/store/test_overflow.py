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
from tests.store.fixture_types import OVER_S3, Begin, Store, Stores
from tests.store.steps import completion, result, statuses
from tests.store.test_values import EXACT, are_equal

pytestmark = OVER_S3

PENDING, COMPLETED = StepStatus.PENDING, StepStatus.COMPLETED


def outside(task: TaskRecord) -> list[str]:
    """Return the names of the variables and attributes that are stored outside a task's item."""
    assert isinstance(task.source, dict)
    values: dict[str, Any] = {**task.source, **task.source["variables"]["M"]}
    return sorted(name for name, value in values.items() if pointer_in(value))


BIG = noise(600_000)


@pytest.fixture
def uncompressed_store(stores: Stores, bucket: Bucket) -> Store:
    """A store with a bucket that does not compress values in the item."""
    return stores(limits=Limits(compress_over_bytes=10**9), objects=S3ObjectStore(bucket.name, lambda: bucket.client))


def test_a_large_result_goes_to_the_bucket_and_comes_back_exactly(
    s3_store: Store, owner: str, bucket: Bucket, begin: Begin, requests: Requests
) -> None:
    task = begin(2)
    requests.take()
    outcome = s3_store.write(task, Batch(steps=(completion(0, BIG), completion(1, "small"))))
    assert requests.take() == ["PutObject", "UpdateItem"]
    assert outcome.oversized == ()
    assert outside(outcome.task) == ["_workflow.result.s0"]
    assert (result(outcome.task, 0), result(outcome.task, 1)) == (BIG, "small")
    requests.take()
    record = s3_store.get(owner, task.task_id)
    assert (statuses(record), result(record, 1), record.version) == (["completed"] * 2, "small", 2)
    assert requests.take() == ["GetItem"]
    assert [result(record, 0), result(record, 0)] == [BIG, BIG]
    assert requests.take() == ["GetObject"]
    assert len(bucket.keys) == 1


def test_a_value_that_is_small_when_compressed_stays_in_the_item(
    s3_store: Store, begin: Begin, requests: Requests
) -> None:
    task = begin()
    requests.take()
    outcome = s3_store.write(task, Batch(steps=(completion(0, "x" * 1_000_000),)))
    assert requests.take() == ["UpdateItem"]
    assert outside(outcome.task) == []


def test_values_of_one_write_are_one_object_up_to_the_size_of_a_bundle(
    uncompressed_store: Store, bucket: Bucket, begin: Begin, requests: Requests
) -> None:
    values = [letter * size for letter, size in zip("abc", (100_000, 250_000, 200_000), strict=True)]
    task = begin(3)
    requests.take()
    batch = Batch(
        steps=tuple(completion(index, value) for index, value in enumerate(values)), variables={"v": "d" * 240_000}
    )
    outcome = uncompressed_store.write(task, batch)
    # Bundles: 250,000 and a small value, 240,000 and a small value, 200,000. No object exceeds 350,000 bytes.
    assert requests.take() == ["PutObject"] * 3 + ["UpdateItem"]
    assert len(outside(outcome.task)) == 4
    requests.take()
    assert [result(outcome.task, index) for index in range(3)] == values
    assert outcome.task.variables["v"] == "d" * 240_000
    assert requests.take() == ["GetObject"] * 3
    assert outcome.oversized == ()


def test_a_task_is_created_with_large_variables_and_arguments(s3_store: Store, owner: str, requests: Requests) -> None:
    other_text, small = noise(700_000, 1), noise(10_000, 2)
    task = s3_store.create(NewTask(owner, {"large": BIG, "small": small}, arguments={"text": other_text}))
    assert requests.take() == ["PutObject", "PutObject", "PutObject", "PutItem"]
    assert outside(task) == ["arguments", "large", "small"]
    record = s3_store.get(owner, task.task_id)
    assert requests.take() == ["GetItem"]
    assert record.arguments == {"text": other_text}
    assert dict(record.variables) == {"large": BIG, "small": small}
    assert requests.take() == ["GetObject"] * 3


def test_a_creation_over_the_limit_writes_no_object(stores: Stores, bucket: Bucket, owner: str) -> None:
    store = stores(limits=Limits(max_tasks_per_owner=1), objects=S3ObjectStore(bucket.name, lambda: bucket.client))
    store.create(NewTask(owner, {}))
    with pytest.raises(Exception, match="as many as are allowed"):
        store.create(NewTask(owner, {"large": BIG}))
    assert bucket.keys == []


def test_a_small_result_is_stored_outside_a_full_item(
    s3_store: Store, owner: str, begin: Begin, requests: Requests
) -> None:
    small = noise(4_000)
    task = s3_store.write(begin(), Batch(pause=SetPause({"error": "e" * 407_000}))).task
    requests.take()
    record = s3_store.complete(owner, task.task_id, {"small": small})
    assert requests.take() == ["UpdateItem", "GetItem", "PutObject", "UpdateItem"]
    assert (record.result, outside(record), record.by_client) == ({"small": small}, ["result"], True)


def test_a_refused_completion_writes_no_object(s3_store: Store, owner: str, bucket: Bucket, begin: Begin) -> None:
    task = begin()
    with pytest.raises(TaskNotFound):
        s3_store.complete("another", task.task_id, {"large": BIG})
    with pytest.raises(TaskNotFound):
        s3_store.complete(owner, "no id", {"large": BIG})
    s3_store.cancel(owner, task.task_id)
    with pytest.raises(TaskFinished) as error_info:
        s3_store.complete(owner, task.task_id, {"large": BIG})
    assert error_info.value.current.status is TaskStatus.CANCELLED
    assert bucket.keys == []


def test_a_list_fetches_no_values(s3_store: Store, owner: str, begin: Begin, requests: Requests) -> None:
    task = begin()
    s3_store.write(task, Batch(steps=(completion(0, BIG),), result={"large": BIG}))
    requests.take()
    [entry] = s3_store.list(owner).tasks
    assert (entry.status, [*entry.variables], entry.result) == (TaskStatus.COMPLETED, [PROGRESS], None)
    assert requests.take() == ["Query"]


def test_a_write_fetches_no_values(s3_store: Store, owner: str, begin: Begin, requests: Requests) -> None:
    task = begin(2)
    s3_store.write(task, Batch(steps=(completion(0, BIG),)))
    record = s3_store.get(owner, task.task_id)
    requests.take()
    changed_task = s3_store.write(record, Batch(steps=(completion(1, "small"),))).task
    assert statuses(changed_task) == ["completed"] * 2
    s3_store.cancel(owner, task.task_id)
    with pytest.raises(TaskFinished):
        s3_store.write(changed_task, Batch(variables={"late": 1}))
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
        record = store.get(owner, task.task_id)
        assert outside(record) == ["arguments", "result", "variable", "written"]
        assert are_equal(record.arguments, {"argument": large})
        assert are_equal([record.variables["variable"], record.variables["written"]], [large, large])
        assert are_equal(record.result, {"result": large})


def test_a_text_that_looks_like_a_pointer_stays_a_value(s3_store: Store, owner: str, requests: Requests) -> None:
    forged_text: Json = "V,other,1,1"
    task = s3_store.create(NewTask(owner, {"forged": forged_text}, arguments={"forged": forged_text}))
    s3_store.complete(owner, task.task_id, {"S": forged_text})
    requests.take()
    record = s3_store.get(owner, task.task_id)
    assert (record.variables["forged"], record.arguments) == (forged_text, {"forged": forged_text})
    assert record.result == {"S": forged_text}
    assert requests.take() == ["GetItem"]


def test_two_writes_that_are_too_large_together_are_both_stored(
    stores: Stores, begin: Begin, requests: Requests
) -> None:
    store = stores(limits=Limits(compress_over_bytes=10**9, values_ms=60_000))
    task = store.write(begin(), Batch(pause=SetPause({"error": "e" * 200_000}))).task
    first_values, second_values = ({f"{letter}{index}": letter * 4_000 for index in range(30)} for letter in "xy")
    store.write(task, Batch(variables=first_values))
    requests.take()
    outcome = store.write(task, Batch(variables=second_values))
    assert requests.take() == ["UpdateItem", "PutItem", "UpdateItem"]
    assert outcome.oversized == ()
    assert (first_values | second_values).items() <= dict(outcome.task.variables).items()


def test_a_lost_race_does_not_change_the_winners_value(
    s3_store: Store, owner: str, bucket: Bucket, begin: Begin
) -> None:
    task, their_text, own_text = begin(), noise(600_000, 1), noise(600_000, 2)
    s3_store.write(task, Batch(steps=(completion(0, their_text),)))
    with pytest.raises(Conflict) as conflict:
        s3_store.write(task, Batch(steps=(completion(0, own_text),)))
    assert result(conflict.value.current, 0) == their_text
    assert result(s3_store.get(owner, task.task_id), 0) == their_text
    assert len(bucket.keys) == 2


def test_the_same_value_is_the_same_object_each_time(s3_store: Store, owner: str, bucket: Bucket, begin: Begin) -> None:
    task = begin()
    for _ in range(3):
        task = s3_store.write(task, Batch(variables={"same": BIG})).task
    assert len(bucket.keys) == 1
    assert s3_store.get(owner, task.task_id).variables["same"] == BIG


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
    clients: list[str] = []

    def connect() -> Any:
        clients.append("client")
        return engine.s3

    store = stores(objects=S3ObjectStore(bucket.name, connect))
    task = store.write(begin(), Batch(variables={"small": 1})).task
    assert clients == []
    for _ in range(2):
        task = store.write(task, Batch(variables={"large": BIG})).task
    assert (task.variables["large"], clients) == (BIG, ["client"])


LOSSES: dict[str, Callable[[Bucket, str], None]] = {
    "expired": lambda bucket, key: bucket.expire(key),
    "replaced": lambda bucket, key: bucket.replace(key, b"something else"),
    "cut short": lambda bucket, key: bucket.replace(key, bucket.content(key)[:-1]),
    "empty": lambda bucket, key: bucket.replace(key, b""),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_a_missing_or_changed_object_loses_only_its_value(
    s3_store: Store,
    owner: str,
    bucket: Bucket,
    begin: Begin,
    requests: Requests,
    caplog: pytest.LogCaptureFixture,
    loss: str,
) -> None:
    task, other_text = begin(2), noise(600_000, 1)
    s3_store.write(task, Batch(steps=(completion(0, BIG),)))
    [key] = bucket.keys
    s3_store.write(task, Batch(steps=(completion(1, other_text),)))
    LOSSES[loss](bucket, key)
    record = s3_store.get(owner, task.task_id)
    with pytest.raises(ValueLost, match="600002 bytes"):
        result(record, 0)
    assert (result(record, 1), statuses(record), record.status) == (other_text, ["completed"] * 2, TaskStatus.WORKING)
    assert key.rpartition("/")[2] in caplog.text
    s3_store.write(record, Batch(variables={"later": 1}))


def test_an_object_larger_than_its_pointer_says_is_not_read(s3_store: Store, bucket: Bucket, begin: Begin) -> None:
    task = s3_store.write(begin(), Batch(steps=(completion(0, BIG),))).task
    [key] = bucket.keys
    bucket.replace(key, bucket.content(key) + bytes(1_000_000))
    with pytest.raises(ObjectTooLarge):
        list(S3ObjectStore(bucket.name, lambda: bucket.client).get(key, 1_000_000))
    with pytest.raises(ValueLost, match="damaged"):
        result(task, 0)
