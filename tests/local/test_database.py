"""`baton dynamodb` in a process of its own, called by boto3 and by a handler."""

import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import boto3
import httpx
import pytest

from mcp_baton.aws import handler
from mcp_baton.cli.serve import DATABASE_PORT
from mcp_baton.local.dynamodb import create_table
from mcp_baton.local.loader import load
from mcp_baton.server.server import Server
from mcp_baton.settings import Settings
from tests.fakes import FunctionContext
from tests.support.client import proxy_event

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

ROOT = Path(__file__).parents[2]
SAM_INTERPRETER = ROOT / "tests" / "sam" / ".venv" / "bin" / "python"
SAM_LOCAL = Path(__file__).with_name("sam_local.py")
BOUND_S = 120
ANSWER = """\
import json, sys
from types import SimpleNamespace
import app
context = SimpleNamespace(aws_request_id="1", get_remaining_time_in_millis=lambda: 30_000)
print(json.dumps(app.lambda_handler(json.loads(sys.argv[1]), context)))
"""
COMMAND = [sys.executable, "-c", "import sys; from mcp_baton.cli.app import main; sys.exit(main())", "dynamodb"]
SERVED = f"{Path(__file__).with_name('served.py')}:server"


@dataclass(frozen=True, slots=True)
class Database:
    """The output of a running `baton dynamodb`."""

    line: str
    log: Path


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """A running `baton dynamodb` with the options of `make local-dynamodb`. It must end with code 0 after a signal."""
    command = [*COMMAND, "--host", "0.0.0.0", "--port", "0", "--table", "tasks"]
    log = tmp_path_factory.mktemp("database") / "log"
    with (
        log.open("wb") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        assert process.stdout is not None
        try:
            yield Database(process.stdout.readline(), log)
            process.send_signal(signal.SIGTERM)
            assert process.wait(BOUND_S) == 0
        finally:
            process.kill()


@pytest.fixture(scope="module")
def client(database: Database) -> "DynamoDBClient":
    url = database.line.split()[4]
    return boto3.client(
        "dynamodb", endpoint_url=url, region_name="eu-west-1", aws_access_key_id="x", aws_secret_access_key="x"
    )


def test_the_command_prints_its_url_warns_and_has_the_table(database: Database, client: "DynamoDBClient") -> None:
    assert "listening on 0.0.0.0: everyone who can connect can change every table" in database.log.read_text()
    assert database.line == f"DynamoDB is listening on {client.meta.endpoint_url} with the table tasks\n"
    assert client.list_tables()["TableNames"] == ["tasks"]
    assert [key["AttributeName"] for key in client.describe_table(TableName="tasks")["Table"]["KeySchema"]] == [
        "pk",
        "sk",
    ]


def test_a_handler_stores_its_tasks_in_baton_dynamodb(client: "DynamoDBClient") -> None:
    create_table(client, "served")
    # Remove the loaded module afterwards, because another test loads the same file.
    with patch.dict(sys.modules):
        server = load(SERVED, Server)
    lambda_handler = handler(server, settings=Settings(table="served"), dynamodb=client)
    request = {"jsonrpc": "2.0", "id": 1, "method": "prompts/get", "params": {"name": "asking", "arguments": {}}}

    answer = lambda_handler(proxy_event(json.dumps(request), "kim", {}), FunctionContext(lambda: 30_000))

    meta = json.loads(answer["body"])["result"]["_meta"]
    [item] = client.scan(TableName="served")["Items"]
    assert (meta["task_status"], item["status"]["S"]) == ("completed", "completed")


@pytest.fixture(scope="module")
def sam_local() -> "subprocess.CompletedProcess[str]":
    """The output of sam_local.py for the template and `samconfig.toml`."""
    command = [SAM_INTERPRETER, SAM_LOCAL, ROOT / "template.yaml", ROOT / "sam-local.json"]
    environment = {**os.environ, "DOCKER_HOST": "tcp://127.0.0.1:9", "SAM_CLI_TELEMETRY": "0"}
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True, timeout=BOUND_S
    )


