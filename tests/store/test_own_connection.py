"""The store over Baton's own connection to DynamoDB: it sees what it sees through botocore's client."""

import socket
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from botocore.config import Config

from mcp_baton.dynamodb.by_botocore import BotocoreClient
from mcp_baton.dynamodb.connections import Endpoint
from mcp_baton.dynamodb.direct import DirectClient
from mcp_baton.dynamodb.requests import NoAnswer, RequestFailed, Requests
from mcp_baton.exceptions import OutcomeUnknown, StoreBusy, StoreUnavailable
from mcp_baton.local.dynamodb import create_table, embedded_client, embedded_engine, http_client
from mcp_baton.local.engine_http import loopback_answer
from mcp_baton.local.loopback import LoopbackServer
from mcp_baton.tasks.dynamodb.expressions import Update
from mcp_baton.tasks.dynamodb.failures import ItemTooLarge, Unreached
from mcp_baton.tasks.dynamodb.items import Limits
from mcp_baton.tasks.dynamodb.patience import Patience
from mcp_baton.tasks.dynamodb.store import DynamoDBTaskStore
from mcp_baton.tasks.dynamodb.table import ConditionFailed, TaskTable
from mcp_baton.tasks.ids import new_token
from mcp_baton.tasks.record import PROGRESS, NewTask, StepStatus
from mcp_baton.tasks.store import Batch, StepWrite
from tests.store.conftest import TABLE
from tests.unit.dynamodb.scripted import CLOSE, HANG, Told, ok, raw, refusal, scripted

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

