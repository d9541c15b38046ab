"""Calling what users wrote: tools, resources and prompts, each beside the request's thread, each with its `Context`."""

import functools
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_baton.exceptions import ProtocolError, ToolError
from mcp_baton.protocol.codes import INTERNAL_ERROR
from mcp_baton.protocol.envelope import Envelope
from mcp_baton.protocol.http import Exchange
from mcp_baton.protocol.json import Json, JsonObject, dumps
from mcp_baton.server.asking import AskedInWorkflow, Asker, InputRequired
from mcp_baton.server.beside import Mailbox, Raised, Returned, TimedOut, run_beside
from mcp_baton.server.completions import Completion, suggestions
from mcp_baton.server.content import CONTENT_TYPES, Message, base64_of
from mcp_baton.server.context import Context, ProgressMap, Scope
from mcp_baton.server.functions import Prompt, Resource, Tool
from mcp_baton.server.reply import Reply
from mcp_baton.server.schema import InvalidArguments
from mcp_baton.server.signature import NO_ANNOTATION, Signature, is_async
from mcp_baton.server.values import to_json
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.telemetry import SILENT, Telemetry
from mcp_baton.workflow.run import Failed, FetchedResource, Outcome, ResourceUnavailable

logger = logging.getLogger(__name__)

TIMED_OUT = "timed out"

type Asking = Callable[[Mailbox, Callable[[], bool]], Asker]
"""From a running function's mailbox, and whether somebody waits for it, to what answers its questions."""


class Unreadable(Exception):
    """A resource or a prompt whose function failed; its text may be shown to the client."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Calls functions on behalf of one request.

    Attributes:
        write_reserve_ms: Time kept back from every call for writing to the store, milliseconds.
        asking: Makes what a function's questions to the client go through.
        telemetry: Takes how long tools and resources took.
    """

    exchange: Exchange
    envelope: Envelope
    reply: Reply
    owner: str | None
    write_reserve_ms: int
    asking: Asking
    telemetry: Telemetry = SILENT

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
        try:
            bound = tool.input.bind(arguments)
        except InvalidArguments as error:
            return Failed(f"Invalid arguments for tool {tool.name}: {error}")
        what = f"tool {tool.name}"
        ended = self._run(what, tool.function, tool.signature, bound, variables, progress, stay=stay)
        if isinstance(ended, str):
            return Failed(ended)
        if isinstance(ended, Raised):
            return Failed(_told(ended.error, what), by_itself=isinstance(ended.error, AskedInWorkflow))
        try:
            return tool.outcome(ended.value)
        except Exception as error:
            # Whatever it is: the declared type can bring validators of its own.
            logger.exception("tool %s returned what it must not", tool.name)
            return Failed(str(error) or type(error).__name__)

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
        try:
            bound = resource.input.bind(arguments)
        except InvalidArguments as error:
            raise ResourceUnavailable(f"{uri}: {error}") from error
        what = f"resource {resource.uri}"
        ended = self._run(what, resource.function, resource.signature, bound, None, progress, stay=True)
        if isinstance(ended, str):
            raise ResourceUnavailable(ended)
        if isinstance(ended, Raised):
            raise ResourceUnavailable(_told(ended.error, f"resource {uri}"))
        return contents_of(uri, resource.mime_type, ended.value)

    def messages(self, prompt: Prompt, arguments: JsonObject) -> list[Json]:
        """A prompt's messages.

        Raises:
            InvalidArguments: the arguments do not satisfy its schema.
            Unreadable: its function failed.
        """
        bound = prompt.input.bind(arguments)
        what = f"prompt {prompt.name}"
        ended = self._run(what, prompt.function, prompt.signature, bound, None, None, stay=False)
        if isinstance(ended, str):
            raise Unreadable(ended)
        if isinstance(ended, Raised):
            raise Unreadable(_told(ended.error, what))
        return messages_of(ended.value)

    def suggestions(self, completion: Completion, value: str, known: dict[str, Any]) -> JsonObject:
        """Suggestions for an argument.

        Raises:
            Unreadable: the function failed.
        """
        arguments = (value, known) if completion.wants_arguments else (value,)
        signature = Signature((), None, NO_ANNOTATION, is_async(completion.function))
        function = functools.partial(completion.function, *arguments)
        ended = self._run("completion", function, signature, {}, None, None, stay=False)
        if isinstance(ended, str):
            raise Unreadable(ended)
        if isinstance(ended, Raised):
            raise Unreadable(_told(ended.error, completion.what))
        if isinstance(ended.value, str) or not isinstance(ended.value, Iterable):
            raise Unreadable(f"{completion.what} did not return suggestions")
        return suggestions(str(suggestion) for suggestion in ended.value)

    def left_ms(self) -> int | None:
        """Milliseconds until the write reserve begins; `None` where nothing stops the function."""
        remaining = self.exchange.remaining_ms()
        return None if remaining is None else remaining - self.write_reserve_ms

    def _run(
        self,
        what: str,
        function: Callable[..., object],
        signature: Signature,
        bound: dict[str, Any],
        variables: TaskVariables | None,
        progress: ProgressMap | None,
        *,
        stay: bool,
    ) -> Returned | Raised | str:
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
        )
        if signature.context:
            bound = bound | {signature.context: Context(scope)}
        try:
            with self.telemetry.span(what) as span:
                ended = run_beside(
                    function, bound, mailbox, self.reply, is_async=signature.is_async, left_s=self._left_s, stay=stay
                )
                span.failed = isinstance(ended, Raised) and not isinstance(ended.error, InputRequired)
        except TimedOut:
            if variables is not None:
                variables.close()
            return TIMED_OUT
        finally:
            scope.abandoned = True
        if isinstance(ended, Raised) and isinstance(ended.error, InputRequired | ProtocolError):
            raise ended.error
        return ended

    def _left_s(self) -> float | None:
        left = self.left_ms()
        return None if left is None else left / 1000


