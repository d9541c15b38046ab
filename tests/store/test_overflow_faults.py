"""DynamoDB does not take or return values, or the run is killed between them and the head (docs/storage.md)."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mcp_baton.exceptions import StoreUnavailable
from mcp_baton.tasks.record import TaskStatus
from mcp_baton.tasks.store import Batch
from tests.noise import noise
from tests.sent import Requests
from tests.store.conftest import TABLE, Engine
from tests.store.fixture_types import ON_MEMORY, Begin, Store
from tests.store.steps import completion, hook, result, statuses
from tests.store.test_overflow import BIG
from tests.value_items import ValueItems

pytestmark = ON_MEMORY


class Killed(BaseException):
    """Stops the function as Lambda would: no code in it can catch this."""


@contextmanager
def killed_before_the_update(engine: Engine) -> Iterator[None]:
    """Kill a run before its `UpdateItem`."""

    def stop(**_: object) -> None:
        raise Killed

    with hook(engine.client, "before-send.dynamodb.UpdateItem", stop), pytest.raises(Killed):
        yield


def test_a_run_killed_between_its_values_and_the_head_does_not_change_the_task(
    store: Store, engine: Engine, owner: str, begin: Begin, requests: Requests
) -> None:
    task = store.write(begin(2), Batch(steps=(completion(0, noise(600_000, 1)),)))
    requests.take()
    with killed_before_the_update(engine):
        store.write(task, Batch(steps=(completion(1, BIG),), result={"completed": True}))
    with killed_before_the_update(engine):
        store.complete(owner, task.task_id, {"large": BIG})
    assert requests.take().count("PutItem") == 4
    record = store.get(owner, task.task_id)
    assert record == task
    assert (record.status, statuses(record), record.result) == (TaskStatus.WORKING, ["completed", "pending"], None)
    assert result(record, 0) == noise(600_000, 1)


def test_if_values_cannot_be_read_a_request_asks_once(
    store: Store, engine: Engine, owner: str, begin: Begin, requests: Requests
) -> None:
    task = begin(3)
    store.write(task, Batch(steps=(completion(0, noise(300_000)), completion(1, noise(300_000, 1)), completion(2, 1))))
    record = store.get(owner, task.task_id)
    requests.take()
    with ValueItems(engine.client, TABLE).refusing("GetItem"):
        for index in (0, 1, 0):
            with pytest.raises(StoreUnavailable):
                result(record, index)
    assert requests.take() == ["GetItem"]
    assert (result(record, 2), statuses(record)) == (1, ["completed"] * 3)
    assert result(store.get(owner, task.task_id), 0) == noise(300_000)


def test_printing_a_task_fetches_nothing(store: Store, begin: Begin, requests: Requests) -> None:
    task = store.write(begin(), Batch(steps=(completion(0, BIG),), result={"large": BIG}))
    requests.take()
    assert BIG not in repr(task)
    assert requests.take() == []
