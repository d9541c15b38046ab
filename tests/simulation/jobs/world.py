"""The simulation of one job: a call that becomes a task. Events are lost, workers are killed, and a client polls,
answers and cancels."""

from dataclasses import dataclass
from dataclasses import replace as changed
from random import Random
from typing import Any, ClassVar

from msgspec.structs import replace

from mcp_baton import Server
from mcp_baton.background.worker import StillHeld
from mcp_baton.exceptions import NotDispatched, StoreError
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.record import MAX_DISPATCH_MS
from tests.simulation.client import SentRequest
from tests.simulation.faults import Fault
from tests.simulation.heads import TERMINAL, expires_ms, status_of
from tests.simulation.invocations import Trigger, invoke
from tests.simulation.jobs.heads import Head, head_in, questions_in
from tests.simulation.jobs.judge import JobJudge
from tests.simulation.jobs.tools import PLANS, JobPlan, job_server
from tests.simulation.journal import Process
from tests.simulation.scheduler import Actor, Killed, current_actor
from tests.simulation.world import World

DELAYS_MS = (
    0,
    500,
    29_900,
    30_100,
    47_000,
    50_000,
    61_000,
    80_000,
    95_000,
    110_000,
    130_000,
    180_000,
    250_000,
    700_000,
)
BUSY_S = (0.0, 0.0, 0.0, 16.0, 16.0, 40.0)
"""How long each call takes, seconds. Long calls make the worker renew its claim."""

KINDS = ("poll",) * 12 + ("update",) * 2 + ("list", "listen", "cancel", "complete")
TIME_LIMITS_S = (29.0, 60.0, 900.0)
TTLS_MS = (*(None,) * 9, 60_000, 200_000)
ANSWERS_AFTER_MS = (0, 0, 10, 1_000, 10_000, 40_000)
POLLS_AFTER_MS = (-1_000, 1, 1, 5, 100, 500, 1_000, 3_000)
SLOW_S = (1.1, 3.0, 3.0)
FREEZES_S = (45.1, 45.5, 46.0, 46.5, 60.0)
MINUTE_MS = 60_000
MOST_LATE_MS = 120_000
"""How much later than a poll the next effective sweep may be, milliseconds."""

SWEEPS = (0, 0, 3, 10)
SWEEP_DELAYS_MS = (0, 0, 0, 5, 5_000, 58_000, 61_000, 130_000)
AGAIN_AFTER_S = (60.0, 120.0)
"""How long Lambda waits before it redelivers the event of a failed invocation."""

LATE_S = (0.0, 0.0, 0.05, 1.0, 20.0, 46.0, 100.0, 400.0)
SILENCE_S = 1.0


class QueueWorld(World):
    """A world with workers, which Lambda's queue invokes."""

    loss_chance: float
    double_chance: float
    retries: int

    def _handle(self, process: Process, trigger: Trigger) -> None:
        if trigger.event is None:
            super()._handle(process, trigger)
            return
        event: Any = trigger.event["batonTask"]
        process.task_id = event["taskId"]
        try:
            invoke(self, process, trigger)
        except (StoreError, StillHeld, NotDispatched):
            self._deliver_again(trigger)
        except Killed:
            self._deliver_again(trigger)
            raise

    def _time_limit_s(self, trigger: Trigger) -> float | None:
        return self.rng.choice(TIME_LIMITS_S) if trigger.event else super()._time_limit_s(trigger)

    def deliver(self, event: JsonObject) -> None:
        if self.weather.is_over:
            self._invoke(Trigger("work", last=True, event=event))
            return
        deliveries = 0 if self.rng.random() < self.loss_chance else 1 + (self.rng.random() < self.double_chance)
        self.incidents.add(("an event was lost", "an event came", "an event came twice")[deliveries])
        for _ in range(deliveries):
            self._invoke(Trigger("work", event=event), self.rng.choice(LATE_S) * 1000)

    def _deliver_again(self, trigger: Trigger) -> None:
        if self.scheduler.failure is None and trigger.deliveries <= self.retries:
            self.incidents.add("an event was delivered again")
            wait_ms = AGAIN_AFTER_S[trigger.deliveries - 1] * 1000
            self._invoke(changed(trigger, deliveries=trigger.deliveries + 1), wait_ms)


