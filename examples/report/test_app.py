"""Tests of the report, with the testing kit and moto."""

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws
from moto.backends import get_backend

from mcp_baton.testing.plugin import Connect
from report.app import server

NOVEMBER = {"month": "2026-11"}
SUMMARY = {"subject": "Sales of November", "text": "November was good. Berlin led. Porto sold nothing."}
FILES = {
    "berlin": "product,revenue\ndesk,189.10\nlamp,40.20\n",
    "lyon": "product,revenue\nlamp,40.20\n",
    "porto": "product,revenue\n",
}


class Aws:
    """The account of these tests, in moto: a bucket with three files, and SES."""

    def __init__(self) -> None:
        session: Any = boto3.Session()
        self.s3, ses = session.client("s3"), session.client("sesv2")
        self.s3.create_bucket(Bucket="shop-sales", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
        ses.create_email_identity(EmailIdentity="reports@example.com")
        for name, text in FILES.items():
            self.put(name, text)

    def put(self, name: str, text: str) -> None:
        """Write a file of November."""
        self.s3.put_object(Bucket="shop-sales", Key=f"sales/2026-11/{name}.csv", Body=text.encode())

    @property
    def mails(self) -> list[Any]:
        """The mails that SES has sent."""
        mails: list[Any] = get_backend("ses")["123456789012"]["eu-west-1"].sent_messages
        return mails


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Aws]:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.setenv("SALES_BUCKET", "shop-sales")
    monkeypatch.setenv("REPORT_FROM", "reports@example.com")
    monkeypatch.setenv("REPORT_TO", "ada@example.com,kim@example.com")
    with mock_aws():
        yield Aws()


def test_the_files_are_summed_and_the_summary_is_sent(aws: Aws, baton: Connect) -> None:
    client = baton(server)
    run = client.call_workflow("report_sales", NOVEMBER)
    assert run.pause.type == "answersRequired"
    assert "269.5" in run.text
    assert aws.mails == []

    assert run.answer(summary=SUMMARY).completed
    [mail] = aws.mails
    assert (mail.source, mail.subject) == ("reports@example.com", "Sales of November")
    assert mail.destinations["ToAddresses"] == ["ada@example.com", "kim@example.com"]
    assert mail.body == (
        "November was good. Berlin led. Porto sold nothing.\n\nRevenue: 269.50 EUR\nSales: 3\n\n"
        "sales/2026-11/berlin.csv: 229.30 EUR\nsales/2026-11/lyon.csv: 40.20 EUR\nsales/2026-11/porto.csv: 0.00 EUR\n"
    )


def test_only_the_failed_file_is_read_again(aws: Aws, baton: Connect) -> None:
    aws.put("lyon", "product,price\nlamp,40.20\n")
    client = baton(server)
    run = client.call_workflow("report_sales", NOVEMBER)
    [failed] = run.pause.failed_items
    assert failed["error"].startswith("sales/2026-11/lyon.csv is not a sales file")
    assert (run.pause.failed_count, len(client.calls("read_sales"))) == (1, 3)

    aws.put("lyon", FILES["lyon"])
    run = client.call_workflow("report_sales", task=run.task_id)
    assert client.calls("read_sales")[3:] == [{"key": "sales/2026-11/lyon.csv"}]
    assert run.answer(summary=SUMMARY).completed
    assert "Revenue: 269.50 EUR" in aws.mails[0].body


def test_a_worker_that_dies_after_the_mail_does_not_send_another(aws: Aws, baton: Connect) -> None:
    client = baton(server, workers="by hand")
    run = client.call_workflow("report_sales", NOVEMBER)
    task = client.start_task("report_sales", {"task_id": run.task_id, "answers": {"summary": SUMMARY}})
    with client.killed_after("send_report"):
        client.run_worker()
    client.run_worker()
    assert (task.status, len(aws.mails)) == ("failed", 1)


def test_a_mail_that_ses_rejects_can_be_sent_later(aws: Aws, baton: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPORT_FROM", "unknown@example.com")
    client = baton(server)
    run = client.call_workflow("report_sales", NOVEMBER).answer(summary=SUMMARY)
    assert (run.pause.error, aws.mails) == ("SES rejected the mail, and nothing was sent", [])

    monkeypatch.setenv("REPORT_FROM", "reports@example.com")
    assert client.call_workflow("report_sales", task=run.task_id).completed
    assert len(aws.mails) == 1


@pytest.mark.usefixtures("aws")
def test_a_month_without_files_is_named(baton: Connect) -> None:
    run = baton(server).call_workflow("report_sales", {"month": "2026-12"})
    assert run.pause.error == "there are no sales of 2026-12"


def test_a_month_with_too_many_files_is_refused(aws: Aws, baton: Connect) -> None:
    for number in range(998):
        aws.put(str(number), "")
    run = baton(server).call_workflow("report_sales", NOVEMBER)
    assert (run.pause.error, run.pause.retryable) == ("2026-11 has more than 1000 files", False)
