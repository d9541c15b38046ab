"""Stored timings of steps (docs/storage.md)."""

import pytest
from msgspec.structs import replace

from mcp_baton.exceptions import StoreError
from mcp_baton.protocol.json import Json
from mcp_baton.tasks.record import PROGRESS, StepStatus
from mcp_baton.tasks.store import Batch, StepWrite, Timing, timings_of
from tests.sent import Requests
from tests.store.conftest import Clock, Engine
from tests.store.fixture_types import Begin, Store

PENDING, COMPLETED = StepStatus.PENDING, StepStatus.COMPLETED


def step(index: int, timing: Timing, expected: StepStatus = PENDING) -> StepWrite:
    return StepWrite(index, f"s{index}", expected, COMPLETED, index, timing=timing)


def test_timings_are_written_only_with_steps(store: Store, begin: Begin, clock: Clock, requests: Requests) -> None:
    task = begin(3, workflow="flow")
    first, second, third = Timing(clock.ms + 5, 120), Timing(clock.ms + 130, 0), Timing(clock.ms + 86_400_000, 9)
    requests.take()
    store.write(task, Batch(steps=(step(0, first),)))
    # Based on the created task, like a simultaneous writer.
    store.write(task, Batch(steps=(step(1, second),)))
    assert requests.take() == ["UpdateItem", "UpdateItem"]
    task = store.get(task.owner, task.task_id)
    assert timings_of(task) == {"s0": first, "s1": second}
    task = store.write(task, Batch(steps=(step(0, third, COMPLETED), replace(step(2, first), timing=None))))
    assert timings_of(task) == {"s0": third, "s1": second}


def test_steps_that_remain_keep_their_timings_after_a_replacement(store: Store, begin: Begin, clock: Clock) -> None:
    task = begin(3, workflow="flow", definition="old")
    first, second = Timing(clock.ms, 1), Timing(clock.ms + 1, 2)
    task = store.write(task, Batch(steps=(step(0, first), step(1, first))))
    step_list: list[Json] = [{"name": name, "status": "pending"} for name in ("new", "s1", "s2")]
    progress: Json = {"goal": "flow", "steps": step_list, "schemaVersion": 1}
    task = store.write(task, Batch(steps=(step(2, second),), variables={PROGRESS: progress}, definition="new"))
    assert timings_of(task) == {"s1": first, "s2": second}


def test_timings_support_any_step_name_and_a_clock_that_is_behind(store: Store, begin: Begin, clock: Clock) -> None:
    task, timing = begin(1, workflow="flow"), Timing(clock.ms - 40, 3)
    for name in ('"s0"', "\ud800"):
        task = store.write(task, Batch(steps=(replace(step(0, timing, PENDING), name=name, status=PENDING),)))
    assert timings_of(task) == {'"s0"': timing, "\ud800": timing}


@pytest.mark.parametrize("damage", [{"M": {"s0": {"S": "soon"}}}, {"S": '"soon"'}], ids=["timing", "all"])
def test_damaged_timings_are_a_store_error(
    store: Store, begin: Begin, engine: Engine, damage: dict[str, object]
) -> None:
    task = begin(1, workflow="flow")
    assert isinstance(task.source, dict)
    engine.client.put_item(TableName="tasks", Item={**task.source, "timings": damage})
    with pytest.raises(StoreError, match=r"the task \S+ is damaged"):
        timings_of(store.get(task.owner, task.task_id))
