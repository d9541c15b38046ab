"""The methods of the task store, over every engine (docs/http.md, docs/storage.md)."""

from collections.abc import Callable
from itertools import cycle, islice

import pytest

from mcp_baton.exceptions import Conflict, StoreError, TaskFinished, TaskNotFound
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.dynamodb.counting import count_key
from mcp_baton.tasks.dynamodb.items import Limits, key_of
from mcp_baton.tasks.dynamodb.values import item_size
from mcp_baton.tasks.ids import new_task_id
from mcp_baton.tasks.record import (
    PAUSE_REASONS,
    PROGRESS,
    NewTask,
    StepStatus,
    TaskRecord,
    TaskStatus,
    steps_of,
    timestamp,
)
from mcp_baton.tasks.store import Batch, StepWrite, TaskStore
from tests.sent import Requests
from tests.store.conftest import Clock, Engine
from tests.store.fixture_types import NOT_ON_MOTO, ON_MEMORY, Begin, Store, Stores
from tests.store.steps import all_pages, hook, statuses

PENDING, COMPLETED, FAILED = StepStatus.PENDING, StepStatus.COMPLETED, StepStatus.FAILED
PAUSE: JsonObject = {
    "type": "toolError",
    "failedStep": "s1",
    "error": "timeout",
    "retryable": True,
    "suggestedTool": "work",
}
UNKNOWN_ID = new_task_id(0)


def completion(index: int, result: object = None) -> StepWrite:
    return StepWrite(index, f"s{index}", PENDING, COMPLETED, {"value": str(result)})


def finish(store: TaskStore, task: TaskRecord, ending: str) -> TaskRecord:
    match ending:
        case "cancel":
            return store.cancel(task.owner, task.task_id)
        case "complete":
            return store.complete(task.owner, task.task_id, {"by": "client"})
        case _:
            return store.write(task, Batch(result={"by": "engine"}))


def refuse_missing(store: TaskStore, owner: str, task_id: str) -> None:
    """Check that no method finds this task."""
    calls: list[Callable[[], object]] = [
        lambda: store.get(owner, task_id),
        lambda: store.read_status(owner, task_id),
        lambda: store.cancel(owner, task_id),
        lambda: store.complete(owner, task_id, {}),
    ]
    for call in calls:
        with pytest.raises(TaskNotFound):
            call()


def test_a_created_task_is_read_back_as_it_was_created(store: Store, owner: str, clock: Clock, begin: Begin) -> None:
    task = begin(2, workflow="flow", definition="hash", arguments={"amount": "30.0"})
    assert store.get(owner, task.task_id) == task
    assert task.status is TaskStatus.WORKING
    assert task.created_at == task.updated_at == timestamp(clock.ms)
    assert (task.workflow, task.definition, task.arguments) == ("flow", "hash", {"amount": "30.0"})
    assert task.version == 1
    assert task.result is None
    assert statuses(task) == ["pending", "pending"]


def test_reading_a_status_is_one_request(store: Store, begin: Begin, requests: Requests) -> None:
    task = begin(2)
    requests.take()
    assert store.read_status(task.owner, task.task_id).status is TaskStatus.WORKING
    assert requests.take() == ["GetItem"]
    store.cancel(task.owner, task.task_id)
    assert store.read_status(task.owner, task.task_id).status is TaskStatus.CANCELLED


@ON_MEMORY
def test_a_status_read_has_four_attributes_and_may_be_stale(store: Store, begin: Begin, engine: Engine) -> None:
    task, requests = begin(2), list[dict[str, object]]()

    def note(params: dict[str, object], **_: object) -> None:
        requests.append(params)

    with hook(engine.client, "provide-client-params.dynamodb.GetItem", note):
        store.read_status(task.owner, task.task_id)
    [request] = requests
    assert request["ConsistentRead"] is False
    assert request["ExpressionAttributeNames"] == {"#0": "status", "#1": "expires_at", "#2": "version", "#3": "run"}


@ON_MEMORY
@pytest.mark.parametrize("has_old_item", [False, True], ids=["no item", "an older item"])
def test_a_stale_replica_makes_no_task_missing(store: Store, begin: Begin, engine: Engine, has_old_item: bool) -> None:
    task = begin(1)
    if has_old_item:
        assert isinstance(task.source, dict)
        old_item = {**task.source, **key_of(task.owner, UNKNOWN_ID), "expires_at": {"N": "1"}}
        engine.client.put_item(TableName="tasks", Item=old_item)

    def lag(params: dict[str, object], **_: object) -> None:
        if not params["ConsistentRead"]:
            params["Key"] = key_of(task.owner, UNKNOWN_ID)

    with hook(engine.client, "provide-client-params.dynamodb.GetItem", lag):
        assert store.read_status(task.owner, task.task_id).status is TaskStatus.WORKING


