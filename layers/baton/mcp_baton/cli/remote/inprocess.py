"""A server in this process: the real handler, over a DynamoDB of its own that is gone afterwards."""

import json
import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from queue import SimpleQueue
from threading import Thread
from typing import Any

from mcp_baton.local.gateway import WireRequest, proxy_event
from mcp_baton.local.report.terminal import TerminalHandler
from mcp_baton.server.server import Server
from mcp_baton.testing.client import Client
from mcp_baton.testing.connecting import connect
from mcp_baton.testing.wire import OWNER_HEADER, in_event

_ENDED = object()


class InProcess:
    """Messages to a server in this process.

    Args:
        client: The server, as `mcp_baton.testing` serves it.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._ids = count(1)

    def close(self) -> None:
        """There is nothing to let go of: `connected` ends with it."""

    def sleep(self, seconds: float) -> None:
        """Let time pass for the server, where nothing is waited for."""
        self._client.clock.advance(seconds)

    def send(self, message: Mapping[str, Any], headers: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        """The messages of the answer, as the handler makes them."""
        sent = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **headers}
        sent[OWNER_HEADER] = self._client.owner or ""
        request = WireRequest("POST", "/mcp", list(sent.items()), json.dumps(message).encode(), "127.0.0.1")
        event = proxy_event(request, request_id=f"local-{next(self._ids)}", owner_header=OWNER_HEADER)
        arrived: SimpleQueue[Any] = SimpleQueue()
        Thread(target=self._serve, args=(event, arrived), daemon=True, name="in-process server").start()
        while (told := arrived.get()) is not _ENDED:
            if isinstance(told, BaseException):
                raise told
            yield told

    def _serve(self, event: dict[str, Any], arrived: "SimpleQueue[Any]") -> None:
        try:
            sink = _Sink(arrived)
            response, _ = self._client.stage.function.invoke(event, sink.open)
            self._client.stage.worker.look()
            body = response.get("body") or ""
            if body:
                arrived.put(json.loads(body))
        except BaseException as error:  # noqa: BLE001 - it is raised where the answer is waited for
            arrived.put(error)
        finally:
            arrived.put(_ENDED)


class _Sink:
    """An answer that is streamed."""

    def __init__(self, arrived: "SimpleQueue[Any]") -> None:
        self._arrived = arrived
        self._rest = b""

    def open(self, _status: int, _headers: Mapping[str, str]) -> "_Sink":
        return self

    def write(self, data: bytes) -> None:
        *events, self._rest = (self._rest + data).split(b"\n\n")
        for event in events:
            for message in in_event(event.decode()):
                self._arrived.put(message)


@contextmanager
def connected(target: str) -> Iterator[InProcess]:
    """The server in a file or module, served here.

    Raises:
        LoadError: it cannot be had from there.
        WorkflowError: a workflow of it cannot work.
        SettingsError: moto is not installed.
    """
    from mcp_baton.local.loader import load

    # Without a handler, Python's last resort would print errors of tools as they are.
    logging.basicConfig(level=logging.WARNING, handlers=[TerminalHandler(sys.stderr, in_full=False, remedy="")])
    with connect(load(target, Server), owner="local") as client:
        yield InProcess(client)
