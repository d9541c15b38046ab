"""`Context`: what a tool can ask of, and say to, the request that it runs in (docs/tools.md)."""

from collections.abc import Mapping, MutableMapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast, overload

from mcp_baton.exceptions import Abandoned
from mcp_baton.protocol.envelope import LOG_LEVELS, Envelope, Era
from mcp_baton.protocol.json import Json, dumps
from mcp_baton.server.asking.asker import Question, TaskBegins, supports
from mcp_baton.server.content import ResourceContent
from mcp_baton.server.running.call import Call

if TYPE_CHECKING:
    from mcp_baton.server.asking.questions import Elicited, Roots, Said, Sampled, Schema


NOT_GIVEN: Final[Any] = object()
"""Stands for an argument that was not given, where `None` is a value."""

DEFAULT_LEVEL: Final = "info"

HANDSHAKE_LOG_LEVEL: Final = "info"
"""The least severe level that is sent where no request names one: in the handshake era a server decides."""


def send_progress(call: Call, progress: float, total: float | None, message: str | None) -> None:
    """Tell the client how far the function has come, if it asked to be told.

    Raises:
        ValueError, TypeError: something of it is not JSON.
    """
    token = call.envelope.progress_token
    if token is None or not progress > call.reported:
        return
    call.reported = progress
    shown = call.progress(progress, total) if call.progress else (progress, total)
    if shown is None:
        return
    params: dict[str, Json] = {"progressToken": token, "progress": shown[0]}
    if shown[1] is not None:
        params["total"] = shown[1]
    if message is not None:
        params["message"] = message
    _send(call, "notifications/progress", params)


def send_log(call: Call, level: str, message: Json, logger: str | None) -> None:
    """Send the client a log message, if it asked for messages of this level.

    Raises:
        ValueError, TypeError: the message is not JSON.
    """
    dumps(message)
    wanted = _wanted_level(call.envelope)
    if wanted is None or LOG_LEVELS.index(level) < LOG_LEVELS.index(wanted):
        return
    params: dict[str, Json] = {"level": level, "data": message}
    if logger is not None:
        params["logger"] = logger
    _send(call, "notifications/message", params)


def _wanted_level(envelope: Envelope) -> str | None:
    """The least severe level to send; `None` for none."""
    return envelope.log_level or (HANDSHAKE_LOG_LEVEL if envelope.era is Era.HANDSHAKE else None)


def _send(call: Call, method: str, params: dict[str, Json]) -> None:
    # Written as JSON here, too, so that the author of the tool gets the error; the request's thread could only give up.
    dumps(params)
    call.emit(method, params)


def level_and_message(positional: Sequence[Json], level: str, message: Json) -> tuple[str, Json]:
    """A log level and a message: `("info", "x")`, `("x", "info")`, `("x",)`, or named.

    Raises:
        TypeError: there are too many arguments, or no message.
        ValueError: there is no such level.
    """
    given = list(positional)
    if (
        message is NOT_GIVEN
        and level is NOT_GIVEN
        and len(given) == 2
        and not _is_level(given[0])
        and _is_level(given[1])
    ):
        given.reverse()
    if level is NOT_GIVEN and (len(given) == 2 or (given and message is not NOT_GIVEN)):
        level = cast("str", given.pop(0))
    if message is NOT_GIVEN and given:
        message = given.pop(0)
    if given or message is NOT_GIVEN:
        raise TypeError("log: give a level and a message, in either order")
    level = DEFAULT_LEVEL if level is NOT_GIVEN else level
    if not _is_level(level):
        raise ValueError(f"log level {level!r}: use one of {', '.join(LOG_LEVELS)}")
    return level, message


def _is_level(value: Json) -> bool:
    return isinstance(value, str) and value in LOG_LEVELS


