"""What the deployment made of the template."""

import json

import pytest

from tests.deployed.conftest import ORIGIN
from tests.deployed.conversation import ask
from tests.deployed.deployment import Stack


def test_an_unknown_path_is_not_found_and_never_reaches_the_function(stack: Stack, keys: tuple[str, str]) -> None:
    url = stack.endpoint.replace("/mcp", "/nowhere")
    answer = ask(url, stack.caller(x_api_key=keys[0]))
    assert (answer.status, json.loads(answer.body)["message"]) == (404, "not found: the endpoint is POST /mcp")


@pytest.mark.parametrize("headers", [{}, {"x_api_key": "wrong"}])
def test_the_reply_to_a_caller_without_a_key_names_the_key(stack: Stack, headers: dict[str, str]) -> None:
    answer = ask(stack.endpoint, stack.caller(**headers))
    assert (answer.status, json.loads(answer.body)["message"]) == (403, "a valid API key is needed: x-api-key: ...")


def test_other_methods_are_the_functions_to_refuse(stack: Stack, keys: tuple[str, str]) -> None:
    assert ask(stack.endpoint, stack.caller(x_api_key=keys[0]), None, method="GET").status == 405


def test_the_table_is_on_demand_and_keyed_by_owner_and_task(stack: Stack) -> None:
    table = stack.twin.client("dynamodb").describe_table(TableName=stack.outputs["TaskTableName"])["Table"]
    assert table["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
    assert [(key["AttributeName"], key["KeyType"]) for key in table["KeySchema"]] == [("pk", "HASH"), ("sk", "RANGE")]


def test_the_table_expires_its_items_keeps_a_backup_and_is_encrypted(stack: Stack) -> None:
    dynamodb, name = stack.twin.client("dynamodb"), stack.outputs["TaskTableName"]
    expiry = dynamodb.describe_time_to_live(TableName=name)["TimeToLiveDescription"]
    assert expiry == {"TimeToLiveStatus": "ENABLED", "AttributeName": "expires_at"}
    backups = dynamodb.describe_continuous_backups(TableName=name)["ContinuousBackupsDescription"]
    assert backups["PointInTimeRecoveryDescription"]["PointInTimeRecoveryStatus"] == "ENABLED"
    assert dynamodb.describe_table(TableName=name)["Table"]["SSEDescription"]["Status"] == "ENABLED"


def test_the_alarms_watch_this_stacks_function_queue_and_metrics(stack: Stack) -> None:
    cloudwatch = stack.twin.client("cloudwatch")
    names = stack.resources("AWS::CloudWatch::Alarm")
    found = {alarm["AlarmName"]: alarm for alarm in cloudwatch.describe_alarms()["MetricAlarms"]}
    alarms = {logical: found[name] for logical, name in names.items()}
    watched = {
        logical: (alarm["Namespace"], alarm["MetricName"], [d["Value"] for d in alarm["Dimensions"]])
        for logical, alarm in alarms.items()
    }
    function = stack.outputs["FunctionName"]
    queue = stack.outputs["DeadLetterQueueUrl"].rsplit("/", 1)[1]
    assert watched == {
        "ErrorsAlarm": ("AWS/Lambda", "Errors", [function]),
        "ThrottlesAlarm": ("AWS/Lambda", "Throttles", [function]),
        "WorkerErrorsAlarm": ("AWS/Lambda", "Errors", [stack.worker]),
        "WorkerThrottlesAlarm": ("AWS/Lambda", "Throttles", [stack.worker]),
        "LatencyAlarm": ("AWS/Lambda", "Duration", [function]),
        "DeadLetterAlarm": ("AWS/SQS", "ApproximateNumberOfMessagesVisible", [queue]),
        "InternalErrorsAlarm": ("Baton", "InternalErrors", [stack.name]),
        "StoreErrorsAlarm": ("Baton", "StoreErrors", [stack.name]),
        "StoreConflictsAlarm": ("Baton", "StoreConflicts", [stack.name]),
    }
    assert alarms["LatencyAlarm"]["ExtendedStatistic"] == "p99"
    assert {alarm["TreatMissingData"] for alarm in alarms.values()} == {"notBreaching"}


def test_the_workers_events_that_fail_for_good_end_in_the_dead_letter_queue(stack: Stack) -> None:
    aws_lambda = stack.twin.client("lambda")
    settings = aws_lambda.get_function_event_invoke_config(FunctionName=stack.worker, Qualifier="live")
    queue = stack.outputs["DeadLetterQueueUrl"].rsplit("/", 1)[1]
    assert settings["DestinationConfig"]["OnFailure"]["Destination"].endswith(f":{queue}")
    assert (settings["MaximumRetryAttempts"], settings["MaximumEventAgeInSeconds"]) == (2, 3600)


def test_logs_are_kept_for_as_long_as_the_template_says(stack: Stack) -> None:
    logs = stack.twin.client("logs")
    groups = {group["logGroupName"]: group.get("retentionInDays") for group in logs.describe_log_groups()["logGroups"]}
    names = ("/aws/lambda/baton", "/aws/lambda/baton-worker", "/aws/apigateway/baton")
    assert [groups[name] for name in names] == [30, 30, 30]


def test_a_page_of_an_allowed_origin_may_call_and_another_may_not(probe: Stack) -> None:
    asked = {"Access_Control_Request_Method": "POST"}
    allowed = ask(probe.endpoint, probe.caller(Origin=ORIGIN, **asked), method="OPTIONS")
    refused = ask(probe.endpoint, probe.caller(Origin="https://evil.example.com", **asked), method="OPTIONS")
    assert (allowed.status, allowed.headers.get("access-control-allow-origin")) == (204, ORIGIN)
    assert refused.headers.get("access-control-allow-origin") is None
