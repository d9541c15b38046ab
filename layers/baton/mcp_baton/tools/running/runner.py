"""Calls of the author's functions: tools, resources, prompts, completions and steps.

A function runs in another thread or on the event loop, with its `Context`. Its exceptions become outcomes. Only
exceptions that answer or end the request are raised.
"""

import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from traceback import format_exception
from typing import Any, Final, cast

from msgspec import Struct, structs

from mcp_baton.exceptions import ProtocolError, ToolError, WrongResult
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.keys import own_key
from mcp_baton.telemetry import ABANDONED_THREADS
from mcp_baton.tools.approval import Approval
from mcp_baton.tools.asking import AskedInWorkflow, InputRequired, TaskBegins
from mcp_baton.tools.calls import ONLY_CALL, ToolCall
from mcp_baton.tools.content import ResourceContent
from mcp_baton.tools.context import CallState, Context
from mcp_baton.tools.outcomes import Failed, Failure, Mismatch, Prepared, Succeeded
from mcp_baton.tools.prompt import Prompt, messages_of
from mcp_baton.tools.resource import Resource, contents_of, find_in
from mcp_baton.tools.running.caller import AskerFactory, Caller, Grant
from mcp_baton.tools.running.event_loop import RUNNING
from mcp_baton.tools.running.tool_threads import (
    ABANDONED,
    MAX_ABANDONED,
    Ending,
    NotStarted,
    Raised,
    Returned,
    TimedOut,
    ToolThread,
    run_and_deliver,
)
from mcp_baton.tools.schema.schema import InvalidArguments
from mcp_baton.tools.schema.signature import Signature
from mcp_baton.tools.secrets import NO_SECRETS, Secrets
from mcp_baton.tools.tool import Tool

logger = logging.getLogger(__name__)

TIMED_OUT: Final = "timed out: "
"""The prefix of the error of a call that timed out."""

NOT_STARTED: Final = "not started: "
"""The prefix of the error of a call that was not made."""

MAY_HAVE_HAPPENED: Final = "it may still have happened"
UNBLOCK: Final = "write it as a plain def, or await in it"


class BoundFunction[T](Struct, frozen=True):
    """A function of the server's author. `bind` may raise `InvalidArguments` or the exception of a validator,
    `shape` if the value is invalid."""

    name: str
    label: str
    function: Callable[..., object]
    signature: Signature
    bind: Callable[[Mapping[str, Json]], dict[str, Any]]
    shape: Callable[[object], T]
    only_in: tuple[str, ...] = ()
    approval: Approval | None = None

    @property
    def own_function(self) -> Callable[..., object]:
        """The author's function, which identifies its abandoned threads."""
        return self.function.func if isinstance(self.function, partial) else self.function

    def prepare(self, arguments: JsonObject) -> Prepared | Mismatch:
        """Validate the arguments. An exception of an author's validator is raised."""
        try:
            return Prepared(self.name, arguments, self.bind(arguments))
        except InvalidArguments as error:
            return error.mismatch


def bound_tool(tool: Tool) -> BoundFunction[Succeeded]:
    label, bind, shape = f"tool {tool.name}", tool.input.bind, tool.outcome
    return BoundFunction(tool.name, label, tool.function, tool.signature, bind, shape, tool.only_in, tool.approval)


def bound_resource(resource: Resource, uri: str) -> BoundFunction[ResourceContent]:
    """Bind a resource's function for a request of this URI."""
    shape = partial(contents_of, uri, resource.mime_type)
    label = f"resource {resource.uri}"
    return BoundFunction(resource.name, label, resource.function, resource.signature, resource.input.bind, shape)


def bound_prompt(prompt: Prompt) -> BoundFunction[list[Json]]:
    return BoundFunction(
        prompt.name, f"prompt {prompt.name}", prompt.function, prompt.signature, prompt.input.bind, messages_of
    )


def call[T](
    caller: Caller,
    target: BoundFunction[T],
    arguments: JsonObject,
    asking: AskerFactory,
    tool_call: ToolCall = ONLY_CALL,
) -> T | Mismatch | Failed:
    prepared = prepare_call(caller, target, arguments)
    if isinstance(prepared, Prepared):
        return run(caller, target, prepared, asking, tool_call)
    return prepared


