"""Events start workflows: the resources of docs/events.md deliver them to the deployed worker. And calls of workflows
that are repeated (docs/workflows.md, Repeated calls).
"""

import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.deployed.callers import Caller
from tests.deployed.containers import worker_logs
from tests.deployed.conversation import result_of, tasks_of
from tests.deployed.deployment import Stack
from tests.deployed.machine import REGION
from tests.deployed.test_background import item_of, wait_until
from tests.event_docs import blocks, with_event_resources

SCHEDULED_TIME = "<aws.scheduler.scheduled-time>"
"""The emulator does not replace it."""
SLOW_S = 3.0
"""A reply that takes this long is slow: its client may have given up."""


@dataclass(frozen=True, slots=True)
class Starts:
    """A stack with the resources of docs/events.md, and the caller who is the owner in their events."""

    stack: Stack
    owner: Caller
    owner_id: str


@pytest.fixture(scope="module")
def starts(stack: Stack, probe_code: Path) -> Starts:
    gateway = stack.emulator.client("apigateway")
    key = gateway.create_api_key(name="events", enabled=True)

    def change(template: str) -> str:
        template = with_event_resources(template)
        # The emulator takes no events of AWS's own sources from tests.
        values = {"cron(0 1 * * ? *)": "at(2026-01-01T00:00:00)", "[aws.cloudwatch]": "[shop.cloudwatch]"}
        owners = {f'"owner": "{owner}"': f'"owner": "{key["id"]}"' for owner in ("finance", "on-call", "accounting")}
        for old, new in {**values, **owners}.items():
            assert template.count(old) == 1, old
            template = template.replace(old, new)
        return template

    copy = stack.copy("starts", probe_code, change)
    [plan] = copy.resources("AWS::ApiGateway::UsagePlan").values()
    gateway.create_usage_plan_key(usagePlanId=plan, keyId=key["id"], keyType="API_KEY")
    return Starts(copy, copy.caller(x_api_key=key["value"]), key["id"])


def tasks(starts: Starts, workflow: str) -> list[dict[str, Any]]:
    """Return the tasks of a workflow in the owner's list, newest first."""
    return [task for task in tasks_of(starts.stack, starts.owner) if task["_meta"].get("workflow") == workflow]


def wait_for_one(starts: Starts, workflow: str) -> dict[str, Any]:
    """Wait until the owner has one task of a workflow, and it is completed. Return its arguments."""
    wait_until(lambda: [task["status"] for task in tasks(starts, workflow)] == ["completed"])
    [task] = tasks(starts, workflow)
    arguments = item_of(starts.stack, task["taskId"])["arguments"]["M"]
    return {name: value["S"] for name, value in arguments.items()}


def wait_for_repetition(starts: Starts, workflow: str) -> None:
    """Wait until the worker has got an event of this workflow again."""
    wait_until(lambda: f"has started the workflow {workflow} before" in worker_logs(starts.stack))


def raise_alarm(starts: Starts, name: str | int) -> None:
    detail = json.dumps({"alarmName": name, "state": {"value": "ALARM"}})
    alarm = {"Source": "shop.cloudwatch", "DetailType": "CloudWatch Alarm State Change", "Detail": detail}
    assert starts.stack.emulator.client("events").put_events(Entries=[alarm])["FailedEntryCount"] == 0


def test_a_schedule_starts_a_workflow_once_for_its_owner(starts: Starts) -> None:
    assert wait_for_one(starts, "settle_day") == {"day": SCHEDULED_TIME}

    scheduler = starts.stack.emulator.client("scheduler")
    schedule = scheduler.get_schedule(Name=starts.stack.resources("AWS::Scheduler::Schedule")["SettleSchedule"])
    members = ("ScheduleExpression", "FlexibleTimeWindow", "Target")
    scheduler.create_schedule(Name="settle-again", **{member: schedule[member] for member in members})
    wait_for_repetition(starts, "settle_day")
    assert len(tasks(starts, "settle_day")) == 1


def test_a_rule_that_delivers_an_event_twice_starts_one_workflow(starts: Starts) -> None:
    events, rule = starts.stack.emulator.client("events"), starts.stack.resources("AWS::Events::Rule")["AlarmRule"]
    [target] = events.list_targets_by_rule(Rule=rule)["Targets"]
    events.put_targets(Rule=rule, Targets=[{**target, "Id": "again"}])
    try:
        raise_alarm(starts, "checkout")
        assert wait_for_one(starts, "handle_alarm") == {"alarm": "checkout"}
        wait_for_repetition(starts, "handle_alarm")
    finally:
        events.remove_targets(Rule=rule, Ids=["again"])
    assert len(tasks(starts, "handle_alarm")) == 1


