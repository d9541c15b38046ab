"""JSON values come back exactly from every place in the store (docs/storage.md)."""

import json
import random
import tracemalloc
from typing import cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcp_baton.exceptions import StoreError, ValueLost
from mcp_baton.protocol.json import Json
from mcp_baton.tasks.record import PAUSE_REASONS, NewTask, StepStatus
from mcp_baton.tasks.store import Batch, StepWrite
from mcp_baton.tasks.texts import zipped
from mcp_baton.tasks.values import ValueSize, weight_of
from tests.examples import JSON, TEXT, examples
from tests.noise import nest
from tests.store.conftest import Engine
from tests.store.fixture_types import NOT_ON_MOTO, ON_MEMORY, Begin, Store

PENDING, COMPLETED = StepStatus.PENDING, StepStatus.COMPLETED


def noise(characters: int) -> str:
    return "".join(random.Random(7).choices("0123456789abcdefghijklmnopqrstuvwxyz\u00e9\u4e00", k=characters))


EXACT: list[Json] = [
    30.0,
    -0.0,
    0.1 + 0.2,
    1e308,
    5e-324,
    2**60,
    -(2**63),
    10**50,
    True,
    False,
    None,
    "",
    [],
    {},
    {"": None, "a.b": [[], {}, ""]},
    "lone \ud800 surrogate",
    {"\udfff": "\ud83c"},
    "NUL \x00, separator \u2028, emoji 🎉, noncharacter \uffff",
    '"quoted"',
    nest(200, []),
]

variable_names = st.text(st.characters(exclude_categories=()), min_size=1, max_size=20)


def are_equal(first: object, second: object) -> bool:
    """Return whether two values are equal in value and type: 30 is not 30.0, 1 is not true, 0.0 is not -0.0."""
    return repr(first) == repr(second)


@pytest.mark.parametrize("value", EXACT, ids=range(len(EXACT)))
def test_a_value_comes_back_exactly_from_every_place(store: Store, owner: str, begin: Begin, value: Json) -> None:
    task = begin(arguments={"argument": value})
    step = StepWrite(0, "s0", PENDING, COMPLETED, value)
    store.write(task, Batch(steps=(step,), variables={"variable": value}, result={"result": value}))
    stored_task = store.get(owner, task.task_id)
    assert are_equal(stored_task.arguments, {"argument": value})
    assert are_equal(stored_task.variables["variable"], value)
    assert are_equal(stored_task.variables["_workflow.result.s0"], value)
    assert are_equal(stored_task.result, {"result": value})


@NOT_ON_MOTO
@settings(examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(variable_names.filter(lambda name: not name.startswith("_workflow.")), JSON, max_size=4))
def test_any_json_comes_back_exactly(store: Store, owner: str, variables: dict[str, Json]) -> None:
    task = store.create(NewTask(owner, variables))
    assert are_equal(sorted(store.get(owner, task.task_id).variables.items()), sorted(variables.items()))
    changed_task = store.write(task, Batch(variables=variables))
    assert are_equal(sorted(changed_task.variables.items()), sorted(variables.items()))


@NOT_ON_MOTO
@settings(examples(10), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(TEXT, JSON, max_size=4))
def test_any_pause_reason_is_recognised(store: Store, owner: str, reason: dict[str, Json]) -> None:
    task = store.write(store.create(NewTask(owner, {})), Batch(pauses=(reason,)))
    [stored_reason] = cast("list[Json]", task.variables[PAUSE_REASONS])
    assert json.dumps(stored_reason, sort_keys=True) == json.dumps(reason, sort_keys=True)
    changed_task = store.write(task, Batch(pauses=()))
    assert PAUSE_REASONS not in changed_task.variables


@pytest.mark.parametrize("text", ["a" * 50_000, noise(50_000), "é" * 8_192, noise(8_190)])
def test_large_values_come_back_exactly_however_they_compress(store: Store, owner: str, text: str) -> None:
    task = store.create(NewTask(owner, {"large": text}, arguments={"large": [text]}))
    stored_task = store.get(owner, task.task_id)
    assert (stored_task.variables["large"], stored_task.arguments) == (text, {"large": [text]})


@ON_MEMORY
@pytest.mark.parametrize("value", [float("nan"), float("inf"), [float("-inf")]])
def test_a_value_that_is_no_json_is_refused_before_a_write(store: Store, owner: str, begin: Begin, value: Json) -> None:
    task = begin()
    with pytest.raises(StoreError, match="variable"):
        store.write(task, Batch(variables={"variable": value}))
    with pytest.raises(StoreError, match="result"):
        store.complete(owner, task.task_id, {"value": value})
    assert store.get(owner, task.task_id) == task


def test_progress_pause_reason_and_arguments_can_be_read_in_the_console(store: Store, begin: Begin) -> None:
    task = begin(arguments={"order_id": "A-17", "amount": 30.0})
    reason: Json = {"type": "schemaMismatch", "missingFields": ["to"], "retryable": False}
    assert isinstance(reason, dict)
    source = store.write(task, Batch(pauses=(reason,))).source
    assert isinstance(source, dict)
    assert source["arguments"] == {"M": {"order_id": {"S": "A-17"}, "amount": {"SS": ["30.0"]}}}
    assert source["variables"]["M"][PAUSE_REASONS]["L"][0] == {
        "M": {
            "type": {"S": "schemaMismatch"},
            "missingFields": {"L": [{"S": "to"}]},
            "retryable": {"BOOL": False},
        }
    }
    step = source["variables"]["M"]["_workflow.progress"]["M"]["steps"]["L"][0]["M"]
    assert step == {"name": {"S": "s0"}, "tool": {"S": "work"}, "status": {"S": "pending"}}


@ON_MEMORY
def test_a_hostile_gzip_stream_loses_only_its_value_and_uses_no_memory(
    store: Store, engine: Engine, owner: str, begin: Begin
) -> None:
    task = begin()
    assert isinstance(task.source, dict)
    bomb = zipped(b"0" * 100_000_000)
    attributes = {"true_size": {"B": bomb}, "false_size": {"B": bomb[:-4] + b"\1\0\0\0"}, "other": {"S": "1"}}
    engine.client.put_item(TableName="tasks", Item={**task.source, "variables": {"M": attributes}})
    stored_task = store.get(owner, task.task_id)
    tracemalloc.start()
    for name in ("true_size", "false_size"):
        with pytest.raises(ValueLost):
            _ = stored_task.variables[name]
        assert weight_of(stored_task, name) in (ValueSize(100_000_000, outside=False), ValueSize(1, outside=False))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000
    assert stored_task.variables["other"] == 1
