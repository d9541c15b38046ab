"""The network fails, or the store: what was written is known, what was not is said (docs/storage.md)."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from threading import Barrier
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.compat import HTTPHeaders
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, ConnectionClosedError, NoRegionError
from botocore.httpsession import URLLib3Session
from moto.core.botocore_stubber import MockRawResponse

from mcp_baton.exceptions import Conflict, StoreError, StoreUnavailable, TaskFinished, TaskNotFound
from mcp_baton.local.dynamodb import http_client
from mcp_baton.tasks.dynamodb.store import DynamoDBTaskStore
from mcp_baton.tasks.ids import new_task_id
from mcp_baton.tasks.record import PROGRESS, NewTask, StepStatus, TaskRecord, TaskStatus
from mcp_baton.tasks.store import Batch, StepWrite, TaskStore

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from tests.store.conftest import Engine, Requests

PENDING, COMPLETED = StepStatus.PENDING, StepStatus.COMPLETED
SOME_ID = new_task_id(0)


@dataclass(slots=True)
class LostReplies:
    """Lets requests land and loses their replies.

    Attributes:
        url: Where to send them; `None` where an engine in this process has answered already.
        times: How many more replies are lost.
        meanwhile: Runs once, between the request that landed and its repetition.
    """

    url: str | None
    times: int = 0
    meanwhile: Callable[[], object] | None = None

    def lose(self, request: AWSPreparedRequest, **_: object) -> None:
        """A handler of botocore's `before-send`."""
        if self.times == 0:
            return
        self.times -= 1
        if self.url is not None:
            with closing(URLLib3Session()) as session:
                session.send(request)
        if self.meanwhile is not None:
            run, self.meanwhile, times, self.times = self.meanwhile, None, self.times, 0
            run()
            self.times = times
        raise ConnectionClosedError(endpoint_url=request.url)


@pytest.fixture
def lost(engine: "Engine", monkeypatch: pytest.MonkeyPatch) -> Iterator[LostReplies]:
    """Loses as many replies as the test asks for; botocore repeats such requests at once."""
    monkeypatch.setattr("botocore.endpoint.time", SimpleNamespace(sleep=lambda _: None))
    replies = LostReplies(engine.url)
    events = engine.client.meta.events
    events.register_last("before-send", replies.lose)
    yield replies
    events.unregister("before-send", replies.lose)


def done(index: int, result: str = "value") -> StepWrite:
    return StepWrite(index, f"s{index}", PENDING, COMPLETED, result)


def statuses(task: TaskRecord) -> list[str]:
    progress = task.variables[PROGRESS]
    assert isinstance(progress, dict)
    return [step["status"] for step in progress["steps"]]


def test_a_creation_whose_reply_is_lost_has_happened(
    store: DynamoDBTaskStore, owner: str, lost: LostReplies, requests: "Requests"
) -> None:
    lost.times = 1
    task = store.create(NewTask(owner, {"a": 1}))
    assert requests.sent == ["PutItem", "PutItem"]
    assert store.get(owner, task.task_id) == task
    assert len(store.list(owner).tasks) == 1


def test_a_batch_whose_reply_is_lost_is_written_once(
    store: DynamoDBTaskStore,
    owner: str,
    begin: Callable[..., TaskRecord],
    lost: LostReplies,
    requests: "Requests",
) -> None:
    task = begin(2)
    requests.sent.clear()
    lost.times = 2
    recorded = store.record(task, Batch(steps=(done(0),), result={"completed": True}))
    assert requests.sent == ["UpdateItem"] * 3
    assert recorded.task == store.get(owner, task.task_id)
    assert (recorded.task.version, recorded.task.status) == (2, TaskStatus.COMPLETED)


