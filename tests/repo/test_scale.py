"""docs/scale.md: its dollars and prose follow from the units in its tables and the prices beside them."""

import re
from itertools import product
from pathlib import Path

import pytest

from costs import prices, scale
from costs.workloads import KINDS, WORKLOADS, Workload

PAGE = (Path(__file__).parents[2] / "docs" / "scale.md").read_text()
NAMED = {workload.name: workload for workload in WORKLOADS}


def table(title: str) -> list[dict[str, str]]:
    """The rows of the table that follows a text, by their columns' names."""
    lines = PAGE.partition(title)[2].partition("\n|")[2].partition("\n\n")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [dict(zip(rows[0], row, strict=True)) for row in rows[2:]]


def figures(text: str) -> list[float]:
    return [float(figure.replace(",", "")) for figure in re.findall(r"[0-9][0-9,]*(?:\.[0-9]+)?", text)]


COSTS = table("**Dollars a million workflows**")
PRICES = {
    row["price, us-east-1, before any free tier"]: float(row["$"]) for row in table("## How the dollars are made")
}


def measured(workload: Workload, kind: str, bucket: str) -> dict[str, float]:
    """A row of the table of dollars."""
    [row] = [row for row in COSTS if (row["workload"], row["values"], row["bucket"]) == (workload.name, kind, bucket)]
    return {name: float(cell) for name, cell in row.items() if name not in ("workload", "values", "bucket")}


def price(begins: str) -> float:
    [found] = [value for name, value in PRICES.items() if name.startswith(begins)]
    return found


def test_the_benchmark_has_the_prices_that_are_listed() -> None:
    others = ("CloudWatch Logs", "Data out")
    assert [value for name, value in PRICES.items() if not name.startswith(others)] == [
        prices.API_REQUEST,
        prices.LAMBDA_REQUEST,
        prices.GB_SECOND,
        prices.WRITE_UNIT,
        prices.READ_UNIT,
        prices.S3_PUT,
        prices.S3_GET,
        prices.TRANSITION,
        prices.EXPRESS_REQUEST,
        prices.EXPRESS_GB_SECOND,
        prices.DURABLE_OPERATION,
        prices.DURABLE_GB,
        prices.DURABLE_GB_MONTH,
    ]


def test_the_table_has_every_workload_kind_of_value_and_bucket() -> None:
    found = [(row["workload"], row["values"], row["bucket"]) for row in COSTS]

    assert found == list(product(NAMED, KINDS, ("no", "yes")))


@pytest.mark.parametrize("row", COSTS, ids=lambda row: f"{row['workload']} {row['values']} {row['bucket']}")
def test_every_row_of_dollars_can_be_computed_again(row: dict[str, str]) -> None:
    cell = measured(NAMED[row["workload"]], row["values"], row["bucket"])
    state = cell["writes"] * price("DynamoDB on demand, a million write")
    state += cell["reads"] * price("DynamoDB on demand, a million read")
    state += cell["puts"] * price("S3, a million PUT") + cell["gets"] * price("S3, a million GET")

    assert cell["HTTP $"] == pytest.approx(cell["requests"] * (price("API") + price("Lambda, a million r")), abs=0.051)
    assert cell["state $"] == pytest.approx(state, abs=0.051)
    assert cell["all $"] == pytest.approx(cell["HTTP $"] + cell["compute $"] + cell["state $"], abs=0.16)


def test_the_workloads_are_described_as_they_are() -> None:
    rows = table("## Three workflows")

    for work, row in zip(WORKLOADS, rows, strict=True):
        said = [work.name, work.kb, work.steps, work.before, work.by_client]
        reported = [
            figures(row[name])[0] for name in ("a step's result", "steps", "the server runs", "the client calls")
        ]
        assert [row["workload"], *reported] == said
        requests = 1 + work.polls + work.by_client + 1
        assert figures(row["the client's requests"])[0] == requests == measured(work, "JSON", "no")["requests"]


def test_the_benchmark_finds_where_its_tables_go() -> None:
    assert PAGE.count(scale.BEGIN) == PAGE.count(scale.END) == 1
    assert PAGE.index(scale.BEGIN) < PAGE.index(scale.END)
