"""Checks of a deployed stack, with AWS credentials."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import boto3
import httpx

from mcp_baton.aws import dynamodb_store
from mcp_baton.cli.remote.http import Access
from mcp_baton.settings import Settings
from mcp_baton.tasks.dynamodb.items import LISTED_AT, LISTED_IN, LISTS, key_of
from mcp_baton.tasks.record import JobSpec, NewTask
from tests.smoke.endpoint import LIST, http_client
from tests.smoke.report import Finding, failed, held, not_checked

OWNER: Final = "baton-smoke"
TOOL: Final = "baton_smoke_no_such_tool"
"""No server has this tool, so the worker ends the task without running anything."""

LATE_MS: Final = 300_000
"""The age of the probe's task: that of a task whose event was lost. So the next sweep takes it."""

SWEPT_WITHIN_S: Final = 240.0
INDEXED_WITHIN_S: Final = 20.0
POLL_S: Final = 2.0
MAX_REQUESTS: Final = 600
"""The maximum number of requests in the check of throttles."""


class Stack:
    """A stack that was deployed from the template. Raises `LookupError` for other stacks."""

    def __init__(self, name: str, access: Access) -> None:
        cloudformation = _client("cloudformation")
        [description] = cloudformation.describe_stacks(StackName=name)["Stacks"]
        resources = cloudformation.describe_stack_resources(StackName=name)["StackResources"]
        self.name = name
        self.parameters = {entry["ParameterKey"]: entry["ParameterValue"] for entry in description["Parameters"]}
        self.outputs = {entry["OutputKey"]: entry["OutputValue"] for entry in description["Outputs"]}
        self.resources = {entry["LogicalResourceId"]: entry["PhysicalResourceId"] for entry in resources}
        self.access = access
        self.table = self.outputs["TaskTableName"]
        self._dynamodb = _client("dynamodb")
        self.is_aws = "amazonaws.com" in self._dynamodb.meta.endpoint_url
        self._probe: dict[str, Any] | None = None
        self._store = dynamodb_store(
            self.table, Settings(), lambda: self._dynamodb, now_ms=lambda: time.time_ns() // 1_000_000 - LATE_MS
        )

    def uses_dynamodb(self) -> Iterator[Finding]:
        """Check that the function uses the real endpoint of its region."""
        function = _client("lambda").get_function_configuration(
            FunctionName=self.outputs["FunctionName"], Qualifier="live"
        )
        endpoint = function["Environment"]["Variables"].get("AWS_ENDPOINT_URL_DYNAMODB", "")
        if endpoint:
            yield failed(f"the function uses {endpoint}")
        elif self.is_aws:
            yield held("the function uses the endpoint of its region")
        else:
            yield not_checked(f"{self._dynamodb.meta.endpoint_url} is not DynamoDB's endpoint")

    def encrypts(self) -> Iterator[Finding]:
        """Check that the table is encrypted with the key that the stack's parameter names."""
        key = self.parameters["KmsKeyArn"]
        if not key:
            yield not_checked("KmsKeyArn is not set")
            return
        encryption = self._dynamodb.describe_table(TableName=self.table)["Table"].get("SSEDescription") or {}
        if (encryption.get("Status"), encryption.get("KMSMasterKeyArn")) == ("ENABLED", key):
            yield held(f"the table is encrypted with {key}")
        else:
            yield failed(f"the table is encrypted with {encryption or 'a key of AWS'}, and not with {key}")

    def throttles(self) -> Iterator[Finding]:
        """Check that a burst of requests above the limits gets 429."""
        limits = {"ThrottleBurst": int(self.parameters["ThrottleBurst"])}
        if self.parameters["Auth"] == "API_KEY":
            limits["KeyBurstLimit"] = int(self.parameters["KeyBurstLimit"])
        name, limit = min(limits.items(), key=lambda entry: entry[1])
        count = 4 * limit
        if not self.is_aws:
            yield not_checked("emulators of AWS do not throttle")
            return
        if count > MAX_REQUESTS:
            yield not_checked(f"{name}={limit} takes more than {MAX_REQUESTS} requests to reach")
            return
        with http_client(self.access) as client, ThreadPoolExecutor(64) as threads:
            statuses = list(threads.map(lambda _: client.post(self.access.url, json=LIST).status_code, range(count)))
        rejected = statuses.count(httpx.codes.TOO_MANY_REQUESTS)
        if rejected:
            yield held(f"{rejected} of {count} requests at once get 429 ({name}={limit})")
        else:
            yield failed(f"none of {count} requests at once gets 429 ({name}={limit})")

    def lists(self) -> Iterator[Finding]:
        """Check that the index contains the probe's task, which looks like one whose event was lost."""
        job = JobSpec(TOOL, request_id=self.name, revision="2025-11-25")
        task_id = self._store.create(NewTask(OWNER, {}, work=job)).task_id
        self._probe = dict(key_of(OWNER, task_id))
        item = self._item()
        request = {
            "TableName": self.table,
            "IndexName": LISTS,
            "KeyConditionExpression": f"{LISTED_IN}=:list AND {LISTED_AT}=:at",
            "ExpressionAttributeValues": {":list": item[LISTED_IN], ":at": item[LISTED_AT]},
        }
        is_indexed = _wait_until(
            INDEXED_WITHIN_S, lambda: self._probe in [_key(entry) for entry in self._dynamodb.query(**request)["Items"]]
        )
        outcome, verb = (held, "has") if is_indexed else (failed, "lacks")
        yield outcome(f"the index {LISTS!r} {verb} a new task")

    def sweeps(self) -> Iterator[Finding]:
        """Check that the schedule is on, and that the worker ends the probe's task. Only a sweep can find that task."""
        if self.parameters["Sweep"] != "on":
            yield not_checked("Sweep is off")
            return
        schedule = _client("scheduler").get_schedule(Name=self.resources["McpFunctionSweep"])
        if schedule["State"] != "ENABLED" or not schedule["Target"]["Arn"].endswith(":live"):
            yield failed(f"the schedule is {schedule['State']}, for {schedule['Target']['Arn']}")
        elif self._probe is None:
            yield not_checked("there is no task that a sweep could find")
        elif _wait_until(SWEPT_WITHIN_S, lambda: self._item()["status"]["S"] == "failed"):
            yield held("the schedule found a task whose event was lost, and the worker ended it")
        else:
            yield failed(f"in {SWEPT_WITHIN_S:.0f} s the schedule did not find a task whose event was lost")

    def clean_up(self) -> Iterator[Finding]:
        """Delete the probe's task."""
        if self._probe is not None:
            self._dynamodb.delete_item(TableName=self.table, Key=self._probe)
            yield held("the task of the index and of the sweeps was deleted")

    def _item(self) -> dict[str, Any]:
        item: dict[str, Any] = self._dynamodb.get_item(TableName=self.table, Key=self._probe, ConsistentRead=True)[
            "Item"
        ]
        return item


def _key(item: dict[str, Any]) -> dict[str, Any]:
    return {name: item[name] for name in ("pk", "sk")}


def _wait_until(within_s: float, condition: Callable[[], bool]) -> bool:
    """Wait until `condition` returns true. Return whether it did so in time."""
    end_s = time.monotonic() + within_s
    while not (is_met := condition()) and time.monotonic() < end_s:
        time.sleep(POLL_S)
    return is_met


def _client(service: str) -> Any:
    # boto3's types depend on literal service names. The stubs of most services are not installed.
    create_client: Any = boto3.client
    return create_client(service)