def prepare_call[T](caller: Caller, target: BoundFunction[T], arguments: JsonObject) -> Prepared | Mismatch | Failed:
    return _call_author_code(caller, target, target.prepare, arguments)


def run[T](
    caller: Caller,
    target: BoundFunction[T],
    prepared: Prepared,
    asking: AskerFactory,
    tool_call: ToolCall = ONLY_CALL,
) -> T | Failed:
    """Run a prepared call. Raises `CallerGone`, `InputRequired`, `TaskBegins` or `ProtocolError`, which answer the
    request."""
    # Each call of a function that hangs would cost another thread, which Python cannot end.
    if not target.signature.is_async and ABANDONED.count(target.own_function) >= MAX_ABANDONED:
        logger.error("%s is not called any more: %s calls of it timed out and still run", target.label, MAX_ABANDONED)
        return Failed(
            f"{NOT_STARTED}{MAX_ABANDONED} earlier calls of this function timed out and still run. Nothing was run. "
            "Tell the user that the server needs its operator.",
            kind=Failure.NOT_STARTED,
        )
    # Checked last, because the check may mark an approval as used.
    grant = _check_guards(caller, target, prepared, tool_call)
    if isinstance(grant, Failed):
        return structs.replace(grant, is_refused=True)
    try:
        outcome = _outcome(caller, target, prepared, asking, tool_call)
    except ProtocolError as error:
        if grant is not None:
            grant.end(Failed(error.message, cause=error))
        raise
    if grant is not None and isinstance(outcome, Failed):
        # A failed call may have another attempt with the same approval. This is noted before its outcome is stored:
        # otherwise the next run could find the outcome, but not the permission.
        grant.end(outcome)
    return outcome


def _outcome[T](
    caller: Caller, target: BoundFunction[T], prepared: Prepared, asking: AskerFactory, tool_call: ToolCall
) -> T | Failed:
    ending, secrets = _run_function(caller, target, prepared.bound, asking, tool_call)
    match ending:
        case Returned():
            return hide_secrets(_call_author_code(caller, target, target.shape, ending.value), secrets)
        case Raised(InputRequired() | TaskBegins() | ProtocolError() as answer):
            if isinstance(answer, ProtocolError):
                answer.message, answer.data = secrets.hide_text(answer.message), secrets.hide(answer.data)
            raise answer  # it is the answer to the request, not an outcome of the function
        case Raised(error):
            return hide_secrets(_failed_outcome(caller, target.name, error, Failure.RAISED, secrets), secrets)
        case TimedOut(limit_s):
            # The function still runs. What it sets from now on would be written by another step, or not at all.
            if tool_call.variables is not None:
                tool_call.variables.close()
            return Failed(_timeout_text(caller, target, limit_s), kind=Failure.TIMED_OUT)
        case NotStarted(waits_for):
            return _not_started(caller, target, waits_for)


def hide_secrets[T](outcome: T | Failed, secrets: Secrets) -> T | Failed:
    """Hide the callback addresses that the call has created."""
    if secrets is NO_SECRETS:
        return outcome
    if isinstance(outcome, Succeeded):
        content = cast("JsonObject | None", secrets.hide(outcome.shown))
        return cast("T", Succeeded(secrets.hide(outcome.value), content))
    return structs.replace(outcome, error=secrets.hide_text(outcome.error)) if isinstance(outcome, Failed) else outcome


def _check_guards(
    caller: Caller, target: BoundFunction[Any], prepared: Prepared, tool_call: ToolCall
) -> Failed | Grant | None:
    """Check the guards of a tool, just before it runs. Returns why it must not run, or the approval that it uses."""
    # First: a call at the wrong time must not ask a person for an approval.
    if target.only_in and not tool_call.allows(target.only_in):
        return Failed(_not_its_turn_text(target.name, target.only_in), kind=Failure.NOT_STARTED)
    approval = target.approval or tool_call.approval
    if approval is None:
        return None
    return caller.services.features.guard(caller, target.name, approval, prepared, tool_call)


