"""The built function and layer, started as on Lambda by an interpreter without other packages, with real events."""

import base64
import json
import os
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import pytest

from emulators.delivery import PATIENCE_S
from emulators.runtime_api import RuntimeApi
from mcp_baton.local.dynamodb import create_table
from tests.build.conftest import ROOT
from tests.runtime.conftest import Function, Start

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

pytestmark = pytest.mark.skipif(
    sys.version_info[:2] != (3, 13) or sys.platform != "linux", reason="the artifact is for Linux and Python 3.13"
)
TABLE = "built"
REGION = "eu-central-1"
PRELUDE_END = bytes(8)


def session() -> boto3.Session:
    return boto3.Session(aws_access_key_id="test", aws_secret_access_key="test", region_name=REGION)


def dynamodb(url: str) -> "DynamoDBClient":
    return session().client("dynamodb", endpoint_url=url)


@pytest.fixture(scope="module")
def table_url(ministack_url: str) -> str:
    with closing(dynamodb(ministack_url)) as client:
        create_table(client, TABLE)
    return ministack_url


type StartBuilt = Callable[..., Function]
"""`start_built(**variables)` starts the built function with the built layer's wrapper, without other packages."""


@pytest.fixture
def start_built(start: Start, artifacts: Path, table_url: str) -> StartBuilt:
    def begin(**variables: str) -> Function:
        python = Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
        return start(
            "app.lambda_handler",
            [str(artifacts / "BatonLayer" / "baton-runtime"), str(python), "-S", "/var/runtime/bootstrap.py"],
            LAMBDA_TASK_ROOT=str(artifacts / "McpFunction"),
            PYTHONPATH="",
            BATON_TABLE=TABLE,
            BATON_ALLOWED_ORIGINS="https://app.example.com",
            AWS_LAMBDA_FUNCTION_NAME="built",
            AWS_ENDPOINT_URL_DYNAMODB=table_url,
            AWS_DEFAULT_REGION=REGION,
            AWS_ACCESS_KEY_ID="test",
            AWS_SECRET_ACCESS_KEY="test",
            HOME=os.devnull,
            **variables,
        )

    return begin


@pytest.fixture
def built_api(api: RuntimeApi, start_built: StartBuilt) -> RuntimeApi:
    start_built()
    return api


EVENTS = {path.stem: path for path in (ROOT / "events").rglob("*.json")}
STARTS = sorted(name for name in EVENTS if name.startswith("start-"))
"""The events that start a workflow. Their answers are not those of HTTP requests."""


def event(name: str, task_id: str = "") -> dict[str, Any]:
    text = EVENTS[name].read_text()
    content: dict[str, Any] = json.loads(text.replace("TASK_ID", task_id))
    return content


def pause_workflow(api: RuntimeApi) -> dict[str, Any]:
    _, text = answer(api, event("prompts-get-refund-pauses"))
    [result] = [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if '"result"' in line]
    meta: dict[str, Any] = result["result"]["_meta"]
    return meta


def answer(api: RuntimeApi, payload: Mapping[str, Any]) -> tuple[int, str]:
    """Return the status and body of the response to an event, whole or streamed."""
    body = api.invoke(payload).wait().body
    if PRELUDE_END in body:
        prelude, _, streamed = body.partition(PRELUDE_END)
        return json.loads(prelude)["statusCode"], streamed.decode()
    response = json.loads(body)
    text = response.get("body") or ""
    return response["statusCode"], base64.b64decode(text).decode() if response.get("isBase64Encoded") else text


def test_the_built_function_answers_every_event_of_the_sample(built_api: RuntimeApi) -> None:
    task_id = pause_workflow(built_api)["task_id"]

    statuses = {name: answer(built_api, event(name, task_id))[0] for name in sorted(EVENTS.keys() - STARTS)}

    assert len(statuses) > 20
    other_statuses = {name: status for name, status in statuses.items() if status not in {200, 202}}
    assert other_statuses == {"get-not-allowed": 405, "preflight": 204}


def test_the_built_function_streams_and_stores_a_paused_workflow_in_dynamodb(built_api: RuntimeApi) -> None:
    delivery = built_api.invoke(event("prompts-get-refund-pauses")).wait()
    meta = pause_workflow(built_api)
    task_list = json.loads(answer(built_api, event("tasks-list"))[1])

    assert delivery.headers["lambda-runtime-function-response-mode"] == "streaming"
    assert len(delivery.chunks) > 2
    assert (meta["task_status"], meta["pause_reason"]["type"]) == ("working", "approvalRequired")
    assert meta["task_id"] in {task["taskId"] for task in task_list["result"]["tasks"]}


def test_the_sample_publishes_with_the_layers_boto3_not_the_runtimes(
    api: RuntimeApi, start_built: StartBuilt, table_url: str, tmp_path: Path
) -> None:
    sns = session().client("sns", endpoint_url=table_url)
    sqs = session().client("sqs", endpoint_url=table_url)
    topic_arn = sns.create_topic(Name="messages")["TopicArn"]
    queue_url = sqs.create_queue(QueueName="inbox")["QueueUrl"]
    queue_arn = sqs.get_queue_attributes(QueueUrl=queue_url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    sns.subscribe(TopicArn=topic_arn, Protocol="sqs", Endpoint=queue_arn)
    # Lambda's own boto3 comes after the layer's on the path. Mixing boto3 of one with botocore of the other would fail.
    for package in ("boto3", "botocore", "s3transfer"):
        (tmp_path / f"{package}.py").write_text("raise ImportError('this is the runtime')")

    start_built(TOPIC_ARN=topic_arn, AWS_ENDPOINT_URL_SNS=table_url, LAMBDA_RUNTIME_DIR=str(tmp_path))
    status, text = answer(api, event("prompts-get-refund-completes"))

    assert (status, '"task_status":"completed"' in text.replace(" ", "")) == (200, True), text
    messages = sqs.receive_message(QueueUrl=queue_url, WaitTimeSeconds=5)["Messages"]
    [message] = [json.loads(entry["Body"]) for entry in messages]
    assert message["Subject"] == "News from the shop (R-A-18)"
    assert message["MessageAttributes"]["to"]["Value"] == "ada@example.com"


def test_the_layer_contains_the_packages_for_metrics_and_traces(api: RuntimeApi, start_built: StartBuilt) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as daemon:
        daemon.bind(("127.0.0.1", 0))
        daemon.settimeout(PATIENCE_S)
        port = daemon.getsockname()[1]
        function = start_built(AWS_XRAY_DAEMON_ADDRESS=f"127.0.0.1:{port}", BATON_ALLOW_ANONYMOUS="on")
        trace = "Root=1-67891233-abcdef012345678912345678;Parent=463ac35c9f6413ad;Sampled=1"
        api.invoke(event("prompts-get-refund-pauses"), headers={"Lambda-Runtime-Trace-Id": trace}).wait()
        assert b'"trace_id": "1-67891233-abcdef012345678912345678"' in daemon.recv(65_536)
    assert '"StepsRun":' in function.log.read_text()
