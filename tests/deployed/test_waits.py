"""Callbacks and sleeps in the deployed function: the route without credentials, other senders, and tasks without
polls.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.deployed.containers import containers_of
from tests.deployed.conversation import HttpAnswer, ask
from tests.deployed.deployment import ProbeSource, Stack
from tests.deployed.machine import REGION, ROOT
from tests.deployed.test_background import item_of, start_task, start_task_as, wait_until
from tests.deployed.test_conversation import DEPLOYMENTS, PUBLIC_URL, Access, by_nothing

SECRET = "the-note-in-the-parcel"
PARCEL = {"weight": 3, "note": SECRET}
UNKNOWN = "A" * 43
"""An unknown token, as long as a real one."""


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a callback, and how the tests reach it in the emulator."""

    url: str
    stack: Stack

    @property
    def token(self) -> str:
        return self.url.rpartition("/")[2]

    def send(self, body: Any = None, method: str = "POST", **headers: str) -> HttpAnswer:
        """Send a request without credentials."""
        return send(self.stack, self.token, body, method, **headers)


def send(stack: Stack, token: str, body: Any, method: str = "POST", **headers: str) -> HttpAnswer:
    content = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    url = stack.endpoint.replace("/mcp", f"/callbacks/{token}")
    return ask(url, stack.caller(), content, method=method, **headers)


def address_of(stack: Stack, label: str) -> Address:
    """Wait until the tool has stored the address of a parcel's callback. Return the address."""
    [table] = stack.resources("AWS::DynamoDB::Table").values()
    request: Any = {"TableName": table, "Key": {"pk": {"S": f"ADDRESS#{label}"}, "sk": {"S": "ADDRESS"}}}
    dynamodb = stack.emulator.client("dynamodb")
    wait_until(lambda: "Item" in dynamodb.get_item(**request))
    return Address(dynamodb.get_item(**request)["Item"]["address"]["S"], stack)


def message(stack: Stack, task_id: str) -> str:
    """Return what a task says that it waits for, read from the table: a poll could wake it."""
    waits: dict[str, Any] = json.loads(item_of(stack, task_id).get("waits_for", {"S": "{}"})["S"])
    return str(waits.get("message", ""))


def wait_for_pause(stack: Stack, task_id: str, prefix: str = "waits for a callback until") -> None:
    """Wait until the status message begins with `prefix` and no worker has the task."""

    def is_waiting() -> bool:
        return message(stack, task_id).startswith(prefix) and item_of(stack, task_id)["run"]["M"]["until"]["N"] == "0"

    wait_until(is_waiting)


def status(stack: Stack, task_id: str) -> str:
    text: str = item_of(stack, task_id)["status"]["S"]
    return text


def items(stack: Stack) -> list[dict[str, Any]]:
    pages = stack.emulator.client("dynamodb").get_paginator("scan").paginate(TableName=stack.outputs["TaskTableName"])
    # The probe leaves the addresses of callbacks there for the supplier.
    stored_items = (item for page in pages for item in page["Items"])
    unsorted_items = [item for item in stored_items if not item["pk"]["S"].startswith("ADDRESS#")]
    return sorted(unsorted_items, key=lambda item: (item["pk"]["S"], item["sk"]["S"]))


@pytest.fixture(scope="session")
def original(stack: Stack, probe_code: Path) -> Stack:
    return ProbeSource(stack.emulator, stack.name, stack.outputs, probe_code)


@pytest.fixture(scope="session")
def shop(original: Stack) -> Stack:
    """A stack with the default authentication, for the tests of one mode."""
    return original.copy("waits")


@pytest.fixture(scope="session")
def slow(shop: Stack) -> str:
    """Start a workflow that sleeps for two minutes and then waits for a callback. Return its task's id."""
    return start_task(shop, "slow_purchase", label="slow")


@pytest.mark.first
def test_a_callback_address_is_a_url_of_the_api(shop: Stack, slow: str) -> None:
    address = address_of(shop, "slow")
    assert address.url == f"{shop.outputs['BaseUrl']}/callbacks/{address.token}"
    wait_for_pause(shop, slow, "waits until")


