"""Where an answer can be streamed to, and what can wait until it is on its way.

The handler itself is an ordinary `(event, context)` function. Whoever calls it and can take a stream (the streaming
runtime client on Lambda, the local server) says so by setting `stream_opener` for the time of the call, and
`after_answer` where the answer is handed over before the next call.
"""

from collections.abc import Callable, Mapping
from contextvars import ContextVar

from mcp_baton.protocol.http import StreamSink

type StreamOpener = Callable[[int, Mapping[str, str]], StreamSink]
"""Begins a streamed answer with a status and headers. The caller of the handler closes it when the handler returns."""

stream_opener: ContextVar[StreamOpener | None] = ContextVar("stream_opener", default=None)
"""The stream that this invocation's answer may go to; `None` where only a whole answer is taken."""

type Work = Callable[[], None]

after_answer: ContextVar[Callable[[Work], None] | None] = ContextVar("after_answer", default=None)
"""Takes work to be done when this invocation's answer has been handed over; `None` where there is no such time."""


def do_later(work: Work) -> None:
    """Do this when the answer is on its way, or at once where nobody says when that is."""
    later = after_answer.get()
    if later is None:
        work()
    else:
        later(work)