def test_under_sam_local_the_sample_stores_its_task_in_baton_dynamodb(
    client: "DynamoDBClient", sam_local: "subprocess.CompletedProcess[str]"
) -> None:
    environment: dict[str, str] = json.loads(sam_local.stdout)["environment"]
    # A container calls this machine host.docker.internal. The test uses its own port and table.
    create_table(client, "sample")
    assert environment["AWS_ENDPOINT_URL_DYNAMODB"] == f"http://host.docker.internal:{DATABASE_PORT}"
    overrides = {"AWS_ENDPOINT_URL_DYNAMODB": client.meta.endpoint_url, "BATON_TABLE": "sample", "PATH": os.defpath}
    params = {"name": "refund_order", "arguments": {"order_id": "A-18"}}
    event = proxy_event(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "prompts/get", "params": params}), None, {})

    process = subprocess.run(
        [sys.executable, "-c", ANSWER, json.dumps(event)],
        env={**environment, **overrides},
        cwd=ROOT / "examples" / "sample",
        capture_output=True,
        text=True,
        check=False,
        timeout=BOUND_S,
    )

    assert process.returncode == 0, process.stderr
    answer = json.loads(process.stdout.splitlines()[-1])
    assert answer["statusCode"] == 200, answer
    meta = json.loads(answer["body"])["result"]["_meta"]
    [item] = client.scan(TableName="sample")["Items"]
    assert (meta["task_status"], item["status"]["S"]) == ("completed", "completed")
    assert "anonymous" in item["pk"]["S"]


def test_sam_local_accepts_the_options_in_samconfig(sam_local: "subprocess.CompletedProcess[str]") -> None:
    config = tomllib.loads((ROOT / "samconfig.toml").read_text())["default"]
    # SAM parses the options before it looks for Docker. A wrong option would end the command with 2.
    assert json.loads(sam_local.stdout)["exit_statuses"] == [1, 1], sam_local.stderr
    assert sam_local.stderr.count("requires a container runtime") == 2, sam_local.stderr
    configurations = re.findall(r"Configuration values are: (.*)", sam_local.stderr)
    assert ["sam-local.json" in values for values in configurations] == [True, True], sam_local.stderr
    for command in ("start_api", "invoke"):
        parameters = config[f"local_{command}"]["parameters"]
        assert parameters["env_vars"] == "sam-local.json"
        assert parameters["add_host"] == ["host.docker.internal:host-gateway"]


def test_an_error_of_dynamodb_reaches_the_client(client: "DynamoDBClient") -> None:
    key = {"pk": {"S": "kim"}, "sk": {"S": "1"}}
    client.put_item(TableName="tasks", Item=key)

    with pytest.raises(client.exceptions.ConditionalCheckFailedException):
        client.put_item(TableName="tasks", Item=key, ConditionExpression="attribute_not_exists(pk)")
    with pytest.raises(client.exceptions.ResourceNotFoundException):
        client.get_item(TableName="another", Key=key)


SDK = {"X-Amz-Target": "DynamoDB_20120810.ListTables", "Content-Type": "application/x-amz-json-1.0"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "localhost:8001"}, 200),
        ({"Host": "host.docker.internal:8001"}, 200),
        ({"Host": "rebound.example:8001"}, 403),
        ({"Host": "127.0.0.1.example"}, 403),
        ({"Host": "host.docker.internal.example"}, 403),
        ({"Origin": "http://localhost:3000"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 403),
    ],
)
def test_pages_cannot_use_the_tables(client: "DynamoDBClient", headers: dict[str, str], status: int) -> None:
    answer = httpx.post(client.meta.endpoint_url, headers={**SDK, **headers}, content=b"{}")

    assert answer.status_code == status
    assert ("tasks" in answer.text) is (status == 200)


def test_a_browser_gets_an_explanation(client: "DynamoDBClient") -> None:
    answer = httpx.get(client.meta.endpoint_url)

    assert (answer.status_code, answer.text) == (400, "this is a DynamoDB: use an AWS SDK\n")