@pytest.fixture(scope="module", params=[*DEPLOYMENTS, by_nothing], ids=lambda deploy: deploy.__name__)
def access(request: pytest.FixtureRequest, original: Stack) -> Access:
    deploy: Callable[[Stack, pytest.FixtureRequest], Access] = request.param
    return deploy(original, request)


def test_a_callback_needs_no_credentials_in_any_authentication_mode(access: Access) -> None:
    stack = access.stack
    task = start_task_as(stack, access.kim, "purchase", label="one")
    address = address_of(stack, "one")
    assert address.url in {f"{base}/callbacks/{address.token}" for base in (stack.outputs["BaseUrl"], PUBLIC_URL)}
    wait_for_pause(stack, task)
    items_before = items(stack)

    unknown_reply = send(stack, UNKNOWN, PARCEL)
    assert (unknown_reply.status, json.loads(unknown_reply.body)) == (404, {"error": "There is no such callback."})
    method_statuses = [address.send(method=method).status for method in ("GET", "HEAD")]
    assert set(method_statuses) <= {403, 404, 405}, method_statuses
    assert items(stack) == items_before
    stranger_statuses = [ask(stack.endpoint, stranger).status for stranger in access.strangers]
    assert stranger_statuses == [access.refusal] * len(stranger_statuses)

    reply = address.send(PARCEL)
    assert (reply.status, json.loads(reply.body)) == (200, {"accepted": True})
    wait_until(lambda: status(stack, task) == "completed")


def documented_rules() -> Mapping[str, Mapping[str, Any]]:
    """Return the input transformers of docs/waiting.md, by the first word of each row: the example, with the row's
    paths.
    """
    section = (ROOT / "docs" / "waiting.md").read_text().partition("### Other senders")[2].partition("\n## ")[0]
    [block] = re.findall(r"```json\n(.*?)```", section, re.DOTALL)
    example = json.loads(block)
    rows = re.findall(r"\| (?:a )?(\w+).* \| `(\$.*)` \| `(\$.*)` \|", section)
    return {
        name: {**example, "InputPathsMap": {**example["InputPathsMap"], "token": token, "body": body}}
        for name, token, body in rows
    }


def add_rule(stack: Stack, name: str, source: str) -> None:
    """Send the events of a source to the alias, with the input transformer of the documentation."""
    events, function = stack.emulator.client("events"), stack.outputs["FunctionName"]
    alias = stack.emulator.client("lambda").get_alias(FunctionName=function, Name="live")["AliasArn"]
    events.put_rule(Name=name, EventPattern=json.dumps({"source": [source]}))
    target = {"Id": "server", "Arn": alias, "InputTransformer": documented_rules()[name]}
    assert events.put_targets(Rule=name, Targets=[target])["FailedEntryCount"] == 0


def put_event(stack: Stack, source: str, detail: Mapping[str, Any]) -> None:
    entry = {"Source": source, "DetailType": "delivered", "Detail": json.dumps(detail)}
    assert stack.emulator.client("events").put_events(Entries=[entry])["FailedEntryCount"] == 0


def test_a_rule_of_eventbridge_delivers_a_callback(shop: Stack) -> None:
    add_rule(shop, "bus", "supplier")
    task = start_task(shop, "purchase", label="bus")
    address = address_of(shop, "bus")
    wait_for_pause(shop, task)

    put_event(shop, "supplier", {"token": address.token, "result": PARCEL})
    wait_until(lambda: status(shop, task) == "completed")
    # EventBridge passed the JSON on unchanged: the same JSON counts as a repetition, and other JSON is rejected.
    assert [address.send(body).status for body in (PARCEL, {**PARCEL, "weight": 4})] == [200, 409]


