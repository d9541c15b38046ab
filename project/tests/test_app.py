"""The server in this process, through its Lambda handler: no network, no AWS account."""

from app import server
from mcp_baton.testing import Connect


def test_a_book_is_found(baton: Connect) -> None:
    assert baton(server).call_tool("find_book", {"title": "Walden"}).value == {"title": "Walden", "shelf": "PS-3048"}


def test_an_unknown_book_is_an_error_that_lists_the_books(baton: Connect) -> None:
    result = baton(server).call_tool("find_book", {"title": "Emma"})

    assert result.is_error
    assert "Gathering Moss" in result.text


def test_a_loan_pauses_until_the_reader_is_known(baton: Connect) -> None:
    client = baton(server)

    run = client.get_prompt("borrow", {"title": "Gathering Moss"})
    assert run.steps == {"find": "completed", "lend": "pending"}
    assert run.pause.missing_fields == ["reader"]

    # The model follows the handoff: it calls the tool with the task's id.
    lent = client.call_tool("lend_book", {"shelf": "QK-534", "reader": "Kim"}, task=run.task_id)
    assert lent.recorded
    assert lent.value == {"shelf": "QK-534", "reader": "Kim", "weeks": 2}

    assert client.resume(run.task_id).completed
