"""`baton redrive` sends the events of the dead-letter queue again and deletes the messages of accepted events."""

import json
from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock, patch

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from mcp_baton.cli.app import main
from mcp_baton.cli.redrive import MESSAGES_PER_BATCH

WORKER = "baton-worker:live"


def event(task: str) -> dict[str, Any]:
    return {"batonTask": {"owner": "kim", "taskId": task, "dispatch": 1}}


def record(payload: Any) -> str:
    """Return a part of what Lambda sends to a failure destination (AWS Lambda Developer Guide, "Adding a
    destination")."""
    context = {"condition": "RetriesExhausted", "approximateInvokeCount": 3}
    return json.dumps({"version": "1.0", "requestContext": context, "requestPayload": payload, "responsePayload": {}})


class Worker:
    """Stands in for Lambda's client. It refuses the events of the tasks in `refuses`. moto would run the function in
    Docker."""

    def __init__(self) -> None:
        self.refuses: dict[str, int] = {}
        self.accepted_events: list[Any] = []

    def invoke(self, *, FunctionName: str, InvocationType: str, Payload: bytes) -> dict[str, Any]:  # noqa: N803
        assert (FunctionName, InvocationType) == (WORKER, "Event")
        event_body = json.loads(Payload)
        is_task = isinstance(event_body, dict) and "batonTask" in event_body
        status = self.refuses.get(event_body["batonTask"]["taskId"], 202) if is_task else 202
        if status >= 400:
            raise ClientError({"Error": {"Code": "TooManyRequestsException", "Message": "Rate exceeded"}}, "Invoke")
        self.accepted_events.append(event_body)
        return {"StatusCode": status}


class Queue:
    """A dead-letter queue in moto, with a worker and the command."""

    def __init__(self) -> None:
        self.sqs = boto3.client("sqs", region_name="eu-west-1")
        self.url = self.sqs.create_queue(QueueName="dead-letters")["QueueUrl"]
        self.worker = Worker()

    def add(self, *bodies: str) -> None:
        for body in bodies:
            self.sqs.send_message(QueueUrl=self.url, MessageBody=body)

    def remaining_tasks(self) -> list[str]:
        """Return the tasks of the messages that can be received now."""
        bodies: list[str] = []
        while messages := self.sqs.receive_message(QueueUrl=self.url, MaxNumberOfMessages=10).get("Messages", []):
            bodies += [message["Body"] for message in messages]
        return sorted(json.loads(body)["requestPayload"]["batonTask"]["taskId"] for body in bodies)

    def redrive(self, *options: str) -> int:
        clients: dict[str, Any] = {"sqs": self.sqs, "lambda": self.worker}

        def client(name: str, region_name: str | None) -> Any:
            return clients[name]

        with patch("boto3.client", side_effect=client), patch("mcp_baton.cli.redrive.LONG_POLL_S", 0):
            return main(["redrive", "--queue", self.url, "--function", WORKER, *options])


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Iterator[Queue]:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    with mock_aws():
        yield Queue()


def test_each_event_is_sent_unchanged_and_its_message_deleted(queue: Queue, capsys: pytest.CaptureFixture[str]) -> None:
    tasks = [f"t-{number:02}" for number in range(MESSAGES_PER_BATCH + 2)]
    queue.add(*(record(event(task)) for task in tasks))

    assert queue.redrive() == 0

    assert sorted(queue.worker.accepted_events, key=str) == [event(task) for task in tasks]
    assert queue.remaining_tasks() == []
    *lines, counts = capsys.readouterr().out.splitlines()
    assert sorted(lines) == [f"task {task}: sent again" for task in tasks]
    assert counts == "12 sent again, 0 failed and stayed in the queue"


@pytest.mark.parametrize(("status", "cause"), [(429, "Rate exceeded"), (200, "Lambda answered 200 instead of 202")])
def test_a_message_stays_if_its_event_is_not_accepted(
    queue: Queue, capsys: pytest.CaptureFixture[str], status: int, cause: str
) -> None:
    queue.worker.refuses["t-2"] = status
    queue.add(record(event("t-1")), record(event("t-2")), record(event("t-3")))

    assert queue.redrive() == 1

    # The message can be received at once, because the command makes it visible again.
    assert queue.remaining_tasks() == ["t-2"]
    printed = capsys.readouterr().out
    assert "task t-2: failed: " in printed
    assert cause in printed
    assert printed.endswith("2 sent again, 1 failed and stayed in the queue\n")


