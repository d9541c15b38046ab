"""docs/background.md: its figures follow from the code."""

from pathlib import Path

import pytest

from costs import polling

PAGE = (Path(__file__).parents[2] / "docs" / "background.md").read_text()


@pytest.mark.parametrize(("seconds", "polls"), [(0, 1), (1, 2), (9.5, 11), (10, 11), (10.1, 12), (60, 21), (75, 22)])
def test_a_client_that_keeps_to_the_interval_polls_so_often(seconds: float, polls: int) -> None:
    assert polling.polls(seconds) == polls
