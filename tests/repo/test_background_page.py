"""docs/background.md: its figures follow from the code, and its table from the prices."""

from pathlib import Path

import pytest

from costs import polling

PAGE = (Path(__file__).parents[2] / "docs" / "background.md").read_text()


def test_the_table_of_what_waiting_costs_is_the_computed_one() -> None:
    assert "\n".join(polling.table()) in PAGE


@pytest.mark.parametrize(("seconds", "polls"), [(0, 1), (1, 2), (9.5, 11), (10, 11), (10.1, 12), (60, 21), (75, 22)])
def test_a_client_that_keeps_to_the_interval_polls_so_often(seconds: float, polls: int) -> None:
    assert polling.polls(seconds) == polls
