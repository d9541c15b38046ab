"""Asking the client for input while a tool runs (contract section 8; MCP client/elicitation, client/sampling, roots).

In the 2026 era nothing waits: what is asked ends the call with an `input_required` result, the client sends the call
again with the answers, and the function runs again from its start; the same question then returns its answer. In the
handshake era the question goes out on the call's stream and the call waits for the answer, which another invocation
takes: they meet in the store.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from mcp_baton.exceptions import Abandoned, ProtocolError, StoreError, ToolError
from mcp_baton.protocol.codes import INVALID_PARAMS, MISSING_CLIENT_CAPABILITY
from mcp_baton.protocol.envelope import Envelope, Era
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.protocol.state import ForgedState, Seal, binding_of
from mcp_baton.tasks.answers import AnswerStore, wait_for_answer

logger = logging.getLogger(__name__)

QUESTION_TTL_S = 3_600


@dataclass(frozen=True, slots=True)
class Question:
    """A request of the server's to the client.

    Attributes:
        key: Names it within the call.
        capability: The client capability that it needs, as a path: `elicitation`, or `elicitation.url`.
        read: Makes an answer of the client's result; raises `ToolError` for what is none.
    """

    key: str
    method: str
    params: JsonObject
    capability: str
    read: Callable[[JsonObject], Any]


class InputRequired(BaseException):
    """Ends a call that cannot go on without answers. A `BaseException`, so that no tool swallows it.

    Args:
        result: The `InputRequiredResult` that asks for them.
    """

    def __init__(self, result: JsonObject) -> None:
        super().__init__("the client must answer first")
        self.result = result


class Asker(Protocol):
    """Gets answers from the client."""

    def ask(self, questions: tuple[Question, ...]) -> list[JsonObject]:
        """The answers, in the order of the questions."""


def supports(envelope: Envelope, capability: str) -> bool:
    """Whether the client can be asked for this. In the handshake era it cannot be known, so it is worth trying."""
    return envelope.era is Era.HANDSHAKE or declares(envelope.capabilities, capability)


class AskedInWorkflow(ToolError):
    """A step wanted to ask the client, which its tool can do where it is called by itself."""


class Nobody:
    """An asker where nobody can be asked.

    Args:
        why: What the tool's failure says.
        refusal: The failure's kind.
    """

    def __init__(self, why: str, refusal: type[ToolError] = ToolError) -> None:
        self._why = why
        self._refusal = refusal

    def ask(self, questions: tuple[Question, ...]) -> list[JsonObject]:
        """Refuse."""
        raise self._refusal(f"The client must be asked ({questions[0].method}), but {self._why}.")


@dataclass(slots=True)
class Rounds:
    """The 2026 era's asker: the answers of the rounds so far, and the seal for the next.

    Attributes:
        answers: What the client has answered, by key.
        binding: What the state is bound to.
        capabilities: What the client has declared.
    """

    seal: Seal
    answers: Mapping[str, Json]
    binding: str
    capabilities: JsonObject

    def ask(self, questions: tuple[Question, ...]) -> list[JsonObject]:
        """The answers, if the client has given all of them.

        Raises:
            InputRequired: it has not.
            ProtocolError: it cannot, for want of a capability, or an answer is no object.
        """
        missing = tuple(question for question in questions if question.key not in self.answers)
        if missing:
            self._check_capabilities(missing)
            raise InputRequired(self._asking(missing))
        return [self._answer(question) for question in questions]

    def _asking(self, questions: tuple[Question, ...]) -> JsonObject:
        requests: dict[str, Json] = {
            question.key: {"method": question.method, "params": question.params} for question in questions
        }
        state = self.seal.seal(self.answers, self.binding, int(time.time()))
        return {"resultType": "input_required", "inputRequests": requests, "requestState": state}

    def _answer(self, question: Question) -> JsonObject:
        answer = self.answers[question.key]
        if not isinstance(answer, Mapping):
            raise ProtocolError(INVALID_PARAMS, f"Invalid params: `inputResponses.{question.key}` must be an object")
        return answer

    def _check_capabilities(self, questions: tuple[Question, ...]) -> None:
        for question in questions:
            if not declares(self.capabilities, question.capability):
                required = _nested(question.capability.split("."))
                data: Json = {"requiredCapabilities": required}
                raise ProtocolError(MISSING_CLIENT_CAPABILITY, "Missing required client capability", data)


def open_rounds(seal: Seal, owner: str | None, method: str, params: JsonObject, capabilities: JsonObject) -> Rounds:
    """The rounds that a request continues, or begins.

    Raises:
        ProtocolError: its `requestState` is not one that this server gave this caller for this request, or its
            `inputResponses` are no object.
    """
    name, arguments = params.get("name", params.get("uri")), params.get("arguments")
    binding = binding_of(owner, method, str(name), arguments if isinstance(arguments, Mapping) else {})
    state, responses = params.get("requestState"), params.get("inputResponses", {})
    if not isinstance(responses, Mapping):
        raise ProtocolError(INVALID_PARAMS, "Invalid params: `inputResponses` must be an object")
    earlier: Mapping[str, Json] = {}
    if state is not None:
        try:
            earlier = seal.open(state if isinstance(state, str) else "", binding, int(time.time()))
        except ForgedState as error:
            raise ProtocolError(INVALID_PARAMS, f"Invalid params: `requestState` cannot be used: {error}") from error
    return Rounds(seal, {**earlier, **responses}, binding, capabilities)


@dataclass(slots=True)
class Meeting:
    """The handshake era's asker: sends the question on the call's stream, and waits in the store for the answer.

    Attributes:
        send: Sends a JSON-RPC request to the client: id, method, params.
        new_question: Makes an id that cannot be guessed.
        waited_for: Whether somebody still waits for the tool.
        limit_s: How long an answer is waited for, seconds.
        clock: Seconds, from any moment on.
    """

    store: AnswerStore
    owner: str
    send: Callable[[str, str, JsonObject], None]
    new_question: Callable[[], str]
    waited_for: Callable[[], bool]
    limit_s: float = 300.0
    clock: Callable[[], float] = time.monotonic
    known: dict[str, JsonObject] = field(default_factory=dict)

    def ask(self, questions: tuple[Question, ...]) -> list[JsonObject]:
        """Ask all that has not been asked yet, then wait for every answer.

        Raises:
            ToolError: the store cannot hold the question, the client refuses to answer, or nobody answers in time.
        """
        new = {question.key: question for question in questions if question.key not in self.known}
        asked: dict[str, str] = {}
        try:
            for key, question in new.items():
                asked[key] = self._send(question)
            until_s = self.clock() + self.limit_s
            for key, question in new.items():
                self.known[key] = self._wait(asked[key], question, until_s)
        except StoreError as error:
            raise ToolError("The client could not be asked: the store is not available.") from error
        finally:
            self._close(asked.values())
        return [_accepted(self.known[question.key], question) for question in questions]

    def _send(self, question: Question) -> str:
        identifier = self.new_question()
        self.store.ask(self.owner, identifier, max(QUESTION_TTL_S, int(self.limit_s) + 1))
        self.send(identifier, question.method, question.params)
        return identifier

    def _wait(self, identifier: str, question: Question, until_s: float) -> JsonObject:
        def check() -> None:
            if not self.waited_for():
                raise Abandoned
            if self.clock() >= until_s:
                raise ToolError(f"Nobody answered {question.method} in {self.limit_s:g} s.")

        return wait_for_answer(self.store, self.owner, identifier, waiting=check)

    def _close(self, identifiers: Iterable[str]) -> None:
        """Take no answers any more, whether they came or nobody waits. A question that stays open ends by itself, so a
        store that fails is not asked again."""
        try:
            for identifier in identifiers:
                self.store.close(self.owner, identifier)
        except StoreError:
            logger.warning("a question could not be closed", exc_info=True)


def _accepted(answer: JsonObject, question: Question) -> JsonObject:
    result, error = answer.get("result"), answer.get("error")
    if isinstance(result, Mapping):
        return result
    message = error.get("message") if isinstance(error, Mapping) else None
    raise ToolError(f"The client refused {question.method}: {message or 'it gave no reason'}")


def declares(capabilities: JsonObject, path: str) -> bool:
    """Whether capabilities declare one. Elicitation that names no mode means forms, and one that names only another
    mode does not (MCP client/elicitation, Capabilities)."""
    here: Json = capabilities
    for part in path.split("."):
        if not isinstance(here, Mapping) or part not in here:
            return False
        here = here[part]
    if not isinstance(here, Mapping):
        return False
    return path != "elicitation" or "form" in here or "url" not in here


def _nested(path: list[str]) -> dict[str, Json]:
    return {path[0]: _nested(path[1:]) if len(path) > 1 else {}}
