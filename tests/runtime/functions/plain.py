"""Handlers that the runtime tests run in their own process. Each event contains instructions."""

import sys
import threading
from pathlib import Path
from typing import Any

from mcp_baton.protocol.http import ClientGone, StreamSink
from mcp_baton.transport.exchange import stream_opener
from mcp_baton.transport.runtime.client import StreamingRuntimeClient

type Event = dict[str, Any]

_first_sinks: list[StreamSink] = []
_first_openers: list[Any] = []
_outcomes: list[str] = []


def whole(event: Event, context: Any) -> Event:
    """Answer without a stream, although streaming is possible."""
    return {"event": event, "can_stream": stream_opener.get() is not None, "request_id": context.aws_request_id}


def returned(event: Event, context: Any) -> object:
    """Return the event."""
    return event


def streamed(event: Event, context: Any) -> object:
    """Stream `parts`, and wait for `gate` before the last one. Return a value that JSON cannot represent."""
    sink = _open(event)
    *earlier_parts, last_part = event["parts"]
    for part in earlier_parts:
        sink.write(part.encode())
    _pass(event)
    sink.write(last_part.encode())
    return object()


def large(event: Event, context: Any) -> object:
    """Stream `count` pieces of `size` bytes, each filled with its number. With `whole`, return a text of `size`
    instead.
    """
    if event.get("whole"):
        return "x" * event["size"]
    sink = _open(event)
    for number in range(event["count"]):
        sink.write(bytes([number]) * event["size"])
    return None


def failing(event: Event, context: Any) -> object:
    """Stream `parts`, if there are any, and fail at a given depth of calls."""
    if parts := event.get("parts"):
        sink = _open(event)
        for part in parts:
            sink.write(part.encode())
    return _fail(event["message"], event.get("depth", 0))


def interrupted(event: Event, context: Any) -> object:
    """Write another part after the gate opens. In the next invocation, return what became of it."""
    if "parts" not in event:
        return _outcomes
    sink = _open(event)
    sink.write(event["parts"][0].encode())
    _pass(event)
    try:
        sink.write(event["parts"][1].encode())
    except ClientGone:
        _outcomes.append("client gone")
        if event.get("raise"):
            raise
    else:
        _outcomes.append("written")
    return None


def lingering(event: Event, context: Any) -> object:
    """Keep the sink and the opener of the first invocation, and use them in the next one."""
    if not _first_sinks:
        _first_openers.append(stream_opener.get())
        _first_sinks.append(_open(event))
        return None
    sink = _open(event)
    sink.write(b"mine ")
    outcomes = [_outcome(lambda: _first_sinks[0].write(b"late")), _outcome(lambda: _first_openers[0](200, {}))]
    sink.write(" ".join(outcomes).encode())
    return None


def twice(event: Event, context: Any) -> object:
    """Open two streams."""
    sink = _open(event)
    sink.write(_outcome(lambda: _open(event)).encode())
    return None


def inspected(event: Event, context: Any) -> object:
    """Return facts about this process."""
    opener: Any = stream_opener.get()
    return {
        "http": sorted({"http.client", "ssl"} & set(sys.modules)),
        "same_class": type(opener.func.__self__) is StreamingRuntimeClient,
        "path": sys.path,
        "flags": [sys.flags.dev_mode, sys.flags.safe_path],
        "threads": threading.active_count(),
        "threaded_polling": opener.func.__self__.use_thread_for_polling_next,
    }


def _open(event: Event) -> StreamSink:
    opener = stream_opener.get()
    if opener is None:
        raise LookupError("no stream can be had")
    return opener(event.get("status", 200), event.get("headers", {}))


def _pass(event: Event) -> None:
    if gate := event.get("gate"):
        with Path(gate).open("rb"):
            pass


def _outcome(action: Any) -> str:
    try:
        action()
    except (ClientGone, RuntimeError) as error:
        return type(error).__name__
    return "done"


def _fail(message: str, depth: int) -> object:
    if depth:
        return _fail(message, depth - 1)
    raise ValueError(message)
