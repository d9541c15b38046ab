"""docs/scale.md: its dollars, partitions and prose follow from the units in its tables and the prices beside them."""

import re
from itertools import product
from math import ceil
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
BESIDE = {row[""]: [row[name] for name in NAMED] for row in table("**Beside the same job")}


def measured(workload: Workload, kind: str, bucket: str) -> dict[str, float]:
    """A row of the table of dollars."""
    [row] = [row for row in COSTS if (row["workload"], row["values"], row["bucket"]) == (workload.name, kind, bucket)]
    return {name: float(cell) for name, cell in row.items() if name not in ("workload", "values", "bucket")}


def price(begins: str) -> float:
    [found] = [value for name, value in PRICES.items() if name.startswith(begins)]
    return found


def test_the_benchmark_has_the_prices_that_are_listed() -> None:
    assert list(PRICES.values()) == [
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


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_the_others_dollars_can_be_computed_again(workload: Workload) -> None:
    place = list(NAMED).index(workload.name)
    said = {name.removeprefix("MCP server in front of "): cells[place] for name, cells in BESIDE.items()}
    own = measured(workload, "JSON", "no")
    front = own["HTTP $"] + own["compute $"] + own["requests"] * time(0.020)
    by_server = workload.before + workload.after
    tools = by_server * (price("Lambda, a million r") + time(0.020))
    standard = transitions_of(workload) * price("Step Functions Standard") + tools
    a_stretch = price("Step Functions Express, a million e") + 0.0625 * 0.2 * price(
        "Step Functions Express, a million G"
    )
    express = own["state $"] + stretches_of(workload) * a_stretch + tools
    durable = operations_of(workload) * price("Lambda durable functions, a million") + written_kb(workload) * (
        price("Lambda durable functions, a GB w") + price("Lambda durable functions, a GB k") * 14 / 30
    )
    durable += (1 + workload.by_client) * (price("Lambda, a million r") + time(0.050))

    assert float(said["Step Functions Standard"]) == pytest.approx(front + standard, abs=0.7)
    assert float(said["Step Functions Express"]) == pytest.approx(front + express, abs=0.7)
    assert float(said["Lambda durable functions"]) == pytest.approx(front + durable, abs=0.7)


def time(seconds: float) -> float:
    """The dollars of a million times so many seconds of 512 MB."""
    return seconds * 0.5 * price("Lambda, a million G")


def transitions_of(work: Workload) -> int:
    return work.steps + 2


def stretches_of(work: Workload) -> int:
    return 1 + (work.after > 0)


def operations_of(work: Workload) -> int:
    return 1 + work.before + work.after + 3 * work.by_client


def written_kb(work: Workload) -> int:
    return 1 + work.kb * (work.before + work.after + 2 * work.by_client)


def test_the_share_of_a_processor_is_lambdas() -> None:
    assert f"times {1769 / 512:.2f}," in PAGE


def test_the_workloads_are_described_as_they_are() -> None:
    rows = table("## Three workflows")

    for work, row in zip(WORKLOADS, rows, strict=True):
        said = [work.name, work.kb, work.steps, work.before, work.by_client]
        told = [figures(row[name])[0] for name in ("a step's result", "steps", "the server runs", "the client calls")]
        assert [row["workload"], *told] == said
        requests = 1 + work.polls + work.by_client + 1
        assert figures(row["the client's requests"])[0] == requests == measured(work, "JSON", "no")["requests"]


@pytest.mark.parametrize("row", table("**One owner's partitions"), ids=lambda row: f"{row['workload']} {row['values']}")
def test_every_row_of_partitions_can_be_computed_again(row: dict[str, str]) -> None:
    writes, reads = float(row["writes to the owner's key"]), float(row["reads"])
    rate = min(1_000 / writes, 3_000 / reads)
    used = measured(NAMED[row["workload"]], row["values"], "yes")

    assert writes <= used["writes"]
    assert reads <= used["reads"]
    assert float(row["workflows/s"]) == pytest.approx(rate, abs=0.051)
    assert figures(row["a day"]) == [pytest.approx(rate * 0.0864, abs=0.0051)]
    assert int(row["partitions"]) == ceil(10_000_000 / 86_400 * 3 / rate)


@pytest.mark.parametrize("row", table("**Write units a second"), ids=lambda row: row["workflows a day"])
def test_every_row_of_a_days_work_can_be_computed_again(row: dict[str, str]) -> None:
    [a_day] = figures(row["workflows a day"])
    for workload in WORKLOADS:
        used = measured(workload, "JSON", "yes")
        [writes], [dollars] = figures(row[f"{workload.name}, writes/s"]), figures(row[f"{workload.name}, $"])
        assert writes == pytest.approx(a_day / 86_400 * 3 * used["writes"], abs=0.051)
        assert dollars == pytest.approx(used["all $"] * a_day / 1e6, abs=0.006 + 0.051 * a_day / 1e6)


MET = [row for row in table("## What breaks first") if row["workflows a day"]]
WORDS = {"1 thousand": 1e3, "100 thousand": 1e5, "10 million": 1e7, "100 million": 1e8}


@pytest.mark.parametrize("row", MET, ids=lambda row: row["workflows a day"])
def test_what_each_order_of_magnitude_asks_for_can_be_computed_again(row: dict[str, str]) -> None:
    a_second = WORDS[row["workflows a day"]] / 86_400 * 3

    assert figures(row["a second"]) == [pytest.approx(a_second, rel=0.16)]
    assert figures(row["requests a second"]) == [pytest.approx(a_second * 5, rel=0.16)]


def test_the_defaults_that_are_met_first_are_the_templates() -> None:
    template = (Path(__file__).parents[2] / "template.yaml").read_text()
    page = PAGE.partition("## What breaks first")[2]

    def default(parameter: str) -> int:
        [found] = re.findall(rf"^  {parameter}:\n(?:    .*\n)*?    Default: (\d+)", template, re.MULTILINE)
        return int(found)

    quota, rate, stage = default("KeyQuotaPerDay"), default("KeyRateLimit"), default("ThrottleRate")
    a_day = 86_400 / 3 / 5
    assert f"{quota:,} requests of one API key are {quota // 5:,} workflows" in page
    assert f"`KeyRateLimit`, {rate} a second, are {rate * a_day:,.0f}" in page
    assert f"{stage} requests a second are {stage * a_day:,.0f} workflows a day" in page
    assert f"at 0.2 s a request, {1e7 / a_day * 0.2:,.0f} run at once" in page
    assert f"Lambda: {1e8 / a_day * 0.2:,.0f} run at once" in page


def test_the_prose_has_the_prices_consequences() -> None:
    a_request, put = price("API") + price("Lambda, a million r"), price("S3, a million PUT")

    assert f"Two polls are ${2 * a_request:.2f}" in PAGE
    assert f"costs ${time(60):.0f} a million" in PAGE
    assert f"${put:.2f} for a million objects" in PAGE
    assert f"items of {put / price('DynamoDB on demand, a million write'):.0f} KB" in PAGE


def test_the_benchmark_finds_where_its_tables_go() -> None:
    assert PAGE.count(scale.BEGIN) == PAGE.count(scale.END) == 1
    assert PAGE.index(scale.BEGIN) < PAGE.index(scale.END)
