"""A message that the sample sends, published through boto3 under the function's own role."""

import json

import pytest

from tests.deployed.conversation import Talk, talked
from tests.deployed.deployment import Stack


@pytest.fixture(scope="module")
def messages(stack: Stack) -> Stack:
    """The template with a topic."""
    return stack.copy("messages", MessageTopic="on")


def subscribed_queue(messages: Stack) -> str:
    """The URL of a queue that gets what is published to the topic. SNS may send to it because its policy says so."""
    sqs, topic_arn = messages.twin.client("sqs"), messages.outputs["MessageTopicArn"]
    url: str = sqs.create_queue(QueueName="inbox")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "sns.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Resource": arn,
        "Condition": {"ArnEquals": {"aws:SourceArn": topic_arn}},
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})
    messages.twin.client("sns").subscribe(TopicArn=topic_arn, Protocol="sqs", Endpoint=arn)
    return url


def test_the_last_step_of_a_refund_is_published_to_the_stacks_topic(messages: Stack) -> None:
    sqs = messages.twin.client("sqs")
    queue_url = subscribed_queue(messages)

    async def refunded(talk: Talk) -> str:
        _, meta = await talk.prompt("refund_order", {"order_id": "A-18"})
        return str(meta["task_status"])

    assert talked(messages, refunded, "2026") == "completed"
    [message] = sqs.receive_message(QueueUrl=queue_url, WaitTimeSeconds=5)["Messages"]
    published = json.loads(message["Body"])
    assert published["Subject"] == "News from the shop (R-A-18)"
    assert published["MessageAttributes"]["to"]["Value"] == "ada@example.com"
