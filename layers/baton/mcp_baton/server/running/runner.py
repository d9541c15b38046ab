"""Calling what users wrote: tools, resources and prompts, each beside the request's thread, each with its `Context`."""

import functools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mcp_baton.exceptions import ProtocolError, ToolError
from mcp_baton.protocol.envelope import Envelope
from mcp_baton.protocol.http import Exchange
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.server.asking.asker import AskedInWorkflow, Asker, InputRequired
from mcp_baton.server.context import Context, Find, ProgressMap, Scope, nothing_at
from mcp_baton.server.published.completion import Completion, suggestions
from mcp_baton.server.published.prompt import Prompt, messages_of
from mcp_baton.server.published.resource import Resource, contents_of
from mcp_baton.server.published.tool import Tool
from mcp_baton.server.reply import Reply
from mcp_baton.server.running.worker import Mailbox, NotBegun, Raised, Returned, TimedOut, run_beside
from mcp_baton.server.schema.schema import InvalidArguments
from mcp_baton.server.schema.signature import Signature
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.telemetry import SILENT, Telemetry
from mcp_baton.workflow.host import FIRST, Attempt, Failed, Failure, FetchedResource, Outcome, ResourceUnavailable

if TYPE_CHECKING:
    from mcp_baton.server.running.dependencies import Override

logger = logging.getLogger(__name__)

TIMED_OUT = "timed out; it may still have happened"
NOT_BEGUN = "not begun: the time for this request was over. Nothing was run."

type Asking = Callable[[Mailbox, Callable[[], bool]], Asker]
"""From a running function's mailbox, and whether somebody waits for it, to what answers its questions."""


class Unreadable(Exception):
    """A function failed; the text is for the client.

    Args:
        text: The text.
        kind: How it failed.
    """

    def __init__(self, text: str, kind: Failure = Failure.UNFIT) -> None:
        super().__init__(text)
        self.kind = kind


@dataclass(frozen=True, slots=True)
class _Work:
    """A function that is to be called.

    Attributes:
        name: What clients call it.
        what: What traces call it.
    """

    name: str
    what: str
    function: Callable[..., object]
    signature: Signature


