"""`Context`: the request of a running function (docs/tools.md)."""

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast, overload

from msgspec import Struct, field

from mcp_baton.exceptions import Abandoned, ToolError
from mcp_baton.protocol.envelope import LOG_LEVELS, Era
from mcp_baton.protocol.json import Json, JsonObject, dumps, json_size
from mcp_baton.tasks.keys import Key
from mcp_baton.tools.asking import Asker, ClientQuestion, TaskBegins, supports
from mcp_baton.tools.content import ResourceContent
from mcp_baton.tools.schema.dependency import CallContext
from mcp_baton.tools.secrets import NO_SECRETS, Secrets

if TYPE_CHECKING:
    from mcp_baton.tools.calls import ToolCall
    from mcp_baton.tools.questions import Elicited, Roots, Sampled, SamplingContent, Schema
    from mcp_baton.tools.running.caller import Caller

MAX_QUESTION_BYTES: Final = 2_000_000
"""The most bytes of questions that are asked at once. They have to fit into an answer and into a task."""

DEFAULT_LEVEL: Final = "info"
"""The level of `log`, and the least severe level that is sent in the handshake era, where the server decides."""


class CallState(Struct):
    """The state of one call of an author's function, which its `Context` uses.

    Attributes:
        caller: The request or the background job that calls the function.
        emit: Sends a notification to the client while the function runs.
        read: Reads a resource for the function, with its `Context`.
        abandoned: Whether the request no longer waits for the function.
        question_texts: The questions of this call as JSON, by key.
        questions: The number of questions so far.
        waits_for: The name of the factory whose dependency is being created before the function starts.
        secrets: The addresses that were made in this call.
    """

    caller: "Caller"
    tool_call: "ToolCall"
    key: Key
    emit: Callable[[str, dict[str, Json]], None]
    asker: Asker
    read: Callable[[str, object], list[ResourceContent]]
    abandoned: bool = False
    question_texts: dict[str, str] = field(default_factory=dict)
    questions: int = 0
    answers: dict[str, JsonObject] = field(default_factory=dict)
    reported: float = float("-inf")
    waits_for: str | None = None
    secrets: Secrets = NO_SECRETS


