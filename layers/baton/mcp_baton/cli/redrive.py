"""`baton redrive`: retry the events of background tasks that failed permanently (docs/operating.md, Dead letters).

The events are in the queue that is the failure destination of the worker's asynchronous invocations. Each message
contains the event as `requestPayload` (AWS Lambda Developer Guide, "Adding a destination", the example record).
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from mcp_baton.cli import options
from mcp_baton.exceptions import BatonError

ACCEPTED: Final = 202
BATCH: Final = 10
"""The maximum number of messages in an answer of SQS."""
WAIT_S: Final = 2
"""How long SQS waits for messages. With a wait it asks all of its hosts."""
HIDDEN_S: Final = 600
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
    most: Annotated[
        int | None,
        typer.Option("--max", min=1, metavar="N", help="The maximum number of messages to read. Default: all."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be sent, and send nothing.")] = False,
) -> int:
    """Invoke the worker again with the dead-letter queue's events.

    Events that the worker accepts are deleted from the queue.
    """
    import boto3
    from botocore.exceptions import BotoCoreError

    from mcp_baton.local.log import log_to_stderr

    log_to_stderr()
    try:
        sqs, aws_lambda = boto3.client("sqs"), boto3.client("lambda")
    except BotoCoreError as error:
        raise RedriveError(f"{error} Set AWS_REGION, or AWS_PROFILE to a profile that has a region.") from error
    return Redrive(queue, function, most, dry_run, sqs, aws_lambda).run()


class RedriveError(BatonError):
    """The queue cannot be read."""


class NotAnEvent(Exception):
    """A message does not contain the event of a background task."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message of the queue.

    Attributes:
        message_id: SQS's id of the message.
        receipt: The handle with which it is deleted or made visible.
        body: Its text.
    """

    message_id: str
    receipt: str
    body: str

    def event(self) -> dict[str, Any]:
        """Return the event.

        Raises:
            NotAnEvent: the message contains none.
        """
        try:
            record = json.loads(self.body)
        except ValueError:
            raise NotAnEvent("it is not JSON") from None
        event = record.get("requestPayload") if isinstance(record, dict) else None
        task = event.get("batonTask") if isinstance(event, dict) else None
        if not isinstance(event, dict) or not isinstance(task, dict) or not isinstance(task.get("taskId"), str):
            raise NotAnEvent("it has no requestPayload.batonTask.taskId, as the event of a background task has")
        return event


@dataclass(frozen=True, slots=True)
class Redrive:
    """Sends the events of a queue to the worker.

    Attributes:
        queue: The queue's URL.
        function: The worker's alias: its ARN, or `name:alias`.
        most: The maximum number of messages; `None` for all.
        dry_run: Whether to send nothing.
        sqs: A client for SQS.
        aws_lambda: A client for Lambda.
    """

    queue: str
    function: str
    most: int | None
    dry_run: bool
    sqs: Any
    aws_lambda: Any

    def run(self) -> int:
        """Send every event and delete its message. Return the exit code, 1 if an event could not be sent.

        A message is deleted when Lambda has accepted its event. To send an event twice is safe: only one worker at a
        time runs a task.

        Raises:
            RedriveError: the queue cannot be read. Messages that were printed before were processed.
        """
        sent, failed, kept = 0, 0, list[DeadLetter]()
        try:
            for letter in self._letters():
                problem = self._process(letter)
                if problem or self.dry_run:
                    kept.append(letter)
                sent, failed = (sent, failed + 1) if problem else (sent + 1, failed)
        finally:
            for letter in kept:
                self._make_visible(letter)
        _echo(f"{sent} {self._done}, {failed} failed and stayed in the queue")
        return 1 if failed else 0

    @property
    def _done(self) -> str:
        return "would be sent again" if self.dry_run else "sent again"

    def _letters(self) -> Iterator[DeadLetter]:
        """Yield each message of the queue once."""
        seen = set[str]()
        while self.most is None or len(seen) < self.most:
            count = BATCH if self.most is None else min(BATCH, self.most - len(seen))
            fresh = [letter for letter in self._receive(count) if letter.message_id not in seen]
            if not fresh:
                return
            seen |= {letter.message_id for letter in fresh}
            yield from fresh

    def _receive(self, count: int) -> list[DeadLetter]:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            answer = self.sqs.receive_message(
                QueueUrl=self.queue, MaxNumberOfMessages=count, VisibilityTimeout=HIDDEN_S, WaitTimeSeconds=WAIT_S
            )
        except (BotoCoreError, ClientError) as error:
            raise RedriveError(f"the queue {self.queue} cannot be read: {error}") from error
        return [
            DeadLetter(message["MessageId"], message["ReceiptHandle"], message["Body"])
            for message in answer.get("Messages", [])
        ]

    def _process(self, letter: DeadLetter) -> str | None:
        """Send a message's event, delete the message and print the outcome. Return the problem if there is one."""
        try:
            event = letter.event()
            name = f"task {event['batonTask']['taskId']}"
            problem = None if self.dry_run else self._send(letter, event)
        except NotAnEvent as error:
            name, problem = f"message {letter.message_id}", str(error)
        _echo(f"{name}: {self._done if problem is None else f'failed: {problem}'}")
        return problem

    def _send(self, letter: DeadLetter, event: dict[str, Any]) -> str | None:
        from botocore.exceptions import BotoCoreError, ClientError

        payload = json.dumps(event).encode()
        try:
            answer = self.aws_lambda.invoke(FunctionName=self.function, InvocationType="Event", Payload=payload)
        except (BotoCoreError, ClientError) as error:
            return str(error)
        if answer["StatusCode"] != ACCEPTED:
            return f"Lambda answered {answer['StatusCode']} instead of {ACCEPTED}"
        try:
            self.sqs.delete_message(QueueUrl=self.queue, ReceiptHandle=letter.receipt)
        except (BotoCoreError, ClientError) as error:
            return f"its event was sent again, but the message cannot be deleted: {error}"
        return None

    def _make_visible(self, letter: DeadLetter) -> None:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            self.sqs.change_message_visibility(QueueUrl=self.queue, ReceiptHandle=letter.receipt, VisibilityTimeout=0)
        except (BotoCoreError, ClientError) as error:
            _echo(f"message {letter.message_id}: visible in the queue again after {HIDDEN_S} s: {error}", err=True)


def _echo(text: str, *, err: bool = False) -> None:
    from mcp_baton.local.clean_text import echo

    echo(text, err=err)