def _told(error: BaseException, what: str) -> str:
    """What the client is told of an exception: its text, which is its author's. The log has the traceback."""
    if not isinstance(error, ToolError):
        logger.error("%s raised", what, exc_info=error)
    return str(error) or type(error).__name__


def contents_of(uri: str, mime_type: str | None, returned: object) -> FetchedResource:
    """What a resource's function returned, as one content: text, bytes as base64, or anything else as JSON text.

    Raises:
        ResourceUnavailable: it cannot be written as JSON.
    """
    if isinstance(returned, str):
        return FetchedResource(uri, mime_type or "text/plain", text=returned)
    if isinstance(returned, bytes | bytearray):
        return FetchedResource(uri, mime_type or "application/octet-stream", blob=base64_of(bytes(returned)))
    try:
        return FetchedResource(uri, mime_type or "application/json", text=dumps(to_json(returned)))
    except ValueError as error:
        raise ResourceUnavailable(f"{uri}: {error}") from error


def messages_of(returned: object) -> list[Json]:
    """What a prompt's function returned, as `PromptMessage`s: texts are the user's.

    Raises:
        ProtocolError: it is neither text nor messages.
    """
    items = returned if isinstance(returned, Sequence) and not isinstance(returned, str) else [returned]
    return [_message(item) for item in items]


def _message(item: object) -> Json:
    if isinstance(item, Message):
        return item.to_json()
    if isinstance(item, (str, *CONTENT_TYPES)):
        return Message("user", item).to_json()
    made = to_json(item)
    if isinstance(made, Mapping) and isinstance(made.get("content"), str):
        made = {**made, "content": {"type": "text", "text": made["content"]}}
    if not isinstance(made, Mapping) or not isinstance(made.get("content"), Mapping) or "role" not in made:
        raise ProtocolError(INTERNAL_ERROR, "the prompt did not return text, content or messages")
    return made
