"""Questions to the client, and who gets the answers (MCP client/elicitation, client/sampling, client/roots)."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct, field

from mcp_baton.exceptions import ToolError
from mcp_baton.protocol.envelope import Envelope
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.workflow.keys import Key, own_key

URL_ELICITATION = "elicitation.url"


class Question(Struct, frozen=True):
    """A request of the server's to the client.

    Attributes:
        key: Names it within the call.
        capability: The client capability that it needs, as a path: `elicitation`, or `elicitation.url`.
        read: Makes an answer of the client's result; raises `ToolError` for what is none.
        limit_s: How long an answer is waited for, seconds; `None` for the operator's choice.
    """

    key: str
    method: str
    params: JsonObject
    capability: str
    read: Callable[[JsonObject], Any]
    limit_s: float | None = None

    def __post_init__(self) -> None:
        if self.limit_s is not None and not 0 < self.limit_s < math.inf:
            raise ValueError(f"timeout_s must be a number of seconds above 0, and is {self.limit_s!r}")


class InputRequired(BaseException):
    """Ends a call that cannot go on without answers. A `BaseException`, so that no tool swallows it.

    Args:
        result: The `InputRequiredResult` that asks for them.
    """

    def __init__(self, result: JsonObject) -> None:
        super().__init__("the client must answer first")
        self.result = result


class TaskBegins(BaseException):
    """Ends a call in its request where its task begins: a worker makes it again. A `BaseException`, as `InputRequired`.

    Args:
        answers: What the client has answered so far, by key.
        key: The call's idempotency key, which it keeps.
    """

    def __init__(self, answers: JsonObject, key: str) -> None:
        super().__init__("the call goes on in the background")
        self.answers = answers
        self.key = key


class Asker(Protocol):
    """Gets answers from the client."""

    def ask(self, questions: tuple[Question, ...]) -> list[JsonObject]:
        """The answers, in the order of the questions."""


def supports(envelope: Envelope, capability: str) -> bool:
    """Whether the client can be asked for this. Where it is not known, it is worth trying."""
    return not envelope.is_known or declares(envelope.capabilities, capability)


def refuse_undeclared(envelope: Envelope, questions: Sequence[Question]) -> None:
    """Refuse what the client has said that it cannot answer: nobody waits for an answer that cannot come.

    Raises:
        ToolError: it has not declared what one of the questions needs.
    """
    for question in questions:
        if not supports(envelope, question.capability):
            why = f"it has not declared the capability {question.capability!r}"
            raise ToolError(f"The client cannot be asked ({question.method}): {why}.", retryable=False)


class AskedInWorkflow(ToolError):
    """A step wanted to ask the client, which its tool can do where it is called by itself."""


class CannotAsk:
    """The asker of a call whose client cannot be asked: each question fails.

    Args:
        why: What the tool's failure says.
        refusal: The failure's kind.
        envelope: What is known of the client, which comes first where it could not answer anyway.
    """

    def __init__(self, why: str, refusal: type[ToolError] = ToolError, envelope: Envelope | None = None) -> None:
        self._envelope = envelope
        self._why = why
        self._refusal = refusal

    def ask(self, questions: tuple[Question, ...]) -> list[JsonObject]:
        """Refuse."""
        if self._envelope is not None:
            refuse_undeclared(self._envelope, questions)
        raise self._refusal(f"The client must be asked ({questions[0].method}), but {self._why}.", retryable=False)


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


class Identity(Struct, frozen=True):
    """Which call it is.

    Attributes:
        key: Its idempotency key.
        task: The task that it names.
        step: The step of that task whose key it is.
        values: The digest of the values that the placeholders in its arguments stand for; `None` without one.
    """

    key: Key = field(default_factory=own_key)
    task: str | None = None
    step: str | None = None
    values: str | None = None

    def to_json(self) -> dict[str, Json]:
        """As a `requestState` carries it to the next round."""
        carried: dict[str, Json] = {"key": self.key(), "task": self.task, "step": self.step}
        return carried if self.values is None else carried | {"values": self.values}


def identity_of(carried: Json) -> Identity | None:
    """The identity that a `requestState` has carried; `None` for one that carries none."""
    match carried:
        case {"key": str(key), "task": str() | None as task, "step": str() | None as step, **others}:
            values = others.get("values")
            return Identity(lambda: key, task, step, values if isinstance(values, str) else None)
        case _:
            return None


def carried_to(identity: Identity | None, task: str | None) -> Identity | None:
    """An earlier round's identity, where it is that of a call of this task: with another task it is another call."""
    return identity if identity is not None and identity.task == task else None
