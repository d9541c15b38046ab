"""S3 fails or loses objects, or the run is killed between S3 and DynamoDB (docs/storage.md)."""

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

import pytest
from botocore.exceptions import NoRegionError

from emulators.s3 import DENIED, SLOW_DOWN, Bucket
from mcp_baton.exceptions import StoreUnavailable, ValueLost
from mcp_baton.tasks.dynamodb.s3 import S3ObjectStore
from mcp_baton.tasks.record import TaskStatus
from mcp_baton.tasks.store import Batch, SetPause
from tests.noise import noise
from tests.sent import Requests
from tests.store.conftest import Engine
from tests.store.fixture_types import ON_MEMORY, Begin, Store, Stores
from tests.store.steps import completion, hook, note, result, statuses
from tests.store.test_overflow import BIG, outside

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

pytestmark = ON_MEMORY

FAULTS: dict[str, Callable[[Bucket, str], AbstractContextManager[None]]] = {
    "denied": lambda bucket, operation: bucket.refusing(operation, DENIED),
    "slow down": lambda bucket, operation: bucket.refusing(operation, SLOW_DOWN),
    "no bucket": lambda bucket, operation: bucket.refusing(operation, (404, "NoSuchBucket")),
    "silent": lambda bucket, operation: bucket.silent(operation),
}
OUTAGES = [name for name in FAULTS if name != "denied"]


class Killed(BaseException):
    """Stops the function as Lambda would: no code in it can catch this."""


@contextmanager
def killed_before_the_update(engine: Engine) -> Iterator[None]:
    """Kill a run before its `UpdateItem`."""

    def stop(**_: object) -> None:
        raise Killed

    with hook(engine.client, "before-send.dynamodb.UpdateItem", stop), pytest.raises(Killed):
        yield


def tracebacks(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR and record.exc_info]


def test_a_run_killed_between_s3_and_dynamodb_does_not_change_the_task(
    s3_store: Store, engine: Engine, owner: str, bucket: Bucket, begin: Begin
) -> None:
    task = s3_store.write(begin(2), Batch(steps=(completion(0, noise(600_000, 1)),))).task
    with killed_before_the_update(engine):
        s3_store.write(task, Batch(steps=(completion(1, BIG),), result={"completed": True}))
    with killed_before_the_update(engine):
        s3_store.complete(owner, task.task_id, {"large": BIG})
    assert len(bucket.keys) == 3
    record = s3_store.get(owner, task.task_id)
    assert record == task
    assert (record.status, statuses(record), record.result) == (TaskStatus.WORKING, ["completed", "pending"], None)
    assert result(record, 0) == noise(600_000, 1)


@pytest.mark.parametrize("fault", FAULTS)
def test_if_s3_fails_values_go_to_items(
    s3_store: Store,
    owner: str,
    bucket: Bucket,
    begin: Begin,
    requests: Requests,
    caplog: pytest.LogCaptureFixture,
    fault: str,
) -> None:
    task, text = begin(3), noise(700_000, 1)
    batch = Batch(
        steps=(completion(0, "small"), completion(1, BIG), completion(2, text)), pause=SetPause({"type": "x"})
    )
    requests.take()
    with FAULTS[fault](bucket, "PutObject"):
        outcome = s3_store.write(task, batch)
    # Two pieces each. S3 is not tried again.
    assert requests.take() == ["PutObject"] * 2 + ["PutItem"] * 4 + ["UpdateItem"]
    assert (outcome.oversized, outside(outcome.task)) == ((), ["_workflow.result.s1", "_workflow.result.s2"])
    record = s3_store.get(owner, task.task_id)
    assert [result(record, index) for index in range(3)] == ["small", BIG, text]
    assert (statuses(record), record.variables["_workflow.pause_reason"]) == (["completed"] * 3, {"type": "x"})
    assert all(task.task_id in message for message in tracebacks(caplog))
    assert bucket.keys == []


def test_if_the_s3_client_cannot_be_created_values_go_to_items(stores: Stores, begin: Begin) -> None:
    def connect() -> "S3Client":
        raise NoRegionError

    outcome = stores(objects=S3ObjectStore("bucket", connect)).write(begin(), Batch(steps=(completion(0, BIG),)))
    assert (outcome.oversized, result(outcome.task, 0)) == ((), BIG)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_value_over_six_megabytes_is_stored_only_in_s3(
    s3_store: Store, bucket: Bucket, begin: Begin, fault: str
) -> None:
    long_text = "x" * 6_000_001
    assert (s3_store.write(begin(), Batch(steps=(completion(0, long_text),))).oversized, len(bucket.keys)) == ((), 1)
    with FAULTS[fault](bucket, "PutObject"):
        fault_outcome = s3_store.write(begin(), Batch(steps=(completion(0, long_text),)))
    assert (fault_outcome.oversized, result(fault_outcome.task, 0)) == (("_workflow.result.s0",), note(long_text))


def test_a_missing_object_of_a_bucket_that_may_not_be_listed_is_lost(
    s3_store: Store, bucket: Bucket, begin: Begin
) -> None:
    task = s3_store.write(begin(), Batch(steps=(completion(0, BIG),))).task
    with bucket.refusing("GetObject", DENIED), pytest.raises(ValueLost):
        result(task, 0)


@pytest.mark.parametrize("fault", OUTAGES)
def test_if_s3_does_not_respond_a_request_asks_it_once(
    s3_store: Store, owner: str, bucket: Bucket, begin: Begin, requests: Requests, fault: str
) -> None:
    task = begin(3)
    s3_store.write(task, Batch(steps=(completion(0, BIG), completion(1, noise(600_000, 1)), completion(2, "small"))))
    record = s3_store.get(owner, task.task_id)
    requests.take()
    with FAULTS[fault](bucket, "GetObject"):
        for index in (0, 1, 0):
            with pytest.raises(StoreUnavailable):
                result(record, index)
    assert requests.take() == ["GetObject"]
    assert (result(record, 2), statuses(record)) == ("small", ["completed"] * 3)
    assert result(s3_store.get(owner, task.task_id), 0) == BIG


def test_an_incomplete_response_of_s3_is_unavailable(s3_store: Store, bucket: Bucket, begin: Begin) -> None:
    task = s3_store.write(begin(), Batch(steps=(completion(0, BIG),))).task
    with bucket.breaking_off("GetObject"), pytest.raises(StoreUnavailable, match="IncompleteReadError"):
        result(task, 0)


def test_a_value_in_s3_cannot_be_read_without_a_bucket(s3_store: Store, store: Store, owner: str, begin: Begin) -> None:
    task = s3_store.write(begin(2), Batch(steps=(completion(0, BIG), completion(1, "small")))).task
    record = store.get(owner, task.task_id)
    with pytest.raises(StoreUnavailable, match="no bucket"):
        result(record, 0)
    assert result(store.write(record, Batch(variables={"later": 1})).task, 1) == "small"
    assert result(s3_store.get(owner, task.task_id), 0) == BIG


def test_printing_a_task_fetches_nothing(s3_store: Store, begin: Begin, requests: Requests) -> None:
    task = s3_store.write(begin(), Batch(steps=(completion(0, BIG),), result={"large": BIG})).task
    requests.take()
    assert "S2-" in repr(task)
    assert BIG not in repr(task)
    assert requests.take() == []