def test_a_new_file_starts_a_workflow(starts: Starts) -> None:
    s3 = starts.stack.emulator.client("s3")
    s3.create_bucket(Bucket="invoices", CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.put_bucket_notification_configuration(
        Bucket="invoices", NotificationConfiguration={"EventBridgeConfiguration": {}}
    )
    s3.put_object(Bucket="invoices", Key="2026-11/17.pdf", Body=b"%PDF")

    assert wait_for_one(starts, "book_invoice") == {"bucket": "invoices", "key": "2026-11/17.pdf"}


def test_an_invalid_event_becomes_a_dead_letter(starts: Starts) -> None:
    sqs, queue = starts.stack.emulator.client("sqs"), starts.stack.outputs["DeadLetterQueueUrl"]
    letters: list[dict[str, Any]] = []

    def arrived() -> bool:
        messages = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=1).get("Messages", [])
        letters.extend(json.loads(message["Body"]) for message in messages)
        return any("handle_alarm" in str(letter) for letter in letters)

    raise_alarm(starts, 7)
    wait_until(arrived)
    [letter] = letters
    event = letter["requestPayload"]["batonStart"]
    assert (event["workflow"], event["arguments"], event["owner"]) == ("handle_alarm", {"alarm": 7}, starts.owner_id)
    assert letter["responsePayload"]["errorType"] == "EventError"
    assert letter["responsePayload"]["errorMessage"].startswith("`batonStart.arguments`: ")


def test_of_the_array_of_a_pipe_the_valid_events_start_and_the_error_names_the_other(starts: Starts) -> None:
    """The emulator's pipes do not read queues. So the test sends what the page's pipe would send."""
    [template] = re.findall(r"InputTemplate: >-\n((?: +\S.*\n)+?)(?=\S)", blocks()[3])
    template = " ".join(template.split()).replace('"owner": "shop"', f'"owner": "{starts.owner_id}"')

    def deliver(order_ids: list[Any]) -> dict[str, Any]:
        """Send the messages, with their positions as ids."""
        messages = [
            template.replace("<$.body.order_id>", json.dumps(order_id)).replace("<$.messageId>", f'"message-{number}"')
            for number, order_id in enumerate(order_ids)
        ]
        response = starts.stack.emulator.client("lambda").invoke(
            FunctionName=starts.stack.outputs["Worker"], Payload=f"[{','.join(messages)}]".encode()
        )
        payload: dict[str, Any] = json.loads(response["Payload"].read())
        assert ("FunctionError" in response) is ("errorMessage" in payload), payload
        return payload

    error = deliver(["A-1", 2, "A-3"])["errorMessage"]
    assert error.startswith("1 of 3 events started nothing, the others have started: event 1: `batonStart.arguments`: ")
    wait_until(lambda: [task["status"] for task in tasks(starts, "fulfil_order")] == ["completed"] * 2)

    outcomes = [event["outcome"] for event in deliver(["A-1", "A-2", "A-3"])["events"]]
    assert outcomes == ["repeated", "started", "repeated"]
    wait_until(lambda: [task["status"] for task in tasks(starts, "fulfil_order")] == ["completed"] * 3)


def doze(starts: Starts, seconds: float) -> dict[str, Any]:
    """Call the workflow `doze` without a task. Return the reply's `_meta`."""
    result = result_of(starts.stack, starts.owner, "doze", seconds=seconds)
    assert result["isError"] is False, result
    meta: dict[str, Any] = result["_meta"]
    return meta


def test_a_repeated_call_whose_first_reply_was_slow_gets_the_same_task(starts: Starts) -> None:
    """Whether the first call still runs or has just ended, when the second one arrives."""
    with ThreadPoolExecutor(2) as threads:
        metas = list(threads.map(lambda _: doze(starts, SLOW_S), range(2)))
    assert sorted(meta.get("repeats", False) for meta in metas) == [False, True]
    later = doze(starts, SLOW_S)
    assert (later["repeats"], later["task_status"]) == (True, "completed")
    assert {meta["task_id"] for meta in metas} == {later["task_id"]}


def test_a_repeated_call_whose_first_reply_was_fast_starts_another_task(starts: Starts) -> None:
    for attempt in range(20):
        start_s = time.monotonic()
        first = doze(starts, attempt / 1000)
        if time.monotonic() - start_s < SLOW_S:
            break
    second = doze(starts, attempt / 1000)
    assert (second.get("repeats"), second["task_id"] == first["task_id"]) == (None, False)