@ON_MEMORY
@pytest.mark.parametrize("damage", [{"status": {"S": "odd"}}, {"expires_at": {"S": "never"}}], ids=["status", "time"])
def test_a_damaged_status_is_a_store_error(
    store: Store, begin: Begin, engine: Engine, damage: dict[str, dict[str, str]]
) -> None:
    task = begin(1)
    assert isinstance(task.source, dict)
    engine.client.put_item(TableName="tasks", Item={**task.source, **damage})
    with pytest.raises(StoreError, match="damaged"):
        store.read_status(task.owner, task.task_id)


@pytest.mark.parametrize("name", ['"quoted"', "Zoë 🎉", "lone \ud800 half", "with#hash and space", ""])
def test_owner_and_workflow_names_may_contain_any_text(store: Store, owner: str, name: str) -> None:
    task = store.create(NewTask(name + owner, {f"v{name}": name}, workflow=name))
    record = store.get(name + owner, task.task_id)
    assert (record.owner, record.workflow, dict(record.variables)) == (name + owner, name, {f"v{name}": name})


@ON_MEMORY
@pytest.mark.parametrize(
    ("requested_ms", "granted_ms"),
    [(None, 3_600_000), (0, 1), (-5, 1), (1, 1), (60_000, 60_000), (10**12, 172_800_000)],
)
def test_a_lifetime_is_limited_to_the_maximum(begin: Begin, requested_ms: int | None, granted_ms: int) -> None:
    assert begin(ttl_ms=requested_ms).ttl_ms == granted_ms


def test_an_expired_task_is_not_found(store: Store, owner: str, clock: Clock, begin: Begin) -> None:
    task = begin(ttl_ms=1500)
    clock.ms += 1999
    assert store.get(owner, task.task_id).task_id == task.task_id
    clock.ms += 1
    refuse_missing(store, owner, task.task_id)
    with pytest.raises(TaskNotFound):
        store.write(task, Batch(steps=(completion(0),)))
    assert store.list(owner).tasks == ()


def test_a_terminal_task_expires_too(store: Store, owner: str, clock: Clock, begin: Begin) -> None:
    task = store.cancel(owner, begin(ttl_ms=1000).task_id)
    clock.ms += 1000
    with pytest.raises(TaskNotFound):
        store.cancel(owner, task.task_id)


def test_writes_keep_the_lifetime(store: Store, owner: str, clock: Clock, begin: Begin) -> None:
    task = begin(ttl_ms=10_000)
    clock.ms += 9_000
    written_task = store.write(task, Batch(steps=(completion(0),)))
    assert (written_task.ttl_ms, written_task.created_at) == (10_000, task.created_at)
    assert written_task.updated_at == timestamp(clock.ms)
    clock.ms += 1_000
    with pytest.raises(TaskNotFound):
        store.get(owner, task.task_id)


@pytest.mark.parametrize(
    "task_id",
    [UNKNOWN_ID, "", "no such task", "x" * 5000, "\ud800", UNKNOWN_ID.upper() + "u"],
    ids=["unknown", "empty", "text", "long", "lone surrogate", "another alphabet"],
)
def test_an_unknown_task_is_not_found(store: Store, owner: str, task_id: str) -> None:
    refuse_missing(store, owner, task_id)


def test_another_owner_sees_nothing_and_changes_nothing(store: Store, owner: str, begin: Begin) -> None:
    task = begin()
    foreign_task = store.create(NewTask(owner + "#TASK#", {}))
    refuse_missing(store, foreign_task.owner, task.task_id)
    assert [entry.task_id for entry in store.list(foreign_task.owner).tasks] == [foreign_task.task_id]
    assert store.get(owner, task.task_id) == task


def test_a_batch_is_written_as_a_whole(store: Store, owner: str, begin: Begin) -> None:
    task = begin(3)
    failed_step = StepWrite(1, "s1", PENDING, FAILED, {"error": "timeout"})
    batch = Batch(steps=(completion(0), failed_step), pauses=(PAUSE,), variables={"note": [1, 2.0]})
    outcome = store.write(task, batch)
    assert outcome.oversized == ()
    assert outcome == store.get(owner, task.task_id)
    assert statuses(outcome) == ["completed", "failed", "pending"]
    assert outcome.version == 2
    assert {name: value for name, value in outcome.variables.items() if name != PROGRESS} == {
        "_workflow.result.s0": {"value": "None"},
        "_workflow.result.s1": {"error": "timeout"},
        PAUSE_REASONS: [PAUSE],
        "note": [1, 2.0],
    }


