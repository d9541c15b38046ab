"""`baton redrive`: retry the worker's events that failed permanently (docs/operating.md, Dead letters).

The events are in the queue that is the failure destination of the worker's asynchronous invocations. Each message
contains the event as `requestPayload` (AWS Lambda Developer Guide, "Adding a destination", the example record).
A message may also be the event itself.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from mcp_baton.cli import options
from mcp_baton.cli.options import check_region, environment_region
from mcp_baton.cli.remote.errors import Unreachable
from mcp_baton.clients import ACCEPTED_STATUS
from mcp_baton.exceptions import BatonError
from mcp_baton.local.clean_text import echo
from mcp_baton.local.log import log_to_stderr
from mcp_baton.protocol.json import MAX_LEVELS, loads

MESSAGES_PER_BATCH: Final = 10
LONG_POLL_S: Final = 2
"""How long SQS waits for messages. With long polling, SQS queries all of its servers."""
MESSAGE_HIDDEN_S: Final = 600
"""How long a received message is hidden from other consumers. A message that stays becomes visible at the end."""


def redrive(
    queue: Annotated[
        str, typer.Option(parser=options.queue, metavar="URL", help="The stack's output DeadLetterQueueUrl.")
    ],
    function: Annotated[
        str,
        typer.Option(
            parser=options.alias, metavar="NAME", help="The stack's output Worker: an alias's ARN, or name:alias."
        ),
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be sent, and send nothing.")] = False,
) -> int:
    """Invoke the worker again with the dead-letter queue's events.

    Events that the worker accepts are deleted from the queue.
    """
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError, NoRegionError

    log_to_stderr()
    try:
        # The stack's region, whatever the environment says. URLs of an emulator have none.
        in_url = re.match(r"https://sqs\.([a-z0-9-]+)\.", queue)
        region = in_url[1] if in_url else environment_region()
        sqs, aws_lambda = boto3.client("sqs", region_name=region), boto3.client("lambda", region_name=region)
    except BotoCoreError as error:
        remedy = " Set AWS_REGION, or AWS_PROFILE to a profile that has a region."
        raise BatonError(f"{error}{remedy if isinstance(error, NoRegionError) else ''}") from error
    check_region(sqs.meta.region_name)
    return Redrive(queue, function, dry_run, sqs, aws_lambda, (BotoCoreError, ClientError)).run()


@dataclass(frozen=True, slots=True)
class Redrive:
    """Sends the events of a queue to the worker, which is an alias: its ARN, or `name:alias`."""

    queue: str
    function: str
    dry_run: bool
    sqs: Any
    aws_lambda: Any
    errors: tuple[type[Exception], ...]
    """The errors of botocore, which is imported when the command runs."""

    def run(self) -> int:
        """Send every event and delete its message. Return the exit code, 1 if an event could not be sent. Raises
        `BatonError` if the queue does not exist, and `Unreachable` if it cannot be read.

        Sending an event twice is safe: only one worker at a time runs a task, and an event starts a workflow once.
        """
        action = "would be sent again" if self.dry_run else "sent again"
        sent_count, failed_count, remaining = 0, 0, list[dict[str, Any]]()
        try:
            for message in self._messages():
                try:
                    name, event = _event(message["Body"])
                    problem = None if self.dry_run else self._send(message, event)
                except ValueError as error:
                    name, problem = f"message {message['MessageId']}", str(error)
                echo(f"{name}: {action if problem is None else f'failed: {problem}'}")
                if problem or self.dry_run:
                    remaining.append(message)
                sent_count, failed_count = (sent_count, failed_count + 1) if problem else (sent_count + 1, failed_count)
        finally:
            for message in remaining:
                self._make_visible(message)
        echo(f"{sent_count} {action}, {failed_count} failed and stayed in the queue")
        return 1 if failed_count else 0

    def _messages(self) -> Iterator[dict[str, Any]]:
        seen_ids = set[str]()
        while True:
            try:
                response = self.sqs.receive_message(
                    QueueUrl=self.queue,
                    MaxNumberOfMessages=MESSAGES_PER_BATCH,
                    VisibilityTimeout=MESSAGE_HIDDEN_S,
                    WaitTimeSeconds=LONG_POLL_S,
                )
            except self.errors as error:
                code = getattr(error, "response", {}).get("Error", {}).get("Code", "")
                kind = BatonError if "NonExistentQueue" in code else Unreachable
                raise kind(f"the queue {self.queue} cannot be read: {error}") from error
            new_messages = [message for message in response.get("Messages", []) if message["MessageId"] not in seen_ids]
            if not new_messages:
                return
            seen_ids |= {message["MessageId"] for message in new_messages}
            yield from new_messages

    def _send(self, message: dict[str, Any], event: object) -> str | None:
        """Send an event and delete its message. Return the problem if there is one."""
        payload = json.dumps(event).encode()
        try:
            response = self.aws_lambda.invoke(FunctionName=self.function, InvocationType="Event", Payload=payload)
        except self.errors as error:
            return str(error)
        if response["StatusCode"] != ACCEPTED_STATUS:
            return f"Lambda answered {response['StatusCode']} instead of {ACCEPTED_STATUS}"
        try:
            self.sqs.delete_message(QueueUrl=self.queue, ReceiptHandle=message["ReceiptHandle"])
        except self.errors as error:
            return f"its event was sent again, but the message cannot be deleted: {error}"
        return None

    def _make_visible(self, message: dict[str, Any]) -> None:
        handle = message["ReceiptHandle"]
        try:
            self.sqs.change_message_visibility(QueueUrl=self.queue, ReceiptHandle=handle, VisibilityTimeout=0)
        except self.errors as error:
            text = f"message {message['MessageId']}: visible in the queue again after {MESSAGE_HIDDEN_S} s: {error}"
            echo(text, err=True)


def _event(body: str) -> tuple[str, object]:
    """Return what an event is about, and the event. Raises `ValueError` if the worker has no such event."""
    try:
        record: Any = loads(body, MAX_LEVELS)
    except ValueError:
        raise ValueError("it is not JSON") from None
    event = record.get("requestPayload", record) if isinstance(record, dict) else record
    match event:
        case {"batonTask": {"taskId": str(task_id)}}:
            return f"task {task_id}", event
        case {"batonStart": {"id": start_id}} | [{"batonStart": {"id": start_id}}]:
            return f"start {start_id}", event
        case [{"batonStart": {"id": first_id}}, *others]:
            return f"start {first_id} and {len(others)} more", event
    raise ValueError("it has no batonTask.taskId and no batonStart.id, as the worker's events have")