class Logs:
    """Log messages of one call.

    Args:
        call: The call.
    """

    def __init__(self, call: Call) -> None:
        self._call = call

    def _check(self) -> None:
        """End a function that nobody waits for any more."""
        if self._call.abandoned:
            raise Abandoned

    @overload
    def log(self, level: str, message: Json, /, *, logger: str | None = None) -> None: ...
    @overload
    def log(self, message: Json, /, level: str = "info", *, logger: str | None = None) -> None: ...
    @overload
    def log(self, *positional: Json, level: str = ..., message: Json = ..., logger: str | None = None) -> None: ...
    def log(
        self, *positional: Json, level: str = NOT_GIVEN, message: Json = NOT_GIVEN, logger: str | None = None
    ) -> None:
        """Send the client a log message, if it asked for messages of this level.

        Level and message may stand in either order; of two levels, the first one is meant as the level. Without a level
        it is `info`.

        Args:
            positional: The level and the message, or the message alone.
            level: `debug`, `info`, `notice`, `warning`, `error`, `critical`, `alert` or `emergency`.
            message: Text, or any JSON value.
            logger: The name of what is speaking.

        Raises:
            ValueError, TypeError: an unknown level, or a message that is not JSON.
        """
        self._check()
        level, message = level_and_message(positional, level, message)
        send_log(self._call, level, message, logger)

    def debug(self, message: Json) -> None:
        """`log("debug", …)`."""
        self.log("debug", message)

    def info(self, message: Json) -> None:
        """`log("info", …)`."""
        self.log("info", message)

    def warning(self, message: Json) -> None:
        """`log("warning", …)`."""
        self.log("warning", message)

    def error(self, message: Json) -> None:
        """`log("error", …)`."""
        self.log("error", message)


