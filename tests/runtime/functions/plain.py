"""Handlers that the runtime tests run in a process of their own. Each event says what to do."""

import sys
import threading
from pathlib import Path
from typing import Any

from mcp_baton.protocol.http import ClientGone, StreamSink
from mcp_baton.transport.runtime.client import StreamingRuntimeClient
from mcp_baton.transport.stream import stream_opener

type Event = dict[str, Any]

_kept: list[StreamSink] = []
_kept_openers: list[Any] = []
_outcomes: list[str] = []


def whole(event: Event, context: Any) -> Event:
    """Answer without a stream, although one could be had."""
    return {"event": event, "can_stream": stream_opener.get() is not None, "request_id": context.aws_request_id}


def returned(event: Event, context: Any) -> object:
    """Answer with the event."""
    return event


def streamed(event: Event, context: Any) -> object:
    """Stream `parts`, waiting for `gate` to be opened before the last; return what JSON cannot carry."""
    sink = _open(event)
    *first, last = event["parts"]
    for part in first:
        sink.write(part.encode())
    _pass(event)
    sink.write(last.encode())
    return object()


def large(event: Event, context: Any) -> object:
    """Stream `count` pieces of `size` bytes, each filled with its number; return as much where `whole` is set."""
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
    """Write one part more after the gate opened; say what became of it when asked again."""
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
    """Keep the sink and the opener of the first invocation, and use them in the next."""
    if not _kept:
        _kept_openers.append(stream_opener.get())
        _kept.append(_open(event))
        return None
    sink = _open(event)
    sink.write(b"mine ")
    outcomes = [_outcome(lambda: _kept[0].write(b"late")), _outcome(lambda: _kept_openers[0](200, {}))]
    sink.write(" ".join(outcomes).encode())
    return None


def twice(event: Event, context: Any) -> object:
    """Open two streams."""
    sink = _open(event)
    sink.write(_outcome(lambda: _open(event)).encode())
    return None


def inspected(event: Event, context: Any) -> object:
    """What this process is made of."""
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
