"""The proxies between the functions and the services of AWS: an HTTP proxy for each service, which makes faults."""

import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from http.client import HTTPConnection, HTTPException

from tests.game_day.serving import Handler, Server, serving

TIMEOUT_S = 30.0
SLOW_S = (0.2, 0.9)
"""Within the timeout of the functions' clients, which is one second."""
LATE_S = (1.2, 4.0)
"""Longer than that timeout: the request arrives after the sender has given up."""


class Fault(StrEnum):
    """What happens to one request."""

    LOST = "request lost"
    ANSWER_LOST = "answer lost"
    SLOW = "slow"
    LATE = "applied after the sender gave up"
    THROTTLED = "throttled"
    FAILED_AFTER = "error 500 after the write"
    DROPPED = "event accepted and dropped"
    DOUBLED = "event doubled"


ANSWERS: Mapping[Fault, tuple[int, bytes]] = {
    Fault.THROTTLED: (
        400,
        b'{"__type": "com.amazonaws.dynamodb.v20120810#ThrottlingException", "message": "slow down"}',
    ),
    Fault.FAILED_AFTER: (
        500,
        b'{"__type": "com.amazonaws.dynamodb.v20120810#InternalServerError", "message": "failed"}',
    ),
    Fault.DROPPED: (202, b""),
}
type Chances = Mapping[Fault, float]
"""The share of the requests that each fault hits."""


@dataclass
class FaultProxy:
    """A proxy to one service.

    Attributes:
        service: Its name.
        port: Where it listens on this machine.
        usual: The faults that can happen at any time.
        url: Where the functions send their requests.
        current: The faults of this moment, in place of the usual ones.
        counts: How many of each have happened.
    """

    service: str
    port: int
    usual: Chances
    rng: random.Random
    url: str = ""
    current: Chances | None = None
    counts: Counter[Fault] = field(default_factory=Counter)

    def fault(self) -> Fault | None:
        """Draw the fault of one request."""
        remaining = self.rng.random()
        for fault, chance in (self.usual if self.current is None else self.current).items():
            remaining -= chance
            if remaining < 0:
                self.counts[fault] += 1
                return fault
        return None


@contextmanager
def running_proxy(proxy: FaultProxy) -> Iterator[FaultProxy]:
    """Serve the proxy on all addresses, as containers need it."""
    with serving(_Request, proxy) as address:
        proxy.url = f"http://{address}"
        yield proxy


class _Request(Handler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server[FaultProxy]

    def handle(self) -> None:
        # The functions give up, and containers are killed, while their requests are here.
        with suppress(OSError):
            super().handle()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        fault = self.server.subject.fault()
        match fault:
            case Fault.LOST:
                self.close_connection = True
            case Fault.THROTTLED | Fault.DROPPED:
                self._answer(*ANSWERS[fault])
            case Fault.ANSWER_LOST:
                self._forward(body)
                self.close_connection = True
            case Fault.FAILED_AFTER:
                self._forward(body)
                self._answer(*ANSWERS[fault])
            case _:
                self._deliver(fault, body)

    def do_GET(self) -> None:
        self.do_POST()

    def do_PUT(self) -> None:
        self.do_POST()

    def _deliver(self, fault: Fault | None, body: bytes) -> None:
        if fault in (Fault.SLOW, Fault.LATE):
            time.sleep(self.server.subject.rng.uniform(*(SLOW_S if fault is Fault.SLOW else LATE_S)))
        if fault is Fault.DOUBLED:
            self._forward(body)
        response = self._forward(body)
        if response is None:
            self.close_connection = True
        else:
            self._answer(*response)

    def _forward(self, body: bytes) -> tuple[int, bytes, Mapping[str, str]] | None:
        """Send the request to the service; return its answer, or None if the service does not answer."""
        with closing(HTTPConnection("127.0.0.1", self.server.subject.port, timeout=TIMEOUT_S)) as connection:
            try:
                connection.request(self.command, self.path, body, dict(self.headers))
                response = connection.getresponse()
                return response.status, response.read(), dict(response.getheaders())
            except (OSError, HTTPException):
                return None

    def _answer(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response_only(status)
        for name, value in (headers or {}).items():
            if name.lower() not in ("content-length", "connection", "transfer-encoding"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
