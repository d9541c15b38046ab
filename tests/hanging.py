"""Requests that hang, in virtual time: what waits for them waits without real time's passing."""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from queue import Empty
from threading import Lock
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.client import BaseClient
from botocore.exceptions import ReadTimeoutError

from tests.e2e.throttling import Virtual

TOGETHER = "mcp_baton.tasks.dynamodb.parallel"
LOOK_S = 0.001


class VirtualQueue[Element]:
    """A queue whose reader waits in virtual time, and looks every millisecond.

    Args:
        time: The time.
    """

    def __init__(self, time: Virtual) -> None:
        self._time = time
        self._elements = deque[Element]()

    def put(self, element: Element) -> None:
        self._elements.append(element)

    def get(self, timeout: float | None = None) -> Element:
        """The first element, waited for so many seconds; as long as it takes for `None`.

        Raises:
            Empty: there was none in time.
        """
        began_s = self._time.s
        while not self._elements:
            left_s = LOOK_S if timeout is None else timeout - (self._time.s - began_s)
            if left_s <= 0:
                raise Empty
            self._time.sleep(min(LOOK_S, left_s))
        return self._elements.popleft()


class VirtualThread:
    """A thread that takes part in virtual time from its start on."""

    def __init__(self, time: Virtual, *, target: Callable[..., object], args: tuple[Any, ...], daemon: bool) -> None:
        self._time = time
        self._run = partial(target, *args)
        self.daemon = daemon

    def start(self) -> None:
        self._time.begin(self._time.s, lambda: void(self._run()))


def void(_value: object) -> None:
    """Nothing, whatever there was."""


@contextmanager
def values_in(time: Virtual) -> Iterator[None]:
    """The threads that write and read values outside the heads, and who waits for them, live in virtual time."""

    class Queue[Element](VirtualQueue[Element]):
        def __init__(self) -> None:
            super().__init__(time)

    with pytest.MonkeyPatch.context() as patch:
        threading = SimpleNamespace(Thread=partial(VirtualThread, time), Lock=Lock)
        patch.setattr(f"{TOGETHER}.threading", threading)
        patch.setattr(f"{TOGETHER}.SimpleQueue", Queue)
        yield


@dataclass(slots=True)
class Hang:
    """An operation of a client that is accepted and not answered, until the client's own time limit ends it.

    Attributes:
        time: The time.
        seconds: How long each request hangs.
        on: Whether it does so now.
        began_s: When each request that hung began.
    """

    time: Virtual
    seconds: float
    on: bool = True
    began_s: list[float] = field(default_factory=list)

    def before(self, **_: object) -> None:
        """A handler of botocore's `before-call`."""
        if self.on:
            self.began_s.append(self.time.s)
            self.time.sleep(self.seconds)
            raise ReadTimeoutError(endpoint_url="it")

    @contextmanager
    def of(self, client: BaseClient, operation: str) -> Iterator[None]:
        """It is this operation of a client, such as `dynamodb.PutItem`."""
        handler: Any = self.before
        client.meta.events.register_first(f"before-call.{operation}", handler)
        try:
            yield
        finally:
            client.meta.events.unregister(f"before-call.{operation}", handler)
