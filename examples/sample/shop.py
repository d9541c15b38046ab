"""The server that `orders` and `sales` register with, and the tool that both workflows end with."""

import logging
import os
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated

from mcp_baton import Server, ToolError

if TYPE_CHECKING:
    from mypy_boto3_sns import SNSClient

logger = logging.getLogger(__name__)

SUBJECT_CHARACTERS = 99
"""As many as SNS takes, of printable ASCII."""

server = Server(
    "shop",
    version="1.0.0",
    title="Example shop",
    instructions="Refunds orders and reports on sales. Amounts are in EUR. Read policy://refunds before you refund.",
)


@dataclass(frozen=True)
class Message:
    """An e-mail as it went out. `message_id` is SNS's, where it went there."""

    to: str
    subject: str
    text: str
    message_id: str | None = None


@server.tool
def send_message(
    to: Annotated[str, "The address to write to"],
    text: Annotated[str, "The e-mail's text"],
    reference: Annotated[str | None, "What the subject names, such as a refund's id"] = None,
) -> Message:
    """Send an e-mail."""
    subject = f"News from the shop ({reference})" if reference else "News from the shop"
    topic_arn = os.environ.get("TOPIC_ARN")
    if not topic_arn:  # The stack has no topic: this shop has nobody to write to.
        return Message(to, subject, text)
    return Message(to, subject, text, publish(topic_arn, to, subject, text))


def publish(topic_arn: str, to: str, subject: str, text: str) -> str:
    """Publish a message; its id. The topic's subscribers read whom it is for in the attribute `to`.

    Raises:
        ToolError: SNS refused it, so nothing was sent, and the model may say so. Any other failure, a time-out above
            all, leaves open whether it was sent: it is raised as it is, and Baton logs it.
    """
    client = sns()
    try:
        answer = client.publish(
            TopicArn=topic_arn,
            Subject=sns_subject(subject),
            Message=text,
            MessageAttributes={"to": {"DataType": "String", "StringValue": to}},
        )
    except client.exceptions.ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] >= 500:
            raise
        # What SNS says may name the account: that is for the log.
        logger.warning("SNS refused a message: %s", error)
        raise ToolError(f"nothing was sent: SNS refused the message ({error.response['Error']['Code']})") from error
    return answer["MessageId"]


def sns_subject(text: str) -> str:
    """A text as SNS takes it for a subject: one line of ASCII, fewer than 100 characters."""
    line = "".join(letter if " " <= letter <= "~" else "?" for letter in " ".join(text.split()))
    return line if len(line) <= SUBJECT_CHARACTERS else f"{line[: SUBJECT_CHARACTERS - 3]}..."


@cache
def sns() -> "SNSClient":
    """The client, made when the first message is sent: requests that send none need not wait for boto3."""
    import boto3
    from botocore.config import Config

    # By itself boto3 waits for a minute, five times. And a message that is sent again after a time-out arrives twice.
    return boto3.client("sns", config=Config(connect_timeout=2, read_timeout=5, retries={"total_max_attempts": 1}))
