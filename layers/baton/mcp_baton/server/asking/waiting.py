"""Questions in the handshake era: sent on the call's stream, answered through the store.

The call waits for the answer, which another invocation takes.
"""

import time
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct, field

from mcp_baton.exceptions import Abandoned, StoreError, ToolError
from mcp_baton.protocol.envelope import Envelope
from mcp_baton.protocol.json import JsonObject
from mcp_baton.server.asking.asker import URL_ELICITATION, Question, refuse_undeclared
from mcp_baton.server.asking.rounds import logger
from mcp_baton.tasks.answers import AnswerStore, wait_for_answer

QUESTION_TTL_S = 3_600


class StoreAsker(Struct):
    """The handshake era's asker: sends the question on the call's stream, and waits in the store for the answer.

    Attributes:
        send: Sends a JSON-RPC request to the client: id, method, params.
        new_question: Makes an id that cannot be guessed.
        waited_for: Whether the request still waits for the tool.
        limit_s: How long an answer is waited for, seconds, where the question has no limit of its own.
        clock: Seconds, from any moment on.
        envelope: What is known of the client; `None` where it was asked for elsewhere.
    """

    store: AnswerStore
    owner: str
    send: Callable[[str, str, JsonObject], None]
    new_question: Callable[[], str]
    waited_for: Callable[[], bool]
    limit_s: float = 300.0
    clock: Callable[[], float] = time.monotonic
    known: dict[str, JsonObject] = field(default_factory=dict)
    envelope: Envelope | None = None

    def ask(self, questions: tuple[Question, ...]) -> list[JsonObject]:
        """Ask all that has not been asked yet, then wait for every answer.

        Raises:
            ToolError: the client has not declared that it can be asked, the store cannot hold the question, the client
                refuses to answer, or no answer comes in time.
        """
        new = {question.key: question for question in questions if question.key not in self.known}
        if self.envelope is not None:
            refuse_undeclared(self.envelope, questions)
        asked: dict[str, str] = {}
        try:
            for key, question in new.items():
                asked[key] = self._send(question)
            sent_s = self.clock()
            for key, question in new.items():
                self.known[key] = self._wait(asked[key], question, sent_s)
        except StoreError as error:
            raise ToolError("The client could not be asked: the store is not available.") from error
        finally:
            self._close(asked.values())
        return [_accepted(self.known[question.key], question) for question in questions]

    def _send(self, question: Question) -> str:
        identifier = self.new_question()
        self.store.ask(self.owner, identifier, max(QUESTION_TTL_S, int(self._limit_s(question)) + 1))
        self.send(identifier, question.method, self._params(question))
        return identifier

    def _params(self, question: Question) -> JsonObject:
        """As they are sent: in this era a page has an id of its own (MCP 2025-11-25, ElicitRequestURLParams)."""
        if question.capability != URL_ELICITATION:
            return question.params
        return {**question.params, "elicitationId": self.new_question()}

    def _limit_s(self, question: Question) -> float:
        return self.limit_s if question.limit_s is None else question.limit_s

    def _wait(self, identifier: str, question: Question, sent_s: float) -> JsonObject:
        limit_s = self._limit_s(question)

        def check() -> None:
            if not self.waited_for():
                raise Abandoned
            if self.clock() >= sent_s + limit_s:
                raise ToolError(f"Nobody answered {question.method} in {limit_s:g} s.", retryable=False)

        return wait_for_answer(self.store, self.owner, identifier, waiting=check)

    def _close(self, identifiers: Iterable[str]) -> None:
        """Take no answers any more, whether they came or the call has stopped waiting. A question that stays open ends
        by itself, so a store that fails is not asked again."""
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
    raise ToolError(f"The client refused {question.method}: {message or 'it gave no reason'}", retryable=False)
