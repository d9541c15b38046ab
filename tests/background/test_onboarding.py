"""A workflow with a list, questions, a callback, an approval and a sleep passes its tests without a workaround."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from mcp_baton.protocol.json import Json
from mcp_baton.testing import Connect
from tests.background import onboarding as app

ANSWERS: dict[str, Json] = {"risk": "low", "agreed": True}


@pytest.fixture(autouse=True)
def _empty() -> Iterator[None]:
    yield
    for things in (app.SENT, app.PAID, app.ADDRESSES):
        things.clear()


@pytest.mark.parametrize("asks_the_user", [False, True])
def test_a_supplier_is_onboarded(baton: Connect, *, asks_the_user: bool) -> None:
    client = baton(app.server)
    answers: dict[str, Json] = {"risk": "low"} if asks_the_user else ANSWERS
    task = client.start_task("onboard", {"supplier_id": "S-1", "answers": answers})
    if asks_the_user:
        assert task.status == "input_required"
        task.answer({"agreed": True})
    assert task.status == "working"
    client.send_callback(task.task_id, "screening", {"passed": True, "score": 9})
    assert app.PAID == []
    treasurer = client.as_owner("ada", scopes=["treasury"])
    treasurer.approve(treasurer.approvals()[0]["approvalId"])
    assert (app.PAID, app.SENT, task.status) == ([500.0], [], "working")
    client.clock.advance(timedelta(hours=2))
    assert app.SENT == ["lee@example.com: Welcome S-1"]
    assert task.status == "completed"
    assert "S-1 closed, P-S-1" in task.result.text


def test_a_supplier_whose_screening_is_late_is_not_paid(baton: Connect) -> None:
    client = baton(app.server)
    task = client.start_task("onboard", {"supplier_id": "S-2", "note": None, "answers": ANSWERS})
    assert task.status == "working"
    client.clock.advance(timedelta(hours=4))
    assert task.status == "completed"
    assert (app.PAID, app.SENT) == ([], [])
    assert "no payment" in task.result.text


def test_a_refusal_ends_early(baton: Connect) -> None:
    client = baton(app.server)
    run = client.call_workflow("onboard", {"supplier_id": "S-3", "note": "hello"})
    run = run.answer(risk="low", agreed=False)
    assert run.completed
    assert app.ADDRESSES == []
    assert app.SENT == ["team@example.com: hello"]
