"""The basis of operations: permissions, data, logs, alarms, limits, failed events."""

import json
import os
from collections.abc import Mapping
from typing import Any
from unittest.mock import patch

import pytest

from mcp_baton.cli.serve import DATABASE_PORT
from mcp_baton.clients import dynamodb_client
from mcp_baton.settings import MIN_STATE_KEY_CHARS, Settings
from mcp_baton.telemetry import INTERNAL_ERRORS, STORE_CONFLICTS, STORE_ERRORS, WAKE_UP_DELAY
from mcp_baton.workflow.engine_host import START_MARGIN_MS
from tests.template.cloudformation import Stack, references
from tests.template.conftest import ROOT, SERVING, MakeStack, function, variables

SECRET = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:StateKey-a1B2c3"
STATE_KEY = {"Fn::GetAtt": ["StateKey", "Id"]}
WORKER = "arn:aws:lambda:eu-central-1:123456789012:function:baton-worker:live"
TOPIC = "arn:aws:sns:eu-central-1:123456789012:pager"
JWT = {"Auth": "JWT", "JwtIssuer": "https://issuer.example.com/", "JwtAudiences": "a"}


def environment(stack: Stack) -> dict[str, str]:
    """Return the function's variables, with values for the references to the table and the secret."""
    return {**variables(stack), "BATON_TABLE": "tasks", "BATON_STATE_KEY_SECRET": SECRET}


def statements(stack: Stack, name: str = "McpFunction") -> list[Any]:
    """Return the permissions that the stack's policies give a function's role."""
    role = stack.resources[f"{name}Role"]["Properties"]
    policies = [stack.resources[arn["Ref"]]["Properties"] for arn in role["ManagedPolicyArns"] if isinstance(arn, dict)]
    return [
        statement
        for policy in [*policies, *role.get("Policies", [])]
        for statement in policy["PolicyDocument"]["Statement"]
    ]


TASKS = [f"dynamodb:{action}" for action in ("DeleteItem", "GetItem", "PutItem", "Query", "UpdateItem")]
MESSAGES = [("sns:Publish", {"Ref": "Messages"})]


@pytest.mark.parametrize("switch", ["off", "on"])
@pytest.mark.parametrize(
    ("name", "own_right"),
    # Only requests read the key that signs states, and only the worker's failed events are stored.
    [
        ("McpFunction", ("secretsmanager:GetSecretValue", STATE_KEY)),
        ("WorkerFunction", ("sqs:SendMessage", {"Fn::GetAtt": ["DeadLetterQueue", "Arn"]})),
    ],
)
def test_a_function_has_only_the_permissions_that_it_needs(
    stack: MakeStack, name: str, own_right: tuple[str, Any], switch: str
) -> None:
    rights = statements(stack(MessageTopic=switch), name)

    assert {right["Effect"] for right in rights} == {"Allow"}
    assert [(right["Action"], right["Resource"]) for right in rights] == [
        (TASKS, [{"Fn::GetAtt": ["TaskTable", "Arn"]}, "${TaskTable.Arn}/index/lists"]),
        *(MESSAGES if switch == "on" else []),
        ("lambda:InvokeFunction", WORKER),
        own_right,
    ]


def test_other_roles_have_only_the_permissions_that_they_need(stack: MakeStack) -> None:
    variant = stack(**JWT)
    roles = {name: body["Properties"] for name, body in variant.resources.items() if body["Type"] == "AWS::IAM::Role"}

    assert [str(arn).rpartition("/")[2] for arn in roles["ApiLogsRole"]["ManagedPolicyArns"]] == [
        "AmazonAPIGatewayPushToCloudWatchLogs"
    ]
    shared_policy, request_policy = (str({"Ref": name}) for name in ("FunctionPolicy", "RequestPolicy"))
    own_policies: dict[str, set[str]] = {
        "McpFunctionRole": {shared_policy, request_policy},
        "WorkerFunctionRole": {shared_policy},
        "AuthorizerFunctionRole": set(),
    }
    for name, policies in own_policies.items():
        policy_names = {str(arn).rpartition("/")[2] for arn in roles[name]["ManagedPolicyArns"]}
        assert policy_names == {"AWSLambdaBasicExecutionRole", "AWSXrayWriteOnlyAccess", *policies}, name
    assert "Policies" not in roles["AuthorizerFunctionRole"]
    assert {permission["Action"] for permission in variant.of_type("AWS::Lambda::Permission")} == {
        "lambda:InvokeFunction"
    }


