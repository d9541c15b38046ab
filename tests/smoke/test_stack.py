"""The checks of a stack that the AWS emulator does not support, with an account that counts as AWS's."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count
from typing import Any

import boto3
import pytest

from emulators.answering import Answer, answering
from mcp_baton.cli.remote.http import Access
from tests.smoke.report import Finding
from tests.smoke.stack import Stack

KEY = "arn:aws:kms:eu-central-1:000000000000:key/11111111-2222-3333-4444-555555555555"
OTHER = KEY.replace("1111", "9999")
NAMES = ("Auth", "KmsKeyArn", "KeyBurstLimit", "Sweep", "ThrottleBurst")
TEMPLATE: dict[str, Any] = {
    "Parameters": {name: {"Type": "String"} for name in NAMES},
    "Resources": {
        "TaskTable": {
            "Type": "AWS::DynamoDB::Table",
            "Properties": {
                "BillingMode": "PAY_PER_REQUEST",
                "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
                "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
            },
        }
    },
    "Outputs": {"TaskTableName": {"Value": {"Ref": "TaskTable"}}},
}

type Deploy = Callable[..., Stack]
"""`deploy(url, **parameters)` returns a stack with this endpoint."""


@pytest.fixture
def deploy(ministack_url: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Deploy:
    for name, value in {
        "AWS_ENDPOINT_URL": ministack_url,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "eu-central-1",
    }.items():
        monkeypatch.setenv(name, value)

    def create(url: str = "https://shop.example.com/mcp", **parameters: str) -> Stack:
        name = f"smoke-{abs(hash(request.node.name))}"
        values = {"Auth": "API_KEY", "KmsKeyArn": "", "KeyBurstLimit": "5", "Sweep": "off", "ThrottleBurst": "100"}
        settings = [{"ParameterKey": key, "ParameterValue": value} for key, value in {**values, **parameters}.items()]
        # boto3's types depend on literal service names; the stubs of this service are not installed.
        create_client: Any = boto3.client
        with closing(create_client("cloudformation")) as client:
            client.create_stack(StackName=name, TemplateBody=json.dumps(TEMPLATE), Parameters=settings)
            client.get_waiter("stack_create_complete").wait(StackName=name, WaiterConfig={"Delay": 0.1})
        stack = Stack(name, Access(url))
        stack.is_aws = True
        return stack

    return create


@contextmanager
def limited_endpoint(limit: int) -> Iterator[str]:
    """Run an endpoint that answers this many requests, and rejects further ones as API Gateway does."""
    numbers = count(1)
    with answering(lambda _: Answer(200 if next(numbers) <= limit else 429)) as address:
        yield f"{address}/mcp"


@pytest.mark.parametrize(
    ("limit", "parameters", "expected"),
    [
        (5, {}, "held: 15 of 20 requests at once get 429 (KeyBurstLimit=5)"),
        (1000, {}, "failed: none of 20 requests at once gets 429 (KeyBurstLimit=5)"),
        (7, {"ThrottleBurst": "3"}, "held: 5 of 12 requests at once get 429 (ThrottleBurst=3)"),
        (1000, {"KeyBurstLimit": "151", "ThrottleBurst": "151"}, "not checked: "),
        # Without API keys, only the limit of the stage counts.
        (30, {"Auth": "IAM", "KeyBurstLimit": "1", "ThrottleBurst": "30"}, "held: 90 of 120 requests at once get 429"),
    ],
)
def test_throttles_hold_if_a_burst_above_the_lowest_limit_is_rejected(
    deploy: Deploy, limit: int, parameters: dict[str, str], expected: str
) -> None:
    with limited_endpoint(limit) as url:
        [finding] = deploy(url, **parameters).throttles()

    assert text(finding).startswith(expected)


@pytest.mark.parametrize(("key", "outcome"), [("", "not checked"), (KEY, "held"), (OTHER, "failed")])
def test_encryption_holds_if_the_table_has_the_key_of_the_parameter(deploy: Deploy, key: str, outcome: str) -> None:
    stack = deploy(KmsKeyArn=key)
    # The emulator ignores the template's specification.
    create_client: Any = boto3.client
    with closing(create_client("dynamodb")) as client:
        specification = {"Enabled": True, "SSEType": "KMS", "KMSMasterKeyId": KEY}
        client.update_table(TableName=stack.table, SSESpecification=specification)

    [finding] = stack.encrypts()

    assert finding.outcome == outcome, text(finding)


def test_a_schedule_that_is_off_by_choice_is_not_checked(deploy: Deploy) -> None:
    assert [finding.outcome for finding in deploy().sweeps()] == ["not checked"]


def text(finding: Finding) -> str:
    return f"{finding.outcome}: {finding.text}"