class JobWorld(QueueWorld):
    runs = frozenset[str]()
    stateless = True
    delays_ms = DELAYS_MS
    arguments: ClassVar[JsonObject] = {"of": 1}
    most_rounds = 8
    judge: JobJudge
    judge_type: type[JobJudge] = JobJudge

    def _set_up(self) -> None:
        super()._set_up()
        rng: Random = self.rng
        self.job: JobPlan = rng.choice(PLANS)
        ttl_ms = rng.choice(TTLS_MS)
        self.limits = replace(self.limits, default_ttl_ms=ttl_ms or 3_600_000)
        self.dispatcher = Queue(self)
        self.kinds = KINDS
        self.loss_chance = rng.choice((0.0, 0.0, 0.3, 0.7))
        self.double_chance = rng.choice((0.0, 0.0, 0.3, 0.7))
        self.retries = rng.choice((0, 2, 2))
        self.given_answers: dict[str, frozenset[str]] = {}
        # Most errors with claims need a worker that continues just after its claim has ended.
        self.freeze_chance = rng.choice((0.0, 0.0, 0.7))
        self.slow_chance = 0.7 if self.freeze_chance else rng.choice((0.0, 0.5))
        self.busy_s = 0.0 if self.freeze_chance else rng.choice(BUSY_S)
        self.late_chance = rng.choice((0.0, 0.4)) if self.busy_s else 0.0
        self._other_invocations = rng.randrange(16)
        self._update_count = rng.randrange(9)
        self._poll_rounds = rng.choice((0, 2, 4))
        # Separate random numbers, so that seeds without sweeps simulate the same as before sweeps existed.
        self._clock = Random(f"clock {self.seed}")
        self._sweeps = self._clock.choice(SWEEPS)
        self._sweep_lost, self._sweep_doubled = self._clock.choice((0.0, 0.3, 0.7)), self._clock.choice((0.0, 0.3))
        self._is_polled = self._clock.random() < 0.5

    def server(self, *, edited: bool) -> Server:  # noqa: ARG002 - jobs have no definitions
        return job_server()

    def message(self, process: Process, trigger: Trigger) -> tuple[str, dict[str, Json]]:
        match trigger.kind:
            case "start":
                return "tools/call", {"name": self.job.tool, "arguments": self.arguments}
            case "update":
                return "tasks/update", {"taskId": self.task_id, "inputResponses": self._answers(process, trigger)}
            case _:
                return super().message(process, trigger)

    def _answers(self, process: Process, trigger: Trigger) -> dict[str, Json]:
        """Return answers to some of the job's questions, including answered ones, and to an unknown question."""
        questions = sorted(questions_in(self.judge.head)) if self.judge.head else []
        answered_keys = [key for key in questions if trigger.answers_all or self.rng.random() < 0.6] or questions[:1]
        self.given_answers[process.name] = frozenset(answered_keys)
        return {key: {"action": "accept", "content": {"by": process.name}} for key in [*answered_keys, "unknown"]}

    # The course of a simulation.

    def run(self) -> None:
        """Run the simulation. Then check that the job ends without faults."""
        self._invoke(Trigger("start"))
        self._schedule_sweeps()
        self.scheduler.run()
        self.weather.is_over = True
        self.judge.check_settled()
        for _ in range(self.most_rounds):
            item = self.judge.head
            if item is None or status_of(item) in TERMINAL:
                return
            self._wait_for_result(item)
        self.judge.wrong(10, "the job does not end")

    def _schedule_sweeps(self) -> None:
        """Schedule a sweep for each minute. Some are late, simultaneous, doubled or lost."""
        first_ms = self._clock.randrange(MINUTE_MS)
        for minute in range(self._sweeps):
            if self._clock.random() < self._sweep_lost:
                self.incidents.add("a sweep was lost")
                continue
            sweep_count = 1 + (self._clock.random() < self._sweep_doubled)
            self.incidents.add(("a sweep came", "a sweep came twice")[sweep_count - 1])
            for _ in range(sweep_count):
                self._invoke(Trigger("sweep"), first_ms + minute * MINUTE_MS + self._clock.choice(SWEEP_DELAYS_MS))

    def _sweep_until(self, head: Head, poll_ms: float) -> None:
        """Run sweeps, without faults and polls, until they have done what the job needs."""
        next_ms = self.scheduler.now_ms + self._clock.randrange(MINUTE_MS)
        while (item := self.judge.head) is not None and _is_unchanged(head, item):
            if expires_ms(item) <= self.scheduler.now_ms:
                return
            if next_ms > poll_ms + MOST_LATE_MS:
                self.judge.wrong(20, f"sweeps do nothing for {head}")
                return
            self.scheduler.now_ms = max(self.scheduler.now_ms, next_ms)
            self._invoke(Trigger("sweep", last=True))
            self.scheduler.run()
            next_ms += MINUTE_MS

    def _wait_for_result(self, item: dict[str, Any]) -> None:
        """Act as a client that waits for its result: answer, and poll. A worker that is dispatched does its work."""
        head, now_ms = head_in(item), self.scheduler.now_ms
        if head.status == "input_required":
            self._invoke(Trigger("update", last=True, answers_all=True))
        else:
            if head.until_ms - now_ms > self.judge.lease_ms + self.fast_ms:
                self.judge.wrong(10, f"the claim of an ended worker lasts {head.until_ms - now_ms:.0f} ms")
            if head.due_ms - now_ms > MAX_DISPATCH_MS + self.fast_ms:
                self.judge.wrong(10, f"the job is due in {head.due_ms - now_ms:.0f} ms")
            is_used_up = head.started >= head.allowed
            poll_ms = max(now_ms, head.until_ms + 1, 0 if is_used_up else head.due_ms + 1)
            if self._is_polled:
                self.scheduler.now_ms = max(poll_ms, head.due_ms + 1)
                self._invoke(Trigger("poll", last=True))
            else:
                self.incidents.add("only sweeps dispatched a job")
                self._sweep_until(head, poll_ms)
        self.scheduler.run()
        item_after = self.judge.head
        if item_after is None or expires_ms(item) <= self.scheduler.now_ms:
            self.judge.head = None
        elif status_of(item_after) == "working":
            self.judge.wrong(
                10, f"the faults have stopped and the client has polled, but the job is still {head_in(item_after)}"
            )

    def register_request(self, operation: str, partition: str) -> SentRequest:
        """Register a request. A poll may be slow, so that its data is old."""
        request = super().register_request(operation, partition)
        polls = operation == "UpdateItem" and request.process.kind in {"poll", "sweep"}
        if polls and not self.weather.is_over and self.rng.random() < self.slow_chance:
            self.incidents.add("a poll was slow")
            self.sleep(self.rng.choice(SLOW_S))
        return request

    def choose_fault(self, request: SentRequest) -> Fault | None:
        """Choose the fault of a request. A worker's write may arrive after the worker took it for failed."""
        is_held = request.operation == "UpdateItem" and request.process.name in self.judge.started
        if is_held and not self.weather.is_over and self.rng.random() < self.late_chance:
            return Fault.LATE
        return super().choose_fault(request)

    def schedule_polls(self, until_ms: int) -> None:
        """After a worker has started, schedule polls for the end of its claim, when most errors are possible."""
        if not self.weather.is_over and self._poll_rounds:
            self._poll_rounds -= 1
            for _ in range(self.rng.randrange(1, 5)):
                wait_ms = until_ms - self.scheduler.now_ms + self.rng.choice(POLLS_AFTER_MS)
                self._invoke(Trigger("poll"), max(wait_ms, 0.0))

    def schedule_answers(self) -> None:
        if not self.weather.is_over:
            for _ in range(self._update_count):
                self._invoke(Trigger("update"), self.rng.choice(ANSWERS_AFTER_MS))

    def _take_time(self, actor: Actor) -> None:
        if self.busy_s:
            self.sleep(self.busy_s)
        if not self.weather.is_over and self.rng.random() < self.freeze_chance:
            self.note(actor, "stalls until its claim has ended")
            self.stall(actor, self.rng.choice(FREEZES_S))
        super()._take_time(actor)


