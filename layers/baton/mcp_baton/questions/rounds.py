"""Asking the client: in rounds (2026 era), or through the store (2025 era).

In the 2026 era a question ends the call with an `input_required` result. The client repeats the call with the answers.
The function runs again from its start, and the same question returns its answer (MCP 2026-07-28, basic/patterns/mrtr).
"""

import logging
import math
import time
from collections.abc import Callable, Mapping
from typing import cast

from msgspec import Struct, field

from mcp_baton.exceptions import Abandoned, StoreError, ToolError
from mcp_baton.protocol.envelope import PREFIXED_TASK_ID_KEY, RELATED_TASK_KEY, TASK_ID_KEY, Envelope
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.protocol.jsonrpc import InvalidParams, checked_object, missing_capability
from mcp_baton.protocol.state import LIFETIME_S, ForgedState, Seal, binding_of
from mcp_baton.tasks.answers import AnswerStore, growing_pauses
from mcp_baton.tools.asking import (
    URL_ELICITATION,
    ClientQuestion,
    Identity,
    InputRequired,
    declares,
    identity_of,
    refuse_undeclared,
)

logger = logging.getLogger(__name__)


class Rounds(Struct):
    """The 2026 era's asker: the answers of the rounds so far, and the seal for the next.

    Attributes:
        binding: Binds the state to the caller, the request and the task.
        earlier_identity: The identity of the call in the round before; `None` in a first round.
        identity: The identity of this call, sent along to the next round.
    """

    seal: Seal
    answers: Mapping[str, Json]
    binding: str
    capabilities: JsonObject
    earlier_identity: Identity | None = None
    identity: Identity = field(default_factory=Identity)

    def ask(self, questions: tuple[ClientQuestion, ...]) -> list[JsonObject]:
        """Return the answers, if the client has given all of them. Otherwise end the call with the open questions."""
        missing = tuple(question for question in questions if question.key not in self.answers)
        if missing:
            self._check_capabilities(missing)
            raise InputRequired(self._input_required(missing))
        return [self._answer(question) for question in questions]

    def _input_required(self, questions: tuple[ClientQuestion, ...]) -> JsonObject:
        requests: dict[str, Json] = {
            question.key: {"method": question.method, "params": question.params} for question in questions
        }
        keys = [question.key for question in questions]
        content: dict[str, Json] = {"answers": self.answers, "asked": keys, "call": self.identity.to_json()}
        lifetime_s = min(LIFETIME_S if question.limit_s is None else question.limit_s for question in questions)
        state = self.seal.seal(content, self.binding, int(time.time()), math.ceil(lifetime_s))
        return {"resultType": "input_required", "inputRequests": requests, "requestState": state}

    def _answer(self, question: ClientQuestion) -> JsonObject:
        return checked_object(self.answers[question.key], f"inputResponses.{question.key}")

    def _check_capabilities(self, questions: tuple[ClientQuestion, ...]) -> None:
        for question in questions:
            if not declares(self.capabilities, question.capability):
                raise missing_capability(_nested(question.capability.split(".")))


def open_rounds(seal: Seal, owner: str | None, method: str, params: JsonObject, capabilities: JsonObject) -> Rounds:
    """Return the rounds that a request continues or starts.

    A first round may contain answers. A later round answers the questions of the round before; it cannot change earlier
    answers.
    """
    arguments, meta = params.get("arguments"), params.get("_meta")
    members = meta if isinstance(meta, Mapping) else {}
    task = [members.get(key) for key in (TASK_ID_KEY, PREFIXED_TASK_ID_KEY, RELATED_TASK_KEY)]
    target = [params.get("name"), params.get("uri")]
    binding = binding_of(owner, method, target, arguments if isinstance(arguments, Mapping) else {}, task)
    state, responses = params.get("requestState"), checked_object(params.get("inputResponses", {}), "inputResponses")
    if state is None:
        return Rounds(seal, responses, binding, capabilities)
    try:
        content = seal.open(state if isinstance(state, str) else "", binding, int(time.time()))
    except ForgedState as error:
        raise InvalidParams(f"`requestState` cannot be used: {error}") from error
    earlier_answers, keys = cast("JsonObject", content["answers"]), cast("list[str]", content["asked"])
    new_answers = {key: responses[key] for key in keys if key in responses}
    return Rounds(seal, {**new_answers, **earlier_answers}, binding, capabilities, identity_of(content.get("call")))


