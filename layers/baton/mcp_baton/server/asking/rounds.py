"""Questions in the 2026 era: nothing waits (MCP 2026-07-28, basic/patterns/mrtr).

What is asked ends the call with an `input_required` result, the client sends the call again with the answers, and the
function runs again from its start; the same question then returns its answer.
"""

import logging
import math
import time
from collections.abc import Mapping
from typing import cast

from msgspec import Struct, field

from mcp_baton.exceptions import ProtocolError
from mcp_baton.protocol.codes import INVALID_PARAMS, MISSING_CLIENT_CAPABILITY
from mcp_baton.protocol.envelope import PREFIXED_TASK_ID_KEY, TASK_ID_KEY
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.protocol.state import LIFETIME_S, ForgedState, Seal, binding_of
from mcp_baton.server.asking.asker import InputRequired, Question, declares
from mcp_baton.server.asking.identity import Identity, identity_of

logger = logging.getLogger(__name__)


class Rounds(Struct):
    """The 2026 era's asker: the answers of the rounds so far, and the seal for the next.

    Attributes:
        answers: What the client has answered, by key.
        binding: What the state is bound to.
        capabilities: What the client has declared.
        earlier: Which call the round before was part of; `None` in a first round.
        identity: Which call this is: goes along to the next round.
    """

    seal: Seal
    answers: Mapping[str, Json]
    binding: str
    capabilities: JsonObject
    earlier: Identity | None = None
    identity: Identity = field(default_factory=Identity)

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
        asked = [question.key for question in questions]
        content: dict[str, Json] = {"answers": self.answers, "asked": asked, "call": self.identity.to_json()}
        lifetime_s = min(LIFETIME_S if question.limit_s is None else question.limit_s for question in questions)
        state = self.seal.seal(content, self.binding, int(time.time()), math.ceil(lifetime_s))
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

    A first round may bring answers along. A later one answers what the round before has asked, and changes no earlier
    answer.

    Raises:
        ProtocolError: its `requestState` is not one that this server gave this caller for this request, or its
            `inputResponses` are no object.
    """
    name, arguments = params.get("name", params.get("uri")), params.get("arguments")
    meta = params.get("_meta")
    task = meta.get(TASK_ID_KEY, meta.get(PREFIXED_TASK_ID_KEY)) if isinstance(meta, Mapping) else None
    binding = binding_of(owner, method, str(name), arguments if isinstance(arguments, Mapping) else {}, task)
    state, responses = params.get("requestState"), params.get("inputResponses", {})
    if not isinstance(responses, Mapping):
        raise ProtocolError(INVALID_PARAMS, "Invalid params: `inputResponses` must be an object")
    if state is None:
        return Rounds(seal, responses, binding, capabilities)
    try:
        content = seal.open(state if isinstance(state, str) else "", binding, int(time.time()))
    except ForgedState as error:
        raise ProtocolError(INVALID_PARAMS, f"Invalid params: `requestState` cannot be used: {error}") from error
    earlier, asked = cast("JsonObject", content["answers"]), cast("list[str]", content["asked"])
    given = {key: responses[key] for key in asked if key in responses}
    return Rounds(seal, {**given, **earlier}, binding, capabilities, identity_of(content.get("call")))


def _nested(path: list[str]) -> dict[str, Json]:
    return {path[0]: _nested(path[1:]) if len(path) > 1 else {}}
