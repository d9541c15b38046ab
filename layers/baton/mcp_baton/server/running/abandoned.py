"""Threads that are left running: Python cannot stop a function in a thread, so a call that is given up leaves it there.

Each holds memory until it ends. A function that has many of them is not called any more (docs/tools.md, Errors).
"""

import os
import threading
from collections.abc import Callable
from typing import Any, Final

from mcp_baton.exceptions import Abandoned

MAX_ABANDONED: Final = 10
"""A function that has left so many threads running is not called any more."""


class AbandonedThreads:
    """Counts the threads that were left running, by the function that they run. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[int, int] = {}
        self._new = 0

    def has_too_many(self, function: object) -> bool:
        """Whether a function has left so many threads running that it must not be called again."""
        return self._running.get(id(function), 0) >= MAX_ABANDONED

    def take_new(self) -> int:
        """How many threads were abandoned since this was last asked."""
        if not self._new:
            return 0
        with self._lock:
            new, self._new = self._new, 0
        return new

    def watch(self, function: object, run: Callable[..., Any]) -> "WatchedThread":
        """Watch a thread.

        Args:
            function: The function that the thread is counted for.
            run: What the thread runs.
        """
        return WatchedThread(self, function, run)

    def add(self, function: object, change: int) -> None:
        """Count a thread that was abandoned (1), or one of those that has ended (-1); 0 changes nothing. The lock is
        held."""
        count = self._running.pop(id(function), 0) + change
        if count:
            self._running[id(function)] = count
        self._new += change > 0

    def forget(self) -> None:
        """Begin anew in a process that was forked: it has none of the threads, and one of them may hold the lock."""
        self._lock = threading.Lock()
        self._running.clear()
        self._new = 0

    @property
    def lock(self) -> threading.Lock:
        """Guards the counts and the states of the watched threads."""
        return self._lock


class WatchedThread:
    """What one thread runs: called in that thread, abandoned from another one.

    Args:
        threads: Counts it once it is abandoned.
        function: The function that it is counted for.
        run: What is run.
    """

    __slots__ = ("_function", "_is_abandoned", "_is_running", "_run", "_threads")

    def __init__(self, threads: AbandonedThreads, function: object, run: Callable[..., Any]) -> None:
        self._threads, self._function, self._run = threads, function, run
        self._is_running = self._is_abandoned = False

    def __call__(self, /, **arguments: Any) -> Any:
        with self._threads.lock:
            self._is_running = not self._is_abandoned
        if not self._is_running:
            raise Abandoned
        try:
            return self._run(**arguments)
        finally:
            with self._threads.lock:
                self._is_running = False
                self._threads.add(self._function, -self._is_abandoned)

    def abandon(self) -> None:
        """Nothing waits for the thread any more. If it has ended, this does nothing."""
        with self._threads.lock:
            self._is_abandoned = True
            if self._is_running:
                self._threads.add(self._function, 1)


THREADS = AbandonedThreads()
"""Those of this process."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=THREADS.forget)
