"""An emulator of the Lambda Runtime API for tests and benchmarks. It hands out events and records responses byte for
byte.

It parses requests itself, so it sees chunks and trailers as they were sent. It can close connections, reject responses,
or close a kept connection. It uses one thread for each connection and listens on `127.0.0.1` only.
"""

import itertools
import json
import queue
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO

from emulators.delivery import Delivery, Reaction

ACCEPTED = 202
"""The status after which an invocation has ended."""


@dataclass(frozen=True, slots=True)
class _Invocation:
    request_id: str
    event: bytes
    headers: Mapping[str, str]
    reaction: Reaction
    delivery: Delivery


class RuntimeApi:
    """The Runtime API on a free port.

    Attributes:
        address: `host:port`, for `AWS_LAMBDA_RUNTIME_API`.
        reports: Other requests (`init/error`, `restore/next`, `restore/error`), as `(path, body)`.
        polled: Set when a runtime asks for an invocation.
    """

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = "{}:{}".format(*self._listener.getsockname())
        self.reports: queue.Queue[tuple[str, bytes]] = queue.Queue()
        self.polled = threading.Event()
        self._pending: queue.Queue[_Invocation | None] = queue.Queue()
        self._running: dict[str, _Invocation] = {}
        self._numbers = itertools.count(1)
        self._connections: set[socket.socket] = set()
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def invoke(
        self, event: object, reaction: Reaction | None = None, headers: Mapping[str, str] | None = None
    ) -> Delivery:
        """Hand this event to the next runtime that polls. `headers` are added to those of the invocation."""
        delivery = Delivery()
        request_id = f"00000000-0000-4000-8000-{next(self._numbers):012}"
        body = json.dumps(event).encode()
        self._pending.put(_Invocation(request_id, body, headers or {}, reaction or Reaction(), delivery))
        return delivery

    def close(self) -> None:
        """Stop listening, and close every connection."""
        self._pending.put(None)
        for open_socket in (self._listener, *self._connections):
            with suppress(OSError):
                open_socket.shutdown(socket.SHUT_RDWR)
        # Only then: the next socket gets the number of a closed one, and this thread would accept its connections.
        self._accepting.join()
        self._listener.close()

    def _accept(self) -> None:
        for number in itertools.count(1):
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connections.add(connection)
            threading.Thread(target=self._serve, args=(connection, number), daemon=True).start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        with connection, connection.makefile("rb") as stream, suppress(ConnectionError):
            while line := stream.readline():
                method, path, _ = line.decode().split(" ")
                fields = _read_fields(stream)
                if path.endswith("/invocation/next"):
                    keep_open = self._send_event(connection)
                elif "/invocation/" in path:
                    keep_open = self._receive_response(connection, number, path, fields, stream)
                else:
                    self.reports.put((path, b"".join(_read_body(stream, fields))))
                    keep_open = _reply(connection, 200 if method == "GET" else 202)
                if not keep_open:
                    break
        self._connections.discard(connection)

    def _send_event(self, connection: socket.socket) -> bool:
        self.polled.set()
        invocation = self._pending.get()
        if invocation is None:
            return False
        self._running[invocation.request_id] = invocation
        fields = {
            "Lambda-Runtime-Aws-Request-Id": invocation.request_id,
            "Lambda-Runtime-Deadline-Ms": str(int(time.time() * 1000) + 60_000),
            "Lambda-Runtime-Invoked-Function-Arn": "arn:aws:lambda:eu-west-1:123456789012:function:test",
            "Content-Type": "application/json",
            **invocation.headers,
        }
        return _reply(connection, 200, invocation.event, fields)

    def _receive_response(
        self, connection: socket.socket, number: int, path: str, fields: dict[str, str], stream: BinaryIO
    ) -> bool:
        *_, request_id, kind = path.split("/")
        invocation = self._running[request_id]
        delivery, reaction = invocation.delivery, invocation.reaction
        delivery.begin(kind, fields, number)
        try:
            for chunk in _read_body(stream, fields):
                delivery.add(chunk)
                if len(delivery.chunks) == reaction.after_chunks:
                    return _interrupt(connection, reaction)
            trailers = _read_fields(stream) if _is_chunked(fields) else {}
            keep_open = not reaction.hang_up and _reply(connection, reaction.status, fields=reaction.headers)
            delivery.finish(trailers)
            if reaction.status == ACCEPTED:
                self._running.pop(request_id, None)
            if reaction.then_close:
                connection.shutdown(socket.SHUT_RDWR)
            return keep_open
        finally:
            delivery.close()


def _read_fields(stream: BinaryIO) -> dict[str, str]:
    fields = {}
    while line := stream.readline().decode("latin-1").strip():
        name, _, value = line.partition(":")
        fields[name.strip().lower()] = value.strip()
    return fields


def _read_body(stream: BinaryIO, fields: Mapping[str, str]) -> Iterator[bytes]:
    if not _is_chunked(fields):
        if length := int(fields.get("content-length", "0")):
            yield stream.read(length)
        return
    while size := int(stream.readline() or b"0", 16):
        chunk = stream.read(size)
        if stream.readline() != b"\r\n":
            raise ConnectionError("a chunk is not as long as it says")
        yield chunk


def _is_chunked(fields: Mapping[str, str]) -> bool:
    return fields.get("transfer-encoding") == "chunked"


def _interrupt(connection: socket.socket, reaction: Reaction) -> bool:
    """React in the middle of a response. The rest of the response is not read."""
    if not reaction.hang_up:
        _reply(connection, reaction.status)
    connection.shutdown(socket.SHUT_WR)
    return False


def _reply(connection: socket.socket, status: int, body: bytes = b"", fields: Mapping[str, str] | None = None) -> bool:
    lines = [f"{name}: {value}\r\n" for name, value in (fields or {}).items()]
    head = f"HTTP/1.1 {status} -\r\nContent-Length: {len(body)}\r\n{''.join(lines)}\r\n"
    connection.sendall(head.encode() + body)
    return True
