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

    run = client.call_workflow("borrow", {"title": "Gathering Moss"})
    assert run.pause.type == "answersRequired"

    assert run.answer(reader="Kim").completed
    assert client.calls("lend_book") == [{"shelf": "QK-534", "reader": "Kim"}]