def _not_its_turn_text(tool: str, only_in: Sequence[str]) -> str:
    workflows = " or ".join(only_in)
    return (
        f"{NOT_STARTED}{tool} runs only as a step of {workflows}, when it is that step's turn. Nothing was run. Call "
        f"{workflows}: the server makes this call."
    )


def _timeout_text(caller: Caller, target: BoundFunction[Any], limit_s: float) -> str:
    """Return the error text of a call that timed out. It has the time limit, how to raise it, and the function that
    blocked the event loop."""
    blocker_text = _blocker_text(caller, target)
    reserve_s = caller.services.settings.write_reserve_ms / 1000
    return (
        f"{TIMED_OUT}it had {limit_s:.3g} s, which is what was left of the function's time without the last "
        f"{reserve_s:.3g} s, in which results are stored (raise FunctionTimeout, in the background WorkerTimeout; with "
        f"baton serve --timeout, --worker-timeout){f'; {blocker_text}' if blocker_text else ''}; {MAY_HAVE_HAPPENED}"
    )


def _not_started(caller: Caller, target: BoundFunction[Any], waits_for: str | None) -> Failed:
    """The failure of a call whose time was over before. If a function blocks the event loop, the next call would not
    start either: the author has to correct that function."""
    cause = _blocker_text(caller, target)
    kind = Failure.NOT_STARTED if cause else Failure.OUT_OF_TIME
    if waits_for and not cause:
        cause = f"its dependency {waits_for!r} was not ready"
        logger.warning("%s was not started: %s in time", target.label, cause)
    text = f"{NOT_STARTED}the time for this request was over{f': {cause}' if cause else ''}. Nothing was run."
    return Failed(text, kind=kind)


def _blocker_text(caller: Caller, target: BoundFunction[Any]) -> str:
    """If the function is asynchronous, return which function blocks the event loop; otherwise, or if none does, an
    empty text."""
    if not target.signature.is_async:
        return ""
    from mcp_baton.tools.running.event_loop import blocker

    label = blocker()
    if label is None:
        return ""
    logger.error("%s blocks the event loop, on which all async functions run: %s", label, UNBLOCK)
    if label == target.label:
        return f"it blocks the event loop ({UNBLOCK})"
    # Callers who lack a function's scopes must not learn its name.
    server = caller.server
    visible = (*(f"tool {name}" for name in server.tools), *(f"prompt {name}" for name in server.prompts))
    public_name = label if label in (*visible, *(f"resource {uri}" for uri in server.resources)) else "another function"
    return f"{public_name} blocks the event loop, on which all async functions run ({UNBLOCK})"


def _call_author_code[T, G, V](
    caller: Caller, target: BoundFunction[T], author_code: Callable[[G], V], argument: G
) -> V | Failed:
    """Run a validator, serializer or generator. Its exception becomes the outcome, except `ProtocolError`."""
    try:
        return author_code(argument)
    except ProtocolError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the exception becomes the outcome, and `_failed_outcome` logs it
        return _failed_outcome(caller, target.name, error, Failure.INVALID)


def _failed_outcome(
    caller: Caller, name: str, error: BaseException, kind: Failure, secrets: Secrets = NO_SECRETS
) -> Failed:
    if isinstance(error, WrongResult):
        # The text names the line of the tool. The traceback would only have frames of Baton.
        logger.error("request %s: %s", caller.exchange.request_id, error, exc_info=error.__cause__)
    elif not isinstance(error, ToolError):
        has_secret = any(secret in "".join(format_exception(error)) for secret in secrets.names_by_text)
        note = ": its traceback has a callback's address, and is not logged" if has_secret else ""
        logger.error(
            "request %s: internal error in %s%s",
            caller.exchange.request_id,
            name,
            note,
            exc_info=None if has_secret else error,
        )
    return Failed(
        caller.client_error_text(name, error),
        isinstance(error, AskedInWorkflow),
        kind,
        error,
        caller.error_id(error),
    )