KEYS = {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local"}
TIMEOUT_S = 0.3
ONCE = Patience(throttled_s=0.0, unanswered_s=0.0)
OWNER = "Zoë 🎉 \u2028"
KEY = {"pk": {"S": f"OWNER#{OWNER}"}, "sk": {"S": "TASK#ü"}}
OTHER = {"pk": KEY["pk"], "sk": {"S": "TASK#ý"}}
ITEM: Any = {
    **KEY,
    "text": {"S": "Grüße 🎉"},
    "bytes": {"B": b"\x1f\x8b\x00\xff"},
    "tokens": {"BS": [b"token"]},
    "map": {"M": {"B": {"S": "x"}, "BS": {"L": [{"B": b"\x00"}, {"NULL": True}, {"BOOL": False}, {"N": "1.5"}]}}},
    "texts": {"SS": ["a"]},
}


def own(url: str, timeout_s: float = 10.0) -> DirectClient:
    parts = urlsplit(url)
    endpoint = Endpoint("us-east-1", parts.hostname or "", parts.port or 80)
    return DirectClient(endpoint, KEYS, connect_timeout_s=timeout_s, read_timeout_s=timeout_s)


@pytest.fixture(params=["embedded", "dynamodb_local"])
def served(request: pytest.FixtureRequest) -> "Iterator[tuple[str, DynamoDBClient]]":
    """An engine over HTTP with the task table, and botocore's client of it."""
    if request.param != "embedded":
        engine = request.getfixturevalue(f"{request.param}_engine")
        yield engine.url, engine.client
        return
    with served_engine() as url, closing(http_client(url)) as client:
        yield url, client


@contextmanager
def served_engine() -> Iterator[str]:
    """The URL of an embedded engine with the task table."""
    engine = embedded_engine()
    with closing(embedded_client(engine)) as client, closing(LoopbackServer(loopback_answer(engine))) as server:
        create_table(client, TABLE)
        yield f"http://{server.address}"


def outcome(requests: Requests, operation: str, parameters: Mapping[str, Any]) -> Any:
    """An answer without what is botocore's own, or what a failure says."""
    try:
        answer = dict(requests.request(operation, {"TableName": TABLE, **parameters}))
    except RequestFailed as error:
        told = vars(error)
        return type(error), {name: told[name] for name in ("code", "status", "item") if name in told}
    answer.pop("ResponseMetadata", None)
    return answer


CONDITION = {"ConditionExpression": "attribute_not_exists(pk)", "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
NEW = {"ExpressionAttributeNames": {"#n": "née"}, "ExpressionAttributeValues": {":b": {"B": b"\x80"}}}
QUERY = {"KeyConditionExpression": "pk = :pk", "ExpressionAttributeValues": {":pk": KEY["pk"]}, "ConsistentRead": True}
SEQUENCE: list[tuple[str, dict[str, Any]]] = [
    ("GetItem", {"Key": KEY}),
    ("PutItem", {"Item": ITEM, **CONDITION}),
    ("PutItem", {"Item": ITEM, **CONDITION}),
    ("PutItem", {"Item": {**OTHER, "large": {"S": "x" * 300_000}}}),
    ("GetItem", {"Key": KEY, "ConsistentRead": True}),
    ("GetItem", {"Key": KEY, "ProjectionExpression": "#a", "ExpressionAttributeNames": {"#a": "bytes"}}),
    ("UpdateItem", {"Key": KEY, "UpdateExpression": "SET #n = :b", "ReturnValues": "ALL_NEW", **NEW}),
    ("UpdateItem", {"Key": KEY, "UpdateExpression": "SET #n = :b", "ReturnValues": "UPDATED_NEW", **NEW}),
    ("UpdateItem", {"Key": KEY, "UpdateExpression": "SET #n = :b", **NEW, **CONDITION}),
    ("Query", QUERY),
    ("Query", {**QUERY, "Limit": 1}),
    ("Query", {**QUERY, "Limit": 1, "ExclusiveStartKey": KEY}),
    ("PutItem", {"Item": {**OTHER, "large": {"S": "x" * 450_000}}}),
    ("GetItem", {"Key": {"pk": {"S": "no sort key"}}}),
    ("GetItem", {"Key": KEY, "TableName": "no-such-table"}),
    ("DeleteItem", {"Key": KEY}),
    ("DeleteItem", {"Key": KEY}),
    ("DeleteItem", {"Key": OTHER}),
    ("Query", QUERY),
]


def test_an_engine_answers_as_it_answers_botocore(served: "tuple[str, DynamoDBClient]") -> None:
    url, client = served
    direct, by_botocore = own(url), BotocoreClient(client)
    seen = [[outcome(ask, *request) for request in SEQUENCE] for ask in (by_botocore, direct)]

    for expected, found, request in zip(*seen, SEQUENCE, strict=True):
        assert found == expected, request
    assert seen[1][4]["Item"] == ITEM
    assert seen[1][2][1]["item"] == ITEM


def test_a_task_lives_over_baton_s_own_connection(served: "tuple[str, DynamoDBClient]") -> None:
    connection = own(served[0])
    store = DynamoDBTaskStore(TABLE, lambda: connection, limits=Limits(zip_ms=60_000, values_ms=60_000))
    result = {"text": "Grüße " * 60_000}  # compressed, and in pieces: binary values
    steps: list[Any] = [{"name": "s0", "tool": "work", "status": "pending"}]
    task = store.create(NewTask(OWNER, {PROGRESS: {"goal": "g", "steps": steps, "schemaVersion": 1}}))
    store.write(task, Batch(steps=(StepWrite(0, "s0", StepStatus.PENDING, StepStatus.COMPLETED, result),)))

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: store.get(OWNER, task.task_id), range(16)))
    assert all(one.variables["_workflow.result.s0"] == result for one in found)
    assert [one.task_id for one in store.list(OWNER).tasks] == [task.task_id]


