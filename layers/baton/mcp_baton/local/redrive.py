"""`baton redrive`: put the events of background tasks that failed for good back (docs/operating.md, Dead letters).

They are in the queue that is the failure destination of the worker's asynchronous invocations. Each message holds the
event as `requestPayload` (AWS Lambda Developer Guide, "Adding a destination", the example invocation record).
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from mcp_baton.exceptions import BatonError
from mcp_baton.local.clean_text import echo

ACCEPTED: Final = 202
AT_ONCE: Final = 10
"""The most messages that SQS gives out in one answer."""
WAIT_S: Final = 2
"""How long SQS looks for messages before it says that there are none: with a wait it asks all of its hosts."""
HIDDEN_S: Final = 600
"""For how long others do not see a message that was received here. One that stays is shown again at the end."""


class RedriveError(BatonError):
    """The queue could not be read."""


class NotAnEvent(Exception):
    """A message that holds no event of a background task; says what it holds instead."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message of the queue.

    Attributes:
        message_id: SQS's id of it.
        receipt: By which it is deleted or shown again.
        body: Its text.
    """

    message_id: str
    receipt: str
    body: str

    def event(self) -> dict[str, Any]:
        """The event that the worker failed.

        Raises:
            NotAnEvent: there is none.
        """
        try:
            told = json.loads(self.body)
        except ValueError:
            raise NotAnEvent("it is not JSON") from None
        event = told.get("requestPayload") if isinstance(told, dict) else None
        task = event.get("batonTask") if isinstance(event, dict) else None
        if not isinstance(event, dict) or not isinstance(task, dict) or not isinstance(task.get("taskId"), str):
            raise NotAnEvent("it has no requestPayload.batonTask.taskId, as the event of a background task has")
        return event


@dataclass(frozen=True, slots=True)
class Redrive:
    """Puts events back.

    Attributes:
        queue: The queue's URL.
        function: The worker's alias: its ARN, or `name:alias`.
        most: How many messages are looked at, at most; `None` for all.
        dry_run: Only tell what would be done.
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
        """Send every event again and delete its message, telling of each; the exit code: 1 where something failed.

        A message is deleted when Lambda has accepted its event. An event that is sent twice does no harm: a task is
        worked on by one worker at a time.

        Raises:
            RedriveError: the queue could not be read. What was told before was done.
        """
        sent, failed, kept = 0, 0, list[DeadLetter]()
        try:
            for letter in self._letters():
                problem = self._put_back(letter)
                if problem or self.dry_run:
                    kept.append(letter)
                sent, failed = (sent, failed + 1) if problem else (sent + 1, failed)
        finally:
            for letter in kept:
                self._show_again(letter)
        done = "would be sent again" if self.dry_run else "sent again"
        echo(f"{sent} {done}, {failed} failed and stayed in the queue")
        return 1 if failed else 0

    def _letters(self) -> Iterator[DeadLetter]:
        """The queue's messages, each once."""
        seen = set[str]()
        while self.most is None or len(seen) < self.most:
            fresh = [letter for letter in self._receive(self.most, len(seen)) if letter.message_id not in seen]
            if not fresh:
                return
            seen |= {letter.message_id for letter in fresh}
            yield from fresh

    def _receive(self, most: int | None, so_far: int) -> list[DeadLetter]:
        from botocore.exceptions import BotoCoreError, ClientError

        count = AT_ONCE if most is None else min(AT_ONCE, most - so_far)
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

    def _put_back(self, letter: DeadLetter) -> str | None:
        """Send a message's event again and delete it, and tell of it; what went wrong, if anything."""
        try:
            event = letter.event()
            name = f"task {event['batonTask']['taskId']}"
            problem = None if self.dry_run else self._send(letter, event)
        except NotAnEvent as error:
            name, problem = f"message {letter.message_id}", str(error)
        done = "would be sent again" if self.dry_run else "sent again"
        echo(f"{name}: {done if problem is None else f'failed: {problem}'}")
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

    def _show_again(self, letter: DeadLetter) -> None:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            self.sqs.change_message_visibility(QueueUrl=self.queue, ReceiptHandle=letter.receipt, VisibilityTimeout=0)
        except (BotoCoreError, ClientError) as error:
            echo(f"message {letter.message_id}: the queue shows it again in {HIDDEN_S} s: {error}", err=True)


def redrive(queue: str, function: str, most: int | None, dry_run: bool) -> int:
    """Put events back, with the credentials and the region that AWS's own configuration says; the exit code.

    Raises:
        RedriveError: the queue could not be read, or there is no region or no credentials.
    """
    import boto3
    from botocore.exceptions import BotoCoreError

    try:
        sqs, aws_lambda = boto3.client("sqs"), boto3.client("lambda")
    except BotoCoreError as error:
        raise RedriveError(f"{error} Set AWS_REGION, or AWS_PROFILE to a profile that has a region.") from error
    return Redrive(queue, function, most, dry_run, sqs, aws_lambda).run()
