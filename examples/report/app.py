"""A report: the sales files of a month are summed in parallel, the model writes the summary, and SES sends it.

README.md says how to deploy it.
"""

import csv
import os
from dataclasses import dataclass
from math import fsum
from typing import Annotated, Any

from mcp_baton import Context, Depends, Server, ToolError, ask_model, item, step
from mcp_baton.aws import handler

FILES, BEST = 1_000, 3

Month = Annotated[str, "The month, such as 2026-11"]


@dataclass(frozen=True)
class Sales:
    """The sales in a file, EUR."""

    key: str
    rows: int
    revenue: float


@dataclass(frozen=True)
class Figures:
    """The sales of a month, EUR, and the files with the highest revenue."""

    revenue: float
    rows: int
    best: list[Sales]


@dataclass(frozen=True)
class Summary:
    """The summary of a month, as plain text."""

    subject: str
    text: str


server = Server("report", instructions="Reports on sales. Amounts are in EUR.")


@dataclass(frozen=True)
class Clients:
    """The clients of AWS."""

    s3: Any
    ses: Any


def connect() -> Clients:
    """Make the clients, at the first call that needs one. `read_sales` uses them in several threads."""
    import boto3
    from botocore.config import Config

    session: Any = boto3.Session()
    reads = Config(connect_timeout=2, read_timeout=10, retries={"mode": "standard", "total_max_attempts": 3})
    # SES takes no idempotency token, so a second attempt could send a second mail.
    sends = Config(connect_timeout=2, read_timeout=10, retries={"mode": "standard", "total_max_attempts": 1})
    return Clients(session.client("s3", config=reads), session.client("sesv2", config=sends))


AWS: Clients = Depends(connect, scope="process")


@server.tool
def list_files(month: Month, aws: Clients = AWS) -> list[str]:
    """List the sales files of a month."""
    answer = aws.s3.list_objects_v2(Bucket=os.environ["SALES_BUCKET"], Prefix=f"sales/{month}/", MaxKeys=FILES)
    if answer["IsTruncated"]:
        raise ToolError(f"{month} has more than {FILES} files", retryable=False)
    if not answer["KeyCount"]:
        raise ToolError(f"there are no sales of {month}")
    return [entry["Key"] for entry in answer["Contents"]]


@server.tool
def read_sales(key: Annotated[str, "The file's key"], aws: Clients = AWS) -> Sales:
    """Sum the sales in a file."""
    body = aws.s3.get_object(Bucket=os.environ["SALES_BUCKET"], Key=key)["Body"].read()
    try:
        revenues = [float(row["revenue"]) for row in csv.DictReader(body.decode().splitlines())]
    except (KeyError, TypeError, ValueError) as error:
        raise ToolError(f"{key} is not a sales file: {error!r}") from error
    return Sales(key, len(revenues), round(fsum(revenues), 2))


@server.tool
def add_up(files: Annotated[list[Sales], "The sales in each file"]) -> Figures:
    """Add up the sales of all files."""
    best = sorted(files, key=lambda sales: sales.revenue, reverse=True)
    return Figures(round(fsum(file.revenue for file in files), 2), sum(file.rows for file in files), best[:BEST])


# A killed worker may have sent the mail. With idempotent=False, no other worker sends it again.
@server.tool(task="optional", idempotent=False)
def send_report(
    ctx: Context,
    summary: Annotated[Summary, "The summary"],
    figures: Annotated[Figures, "The month in numbers"],
    aws: Clients = AWS,
) -> str:
    """Send a report to the readers. Returns the message's id."""
    best = "\n".join(f"{sales.key}: {sales.revenue:.2f} EUR" for sales in figures.best)
    text = f"{summary.text}\n\nRevenue: {figures.revenue:.2f} EUR\nSales: {figures.rows}\n\n{best}\n"
    content = {"Subject": {"Data": summary.subject}, "Body": {"Text": {"Data": text}}}
    try:
        answer = aws.ses.send_email(
            FromEmailAddress=os.environ["REPORT_FROM"],
            Destination={"ToAddresses": os.environ["REPORT_TO"].split(",")},
            Content={"Simple": content},
            # Shown in the events of SES: equal keys are the same report.
            EmailTags=[{"Name": "idempotency-key", "Value": ctx.idempotency_key}],
        )
    except aws.ses.exceptions.MessageRejected as error:
        raise ToolError("SES rejected the mail, and nothing was sent") from error
    return str(answer["MessageId"])


@server.workflow(background=True)
def report_sales(month: Month) -> None:
    """Sum the sales of a month, and send a summary to the readers."""
    keys = step(list_files, retryable=True)(month)
    files = step(read_sales, each=keys, parallel=8, retryable=True, checkpoint=True)(item())
    figures = step(add_up)(files)
    question = "Summarize the sales of {month} in three sentences, for the board: {figures}"
    summary = ask_model("summary", question, Summary, figures=figures)
    step(send_report, checkpoint=True)(summary, figures)


lambda_handler = handler(server)
