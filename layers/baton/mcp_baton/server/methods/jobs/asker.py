"""Questions of a function that runs in the background: they are kept with its task (docs/background.md, Asking).

What is asked ends the attempt; the task waits as `input_required`, and the function runs again from its start when the
client has answered. The same question then returns its answer.
"""

from collections.abc import Mapping
from typing import Final

from mcp_baton.exceptions import ToolError
from mcp_baton.protocol.envelope import Envelope
from mcp_baton.protocol.json import Json, JsonObject, dumps
from mcp_baton.server.asking.asker import InputRequired, Question, refuse_undeclared
from mcp_baton.tasks.work import Job

REFUSED: Final = "mcp-baton/refused"
"""The member of a stored answer that says why the client refused to answer: in the handshake era it may."""


class TaskAsker:
    """The asker of a job.

    Args:
        job: The job, with what it has asked and what the client has answered.
        envelope: What is known of the client.
    """

    def __init__(self, job: Job, envelope: Envelope) -> None:
        self._job = job
        self._envelope = envelope

    def ask(self, questions: tuple[Question, ...]) -> list[JsonObject]:
        """The answers, if the client has given all of them.

        Raises:
            InputRequired: it has not.
            ToolError: it has not declared that it can answer, it has refused to, or an answer is no object.
            ValueError: a key has asked something else in this task.
        """
        for question in questions:
            self._check_key(question)
        missing = [question for question in questions if self._answer(question.key) is None]
        if missing:
            refuse_undeclared(self._envelope, missing)
            asked: dict[str, Json] = {item.key: {"method": item.method, "params": item.params} for item in missing}
            raise InputRequired({"inputRequests": asked})
        return [self._read(question) for question in questions]

    def _check_key(self, question: Question) -> None:
        before = self._job.asked.get(question.key)
        if before is None:
            return
        asks: dict[str, Json] = {"method": question.method, "params": question.params}
        if dumps(before, sort_keys=True) != dumps(asks, sort_keys=True):
            raise ValueError(
                f"question key {question.key!r}: it has asked something else in this task; give each its own"
            )

    def _answer(self, key: str) -> object:
        return self._job.answers.get(key, self._job.work.answers.get(key))

    def _read(self, question: Question) -> JsonObject:
        answer = self._answer(question.key)
        if not isinstance(answer, Mapping):
            raise ToolError(f"The client's answer to {question.key!r} is no object.", retryable=False)
        if REFUSED in answer:
            raise ToolError(f"The client refused {question.method}: {answer[REFUSED]}", retryable=False)
        return answer


def questions_of(required: InputRequired) -> dict[str, JsonObject]:
    """What a function asks that has ended so, by key."""
    asked = required.result["inputRequests"]
    found = asked if isinstance(asked, Mapping) else {}
    return {key: question for key, question in found.items() if isinstance(question, Mapping)}
