"""The rules of the sample application."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import boto3
import pytest
from botocore.exceptions import ReadTimeoutError
from moto import mock_aws

import orders
import sales
import shop
from mcp_baton import ToolError
from mcp_baton.testing import Connect, JsonRpcError


@pytest.mark.parametrize("order", orders.ORDERS.values(), ids=lambda order: order.order_id)
def test_a_refund_within_the_policy_needs_no_approval(baton: Connect, order: orders.Order) -> None:
    limit = orders.LIMITS[order.category]
    amount = min(limit, order.total)

    assert f"EUR {limit:.2f} without an approval" in orders.refund_policy(order.category)
    refund = baton(shop.server).call_tool("issue_refund", {"order_id": order.order_id, "amount": amount})
    assert refund.value == {"refund_id": f"R-{order.order_id}", "amount": amount}


@pytest.mark.parametrize("amount", [0.0, -1.0, 240.01])
def test_a_refund_above_the_total_is_refused_without_asking_a_supervisor(baton: Connect, amount: float) -> None:
    client = baton(shop.server)
    result = client.call_tool("issue_refund", {"order_id": "A-17", "amount": amount})

    assert result.is_error
    assert "cannot be refunded: order A-17 came to EUR 240.00" in result.text
    assert client.as_owner("ada", scopes=["refunds"]).approvals() == []


def test_a_repeated_refund_is_paid_once(baton: Connect) -> None:
    client = baton(shop.server)
    payments_before = len(orders.PAYMENTS)
    run = client.get_prompt("refund_order", {"order_id": "A-17", "amount": "300"})
    assert run.paused
    refund: dict[str, Any] = {"order_id": "A-17", "amount": 100}

    refunds = [client.call_tool("issue_refund", refund, task=run.task_id) for _ in range(3)]

    assert all(result.recorded and result.value == refunds[0].value for result in refunds)
    assert len(orders.PAYMENTS) == payments_before + 1
    client.call_tool("issue_refund", {**refund, "amount": 90}, task=run.task_id)
    client.call_tool("issue_refund", {**refund, "amount": 90})
    assert len(orders.PAYMENTS) == payments_before + 3


def test_a_supervisor_approves_a_refund_above_the_limit(baton: Connect) -> None:
    client = baton(shop.server)
    supervisor = client.as_owner("ada", scopes=["refunds"])
    run = client.get_prompt("refund_order", {"order_id": "A-17"})
    [approval] = supervisor.approvals()
    supervisor.approve(approval["approvalId"])

    assert approval["message"] == "Refund EUR 240.0 for order A-17?"
    assert client.resume(run.task_id).completed


def test_an_unknown_order_month_or_region_is_named(baton: Connect) -> None:
    client = baton(shop.server)

    assert client.call_tool("fetch_order", {"order_id": "A-99"}).text == "there is no order 'A-99'"
    sales_result = client.call_tool("extract_sales", {"month": "1999-01"})
    assert sales_result.text == "there are no sales for '1999-01'; there are for 2026-09"
    regions_result = client.call_tool("find_regions", {"month": "1999-01"})
    assert regions_result.text == "there are no regions for '1999-01'; there are for 2026-09, 2026-10"
    orders_result = client.call_tool("count_orders", {"month": "2026-10", "region": "Porto"})
    assert orders_result.text == "there was no shop in 'Porto' in '2026-10'"
    with pytest.raises(JsonRpcError, match="no policy for 'toys'; there is one for books, electronics, furniture"):
        client.read_resource("policy://refunds/toys")


@pytest.mark.parametrize(("month", "news"), [("2026-09", "Berlin"), ("2026-10", "no orders")])
def test_the_best_region_is_announced_if_there_are_orders(baton: Connect, month: str, news: str) -> None:
    structure: Any = baton(shop.server).call_workflow("regional_report", {"month": month}).structured

    messages = [structure["results"][name] for name in ("tell_managers", "tell_shops")]
    assert [message["subject"] for message in messages] == [f"News from the shop ({news})"] * 2


def test_returns_are_rejected_and_the_other_rows_added() -> None:
    rows = [sales.Row("desk", 5, 945.0), *[sales.Row("lamp", 2, 40.1)] * 4, sales.Row("desk", -1, -189.0)]

    assert sales.validate_sales(rows) == sales.Figures(1105.4, 13, "lamp", [rows[-1]])


def test_an_extract_with_many_wrong_rows_is_refused() -> None:
    with pytest.raises(ToolError, match="only 1 of 2 rows are sales"):
        sales.validate_sales([sales.Row("desk", 5, 945.0), sales.Row("desk", -1, -189.0)])


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic and a queue that is subscribed to it."""

    arn: str
    queue: str

    def messages(self) -> list[Any]:
        """Return the messages that were published since the last call."""
        response = boto3.client("sqs").receive_message(QueueUrl=self.queue, MaxNumberOfMessages=10)
        return [json.loads(message["Body"]) for message in response.get("Messages", [])]


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Iterator[Topic]:
    """A topic whose ARN the sample reads from the environment."""
    shop.sns.cache_clear()
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    with mock_aws():
        arn = boto3.client("sns").create_topic(Name="messages")["TopicArn"]
        sqs = boto3.client("sqs")
        queue = sqs.create_queue(QueueName="inbox")["QueueUrl"]
        queue_arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        boto3.client("sns").subscribe(TopicArn=arn, Protocol="sqs", Endpoint=queue_arn)
        monkeypatch.setenv("TOPIC_ARN", arn)
        yield Topic(arn, queue)
    shop.sns.cache_clear()


