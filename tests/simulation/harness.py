"""Makes simulations of seeds: whatever in Baton tells time, waits, draws or starts threads asks the simulation."""

import hashlib
import logging
import os
import random
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any

import pytest

from mcp_baton.server.running import runner, worker
from mcp_baton.server.running.mailbox import Mail, Mailbox
from mcp_baton.tasks.recording import record_decided
from tests.simulation.invariants import Violation
from tests.simulation.journal import Broken
from tests.simulation.scheduler import Actor, current
from tests.simulation.servers import STAGE
from tests.simulation.world import Rewrite, World


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a simulation ended.

    Attributes:
        broken: The invariants that did not hold.
        trace: What happened: when, epoch milliseconds, to whom, and what.
    """

    seed: int
    broken: tuple[Broken, ...]
    trace: tuple[tuple[float, str, str], ...]

    def __str__(self) -> str:
        found = "\n".join(map(str, self.broken))
        began = self.trace[0][0] if self.trace else 0.0
        lines = [f"{(at_ms - began) / 1000:10.3f} {who:12} {what}" for at_ms, who, what in self.trace]
        return f"seed {self.seed}:\n{found}\n" + "\n".join(lines)


_under_way: list[World] = []


def simulate(seed: int, *, rewrite: Rewrite | None = None, strict: bool = True) -> Outcome:
    """Run the simulation of a seed. Only within `simulating`."""
    world = World(seed, rewrite=rewrite, strict=strict)
    _under_way.append(world)
    STAGE.called = world.called
    broken: list[Broken] = world.judge.broken
    try:
        world.run()
    except Violation:
        pass
    except Exception as error:  # noqa: BLE001 - what nobody expected is a finding, too
        broken.append(Broken(0, f"{type(error).__name__}: {error}"))
        if not strict:
            logging.getLogger(__name__).exception("seed %d", seed)
    finally:
        _under_way.pop()
    return Outcome(seed, tuple(broken), tuple(world.trace))


class SimulatedMailbox(Mailbox):
    """A mailbox whose owner waits in the simulation's time."""

    def __init__(self) -> None:
        super().__init__()
        self._owner = current()

    def returned(self, value: object) -> None:
        """As `Mailbox`; who waits is woken."""
        super().returned(value)
        self._wake()

    def raised(self, error: BaseException) -> None:
        """As `Mailbox`; who waits is woken."""
        super().raised(error)
        self._wake()

    def next(self, timeout_s: float) -> Mail | None:
        """As `Mailbox`."""
        if self._owner is not None and self._mail.empty():
            _under_way[-1].sleep(timeout_s)
        mail = super().next(0.0)
        if self._owner is not None:
            _under_way[-1].heard(mail)
        return mail

    def _wake(self) -> None:
        if self._owner is not None:
            self._owner.wake_ms = min(self._owner.wake_ms, _under_way[-1].scheduler.now_ms)


def _start_thread(function: Callable[..., object], arguments: dict[str, Any], mailbox: Mailbox) -> Callable[[], None]:
    """A tool's thread is an actor of the invocation's process."""
    parent = current()
    assert parent is not None
    job = worker._Job(copy_context(), function, arguments, mailbox)  # noqa: SLF001 - the real one, on another thread
    scheduler = _under_way[-1].scheduler
    scheduler.add(Actor(f"{parent.name}.tool", job.run, scheduler.now_ms, parent))
    return lambda: None


@contextmanager
def simulating() -> Iterator[None]:
    """Let simulations run. What is not an actor of one goes on as ever."""

    def instead[**P, T](real: Callable[P, T], simulated: Callable[[World], Callable[P, T]]) -> Callable[P, T]:
        def either(*args: P.args, **kwargs: P.kwargs) -> T:
            return simulated(_under_way[-1])(*args, **kwargs) if current() is not None else real(*args, **kwargs)

        return either

    with pytest.MonkeyPatch.context() as patch:
        sleep = instead(time.sleep, lambda world: world.sleep)
        patch.setattr(time, "sleep", sleep)
        patch.setattr(time, "monotonic", instead(time.monotonic, lambda world: lambda: world.scheduler.now_ms / 1000))
        patch.setattr(time, "time_ns", instead(time.time_ns, lambda world: lambda: int(world.scheduler.now_ms * 10**6)))
        patch.setattr(os, "urandom", instead(os.urandom, lambda world: world.rng.randbytes))
        patch.setattr(random, "uniform", instead(random.uniform, lambda world: world.rng.uniform))
        patch.setattr(random, "random", instead(random.random, lambda world: world.rng.random))
        patch.setitem(record_decided.__kwdefaults__, "sleep", sleep)
        patch.setattr(worker, "_start_thread", _start_thread)
        patch.setattr(runner, "Mailbox", SimulatedMailbox)
        logger = logging.getLogger("mcp_baton")
        patch.setattr(logger, "disabled", True)
        level = logger.level
        logger.setLevel(logging.CRITICAL + 1)
        try:
            yield
        finally:
            logger.setLevel(level)


def failures(seeds: Iterable[int], *, rewrite: Rewrite | None = None) -> Iterator[Outcome]:
    """The simulations of these seeds that break an invariant."""
    with simulating():
        for seed in seeds:
            outcome = simulate(seed, rewrite=rewrite)
            if outcome.broken:
                yield outcome


def digest(seeds: Iterable[int]) -> str:
    """A digest of all that happens in the simulations of these seeds."""
    made = hashlib.sha256()
    with simulating():
        for seed in seeds:
            made.update(repr(simulate(seed, strict=False).trace).encode())
    return made.hexdigest()
