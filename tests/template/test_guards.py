"""Limits of cost and damage: quotas, encryption, TLS, deletion."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.template.cloudformation import Stack
from tests.template.conftest import MODES, MakeStack, function
from tests.template.test_operation import statements

KEY = "arn:aws:kms:eu-central-1:123456789012:key/1a2b3c4d-0000-1111-2222-333344445555"
ACL = "arn:aws:wafv2:eu-central-1:123456789012:regional/webacl/floods/1a2b3c4d-0000"


def encrypted(stack: Stack) -> Iterator[tuple[str, Any]]:
    """Yield each resource that stores data, and its property for encryption."""
    places = {
        "AWS::DynamoDB::Table": "SSESpecification",
        "AWS::S3::Bucket": "BucketEncryption",
        "AWS::SQS::Queue": "KmsMasterKeyId",
        "AWS::SecretsManager::Secret": "KmsKeyId",
        "AWS::Logs::LogGroup": "KmsKeyId",
    }
    for name, body in stack.resources.items():
        if body["Type"] in places:
            yield name, body["Properties"].get(places[body["Type"]])


def test_concurrency_is_limited_unless_the_operator_turns_the_limit_off(stack: MakeStack) -> None:
    assert function(stack(ReservedConcurrency="5"))["ReservedConcurrentExecutions"] == "5"
    assert function(stack(ReservedConcurrency="0"))["ReservedConcurrentExecutions"] == "0"
    assert function(stack())["ReservedConcurrentExecutions"] == "50"
    for unbounded in ("none", ""):
        assert "ReservedConcurrentExecutions" not in function(stack(ReservedConcurrency=unbounded))


def test_every_key_has_its_own_limits_below_those_of_the_stage(stack: MakeStack) -> None:
    plan = stack(KeyRateLimit="3", KeyBurstLimit="4", KeyQuotaPerDay="5").one("AWS::ApiGateway::UsagePlan")
    assert plan["Throttle"] == {"RateLimit": "3", "BurstLimit": "4"}
    assert plan["Quota"] == {"Limit": "5", "Period": "DAY"}

    usual = stack().parameters
    assert int(usual["KeyRateLimit"]) < int(usual["ThrottleRate"])
    assert int(usual["KeyBurstLimit"]) < int(usual["ThrottleBurst"])
    assert int(usual["KeyQuotaPerDay"]) < 24 * 3600 * int(usual["KeyRateLimit"])


def test_a_web_acl_protects_the_stage(stack: MakeStack) -> None:
    chosen = stack(WebAclArn=ACL)
    association = chosen.one("AWS::WAFv2::WebACLAssociation")

    assert chosen.dangling() == set()
    assert chosen.order().index("Apiv1Stage") < chosen.order().index("WebAclAssociation")
    assert association["WebACLArn"] == ACL
    assert association["ResourceArn"] == "arn:aws:apigateway:eu-central-1::/restapis/${Api}/stages/${Apiv1Stage}"


@pytest.mark.parametrize(
    ("kind", "resources"),
    [
        ("AWS::S3::BucketPolicy", [{"Fn::GetAtt": ["OverflowBucket", "Arn"]}, "${OverflowBucket.Arn}/*"]),
        ("AWS::SQS::QueuePolicy", {"Fn::GetAtt": ["DeadLetterQueue", "Arn"]}),
    ],
)
def test_bucket_and_queue_deny_requests_without_tls(stack: MakeStack, kind: str, resources: Any) -> None:
    policy = stack(Overflow="on").one(kind)
    [statement] = policy["PolicyDocument"]["Statement"]

    assert policy.get("Bucket", policy.get("Queues")) in ({"Ref": "OverflowBucket"}, [{"Ref": "DeadLetterQueue"}])
    assert (statement["Effect"], statement["Principal"]) == ("Deny", "*")
    assert statement["Action"] == ("s3:*" if "S3" in kind else "sqs:*")
    assert statement["Resource"] == resources
    assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def test_an_operators_key_encrypts_all_stored_data(stack: MakeStack) -> None:
    kept = dict(encrypted(stack(**MODES["JWT"], Overflow="on", KmsKeyArn=KEY)))

    assert len(kept) == 9
    assert [name for name, setting in kept.items() if KEY not in str(setting)] == []
    assert kept["TaskTable"] == {"SSEEnabled": True, "SSEType": "KMS", "KMSMasterKeyId": KEY}
    [rule] = kept["OverflowBucket"]["ServerSideEncryptionConfiguration"]
    assert rule["ServerSideEncryptionByDefault"] == {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": KEY}
    assert rule["BucketKeyEnabled"] is True
    # SQS rejects a queue that has both properties.
    assert "SqsManagedSseEnabled" not in stack(KmsKeyArn=KEY).one("AWS::SQS::Queue")


@pytest.mark.parametrize(
    ("name", "own", "actions"),
    [
        ("McpFunction", "secretsmanager", "kms:Decrypt"),
        # Lambda uses the worker's role to send events that failed for good to the encrypted queue.
        ("WorkerFunction", "sqs", ["kms:Decrypt", "kms:GenerateDataKey"]),
    ],
)
def test_each_function_may_use_the_key_only_through_the_services_that_store_its_data(
    stack: MakeStack, name: str, own: str, actions: Any
) -> None:
    chosen = stack(KmsKeyArn=KEY)
    key, more = (statement for statement in statements(chosen, name) if "kms:" in str(statement))

    assert {(right["Effect"], right["Resource"]) for right in (key, more)} == {("Allow", KEY)}
    assert more["Action"] == actions
    assert more["Condition"] == {"StringEquals": {"kms:ViaService": f"{own}.eu-central-1.amazonaws.com"}}
    assert chosen.one("AWS::SQS::Queue")["KmsMasterKeyId"] == KEY
    used = ("Decrypt", "DescribeKey", "Encrypt", "GenerateDataKey", "ReEncryptFrom", "ReEncryptTo")
    assert key["Action"] == [f"kms:{action}" for action in used]
    assert key["Condition"] == {
        "StringEquals": {"kms:ViaService": ["dynamodb.eu-central-1.amazonaws.com", "s3.eu-central-1.amazonaws.com"]}
    }
    assert [statement for statement in statements(stack(), name) if "kms:" in str(statement)] == []


@pytest.mark.parametrize(
    ("parameter", "good", "bad"),
    [
        ("ReservedConcurrency", ["none", "", "0", "25"], ["-1", "1.5", "many", "123456"]),
        ("WorkerConcurrency", ["", "0", "25"], ["-1", "1.5", "many", "123456"]),
        ("WorkerMemorySize", ["", "128", "10240"], ["64", "1 GB", "0512", "123456"]),
        ("WebAclArn", ["", ACL], ["floods", ACL.replace("regional", "global")]),
        ("KmsKeyArn", ["", KEY], ["1a2b3c4d", KEY.replace("key/", "alias/")]),
    ],
)
def test_values_that_would_fail_during_the_deployment_are_rejected_before_it(
    translation: Any, parameter: str, good: list[str], bad: list[str]
) -> None:
    pattern = translation["Parameters"][parameter]["AllowedPattern"]

    assert [value for value in good if not re.fullmatch(pattern, value)] == []
    assert [value for value in bad if re.fullmatch(pattern, value)] == []
