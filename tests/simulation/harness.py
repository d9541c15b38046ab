"""Runs the simulation of a seed. Time, waiting, random numbers and threads of Baton come from the simulation."""

import gc
import hashlib
import logging
import math
import os
import random
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from queue import Empty
from threading import Lock
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mcp_baton.background import items as job_items
from mcp_baton.protocol.json import dumps
from mcp_baton.tasks.dynamodb import heads, items, lists, outside, parallel, read, values, write
from mcp_baton.tasks.store import write_decided
from mcp_baton.tools.running import runner
from mcp_baton.tools.running import tool_threads as worker
from mcp_baton.tools.running.tool_threads import Mail, ToolThread
from mcp_baton.transport import exchange
from mcp_baton.workflow import parallel_calls
from tests.simulation.approvals import ApprovalWorld
from tests.simulation.invariants import Violation
from tests.simulation.job_starts import EventWorld, JobStartWorld
from tests.simulation.jobs.background import BackgroundWorld
from tests.simulation.jobs.world import JobWorld
from tests.simulation.journal import BrokenInvariant
from tests.simulation.lists import ListWorld
from tests.simulation.questions import QuestionWorld
from tests.simulation.scheduler import Actor, Killed, current_actor, find_actor
from tests.simulation.servers import STAGE
from tests.simulation.starts import StartWorld
from tests.simulation.waits import BackgroundWaitWorld, WaitWorld
from tests.simulation.world import ParallelWorld, Rewrite, World

LARGE_BYTES = 600
PIECE_BYTES = 1_500
INLINE_BYTES, SMALLEST_MOVED, INLINE_LIST_BYTES = 300, 60, 40
OUTBOX_SHARDS = 2


@dataclass(frozen=True, slots=True)
class Outcome:
    seed: int
    broken: tuple[BrokenInvariant, ...]
    incidents: frozenset[str]
    trace: tuple[tuple[float, str, str], ...]

    def __str__(self) -> str:
        broken = "\n".join(map(str, self.broken))
        began = self.trace[0][0] if self.trace else 0.0
        lines = [f"{(at_ms - began) / 1000:10.3f} {actor_name:12} {text}" for at_ms, actor_name, text in self.trace]
        return f"seed {self.seed}:\n{broken}\n" + "\n".join(lines)


_worlds: list[World] = []


def simulate(seed: int, kind: type[World] = World, *, rewrite: Rewrite | None = None, strict: bool = True) -> Outcome:
    """Run the simulation of a seed. Call it only within `simulating`."""
    world = kind(seed, rewrite=rewrite, strict=strict)
    _worlds.append(world)
    STAGE.call_handler = world.call_tool
    broken: list[BrokenInvariant] = world.judge.broken
    try:
        world.run()
    except (Violation, Killed):
        pass
    except Exception as error:
        broken.append(BrokenInvariant(0, f"{type(error).__name__}: {error}"))
        if not strict:
            logging.getLogger(__name__).exception("seed %d", seed)
    finally:
        _worlds.pop()
    return Outcome(seed, tuple(broken), frozenset(world.incidents), tuple(world.trace))


class SimulatedQueue[Element]:
    """A queue whose consumer waits in simulated time."""

    def __init__(self) -> None:
        self._owner = find_actor()
        self._elements: deque[Element] = deque()

    def put(self, element: Element) -> None:
        self._elements.append(element)
        if self._owner is not None:
            self._owner.wake_ms = min(self._owner.wake_ms, _worlds[-1].scheduler.now_ms)

    def get(self, timeout: float | None = None) -> Element:
        """Return the first element. Wait for at most `timeout` seconds, or without a limit if it is `None`."""
        if not self._elements:
            _worlds[-1].sleep(math.inf if timeout is None else timeout)
        if not self._elements:
            raise Empty
        return self._elements.popleft()

    @classmethod
    def __class_getitem__(cls, _element: object) -> type["SimulatedQueue[Element]"]:
        return cls


class SimulatedToolThread(ToolThread):
    """The call of a tool, for which its caller waits in simulated time. It reports the ends of tools to the world."""

    def __init__(self, function: object) -> None:
        super().__init__(function)
        self._mail = cast("Any", SimulatedQueue())

    def next(self, timeout_s: float) -> Mail | None:
        mail = super().next(timeout_s)
        _worlds[-1].note_outcome(mail)
        return mail


class SimulatedThread:
    """A thread that is an actor of the process that starts it."""

    def __init__(self, *, target: Callable[..., object], args: tuple[Any, ...], daemon: bool) -> None:
        self._run: Callable[[], object] = partial(target, *args)
        self.daemon = daemon

    def start(self) -> None:
        """Add the thread to the simulation. While the judge reads, the thread runs at once."""
        if _worlds[-1].is_judging:
            self._run()
        else:
            add_actor("thread", self._run)


def add_actor(kind: str, function: Callable[[], object]) -> None:
    """Run a function as a new actor in the process of the current actor. It may begin late."""
    parent, world = find_actor(), _worlds[-1]
    assert parent is not None
    due_ms = world.scheduler.now_ms

    def begin() -> None:
        world.continue_actor(current_actor(), due_ms)
        function()

    world.scheduler.add(Actor(f"{parent.name}.{kind}", begin, due_ms, parent))


def _start_thread(function: Callable[..., object], arguments: dict[str, Any], thread: ToolThread) -> Callable[[], None]:
    """Run a tool's thread as an actor of the invocation's process."""
    process = _worlds[-1].processes[current_actor().process.name]
    process.checked_ms = process.clock_read_ms
    add_actor("tool", partial(copy_context().run, worker.run_and_report, function, arguments, thread, lambda: None))
    return lambda: None