def _run_function[T](
    caller: Caller, target: BoundFunction[T], bound: dict[str, Any], asking: AskerFactory, tool_call: ToolCall
) -> tuple[Ending, Secrets]:
    """Run the function. Returns how it ended, and the callback addresses that it has created."""
    thread, signature = ToolThread(target.own_function), target.signature
    function = thread.unless_given_up(target.function, is_async=signature.is_async)
    call_state: CallState | None = None
    if signature.context or signature.dependencies:
        call_state = _new_call(caller, asking, thread, tool_call)
        if signature.context:
            bound = bound | {signature.context: Context(call_state)}
        if signature.dependencies:
            from mcp_baton.tools.running.dependencies import with_dependencies

            function = with_dependencies(function, signature, call_state)
    try:
        RUNNING.set(target.label)
        with caller.services.telemetry.span(target.label) as span:
            ending = run_and_deliver(
                function,
                bound,
                thread,
                caller.listener,
                is_async=signature.is_async,
                left_s=caller.left_s,
                stay=tool_call.stay,
                pulse=tool_call.pulse,
            )
            if isinstance(ending, Raised):
                ending = Raised(_error_in(ending.error))
            span.failed = _has_failed(ending)
        if call_state is None:
            return ending, NO_SECRETS
        return NotStarted(call_state.waits_for) if isinstance(ending, NotStarted) else ending, call_state.secrets
    finally:
        # If the function still runs, its next use of the context ends it, and its thread is counted.
        if call_state:
            call_state.abandoned = True
        thread.abandon()
        abandoned_count = ABANDONED.take_count()
        if abandoned_count:
            caller.services.telemetry.add(ABANDONED_THREADS, abandoned_count)


def _error_in(error: BaseException) -> BaseException:
    """Return the exception of a group, such as a `TaskGroup` raises, that is its outcome: one that answers the request,
    the only one, or the first `ToolError` of several. Otherwise return the group."""
    errors = [error]
    for outer in errors:  # grows meanwhile
        errors += outer.exceptions if isinstance(outer, BaseExceptionGroup) else ()
    inner = [item for item in errors if not isinstance(item, BaseExceptionGroup)]
    answers = [item for item in inner if isinstance(item, InputRequired | TaskBegins | ProtocolError)]
    if answers:
        return answers[0]
    return inner[0] if len(inner) == 1 or all(isinstance(item, ToolError) for item in inner) else error


def _new_call(caller: Caller, asking: AskerFactory, thread: ToolThread, tool_call: ToolCall) -> CallState:
    call_state = CallState(
        caller,
        tool_call,
        key=tool_call.key or own_key(),
        emit=thread.notify,
        asker=asking(thread.request, lambda: not call_state.abandoned),
        read=partial(read_for_tool, caller.server.resources),
    )
    return call_state


def _has_failed(ending: Ending) -> bool:
    """Whether traces show the call as failed. A tool that asks the client or continues in the background has not
    failed."""
    match ending:
        case Returned() | Raised(InputRequired() | TaskBegins()):
            return False
        case _:
            return True


def read_for_tool(resources: Mapping[str, Resource], uri: str, context: object) -> list[ResourceContent]:
    """Read a resource for a tool, in the tool's time and with its `Context`.

    Raises:
        ToolError: there is no such resource, or its function does not accept the values in the URI.
        TypeError: the resource's function and the tool are both `async def`, and the tool did not await the call.
        Exception: the resource's function raised it.
    """
    match = find_in(resources, uri)
    if match is None:
        raise ToolError(f"There is no resource {uri}.")
    resource, values = match
    try:
        arguments = resource.input.bind(values)
    except InvalidArguments as error:
        raise ToolError(f"{uri}: {error}") from error
    if resource.signature.context:
        arguments = arguments | {resource.signature.context: context}
    if not resource.signature.is_async:
        return [contents_of(uri, resource.mime_type, resource.function(**arguments))]

    async def read() -> list[ResourceContent]:
        coroutine = cast("Coroutine[Any, Any, object]", resource.function(**arguments))
        return [contents_of(uri, resource.mime_type, await coroutine)]

    if _is_on_a_loop():
        raise TypeError(f"resource {uri}: its function is async def; write await ctx.aread_resource(…)")
    from mcp_baton.tools.running.event_loop import submit

    return submit(read()).result()


def _is_on_a_loop() -> bool:
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
