"""Tests of the expenses, with the testing kit."""

from expenses.app import server
from mcp_baton.testing.plugin import Connect

HOTEL = {"receipt_id": "R-1", "employee": "kim@example.com"}
DINNER = {"receipt_id": "R-2", "employee": "kim@example.com"}


def test_an_expense_within_the_budget_is_booked_after_the_model_has_classified_it(baton: Connect) -> None:
    client = baton(server)
    run = client.call_workflow("file_expense", HOTEL)
    assert run.pause.step == "category"
    assert run.answer(category="travel").completed
    assert client.calls("notify") == [{"text": "B-travel-270.0", "to": "kim@example.com"}]


def test_the_user_decides_about_an_expense_that_exceeds_the_budget(baton: Connect) -> None:
    for approved, text in ((True, "B-meals-108.0"), (False, "rejected")):
        client = baton(server)
        run = client.call_workflow("file_expense", DINNER).answer(category="meals")
        assert "Book 108.0 EUR? Only 60.0 EUR are left." in run.text
        assert run.answer(approved=approved).completed
        assert client.calls("notify")[-1]["text"] == text


def test_a_booking_that_fails_is_made_by_the_next_run(baton: Connect) -> None:
    client = baton(server)
    client.tool_raises("book", "the ledger is closed", times=1)
    run = client.call_workflow("file_expense", HOTEL).answer(category="travel")
    assert run.pause.step == "book"
    assert client.resume(run.task_id).completed
    assert len(client.calls("to_eur")) == 1
