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
"""The maximum length of a subject in SNS, printable ASCII."""

server = Server(
    "shop",
    version="1.0.0",
    title="Example shop",
    instructions="Refunds orders and reports on sales. Amounts are in EUR. Read policy://refunds before you refund.",
)


@dataclass(frozen=True)
class Message:
    """A sent e-mail. `message_id` is from SNS, if SNS sent it."""

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
    if not topic_arn:  # The stack has no topic, so no message is sent.
        return Message(to, subject, text)
    return Message(to, subject, text, publish(topic_arn, to, subject, text))


def publish(topic_arn: str, to: str, subject: str, text: str) -> str:
    """Publish a message and return its id. The attribute `to` contains the recipient for the topic's subscribers.

    Raises:
        ToolError: SNS rejected the message, so nothing was sent. After other errors, such as a time-out, the outcome is
            unknown: they are raised unchanged, and Baton logs them.
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
        # The message of SNS may contain the account, so it is only logged.
        logger.warning("SNS refused a message: %s", error)
        raise ToolError(f"nothing was sent: SNS refused the message ({error.response['Error']['Code']})") from error
    return answer["MessageId"]


def sns_subject(text: str) -> str:
    """Return a text as a subject for SNS: one line of ASCII, fewer than 100 characters."""
    line = "".join(letter if " " <= letter <= "~" else "?" for letter in " ".join(text.split()))
    return line if len(line) <= SUBJECT_CHARACTERS else f"{line[: SUBJECT_CHARACTERS - 3]}..."


@cache
def sns() -> "SNSClient":
    """Return the client. It is made with the first message, so that other requests do not load boto3."""
    import boto3
    from botocore.config import Config

    # The defaults of boto3 are five attempts of a minute each. A retry after a time-out could send a message twice.
    return boto3.client("sns", config=Config(connect_timeout=2, read_timeout=5, retries={"total_max_attempts": 1}))