def test_rules_for_s3_and_a_partner_deliver_callbacks(shop: Stack) -> None:
    add_rule(shop, "S3", "aws.s3")
    add_rule(shop, "partner", "payments")
    tasks = {label: start_task(shop, "receipt", label=label) for label in ("file", "payment")}
    file, payment = (address_of(shop, label) for label in tasks)

    s3 = shop.emulator.client("s3")
    s3.create_bucket(Bucket="uploads", CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.put_bucket_notification_configuration(
        Bucket="uploads", NotificationConfiguration={"EventBridgeConfiguration": {}}
    )
    s3.put_object(Bucket="uploads", Key=file.token, Body=b"12345")
    put_event(shop, "payments", {"data": {"object": {"metadata": {"token": payment.token}, "status": "succeeded"}}})
    wait_until(lambda: {status(shop, task) for task in tasks.values()} == {"completed"})
    assert [file.send(5).status, payment.send("succeeded").status] == [200, 200]


def logs_of(stack: Stack) -> str:
    """Return the output of the stack's containers, and what the emulator stores of it as CloudWatch logs."""
    containers = [*containers_of(stack), *containers_of(stack, worker=True)]
    output = [container.logs().decode() for container in containers]
    logs = stack.emulator.client("logs")
    for group in logs.describe_log_groups()["logGroups"]:
        page = logs.filter_log_events(logGroupName=group["logGroupName"])
        output += [event["message"] for event in page["events"]]
    return "\n".join(output)


def test_a_callbacks_token_is_stored_nowhere_and_its_body_only_in_the_result(shop: Stack) -> None:
    task = start_task(shop, "purchase", label="secret")
    address = address_of(shop, "secret")
    wait_for_pause(shop, task)
    wrong_type, no_json = {"weight": SECRET, "note": 7}, f'{{"{SECRET}"'.encode()
    large = {**PARCEL, "note": SECRET * 20_000}
    replies = [address.send(body) for body in (wrong_type, no_json, large)]
    assert [reply.status for reply in replies] == [422, 400, 413]
    assert not [item for item in items(shop) if task in str(item) and SECRET in str(item)]
    assert address.send(PARCEL, idempotency_key=f"key-{SECRET}").status == 200
    assert address.send({**PARCEL, "weight": 4}).status == 409
    wait_until(lambda: status(shop, task) == "completed")
    # A rejected event is an error of the function.
    for token in (address.token, UNKNOWN):
        event = {"batonCallback": {"token": token, "id": SECRET, "payload": {"note": SECRET}}}
        response = shop.emulator.client("lambda").invoke(
            FunctionName=shop.outputs["FunctionName"], Qualifier="live", Payload=json.dumps(event).encode()
        )
        assert "FunctionError" in response
        assert SECRET not in response["Payload"].read().decode()

    output = logs_of(shop)
    assert "the callback of the step delivery was accepted" in output
    assert '"_aws"' in output  # metrics are log lines
    assert "the callback is refused with 409" in output
    metrics = shop.emulator.client("cloudwatch").list_metrics()["Metrics"]
    for text in (output, str(metrics)):
        assert address.token not in text
        assert SECRET not in text

    assert address.token not in str(items(shop))
    secret_paths = {path for item in items(shop) for path in paths_to(item, SECRET)}
    # The result of the step, and the result of the workflow, which contains it.
    assert secret_paths == {"variables.M._workflow.result.delivery.S", "result.S"}


def paths_to(value: Any, text: str, *path: str) -> list[str]:
    """Return the paths in an item that contain a text."""
    if isinstance(value, Mapping):
        return [secret_path for name, member in value.items() for secret_path in paths_to(member, text, *path, name)]
    if isinstance(value, list):
        return [secret_path for member in value for secret_path in paths_to(member, text, *path)]
    return [".".join(path)] if text in str(value) else []


@pytest.mark.last
def test_a_workflow_sleeps_waits_and_completes_without_polls(shop: Stack, slow: str) -> None:
    address = address_of(shop, "slow")
    wait_for_pause(shop, slow)
    assert address.send(PARCEL).status == 200
    wait_until(lambda: status(shop, slow) != "working")
    item = item_of(shop, slow)
    assert (item["status"]["S"], "listed_at" in item) == ("completed", False)
    # The schedule ended the sleep.
    assert "jobs to the worker, or gave them up" in logs_of(shop)