def test_variables_are_removed(store: Store, begin: Begin) -> None:
    task = store.write(begin(), Batch(variables={"a": 1, "b": 2, "c": 3}))
    changed_task = store.write(task, Batch(variables={"c": 4}, removed=frozenset({"a", "c", "never was"})))
    assert {name: value for name, value in changed_task.variables.items() if name != PROGRESS} == {"b": 2, "c": 4}


def test_a_step_with_another_status_is_a_conflict_that_shows_the_winner(store: Store, owner: str, begin: Begin) -> None:
    task = begin(2)
    winner = store.write(task, Batch(steps=(completion(0, "first"),)))
    with pytest.raises(Conflict) as conflict:
        store.write(task, Batch(steps=(completion(1), completion(0, "second")), variables={"stray": 1}))
    assert conflict.value.current == winner == store.get(owner, task.task_id)


def test_a_write_for_another_definition_is_a_conflict(store: Store, begin: Begin) -> None:
    """In the new definition, the steps may have other positions."""
    task = begin(2, definition="one two")
    new_steps: list[Json] = [{"name": f"s{index}", "tool": "work", "status": "pending"} for index in (1, 0)]
    progress: Json = {"goal": "flow", "steps": new_steps, "schemaVersion": 1}
    changed_task = store.write(task, Batch(variables={PROGRESS: progress}, definition="two one"))
    assert (changed_task.definition, steps_of(changed_task)) == ("two one", new_steps)
    for batch in (Batch(steps=(completion(1),)), Batch(variables={"seen": 1})):
        with pytest.raises(Conflict) as conflict:
            store.write(task, batch)
        assert conflict.value.current == changed_task
    assert statuses(store.write(changed_task, Batch(steps=(completion(0),)))) == ["completed", "pending"]


def test_another_pause_reason_is_not_cleared(store: Store, begin: Begin) -> None:
    paused_task = store.write(begin(), Batch(pauses=(PAUSE,)))
    changed_task = store.write(paused_task, Batch(pauses=({**PAUSE, "error": "another"},)))
    with pytest.raises(Conflict) as conflict:
        store.write(paused_task, Batch(steps=(completion(0),), pauses=()))
    assert conflict.value.current == changed_task


def test_a_missing_pause_reason_can_be_cleared(store: Store, begin: Begin) -> None:
    assert PAUSE_REASONS not in store.write(begin(), Batch(pauses=())).variables


def test_reasons_require_the_statuses_of_their_steps(store: Store, begin: Begin) -> None:
    task = begin(2)
    store.write(task, Batch(steps=(completion(1),)))
    with pytest.raises(Conflict):
        store.write(task, Batch(pauses=({"type": "waiting", "blockedStep": "s0"}, {**PAUSE, "failedStep": "s1"})))


@pytest.mark.parametrize("first", ["cancel", "complete", "write"])
@pytest.mark.parametrize("second", ["cancel", "complete", "write"])
def test_a_terminal_task_cannot_be_changed(store: Store, owner: str, begin: Begin, first: str, second: str) -> None:
    task = begin()
    ended_task = finish(store, task, first)
    assert ended_task.status.terminal
    with pytest.raises(TaskFinished) as error_info:
        finish(store, task, second)
    assert error_info.value.current == ended_task == store.get(owner, task.task_id)


def test_cancelling_keeps_recorded_results(store: Store, begin: Begin) -> None:
    task = store.write(begin(), Batch(steps=(completion(0),)))
    cancelled_task = store.cancel(task.owner, task.task_id)
    assert (cancelled_task.status, cancelled_task.result) == (TaskStatus.CANCELLED, None)
    assert cancelled_task.variables == task.variables


def test_completion_stores_the_result_and_that_a_client_supplied_it(store: Store, owner: str, begin: Begin) -> None:
    task = store.complete(owner, begin().task_id, {"total": 30.0})
    assert (task.status, task.result) == (TaskStatus.COMPLETED, {"total": 30.0})
    assert task.by_client
    assert store.get(owner, task.task_id) == task
    other_tasks = store.complete(owner, begin().task_id, {}, by_client=False), finish(store, begin(), "write")
    assert [other.by_client for other in other_tasks] == [False, False]


