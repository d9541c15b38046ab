"""The proxies between the functions and the services of AWS: an HTTP proxy for each service, which makes faults."""

import random
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from enum import StrEnum
from http.client import HTTPConnection, HTTPException

from emulators.answering import Answer, Request

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


ANSWERS: Mapping[Fault, Answer] = {
    Fault.THROTTLED: Answer.json(
        {"__type": "com.amazonaws.dynamodb.v20120810#ThrottlingException", "message": "slow down"}, 400
    ),
    Fault.FAILED_AFTER: Answer.json(
        {"__type": "com.amazonaws.dynamodb.v20120810#InternalServerError", "message": "failed"}, 500
    ),
    Fault.DROPPED: Answer(202),
}
OWN_HEADERS = {"connection", "content-length", "date", "server", "transfer-encoding"}
"""The headers that the proxy writes itself."""
type Chances = Mapping[Fault, float]
"""The share of the requests that each fault hits."""


@dataclass
class FaultProxy:
    """A proxy to one service.

    Attributes:
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

    def answer(self, request: Request) -> Answer | None:
        """Forward a request, unless a fault prevents it. Return None if the answer is lost."""
        match fault := self._draw_fault():
            case Fault.LOST:
                return None
            case Fault.THROTTLED | Fault.DROPPED:
                return ANSWERS[fault]
            case Fault.ANSWER_LOST:
                self._forward(request)
                return None
            case Fault.FAILED_AFTER:
                self._forward(request)
                return ANSWERS[fault]
            case Fault.DOUBLED:
                self._forward(request)
            case Fault.SLOW:
                time.sleep(self.rng.uniform(*SLOW_S))
            case Fault.LATE:
                time.sleep(self.rng.uniform(*LATE_S))
        return self._forward(request)

    def _draw_fault(self) -> Fault | None:
        remaining = self.rng.random()
        for fault, chance in (self.usual if self.current is None else self.current).items():
            remaining -= chance
            if remaining < 0:
                self.counts[fault] += 1
                return fault
        return None

    def _forward(self, request: Request) -> Answer | None:
        """Send the request to the service. Return its answer, or None if the service does not answer."""
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)) as connection:
            try:
                connection.request(request.method, request.target, request.body, request.headers)
                response = connection.getresponse()
                headers = {name: value for name, value in response.getheaders() if name.lower() not in OWN_HEADERS}
                return Answer(response.status, headers, response.read())
            except (OSError, HTTPException):
                return None