@pytest.mark.parametrize("method", ["cancel", "complete"])
def test_an_end_whose_reply_is_lost_is_not_taken_for_anothers(
    store: DynamoDBTaskStore, owner: str, begin: Callable[..., TaskRecord], lost: LostReplies, method: str
) -> None:
    task = begin()
    lost.times = 1
    over = store.cancel(owner, task.task_id) if method == "cancel" else store.complete(owner, task.task_id, {})
    assert over.version == 2
    assert over == store.get(owner, task.task_id)
    with pytest.raises(TaskFinished):
        store.cancel(owner, task.task_id)


def test_a_write_whose_reply_is_lost_is_known_though_others_have_written_since(
    store: DynamoDBTaskStore, begin: Callable[..., TaskRecord], lost: LostReplies
) -> None:
    task = begin(20)
    lost.times = 1
    lost.meanwhile = lambda: [store.record(task, Batch(steps=(done(index),))) for index in range(1, 20)]
    recorded = store.record(task, Batch(steps=(done(0, "mine"),)))
    assert statuses(recorded.task) == ["completed"] * 20
    assert recorded.task.variables["_workflow.result.s0"] == "mine"
    assert recorded.task.version == 21


def test_a_write_whose_reply_is_lost_is_known_though_the_task_has_ended_since(
    store: DynamoDBTaskStore, owner: str, begin: Callable[..., TaskRecord], lost: LostReplies
) -> None:
    task = begin()
    lost.times = 1
    lost.meanwhile = lambda: store.cancel(owner, task.task_id)
    recorded = store.record(task, Batch(steps=(done(0),)))
    assert (recorded.task.status, statuses(recorded.task)) == (TaskStatus.CANCELLED, ["completed"])


def test_a_write_that_lost_the_race_and_then_its_reply_is_still_a_conflict(
    store: DynamoDBTaskStore, begin: Callable[..., TaskRecord], lost: LostReplies
) -> None:
    task = begin()
    store.record(task, Batch(steps=(done(0, "theirs"),)))
    lost.times = 1
    with pytest.raises(Conflict) as conflict:
        store.record(task, Batch(steps=(done(0, "mine"),)))
    assert conflict.value.current.variables["_workflow.result.s0"] == "theirs"


def test_when_every_reply_is_lost_the_store_is_unavailable(
    store: DynamoDBTaskStore, begin: Callable[..., TaskRecord], lost: LostReplies
) -> None:
    task = begin()
    lost.times = 100
    with pytest.raises(StoreUnavailable) as unavailable:
        store.record(task, Batch(steps=(done(0),)))
    assert isinstance(unavailable.value.__cause__, ConnectionClosedError)


def test_an_engine_that_shows_no_item_on_a_failed_condition_is_asked_for_it(
    store: DynamoDBTaskStore,
    owner: str,
    engine: "Engine",
    begin: Callable[..., TaskRecord],
    lost: LostReplies,
) -> None:
    def hide(parsed: dict[str, Any], **_: object) -> None:
        parsed.pop("Item", None)

    engine.client.meta.events.register("after-call.dynamodb.UpdateItem", hide)
    try:
        task = begin(2)
        winner = store.record(task, Batch(steps=(done(0),))).task
        with pytest.raises(Conflict) as conflict:
            store.record(task, Batch(steps=(done(0),)))
        assert conflict.value.current == winner
        with pytest.raises(TaskNotFound):
            store.cancel(owner, SOME_ID)
        lost.times = 1
        assert statuses(store.record(task, Batch(steps=(done(1),))).task) == ["completed", "completed"]
    finally:
        engine.client.meta.events.unregister("after-call.dynamodb.UpdateItem", hide)


def test_an_item_remembers_only_its_latest_writes(store: DynamoDBTaskStore, begin: Callable[..., TaskRecord]) -> None:
    task = begin()
    for number in range(50):
        task = store.record(task, Batch(variables={"number": number})).task
    assert isinstance(task.source, dict)
    assert len(task.source["writes"]["M"]) == 33


CALLS: list[Callable[[TaskStore], object]] = [
    lambda store: store.create(NewTask("owner", {})),
    lambda store: store.get("owner", SOME_ID),
    lambda store: store.list("owner"),
    lambda store: store.cancel("owner", SOME_ID),
    lambda store: store.complete("owner", SOME_ID, {}),
]


