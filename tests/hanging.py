"""Requests that hang in virtual time, so that code can wait for them without spending real time."""

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

from tests.support.throttling import Virtual

PARALLEL_MODULE = "mcp_baton.tasks.dynamodb.parallel"
CHECK_S = 0.001


class VirtualQueue[Element]:
    """A queue whose reader waits in virtual time and checks every millisecond."""

    def __init__(self, time: Virtual) -> None:
        self._time = time
        self._elements = deque[Element]()

    def put(self, element: Element) -> None:
        self._elements.append(element)

    def get(self, timeout: float | None = None) -> Element:
        """Return the first element. Wait at most `timeout` seconds for it, or without a limit if it is `None`."""
        start_s = self._time.s
        while not self._elements:
            remaining_s = CHECK_S if timeout is None else timeout - (self._time.s - start_s)
            if remaining_s <= 0:
                raise Empty
            self._time.sleep(min(CHECK_S, remaining_s))
        return self._elements.popleft()


class VirtualThread:
    """A thread that takes part in virtual time from its start."""

    def __init__(self, time: Virtual, *, target: Callable[..., object], args: tuple[Any, ...], daemon: bool) -> None:
        self._time = time
        self._run = partial(target, *args)
        self.daemon = daemon

    def start(self) -> None:
        self._time.begin(self._time.s, lambda: ignore(self._run()))


def ignore(_value: object) -> None:
    """Ignore a value."""


@contextmanager
def values_in(time: Virtual) -> Iterator[None]:
    """Let the threads that read and write values outside task items, and the code that waits for them, use virtual
    time.
    """

    class Queue[Element](VirtualQueue[Element]):
        def __init__(self) -> None:
            super().__init__(time)

    with pytest.MonkeyPatch.context() as patch:
        threading = SimpleNamespace(Thread=partial(VirtualThread, time), Lock=Lock)
        patch.setattr(f"{PARALLEL_MODULE}.threading", threading)
        patch.setattr(f"{PARALLEL_MODULE}.SimpleQueue", Queue)
        yield


@dataclass(slots=True)
class Hang:
    """Makes requests hang: a request is accepted but not answered, until the client's time limit ends it.

    Attributes:
        began_s: The time at which each hanging request started.
    """

    time: Virtual
    seconds: float
    on: bool = True
    began_s: list[float] = field(default_factory=list)

    def before(self, **_: object) -> None:
        """Handle botocore's `before-call` event."""
        if self.on:
            self.began_s.append(self.time.s)
            self.time.sleep(self.seconds)
            raise ReadTimeoutError(endpoint_url="it")

    @contextmanager
    def of(self, client: BaseClient, operation: str) -> Iterator[None]:
        """Let this operation of a client, such as `dynamodb.PutItem`, hang."""
        handler: Any = self.before
        client.meta.events.register_first(f"before-call.{operation}", handler)
        try:
            yield
        finally:
            client.meta.events.unregister(f"before-call.{operation}", handler)