class Context(Logs):
    """The request that a tool runs in. A parameter annotated with it is filled in, and is not part of the schema.

    In a tool that was abandoned, or whose task was cancelled, the next call raises and ends the tool.
    """

    @property
    def request_id(self) -> str:
        """The id of the invocation, as it stands in the logs."""
        return self._call.request_id

    @property
    def owner(self) -> str | None:
        """The authenticated identity of the caller; `None` for a caller without one."""
        return self._call.owner

    @property
    def attempt(self) -> int:
        """Which call of its step this is within a run, from 1 on (docs/workflows.md, Trying again)."""
        return self._call.attempt

    @property
    def idempotency_key(self) -> str:
        """A text to give to an API that does nothing twice for the same one: 32 hex digits (docs/workflows.md,
        Idempotency keys).

        It is the same for every call of one step of one task with the same arguments: each attempt of its `Retry`, a
        resume, and a continuation that can only mean that step. Any other call has one that no other call has, and
        keeps it when it asks the client and runs again.
        """
        return self._call.key()

    @property
    def claims(self) -> Mapping[str, Any]:
        """The caller's claims, to read: what API Gateway's authorizer vouches for; empty where there is none."""
        return MappingProxyType(dict(self._call.claims))

    @property
    def task(self) -> MutableMapping[str, Json] | None:
        """The variables of the task that this call belongs to, to read and to set; `None` without a task."""
        self._check()
        return self._call.variables

    def remaining_ms(self) -> int | None:
        """Milliseconds until the function is stopped; `None` where nothing stops it."""
        self._check()
        return self._call.remaining_ms()

    def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Tell the client how far the tool has come, if it asked to be told.

        Args:
            progress: Grows with each call; a report that does not is left out, as MCP wants it.
            total: What `progress` will be at the end, where that is known.
            message: What is being done, for a person.

        Raises:
            ValueError, TypeError: something of it is not JSON.
        """
        self._check()
        send_progress(self._call, progress, total, message)

    def start_task(self) -> None:
        """Begin the background: in a tool with `task_start="explicit"`, whose client can have a task, the request is
        answered with the task here, and a worker calls the function again, with the answers that it has had so far
        (docs/background.md). There, and in any other call, it does nothing.
        """
        self._check()
        if self._call.starts_task:
            raise TaskBegins(dict(self._call.answers), self._call.key())

    @overload
    def elicit(
        self,
        message: str,
        schema: "Schema" = None,
        *,
        key: str | None = None,
        response_type: "Schema" = None,
        timeout_s: float | None = None,
    ) -> "Elicited": ...
    @overload
    def elicit(self, key: str, message: str, schema: "Schema", *, timeout_s: float | None = None) -> "Elicited": ...
    def elicit(self, *positional: Any, **named: Any) -> "Elicited":
        """Ask the person at the client to fill in a form: `elicit(message, schema, *, key=None, timeout_s=None)`. In
        the 2026 era, and in the background, the function runs again from its start once there is an answer, and this
        call then returns it.

        Args:
            positional: `message`, what to tell the person; and `schema`, a JSON Schema of flat primitive fields, or a
                type: a model, a dataclass, or a plain one, whose value is the answer's `data`. Without one the form has
                no fields. `key` may stand before them, as it once had to.
            named: The same by their names; `response_type` is another name for `schema`. `key` names the question
                within this call, and stays the same from run to run. Without one it is made of the question's number
                in the call and its text: a call that does not ask in the same order each time names its keys.
                `timeout_s` is how long the answer is waited for (docs/tools.md, Asking the client); in the background
                a task waits until it expires.

        Raises:
            ToolError: the client cannot be asked, or the answer does not fit.
            ValueError: the schema has fields within fields, or the key has asked something else in this call, or
                in this task.
        """
        return self._elicit("elicit", positional, named)

    @overload
    def elicit_url(
        self, message: str, url: str, *, key: str | None = None, timeout_s: float | None = None
    ) -> "Elicited": ...
    @overload
    def elicit_url(self, key: str, message: str, url: str, *, timeout_s: float | None = None) -> "Elicited": ...
    def elicit_url(self, *positional: Any, **named: Any) -> "Elicited":
        """Ask the person at the client to go to a page, for what must not pass through the client:
        `elicit_url(message, url, *, key=None, timeout_s=None)`. As `elicit`."""
        return self._elicit("elicit_url", positional, named)

    def sample(
        self,
        key: str,
        messages: "Said | Sequence[Said]",
        *,
        max_tokens: int = 1_000,
        timeout_s: float | None = None,
        **options: Json,
    ) -> "Sampled":
        """Ask the client's model. As `elicit`.

        Args:
            key: Names the question within this call.
            messages: Text, content, a `Message`, or a list of those.
            max_tokens: As many tokens may the answer have.
            options: Further params of `sampling/createMessage`, e.g. `systemPrompt`, `temperature`.
        """
        from mcp_baton.server.asking.questions import sampling

        answer: Sampled = self.ask(sampling(key, messages, max_tokens=max_tokens, timeout_s=timeout_s, **options))[0]
        return answer

    def list_roots(self, key: str, *, timeout_s: float | None = None) -> "Roots":
        """Ask for the folders that the client lets the server work on. As `elicit`."""
        from mcp_baton.server.asking.questions import roots

        answer: Roots = self.ask(roots(key, timeout_s=timeout_s))[0]
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
        answers = self._call.asker.ask(questions)
        self._call.answers.update({question.key: answer for question, answer in zip(questions, answers, strict=True)})
        return [question.read(answer) for question, answer in zip(questions, answers, strict=True)]

    async def aask(self, *questions: Question) -> list[Any]:
        """As `ask`, without blocking the event loop while the client has not answered."""
        import asyncio

        return await asyncio.to_thread(self.ask, *questions)

    def client_supports(self, capability: str) -> bool:
        """Whether the client can be asked: `elicitation`, `elicitation.url`, `sampling`, `roots`. Yes where that is not
        known: for a client of the handshake era that sends no session id."""
        return supports(self._call.envelope, capability)

    def read_resource(self, uri: str) -> list[ResourceContent]:
        """Read a resource of this server: `ctx.read_resource("docs://refunds")[0].content`. In an `async def`, use
        `aread_resource`.

        Returns:
            A list of one `ResourceContent`, with `content` (text or bytes) and `mime_type`.

        Raises:
            ToolError: there is no such resource. Exceptions of the resource's function are raised as they are.
        """
        self._check()
        return self._call.read(uri, self)

    async def aread_resource(self, uri: str) -> list[ResourceContent]:
        """As `read_resource`, without blocking the event loop."""
        import asyncio

        return await asyncio.to_thread(self.read_resource, uri)

    def _elicit(self, method: str, positional: Sequence[Any], named: Mapping[str, Any]) -> "Elicited":
        from mcp_baton.server.asking.questions import question_of

        answer: Elicited = self.ask(question_of(method, self._call.questions + 1, positional, named))[0]
        return answer

    def _note(self, question: Question) -> None:
        """Count a question, and hold what it asks against what its key has asked before in this call."""
        asks = f"{question.method} {dumps(question.params, sort_keys=True)}"
        if self._call.asked.setdefault(question.key, asks) != asks:
            raise ValueError(
                f"question key {question.key!r}: it has asked something else in this call; give each its own"
            )
        self._call.questions += 1
