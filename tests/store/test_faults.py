"""Network errors, lost responses and throttling (docs/storage.md, Lost answers, Throttling)."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, suppress
from threading import Barrier
from typing import TYPE_CHECKING, Any

import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.compat import HTTPHeaders
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, ConnectionClosedError, NoRegionError
from moto.core.botocore_stubber import MockRawResponse

from mcp_baton.exceptions import (
    Conflict,
    OutcomeUnknown,
    StoreBusy,
    StoreError,
    StoreUnavailable,
    TaskFinished,
    TaskNotFound,
)
from mcp_baton.local.dynamodb import http_client
from mcp_baton.tasks.dynamodb.expressions import SETS
from mcp_baton.tasks.dynamodb.store import DynamoDBTaskStore
from mcp_baton.tasks.dynamodb.table import LazyClient, TaskTable
from mcp_baton.tasks.ids import new_task_id, new_token
from mcp_baton.tasks.record import Claim, NewTask, StepStatus, TaskStatus
from mcp_baton.tasks.store import Batch, StepWrite, TaskStore
from mcp_baton.testing.store import refusal
from tests.fakes import Pauses
from tests.sent import Requests
from tests.store.conftest import TABLE, Clock, Engine, LostReplies
from tests.store.given import BUT_EMBEDDED, ON_MEMORY, Begin, Store, Stores, Threads
from tests.store.steps import done, hooked, statuses

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

PENDING, COMPLETED = StepStatus.PENDING, StepStatus.COMPLETED
SOME_ID = new_task_id(0)


def test_a_creation_succeeds_if_its_response_is_lost(
    store: Store, owner: str, lost: LostReplies, requests: Requests
) -> None:
    lost.times = 1
    task = store.create(NewTask(owner, {"a": 1}))
    assert requests.sent == ["PutItem", "PutItem"]
    assert store.get(owner, task.task_id) == task
    assert len(store.list(owner).tasks) == 1


@pytest.mark.parametrize("times", [1, 2, 5])
def test_a_batch_is_written_once_if_its_response_is_lost(
    store: Store, owner: str, begin: Begin, lost: LostReplies, requests: Requests, times: int
) -> None:
    task = begin(2)
    requests.sent.clear()
    lost.times = times
    written = store.write(task, Batch(steps=(done(0),), result={"completed": True}))
    assert requests.sent == ["UpdateItem"] * (times + 1)
    assert written.task == store.get(owner, task.task_id)
    assert (written.task.version, written.task.status) == (2, TaskStatus.COMPLETED)


@pytest.mark.parametrize("method", ["cancel", "complete"])
def test_a_cancellation_or_completion_is_recognised_if_its_response_is_lost(
    store: Store, owner: str, begin: Begin, lost: LostReplies, method: str
) -> None:
    task = begin()
    lost.times = 1
    over = store.cancel(owner, task.task_id) if method == "cancel" else store.complete(owner, task.task_id, {})
    assert over.version == 2
    assert over == store.get(owner, task.task_id)
    with pytest.raises(TaskFinished):
        store.cancel(owner, task.task_id)


@BUT_EMBEDDED
def test_a_write_whose_response_is_lost_is_recognised_after_other_writes(
    store: Store, begin: Begin, lost: LostReplies
) -> None:
    task = begin(20)
    lost.times = 1
    lost.meanwhile = lambda: [store.write(task, Batch(steps=(done(index),))) for index in range(1, 20)]
    written = store.write(task, Batch(steps=(done(0, "mine"),)))
    assert statuses(written.task) == ["completed"] * 20
    assert written.task.variables["_workflow.result.s0"] == "mine"
    assert written.task.version == 21


def test_a_write_whose_response_is_lost_is_recognised_after_the_task_has_ended(
    store: Store, owner: str, begin: Begin, lost: LostReplies
) -> None:
    task = begin()
    lost.times = 1
    lost.meanwhile = lambda: store.cancel(owner, task.task_id)
    written = store.write(task, Batch(steps=(done(0),)))
    assert (written.task.status, statuses(written.task)) == (TaskStatus.CANCELLED, ["completed"])


def test_a_lost_race_whose_response_is_lost_is_a_conflict(store: Store, begin: Begin, lost: LostReplies) -> None:
    task = begin()
    store.write(task, Batch(steps=(done(0, "theirs"),)))
    lost.times = 1
    with pytest.raises(Conflict) as conflict:
        store.write(task, Batch(steps=(done(0, "mine"),)))
    assert conflict.value.current.variables["_workflow.result.s0"] == "theirs"


@ON_MEMORY
def test_the_item_is_read_if_a_failed_condition_does_not_return_it(
    store: Store, owner: str, engine: Engine, begin: Begin, lost: LostReplies
) -> None:
    def hide(parsed: dict[str, Any], **_: object) -> None:
        parsed.pop("Item", None)

    with hooked(engine.client, "after-call.dynamodb.UpdateItem", hide):
        task = begin(2)
        winner = store.write(task, Batch(steps=(done(0),))).task
        with pytest.raises(Conflict) as conflict:
            store.write(task, Batch(steps=(done(0),)))
        assert conflict.value.current == winner
        with pytest.raises(TaskNotFound):
            store.cancel(owner, SOME_ID)
        lost.times = 1
        assert statuses(store.write(task, Batch(steps=(done(1),))).task) == ["completed", "completed"]


def test_a_retry_whose_condition_still_holds_is_not_applied_twice(
    store: Store, begin: Begin, lost: LostReplies
) -> None:
    """An older result never replaces a newer one."""
    task = store.write(begin(), Batch(steps=(done(0, "first"),))).task
    again = [StepWrite(0, "s0", COMPLETED, COMPLETED, result) for result in ("older", "newer")]
    lost.times = 1
    lost.meanwhile = lambda: store.write(task, Batch(steps=(again[1],)))
    written = store.write(task, Batch(steps=(again[0],)))
    assert written.task.variables["_workflow.result.s0"] == "newer"
    assert written.task.version == 4


@BUT_EMBEDDED
def test_a_retry_in_the_next_minute_is_not_applied_twice(
    store: Store, begin: Begin, lost: LostReplies, clock: Clock
) -> None:
    task = begin()
    clock.ms += 59_999

    def later() -> None:
        clock.ms += 30_000
        for number in range(40):
            store.write(task, Batch(variables={"number": number}))

    lost.times, lost.meanwhile = 1, later
    assert store.write(task, Batch(variables={"mine": 1})).task.version == 42


@ON_MEMORY
@pytest.mark.parametrize("minutes", range(1, 11))
def test_a_write_is_recognised_if_the_writers_clocks_differ_by_ten_minutes(
    stores: Stores, begin: Begin, lost: LostReplies, clock: Clock, minutes: int
) -> None:
    """One clock is up to five minutes fast, the other up to five minutes slow."""
    task = begin(1, ttl_ms=3_600_000)
    off_ms = minutes * 30_000
    fast, slow = stores(clock_ms=lambda: clock.ms + off_ms), stores(clock_ms=lambda: clock.ms - off_ms)
    for late, other in ((fast, slow), (slow, fast)):
        before = other.get(task.owner, task.task_id).version
        lost.times, lost.meanwhile = 1, lambda other=other: other.write(task, Batch(variables={"theirs": 1}))
        assert late.write(task, Batch(variables={"mine": 1})).task.version == before + 2


@BUT_EMBEDDED
def test_an_item_forgets_tokens_after_fifteen_minutes(store: Store, begin: Begin, clock: Clock) -> None:
    task = begin()
    for _ in range(90):
        task = store.write(task, Batch(variables={"a": 1})).task
        clock.ms += 20_000
    assert isinstance(task.source, dict)
    assert sum(len(task.source[name]["BS"]) for name in SETS if name in task.source) <= 15 * 61 / 20 + 1


@ON_MEMORY
def test_the_outcome_is_unknown_if_all_responses_are_lost(
    store: Store, begin: Begin, lost: LostReplies, pauses: Pauses
) -> None:
    task = begin()
    lost.times = 1_000
    with pytest.raises(OutcomeUnknown) as unknown:
        store.write(task, Batch(steps=(done(0),)))
    assert isinstance(unknown.value.__cause__, ConnectionClosedError)
    assert sum(pauses.taken) < 30
    lost.times = 0
    assert store.get(task.owner, task.task_id).version == 2


@ON_MEMORY
def test_the_outcome_is_unknown_if_the_response_is_lost_and_the_task_is_gone(
    store: Store, engine: Engine, begin: Begin, lost: LostReplies
) -> None:
    def delete() -> None:
        assert isinstance(task.source, dict)
        engine.client.delete_item(TableName=TABLE, Key={name: task.source[name] for name in ("pk", "sk")})

    task = begin()
    lost.times, lost.meanwhile = 1, delete
    with pytest.raises(OutcomeUnknown, match="the task is gone"):
        store.write(task, Batch(steps=(done(0),)))
    with pytest.raises(TaskNotFound):
        store.write(task, Batch(steps=(done(0),)))


@ON_MEMORY
def test_an_unknown_creation_returns_the_task_that_may_exist(store: Store, owner: str, lost: LostReplies) -> None:
    lost.times = 1_000
    with pytest.raises(OutcomeUnknown) as unknown:
        store.create(NewTask(owner, {"a": 1}))
    lost.times = 0
    assert unknown.value.current is not None
    assert store.get(owner, unknown.value.current.task_id) == unknown.value.current


CLAIM = Claim("r", 5_000_000_000_000)


@ON_MEMORY
@pytest.mark.parametrize(
    ("batch", "left_ms", "attempts"),
    [
        (Batch(steps=(done(0),)), 1_300, 1),
        (Batch(steps=(done(0),)), 2_500, 2),
        (Batch(steps=(done(0),), claim=CLAIM, release=True), 2_500, 2),
        (Batch(steps=(done(0),), claim=CLAIM), 5_000, 1),
        (Batch(steps=(done(0),), claim=CLAIM), 5_500, 2),
    ],
    ids=["time for one", "a call", "the end of a run", "a checkpoint without time for the end", "a checkpoint"],
)
def test_no_retry_outlasts_the_function(
    store: Store,
    begin: Begin,
    lost: LostReplies,
    requests: Requests,
    pauses: Pauses,
    batch: Batch,
    left_ms: int,
    attempts: int,
) -> None:
    """Each attempt takes up to one second here. The reply needs 0.3 s, and a checkpoint leaves 3 s for the run's
    end."""
    task, began_s = begin(claim=CLAIM), pauses.s
    requests.take()
    lost.times = 1_000

    def hang() -> None:
        pauses.s += 1.0
        lost.meanwhile = hang

    lost.meanwhile = hang
    bounded = store.within(lambda: left_ms - int((pauses.s - began_s) * 1000))
    with pytest.raises(OutcomeUnknown):
        bounded.write(task, batch)
    assert pauses.s - began_s <= max(left_ms / 1000 - 0.3, 1.0)
    assert requests.take() == ["UpdateItem"] * attempts


@ON_MEMORY
def test_a_refused_write_is_read_back_within_the_time_of_the_write(
    store: Store, engine: Engine, owner: str, pauses: Pauses
) -> None:
    """`tasks/cancel` has 10 s. Here, DynamoDB rejects the condition after 9 s."""
    throttled = "ThrottlingException"
    with (
        refusing(engine, "UpdateItem", throttled, during=lambda: pauses.s < 9.0),
        refusing(engine, "GetItem", throttled),
        pytest.raises(OutcomeUnknown, match="could not be read"),
    ):
        store.cancel(owner, SOME_ID)
    assert 9.0 <= pauses.s < 10.0


CALLS: list[Callable[[TaskStore], object]] = [
    lambda store: store.create(NewTask("owner", {})),
    lambda store: store.get("owner", SOME_ID),
    lambda store: store.list("owner"),
    lambda store: store.cancel("owner", SOME_ID),
    lambda store: store.complete("owner", SOME_ID, {}),
]


@ON_MEMORY
@pytest.mark.parametrize("call", CALLS, ids=["create", "get", "list", "cancel", "complete"])
def test_no_first_attempt_is_made_without_time_for_it_and_the_reply(
    store: Store, requests: Requests, call: Callable[[TaskStore], object]
) -> None:
    with pytest.raises(StoreUnavailable, match="nothing was sent") as refused:
        call(store.within(lambda: 1_299))
    assert not isinstance(refused.value, OutcomeUnknown)
    assert requests.take() == []
    with suppress(TaskNotFound):
        call(store.within(lambda: 1_300))
    assert requests.take() != []


@ON_MEMORY
@pytest.mark.parametrize("code", ["ProvisionedThroughputExceededException", "ThrottlingException"])
def test_a_throttled_creation_is_refused_as_busy_after_half_a_second(
    stores: Stores, owner: str, engine: Engine, pauses: Pauses, code: str
) -> None:
    with refusing(engine, "PutItem", code), pytest.raises(StoreBusy) as busy:
        stores(rng=lambda: 0.99).create(NewTask(owner, {}))
    assert 0.15 < pauses.s < 0.5
    assert 1_000 <= busy.value.retry_after_ms < 2_000


@ON_MEMORY
@pytest.mark.parametrize(("held", "budget_s"), [(False, 10.0), (True, 20.0)], ids=["continuation", "end of a run"])
def test_a_throttled_write_is_retried_for_its_time(
    stores: Stores, begin: Begin, engine: Engine, pauses: Pauses, held: bool, budget_s: float
) -> None:
    store, task = stores(), begin(claim=CLAIM)
    with refusing(engine, "UpdateItem", "ThrottlingException"), pytest.raises(StoreBusy):
        store.write(task, Batch(variables={"a": 1}, claim=CLAIM if held else None))
    assert budget_s - 1.0 <= pauses.s < budget_s


@ON_MEMORY
@pytest.mark.parametrize(
    ("code", "failure"),
    [("InternalServerError", OutcomeUnknown), ("AccessDeniedException", StoreUnavailable)],
)
def test_a_server_error_is_an_unknown_outcome_and_a_refusal_is_not(
    store: Store, begin: Begin, engine: Engine, code: str, failure: type[StoreUnavailable]
) -> None:
    task = begin()
    with refusing(engine, "UpdateItem", code), pytest.raises(StoreUnavailable) as refused:
        store.write(task, Batch(variables={"a": 1}))
    assert type(refused.value) is failure


def refusing(
    engine: Engine, operation: str, code: str, during: Callable[[], bool] = lambda: True
) -> AbstractContextManager[None]:
    """Make the engine reject an operation with this error while `during` returns true."""
    return hooked(engine.client, f"before-call.dynamodb.{operation}", lambda **_: refusal(code) if during() else None)


@pytest.fixture
def unreachable() -> Iterator["DynamoDBClient"]:
    """A client of an endpoint without a server. It makes one attempt per request."""
    with closing(http_client("http://127.0.0.1:9", Config(retries={"total_max_attempts": 1}))) as client:
        yield client


def unconnected(unreachable: "DynamoDBClient", pauses: Pauses) -> Store:
    table = TaskTable("tasks", LazyClient(lambda: unreachable), monotonic=pauses.monotonic, sleep=pauses.sleep)
    return DynamoDBTaskStore(table)


@pytest.mark.parametrize("call", CALLS, ids=["create", "get", "list", "cancel", "complete"])
def test_a_store_that_is_down_is_unavailable(
    unreachable: "DynamoDBClient", call: Callable[[TaskStore], object], pauses: Pauses
) -> None:
    with pytest.raises(StoreUnavailable) as unavailable:
        call(unconnected(unreachable, pauses))
    assert isinstance(unavailable.value.__cause__, BotoCoreError)


@ON_MEMORY
def test_a_batch_for_a_store_that_is_down_is_unavailable(
    unreachable: "DynamoDBClient", begin: Begin, pauses: Pauses
) -> None:
    store = unconnected(unreachable, pauses)
    with pytest.raises(StoreUnavailable) as unavailable:
        store.write(begin(), Batch(steps=(done(0),)))
    assert not isinstance(unavailable.value, OutcomeUnknown)


@pytest.mark.parametrize("call", CALLS, ids=["create", "get", "list", "cancel", "complete"])
def test_a_refusal_names_dynamodbs_error(engine: Engine, call: Callable[[TaskStore], object]) -> None:
    with pytest.raises(StoreUnavailable, match="ResourceNotFoundException") as unavailable:
        call(DynamoDBTaskStore(TaskTable("no-such-table", LazyClient(lambda: engine.client))))
    assert isinstance(unavailable.value.__cause__, ClientError)


@ON_MEMORY
def test_a_response_of_a_proxy_is_unavailable(engine: Engine, store: Store, owner: str, begin: Begin) -> None:
    def portal(request: AWSPreparedRequest, **_: object) -> AWSResponse:
        return AWSResponse(request.url, 200, HTTPHeaders(), MockRawResponse("<html>Please log in</html>"))

    task = begin()
    with hooked(engine.client, "before-send.dynamodb", portal):
        with pytest.raises(StoreUnavailable):
            store.write(task, Batch(steps=(done(0),)))
        with pytest.raises(StoreUnavailable):
            store.list(owner)


def test_a_client_that_cannot_be_created_is_unavailable() -> None:
    def connect() -> "DynamoDBClient":
        raise NoRegionError

    with pytest.raises(StoreUnavailable, match="NoRegionError"):
        DynamoDBTaskStore(TaskTable("tasks", LazyClient(connect))).get("owner", SOME_ID)


@ON_MEMORY
def test_the_first_request_creates_the_client_once(engine: Engine, threads: Threads) -> None:
    made: list[str] = []

    def connect() -> "DynamoDBClient":
        made.append("client")
        return engine.client

    store = DynamoDBTaskStore(TaskTable("tasks", LazyClient(connect)))
    assert made == []
    barrier = Barrier(16)

    def listing(owner: int) -> int:
        barrier.wait(60)
        return len(store.list(f"nobody-{owner}").tasks)

    assert list(threads.map(listing, range(16))) == [0] * 16
    assert made == ["client"]


@ON_MEMORY
def test_a_damaged_item_is_an_error_that_names_it(store: Store, engine: Engine, owner: str) -> None:
    task = store.create(NewTask(owner, {"a": 1}))
    assert isinstance(task.source, dict)
    engine.client.put_item(TableName="tasks", Item={**task.source, "status": {"S": "confused"}})
    with pytest.raises(StoreError, match=task.task_id):
        store.get(owner, task.task_id)
    engine.client.put_item(TableName="tasks", Item={**task.source, "variables": {"M": {"a": {"B": b"not zlib"}}}})
    with pytest.raises(StoreError, match="damaged"):
        _ = store.get(owner, task.task_id).variables["a"]


def test_a_late_attempt_is_not_applied_after_a_later_decision(store: Store, begin: Begin, clock: Clock) -> None:
    """Writes with one token are applied once, even if a later attempt comes in another minute."""
    task = begin(2)
    token = (new_token(), clock.ms)
    clock.ms += 60_000
    after = store.write(task, Batch(steps=(done(1),), token=token)).task
    late = store.write(task, Batch(steps=(done(0),), token=token)).task
    assert late == after == store.get(task.owner, task.task_id)
    assert statuses(after) == ["pending", "completed"]


def test_a_conflict_returns_the_token_of_the_write(store: Store, begin: Begin, clock: Clock) -> None:
    task, token = begin(2), (new_token(), clock.ms)
    store.write(task, Batch(steps=(done(0),)))
    clock.ms += 60_000
    with pytest.raises(Conflict) as named_before:
        store.write(task, Batch(steps=(done(0),), token=token))
    with pytest.raises(Conflict) as named_now:
        store.write(task, Batch(steps=(done(0),)))

    assert named_before.value.token == token
    assert named_now.value.token is not None
    assert named_now.value.token[1] == clock.ms