def test_tasks_are_listed_newest_first_in_pages(stores: Stores, owner: str, clock: Clock, requests: Requests) -> None:
    store = stores(limits=Limits(page_size=2))
    tasks = []
    for _ in range(5):
        clock.ms += 1
        tasks.append(store.create(NewTask(owner, {"large": "x" * 1000}, workflow="flow")))
    requests.sent.clear()
    pages = all_pages(store, owner)
    listed_tasks = [task for page in pages for task in page.tasks]
    assert [task.task_id for task in listed_tasks] == [task.task_id for task in reversed(tasks)]
    assert requests.sent == ["Query"] * len(pages)
    assert all((dict(task.variables), task.workflow) == ({}, "flow") for task in listed_tasks)


@ON_MEMORY
def test_a_page_is_filled_after_expired_tasks(stores: Stores, owner: str, clock: Clock, requests: Requests) -> None:
    store, tasks = stores(limits=Limits(page_size=3)), list[TaskRecord]()
    for number in range(60):
        clock.ms += 1
        is_short = number % 4 > 0 if number < 30 else True
        task = store.create(NewTask(owner, {}, ttl_ms=1 if is_short else None))
        tasks += [] if is_short else [task]
    clock.ms += 2000
    requests.take()
    pages = all_pages(store, owner)
    assert [task.task_id for page in pages for task in page.tasks] == [task.task_id for task in reversed(tasks)]
    assert max(len(page.tasks) for page in pages) == 3
    # The newest 30 have expired. So the first page is empty, and has a cursor.
    assert (len(pages[0].tasks), requests.take().count("Query") <= 4 * len(pages)) == (0, True)


def test_a_list_that_fits_on_one_page_has_no_cursor(store: Store, owner: str, begin: Begin) -> None:
    assert store.list(owner).cursor is None
    begin()
    assert store.list(owner).cursor is None


def test_a_cursor_lists_only_the_callers_tasks(stores: Stores, owner: str, clock: Clock) -> None:
    store = stores(limits=Limits(page_size=1))
    other_owner = owner + "-other"
    own_task = store.create(NewTask(owner, {}))
    for _ in range(2):
        clock.ms += 1
        store.create(NewTask(other_owner, {}))
    cursor = store.list(other_owner).cursor
    assert cursor is not None
    assert [task.task_id for task in store.list(owner, cursor).tasks] == [own_task.task_id]


@ON_MEMORY
@pytest.mark.parametrize("cursor", ["", "garbled", "AAAA", "é", "====", "MDAw\n", "x" * 3000, "\ud800"])
def test_a_forged_cursor_is_refused(store: Store, owner: str, cursor: str, requests: Requests) -> None:
    with pytest.raises(ValueError, match="cursor"):
        store.list(owner, cursor)
    assert requests.sent == []


@ON_MEMORY
def test_a_listed_task_cannot_be_written_to(store: Store, owner: str, begin: Begin) -> None:
    begin()
    with pytest.raises(ValueError, match="read"):
        store.write(store.list(owner).tasks[0], Batch(steps=(completion(0),)))


def test_an_owner_has_no_more_live_tasks_than_allowed(stores: Stores, owner: str, clock: Clock) -> None:
    store = stores(limits=Limits(max_tasks_per_owner=2))
    store.create(NewTask(owner, {}, ttl_ms=1000))
    second_task = store.create(NewTask(owner, {}))
    with pytest.raises(StoreError):
        store.create(NewTask(owner, {}))
    store.create(NewTask(owner + "-other", {}))
    store.cancel(owner, second_task.task_id)
    store.create(NewTask(owner, {}))
    with pytest.raises(StoreError):
        store.create(NewTask(owner, {}))
    # An expired task stays counted until its span of time ends. The shortest span is 64 seconds.
    clock.ms += 1000 + 64_000
    store.create(NewTask(owner, {}))


@pytest.mark.parametrize("ending", ["cancel", "complete", "write"])
def test_an_ended_task_is_not_counted(stores: Stores, owner: str, ending: str) -> None:
    store = stores(limits=Limits(max_tasks_per_owner=1))
    for _ in range(3):
        task = store.create(NewTask(owner, {}))
        with pytest.raises(StoreError, match="1 live task"):
            store.create(NewTask(owner, {}))
        finish(store, task, ending)
        with pytest.raises(TaskFinished):
            finish(store, task, ending)


