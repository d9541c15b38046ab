"""Every example of docs/choose.md works."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest

from mcp_baton.testing import Client, connect
from tests.site.blocks import ROOT, blocks


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The names that the page's program defines."""
    file: Path = tmp_path_factory.mktemp("page") / "shop.py"
    file.write_text("\n\n".join(block.code for block in blocks(ROOT / "docs" / "choose.md")))
    return run_path(str(file))


@pytest.fixture
def client(page: dict[str, Any]) -> Iterator[Client]:
    with connect(page["server"]) as client:
        yield client


ORDER = {"order_id": "A-17"}


@pytest.mark.parametrize(
    ("workflow", "arguments", "statuses"),
    [
        ("pay", ORDER, {"find_order": "completed", "charge": "completed", "thank": "completed", "ask": "skipped"}),
        ("pack_all", ORDER, {"find_order": "completed", "pack": "completed"}),
        ("buy", {**ORDER, "amount": 30.0}, {"charge": "completed", "release": "skipped"}),
        ("buy", {**ORDER, "amount": 300.0}, {"charge": "completed", "release": "completed"}),
        (
            "pack_and_tell",
            {**ORDER, "email": "kim@example.com"},
            {"find_order": "completed", "pack": "completed", "send_mail": "completed"},
        ),
    ],
)
def test_a_workflow_runs_to_its_end(
    client: Client, workflow: str, arguments: dict[str, Any], statuses: dict[str, str]
) -> None:
    run = client.call_workflow(workflow, arguments)

    assert (run.completed, run.steps) == (True, statuses)


def test_a_fan_out_makes_one_call_for_each_element(client: Client) -> None:
    client.call_workflow("pack_all", ORDER)

    assert sorted(str(call["product"]) for call in client.calls("pack")) == ["belt", "shoes"]


def test_a_retry_tries_three_times(client: Client) -> None:
    client.tool_raises("charge", ConnectionError("reset"), times=2)

    assert client.call_workflow("pay_again", ORDER).completed
    assert len(client.calls("charge")) == 3


def test_a_loop_waits_until_the_report_is_ready(client: Client) -> None:
    client.tool_raises("read_report", "not yet", times=3)

    task = client.start_task("report", {"month": "May"})
    client.clock.advance(timedelta(minutes=89))
    assert task.status == "working"
    client.clock.advance(timedelta(minutes=2))

    assert (task.status, len(client.calls("read_report"))) == ("completed", 4)


def test_the_questions_are_asked_one_after_the_other(client: Client) -> None:
    run = client.call_workflow("refuse", ORDER).answer(reason="sold out").answer(text="We are sorry.")

    assert run.completed
    assert client.calls("send_mail") == [{"to": "kim@example.com", "text": "We are sorry."}]


def test_only_a_refund_above_the_limit_waits_for_an_approval(client: Client) -> None:
    assert not client.call_tool("refund", {**ORDER, "amount": 50.0}).is_error
    assert client.call_tool("refund", {**ORDER, "amount": 500.0}).is_error
    assert [approval["message"] for approval in client.as_owner("ada", scopes=["refunds"]).approvals()] == [
        "Refund 500.0 EUR?"
    ]


def test_the_reminder_waits(client: Client) -> None:
    reminder = client.start_task("remind", {"email": "kim@example.com"})
    assert reminder.status == "working"

    client.clock.advance(timedelta(days=1))

    assert reminder.status == "completed"
    assert [call["text"] for call in client.calls("send_mail")] == ["Your order waits"]
