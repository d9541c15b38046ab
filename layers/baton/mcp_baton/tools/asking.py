"""Questions of the server to the client (MCP client/elicitation, client/sampling, client/roots)."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct, field

from mcp_baton.exceptions import ToolError
from mcp_baton.protocol.envelope import Envelope
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.keys import Key, own_key

URL_ELICITATION = "elicitation.url"

REFUSED_KEY = "mcp-baton/refused"
"""The member of a stored answer that has the client's reason if the client refused the question (handshake era)."""


class ClientQuestion(Struct, frozen=True):
    """A question of the server to the client.

    Attributes:
        key: Its key within the call.
        capability: The client capability that it needs, as a path: `elicitation`, or `elicitation.url`.
        read: Converts the client's result to an answer; raises `ToolError` if it is invalid.
        limit_s: The time limit for the answer, seconds; `None` for the operator's setting.
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
    """Ends a call that cannot continue without answers, with the `InputRequiredResult`. A `BaseException`, so that no
    tool catches it."""

    def __init__(self, result: JsonObject) -> None:
        super().__init__("the client must answer first")
        self.result = result


class TaskBegins(BaseException):
    """Ends a call in its request because its background task starts. A worker makes the call again, with the answers so
    far and the same idempotency key. A `BaseException`, as `InputRequired`."""

    def __init__(self, answers: JsonObject, key: str) -> None:
        super().__init__("the call goes on in the background")
        self.answers = answers
        self.key = key


class Asker(Protocol):
    """Gets answers from the client."""

    def ask(self, questions: tuple[ClientQuestion, ...]) -> list[JsonObject]:
        """Return the answers, in the order of the questions."""


def supports(envelope: Envelope, capability: str) -> bool:
    """Whether the client can answer questions that need a capability. `True` if that is unknown."""
    return not envelope.is_known or declares(envelope.capabilities, capability)


def refuse_undeclared(envelope: Envelope, questions: Sequence[ClientQuestion]) -> None:
    """Raise `ToolError` for questions that need a capability that the client has not declared."""
    for question in questions:
        if not supports(envelope, question.capability):
            reason = f"it has not declared the capability {question.capability!r}"
            raise ToolError(f"The client cannot be asked ({question.method}): {reason}.", retryable=False)


class AskedInWorkflow(ToolError):
    """A step tried to ask the client. Its tool can ask if the client calls it directly."""


class CannotAsk:
    """The asker of a call whose client cannot be asked: each question fails. A missing capability is reported first."""

    def __init__(self, reason: str, refusal: type[ToolError] = ToolError, envelope: Envelope | None = None) -> None:
        self._envelope = envelope
        self._reason = reason
        self._refusal = refusal

    def ask(self, questions: tuple[ClientQuestion, ...]) -> list[JsonObject]:
        """Raise the refusal."""
        if self._envelope is not None:
            refuse_undeclared(self._envelope, questions)
        raise self._refusal(f"The client must be asked ({questions[0].method}), but {self._reason}.", retryable=False)


def declares(capabilities: JsonObject, path: str) -> bool:
    """Whether capabilities include the one at `path`. Elicitation without a mode includes forms; with only the mode
    `url` it does not (MCP client/elicitation, Capabilities)."""
    value: Json = capabilities
    for name in path.split("."):
        if not isinstance(value, Mapping) or name not in value:
            return False
        value = value[name]
    if not isinstance(value, Mapping):
        return False
    return path != "elicitation" or value.get("form") is not None or value.get("url") is None


class Identity(Struct, frozen=True):
    """The identity of a call over several rounds.

    Attributes:
        key: Its idempotency key.
        task: The task that it names.
        step: The step that has this idempotency key.
        values: The digest of the values of its placeholders.
        by: The name of the attempt that has used an approval.
    """

    key: Key = field(default_factory=own_key)
    task: str | None = None
    step: str | None = None
    values: str | None = None
    by: str | None = None

    def to_json(self) -> dict[str, Json]:
        """Return the form that `requestState` has."""
        members: dict[str, Json] = {"key": self.key(), "task": self.task, "step": self.step}
        optional: dict[str, Json] = {"values": self.values, "by": self.by}
        return members | {name: value for name, value in optional.items() if value is not None}


def identity_of(state: Json) -> Identity | None:
    match state:
        case {"key": str(key), "task": str() | None as task, "step": str() | None as step, **optional}:
            values, by = (value if isinstance(value, str) else None for value in map(optional.get, ("values", "by")))
            return Identity(lambda: key, task, step, values, by)
        case _:
            return None


def identity_for_task(identity: Identity | None, task: str | None) -> Identity | None:
    """Return the identity of an earlier round if it belongs to this task. Otherwise it is another call."""
    return identity if identity is not None and identity.task == task else None
