"""`Context`: what a tool can ask of, and say to, the request that it runs in (contract section 2)."""

from collections.abc import Callable, Generator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mcp_baton.exceptions import Abandoned
from mcp_baton.protocol.envelope import LOG_LEVELS, Envelope, Era
from mcp_baton.protocol.json import Json, dumps
from mcp_baton.server.asking.asker import Asker, Question, supports
from mcp_baton.tasks.variables import TaskVariables

if TYPE_CHECKING:
    from mcp_baton.server.asking.questions import Elicited, Roots, Said, Sampled, Schema

type Emit = Callable[[str, dict[str, Json]], None]
"""Sends a notification: method and params."""


type ProgressMap = Callable[[float, float | None], tuple[float, float | None] | None]
"""How a function's own progress and total become the request's; `None` for what must not be reported."""


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

    def log(self, level: str, message: Json, *, logger: str | None = None) -> Done:
        """Send the client a log message, if it asked for messages of this level.

        Args:
            level: `debug`, `info`, `notice`, `warning`, `error`, `critical`, `alert` or `emergency`.
            message: Text, or any JSON value.
            logger: The name of what is speaking.

        Raises:
            ValueError, TypeError: an unknown level, or a message that is not JSON.
        """
        self._check()
        if level not in LOG_LEVELS:
            raise ValueError(f"log level {level!r}: use one of {', '.join(LOG_LEVELS)}")
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

    def elicit(self, key: str, message: str, schema: "Schema") -> "Elicited":
        """Ask the person at the client to fill in a form.

        In the 2026 era the function runs again from its start once there is an answer, and this very call then returns
        it: what comes before it happens again.

        Args:
            key: Names the question within this call, and stays the same from run to run.
            message: What to tell the person.
            schema: A JSON Schema of flat primitive fields, or a type that pydantic makes one of.

        Raises:
            ToolError: nobody can be asked, or the answer does not fit.
        """
        from mcp_baton.server.asking.questions import elicitation

        answer: Elicited = self.ask(elicitation(key, message, schema))[0]
        return answer

    def elicit_url(self, key: str, message: str, url: str) -> "Elicited":
        """Ask the person at the client to go to a page, for what must not pass through the client. As `elicit`."""
        from mcp_baton.server.asking.questions import url_elicitation

        answer: Elicited = self.ask(url_elicitation(key, message, url))[0]
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
        """
        self._check()
        answers = self._scope.asker.ask(questions)
        return [question.read(answer) for question, answer in zip(questions, answers, strict=True)]

    def client_supports(self, capability: str) -> bool:
        """Whether the client can be asked: `elicitation`, `elicitation.url`, `sampling`, `roots`. In the handshake era
        that cannot be known, and the answer is yes."""
        return supports(self._scope.envelope, capability)

    def _say(self, method: str, params: dict[str, Json]) -> Done:
        # Tried here, where the author of the tool hears of what is not JSON; the request's thread could only give up.
        dumps(params)
        self._scope.emit(method, params)
        return DONE

    def _check(self) -> None:
        if self._scope.abandoned:
            raise Abandoned