def _run_in_thread(job: Callable[[Callable[[], None]], None]) -> None:
    """Run a parallel step's call as an actor of the invocation's process."""
    add_actor("step", partial(copy_context().run, job, lambda: None))


@contextmanager
def simulating() -> Iterator[None]:
    """Install the simulated clock, threads and random numbers. Threads outside a simulation use the real ones."""

    def switch[**P, T](real: Callable[P, T], simulated: Callable[[World], Callable[P, T]]) -> Callable[P, T]:
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            return simulated(_worlds[-1])(*args, **kwargs) if find_actor() is not None else real(*args, **kwargs)

        return call

    with pytest.MonkeyPatch.context() as patch:
        real_sleep: Callable[[float], None] = time.sleep
        sleep = switch(real_sleep, lambda world: world.sleep)
        patch.setattr(time, "sleep", sleep)
        patch.setattr(time, "monotonic", switch(time.monotonic, lambda world: world.monotonic))
        patch.setattr(time, "time_ns", switch(time.time_ns, lambda world: lambda: int(world.scheduler.now_ms * 10**6)))
        patch.setattr(os, "urandom", switch(os.urandom, lambda world: world.rng.randbytes))
        patch.setattr("mcp_baton.callbacks.endpoint.token_urlsafe", lambda size: _worlds[-1].rng.randbytes(size).hex())
        patch.setattr(random, "uniform", switch(random.uniform, lambda world: world.rng.uniform))
        patch.setattr(random, "random", switch(random.random, lambda world: world.rng.random))
        patch.setitem(cast("dict[str, Any]", write_decided.__kwdefaults__), "sleep", sleep)
        patch.setattr(worker, "_start_thread", _start_thread)
        patch.setattr(runner, "ToolThread", SimulatedToolThread)
        patch.setattr(parallel_calls, "run_in_thread", _run_in_thread)
        patch.setattr(parallel_calls, "SimpleQueue", SimulatedQueue)
        # Other tests validate messages against the official schema. Here, validation would take most of the time.
        patch.setattr(exchange, "dumps", dumps)
        _patch_values(patch)
        logger = logging.getLogger("mcp_baton")
        patch.setattr(logger, "disabled", True)
        level = logger.level
        logger.setLevel(logging.CRITICAL + 1)
        # Exclude existing objects from garbage collection, which would be slow. They are not unfrozen afterwards,
        # because `gc.unfreeze` would also release objects that were frozen before.
        gc.freeze()
        try:
            yield
        finally:
            logger.setLevel(level)


def _patch_values(patch: pytest.MonkeyPatch) -> None:
    """Run the threads that read and write values as actors. Store smaller values outside the item, in small pieces, so
    that some values have several pieces."""
    # All modules are imported before the first patch. A module that was imported later would keep the patched value.
    patch.setattr(values, "LARGE_VALUE_BYTES", LARGE_BYTES)
    patch.setattr(parallel, "threading", SimpleNamespace(Thread=SimulatedThread, Lock=Lock))
    patch.setattr(parallel, "SimpleQueue", SimulatedQueue)
    for module in (outside, read):
        patch.setattr(module, "BUNDLE_BYTES", PIECE_BYTES)
    patch.setattr(heads, "MAX_INLINE_BYTES", INLINE_BYTES)
    for module in (heads, write):
        patch.setattr(module, "MIN_MOVED_BYTES", SMALLEST_MOVED)
    patch.setattr(lists, "INLINE_LIST_BYTES", INLINE_LIST_BYTES)
    # The sixteen queries of a real sweep would take most of the time.
    for module in (items, job_items):
        patch.setattr(module, "OUTBOX_SHARDS", OUTBOX_SHARDS)


def failures(seeds: Iterable[int], counts: Counter[str] | None = None, kind: type[World] = World) -> Iterator[Outcome]:
    """Yield the outcomes of the seeds that break an invariant."""
    with simulating():
        for seed in seeds:
            outcome = simulate(seed, kind)
            if counts is not None:
                counts.update(outcome.incidents)
            if outcome.broken:
                yield outcome


type Failures = tuple[list[Outcome], Counter[str]]
"""The outcomes that broke an invariant, and how often each incident happened."""


KINDS: Mapping[str, type[World]] = {
    "workflows": World,
    "jobs": JobWorld,
    "background": BackgroundWorld,
    "questions": QuestionWorld,
    "parallel": ParallelWorld,
    "lists": ListWorld,
    "approvals": ApprovalWorld,
    "waits": WaitWorld,
    "background-waits": BackgroundWaitWorld,
    "starts": StartWorld,
    "background-starts": JobStartWorld,
    "events": EventWorld,
}


type Chunk = tuple[tuple[int, ...], str]
"""Seeds, and the kind of their simulations: a key of `KINDS`."""


def failures_of_chunk(chunk: Chunk) -> Failures:
    """Return what `failures` finds, in a form that can be sent between processes."""
    seeds, kind = chunk
    counts = Counter[str]()
    return list(failures(seeds, counts, KINDS[kind])), counts


def digest(seeds: Sequence[int]) -> str:
    """Return a digest of everything that happens in the simulations of these seeds, for all kinds."""
    sha256 = hashlib.sha256()
    with simulating():
        for kind in KINDS.values():
            for seed in seeds:
                sha256.update(repr(simulate(seed, kind, strict=False).trace).encode())
    return sha256.hexdigest()