@ON_MEMORY
@pytest.mark.parametrize(
    ("per_second", "ttls_ms"),
    [(5, (None,)), (0.01, (86_400_000,)), (0.05, (*(1_000 << power for power in range(17)), 50_000_000, 86_400_000))],
    ids=["five a second", "the longest lifetime", "lifetimes of all lengths"],
)
def test_a_count_stays_one_write_unit(
    stores: Stores, engine: Engine, owner: str, clock: Clock, per_second: float, ttls_ms: tuple[int | None, ...]
) -> None:
    store = stores(limits=Limits(max_tasks_per_owner=10_000))
    for ttl_ms in islice(cycle(ttls_ms), 500):
        clock.ms += int(1000 / per_second)
        task = store.create(NewTask(owner, {}, ttl_ms=ttl_ms))
        if task.task_id[-1] < "g":
            store.cancel(owner, task.task_id)
    assert item_size(engine.client.get_item(TableName="tasks", Key=count_key(owner))["Item"]) <= 1024


@NOT_ON_MOTO
@pytest.mark.parametrize(("ttl_ms", "extra_ms"), [(1_000, 64_000), (3_600_000, 450_000), (86_400_000, 10_800_000)])
def test_an_expired_task_stays_counted_for_at_most_an_eighth_of_its_lifetime(
    stores: Stores, engine: Engine, owner: str, clock: Clock, ttl_ms: int, extra_ms: int
) -> None:
    store = stores(limits=Limits(max_tasks_per_owner=1))
    for _ in range(20):
        store.create(NewTask(owner, {}, ttl_ms=ttl_ms))
        clock.ms += ttl_ms - 1
        with pytest.raises(StoreError, match="1 live task"):
            store.create(NewTask(owner, {}))
        clock.ms += extra_ms + 1_000
    count = engine.client.get_item(TableName="tasks", Key=count_key(owner), ConsistentRead=True)["Item"]
    # Spans that are over are removed.
    assert len(count.keys() - {"pk", "sk", "expires_at"}) <= 2


@ON_MEMORY
def test_an_ended_task_is_not_counted_after_the_maximum_lifetime_changed(stores: Stores, owner: str) -> None:
    task = stores(limits=Limits(max_tasks_per_owner=1)).create(NewTask(owner, {}))
    new_store = stores(limits=Limits(max_tasks_per_owner=1, max_ttl_ms=400 * 86_400_000))
    new_store.cancel(owner, task.task_id)
    assert new_store.create(NewTask(owner, {}))


@ON_MEMORY
def test_creation_cost_does_not_depend_on_the_task_count(stores: Stores, owner: str, requests: Requests) -> None:
    store = stores(limits=Limits(max_tasks_per_owner=100))
    for _ in range(30):
        requests.sent.clear()
        store.create(NewTask(owner, {}))
        assert requests.sent == ["GetItem", "UpdateItem", "PutItem"]


def test_a_failed_creation_is_not_counted(stores: Stores, owner: str) -> None:
    store = stores(limits=Limits(max_tasks_per_owner=2), new_id=lambda *_: UNKNOWN_ID)
    store.create(NewTask(owner, {}))
    for _ in range(3):
        with pytest.raises(StoreError, match="id is taken"):
            store.create(NewTask(owner, {}))


def test_a_used_id_is_refused_and_the_first_task_stays(stores: Stores, owner: str) -> None:
    store = stores(new_id=lambda *_: UNKNOWN_ID)
    first_task = store.create(NewTask(owner, {"first": True}))
    with pytest.raises(StoreError):
        store.create(NewTask(owner, {"first": False}))
    assert store.get(owner, UNKNOWN_ID) == first_task


@ON_MEMORY
def test_a_too_long_owner_name_is_refused(store: Store, requests: Requests) -> None:
    with pytest.raises(StoreError, match="longer"):
        store.create(NewTask("é" * 2000, {}))
    assert requests.sent == []


@ON_MEMORY
def test_each_method_is_one_request(stores: Stores, owner: str, requests: Requests, begin: Begin) -> None:
    store = stores()
    task = begin(2)
    assert requests.sent == ["PutItem"]
    store.get(owner, task.task_id)
    store.write(task, Batch(steps=(completion(0),), pauses=(PAUSE,)))
    with pytest.raises(Conflict):
        store.write(task, Batch(steps=(completion(0),)))
    store.list(owner)
    store.cancel(owner, task.task_id)
    with pytest.raises(TaskFinished):
        store.complete(owner, task.task_id, {})
    assert requests.sent[1:] == ["GetItem", "UpdateItem", "UpdateItem", "Query", "UpdateItem", "UpdateItem"]
