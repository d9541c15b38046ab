"""The composition root: the parts of a handler, and when they are created."""

import json
import logging
import os
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock, patch

import boto3
import pytest
from botocore.exceptions import ClientError, ReadTimeoutError
from moto import mock_aws

from mcp_baton import Approval, Server, ToolStep, Workflow
from mcp_baton.aws import dynamodb_store, handler
from mcp_baton.clients import (
    CONNECT_TIMEOUT_S,
    DYNAMODB_ATTEMPTS,
    OTHER_AWS_ATTEMPTS,
    READ_TIMEOUT_S,
    TopicPublisher,
    dynamodb_client,
    secrets_client,
    topic_client,
)
from mcp_baton.exceptions import SettingsError
from mcp_baton.local.dynamodb import create_table
from mcp_baton.server.endpoint import Endpoint
from mcp_baton.settings import Settings
from mcp_baton.tasks.dynamodb.retries import ATTEMPT_S, END
from mcp_baton.tasks.record import NewTask
from tests.fakes import FunctionContext
from tests.memory_dynamodb import MemoryDynamoDB, memory_client

MAX_BACKOFF_S = 1.0


@pytest.fixture
def server() -> Server:
    """A server with a tool and a durable workflow of one step."""
    counter = Server("counter", version="1.0.0")

    @counter.tool
    def count() -> int:
        return 1

    counter.add_workflow(Workflow(name="counting", description="count", steps=[ToolStep("count", tool="count")]))
    return counter


@pytest.fixture
def table() -> Any:
    engine = MemoryDynamoDB()
    engine.create("tasks")
    return memory_client(engine)


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "eu-west-1")


@pytest.mark.usefixtures("credentials")
def test_an_approval_is_published_in_the_region_of_its_topic() -> None:
    connect = Mock(wraps=topic_client)
    with mock_aws():
        topic = boto3.client("sns", "us-east-1").create_topic(Name="people")["TopicArn"]
        TopicPublisher(topic, connect).publish("a call waits")
        connect.assert_called_once_with(topic)
        assert topic_client(topic).meta.region_name == "us-east-1"


@pytest.mark.parametrize(
    ("error", "attempts"),
    [
        (ReadTimeoutError(endpoint_url="https://sns"), 1),
        (ClientError({"Error": {"Code": "AuthorizationError"}}, "Publish"), 2),
    ],
)
def test_a_topic_that_does_not_answer_delays_a_reply_once(error: Exception, attempts: int) -> None:
    client = Mock(publish=Mock(side_effect=error))
    publisher = TopicPublisher("arn:aws:sns:us-east-1:123456789012:people", Mock(return_value=client))
    for _ in range(2):
        with pytest.raises((type(error), TimeoutError)):
            publisher.publish("a call waits")
    assert client.publish.call_count == attempts


def post(method: str, **params: Any) -> dict[str, Any]:
    return {
        "httpMethod": "POST",
        "path": "/mcp",
        "headers": {"Content-Type": "application/json"},
        "requestContext": {"authorizer": {"claims": {"sub": "kim"}}},
        "body": json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}),
    }


def run_workflow(lambda_handler: Any) -> Any:
    return json.loads(lambda_handler(post("prompts/get", name="counting"), FunctionContext())["body"])["result"]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@mock_aws
@pytest.mark.parametrize("client", [False, True], ids=["no client", "a client"])
def test_without_a_table_workflows_have_no_tasks_and_the_first_request_logs_a_warning(
    server: Server, caplog: pytest.LogCaptureFixture, client: bool
) -> None:
    dynamodb = boto3.client("dynamodb", "eu-west-1") if client else None
    lambda_handler = handler(server, settings=Settings(), dynamodb=dynamodb)
    assert warnings(caplog) == []
    for _ in range(2):
        assert "_meta" not in run_workflow(lambda_handler)
    [warning] = [text for text in warnings(caplog) if "BATON_TABLE" in text]
    assert "BATON_TABLE is not set" in warning
    assert "Set it" in warning


def test_with_a_store_workflows_have_tasks_and_no_warning_is_logged(
    server: Server, caplog: pytest.LogCaptureFixture, table: Any
) -> None:
    settings = Settings(table="tasks")
    lambda_handler = handler(server, settings=settings, store=dynamodb_store("tasks", settings, lambda: table))
    assert run_workflow(lambda_handler)["_meta"]["task_status"] == "completed"
    assert warnings(caplog) == []


