"""`Context`: what a tool can ask of, and say to, the request that it runs in (docs/tools.md)."""

from collections.abc import Callable, Generator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, overload

from mcp_baton.exceptions import Abandoned
from mcp_baton.protocol.envelope import LOG_LEVELS, Envelope, Era
from mcp_baton.protocol.json import Json, dumps
from mcp_baton.server.asking.asker import Asker, Question, supports
from mcp_baton.server.said import UNSAID, asked, level_and_message
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.workflow.keys import Key, own_key

if TYPE_CHECKING:
    from mcp_baton.server.asking.forms import Schema
    from mcp_baton.server.asking.questions import Elicited, Roots, Said, Sampled
    from mcp_baton.server.published.resource import Resource
    from mcp_baton.server.running.reading import Contents

type Emit = Callable[[str, dict[str, Json]], None]
"""Sends a notification: method and params."""


type ProgressMap = Callable[[float, float | None], tuple[float, float | None] | None]
"""How a function's own progress and total become the request's; `None` for what must not be reported."""


type Find = Callable[[str], tuple[Resource, dict[str, str]] | None]
"""The resource at a URI, and its function's arguments; `None` where there is none."""


def nothing_at(_uri: str) -> None:
    """Finds no resource."""


class Done:
    """What a plain call returns: nothing, though it may be awaited, so that tools can be written either way."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


DONE = Done()

HANDSHAKE_LOG_LEVEL = "info"


@dataclass(slots=True)
class Scope:
    """One call of a tool: what its `Context` stands on.

    Attributes:
        emit: Sends a notification to the client while the tool runs.
        progress: How a tool's own progress becomes the request's; `None` where nobody wants progress.
        asker: Gets answers from the client.
        abandoned: Nobody waits for the tool any more.
        attempt: Which call of a workflow's step this is, from 1 on.
        key: The call's idempotency key.
        find: Finds the server's resources.
        asked: What each key has asked in this call.
        questions: How many questions it has asked.
        claims: What the authorizer found out about the caller.
    """

    request_id: str
    owner: str | None
    envelope: Envelope
    remaining_ms: Callable[[], int | None]
    emit: Emit
    asker: Asker
    variables: TaskVariables | None = None
    progress: ProgressMap | None = None
    abandoned: bool = False
    attempt: int = 1
    key: Key = field(default_factory=own_key)
    find: Find = nothing_at
    asked: dict[str, str] = field(default_factory=dict)
    questions: int = 0
    reported: float = field(default=float("-inf"))
    claims: Mapping[str, Any] = field(default_factory=dict)


def _wanted_level(envelope: Envelope) -> str | None:
    """The least severe level to send. In the handshake era no request names one: then a server decides, says MCP."""
    return envelope.log_level or (HANDSHAKE_LOG_LEVEL if envelope.era is Era.HANDSHAKE else None)


class Context:
    """The request that a tool runs in. A parameter annotated with it is filled in, and is not part of the schema.

    Its calls are plain ones in `def` and `async def` alike; awaiting them is allowed. In a tool that was abandoned, or
    whose task was cancelled, the next call raises and so ends it.
    """

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    @property
    def request_id(self) -> str:
        """The id of the invocation, as it stands in the logs."""
        return self._scope.request_id

    @property
    def owner(self) -> str | None:
        """The authenticated identity of the caller; `None` for a caller without one."""
        return self._scope.owner

    @property
    def attempt(self) -> int:
        """Which call of its step this is within a run, from 1 on (docs/workflows.md, Trying again)."""
        return self._scope.attempt

    @property
    def idempotency_key(self) -> str:
        """A text to give to an API that does nothing twice for the same one: 32 hex digits (docs/workflows.md,
        Idempotency keys).

        It is the same for every call of one step of one task with the same arguments: each attempt of its `Retry`, a
        resume, and a continuation that can only mean that step. Any other call has one that no other call has, and
        keeps it when it asks the client and runs again.
        """
        return self._scope.key()

    @property
    def claims(self) -> Mapping[str, Any]:
        """The caller's claims, to read: what API Gateway's authorizer vouches for; empty where there is none."""
        return MappingProxyType(dict(self._scope.claims))

    @property
    def task(self) -> MutableMapping[str, Json] | None:
        """The variables of the task that this call belongs to, to read and to set; `None` without a task."""
        self._check()
        return self._scope.variables

    def remaining_ms(self) -> int | None:
        """Milliseconds until the function is stopped; `None` where nothing stops it."""
        self._check()
        return self._scope.remaining_ms()

    def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> Done:
        """Tell the client how far the tool has come, if it asked to be told.

        Args:
            progress: Grows with each call; a report that does not is left out, as MCP wants it.
            total: What `progress` will be at the end, where that is known.
            message: What is being done, for a person.

        Raises:
            ValueError, TypeError: something of it is not JSON.
        """
        self._check()
        scope = self._scope
        token = scope.envelope.progress_token
        if token is None or not progress > scope.reported:
            return DONE
        scope.reported = progress
        shown = scope.progress(progress, total) if scope.progress else (progress, total)
        if shown is None:
            return DONE
        params: dict[str, Json] = {"progressToken": token, "progress": shown[0]}
        if shown[1] is not None:
            params["total"] = shown[1]
        if message is not None:
            params["message"] = message
        return self._say("notifications/progress", params)

    @overload
    def log(self, level: str, message: Json, /, *, logger: str | None = None) -> Done: ...
    @overload
    def log(self, message: Json, /, level: str = "info", *, logger: str | None = None) -> Done: ...
    @overload
    def log(self, *said: Json, level: str = ..., message: Json = ..., logger: str | None = None) -> Done: ...
    def log(self, *said: Json, level: str = UNSAID, message: Json = UNSAID, logger: str | None = None) -> Done:
        """Send the client a log message, if it asked for messages of this level.

        Level and message may stand in either order; of two levels, the first one is meant as the level. Without a level
        it is `info`.

        Args:
            said: The level and the message, or the message alone.
            level: `debug`, `info`, `notice`, `warning`, `error`, `critical`, `alert` or `emergency`.
            message: Text, or any JSON value.
            logger: The name of what is speaking.

        Raises:
            ValueError, TypeError: an unknown level, or a message that is not JSON.
        """
        self._check()
        level, message = level_and_message(said, level, message)
        dumps(message)
        wanted = _wanted_level(self._scope.envelope)
        if wanted is None or LOG_LEVELS.index(level) < LOG_LEVELS.index(wanted):
            return DONE
        params: dict[str, Json] = {"level": level, "data": message}
        if logger is not None:
            params["logger"] = logger
        return self._say("notifications/message", params)

    def debug(self, message: Json) -> Done:
        """`log("debug", …)`."""
        return self.log("debug", message)

    def info(self, message: Json) -> Done:
        """`log("info", …)`."""
        return self.log("info", message)

    def warning(self, message: Json) -> Done:
        """`log("warning", …)`."""
        return self.log("warning", message)

    def error(self, message: Json) -> Done:
        """`log("error", …)`."""
        return self.log("error", message)

    @overload
    def elicit(
        self, message: str, schema: "Schema" = None, *, key: str | None = None, response_type: "Schema" = None
    ) -> "Elicited": ...
    @overload
    def elicit(self, key: str, message: str, schema: "Schema") -> "Elicited": ...
    def elicit(self, *said: Any, **named: Any) -> "Elicited":
        """Ask the person at the client to fill in a form: `elicit(message, schema, *, key=None)`.

        In the 2026 era the function runs again from its start once there is an answer, and this very call then returns
        it: what comes before it happens again.

        Args:
            said: `message`, what to tell the person; and `schema`, a JSON Schema of flat primitive fields, or a type: a
                model, a dataclass, or a plain one, whose value is the answer's `data`. Without one the form has no
                fields. `key` may stand before them, as it once had to.
            named: The same by their names; `response_type` is another name for `schema`. `key` names the question
                within this call, and stays the same from run to run. Without one it is made of the question's number
                in the call and its text: a call that does not ask in the same order each time names its keys.

        Raises:
            ToolError: nobody can be asked, or the answer does not fit.
            ValueError: the schema has fields within fields, or the key has asked something else in this call.
        """
        from mcp_baton.server.asking.questions import elicitation

        given = asked("elicit", ("message", "schema"), said, named)
        key = self._key(given.get("key"), given["message"])
        answer: Elicited = self.ask(elicitation(key, given["message"], given["schema"]))[0]
        return answer

    @overload
    def elicit_url(self, message: str, url: str, *, key: str | None = None) -> "Elicited": ...
    @overload
    def elicit_url(self, key: str, message: str, url: str) -> "Elicited": ...
    def elicit_url(self, *said: Any, **named: Any) -> "Elicited":
        """Ask the person at the client to go to a page, for what must not pass through the client:
        `elicit_url(message, url, *, key=None)`. As `elicit`."""
        from mcp_baton.server.asking.questions import url_elicitation

        given = asked("elicit_url", ("message", "url"), said, named)
        key = self._key(given.get("key"), given["message"])
        answer: Elicited = self.ask(url_elicitation(key, given["message"], given["url"]))[0]
        return answer

    def sample(
        self, key: str, messages: "Said | Sequence[Said]", *, max_tokens: int = 1_000, **options: Json
    ) -> "Sampled":
        """Ask the client's model. As `elicit`.

        Args:
            key: Names the question within this call.
            messages: Text, content, a `Message`, or a list of those.
            max_tokens: As many tokens may the answer have.
            options: Further params of `sampling/createMessage`, e.g. `systemPrompt`, `temperature`.
        """
        from mcp_baton.server.asking.questions import sampling

        answer: Sampled = self.ask(sampling(key, messages, max_tokens=max_tokens, **options))[0]
        return answer

    def list_roots(self, key: str) -> "Roots":
        """Ask for the folders that the client lets the server work on. As `elicit`."""
        from mcp_baton.server.asking.questions import roots

        answer: Roots = self.ask(roots(key))[0]
        return answer

    def ask(self, *questions: Question) -> list[Any]:
        """Ask several things in one round: `ctx.ask(elicitation(...), sampling(...), roots(...))`.

        Returns:
            The answers, in the order of the questions: `Elicited`, `Sampled`, `Roots`.

        Raises:
            ValueError: a key has asked something else in this call.
        """
        self._check()
        for question in questions:
            self._note(question)
        answers = self._scope.asker.ask(questions)
        return [question.read(answer) for question, answer in zip(questions, answers, strict=True)]

    def client_supports(self, capability: str) -> bool:
        """Whether the client can be asked: `elicitation`, `elicitation.url`, `sampling`, `roots`. In the handshake era
        that cannot be known, and the answer is yes."""
        return supports(self._scope.envelope, capability)

    def read_resource(self, uri: str) -> "Contents":
        """Read a resource of this server, in the tool's own time: `ctx.read_resource("docs://refunds")[0].content`.

        In an `async def`, await it: a resource whose function is `async def`, too, is not read before.

        Returns:
            A list of one `ResourceContent`, with `content` (text or bytes) and `mime_type`.

        Raises:
            ToolError: there is no such resource. Whatever else its function raises is raised here.
        """
        from mcp_baton.server.running.reading import read_within

        self._check()
        return read_within(self._scope.find, uri, self)

    def _key(self, given: str | None, text: str) -> str:
        from mcp_baton.server.asking.questions import key_of

        return key_of(self._scope.questions + 1, text) if given is None else given

    def _note(self, question: Question) -> None:
        """Count a question, and hold what it asks against what its key has asked before in this call."""
        asks = f"{question.method} {dumps(question.params, sort_keys=True)}"
        if self._scope.asked.setdefault(question.key, asks) != asks:
            raise ValueError(
                f"question key {question.key!r}: it has asked something else in this call; give each its own"
            )
        self._scope.questions += 1

    def _say(self, method: str, params: dict[str, Json]) -> Done:
        # Tried here, where the author of the tool hears of what is not JSON; the request's thread could only give up.
        dumps(params)
        self._scope.emit(method, params)
        return DONE

    def _check(self) -> None:
        if self._scope.abandoned:
            raise Abandoned