def test_a_message_is_published_to_the_topic_with_its_recipient(topic: Topic) -> None:
    with patch("boto3.client", wraps=boto3.client) as client_factory:
        result = shop.send_message("kim@example.com", "Your refund is on its way.", "R-A-17")
        assert client_factory.call_count == 1
        [record] = topic.messages()
        client_factory.reset_mock()
        shop.send_message("kim@example.com", "Two.")
        assert client_factory.call_count == 0
        assert [message["Message"] for message in topic.messages()] == ["Two."]

    assert (record["Subject"], record["Message"]) == ("News from the shop (R-A-17)", "Your refund is on its way.")
    assert record["MessageAttributes"] == {"to": {"Type": "String", "Value": "kim@example.com"}}
    assert result.message_id == record["MessageId"]


def test_a_subject_is_shortened_for_sns_and_returned_in_full(topic: Topic) -> None:
    subjects = {
        "Bücher 😀": "News from the shop (B?cher ?)",
        "one\r\ntwo\tthree": "News from the shop (one two three)",
        "bell\x07": "News from the shop (bell?)",
        "x" * 78: f"News from the shop ({'x' * 78})",
        "x" * 79: f"News from the shop ({'x' * 76}...",
    }
    for reference, subject in subjects.items():
        assert shop.send_message("kim@example.com", reference, reference).subject == f"News from the shop ({reference})"
        assert len(subject) < 100

    assert {message["Message"]: message["Subject"] for message in topic.messages()} == subjects


def test_a_rejected_message_is_reported_without_names_from_the_account(
    topic: Topic, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TOPIC_ARN", f"{topic.arn}-that-is-gone")

    with pytest.raises(ToolError) as error_info:
        shop.send_message("kim@example.com", "Hello.")

    assert str(error_info.value) == "nothing was sent: SNS refused the message (NotFound)"
    assert "NotFound" in caplog.text


def test_a_message_with_an_unknown_outcome_is_not_reported_as_unsent(topic: Topic) -> None:
    client = shop.sns()
    config: Any = client.meta.config
    assert config.retries["total_max_attempts"] == 1
    assert config.connect_timeout + config.read_timeout < 10
    failure: Any = {"Error": {"Code": "InternalError", "Message": "sorry"}, "ResponseMetadata": {"HTTPStatusCode": 500}}

    for error in (client.exceptions.ClientError(failure, "Publish"), ReadTimeoutError(endpoint_url="https://sns")):
        with patch.object(client, "publish", side_effect=error), pytest.raises(type(error)) as error_info:
            shop.send_message("kim@example.com", "Hello.")
        assert error_info.value is error
    assert topic.messages() == []


def test_without_a_topic_nothing_is_published(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOPIC_ARN", "")

    message = shop.send_message("kim@example.com", "Hello.", "R-A-17")

    assert message == shop.Message("kim@example.com", "News from the shop (R-A-17)", "Hello.", None)
    assert topic.messages() == []
