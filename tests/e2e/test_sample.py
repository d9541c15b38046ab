"""The sample application's own rules: what it refuses, and what importing it costs."""

import subprocess
import sys
from pathlib import Path

import pytest

import orders
import sales
import shop
from mcp_baton import ToolError
from mcp_baton.testing import Connect, JsonRpcError

FUNCTION = Path(__file__).parents[2] / "functions" / "mcp"
SLOW = ("asyncio", "boto3", "botocore", "http.client", "pydantic")
IMPORT_AND_REPORT = """
import sys
sys.path[:0] = sys.argv[1:2]
import orders
print(*(name for name in sys.argv[2:] if name in sys.modules))
"""


def test_importing_the_sample_defines_it_and_does_nothing_slow() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_AND_REPORT, str(FUNCTION), *SLOW],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert done.stdout.split() == []


@pytest.mark.parametrize("order", orders.ORDERS.values(), ids=lambda order: order.order_id)
def test_a_refund_within_the_policy_needs_no_approval(order: orders.Order) -> None:
    limit = orders.LIMITS[order.category]
    amount = min(limit, order.total)

    assert f"EUR {limit:.2f} without an approval" in orders.refund_policy(order.category)
    assert orders.issue_refund(order.order_id, amount) == orders.Refund(f"R-{order.order_id}", amount, None)


@pytest.mark.parametrize("amount", [0.0, -1.0, 240.01, float("nan")])
def test_no_approval_covers_what_an_order_did_not_cost(amount: float) -> None:
    with pytest.raises(ToolError, match=r"cannot be refunded: order A-17 came to EUR 240\.00"):
        orders.issue_refund("A-17", amount, approved_by="supervisor@example.com")


def test_what_does_not_exist_is_named(baton: Connect) -> None:
    client = baton(shop.server)

    assert client.call_tool("fetch_order", {"order_id": "A-99"}).text == "there is no order 'A-99'"
    sales_of = client.call_tool("extract_sales", {"month": "1999-01"})
    assert sales_of.text == "there are no sales for '1999-01'; there are for 2026-09"
    with pytest.raises(JsonRpcError, match="no policy for 'toys'; there is one for books, electronics, furniture"):
        client.read_resource("policy://refunds/toys")


def test_returns_are_set_aside_and_the_rest_is_added_up() -> None:
    rows = [sales.Row("desk", 5, 945.0), *[sales.Row("lamp", 2, 40.1)] * 4, sales.Row("desk", -1, -189.0)]

    assert sales.validate_sales(rows) == sales.Figures(1105.4, 13, "lamp", [rows[-1]])


def test_an_extract_that_is_mostly_wrong_is_refused() -> None:
    with pytest.raises(ToolError, match="only 1 of 2 rows are sales"):
        sales.validate_sales([sales.Row("desk", 5, 945.0), sales.Row("desk", -1, -189.0)])