FAILURES: dict[str, tuple[Told, type[Exception]]] = {
    "throttled": (refusal("ProvisionedThroughputExceededException"), StoreBusy),
    "throttled by its control plane": (refusal("ThrottlingException:http://x"), StoreBusy),
    "too large": (refusal("ValidationException", "Item size has exceeded the maximum allowed size"), ItemTooLarge),
    "refused": (refusal("AccessDeniedException"), StoreUnavailable),
    "a fault": (refusal("InternalServerError", status=500), OutcomeUnknown),
    "a fault of what is between": (Told(raw(b"<html>", 503)), OutcomeUnknown),
    "a refusal of what is between": (Told(raw(b"<html>", 403)), StoreUnavailable),
    "a condition": (refusal("ConditionalCheckFailedException", Item={"pk": {"S": "p"}}), ConditionFailed),
    "silence": (Told(b"", HANG), OutcomeUnknown),
    "silence in its midst": (Told(raw(b"{}")[:-1], HANG), OutcomeUnknown),
    "closed": (Told(b"", CLOSE), OutcomeUnknown),
    "closed in its midst": (Told(raw(b"{}")[:-1], CLOSE), OutcomeUnknown),
    "a page": (Told(raw(b"<html>")), OutcomeUnknown),
    "an answer without the item": (ok({}), OutcomeUnknown),
}


@pytest.mark.parametrize("way", ["botocore", "own"])
@pytest.mark.parametrize(("told", "kind"), FAILURES.values(), ids=FAILURES)
def test_a_failure_means_the_same_either_way(
    told: Told, kind: type[Exception], way: str, update: Callable[[TaskTable], object]
) -> None:
    with scripted(told) as server, closing(connected(server.url, way)) as connection:
        with pytest.raises(kind) as failed:
            update(TaskTable(TABLE, lambda: connection))
        assert type(failed.value) is kind
        assert len(server.requests) == 1
    if isinstance(failed.value, ConditionFailed):
        assert failed.value.item == {"pk": {"S": "p"}}


@pytest.mark.parametrize("way", ["botocore", "own"])
def test_what_nobody_listens_for_was_not_written(way: str, update: Callable[[TaskTable], object]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with closing(connected(url, way)) as connection, pytest.raises(Unreached):
        update(TaskTable(TABLE, lambda: connection))


def test_without_credentials_the_store_is_unavailable(update: Callable[[TaskTable], object]) -> None:
    connection = DirectClient(Endpoint("eu-west-1", "127.0.0.1", 1), {}, connect_timeout_s=1.0, read_timeout_s=1.0)
    with pytest.raises(StoreUnavailable, match="AWS_ACCESS_KEY_ID is not set") as failed:
        update(TaskTable(TABLE, lambda: connection))
    assert type(failed.value) is StoreUnavailable


class Losing(Requests):
    """Loses the answer to the first request of each operation."""

    def __init__(self, asked: Requests) -> None:
        self.asked = asked
        self.lost: list[str] = []

    def request(self, operation: str, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        answer = self.asked.request(operation, parameters)
        if operation not in self.lost:
            self.lost.append(operation)
            raise NoAnswer("lost")
        return answer


def test_a_write_whose_answer_is_lost_is_sent_again_and_known_by_its_token() -> None:
    with served_engine() as url:
        losing = Losing(own(url))
        store = DynamoDBTaskStore(TABLE, lambda: losing, sleep=lambda _: None)
        task = store.create(NewTask("owner", {"a": 1}))
        assert store.cancel("owner", task.task_id).version == 2
        assert {"PutItem", "UpdateItem"} <= set(losing.lost)
        assert len(store.list("owner").tasks) == 1


@pytest.fixture
def update() -> Callable[[TaskTable], object]:
    """Makes one conditional write, once."""
    made = Update(new_token(), 0)
    made.set(made.name("a"), made.value({"S": "b"}))
    return lambda table: table.update({"pk": {"S": "p"}, "sk": {"S": "s"}}, made, ONCE)


def connected(url: str, way: str) -> Any:
    if way == "own":
        return own(url, TIMEOUT_S)
    return http_client(url, Config(connect_timeout=TIMEOUT_S, read_timeout=TIMEOUT_S))
