"""How calls wait for what they depend on."""

from collections.abc import Callable

import pytest

from mcp_baton.server.running import awaiting
from mcp_baton.server.running.awaiting import InItsThread, TookTooLong


def test_what_is_given_up_before_its_thread_begins_is_not_called_and_frees_the_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jobs, happened = list[Callable[[Callable[[], None]], None]](), list[str]()
    monkeypatch.setattr(awaiting, "in_a_thread", jobs.append)

    with pytest.raises(TookTooLong):
        InItsThread(0.0).call(len, lambda: happened.append("called"), lambda _: None)
    jobs[0](lambda: happened.append("free"))

    assert happened == ["free"]
