"""Tests of the incident, with the testing kit and moto."""

import json
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import boto3
import pytest
from moto import mock_aws

from incident.app import server
from mcp_baton import BatonError
from mcp_baton.testing import Client, Run, StartedTask
from mcp_baton.testing.plugin import Connect

INCIDENT = {"service": "checkout"}
MEMORY = {"kind": "memory", "evidence": "ERROR OutOfMemoryError"}
DEPENDENCY = {"kind": "dependency", "evidence": "ERROR the bank does not answer"}


class Aws:
    """The account of these tests, in moto: a service with logs, a queue for the health check, and the team's topic."""

    def __init__(self, environment: pytest.MonkeyPatch) -> None:
        self.logs, self.ecs, self.sqs, self.sns = (_client(name) for name in ("logs", "ecs", "sqs", "sns"))
        self.ecs.create_cluster(clusterName="shop")
        container = {"name": "app", "image": "app", "memory": 128}
        self.ecs.register_task_definition(family="checkout", containerDefinitions=[container])
        self.ecs.create_service(cluster="shop", serviceName="checkout", taskDefinition="checkout", desiredCount=1)
        fifo = {"FifoQueue": "true"}
        self.health = self.sqs.create_queue(QueueName="health.fifo", Attributes=fifo)["QueueUrl"]
        self.team = self.sqs.create_queue(QueueName="team")["QueueUrl"]
        topic = self.sns.create_topic(Name="team")["TopicArn"]
        arn = self.sqs.get_queue_attributes(QueueUrl=self.team, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        self.sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn, Attributes={"RawMessageDelivery": "true"})
        self.logs.create_log_group(logGroupName="/ecs/checkout")
        self.logs.create_log_stream(logGroupName="/ecs/checkout", logStreamName="app")
        self.log("INFO started", MEMORY["evidence"])
        environment.setenv("ECS_CLUSTER", "shop")
        environment.setenv("LOG_GROUP_PREFIX", "/ecs/")
        environment.setenv("HEALTH_QUEUE_URL", self.health)
        environment.setenv("TOPIC_ARN", topic)

    def log(self, *lines: str) -> None:
        """Let the service write lines."""
        events = [{"timestamp": int(time.time() * 1000), "message": line} for line in lines]
        self.logs.put_log_events(logGroupName="/ecs/checkout", logStreamName="app", logEvents=events)

    @property
    def deployment(self) -> str:
        """The id of the service's deployment."""
        [service] = self.ecs.describe_services(cluster="shop", services=["checkout"])["services"]
        return str(service["deployments"][0]["id"])

    def messages(self, queue: str) -> list[str]:
        """Take the messages from a queue."""
        received = self.sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages", [])
        return [message["Body"] for message in received]


def _client(service: str) -> Any:
    session: Any = boto3.Session()
    return session.client(service)


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Aws]:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    with mock_aws():
        yield Aws(monkeypatch)


def begin(client: Client, cause: dict[str, str]) -> tuple[Run, StartedTask]:
    """Start the workflow and answer as the model does. Return the first run, and the task of the second call."""
    run = client.call_workflow("handle_incident", INCIDENT)
    assert run.pause.type == "answersRequired"
    return run, client.start_task("handle_incident", {"task_id": run.task_id, "answers": {"cause": cause}})


def approve(client: Client) -> None:
    approver = client.as_owner("ada", scopes=["on-call"])
    [approval] = approver.approvals()
    assert approval["message"] == "Restart checkout? Cause: memory"
    approver.approve(approval["approvalId"])


def test_an_approved_restart_is_checked_and_told_to_the_team(aws: Aws, baton: Connect) -> None:
    client, old_deployment = baton(server), aws.deployment
    run, task = begin(client, MEMORY)
    assert client.calls("restart_service") == []
    assert "OutOfMemoryError" in run.text
    assert "INFO started" not in run.text

    approve(client)
    assert aws.deployment != old_deployment
    [request] = map(json.loads, aws.messages(aws.health))
    assert request["callback"].startswith("https://server.test/callbacks/")
    assert aws.messages(aws.team) == []

    client.send_callback(task.task_id, "health", {"healthy": True})
    assert task.status == "completed"
    assert client.task(run.task_id).status == "completed"
    message = "checkout was restarted and is healthy. Cause: memory. Evidence: ERROR OutOfMemoryError"
    assert aws.messages(aws.team) == [message]


