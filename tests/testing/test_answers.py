"""Questions of tools, prompts and resources, answered by the client in both eras."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, get_args

import pytest

from mcp_baton import Context, Question, Server, Workflow, ask_user, step
from mcp_baton.protocol.json import Json
from mcp_baton.testing import Client, Era, JsonRpcError, Unanswered, connect
from mcp_baton.testing.mcp_client import MAX_ROUNDS, EndlessAnswer
from tests.testing.conftest import BOTH_ERAS


@pytest.fixture(params=get_args(Era.__value__))
def client(asking: Server, request: pytest.FixtureRequest) -> Iterator[Client]:
    """A client of a server that asks, in each era, because the eras send questions differently."""
    with connect(asking, era=request.param) as client:
        yield client


@pytest.mark.parametrize("name", ["colour", "Which colour?"])
def test_an_answer_is_found_by_key_or_text(client: Client, name: str, caplog: pytest.LogCaptureFixture) -> None:
    client.answers({name: {"colour": "blue"}})
    assert client.call_tool("choose").value == "blue"
    assert client.get_prompt("paint").messages[0].text == "Paint it blue."
    assert client.read_resource("docs://colour").text == "blue"
    assert caplog.messages == []  # the log would show a key that the client had to invent


WHOLE = {"role": "assistant", "content": {"type": "text", "text": "whole"}, "model": "m", "stopReason": "endTurn"}


@pytest.mark.parametrize(
    ("tool", "key", "answer", "value"),
    [
        pytest.param("choose", "colour", "decline", "decline", id="a form that is declined"),
        pytest.param("choose", "colour", "cancel", "cancel", id="a form that is cancelled"),
        pytest.param("sign_in", "Please sign in.", {}, "accept", id="a page that is visited"),
        pytest.param("think", "thought", "that it rains", "that it rains", id="a text of the model"),
        pytest.param("think", "thought", WHOLE, "whole", id="the model's whole answer"),
        pytest.param("look", "where", ["file:///work"], ["file:///work"], id="roots"),
        pytest.param("look", "where", {"roots": [{"uri": "file:///home"}]}, ["file:///home"], id="a list of roots"),
    ],
)
def test_each_kind_of_question_accepts_its_answers(
    client: Client, tool: str, key: str, answer: Any, value: object
) -> None:
    client.answers({key: answer})
    assert client.call_tool(tool).value == value


def test_a_call_with_a_question_counts_as_one_call(client: Client) -> None:
    client.answers({"colour": {"colour": "blue"}})
    client.call_tool("choose")
    client.call_tool("choose")
    assert client.calls("choose") == [{}, {}]


@pytest.mark.parametrize(
    "send",
    [
        lambda client: client.call_tool("choose"),
        lambda client: client.get_prompt("paint"),
        lambda client: client.read_resource("docs://colour"),
    ],
)
def test_a_question_without_an_answer_raises_unanswered(client: Client, send: Callable[[Client], object]) -> None:
    with pytest.raises(Unanswered, match=r"'Which colour\?' \(key 'colour'\); .*client.answers") as error_info:
        send(client)
    assert (error_info.value.key, error_info.value.text) == ("colour", "Which colour?")


@pytest.mark.parametrize(
    ("tool", "key", "answer", "expected_type"),
    [
        ("choose", "colour", "blue", "a dict of the form's fields"),
        ("think", "thought", 5, "a text or a CreateMessageResult"),
        ("look", "where", 5, "a list of URIs"),
    ],
)
def test_an_answer_of_the_wrong_type_is_refused_with_a_remedy(
    client: Client, tool: str, key: str, answer: str | int, expected_type: str
) -> None:
    client.answers({key: answer})
    with pytest.raises(Unanswered, match=expected_type):
        client.call_tool(tool)


def test_a_client_without_answers_receives_no_questions(client: Client) -> None:
    client.answers({"colour": {"colour": "blue"}})
    client.answers(None)
    if client.era == "2025":
        assert client.call_tool("choose").is_error
    else:
        with pytest.raises(JsonRpcError) as error_info:
            client.call_tool("choose")
        assert error_info.value.code == -32021
    client.answers({})
    with pytest.raises(Unanswered):
        client.call_tool("choose")


def test_a_call_that_asks_too_often_fails(asking: Server) -> None:
    with connect(asking) as client:
        client.answers({"Again?": {}})
        with pytest.raises(EndlessAnswer, match=f"asked {MAX_ROUNDS} times"):
            client.call_tool("forever")


@BOTH_ERAS
def test_notifications_of_a_tool_do_not_hide_its_result(era: Era) -> None:
    server = Server("loud")

    @server.tool
    def shout(ctx: Context) -> str:
        ctx.log("warning", "first\n\nsecond")
        return "done"

    with connect(server, era=era) as client:
        assert client.call_tool("shout").value == "done"


def borrowing() -> Server:
    server = Server("library")

    @server.tool
    def lend(reader: str, weeks: int) -> str:
        return f"{reader} {weeks}"

    @server.workflow
    def borrow() -> None:
        reader = ask_user("reader", "Who borrows it?")
        step(lend)(reader=reader, weeks=ask_user("weeks", "For how long?", returns=int))

    return server


@BOTH_ERAS
@pytest.mark.parametrize(
    "answers",
    [
        {"reader": "Kim", "weeks": 2},
        {"Who borrows it?": "Kim", "For how long?": {"value": 2}},
        {"reader": {"reader": "Kim", "weeks": 2}},
        {"reader": {"reader": "Kim"}, "weeks": {"weeks": 2}, "unused": 1},
    ],
)
def test_a_question_of_a_workflow_is_answered_by_its_name_or_its_text(answers: dict[str, Any], era: Era) -> None:
    with connect(borrowing(), era=era) as client:
        client.answers(answers)
        run = client.call_workflow("borrow")
        assert client.calls("lend") == [{"reader": "Kim", "weeks": 2}]

    assert "Kim 2" in run.text


@BOTH_ERAS
@pytest.mark.parametrize("answers", [{"nonsense": "Kim"}, {"reader": "Kim"}, {"Who borrows?": {"value": "Kim"}}])
def test_answers_that_match_no_question_of_a_workflow_raise_unanswered(answers: dict[str, Any], era: Era) -> None:
    with connect(borrowing(), era=era) as client:
        client.answers(answers)
        with pytest.raises(Unanswered, match=r"do not answer .*'weeks'.*: name each question by its name or its text"):
            client.call_workflow("borrow")


@pytest.mark.parametrize("answers", [{}, {"reader": "decline"}])
def test_a_workflow_pauses_if_its_questions_are_not_answered_beforehand(answers: dict[str, Any]) -> None:
    with connect(borrowing()) as client:
        client.answers(answers)
        run = client.call_workflow("borrow")
        assert run.pause.type == "answersRequired"
        assert run.answer(reader="Kim", weeks=2).completed


@dataclass
class Loan:
    person: str
    days: int


@BOTH_ERAS
def test_workflows_and_versions_of_a_server_may_have_questions_of_the_same_name(era: Era) -> None:
    def asking(*questions: tuple[str, str]) -> Server:
        server = borrowing()
        for name, question in questions:
            steps = [Question("reader", question, Loan, "user")]
            server.add_workflow(Workflow(name=name, description=name, steps=steps))
        return server

    loan: dict[str, Json] = {"person": "Kim", "days": 2}
    with connect(asking(("one", "Which loan?"), ("two", "Whose loan?")), era=era) as client:
        assert client.call_workflow("one").answer(reader=loan).completed
        deployed = client.deployed(asking(("three", "What loan?")))
        assert deployed.call_workflow("three").answer(reader=loan).completed


@BOTH_ERAS
def test_a_background_task_takes_the_answer_to_a_question_of_a_workflow_by_its_name(era: Era) -> None:
    server = Server("library")

    @server.tool
    def lend(reader: str) -> str:
        return reader

    @server.workflow(background=True)
    def borrow() -> None:
        step(lend)(reader=ask_user("reader", "Who borrows it?"))

    with connect(server, era=era) as client:
        task = client.start_task("borrow")
        assert task.answer({"unknown": 1}).status == "input_required"
        assert task.answer({"reader": "Kim"}).status == "completed"