def test_every_write_reserve_leaves_every_function_time_to_work(default: Stack) -> None:
    shortest_ms = 1000 * int(default.declared("FunctionTimeout")["MinValue"])
    longest_reserve_ms = int(default.declared("WriteReserveMs")["MaxValue"])

    assert longest_reserve_ms + START_MARGIN_MS < shortest_ms
    assert Settings().write_reserve_ms <= longest_reserve_ms


def test_the_worker_in_the_settings_is_the_stacks_worker(default: Stack) -> None:
    [alias] = [alias for alias in default.of_type("AWS::Lambda::Alias") if "Worker" in str(alias["FunctionName"])]
    _, _, function_name, qualifier = WORKER.rsplit(":", 3)

    assert (function(default, "WorkerFunction")["FunctionName"], alias["Name"]) == (function_name, qualifier)
    assert Settings.from_environment(environment(default)).worker == WORKER


def test_requests_and_the_worker_run_the_same_code_in_the_same_environment(stack: MakeStack) -> None:
    result = stack(MessageTopic="on", SnapStart="on", ReservedConcurrency="none")
    skip = {"Code", "Description", "FunctionName", "LoggingConfig", "RecursiveLoop", "Role", "SnapStart", "Timeout"}
    mcp, worker = ({key: value for key, value in function(result, name).items() if key not in skip} for name in SERVING)

    assert mcp == worker
    assert variables(result, "WorkerFunction")["BATON_TABLE"] == {"Ref": "TaskTable"}


def test_snapstart_applies_to_published_versions_only_if_turned_on(stack: MakeStack) -> None:
    for switch, versions in (("on", "PublishedVersions"), ("off", "None")):
        assert function(stack(SnapStart=switch))["SnapStart"] == {"ApplyOn": versions}
    # No client waits for a worker to start.
    assert "SnapStart" not in function(stack(SnapStart="on"), "WorkerFunction")


def test_the_worker_has_its_own_memory_timeout_and_concurrency(stack: MakeStack) -> None:
    own = {"WorkerMemorySize": "2048", "WorkerTimeout": "99", "WorkerConcurrency": "3"}
    worker = function(stack(**own, MemorySize="777"), "WorkerFunction")
    assert (worker["MemorySize"], worker["Timeout"], worker["ReservedConcurrentExecutions"]) == ("2048", "99", "3")

    default_stack = stack(MemorySize="777", FunctionTimeout="77", ReservedConcurrency="5")
    default_worker = function(default_stack, "WorkerFunction")
    assert (default_worker["MemorySize"], default_worker["Timeout"]) == ("777", "900")
    # Workers never use the concurrency that is reserved for requests.
    assert "ReservedConcurrentExecutions" not in default_worker
    assert function(default_stack)["ReservedConcurrentExecutions"] == "5"
    # Lambda's loop detection does not stop long workflows.
    assert default_worker["RecursiveLoop"] == "Allow"
    assert "RecursiveLoop" not in function(default_stack)


def test_the_workers_events_are_retried_and_then_sent_to_the_dead_letter_queue(default: Stack) -> None:
    asynchronous = default.single("AWS::Lambda::EventInvokeConfig")

    assert (asynchronous["FunctionName"], asynchronous["Qualifier"]) == ({"Ref": "WorkerFunction"}, "live")
    assert asynchronous["MaximumRetryAttempts"] == 2
    assert asynchronous["DestinationConfig"]["OnFailure"]["Destination"] == {"Fn::GetAtt": ["DeadLetterQueue", "Arn"]}
    # An event waits for free concurrency for as long as a task with the default TTL lives.
    assert 1000 * asynchronous["MaximumEventAgeInSeconds"] == Settings().default_ttl_ms == 3_600_000


def test_a_deleted_stack_leaves_the_documented_resources(default: Stack) -> None:
    resources = default.resources
    retained = {name for name, body in resources.items() if body.get("DeletionPolicy") == "Retain"}

    assert {name for name in retained if resources[name]["Type"] != "AWS::Lambda::Version"} == {
        "ApiLogsAccount",
        "ApiLogsRole",
    }
    assert resources["TaskTable"]["UpdateReplacePolicy"] == "Retain"


