"""Context variables through which the caller of the handler accepts streams, and work to do after the response.

The handler is an ordinary function of an event and a context. A caller that can stream (the runtime client on Lambda,
the local server) sets `stream_opener` during the call. A caller that can run work after the response sets
`after_answer`.
"""

from collections.abc import Callable, Mapping
from contextvars import ContextVar

from mcp_baton.protocol.http import StreamSink

type StreamOpener = Callable[[int, Mapping[str, str]], StreamSink]
"""Begins a streamed response with a status and headers. The caller of the handler closes the stream afterwards."""

stream_opener: ContextVar[StreamOpener | None] = ContextVar("stream_opener", default=None)
"""Opens the stream of the current invocation; `None` if the response must be returned whole."""

type Work = Callable[[], None]

after_answer: ContextVar[Callable[[Work], None] | None] = ContextVar("after_answer", default=None)
"""Takes work to do after the response was sent; `None` if the caller cannot do this."""


def do_later(work: Work) -> None:
    """Do this after the response, or now if the caller cannot do it later."""
    later = after_answer.get()
    if later is None:
        work()
    else:
        later(work)
