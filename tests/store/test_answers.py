"""Questions to clients and their answers, over every engine (docs/http.md)."""

from collections.abc import Callable
from typing import Any

import pytest

from mcp_baton.exceptions import StoreError, TaskNotFound
from mcp_baton.protocol.json import JsonObject
from mcp_baton.questions.items import DynamoDBAnswerStore
from mcp_baton.tasks.ids import new_question
from tests.sent import Requests
from tests.store.conftest import Clock, Engine
from tests.store.fixture_types import Store

TTL_S = 60
YES: JsonObject = {"result": {"action": "accept", "content": {"name": "Kim"}}}


@pytest.fixture
def answers(store: Store) -> DynamoDBAnswerStore:
    return store.answers


@pytest.fixture
def question(answers: DynamoDBAnswerStore, owner: str) -> str:
    question_id = new_question()
    answers.ask(owner, question_id, TTL_S)
    return question_id


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param({}, id="empty"),
        pytest.param({"error": {"code": -1, "message": "no"}}, id="error"),
        pytest.param({"result": {"n": [2**60 + 1, 30.0, -0.0, "", [], {}, None, True, "\ud800", "é🎉"]}}, id="values"),
        pytest.param({"result": deep(60)}, id="deep"),
        pytest.param({"result": {"": {"a.b#c": 1}}}, id="odd names"),
        pytest.param({"result": {"text": "x" * 200_000}}, id="long and repetitive"),
    ],
)
def test_answers_arrive_unchanged(answers: DynamoDBAnswerStore, owner: str, question: str, answer: JsonObject) -> None:
    answers.answer(owner, question, answer)

    assert repr(answers.answered(owner, question)) == repr(answer)


def test_a_question_is_answered_once(answers: DynamoDBAnswerStore, owner: str, question: str) -> None:
    answers.answer(owner, question, YES)

    with pytest.raises(TaskNotFound):
        answers.answer(owner, question, {"result": {}})
    assert answers.answered(owner, question) == YES


@pytest.mark.parametrize(
    "question_id",
    ["", "baton-", "baton-" + "0" * 32, "baton-" + "G" * 32, "0" * 38, "no such question", "x" * 5000, "\ud800", "a#b"],
    ids=["empty", "prefix", "well-formed", "letters", "no prefix", "text", "long", "lone surrogate", "hash"],
)
def test_an_unknown_question_cannot_be_answered(
    answers: DynamoDBAnswerStore, owner: str, question_id: str, requests: Requests
) -> None:
    with pytest.raises(TaskNotFound):
        answers.answer(owner, question_id, YES)
    assert bool(requests.sent) == (question_id == "baton-" + "0" * 32)


def test_only_the_owner_can_answer_a_question(answers: DynamoDBAnswerStore, owner: str, question: str) -> None:
    with pytest.raises(TaskNotFound):
        answers.answer(f"{owner}-other", question, YES)

    assert answers.answered(f"{owner}-other", question) is None
    assert answers.answered(owner, question) is None
    answers.close(f"{owner}-other", question)
    answers.answer(owner, question, YES)


def test_a_question_expires(answers: DynamoDBAnswerStore, owner: str, question: str, clock: Clock) -> None:
    answers.answer(owner, question, YES)
    late_question = new_question()
    answers.ask(owner, late_question, TTL_S)

    clock.ms += TTL_S * 1000
    with pytest.raises(TaskNotFound):
        answers.answer(owner, late_question, YES)
    assert answers.answered(owner, question) is None


def test_a_closed_question_cannot_be_answered(
    answers: DynamoDBAnswerStore, owner: str, question: str, engine: Engine
) -> None:
    answers.answer(owner, question, YES)

    answers.close(owner, question)
    answers.close(owner, question)

    assert answers.answered(owner, question) is None
    with pytest.raises(TaskNotFound):
        answers.answer(owner, question, YES)
    page = engine.client.query(
        TableName="tasks",
        KeyConditionExpression="pk = :pk",
        ExpressionAttributeValues={":pk": {"S": f"OWNER#{owner}"}},
    )
    assert page["Items"] == []


def test_a_question_id_can_be_used_once(answers: DynamoDBAnswerStore, owner: str, question: str) -> None:
    answers.answer(owner, question, YES)

    with pytest.raises(StoreError):
        answers.ask(owner, question, TTL_S)
    assert answers.answered(owner, question) == YES


def test_questions_are_not_listed_as_tasks(store: Store, owner: str, question: str, begin: Callable[..., Any]) -> None:
    task = begin()

    assert [entry.task_id for entry in store.list(owner).tasks] == [task.task_id]
    with pytest.raises(TaskNotFound):
        store.get(owner, question)


def test_a_too_large_answer_is_refused(answers: DynamoDBAnswerStore, owner: str, question: str) -> None:
    import random

    noise = random.Random(1).randbytes(500_000).hex()
    with pytest.raises(StoreError, match="large"):
        answers.answer(owner, question, {"result": {"noise": noise}})
    assert answers.answered(owner, question) is None
