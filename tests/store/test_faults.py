"""Network errors, lost responses and throttling (ARCHITECTURE.md, Lost answers, Throttling)."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, suppress
from threading import Barrier
from typing import TYPE_CHECKING, Any

import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.compat import HTTPHeaders
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoRegionError
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
from mcp_baton.stores import DynamoDBStore
from mcp_baton.tasks.dynamodb.expressions import TOKEN_SETS
from mcp_baton.tasks.dynamodb.table import LazyClient, TaskTable
from mcp_baton.tasks.ids import new_task_id, new_token
from mcp_baton.tasks.record import Claim, NewTask, StepStatus, TaskStatus
from mcp_baton.tasks.store import Batch, StepWrite, TaskStore
from mcp_baton.testing.store import refusal
from tests.fakes import Pauses
from tests.sent import Requests
from tests.store.conftest import TABLE, Clock, Engine, LostReplies
from tests.store.fixture_types import NOT_ON_MOTO, ON_MEMORY, Begin, Store, Stores, Threads
from tests.store.steps import completion, hook, statuses

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

PENDING, COMPLETED = StepStatus.PENDING, StepStatus.COMPLETED
SOME_ID = new_task_id(0)


def test_a_creation_may_lose_its_response(store: Store, owner: str, losses: LostReplies, requests: Requests) -> None:
    losses.times = 1
    task = store.create(NewTask(owner, {"a": 1}))
    assert requests.sent == ["PutItem", "PutItem"]
    assert store.get(owner, task.task_id) == task
    assert len(store.list(owner).tasks) == 1


@pytest.mark.parametrize("times", [1, 2, 5])
def test_a_batch_is_written_once_if_its_response_is_lost(
    store: Store, owner: str, begin: Begin, losses: LostReplies, requests: Requests, times: int
) -> None:
    task = begin(2)
    requests.sent.clear()
    losses.times = times
    outcome = store.write(task, Batch(steps=(completion(0),), result={"completed": True}))
    assert requests.sent == ["UpdateItem"] * (times + 1)
    assert outcome == store.get(owner, task.task_id)
    assert (outcome.version, outcome.status) == (2, TaskStatus.COMPLETED)


@pytest.mark.parametrize("method", ["cancel", "complete"])
def test_a_cancellation_or_completion_is_recognised_if_its_response_is_lost(
    store: Store, owner: str, begin: Begin, losses: LostReplies, method: str
) -> None:
    task = begin()
    losses.times = 1
    ended_task = store.cancel(owner, task.task_id) if method == "cancel" else store.complete(owner, task.task_id, {})
    assert ended_task.version == 2
    assert ended_task == store.get(owner, task.task_id)
    with pytest.raises(TaskFinished):
        store.cancel(owner, task.task_id)


@ON_MEMORY
def test_the_item_is_read_if_a_failed_condition_does_not_return_it(
    store: Store, owner: str, engine: Engine, begin: Begin, losses: LostReplies
) -> None:
    def hide(parsed: dict[str, Any], **_: object) -> None:
        parsed.pop("Item", None)

    with hook(engine.client, "after-call.dynamodb.UpdateItem", hide):
        task = begin(2)
        winner = store.write(task, Batch(steps=(completion(0),)))
        with pytest.raises(Conflict) as conflict:
            store.write(task, Batch(steps=(completion(0),)))
        assert conflict.value.current == winner
        with pytest.raises(TaskNotFound):
            store.cancel(owner, SOME_ID)
        losses.times = 1
        assert statuses(store.write(task, Batch(steps=(completion(1),)))) == ["completed", "completed"]


def test_a_retry_whose_condition_still_holds_is_applied_once(store: Store, begin: Begin, losses: LostReplies) -> None:
    """An older result never replaces a newer one."""
    task = store.write(begin(), Batch(steps=(completion(0, "first"),)))
    replacements = [StepWrite(0, "s0", COMPLETED, COMPLETED, result) for result in ("older", "newer")]
    losses.times = 1
    losses.meanwhile = lambda: store.write(task, Batch(steps=(replacements[1],)))
    outcome = store.write(task, Batch(steps=(replacements[0],)))
    assert outcome.variables["_workflow.result.s0"] == "newer"
    assert outcome.version == 4


@ON_MEMORY
@pytest.mark.parametrize("minutes", range(1, 11))
def test_a_write_is_recognised_if_the_writers_clocks_differ_by_ten_minutes(
    stores: Stores, begin: Begin, losses: LostReplies, clock: Clock, minutes: int
) -> None:
    """One clock is up to five minutes fast, the other up to five minutes slow."""
    task = begin(1, ttl_ms=3_600_000)
    skew_ms = minutes * 30_000
    fast_store, slow_store = stores(clock_ms=lambda: clock.ms + skew_ms), stores(clock_ms=lambda: clock.ms - skew_ms)
    for writer, rival in ((fast_store, slow_store), (slow_store, fast_store)):
        version = rival.get(task.owner, task.task_id).version
        losses.times, losses.meanwhile = 1, lambda rival=rival: rival.write(task, Batch(variables={"theirs": 1}))
        assert writer.write(task, Batch(variables={"mine": 1})).version == version + 2


@NOT_ON_MOTO
def test_an_item_forgets_tokens_after_fifteen_minutes(store: Store, begin: Begin, clock: Clock) -> None:
    task = begin()
    for _ in range(90):
        task = store.write(task, Batch(variables={"a": 1}))
        clock.ms += 20_000
    assert isinstance(task.source, dict)
    assert sum(len(task.source[name]["BS"]) for name in TOKEN_SETS if name in task.source) <= 15 * 61 / 20 + 1


@ON_MEMORY
def test_the_outcome_is_unknown_if_the_response_is_lost_and_the_task_is_gone(
    store: Store, engine: Engine, begin: Begin, losses: LostReplies
) -> None:
    def delete() -> None:
        assert isinstance(task.source, dict)
        engine.client.delete_item(TableName=TABLE, Key={name: task.source[name] for name in ("pk", "sk")})

    task = begin()
    losses.times, losses.meanwhile = 1, delete
    with pytest.raises(OutcomeUnknown, match="the task is gone"):
        store.write(task, Batch(steps=(completion(0),)))
    with pytest.raises(TaskNotFound):
        store.write(task, Batch(steps=(completion(0),)))


@ON_MEMORY
def test_an_unknown_creation_returns_the_task_that_may_exist(store: Store, owner: str, losses: LostReplies) -> None:
    losses.times = 1_000
    with pytest.raises(OutcomeUnknown) as error_info:
        store.create(NewTask(owner, {"a": 1}))
    losses.times = 0
    assert error_info.value.current is not None
    assert store.get(owner, error_info.value.current.task_id) == error_info.value.current


CLAIM = Claim("r", 5_000_000_000_000)


@ON_MEMORY
@pytest.mark.parametrize(
    ("batch", "remaining_ms", "attempts"),
    [
        (Batch(steps=(completion(0),)), 1_300, 1),
        (Batch(steps=(completion(0),)), 2_500, 2),
        (Batch(steps=(completion(0),), claim=CLAIM, release=True), 2_500, 2),
        (Batch(steps=(completion(0),), claim=CLAIM), 5_000, 1),
        (Batch(steps=(completion(0),), claim=CLAIM), 5_500, 2),
    ],
    ids=["time for one", "a call", "the end of a run", "a checkpoint without time for the end", "a checkpoint"],
)
def test_no_retry_outlasts_the_function(
    store: Store,
    begin: Begin,
    losses: LostReplies,
    requests: Requests,
    pauses: Pauses,
    batch: Batch,
    remaining_ms: int,
    attempts: int,
) -> None:
    """Each attempt takes up to one second here. The reply needs 0.3 s, and a checkpoint leaves 3 s for the run's
    end."""
    task, start_s = begin(claim=CLAIM), pauses.s
    requests.take()
    losses.times = 1_000

    def hang() -> None:
        pauses.s += 1.0
        losses.meanwhile = hang

    losses.meanwhile = hang
    limited_store = store.within(lambda: remaining_ms - int((pauses.s - start_s) * 1000))
    with pytest.raises(OutcomeUnknown):
        limited_store.write(task, batch)
    assert pauses.s - start_s <= max(remaining_ms / 1000 - 0.3, 1.0)
    assert requests.take() == ["UpdateItem"] * attempts


@ON_MEMORY
def test_a_refused_write_is_read_back_within_the_time_of_the_write(
    store: Store, engine: Engine, owner: str, pauses: Pauses
) -> None:
    """`tasks/cancel` has 10 s. Here, DynamoDB rejects the condition after 9 s."""
    code = "ThrottlingException"
    with (
        rejection(engine, "UpdateItem", code, condition=lambda: pauses.s < 9.0),
        rejection(engine, "GetItem", code),
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
    with pytest.raises(StoreUnavailable, match="nothing was sent") as error_info:
        call(store.within(lambda: 1_299))
    assert not isinstance(error_info.value, OutcomeUnknown)
    assert requests.take() == []
    with suppress(TaskNotFound):
        call(store.within(lambda: 1_300))
    assert requests.take() != []


@ON_MEMORY
@pytest.mark.parametrize("code", ["ProvisionedThroughputExceededException", "ThrottlingException"])
def test_a_throttled_creation_is_refused_as_busy_after_half_a_second(
    stores: Stores, owner: str, engine: Engine, pauses: Pauses, code: str
) -> None:
    with rejection(engine, "PutItem", code), pytest.raises(StoreBusy) as error_info:
        stores(rng=lambda: 0.99).create(NewTask(owner, {}))
    assert 0.15 < pauses.s < 0.5
    assert 1_000 <= error_info.value.retry_after_ms < 2_000


@ON_MEMORY
@pytest.mark.parametrize(("has_claim", "budget_s"), [(False, 10.0), (True, 20.0)], ids=["continuation", "end of a run"])
def test_a_throttled_write_is_retried_for_its_time(
    stores: Stores, begin: Begin, engine: Engine, pauses: Pauses, has_claim: bool, budget_s: float
) -> None:
    store, task = stores(), begin(claim=CLAIM)
    with rejection(engine, "UpdateItem", "ThrottlingException"), pytest.raises(StoreBusy):
        store.write(task, Batch(variables={"a": 1}, claim=CLAIM if has_claim else None))
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
    with rejection(engine, "UpdateItem", code), pytest.raises(StoreUnavailable) as error_info:
        store.write(task, Batch(variables={"a": 1}))
    assert type(error_info.value) is failure


def rejection(
    engine: Engine, operation: str, code: str, condition: Callable[[], bool] = lambda: True
) -> AbstractContextManager[None]:
    return hook(engine.client, f"before-call.dynamodb.{operation}", lambda **_: refusal(code) if condition() else None)


@pytest.fixture
def unreachable_client() -> Iterator["DynamoDBClient"]:
    """A client of an endpoint without a server. It makes one attempt per request."""
    with closing(http_client("http://127.0.0.1:9", Config(retries={"total_max_attempts": 1}))) as client:
        yield client


def unconnected_store(unreachable_client: "DynamoDBClient", pauses: Pauses) -> Store:
    table = TaskTable("tasks", LazyClient(lambda: unreachable_client), monotonic=pauses.monotonic, sleep=pauses.sleep)
    return DynamoDBStore(table)


@pytest.mark.parametrize("call", CALLS, ids=["create", "get", "list", "cancel", "complete"])
def test_a_store_that_is_down_is_unavailable(
    unreachable_client: "DynamoDBClient", call: Callable[[TaskStore], object], pauses: Pauses
) -> None:
    with pytest.raises(StoreUnavailable) as error_info:
        call(unconnected_store(unreachable_client, pauses))
    assert isinstance(error_info.value.__cause__, BotoCoreError)


@pytest.mark.parametrize("call", CALLS, ids=["create", "get", "list", "cancel", "complete"])
def test_a_refusal_names_dynamodbs_error(engine: Engine, call: Callable[[TaskStore], object]) -> None:
    with pytest.raises(StoreUnavailable, match="ResourceNotFoundException") as error_info:
        call(DynamoDBStore(TaskTable("no-such-table", LazyClient(lambda: engine.client))))
    assert isinstance(error_info.value.__cause__, ClientError)


@ON_MEMORY
def test_a_response_of_a_proxy_is_unavailable(engine: Engine, store: Store, owner: str, begin: Begin) -> None:
    def portal(request: AWSPreparedRequest, **_: object) -> AWSResponse:
        return AWSResponse(request.url, 200, HTTPHeaders(), MockRawResponse("<html>Please log in</html>"))

    task = begin()
    with hook(engine.client, "before-send.dynamodb", portal):
        with pytest.raises(StoreUnavailable):
            store.write(task, Batch(steps=(completion(0),)))
        with pytest.raises(StoreUnavailable):
            store.list(owner)


def test_a_client_that_cannot_be_created_is_unavailable() -> None:
    def connect() -> "DynamoDBClient":
        raise NoRegionError

    with pytest.raises(StoreUnavailable, match="NoRegionError"):
        DynamoDBStore(TaskTable("tasks", LazyClient(connect))).get("owner", SOME_ID)


@ON_MEMORY
def test_the_first_request_creates_the_client_once(engine: Engine, threads: Threads) -> None:
    clients: list[str] = []

    def connect() -> "DynamoDBClient":
        clients.append("client")
        return engine.client

    store = DynamoDBStore(TaskTable("tasks", LazyClient(connect)))
    assert clients == []
    barrier = Barrier(16)

    def count_tasks(owner: int) -> int:
        barrier.wait(60)
        return len(store.list(f"nobody-{owner}").tasks)

    assert list(threads.map(count_tasks, range(16))) == [0] * 16
    assert clients == ["client"]


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
    changed_task = store.write(task, Batch(steps=(completion(1),), token=token))
    late_task = store.write(task, Batch(steps=(completion(0),), token=token))
    assert late_task == changed_task == store.get(task.owner, task.task_id)
    assert statuses(changed_task) == ["pending", "completed"]


def test_a_conflict_returns_the_token_of_the_write(store: Store, begin: Begin, clock: Clock) -> None:
    task, token = begin(2), (new_token(), clock.ms)
    store.write(task, Batch(steps=(completion(0),)))
    clock.ms += 60_000
    with pytest.raises(Conflict) as first_conflict:
        store.write(task, Batch(steps=(completion(0),), token=token))
    with pytest.raises(Conflict) as second_conflict:
        store.write(task, Batch(steps=(completion(0),)))

    assert first_conflict.value.token == token
    assert second_conflict.value.token is not None
    assert second_conflict.value.token[1] == clock.ms
