"""Limits of cost and damage: quotas, encryption, TLS, deletion."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.template.cloudformation import Stack
from tests.template.conftest import MODES, MakeStack, function
from tests.template.test_operation import statements

KEY = "arn:aws:kms:eu-central-1:123456789012:key/1a2b3c4d-0000-1111-2222-333344445555"
SNS = "arn:aws:sns:eu-central-1:123456789012"
ACL = "arn:aws:wafv2:eu-central-1:123456789012:regional/webacl/floods/1a2b3c4d-0000"


def encryption_settings(stack: Stack) -> Iterator[tuple[str, Any]]:
    """Yield each resource that stores data, and its property for encryption."""
    properties = {
        "AWS::DynamoDB::Table": "SSESpecification",
        "AWS::SQS::Queue": "KmsMasterKeyId",
        "AWS::SecretsManager::Secret": "KmsKeyId",
        "AWS::Logs::LogGroup": "KmsKeyId",
    }
    for name, body in stack.resources.items():
        if body["Type"] in properties:
            yield name, body["Properties"].get(properties[body["Type"]])


def test_concurrency_is_limited_unless_the_operator_turns_the_limit_off(stack: MakeStack) -> None:
    assert function(stack(ReservedConcurrency="5"))["ReservedConcurrentExecutions"] == "5"
    assert function(stack(ReservedConcurrency="0"))["ReservedConcurrentExecutions"] == "0"
    assert function(stack())["ReservedConcurrentExecutions"] == "50"
    for unbounded in ("none", ""):
        assert "ReservedConcurrentExecutions" not in function(stack(ReservedConcurrency=unbounded))


def test_every_key_has_its_own_limits_below_those_of_the_stage(stack: MakeStack) -> None:
    plan = stack(KeyRateLimit="3", KeyBurstLimit="4", KeyQuotaPerDay="5").single("AWS::ApiGateway::UsagePlan")
    assert plan["Throttle"] == {"RateLimit": "3", "BurstLimit": "4"}
    assert plan["Quota"] == {"Limit": "5", "Period": "DAY"}

    defaults = stack().parameters
    assert int(defaults["KeyRateLimit"]) < int(defaults["ThrottleRate"])
    assert int(defaults["KeyBurstLimit"]) < int(defaults["ThrottleBurst"])
    assert int(defaults["KeyQuotaPerDay"]) < 24 * 3600 * int(defaults["KeyRateLimit"])


def test_a_web_acl_protects_the_stage(stack: MakeStack) -> None:
    variant = stack(WebAclArn=ACL)
    association = variant.single("AWS::WAFv2::WebACLAssociation")

    assert variant.dangling_references() == set()
    assert variant.order().index("Apiv1Stage") < variant.order().index("WebAclAssociation")
    assert association["WebACLArn"] == ACL
    assert association["ResourceArn"] == "arn:aws:apigateway:eu-central-1::/restapis/${Api}/stages/${Apiv1Stage}"


def test_the_queue_denies_requests_without_tls(default: Stack) -> None:
    policy = default.single("AWS::SQS::QueuePolicy")
    [statement] = policy["PolicyDocument"]["Statement"]

    assert policy["Queues"] == [{"Ref": "DeadLetterQueue"}]
    assert (statement["Effect"], statement["Principal"], statement["Action"]) == ("Deny", "*", "sqs:*")
    assert statement["Resource"] == {"Fn::GetAtt": ["DeadLetterQueue", "Arn"]}
    assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def test_an_operators_key_encrypts_all_stored_data(stack: MakeStack) -> None:
    settings = dict(encryption_settings(stack(**MODES["JWT"], KmsKeyArn=KEY)))

    assert len(settings) == 8
    assert [name for name, setting in settings.items() if KEY not in str(setting)] == []
    assert settings["TaskTable"] == {"SSEEnabled": True, "SSEType": "KMS", "KMSMasterKeyId": KEY}
    # SQS rejects a queue that has both properties.
    assert "SqsManagedSseEnabled" not in stack(KmsKeyArn=KEY).single("AWS::SQS::Queue")


@pytest.mark.parametrize(
    ("name", "service", "actions"),
    [
        ("McpFunction", "secretsmanager", "kms:Decrypt"),
        # Lambda uses the worker's role to send events that failed for good to the encrypted queue.
        ("WorkerFunction", "sqs", ["kms:Decrypt", "kms:GenerateDataKey"]),
    ],
)
def test_each_function_may_use_the_key_only_through_the_services_that_store_its_data(
    stack: MakeStack, name: str, service: str, actions: Any
) -> None:
    variant = stack(KmsKeyArn=KEY)
    table_right, service_right = (statement for statement in statements(variant, name) if "kms:" in str(statement))

    assert {(right["Effect"], right["Resource"]) for right in (table_right, service_right)} == {("Allow", KEY)}
    assert service_right["Action"] == actions
    assert service_right["Condition"] == {"StringEquals": {"kms:ViaService": f"{service}.eu-central-1.amazonaws.com"}}
    assert variant.single("AWS::SQS::Queue")["KmsMasterKeyId"] == KEY
    table_actions = ("Decrypt", "DescribeKey", "Encrypt", "GenerateDataKey", "ReEncryptFrom", "ReEncryptTo")
    assert table_right["Action"] == [f"kms:{action}" for action in table_actions]
    assert table_right["Condition"] == {"StringEquals": {"kms:ViaService": "dynamodb.eu-central-1.amazonaws.com"}}
    assert [statement for statement in statements(stack(), name) if "kms:" in str(statement)] == []


@pytest.mark.parametrize(
    ("parameter", "valid", "invalid"),
    [
        ("ReservedConcurrency", ["none", "", "0", "25"], ["-1", "1.5", "many", "123456"]),
        ("WorkerConcurrency", ["", "0", "25"], ["-1", "1.5", "many", "123456"]),
        ("WorkerMemorySize", ["", "128", "10240"], ["64", "127", "1 GB", "0512", "10241", "99999"]),
        ("WebAclArn", ["", ACL], ["floods", ACL.replace("regional", "global")]),
        ("KmsKeyArn", ["", KEY], ["1a2b3c4d", KEY.replace("key/", "alias/")]),
        (
            "AllowedOrigins",
            ["", "https://app.example.com", "http://localhost:3000, https://[::1]:8443"],
            ["app.example.com", "https://a.example/", "*", "https://*.example.com", "https://a.example,", "null"],
        ),
        (
            "Approvers",
            ["", "{}", '{"refunds": ["kim", "lee"], "ä b": []}', ' {"a":["b"]} '],
            ["kim", '["kim"]', '{"refunds": "kim"}', '{"refunds": [kim]}', '{"refunds": ["kim"]', '{"refunds": [""]}'],
        ),
        ("ApprovalTopic", ["", f"{SNS}:people"], ["people", f"{SNS}:people.fifo"]),
        ("MaxTasksPerOwner", ["", "1", "1000"], ["0", "-1", "many"]),
    ],
)
def test_values_that_would_fail_during_or_after_the_deployment_are_rejected_before_it(
    translation: Any, parameter: str, valid: list[str], invalid: list[str]
) -> None:
    pattern = translation["Parameters"][parameter]["AllowedPattern"]

    assert [value for value in valid if not re.fullmatch(pattern, value)] == []
    assert [value for value in invalid if re.fullmatch(pattern, value)] == []


def test_each_text_of_the_operator_has_a_pattern_or_a_list_of_values(translation: Any) -> None:
    parameters = translation["Parameters"].items()
    texts = {name: parameter for name, parameter in parameters if parameter["Type"] == "String"}
    assert [
        name for name, parameter in texts.items() if not parameter.keys() & {"AllowedPattern", "AllowedValues"}
    ] == []