def test_a_dry_run_sends_nothing_and_leaves_every_message(queue: Queue, capsys: pytest.CaptureFixture[str]) -> None:
    queue.add(record(event("t-1")), record(event("t-2")))

    assert queue.redrive("--dry-run") == 0

    assert (queue.worker.accepted_events, queue.remaining_tasks()) == ([], ["t-1", "t-2"])
    *lines, counts = capsys.readouterr().out.splitlines()
    assert sorted(lines) == ["task t-1: would be sent again", "task t-2: would be sent again"]
    assert counts == "2 would be sent again, 0 failed and stayed in the queue"


@pytest.mark.parametrize(
    "body", ["no JSON", "[]", record("text"), record({"httpMethod": "POST"}), record({"batonTask": {"taskId": 1}})]
)
def test_messages_without_an_event_fail_and_stay(queue: Queue, capsys: pytest.CaptureFixture[str], body: str) -> None:
    queue.add(body)

    assert queue.redrive() == 1

    assert queue.worker.accepted_events == []
    [message] = queue.sqs.receive_message(QueueUrl=queue.url)["Messages"]
    assert message["Body"] == body
    assert f"message {message['MessageId']}: failed: it " in capsys.readouterr().out


def start(event_id: str) -> dict[str, Any]:
    return {"batonStart": {"workflow": "settle", "arguments": {}, "owner": "kim", "id": event_id}}


@pytest.mark.parametrize(
    ("body", "sent", "name"),
    [
        (record(start("e-1")), start("e-1"), "start e-1"),
        (record([start("e-1")]), [start("e-1")], "start e-1"),
        (record([start("e-1"), {"other": 1}]), [start("e-1"), {"other": 1}], "start e-1 and 1 more"),
        (json.dumps(start("e-1")), start("e-1"), "start e-1"),
    ],
    ids=["Lambda", "one of an array", "an array", "Scheduler"],
)
def test_an_event_that_starts_a_workflow_is_sent_again(
    queue: Queue, capsys: pytest.CaptureFixture[str], body: str, sent: object, name: str
) -> None:
    queue.add(body)

    assert queue.redrive() == 0

    assert queue.worker.accepted_events == [sent]
    assert capsys.readouterr().out == f"{name}: sent again\n1 sent again, 0 failed and stayed in the queue\n"


def test_a_message_that_cannot_be_deleted_is_reported(queue: Queue, capsys: pytest.CaptureFixture[str]) -> None:
    queue.add(record(event("t-1")))
    denied = ClientError({"Error": {"Code": "AccessDenied", "Message": "no sqs:DeleteMessage"}}, "DeleteMessage")

    with patch.object(queue.sqs, "delete_message", side_effect=denied):
        assert queue.redrive() == 1

    assert queue.worker.accepted_events == [event("t-1")]
    assert "its event was sent again, but the message cannot be deleted" in capsys.readouterr().out


def test_a_queue_that_does_not_exist_ends_with_code_2(queue: Queue, capsys: pytest.CaptureFixture[str]) -> None:
    queue.sqs.delete_queue(QueueUrl=queue.url)

    assert queue.redrive() == 2

    assert f"the queue {queue.url} cannot be read: " in capsys.readouterr().err


@pytest.mark.parametrize("region", ["us-east-1", ""])
def test_the_region_is_that_of_the_queue(monkeypatch: pytest.MonkeyPatch, queue: Queue, region: str) -> None:
    queue.add(record(event("t-1")))
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    monkeypatch.setenv("AWS_REGION", region)
    assert main(["redrive", "--queue", queue.url, "--function", WORKER, "--dry-run"]) == 0


def test_a_queue_that_cannot_be_read_ends_with_code_4(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], queue: Queue
) -> None:
    refusal = ClientError({"Error": {"Code": "AccessDenied", "Message": "NonExistentQueue"}}, "ReceiveMessage")
    monkeypatch.setattr(queue.sqs, "receive_message", Mock(side_effect=refusal))
    assert queue.redrive() == 4
    assert f"the queue {queue.url} cannot be read: " in capsys.readouterr().err


def test_without_a_region_the_message_names_the_variable(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    arguments = ["redrive", "--queue", "http://localhost:4566/1/dead-letters", "--function", WORKER]
    with patch("boto3.DEFAULT_SESSION", None):
        assert main(arguments) == 2
    assert "Set AWS_REGION" in capsys.readouterr().err
    monkeypatch.setenv("AWS_PROFILE", "gone")
    with patch("boto3.DEFAULT_SESSION", None):
        assert main(arguments) == 2
    assert capsys.readouterr().err == "baton: The config profile (gone) could not be found\n"
