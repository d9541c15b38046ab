"""The costs in docs/cost.md follow from its prices."""

import re
from pathlib import Path

import pytest

from costs import polling, prices

ROOT = Path(__file__).parents[2]
PAGE, MEASURED = (ROOT / "docs" / "cost.md").read_text(), (ROOT / "costs" / "workflows.md").read_text()
GB, PER_SECOND, DAYS = 0.5, 50, 30


def rows() -> list[tuple[str, list[float]]]:
    table = PAGE.partition("| kind |")[2].partition("\n\n")[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    return [(kind, [float(figure) for figure in figures]) for kind, *figures in cells]


def price(service: str) -> float:
    """Return the dollars in the line of the prices that starts with this text."""
    [dollars] = re.findall(rf"^\| {service}[^|]*\| ([0-9.]+) \|", PAGE, re.MULTILINE)
    return float(dollars)


API, REQUESTS, GB_SECONDS = price("API Gateway"), price("Lambda, a million r"), price("Lambda, a million GB-s")
WRITES, READS = (price(f"DynamoDB on demand, a million {units}") for units in ("write", "read"))


def test_the_generated_tables_use_the_listed_prices() -> None:
    listed_prices = (API, REQUESTS, GB_SECONDS, WRITES, READS)

    assert listed_prices == (
        prices.API_REQUEST,
        prices.LAMBDA_REQUEST,
        prices.GB_SECOND,
        prices.WRITE_UNIT,
        prices.READ_UNIT,
    )


@pytest.mark.parametrize(("kind", "figures"), rows(), ids=[kind for kind, _ in rows()])
def test_every_row_of_the_table_follows_from_the_prices(kind: str, figures: list[float]) -> None:
    requests, seconds, writes, reads, log_kb, answer_kb, *dollars = figures
    cost = requests * (API + REQUESTS) + seconds * GB * GB_SECONDS + writes * WRITES + reads * READS
    cost += log_kb * price("CloudWatch Logs") + answer_kb * price("Data out")

    a_day = cost * PER_SECOND * 24 * 3600 / 1_000_000
    for listed, computed in zip(dollars, (cost, a_day, a_day * DAYS), strict=True):
        assert listed == pytest.approx(computed, rel=0.01, abs=0.06)


def test_the_costs_of_waiting_for_a_person_follow_from_the_prices() -> None:
    open_request_cost = 3 * 24 * 3600 * GB * GB_SECONDS / prices.MILLION

    assert f"${polling.approval_cost(3, 'tool'):.3f} for a tool" in PAGE
    assert f"${polling.approval_cost(3, 'workflow'):.3f} for a workflow" in PAGE
    assert f"${open_request_cost:.2f}" in PAGE


def test_the_page_shows_the_measured_costs_of_workflows() -> None:
    services = re.findall(r"^\| (?:Baton, JSON|MCP server) .+$", MEASURED, re.MULTILINE)

    assert len(services) == 4
    assert [line for line in services if line not in PAGE] == []
