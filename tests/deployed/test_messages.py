"""A message that the sample sends, published through boto3 under the function's own role."""

import json
from pathlib import Path

import anyio
import pytest

from tests.deployed.conversation import talking
from tests.deployed.deployment import Stack, Twin


@pytest.fixture(scope="module")
def messages(twin: Twin, build: Path) -> Stack:
    """The template with a topic."""
    return twin.deploy(build, "messages", MessageTopic="on")


def test_the_last_step_of_a_refund_is_published_to_the_stacks_topic(messages: Stack) -> None:
    topic_arn = messages.outputs["MessageTopicArn"]
    sqs = messages.twin.client("sqs")
    queue_url = sqs.create_queue(QueueName="inbox")["QueueUrl"]
    queue_arn = sqs.get_queue_attributes(QueueUrl=queue_url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    messages.twin.client("sns").subscribe(TopicArn=topic_arn, Protocol="sqs", Endpoint=queue_arn)

    async def refunded() -> str:
        async with talking(messages.endpoint, messages.caller(x_api_key=messages.api_key), "2026") as talk:
            _, meta = await talk.prompt("refund_order", {"order_id": "A-18"})
            return str(meta["task_status"])

    assert anyio.run(refunded) == "completed"
    [message] = sqs.receive_message(QueueUrl=queue_url, WaitTimeSeconds=5)["Messages"]
    published = json.loads(message["Body"])
    assert published["Subject"] == "News from the shop (R-A-18)"
    assert published["MessageAttributes"]["to"]["Value"] == "ada@example.com"
