"""The table in costs/expensive.md matches the code."""

import pytest

from costs import expensive


def figures(line: str) -> tuple[str, list[float]]:
    name, *cells = [cell.strip() for cell in line.strip("|").split("|")]
    return name, [float(cell.replace(",", "")) for cell in cells]


@pytest.mark.nightly
def test_the_table_of_the_most_expensive_requests_matches_a_measurement() -> None:
    block = expensive.PAGE.read_text().partition(expensive.BEGIN)[2].partition(expensive.END)[0]
    reported = [figures(line) for line in block.strip().splitlines()[2:]]
    measured = [figures(line) for line in expensive.table()[2:]]

    assert [name for name, _ in reported] == [name for name, _ in measured]
    # Versions of zlib make values of slightly different lengths.
    for (name, row), (_, measured_row) in zip(reported, measured, strict=True):
        assert measured_row == pytest.approx(row, rel=0.06, abs=1), f"{name}: run python -m costs.expensive --update"


def test_no_request_of_the_table_is_longer_than_2_kb() -> None:
    with pytest.raises(ValueError, match="2049 bytes"), expensive.measuring() as costs:
        costs.measure("x" * 2_049, {})
