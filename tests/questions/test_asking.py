"""Asking the client: in rounds of requests, or on a stream with answers through the store."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec.structs import replace

from mcp_baton import ProtocolError, ToolError, elicitation, roots, sampling, url_elicitation
from mcp_baton.exceptions import Abandoned, StoreUnavailable, TaskNotFound
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.protocol.jsonrpc import INVALID_PARAMS, MISSING_CLIENT_CAPABILITY
from mcp_baton.protocol.state import Seal
from mcp_baton.questions.rounds import Rounds, StoreAsker, open_rounds
from mcp_baton.tasks.answers import FIRST_ANSWER_WAIT_S, MAX_ANSWER_WAIT_S, growing_pauses
from mcp_baton.tools.asking import CannotAsk, ClientQuestion, InputRequired

SEAL = Seal(lambda: (b"k" * 32,))
ALL: JsonObject = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
CALL: JsonObject = {"name": "ask", "arguments": {"a": 1}}
NAME = elicitation("name", "Who?", {"type": "object", "properties": {}})
COLOUR = elicitation("colour", "Which?", {"type": "object", "properties": {}})
THOUGHT = sampling("thought", "Think.")
FOLDERS = roots("folders")
NO_STATES: list[Json] = ["garbage", "", 5, {}]
NO_RESPONSES: list[Json] = [None, 5, "yes", [1]]
ACCEPTED: JsonObject = {"action": "accept", "content": {}}


def rounds(params: JsonObject, capabilities: JsonObject = ALL, owner: str | None = "alice") -> Rounds:
    return open_rounds(SEAL, owner, "tools/call", params, capabilities)


def ask_round(asker: Rounds, *questions: ClientQuestion) -> dict[str, Any]:
    with pytest.raises(InputRequired) as error_info:
        asker.ask(questions)
    assert error_info.value.result["resultType"] == "input_required"
    return dict(error_info.value.result)


def next_params(result: JsonObject, responses: Json, params: JsonObject = CALL) -> JsonObject:
    """Return the params of the round after this result."""
    return {**params, "requestState": result["requestState"], "inputResponses": responses}


def test_a_round_remembers_all_earlier_answers() -> None:
    params, answers = CALL, list[ClientQuestion]()
    for question in (NAME, COLOUR, THOUGHT, FOLDERS):
        result = ask_round(rounds(params), *answers, question)
        assert list(result["inputRequests"]) == [question.key]
        answers.append(question)
        params = next_params(result, {question.key: {"is": question.key}})

    assert rounds(params).ask(tuple(answers)) == [{"is": answered_question.key} for answered_question in answers]


@pytest.mark.parametrize(
    ("capabilities", "question", "required"),
    [
        ({}, NAME, {"elicitation": {}}),
        ({"sampling": {}}, FOLDERS, {"roots": {}}),
        ({"roots": {}}, THOUGHT, {"sampling": {}}),
        ({"elicitation": {}}, url_elicitation("u", "m", "https://a"), {"elicitation": {"url": {}}}),
        ({"elicitation": {"form": {}}}, url_elicitation("u", "m", "https://a"), {"elicitation": {"url": {}}}),
        ({"elicitation": {"url": {}}}, NAME, {"elicitation": {}}),
        ({"sampling": {}}, sampling("s", "hi", tools=[]), {"sampling": {"tools": {}}}),
        ({"elicitation": None}, NAME, {"elicitation": {}}),
    ],
    ids=["nothing", "roots", "sampling", "no mode", "forms only", "pages only", "tools", "null"],
)
def test_the_error_names_the_capability_that_the_client_lacks(
    capabilities: JsonObject, question: ClientQuestion, required: Json
) -> None:
    with pytest.raises(ProtocolError) as error_info:
        rounds(CALL, capabilities).ask((question,))

    assert error_info.value.code == MISSING_CLIENT_CAPABILITY == -32021
    assert error_info.value.data == {"requiredCapabilities": required}


@pytest.mark.parametrize("answer", [None, 5, "yes", [1], True])
def test_an_answer_that_is_not_an_object_is_refused(answer: Json) -> None:
    with pytest.raises(ProtocolError, match=r"inputResponses\.name") as error_info:
        rounds(next_params(ask_round(rounds(CALL), NAME), {"name": answer})).ask((NAME,))
    assert error_info.value.code == INVALID_PARAMS


@pytest.mark.parametrize(
    ("owner", "changes"),
    [
        ("mallory", {}),
        (None, {}),
        ("alice", {"name": "other"}),
        ("alice", {"arguments": {"a": 2}}),
        ("alice", {"uri": "docs://other"}),
        ("alice", {"_meta": {"_task_id": "two"}}),
        ("alice", {"_meta": {"_task_id": "one", "io.modelcontextprotocol/related-task": {"taskId": "two"}}}),
        *(("alice", {"requestState": state}) for state in NO_STATES),
        *(("alice", {"inputResponses": responses}) for responses in NO_RESPONSES),
    ],
    ids=str,
)
def test_a_round_of_another_call_is_refused(owner: str | None, changes: dict[str, Json]) -> None:
    first = ask_round(rounds({**CALL, "_meta": {"_task_id": "one"}}), NAME)

    with pytest.raises(ProtocolError) as error_info:
        rounds({**next_params(first, {}, {**CALL, "_meta": {"_task_id": "one"}}), **changes}, owner=owner)
    assert error_info.value.code == INVALID_PARAMS
    assert ("inputResponses" if "inputResponses" in changes else "requestState") in error_info.value.message


def test_a_resources_rounds_are_bound_to_its_uri() -> None:
    state = ask_round(rounds({"uri": "docs://a"}), NAME)["requestState"]

    assert rounds({"uri": "docs://a", "requestState": state}).answers == {}
    with pytest.raises(ProtocolError):
        rounds({"uri": "docs://b", "requestState": state})


def test_a_call_that_cannot_ask_fails_with_the_reason() -> None:
    with pytest.raises(ToolError, match=r"elicitation/create.*there is no client"):
        CannotAsk("there is no client").ask((NAME, THOUGHT))


@dataclass
class FakeAnswerStore:
    """An answer store in a dictionary. A test answers through it, or makes it fail."""

    open: dict[tuple[str, str], JsonObject | None] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    broken: str | None = None

    def ask(self, owner: str, question: str, ttl_s: int) -> None:
        assert ttl_s > 0
        self._note("ask", question)
        self.open[owner, question] = None

    def answer(self, owner: str, question: str, answer: JsonObject) -> None:
        if self.open.get((owner, question), answer) is not None:
            raise TaskNotFound
        self.open[owner, question] = answer

    def answered(self, owner: str, question: str) -> JsonObject | None:
        self._note("answered", question)
        return self.open[owner, question]

    def close(self, owner: str, question: str) -> None:
        self._note("close", question)
        del self.open[owner, question]

    def _note(self, verb: str, question: str) -> None:
        if verb == self.broken:
            raise StoreUnavailable("down")
        self.log.append(f"{verb} {question}")


def asker_of(
    answers_store: FakeAnswerStore,
    client: Callable[[str, str], JsonObject | None],
    waited_for: Callable[[], bool] = lambda: True,
) -> StoreAsker:
    """Return an asker whose client answers each question (given its id and method) when it is sent, or not at all."""
    numbers = itertools.count(1)

    def send(identifier: str, method: str, _params: JsonObject) -> None:
        answers_store.log.append(f"send {identifier}")
        answer = client(identifier, method)
        if answer is not None:
            answers_store.answer("alice", identifier, answer)

    return StoreAsker(answers_store, "alice", send, lambda: f"q{next(numbers)}", waited_for)


def test_a_question_is_stored_before_it_is_sent_and_deleted_after_its_answer() -> None:
    answers_store = FakeAnswerStore()

    assert asker_of(answers_store, lambda *_: {"result": ACCEPTED}).ask((NAME,)) == [ACCEPTED]
    assert answers_store.log == ["ask q1", "send q1", "answered q1", "close q1"]
    assert answers_store.open == {}


def test_the_same_question_is_asked_once_in_a_call() -> None:
    answers_store = FakeAnswerStore()
    asker = asker_of(answers_store, lambda question, _: {"result": {"q": question}})

    assert [asker.ask((NAME,)), asker.ask((NAME, COLOUR)), asker.ask((COLOUR,))] == [
        [{"q": "q1"}],
        [{"q": "q1"}, {"q": "q2"}],
        [{"q": "q2"}],
    ]


@pytest.mark.parametrize(
    ("answer", "reported"),
    [
        ({"error": {"code": -1, "message": "User rejected it"}}, "User rejected it"),
        ({"error": {"code": -1}}, "no reason"),
        ({"error": 5}, "no reason"),
        ({}, "no reason"),
        ({"result": None}, "no reason"),
    ],
    ids=str,
)
def test_a_clients_refusal_is_an_error_of_the_tool(answer: JsonObject, reported: str) -> None:
    with pytest.raises(ToolError, match=reported):
        asker_of(FakeAnswerStore(), lambda *_: answer).ask((THOUGHT,))


def test_an_answer_is_used_even_if_its_question_cannot_be_deleted(caplog: pytest.LogCaptureFixture) -> None:
    accepted: JsonObject = {"action": "accept", "content": {"name": "Kim"}}

    assert asker_of(FakeAnswerStore(broken="close"), lambda *_: {"result": accepted}).ask((NAME,)) == [accepted]
    assert "could not be closed" in caplog.text


def test_the_wait_for_an_answer_ends_when_the_tool_is_abandoned() -> None:
    answers_store, checks = FakeAnswerStore(), itertools.count()

    with pytest.raises(Abandoned):
        asker_of(answers_store, lambda *_: None, lambda: next(checks) < 2).ask((NAME,))
    assert answers_store.log.count("answered q1") == 2


def test_the_store_is_polled_more_slowly_over_time_up_to_a_limit() -> None:
    pauses = list(itertools.islice(growing_pauses(), 30))
    assert pauses == sorted(pauses)
    assert (pauses[0], set(pauses[-10:])) == (FIRST_ANSWER_WAIT_S, {MAX_ANSWER_WAIT_S})


@pytest.mark.parametrize("limit_s", [0, -1, float("inf"), float("nan")])
def test_a_time_limit_is_a_number_of_seconds(limit_s: float) -> None:
    with pytest.raises(ValueError, match="timeout_s"):
        roots("folders", timeout_s=limit_s)


def test_each_question_has_its_own_time_limit() -> None:
    clock = itertools.count(0.0, 1.0)
    asker = replace(asker_of(FakeAnswerStore(), lambda *_: None), limit_s=2.5, clock=lambda: next(clock))

    with pytest.raises(ToolError, match=r"The client did not answer roots/list within 4\.5 s"):
        asker.ask((roots("folders", timeout_s=4.5),))
    with pytest.raises(ToolError, match=r"The client did not answer elicitation/create within 2\.5 s"):
        asker.ask((NAME, roots("folders", timeout_s=4.5)))


@pytest.mark.parametrize(
    ("limits", "lifetime_s"), [((None,), 900), ((30,), 30), ((30, None), 30), ((0.5, 60), 1), ((3_600,), 3_600)]
)
def test_a_state_expires_with_the_shortest_limit_of_its_questions(
    limits: tuple[float | None, ...], lifetime_s: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = [1_000.0]
    monkeypatch.setattr("mcp_baton.questions.rounds.time.time", lambda: times[0])
    questions = [roots(f"folders-{number}", timeout_s=limit) for number, limit in enumerate(limits)]
    params = {**CALL, "requestState": ask_round(rounds(CALL), *questions)["requestState"]}

    times[0] += lifetime_s - 1
    rounds(params)
    times[0] += 1
    with pytest.raises(ProtocolError, match="expired"):
        rounds(params)
