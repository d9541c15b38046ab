"""docs/background.md: its figures follow from the code."""

from pathlib import Path

import pytest

from costs import polling
from mcp_baton import Server
from mcp_baton.server.background.job import MESSAGE_S
from mcp_baton.server.methods.subscriptions import MOST_TASKS
from mcp_baton.server.methods.tasks import WHOLE_S
from mcp_baton.server.workflows.task_view import INTERVALS_MS, PERSON_MS
from mcp_baton.settings import Settings
from mcp_baton.tasks.record import RENEW_MS
from mcp_baton.workflow.lease import CHECK_AFTER_S

PAGE = (Path(__file__).parents[2] / "docs" / "background.md").read_text()


@pytest.mark.parametrize(("seconds", "polls"), [(0, 1), (1, 2), (9.5, 11), (10, 11), (10.1, 12), (60, 21), (75, 22)])
def test_a_client_that_keeps_to_the_interval_polls_so_often(seconds: float, polls: int) -> None:
    assert polling.polls(seconds) == polls


def test_a_poll_costs_so_many_seconds_of_waiting() -> None:
    a_second = polling.waited(2) - polling.waited(1)
    assert f"a poll costs as much as {polling.polled(0) / a_second:.1f} s of that" in PAGE


def test_the_figures_in_the_prose_are_the_codes() -> None:
    intervals = [(until, interval // 1000) for until, interval in INTERVALS_MS]
    assert [f"| {interval} s |" in PAGE for _, interval in intervals] == [True] * 3
    assert [until for until, _ in intervals[:2]] == [10_000, 60_000]
    assert f"| waits for a person (`input_required`) | {PERSON_MS // 1000} s |" in PAGE
    assert f"`Server(result_wait_s={Server('s').options.result_wait_s})`" in PAGE
    assert Server("s").options.result_wait_s == polling.WAIT_S
    assert f"it waits {WHOLE_S:g} s" in PAGE
    assert f"of the first {MOST_TASKS}" in PAGE
    assert (MESSAGE_S, Settings().listen_ms) == (1, 60_000)
    assert f"renewed every {RENEW_MS // 1000} s" in PAGE
    assert f"looks at its task every {CHECK_AFTER_S:g} s" in PAGE
