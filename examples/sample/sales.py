"""Two reports. The monthly sales report needs the model for one thing, the summary; the regional one needs no model."""

import time
from dataclasses import dataclass
from typing import Annotated

from mcp_baton import Context, ToolError, ask_model, item, or_default, step
from shop import send_message, server

PAGE_ROWS = 3
PAGE_SECONDS = 0.25
"""The time that a real warehouse would need for a page."""

WAREHOUSE = {
    "2026-09": [
        ("headphones", 12, 2880.0),
        ("desk", 5, 945.0),
        ("lamp", 31, 1239.69),
        ("moss guide", 44, 1078.0),
        ("desk", -1, -189.0),
        ("keyboard", 18, 1602.0),
        ("webcam", 9, 531.0),
        ("monitor arm", 7, 623.0),
        ("fern guide", 20, 390.0),
        ("headphones", 8, 1920.0),
    ]
}
"""Product, units and revenue in EUR, by month. A negative row is a return that was booked as a sale."""

REGIONS = {
    "2026-09": {"Berlin": 41, "Lyon": 23, "Porto": 0, "Turin": 12},
    "2026-10": {"Berlin": 0, "Lyon": 0},
}
"""The number of orders by region, by month."""


@dataclass(frozen=True)
class Row:
    """The sales of a product, EUR."""

    product: str
    units: int
    revenue: float


@dataclass(frozen=True)
class Figures:
    """A month in numbers, EUR."""

    revenue: float
    units: int
    best_seller: str
    rejected: list[Row]


@dataclass(frozen=True)
class Report:
    """A published report."""

    url: str
    text: str


@server.tool(task="optional")
def extract_sales(ctx: Context, month: Annotated[str, "The month, such as 2026-09"]) -> list[Row]:
    """Fetch a month's sales from the warehouse."""
    if month not in WAREHOUSE:
        raise ToolError(f"there are no sales for {month!r}; there are for {', '.join(WAREHOUSE)}")
    rows: list[Row] = []
    while len(rows) < len(WAREHOUSE[month]):
        time.sleep(PAGE_SECONDS)
        rows += [Row(*row) for row in WAREHOUSE[month][len(rows) : len(rows) + PAGE_ROWS]]
        ctx.report_progress(len(rows), len(WAREHOUSE[month]), f"{len(rows)} of {len(WAREHOUSE[month])} rows")
    return rows


@server.tool
def validate_sales(rows: Annotated[list[Row], "The sales, as extract_sales returns them"]) -> Figures:
    """Set aside rows that cannot be sales, and add up the others."""
    good = [row for row in rows if row.units > 0 and row.revenue > 0]
    if len(good) < 0.8 * len(rows):
        raise ToolError(f"only {len(good)} of {len(rows)} rows are sales: check the extract")
    units: dict[str, int] = {}
    for row in good:
        units[row.product] = units.get(row.product, 0) + row.units
    return Figures(
        revenue=round(sum(row.revenue for row in good), 2),
        units=sum(units.values()),
        best_seller=max(units, key=lambda product: units[product]),
        rejected=[row for row in rows if row not in good],
    )


@server.tool
def publish_report(
    month: Annotated[str, "The month, such as 2026-09"],
    figures: Annotated[Figures, "The month in numbers, as validate_sales returns them"],
    summary: Annotated[str, "What a manager reads first"],
) -> Report:
    """Publish a month's report."""
    text = f"{summary.strip()}\n\nRevenue EUR {figures.revenue:.2f}, {figures.units} units."
    return Report(f"https://reports.example.com/sales/{month}", text)


@server.workflow(title="Monthly sales report")
def monthly_report(month: Annotated[str, "The month, such as 2026-09"]) -> None:
    """Publish the sales report of a month."""
    rows = step(extract_sales, name="extract")(month=month)
    figures = step(validate_sales, name="validate")(rows=rows)
    # The workflow pauses here until the model has written the summary.
    summary = ask_model(
        "summary",
        "Summarise {month} in two sentences: it brought in EUR {revenue}, and {best_seller} sold best.",
        revenue=figures.revenue,
        best_seller=figures.best_seller,
    )
    report = step(publish_report, name="publish")(month=month, figures=figures, summary=summary)
    step(send_message, name="announce")(
        to="managers@example.com", text="The sales report for {month} is out.", reference=report.url
    )


@dataclass(frozen=True)
class RegionOrders:
    """The number of orders of a region."""

    region: str
    orders: int


@server.tool
def find_regions(month: Annotated[str, "The month, such as 2026-09"]) -> list[str]:
    """Find the regions that had a shop in a month."""
    if month not in REGIONS:
        raise ToolError(f"there are no regions for {month!r}; there are for {', '.join(REGIONS)}")
    return list(REGIONS[month])


@server.tool
def count_orders(
    month: Annotated[str, "The month, such as 2026-09"], region: Annotated[str, "One region, such as Berlin"]
) -> RegionOrders:
    """Count the orders of one region in a month."""
    if region not in REGIONS.get(month, {}):
        raise ToolError(f"there was no shop in {region!r} in {month!r}")
    return RegionOrders(region, REGIONS[month][region])


@server.tool
def add_orders(counts: Annotated[list[RegionOrders], "The regions, as count_orders returns them"]) -> int:
    """Add up the orders of all regions."""
    return sum(count.orders for count in counts)


@server.tool
def best_region(counts: Annotated[list[RegionOrders], "The regions, as count_orders returns them"]) -> str:
    """Name the region with the most orders."""
    return max(counts, key=lambda count: count.orders).region


@server.workflow(title="Orders by region", parallel=2)
def regional_report(month: Annotated[str, "The month, such as 2026-09"]) -> None:
    """Count the orders of every region, and announce the best region."""
    regions = step(find_regions, name="find")(month=month)
    counts = step(count_orders, name="count", each=regions, parallel=8)(month=month, region=item())
    total = step(add_orders, name="add")(counts=counts)
    best = step(best_region, name="best", when=total > 0)(counts=counts)
    news = or_default(best, "no orders")
    # The two messages do not need each other, so they are sent at the same time.
    step(send_message, name="tell_managers")(to="managers@example.com", text="Orders of {month}", reference=news)
    step(send_message, name="tell_shops")(to="shops@example.com", text="Orders of {month}", reference=news)