@pytest.mark.parametrize(
    ("is_guarded", "options", "warned"),
    [
        (True, {}, ["cannot approve calls", "BATON_ALLOW_ANONYMOUS is on"]),
        (True, {"approval_links": True}, ["BATON_ALLOW_ANONYMOUS is on"]),
        (False, {}, ["BATON_ALLOW_ANONYMOUS is on"]),
        (False, {"sam_local": True}, []),
    ],
)
def test_the_first_request_warns_of_anonymous_callers_and_if_no_caller_can_approve(
    server: Server,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    is_guarded: bool,
    options: dict[str, Any],
    warned: list[str],
) -> None:
    # Powertools would change the logging of the process.
    monkeypatch.setattr("mcp_baton.aws._observe", lambda adapter, *_: adapter)
    if is_guarded:
        server.add_tool(lambda: None, name="pay", approval=Approval("refunds"))
    handler(server, settings=Settings(allow_anonymous=True, observed=True, **options))(post("ping"), FunctionContext())

    texts = [text for text in ("cannot approve calls", "BATON_ALLOW_ANONYMOUS is on") if text in caplog.text]
    assert texts == warned


def test_the_first_request_warns_of_a_misspelt_setting(
    server: Server, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BATON_LISTEN", "8")
    lambda_handler = handler(server)
    assert warnings(caplog) == []

    lambda_handler(post("ping"), FunctionContext())
    lambda_handler(post("ping"), FunctionContext())

    warning = "BATON_LISTEN is not a setting; did you mean 'BATON_LISTEN_MS'?"
    assert [text for text in warnings(caplog) if "BATON_LISTEN" in text] == [warning]


def test_an_invalid_environment_raises_when_a_handler_is_made(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATON_STREAMING", "perhaps")
    with pytest.raises(SettingsError, match="BATON_STREAMING"):
        handler(server)


@pytest.mark.parametrize(("connect", "at_once"), [("first", 0), ("init", 1), ("auto", 1)])
def test_the_client_is_created_with_the_handler_or_at_first_use(
    server: Server, table: Any, connect: str, at_once: int
) -> None:
    with patch("mcp_baton.aws.dynamodb_client", return_value=table) as create:
        handler(Server("plain"), settings=Settings(table="tasks"))
        assert create.call_count == 0, "a server without tasks needs no client"
        lambda_handler = handler(server, settings=Settings(table="tasks", connect=connect))
        lambda_handler(post("tools/list"), FunctionContext())
        assert create.call_count == at_once
        assert run_workflow(lambda_handler)["_meta"]["task_status"] == "completed"
        handler(server, settings=Settings(connect=connect))
        assert create.call_count == 1, "without a table no client is needed"


@mock_aws
def test_a_given_boto3_client_is_used_for_tasks(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    client = boto3.client("dynamodb", region_name="eu-west-1")
    create_table(client, "tasks")
    monkeypatch.setenv("BATON_TABLE", "tasks")
    with patch("mcp_baton.aws.dynamodb_client") as connect:
        meta = run_workflow(handler(server, dynamodb=client))["_meta"]
    assert connect.call_count == 0
    [item] = client.scan(TableName="tasks")["Items"]
    assert meta["task_status"] == item["status"]["S"] == "completed"
    assert meta["task_id"] in item["sk"]["S"]


@mock_aws
def test_a_given_s3_client_stores_large_values() -> None:
    large_server = Server("large", version="1.0.0")

    @large_server.tool
    def photograph() -> str:
        return os.urandom(400_000).hex()

    step = ToolStep("photograph", tool="photograph")
    large_server.add_workflow(Workflow(name="shooting", description="take a photograph", steps=[step]))
    client = boto3.client("dynamodb", region_name="us-east-1")
    create_table(client, "tasks")
    settings = Settings(table="tasks")
    with patch("mcp_baton.aws.dynamodb_client") as connect:
        lambda_handler = handler(large_server, settings=settings, dynamodb=client)
        answer = lambda_handler(post("prompts/get", name="shooting"), FunctionContext())
    assert connect.call_count == 0
    assert "oversized" not in json.loads(answer["body"])["result"]["_meta"]
    assert client.scan(TableName="tasks")["Count"] > 1


@mock_aws
def test_a_server_with_plain_tools_makes_its_store_with_the_first_request_that_reads_tasks() -> None:
    client = boto3.client("dynamodb", "eu-west-1")
    create_table(client, "tasks")
    with patch("mcp_baton.aws.dynamodb_store", wraps=dynamodb_store) as make_store:
        lambda_handler = handler(Server("plain"), settings=Settings(table="tasks"), dynamodb=client)
        lambda_handler(post("tools/list"), FunctionContext())
        assert make_store.call_count == 0
        answers = [lambda_handler(post("tasks/list"), FunctionContext()) for _ in range(2)]
    assert [json.loads(answer["body"])["result"]["tasks"] for answer in answers] == [[], []]
    assert make_store.call_count == 1


@mock_aws
def test_an_object_that_is_not_a_client_of_the_service_is_refused_and_so_are_a_store_and_a_client(
    server: Server, table: Any
) -> None:
    settings = Settings(table="tasks")
    store = dynamodb_store("tasks", settings, lambda: table)
    cases: list[tuple[Any, Any, str]] = [
        (
            boto3.resource("dynamodb", "eu-west-1"),
            None,
            r"'dynamodb.ServiceResource'; a boto3 resource has its client at `.meta.client`",
        ),
        (boto3.client("s3", "eu-west-1"), None, r"boto3.client\('dynamodb'\), and got 'S3'"),
        (table, store, "pass either `store` or `dynamodb`"),
    ]
    for client, given_store, cause in cases:
        with pytest.raises(TypeError, match=cause):
            handler(server, settings=settings, dynamodb=client, store=given_store)


def dispatcher_of(server: Server, **options: Any) -> Any:
    with patch("mcp_baton.aws.Endpoint", wraps=Endpoint) as endpoint:
        handler(server, **options)
    return endpoint.call_args.args[0].dispatcher


def test_the_settings_determine_the_invoked_worker_unless_a_dispatcher_is_given(server: Server) -> None:
    settings, given = Settings(worker="baton-worker:live"), Mock()
    with patch("mcp_baton.aws.lambda_client") as connect:
        dispatcher = dispatcher_of(server, settings=settings)
        assert connect.call_count == 0
        connect.return_value.invoke.return_value = {"StatusCode": 202}
        dispatcher.dispatch({"batonTask": {}})
    assert connect.return_value.invoke.call_args.kwargs == {
        "FunctionName": "baton-worker:live",
        "InvocationType": "Event",
        "Payload": b'{"batonTask":{}}',
    }
    assert dispatcher_of(server, settings=settings, dispatcher=given) is given
    assert dispatcher_of(server, settings=Settings()) is None


def test_the_settings_limit_the_lifetime_of_tasks(table: Any) -> None:
    settings = Settings(default_ttl_ms=5_000, max_ttl_ms=9_000)
    store = dynamodb_store("tasks", settings, lambda: table)
    assert store.create(NewTask("kim", {})).ttl_ms == 5_000
    assert store.create(NewTask("kim", {}, ttl_ms=60_000)).ttl_ms == 9_000


@pytest.mark.usefixtures("credentials")
@pytest.mark.parametrize(
    ("make", "attempts"), [(dynamodb_client, DYNAMODB_ATTEMPTS), (secrets_client, OTHER_AWS_ATTEMPTS)]
)
def test_a_hanging_service_leaves_time_within_the_write_reserve(make: Callable[[], Any], attempts: int) -> None:
    config = make().meta.config
    assert (config.connect_timeout, config.read_timeout) == (CONNECT_TIMEOUT_S, READ_TIMEOUT_S)
    assert (config.retries["mode"], config.retries["total_max_attempts"]) == ("standard", attempts)
    assert config.tcp_keepalive is True
    slowest_s = attempts * max(CONNECT_TIMEOUT_S, READ_TIMEOUT_S) + (attempts - 1) * MAX_BACKOFF_S
    assert slowest_s * 1000 < Settings().write_reserve_ms


def test_only_the_store_retries_dynamodb_requests() -> None:
    assert DYNAMODB_ATTEMPTS == 1
    assert max(CONNECT_TIMEOUT_S, READ_TIMEOUT_S) == ATTEMPT_S
    # With this much time left, the item is still written a second time before the reply.
    assert END.pause_s(1, 1.0, 2.5 - 1.0, 1.0, throttled=False) is not None