def _is_unchanged(head: Head, item: dict[str, Any]) -> bool:
    """Return whether the job is unchanged since `head` was read."""
    new_head = head_in(item)
    return (new_head.status, new_head.dispatches, new_head.started) == (head.status, head.dispatches, head.started)


@dataclass(slots=True)
class Queue:
    """Lambda's queue (a `Dispatcher`). It may reject an event."""

    world: QueueWorld

    def dispatch(self, event: JsonObject) -> None:
        world, actor = self.world, current_actor()
        fault = world.weather.next_fault()
        if fault is not None:
            world.processes[actor.process.name].faults.append(fault)
            world.incidents.add(f"while an event was sent: {fault.description}")
        if fault is Fault.STALLED_BEFORE:
            world.stall(actor)
        world.point(actor)
        if fault is Fault.KILLED_BEFORE:
            world.kill(actor, "killed before its event is sent")
        if fault in {Fault.LOST_REQUEST, Fault.THROTTLED}:
            world.note(actor, f"{event} is not taken")
            world.sleep(SILENCE_S)
            raise NotDispatched("simulated")
        world.note(actor, f"sends {event}")
        world.deliver(event)
        if fault is Fault.KILLED_AFTER:
            world.kill(actor, "killed after its event was sent")
        if fault is Fault.STALLED_AFTER:
            world.stall(actor)
        if fault in {Fault.LOST_REPLY, Fault.LATE, Fault.BROKEN}:
            world.sleep(SILENCE_S)
            raise NotDispatched("simulated, and it was taken")
