"""`Context`: the request of a running function (docs/tools.md)."""

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
"""Stands for an argument that was not given."""

DEFAULT_LEVEL: Final = "info"

HANDSHAKE_LOG_LEVEL: Final = "info"
"""The least severe level that is sent in the handshake era, where the server decides."""


def send_progress(call: Call, progress: float, total: float | None, message: str | None) -> None:
    """Send the client the progress of a function, if the client asked for it.

    Raises:
        ValueError, TypeError: a value is not JSON.
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
    """The least severe level to send; `None` to send nothing."""
    return envelope.log_level or (HANDSHAKE_LOG_LEVEL if envelope.era is Era.HANDSHAKE else None)


def _send(call: Call, method: str, params: dict[str, Json]) -> None:
    # Also converted to JSON here, so that the tool gets the error; the request's thread could not report it.
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


class Context:
    """The request of a tool. The server fills a parameter with this annotation; it is not part of the schema.

    In a tool that was abandoned, or whose task was cancelled, the next call raises and ends the tool.
    """

    def __init__(self, call: Call) -> None:
        self._call = call

    def _check(self) -> None:
        """End an abandoned function."""
        if self._call.abandoned:
            raise Abandoned

    @property
    def request_id(self) -> str:
        """The id of the invocation, as in the logs."""
        return self._call.request_id

    @property
    def owner(self) -> str | None:
        """The authenticated identity of the caller; `None` for a caller without one."""
        return self._call.owner

    @property
    def attempt(self) -> int:
        """The number of this call of its step within a run, from 1 (docs/workflows.md)."""
        return self._call.attempt

    @property
    def idempotency_key(self) -> str:
        """An idempotency key for APIs: 32 hex digits (docs/workflows.md, Idempotency keys).

        It is the same for every call of one step of one task with the same arguments: each attempt of its `Retry`, a
        resume, and a continuation that matches only that step. Any other call has its own key, which it keeps when it
        asks the client and runs again.
        """
        return self._call.key()

    @property
    def claims(self) -> Mapping[str, Any]:
        """The caller's claims from the authorizer of API Gateway; empty without one."""
        return MappingProxyType(dict(self._call.claims))

    @property
    def task(self) -> MutableMapping[str, Json] | None:
        """The variables of the call's task, to read and to set; `None` without a task."""
        self._check()
        return self._call.variables

    def remaining_ms(self) -> int | None:
        """Milliseconds until the function is stopped; `None` without a time limit."""
        self._check()
        return self._call.remaining_ms()

    def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Send the client the tool's progress, if the client asked for it.

        Args:
            progress: Must grow with each call. Otherwise the report is not sent (MCP).
            total: The value of `progress` at the end, if known.
            message: A text for a person.

        Raises:
            ValueError, TypeError: a value is not JSON.
        """
        self._check()
        send_progress(self._call, progress, total, message)

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

        Level and message may be in either order. If both are names of levels, the first one is the level. The default
        level is `info`.

        Args:
            positional: The level and the message, or the message alone.
            level: `debug`, `info`, `notice`, `warning`, `error`, `critical`, `alert` or `emergency`.
            message: Text, or any JSON value.
            logger: The name of the sender.

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

    def start_task(self) -> None:
        """Start the background task of a tool with `task_start="explicit"`, if the client supports tasks.

        The request is answered with the task here. A worker calls the function again, with the answers so far
        (docs/background.md). In the worker, and in any other call, this does nothing.
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
        """Ask the client's user to fill a form: `elicit(message, schema, *, key=None, timeout_s=None)`.

        In the 2026 era, and in the background, the function runs again from its start when there is an answer. This
        call then returns the answer.

        Args:
            positional: `message`, the text for the user; and `schema`, a JSON Schema with flat primitive fields, or a
                type (a model, a dataclass or a plain type) for the answer's `data`. Without it the form has no fields.
                `key` may be before them, as in 0.1.
            named: The same by name; `response_type` is another name for `schema`. `key` identifies the question within
                this call and must be the same in each run. By default it is made of the question's number in the call
                and its text: give keys if the order of the questions can change. `timeout_s` is the time limit for the
                answer (docs/tools.md, Asking the client); in the background a task waits until it expires.

        Raises:
            ToolError: the client cannot be asked, or the answer does not match the form.
            ValueError: the schema has nested fields, or another question of this call or task has the same key.
        """
        return self._elicit("elicit", positional, named)

    @overload
    def elicit_url(
        self, message: str, url: str, *, key: str | None = None, timeout_s: float | None = None
    ) -> "Elicited": ...
    @overload
    def elicit_url(self, key: str, message: str, url: str, *, timeout_s: float | None = None) -> "Elicited": ...
    def elicit_url(self, *positional: Any, **named: Any) -> "Elicited":
        """Ask the client's user to open a page, for data that must not pass through the client:
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
            key: Identifies the question within this call.
            messages: Text, content, a `Message`, or a list of those.
            max_tokens: The most tokens of the answer.
            options: Further params of `sampling/createMessage`, e.g. `systemPrompt`, `temperature`.
        """
        from mcp_baton.server.asking.questions import sampling

        answer: Sampled = self.ask(sampling(key, messages, max_tokens=max_tokens, timeout_s=timeout_s, **options))[0]
        return answer

    def list_roots(self, key: str, *, timeout_s: float | None = None) -> "Roots":
        """Ask for the folders and files that the client offers to the server. As `elicit`."""
        from mcp_baton.server.asking.questions import roots

        answer: Roots = self.ask(roots(key, timeout_s=timeout_s))[0]
        return answer

    def ask(self, *questions: Question) -> list[Any]:
        """Ask several questions in one round: `ctx.ask(elicitation(...), sampling(...), roots(...))`.

        Returns:
            The answers, in the order of the questions: `Elicited`, `Sampled`, `Roots`.

        Raises:
            ValueError: two different questions of this call have the same key.
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
        """Whether the client can answer: `elicitation`, `elicitation.url`, `sampling` or `roots`. True if that is not
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
        """Count a question, and refuse it if another question of this call has its key."""
        asks = f"{question.method} {dumps(question.params, sort_keys=True)}"
        if self._call.asked.setdefault(question.key, asks) != asks:
            raise ValueError(
                f"question key {question.key!r}: another question of this call has this key; give each its own"
            )
        self._call.questions += 1
