"""Where an answer can be streamed to.

The handler itself is an ordinary `(event, context)` function. Whoever calls it and can take a stream (the streaming
runtime client on Lambda, the local server) says so by setting `stream_opener` for the time of the call.
"""

from collections.abc import Callable, Mapping
from contextvars import ContextVar

from mcp_baton.protocol.http import StreamSink

type StreamOpener = Callable[[int, Mapping[str, str]], StreamSink]
"""Begins a streamed answer with a status and headers. The caller of the handler closes it when the handler returns."""

stream_opener: ContextVar[StreamOpener | None] = ContextVar("stream_opener", default=None)
"""The stream that this invocation's answer may go to; `None` where only a whole answer is taken."""
