"""The Lambda function of a server under test."""

from collections.abc import Callable
from contextvars import copy_context
from typing import Any

from mcp_baton.aws import LambdaContext
from mcp_baton.testing.invocations import TIMEOUT_S, Invocation, Invocations, Killed
from mcp_baton.transport.stream import StreamOpener, stream_opener

type Handler = Callable[[dict[str, Any], LambdaContext], dict[str, Any]]


class Function:
    """A handler, invoked as Lambda invokes it.

    Args:
        make: Makes the handler: once, and again for each process that follows one that was killed.
        invocations: Where each invocation is known.
        timeout_s: What each is given, unless a test says otherwise.
    """

    def __init__(self, make: Callable[[], Handler], invocations: Invocations, timeout_s: float = TIMEOUT_S) -> None:
        self._make = make
        self._timeout_s = timeout_s
        self._invocations = invocations
        self._handler = make()

    def invoke(
        self, event: dict[str, Any], opener: StreamOpener | None, *, again: bool = False
    ) -> tuple[dict[str, Any], Invocation]:
        """Have the handler answer an event.

        Args:
            event: The event.
            opener: Opens a stream for the answer, where the client takes one.
            again: Whether it sends a call again, with answers.

        Raises:
            Killed: the function was killed meanwhile.
        """
        return copy_context().run(self._invoke, event, opener, again)

    def _invoke(
        self, event: dict[str, Any], opener: StreamOpener | None, again: bool
    ) -> tuple[dict[str, Any], Invocation]:
        stream_opener.set(opener)
        response: dict[str, Any] = {}
        with self._invocations.begin(again=again, timeout_s=self._timeout_s) as invocation:
            try:
                response = self._handler(event, invocation)
            except Killed:
                if invocation.killed_after is None:
                    raise
        if invocation.killed_after is not None:
            # What runs on, a tool or a finally, may have hidden the end: nothing of it is to be seen.
            self._handler = self._make()
            raise Killed(invocation.killed_after)
        return response, invocation