class Context(CallContext):
    """The request of a tool. The server fills a parameter with this annotation; it is not part of the schema.

    In a tool that was abandoned, or whose task was cancelled, the next call raises and ends the tool.
    """

    def __init__(self, call: CallState) -> None:
        self._call = call

    def _check(self) -> None:
        """End an abandoned function."""
        if self._call.abandoned:
            raise Abandoned

    def _send(self, method: str, params: dict[str, Json]) -> None:
        # Convert it to JSON here, too, so that the tool gets the error: the request's thread could not report it.
        dumps(params)
        self._call.emit(method, cast("dict[str, Json]", self._call.secrets.hide(params)))

    @property
    def request_id(self) -> str:
        """The id of the invocation, as in the logs."""
        return self._call.caller.exchange.request_id

    @property
    def owner(self) -> str | None:
        """The authenticated identity of the caller; `None` for a caller without one."""
        return self._call.caller.owner

    @property
    def attempt(self) -> int:
        """The number of this call of its step within a run, from 1 (docs/workflows.md)."""
        return self._call.tool_call.number

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
        return MappingProxyType(dict(self._call.caller.claims))

    @property
    def task(self) -> MutableMapping[str, Json] | None:
        """The variables of the call's task, to read and to set; `None` without a task."""
        self._check()
        return self._call.tool_call.variables

    def remaining_ms(self) -> int | None:
        """Milliseconds until the function is stopped; `None` without a time limit."""
        self._check()
        return self._call.caller.exchange.remaining_ms()

    def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Send the client the tool's progress, if the client asked for it.

        Args:
            progress: Must grow with each call. Otherwise the report is not sent (MCP).
            total: The value of `progress` at the end, if known.
            message: A text for a person.

        Raises:
            TypeError: `progress` or `total` is not a finite number, or the message is not a text.
        """
        self._check()
        # Also without a token, so that a test finds what would fail with one.
        for number in (progress, 0 if total is None else total):
            if isinstance(number, bool) or not isinstance(number, int | float) or not -inf < number < inf:
                raise TypeError(f"report_progress: {number!r} is not a finite number; give an int or a float")
        if message is not None and not isinstance(message, str):
            raise TypeError(f"report_progress: message must be a str, and is {type(message).__name__}")
        call, token = self._call, self._call.caller.envelope.progress_token
        if token is None or not progress > call.reported:
            return
        call.reported = progress
        progress_map = call.tool_call.progress
        mapped = progress_map(progress, total) if progress_map else (progress, total)
        if mapped is None:
            return
        params: dict[str, Json] = {"progressToken": token, "progress": mapped[0]}
        if mapped[1] is not None:
            params["total"] = mapped[1]
        self._send("notifications/progress", params | ({} if message is None else {"message": message}))

    def log(self, message: Json, level: Json = None, *, logger: str | None = None) -> None:
        """Send the client a log message, if it asked for messages of this level.

        `log(level, message)` works as well. If both are names of levels, the first one is the level.

        Args:
            message: Text, or any JSON value.
            level: `debug`, `info` (the default), `notice`, `warning`, `error`, `critical`, `alert` or `emergency`.
            logger: The name of the sender.

        Raises:
            ValueError, TypeError: an unknown level, or a message that is not JSON.
        """
        self._check()
        if level is not None and message in LOG_LEVELS:
            message, level = level, message
        level = DEFAULT_LEVEL if level is None else level
        if not isinstance(level, str) or level not in LOG_LEVELS:
            raise ValueError(f"log({message!r}, {level!r}): give a level: {', '.join(LOG_LEVELS)}")
        envelope = self._call.caller.envelope
        minimum = envelope.log_level or (DEFAULT_LEVEL if envelope.era is Era.HANDSHAKE else None)
        params: dict[str, Json] = {"level": level, "data": message}
        if minimum is None or LOG_LEVELS.index(level) < LOG_LEVELS.index(minimum):
            dumps(message)  # the tool gets the same error if the client does not want the message
        else:
            self._send("notifications/message", params | ({} if logger is None else {"logger": logger}))

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

    def callback_url(self, step: str) -> str:
        """Make a new address for a waiting step of this task: a URL that takes one `POST` with a JSON body, which
        becomes the step's result (docs/waiting.md).

        The address is a credential. It is hidden in the tool's result, progress and log messages, and it is not stored.
        A later step calls this again.

        Args:
            step: The name of a step with `callback=…`, of the same workflow.

        Raises:
            ToolError: the call is not one of a stored task.
            BatonError: the workflow has no such step, or the API's address is not known. The text is in the log.
            StoreError: the address could not be stored.
        """
        self._check()
        call = self._call
        url = call.caller.services.features.callback_url(call.caller, call.tool_call, step)
        call.secrets = call.secrets.including(url.rpartition("/")[2], f"callback of {step}")
        return url

    def start_task(self) -> None:
        """Start the background task of a tool with `task_start="explicit"`, if the client supports tasks.

        The request is answered with the task here. A worker calls the function again, with the answers so far
        (docs/background.md). In the worker, and in any other call, this does nothing.
        """
        self._check()
        if self._call.tool_call.starts_task:
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
        messages: "SamplingContent | Sequence[SamplingContent]",
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
        from mcp_baton.tools.questions import sampling

        answer: Sampled = self.ask(sampling(key, messages, max_tokens=max_tokens, timeout_s=timeout_s, **options))[0]
        return answer

    def list_roots(self, key: str, *, timeout_s: float | None = None) -> "Roots":
        """Ask for the folders and files that the client offers to the server. As `elicit`."""
        from mcp_baton.tools.questions import roots

        answer: Roots = self.ask(roots(key, timeout_s=timeout_s))[0]
        return answer

    def ask(self, *questions: ClientQuestion) -> list[Any]:
        """Ask several questions in one round: `ctx.ask(elicitation(...), sampling(...), roots(...))`.

        Returns:
            The answers, in the order of the questions: `Elicited`, `Sampled`, `Roots`.

        Raises:
            ValueError: two different questions of this call have the same key.
            ToolError: the client cannot be asked, such as because the questions have more than 2 MB.
        """
        self._check()
        question_bytes = sum(json_size(question.params) for question in questions)
        if question_bytes > MAX_QUESTION_BYTES:
            limit = f"the questions have {question_bytes} bytes, of at most {MAX_QUESTION_BYTES}; ask fewer at once"
            raise ToolError(f"The client cannot be asked: {limit}.", retryable=False)
        for question in questions:
            text = f"{question.method} {dumps(question.params, sort_keys=True)}"
            if self._call.question_texts.setdefault(question.key, text) != text:
                raise ValueError(
                    f"question key {question.key!r}: another question of this call has this key; give each its own"
                )
            self._call.questions += 1
        answers = self._call.asker.ask(questions)
        self._call.answers.update({question.key: answer for question, answer in zip(questions, answers, strict=True)})
        return [question.read(answer) for question, answer in zip(questions, answers, strict=True)]

    async def aask(self, *questions: ClientQuestion) -> list[Any]:
        """As `ask`, without blocking the event loop while the client has not answered."""
        import asyncio

        return await asyncio.to_thread(self.ask, *questions)

    def client_supports(self, capability: str) -> bool:
        """Whether the client can answer: `elicitation`, `elicitation.url`, `sampling` or `roots`. True if that is not
        known: for a client of the handshake era that sends no session id."""
        return supports(self._call.caller.envelope, capability)

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
        from mcp_baton.tools.questions import question_of

        answer: Elicited = self.ask(question_of(method, self._call.questions + 1, positional, named))[0]
        return answer
