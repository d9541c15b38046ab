"""`baton dynamodb`: the command in a process of its own, asked by boto3 and by a handler that is given its client."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
import httpx
import pytest

from mcp_baton.aws import handler
from mcp_baton.local.loader import load
from mcp_baton.server.server import Server
from mcp_baton.settings import Settings
from tests.e2e.support import FunctionContext, proxy_event

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

BOUND_S = 60
COMMAND = [sys.executable, "-c", "import sys; from mcp_baton.local.cli import main; sys.exit(main())", "dynamodb"]
SERVED = f"{Path(__file__).with_name('served.py')}:server"


@pytest.fixture
def database() -> Iterator[str]:
    """The line that a running `baton dynamodb` prints. A signal ends it, and well."""
    command = [*COMMAND, "--port", "0", "--table", "tasks"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline()
            process.send_signal(signal.SIGTERM)
            assert process.wait(BOUND_S) == 0
        finally:
            process.kill()


@pytest.fixture
def client(database: str) -> "DynamoDBClient":
    url = database.split()[4]
    return boto3.client(
        "dynamodb", endpoint_url=url, region_name="eu-west-1", aws_access_key_id="x", aws_secret_access_key="x"
    )


def test_it_says_where_it_listens_and_has_the_table(database: str, client: "DynamoDBClient") -> None:
    assert database == f"DynamoDB is listening on {client.meta.endpoint_url} with the table tasks\n"
    assert client.list_tables()["TableNames"] == ["tasks"]
    assert [key["AttributeName"] for key in client.describe_table(TableName="tasks")["Table"]["KeySchema"]] == [
        "pk",
        "sk",
    ]


def test_a_handler_that_is_given_its_client_keeps_tasks_there(client: "DynamoDBClient") -> None:
    lambda_handler = handler(load(SERVED, Server), settings=Settings(table="tasks"), dynamodb=client)
    request = {"jsonrpc": "2.0", "id": 1, "method": "prompts/get", "params": {"name": "asking", "arguments": {}}}

    answer = lambda_handler(proxy_event(json.dumps(request), "kim", {}), FunctionContext(lambda: 30_000))

    meta = json.loads(answer["body"])["result"]["_meta"]
    [item] = client.scan(TableName="tasks")["Items"]
    assert (meta["task_status"], item["status"]["S"]) == ("completed", "completed")


def test_an_error_of_dynamodbs_comes_back_as_one(client: "DynamoDBClient") -> None:
    key = {"pk": {"S": "kim"}, "sk": {"S": "1"}}
    client.put_item(TableName="tasks", Item=key)

    with pytest.raises(client.exceptions.ConditionalCheckFailedException):
        client.put_item(TableName="tasks", Item=key, ConditionExpression="attribute_not_exists(pk)")
    with pytest.raises(client.exceptions.ResourceNotFoundException):
        client.get_item(TableName="another", Key=key)


def test_a_browser_is_told_what_it_came_upon(client: "DynamoDBClient") -> None:
    answer = httpx.get(client.meta.endpoint_url)

    assert (answer.status_code, answer.text) == (400, "this is a DynamoDB: ask it with an AWS SDK\n")
