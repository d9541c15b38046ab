"""The costs of requests in docs/operating.md follow from its formula and the prices in docs/scale.md."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGE, PRICES = (DOCS / "operating.md").read_text(), (DOCS / "scale.md").read_text()
GB, PER_SECOND, DAYS = 0.5, 50, 30
NUMBER = r"[0-9]+(?:\.[0-9]+)?"


def rows() -> list[tuple[str, list[float]]]:
    """Return each kind of request and its figures."""
    table = PAGE.partition("| kind |")[2].partition("\n\n")[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    return [(kind, [float(figure) for figure in figures]) for kind, *figures in cells]


def price(of: str) -> float:
    """Return the dollars in the line of the prices that starts with this text."""
    [found] = re.findall(rf"^\| {of}[^|]*\| ({NUMBER}) \|", PRICES, re.MULTILINE)
    return float(found)


def test_the_formula_has_the_prices_that_are_listed() -> None:
    formula = PAGE.partition("A million of a kind costs `")[2].partition("`")[0]

    assert [float(figure) for figure in re.findall(NUMBER, formula)] == [
        price("API Gateway, REST"),
        price("Lambda, a million requests"),
        price("Lambda, a million GB-seconds"),
        price("DynamoDB on demand, a million write"),
        price("DynamoDB on demand, a million read"),
        price("CloudWatch Logs"),
        price("Data out"),
    ]


@pytest.mark.parametrize(("kind", "figures"), rows(), ids=[kind for kind, _ in rows()])
def test_every_row_of_the_table_follows_from_the_prices(kind: str, figures: list[float]) -> None:
    requests, seconds, writes, reads, log_kb, answer_kb, million, day, month = figures
    cost = requests * (price("API Gateway, REST") + price("Lambda, a million r"))
    cost += seconds * GB * price("Lambda, a million G")
    cost += writes * price("DynamoDB on demand, a million write") + reads * price("DynamoDB on demand, a million read")
    cost += log_kb * price("CloudWatch Logs") + answer_kb * price("Data out")

    millions_a_day = PER_SECOND * 24 * 3600 / 1_000_000
    assert million == pytest.approx(cost, abs=0.006)
    assert day == pytest.approx(cost * millions_a_day, abs=0.06)
    assert month == pytest.approx(cost * millions_a_day * DAYS, abs=0.6)


def test_the_daily_cost_of_one_concurrent_request_follows_from_the_prices() -> None:
    a_day = GB * 24 * 3600 * price("Lambda, a million G") / 1_000_000

    said = re.search(
        r"is \$([0-9.]+) a day each at 512 MB:\n\$([0-9]+) a day for `ReservedConcurrency=50`, \$([0-9]+) ", PAGE
    )
    assert said
    assert [float(figure) for figure in said.groups()] == [round(a_day, 2), round(50 * a_day), round(1000 * a_day)]
