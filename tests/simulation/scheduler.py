"""Runs threads one at a time in simulated time. A seed decides which thread continues.

Nothing waits in real time. An actor yields at a point, and the scheduler chooses the next actor. If none is ready, it
advances the clock to the first time when one is. The same seed makes the same choices.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from queue import SimpleQueue
from random import Random
from typing import NoReturn

MOST_POINTS = 20_000
"""The number of points after which a simulation counts as endless."""


class Killed(BaseException):
    """Raised in an actor whose process was killed."""


class Endless(Exception):
    """A simulation that does not end."""


class Actor:
    """One thread: an invocation, a tool's thread, or an event at a given time."""

    def __init__(self, name: str, run: Callable[[], None], wake_ms: float, parent: "Actor | None" = None) -> None:
        self.name = name
        self.run = run
        self.wake_ms = wake_ms
        self.parent = parent
        self.children: list[Actor] = []
        self.killed = False
        self.frozen = False
        self.priority = 0.0
        self.turn = threading.Lock()
        self.turn.acquire()
        self.started = False

    @property
    def process(self) -> "Actor":
        """The actor of the invocation that this actor belongs to."""
        return self if self.parent is None else self.parent.process

    def kill(self) -> None:
        self.killed = True
        for child in self.children:
            child.kill()


class Scheduler:
    """Runs one actor at a time.

    Args:
        by_priority: Whether actors have priorities that change at a few points. Otherwise each choice is uniform.
        tick_ms: The time between two points, milliseconds.
    """

    def __init__(self, rng: Random, now_ms: float, *, by_priority: bool, tick_ms: float) -> None:
        self.now_ms = now_ms
        self.points = 0
        self.failure: BaseException | None = None
        self._rng = rng
        self.tick_ms = tick_ms
        self._actors: list[Actor] = []
        self._changes = {rng.randrange(1, 120) for _ in range(rng.randrange(1, 5))} if by_priority else None
        self._main = threading.Lock()
        self._main.acquire()

    def add(self, actor: Actor) -> Actor:
        """Add an actor that begins at its `wake_ms`."""
        actor.priority = self._rng.random()
        self._actors.append(actor)
        if actor.parent is not None:
            actor.parent.children.append(actor)
        return actor

    def run(self) -> None:
        """Run until every actor has ended."""
        first_actor = self._choose_actor()
        if first_actor is not None:
            self.work(first_actor)
            self._main.acquire()
        if self.failure is not None:
            raise self.failure

    def fail(self, failure: BaseException) -> NoReturn:
        """End the simulation with this failure, even if the surrounding code catches exceptions."""
        if self.failure is None:
            self.failure = failure
        for actor in self._actors:
            actor.kill()
        raise Killed

    def point(self, actor: Actor) -> None:
        """Yield to other actors. Return when this actor continues, at its `wake_ms` or later."""
        if actor.killed:
            raise Killed
        self.points += 1
        self.now_ms += self.tick_ms
        if self.points > MOST_POINTS:
            self.fail(Endless(f"{self.points} points, and {actor.name} goes on"))
        if self._changes is not None and self.points in self._changes:
            actor.priority = -self.points
        next_actor = self._choose_actor()
        if next_actor is not actor and next_actor is not None:
            self._wake(next_actor)
            actor.turn.acquire()
        if actor.killed:
            raise Killed

    def sleep(self, actor: Actor, seconds: float) -> None:
        """Yield for at least this many seconds."""
        actor.wake_ms = self.now_ms + max(seconds, 0.0) * 1000
        self.point(actor)

    def _choose_actor(self) -> Actor | None:
        if not self._actors:
            return None
        waiting = [actor for actor in self._actors if actor.killed or not actor.frozen]
        if not waiting:
            # No further invocation will come and resume them.
            waiting = self._actors
            for actor in waiting:
                actor.kill()
        ready = [actor for actor in waiting if actor.wake_ms <= self.now_ms or actor.killed]
        if not ready:
            self.now_ms = min(actor.wake_ms for actor in waiting)
            ready = [actor for actor in waiting if actor.wake_ms <= self.now_ms]
        if len(ready) == 1:
            return ready[0]
        if self._changes is not None:
            return max(ready, key=lambda actor: actor.priority)
        return ready[int(self._rng.random() * len(ready))]

    def _wake(self, actor: Actor) -> None:
        if actor.started:
            actor.turn.release()
        elif _idle_threads:
            _idle_threads.pop().put((self, actor))
        else:
            threading.Thread(target=_work, args=(self, actor), daemon=True).start()

    def work(self, actor: Actor) -> None:
        """Run an actor to its end, then the new actors that follow it, in this thread."""
        next_actor: Actor | None = actor
        while next_actor is not None:
            next_actor = self._run_to_end(next_actor)

    def _run_to_end(self, actor: Actor) -> Actor | None:
        """Run an actor to its end. Return the next actor if it has not started yet, otherwise `None`."""
        _thread_state.actor, actor.started = actor, True
        try:
            if not actor.killed:
                Context().run(actor.run)
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001 - `run` raises it
            with suppress(Killed):
                self.fail(error)
        finally:
            _thread_state.actor = None
        self._actors.remove(actor)
        next_actor = self._choose_actor()
        if next_actor is None:
            self._main.release()
        elif next_actor.started:
            next_actor.turn.release()
        else:
            return next_actor
        return None


_idle_threads: list[SimpleQueue[tuple[Scheduler, Actor]]] = []
"""Threads are reused by the actors of a simulation, because starting a thread is slow."""


def _work(scheduler: Scheduler, actor: Actor) -> None:
    inbox = SimpleQueue[tuple[Scheduler, Actor]]()
    while True:
        scheduler.work(actor)
        _idle_threads.append(inbox)
        scheduler, actor = inbox.get()


class _ThreadState(threading.local):
    actor: Actor | None = None


_thread_state = _ThreadState()


def find_actor() -> Actor | None:
    """Return the actor of this thread, or `None` outside simulations."""
    return _thread_state.actor


def current_actor() -> Actor:
    assert _thread_state.actor is not None
    return _thread_state.actor