@pytest.fixture
def nobody() -> Iterator["DynamoDBClient"]:
    """A client of an endpoint where nobody listens, which tries once."""
    with closing(http_client("http://127.0.0.1:9", Config(retries={"total_max_attempts": 1}))) as client:
        yield client


@pytest.mark.parametrize("call", CALLS, ids=["create", "get", "list", "cancel", "complete"])
def test_a_store_that_is_down_is_unavailable(nobody: "DynamoDBClient", call: Callable[[TaskStore], object]) -> None:
    with pytest.raises(StoreUnavailable) as unavailable:
        call(DynamoDBTaskStore("tasks", lambda: nobody))
    assert isinstance(unavailable.value.__cause__, BotoCoreError)


def test_a_batch_for_a_store_that_is_down_is_unavailable(
    nobody: "DynamoDBClient", begin: Callable[..., TaskRecord]
) -> None:
    with pytest.raises(StoreUnavailable):
        DynamoDBTaskStore("tasks", lambda: nobody).record(begin(), Batch(steps=(done(0),)))


@pytest.mark.parametrize("call", CALLS, ids=["create", "get", "list", "cancel", "complete"])
def test_what_dynamodb_refuses_is_named(engine: "Engine", call: Callable[[TaskStore], object]) -> None:
    with pytest.raises(StoreUnavailable, match="ResourceNotFoundException") as unavailable:
        call(DynamoDBTaskStore("no-such-table", lambda: engine.client))
    assert isinstance(unavailable.value.__cause__, ClientError)


def test_an_answer_that_is_not_dynamodbs_is_unavailable(
    engine: "Engine", store: DynamoDBTaskStore, owner: str, begin: Callable[..., TaskRecord]
) -> None:
    def portal(request: AWSPreparedRequest, **_: object) -> AWSResponse:
        return AWSResponse(request.url, 200, HTTPHeaders(), MockRawResponse("<html>Please log in</html>"))

    task = begin()
    answer: Any = portal
    engine.client.meta.events.register_first("before-send.dynamodb", answer)
    try:
        with pytest.raises(StoreUnavailable):
            store.record(task, Batch(steps=(done(0),)))
        with pytest.raises(StoreUnavailable):
            store.list(owner)
    finally:
        engine.client.meta.events.unregister("before-send.dynamodb", answer)


def test_a_client_that_cannot_be_made_is_unavailable() -> None:
    def connect() -> "DynamoDBClient":
        raise NoRegionError

    with pytest.raises(StoreUnavailable, match="NoRegionError"):
        DynamoDBTaskStore("tasks", connect).get("owner", SOME_ID)


def test_the_client_is_made_once_by_the_first_request(engine: "Engine", threads: ThreadPoolExecutor) -> None:
    made: list[str] = []

    def connect() -> "DynamoDBClient":
        made.append("client")
        return engine.client

    store = DynamoDBTaskStore("tasks", connect)
    assert made == []
    barrier = Barrier(16)

    def listing(owner: int) -> int:
        barrier.wait(60)
        return len(store.list(f"nobody-{owner}").tasks)

    assert list(threads.map(listing, range(16))) == [0] * 16
    assert made == ["client"]


def test_a_damaged_item_is_an_error_that_names_it(store: DynamoDBTaskStore, engine: "Engine", owner: str) -> None:
    task = store.create(NewTask(owner, {"a": 1}))
    assert isinstance(task.source, dict)
    engine.client.put_item(TableName="tasks", Item={**task.source, "status": {"S": "confused"}})
    with pytest.raises(StoreError, match=task.task_id):
        store.get(owner, task.task_id)
    engine.client.put_item(TableName="tasks", Item={**task.source, "variables": {"M": {"a": {"B": b"not zlib"}}}})
    with pytest.raises(StoreError, match="damaged"):
        _ = store.get(owner, task.task_id).variables["a"]