def test_a_restart_that_does_not_help_is_told_to_the_team(aws: Aws, baton: Connect) -> None:
    client = baton(server)
    task = begin(client, MEMORY)[1]
    approve(client)
    client.send_callback(task.task_id, "health", {"healthy": False})
    assert "was restarted and is still unhealthy" in aws.messages(aws.team)[0]


def test_a_health_check_that_does_not_report_ends_the_wait(aws: Aws, baton: Connect) -> None:
    client = baton(server)
    task = begin(client, MEMORY)[1]
    approve(client)
    client.clock.advance(timedelta(minutes=9))
    assert (task.status, aws.messages(aws.team)) == ("working", [])

    client.clock.advance(timedelta(minutes=2))
    assert task.status == "completed"
    assert "was restarted and has no health report" in aws.messages(aws.team)[0]
    with pytest.raises(BatonError, match="410"):
        client.send_callback(task.task_id, "health", {"healthy": True})


def test_a_denied_restart_is_not_made_and_the_model_tells_the_team(aws: Aws, baton: Connect) -> None:
    client, old_deployment = baton(server), aws.deployment
    run, task = begin(client, MEMORY)
    approver = client.as_owner("ada", scopes=["on-call"])
    approver.deny(approver.approvals()[0]["approvalId"], reason="not during the sale")
    assert "not during the sale" in task.result.text
    assert client.task(run.task_id).pause.type == "approvalDenied"
    assert (aws.deployment, aws.messages(aws.team)) == (old_deployment, [])

    result = client.call_tool("tell_team", {**INCIDENT, "cause": MEMORY}, task=run.task_id)
    assert result.recorded
    assert "checkout was not restarted" in aws.messages(aws.team)[0]
    assert client.complete(run.task_id, {"outcome": "denied"}).status == "completed"


def test_the_requester_cannot_approve(aws: Aws, baton: Connect) -> None:
    client, old_deployment = baton(server), aws.deployment
    begin(client, MEMORY)
    requester = client.with_claims(scope="on-call")
    with pytest.raises(BatonError, match="403"):
        requester.approve(requester.approvals()[0]["approvalId"])
    assert aws.deployment == old_deployment


def test_a_cause_that_a_restart_does_not_help_needs_no_approval(aws: Aws, baton: Connect) -> None:
    client, old_deployment = baton(server), aws.deployment
    task = begin(client, DEPENDENCY)[1]
    assert task.status == "completed"
    assert (aws.deployment, aws.messages(aws.health)) == (old_deployment, [])
    assert "checkout was not restarted" in aws.messages(aws.team)[0]


def test_a_worker_that_dies_asks_for_one_health_check(aws: Aws, baton: Connect) -> None:
    client, old_deployment = baton(server, workers="by hand"), aws.deployment
    run = client.call_workflow("handle_incident", INCIDENT)
    task = client.start_task("handle_incident", {"task_id": run.task_id, "answers": {"cause": MEMORY}})
    client.run_worker()
    approve(client)
    with client.killed_after("check_health"):
        client.run_worker()
    new_deployment = aws.deployment
    assert new_deployment != old_deployment

    client.run_worker()
    assert len(client.calls("check_health")) == 2
    assert aws.deployment == new_deployment
    assert len(aws.messages(aws.health)) == 1
    client.send_callback(task.task_id, "health", {"healthy": True})
    client.run_worker()
    assert (task.status, len(aws.messages(aws.team))) == ("completed", 1)


def test_only_the_newest_errors_are_read(aws: Aws, baton: Connect) -> None:
    aws.log(*(f"ERROR {number} " + 400 * "x" for number in range(20)))
    errors = baton(server).call_tool("read_errors", INCIDENT).value
    assert (len(errors), errors[-1][:9], len(errors[-1])) == (10, "ERROR 19 ", 160)


@pytest.mark.usefixtures("aws")
def test_an_unknown_service_is_named(baton: Connect) -> None:
    run = baton(server).call_workflow("handle_incident", {"service": "basket"})
    assert run.pause.error == "there is no log group '/ecs/basket'"


@pytest.mark.usefixtures("aws")
def test_the_health_check_is_only_asked_for_in_the_workflow(baton: Connect) -> None:
    assert baton(server).call_tool("check_health", INCIDENT).is_error