def test_the_table_has_the_stores_keys_and_settings(default: Stack) -> None:
    table = default.single("AWS::DynamoDB::Table")

    assert [(key["AttributeName"], key["KeyType"]) for key in table["KeySchema"]] == [("pk", "HASH"), ("sk", "RANGE")]
    assert table["BillingMode"] == "PAY_PER_REQUEST"
    assert table["TimeToLiveSpecification"] == {"AttributeName": "expires_at", "Enabled": True}
    assert table["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert table["SSESpecification"] == {"SSEEnabled": True}
    [index] = table["GlobalSecondaryIndexes"]
    assert (index["IndexName"], index["Projection"]) == ("lists", {"ProjectionType": "KEYS_ONLY"})
    assert [key["AttributeName"] for key in index["KeySchema"]] == ["listed_in", "listed_at"]


def test_the_function_has_its_topics_arn(stack: MakeStack, default: Stack) -> None:
    variant = stack(MessageTopic="on")

    assert variables(variant)["TOPIC_ARN"] == variant.outputs["MessageTopicArn"] == {"Ref": "Messages"}
    assert (default.of_type("AWS::SNS::Topic"), variables(default)["TOPIC_ARN"]) == ([], "")


@pytest.mark.parametrize("topic", ["", TOPIC])
def test_the_functions_may_publish_only_to_the_operators_topic(stack: MakeStack, topic: str) -> None:
    variant = stack(ApprovalTopic=topic)
    rights = [right["Resource"] for right in statements(variant) if right["Action"] == "sns:Publish"]

    assert rights == ([topic] if topic else [])
    assert variables(variant)["BATON_APPROVAL_TOPIC"] == topic


def test_dynamodb_has_the_regions_endpoint_except_under_sam_local(default: Stack) -> None:
    deployed: Mapping[str, str] = variables(default)
    name = "AWS_ENDPOINT_URL_DYNAMODB"
    local: Mapping[str, Mapping[str, str]] = json.loads((ROOT / "sam-local.json").read_text())

    assert local["WorkerFunction"] == local["McpFunction"]
    assert local["McpFunction"].keys() <= deployed.keys()  # `sam local` passes on nothing else
    endpoints = []
    for value in (deployed[name], local["McpFunction"][name]):
        with patch.dict(os.environ, {"AWS_DEFAULT_REGION": "eu-west-1", name: value}):
            endpoints.append(dynamodb_client().meta.endpoint_url)
    assert endpoints == ["https://dynamodb.eu-west-1.amazonaws.com", f"http://host.docker.internal:{DATABASE_PORT}"]


def test_the_template_and_the_settings_have_the_same_defaults(default: Stack) -> None:
    settings = Settings.from_environment(environment(default))
    assert settings == Settings(table="tasks", state_key_secret=SECRET, worker=WORKER, service=settings.service)


def test_the_key_that_signs_request_states_is_a_secret_of_the_stack(default: Stack) -> None:
    secret = default.single("AWS::SecretsManager::Secret")

    assert secret["GenerateSecretString"]["PasswordLength"] >= MIN_STATE_KEY_CHARS
    assert variables(default)["BATON_STATE_KEY_SECRET"] == STATE_KEY
    # The key itself is not in the environment.
    assert {"BATON_STATE_KEY", "BATON_STATE_KEY_PREVIOUS"} & set(variables(default)) == set()
    assert "resolve:" not in str(variables(default))


def test_logs_expire(stack: MakeStack) -> None:
    variant = stack(LogRetentionDays="7", **JWT)

    assert len(variant.of_type("AWS::Logs::LogGroup")) == 5
    assert {group.get("RetentionInDays") for group in variant.of_type("AWS::Logs::LogGroup")} == {"7"}
    for name in ("Mcp", "Worker", "Authorizer"):
        logging = function(variant, f"{name}Function")["LoggingConfig"]
        assert logging["LogGroup"] == {"Ref": f"{name}LogGroup"}


def test_api_gateways_error_log_group_is_created_by_the_stack_so_it_expires(stack: MakeStack, default: Stack) -> None:
    resources = default.resources

    assert resources["ApiErrorsLogGroup"]["Properties"]["LogGroupName"] == "API-Gateway-Execution-Logs_${Api}/v1"
    assert default.single("AWS::ApiGateway::Stage")["StageName"] == "v1"
    assert "ApiErrorsLogGroup" in references(resources["Apiv1Stage"])
    assert "ApiErrorsLogGroup" not in stack(ApiLogs="off").resources
    # API Gateway rejects the role in an account that never had an API.
    assert "Api" in references(resources["ApiLogsAccount"])
    assert "ApiLogsAccount" in references(resources["Apiv1Stage"])
    assert "ApiLogsAccount" not in stack(ApiLogs="role-exists").resources


def test_calls_are_throttled_measured_and_traced(stack: MakeStack) -> None:
    variant = stack(ThrottleRate="7", ThrottleBurst="9")
    stage = variant.single("AWS::ApiGateway::Stage")
    settings = stage["MethodSettings"]
    [setting] = [entry for entry in settings if (entry["HttpMethod"], entry["ResourcePath"]) == ("*", "/*")]

    assert (setting["ThrottlingRateLimit"], setting["ThrottlingBurstLimit"]) == ("7", "9")
    assert setting["MetricsEnabled"] is True
    # Otherwise API Gateway would log every request and response with its body.
    assert [entry["DataTraceEnabled"] for entry in settings] == [False] * len(settings)
    assert stage["TracingEnabled"] is True
    assert [function(variant, name)["TracingConfig"] for name in SERVING] == [{"Mode": "Active"}] * 2


def test_every_alarm_watches_this_stack_and_ignores_missing_data(stack: MakeStack) -> None:
    alarms = stack(**JWT, AlarmTopicArn=TOPIC).of_type("AWS::CloudWatch::Alarm")
    watched_metrics = {
        (alarm["MetricName"], dimension["Name"], str(dimension["Value"]))
        for alarm in alarms
        if alarm["Namespace"] != "Baton"
        for dimension in alarm["Dimensions"]
    }

    # The dimension FunctionName alone covers all versions and aliases of a function.
    expected = [(metric, name) for metric in ("Errors", "Throttles") for name in SERVING]
    expected += [("Duration", "McpFunction"), ("Errors", "AuthorizerFunction")]
    assert watched_metrics == {
        *((metric, "FunctionName", str({"Ref": name})) for metric, name in expected),
        ("ApproximateNumberOfMessagesVisible", "QueueName", str({"Fn::GetAtt": ["DeadLetterQueue", "QueueName"]})),
    }
    for alarm in alarms:
        assert alarm["ComparisonOperator"].startswith("Greater")
        assert (alarm["TreatMissingData"], alarm["AlarmActions"]) == ("notBreaching", [TOPIC])


def test_the_longest_subscription_causes_no_alarm(default: Stack) -> None:
    [threshold] = [
        alarm["Threshold"] for alarm in default.of_type("AWS::CloudWatch::Alarm") if "ExtendedStatistic" in alarm
    ]

    assert Settings().listen_ms < int(threshold) < 1000 * int(default.parameters["FunctionTimeout"])


def test_batons_alarms_use_the_metrics_that_it_emits(default: Stack) -> None:
    alarms = [alarm for alarm in default.of_type("AWS::CloudWatch::Alarm") if alarm["Namespace"] == "Baton"]

    assert variables(default)["POWERTOOLS_METRICS_NAMESPACE"] == "Baton"
    dimensions = [{"Name": "service", "Value": variables(default)["POWERTOOLS_SERVICE_NAME"]}]
    assert [alarm["Dimensions"] for alarm in alarms] == [dimensions] * len(alarms)
    metric_names = {
        metric.name
        for metric in (STORE_CONFLICTS, STORE_ERRORS, INTERNAL_ERRORS, WAKE_UP_DELAY)
        if not metric.dimension
    }
    assert {alarm["MetricName"] for alarm in alarms} == metric_names


def test_the_function_starts_on_the_streaming_runtime_and_pydantic_loads_no_plugins(default: Stack) -> None:
    assert (function(default)["Runtime"], function(default)["Handler"]) == ("python3.13", "app.lambda_handler")
    assert variables(default)["AWS_LAMBDA_EXEC_WRAPPER"] == "/opt/baton-runtime"
    assert variables(default)["PYDANTIC_DISABLE_PLUGINS"] == "__all__"
