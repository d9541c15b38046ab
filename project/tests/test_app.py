"""The server in this process, through its Lambda handler: no network, no AWS account."""

from app import server
from mcp_baton.testing import Connect


def test_a_book_is_found(baton: Connect) -> None:
    assert baton(server).call_tool("find_book", {"title": "Walden"}).value == {"title": "Walden", "shelf": "PS-3048"}


def test_a_book_that_is_not_there_is_an_error_that_says_which_are(baton: Connect) -> None:
    result = baton(server).call_tool("find_book", {"title": "Emma"})

    assert result.is_error
    assert "Gathering Moss" in result.text


def test_a_loan_pauses_until_somebody_says_who_the_reader_is(baton: Connect) -> None:
    client = baton(server)

    run = client.get_prompt("borrow", {"title": "Gathering Moss"})
    assert run.steps == {"find": "completed", "lend": "pending"}
    assert run.pause.missing_fields == ["reader"]

    # What the model does with the handoff: it calls the tool, and names the task.
    lent = client.call_tool("lend_book", {"shelf": "QK-534", "reader": "Kim"}, task=run.task_id)
    assert lent.recorded
    assert lent.value == {"shelf": "QK-534", "reader": "Kim", "weeks": 2}

    assert client.resume(run.task_id).completed
