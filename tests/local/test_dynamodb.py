"""The embedded DynamoDB: independent of other clients, networks, credentials and configuration."""

import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from mcp_baton.exceptions import SettingsError
from mcp_baton.local import dynamodb
from mcp_baton.local.dynamodb import create_table, embedded_client, http_client

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

pytestmark = pytest.mark.disable_socket


KEY = {"pk": {"S": "a"}, "sk": {"S": "b"}}
TASK_ITEM: dict[str, Any] = {"TableName": "tasks", "Key": KEY}


@pytest.fixture
def client() -> "DynamoDBClient":
    new_client = embedded_client()
    create_table(new_client, "tasks")
    return new_client


@pytest.fixture
def broken_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An invalid AWS configuration, and no cached session."""
    monkeypatch.setattr(dynamodb, "_session", cache(dynamodb._session.__wrapped__))  # noqa: SLF001 - kept by the module
    file = tmp_path / "config"
    file.write_text("[not an ini file")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(file))
    monkeypatch.setenv("AWS_PROFILE", "no-such-profile")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")


@pytest.mark.usefixtures("broken_configuration")
def test_engines_are_independent_and_need_no_network_or_configuration() -> None:
    first_client, second_client = embedded_client(), embedded_client()
    create_table(first_client, "tasks")
    assert (first_client.list_tables()["TableNames"], second_client.list_tables()["TableNames"]) == (["tasks"], [])


def test_other_mocks_and_clients_are_not_affected(client: "DynamoDBClient") -> None:
    with mock_aws():
        mocked_client = boto3.client("dynamodb", "us-east-1")
        assert mocked_client.list_tables()["TableNames"] == []
        create_table(mocked_client, "tasks")
        client.put_item(TableName="tasks", Item={"pk": {"S": "ours"}, "sk": {"S": "ours"}})
        assert [each.scan(TableName="tasks")["Count"] for each in (client, mocked_client)] == [1, 0]


def test_a_table_is_created_once_on_demand_with_a_ttl(client: "DynamoDBClient") -> None:
    client.put_item(TableName="tasks", Item=KEY)
    create_table(client, "tasks")
    assert client.scan(TableName="tasks")["Count"] == 1
    assert client.describe_table(TableName="tasks")["Table"]["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
    ttl = client.describe_time_to_live(TableName="tasks")["TimeToLiveDescription"]
    assert (ttl["AttributeName"], ttl["TimeToLiveStatus"]) == ("expires_at", "ENABLED")


def test_without_moto_the_error_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "mcp_baton.local.embedded", raising=False)
    monkeypatch.setitem(sys.modules, "moto.core.botocore_stubber", None)
    with pytest.raises(SettingsError, match=r"mcp-baton\[local\]"):
        embedded_client()


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("SET a = :0, b.c = :0, b = :0", "overlap"),
        ("SET a = :0, a = :0", "overlap"),
        ("SET a = :0 REMOVE b SET c = :0", "SET"),
        ("REMOVE a REMOVE b SET c = :0", "REMOVE"),
    ],
)
def test_overlapping_and_repeated_clauses_are_refused(client: "DynamoDBClient", expression: str, fault: str) -> None:
    with pytest.raises(ClientError, match=fault):
        client.update_item(**TASK_ITEM, UpdateExpression=expression, ExpressionAttributeValues={":0": {"S": ""}})


def test_an_expression_of_the_maximum_length_is_parsed(client: "DynamoDBClient") -> None:
    names = [f"{letter}{digit}" for letter in "qxyz" for digit in "0123456789abcdefghijklmnopqrstuvwxyz" * 5]
    clauses = [f"{name}{place}=:0" for place, name in enumerate(names)]
    expression = "SET " + ",".join(clauses)[:4080].rpartition(",")[0]
    assert expression.count(",") > 400
    limit = sys.getrecursionlimit()
    client.update_item(**TASK_ITEM, UpdateExpression=expression, ExpressionAttributeValues={":0": {"S": ""}})
    assert len(client.get_item(**TASK_ITEM)["Item"]) == 2 + expression.count("=")
    assert sys.getrecursionlimit() == limit


@pytest.mark.usefixtures("broken_configuration")
def test_a_local_endpoint_gets_invented_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_PROFILE")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    client = http_client("http://127.0.0.1:8000")
    assert client.meta.endpoint_url == "http://127.0.0.1:8000"
    assert client.meta.region_name == "us-east-1"
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    assert http_client("http://127.0.0.1:8000").meta.region_name == "eu-west-1"