def _nested(path: list[str]) -> dict[str, Json]:
    return {path[0]: _nested(path[1:]) if len(path) > 1 else {}}


QUESTION_TTL_S = 3_600


class StoreAsker(Struct):
    """The asker of the 2025 era: sends the question on the call's stream and polls the store for the answer.

    Attributes:
        new_question: Creates an id that cannot be guessed.
        is_awaited: Returns whether the request still waits for the tool.
        limit_s: The time limit for an answer without its own, seconds.
        envelope: The client's capabilities; `None` if they were checked before.
    """

    store: AnswerStore
    owner: str
    send: Callable[[str, str, JsonObject], None]
    new_question: Callable[[], str]
    is_awaited: Callable[[], bool]
    limit_s: float = 300.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    answers: dict[str, JsonObject] = field(default_factory=dict)
    envelope: Envelope | None = None

    def ask(self, questions: tuple[ClientQuestion, ...]) -> list[JsonObject]:
        """Ask all new questions, then wait for every answer."""
        new_questions = {question.key: question for question in questions if question.key not in self.answers}
        if self.envelope is not None:
            refuse_undeclared(self.envelope, questions)
        identifiers: dict[str, str] = {}
        try:
            for key, question in new_questions.items():
                identifiers[key] = self._send(question)
            sent_s = self.clock()
            for key, question in new_questions.items():
                self.answers[key] = self._wait(identifiers[key], question, sent_s)
        except StoreError as error:
            raise ToolError("The client could not be asked: the store is not available.") from error
        finally:
            # Accept no further answers. A question that stays open expires, so a failure of the store is only logged.
            try:
                for identifier in identifiers.values():
                    self.store.close(self.owner, identifier)
            except StoreError:
                logger.warning("a question could not be closed", exc_info=True)
        return [_result_of(self.answers[question.key], question) for question in questions]

    def _send(self, question: ClientQuestion) -> str:
        identifier = self.new_question()
        self.store.ask(self.owner, identifier, max(QUESTION_TTL_S, int(self._limit_s(question)) + 1))
        self.send(identifier, question.method, self._params(question))
        return identifier

    def _params(self, question: ClientQuestion) -> JsonObject:
        """Return the params of the request. In this era each page has its own id (MCP 2025-11-25,
        ElicitRequestURLParams)."""
        if question.capability != URL_ELICITATION:
            return question.params
        return {**question.params, "elicitationId": self.new_question()}

    def _limit_s(self, question: ClientQuestion) -> float:
        return self.limit_s if question.limit_s is None else question.limit_s

    def _wait(self, identifier: str, question: ClientQuestion, sent_s: float) -> JsonObject:
        from random import uniform

        limit_s = self._limit_s(question)
        for pause_s in growing_pauses():
            if not self.is_awaited():
                raise Abandoned
            if self.clock() >= sent_s + limit_s:
                break
            if (answer := self.store.answered(self.owner, identifier)) is not None:
                return answer
            self.sleep(uniform(pause_s / 2, pause_s))
        raise ToolError(f"The client did not answer {question.method} within {limit_s:g} s.", retryable=False)


def _result_of(answer: JsonObject, question: ClientQuestion) -> JsonObject:
    result, error = answer.get("result"), answer.get("error")
    if isinstance(result, Mapping):
        return result
    message = error.get("message") if isinstance(error, Mapping) else None
    raise ToolError(f"The client refused {question.method}: {message or 'it gave no reason'}", retryable=False)