@dataclass(frozen=True, slots=True)
class Caller:
    """Calls functions on behalf of one request.

    Attributes:
        write_reserve_ms: Time kept back from every call for writing to the store, milliseconds.
        asking: Makes what a function's questions to the client go through.
        telemetry: Takes how long tools and resources took.
        mask_errors: Whether the text of an exception that is no `ToolError` is kept from the client.
        attempt: Which call of a workflow's step this is.
        find: Finds the server's resources, for functions that read them.
        claims: What the authorizer found out about the caller.
        overrides: The dependencies that are replaced.
    """

    exchange: Exchange
    envelope: Envelope
    reply: Reply
    owner: str | None
    write_reserve_ms: int
    asking: Asking
    telemetry: Telemetry = SILENT
    mask_errors: bool = True
    attempt: Attempt = FIRST
    find: Find = nothing_at
    claims: Mapping[str, object] = field(default_factory=dict)
    overrides: "Sequence[Override]" = ()

    def call_tool(
        self,
        tool: Tool,
        arguments: JsonObject,
        variables: TaskVariables | None = None,
        *,
        progress: ProgressMap | None = None,
        stay: bool = False,
    ) -> Outcome:
        """Call a tool. Whatever goes wrong in it is an outcome, and only what ends the request is an exception.

        Args:
            tool: The tool.
            arguments: Its arguments, not yet validated.
            variables: The bound task's variables, for `Context.task`.
            progress: How the tool's own progress becomes the request's.
            stay: Let the tool finish even when the client has gone.

        Raises:
            Deserted: the client went away, and `stay` is false.
            InputRequired: the client must answer first.
            ProtocolError: the tool wants the request answered with it.
        """
        work = _Work(tool.name, f"tool {tool.name}", tool.function, tool.signature)
        try:
            with self._authors_code(tool.name):
                bound = tool.input.bind(arguments)
            returned = self._run(work, bound, variables, progress, stay=stay)
            with self._authors_code(tool.name):
                return tool.outcome(returned)
        except InvalidArguments as error:
            return Failed(f"Invalid arguments for tool {tool.name}: {error}", kind=Failure.UNFIT)
        except Unreadable as error:
            cause = error.__cause__
            return Failed(str(error), isinstance(cause, AskedInWorkflow), error.kind, cause)

    def read(
        self, resource: Resource, uri: str, arguments: Mapping[str, str], *, progress: ProgressMap | None = None
    ) -> FetchedResource:
        """Read a resource.

        Args:
            resource: The resource.
            uri: The URI that it was asked for by.
            arguments: Its function's arguments.
            progress: How the resource's own progress becomes the request's.

        Raises:
            ResourceUnavailable: its function failed.
        """
        work = _Work(resource.name, f"resource {resource.uri}", resource.function, resource.signature)
        try:
            with self._authors_code(resource.name):
                bound = resource.input.bind(arguments)
            returned = self._run(work, bound, None, progress, stay=True)
            with self._authors_code(resource.name):
                return contents_of(uri, resource.mime_type, returned)
        except InvalidArguments as error:
            raise ResourceUnavailable(f"{uri}: {error}") from error
        except Unreadable as error:
            raise ResourceUnavailable(str(error)) from error

    def messages(self, prompt: Prompt, arguments: JsonObject) -> list[Json]:
        """A prompt's messages.

        Raises:
            InvalidArguments: the arguments do not satisfy its schema.
            ProtocolError: it returned something else, or wants the request answered with this error.
            Unreadable: its function failed.
        """
        with self._authors_code(prompt.name):
            bound = prompt.input.bind(arguments)
        returned = self._run(_Work(prompt.name, f"prompt {prompt.name}", prompt.function, prompt.signature), bound)
        with self._authors_code(prompt.name):
            return messages_of(returned)

    def suggestions(self, completion: Completion, value: str, known: dict[str, Any]) -> JsonObject:
        """Suggestions for an argument.

        Raises:
            Unreadable: the function failed.
        """
        arguments = (value, known) if completion.wants_arguments else (value,)
        function = functools.partial(completion.function, *arguments)
        returned = self._run(_Work(completion.what, "completion", function, completion.signature), {})
        if isinstance(returned, str) or not isinstance(returned, Iterable):
            raise Unreadable(f"{completion.what} did not return suggestions")
        with self._authors_code(completion.what):
            return suggestions(str(suggestion) for suggestion in returned)

    def words(self, name: str, error: BaseException) -> str:
        """An exception in words for the client: a `ToolError`'s text, which is meant for it; of any other one an id to
        find it by in the log (docs/tools.md, Errors).

        Args:
            name: The tool, resource, prompt or step that it ended.
            error: The exception.
        """
        if self.mask_errors and not isinstance(error, ToolError):
            return f"internal error in {name} (id {self.exchange.request_id})"
        return str(error) or type(error).__name__

    @contextmanager
    def _authors_code(self, name: str) -> Iterator[None]:
        """Around validators, serializers and generators of the author's.

        Raises:
            InvalidArguments, ProtocolError: which are meant for the client.
            Unreadable: anything else was raised.
        """
        try:
            yield
        except (InvalidArguments, ProtocolError):
            raise
        except Exception as error:
            raise self._unreadable(name, error) from error

    def _unreadable(self, name: str, error: BaseException, kind: Failure = Failure.UNFIT) -> Unreadable:
        if not isinstance(error, ToolError):
            logger.error("request %s: internal error in %s", self.exchange.request_id, name, exc_info=error)
        return Unreadable(self.words(name, error), kind)

    def left_ms(self) -> int | None:
        """Milliseconds until the write reserve begins; `None` where nothing stops the function."""
        remaining = self.exchange.remaining_ms()
        return None if remaining is None else remaining - self.write_reserve_ms

    def _run(
        self,
        work: _Work,
        bound: dict[str, Any],
        variables: TaskVariables | None = None,
        progress: ProgressMap | None = None,
        *,
        stay: bool = False,
    ) -> object:
        """What the function returns.

        Raises:
            Unreadable: it raised, or had no time.
            InputRequired, ProtocolError: it raised this, which is the request's answer.
        """
        mailbox = Mailbox()
        scope = Scope(
            request_id=self.exchange.request_id,
            owner=self.owner,
            envelope=self.envelope,
            remaining_ms=self.exchange.remaining_ms,
            emit=mailbox.notify,
            asker=self.asking(mailbox, lambda: not scope.abandoned),
            variables=variables,
            progress=progress,
            attempt=self.attempt.number,
            find=self.find,
            claims=self.claims,
        )
        try:
            ended = self._ended(work, bound, mailbox, scope, stay=stay)
        except NotBegun as over:
            raise Unreadable(NOT_BEGUN, Failure.NOT_BEGUN) from over
        except TimedOut as over:
            if variables is not None:
                variables.close()
            raise Unreadable(TIMED_OUT, Failure.TIMED_OUT) from over
        finally:
            scope.abandoned = True
        if isinstance(ended, Returned):
            return ended.value
        if isinstance(ended.error, InputRequired | ProtocolError):
            raise ended.error
        raise self._unreadable(work.name, ended.error, Failure.RAISED) from ended.error

    def _ended(
        self, work: _Work, bound: dict[str, Any], mailbox: Mailbox, scope: Scope, *, stay: bool
    ) -> Returned | Raised:
        signature = work.signature
        if signature.context:
            bound = bound | {signature.context: Context(scope)}
        function = work.function
        if signature.dependencies:
            from mcp_baton.server.running.dependencies import with_dependencies

            function = with_dependencies(function, signature, scope, self.overrides)
        with self.telemetry.span(work.what) as span:
            ended = run_beside(
                function,
                bound,
                mailbox,
                self.reply,
                is_async=signature.is_async,
                left_s=self._left_s,
                stay=stay,
            )
            span.failed = isinstance(ended, Raised) and not isinstance(ended.error, InputRequired)
        return ended

    def _left_s(self) -> float | None:
        left = self.left_ms()
        return None if left is None else left / 1000
