"""Simulations of calls and of events that start a workflow in the background (docs/workflows.md, Repeated calls;
docs/events.md). The start names the job, the task of the call or of the event. Workers run it.
"""

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

from msgspec.structs import replace

from mcp_baton import Server, ToolStep, constant, prompt_arg
from mcp_baton.background.start_events import StillStarting
from mcp_baton.exceptions import EventError, StoreError
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.record import PAUSE_REASONS, WORKFLOW_TASK
from mcp_baton.workflow.repetitions import REPEATS_KEY, SLOW_REPLY_MS
from mcp_baton.workflow.steps.step import Step
from tests.simulation.dynamodb.database import Change
from tests.simulation.dynamodb.paths import Item
from tests.simulation.heads import decoded, expires_ms, status_of, variables_of
from tests.simulation.invariants import TASK
from tests.simulation.invocations import OWNER, SimulatedExchange, Trigger, task_message
from tests.simulation.jobs.heads import head_in
from tests.simulation.jobs.world import MINUTE_MS, Queue, QueueWorld
from tests.simulation.journal import Process, ToolCall
from tests.simulation.scheduler import Killed
from tests.simulation.servers import look, pay, server_of
from tests.simulation.starts import (
    ARGUMENTS,
    EQUAL,
    MARGIN_MS,
    NEW,
    OTHER,
    REPEATS_MS,
    StartJudge,
    StartWorld,
    ended_ms_of,
    is_open,
)

CALL_KINDS = (EQUAL,) * 9 + (OTHER, NEW, "resume", "poll", "poll", "cancel", "complete", "sweep", "sweep")
EVENT, CONFLICT, ARRAY = "event", "conflict", "array"
EVENT_KINDS = (EVENT,) * 8 + (CONFLICT, CONFLICT, ARRAY, ARRAY, "poll", "cancel", "sweep", "sweep", "sweep")
LIFETIMES_MS = (60_000, 200_000, 3_600_000, 3_600_000)
MOST_SWEEPS = 40
DAY_MS = 86_400_000
INVALID = "batonStart.owner"


@cache
def background_server() -> Server:
    steps: list[Step] = [
        ToolStep("look", {"key": prompt_arg("key")}, tool=look),
        ToolStep("pay", {"amount": constant(7)}, tool=pay, checkpoint=True),
    ]
    return server_of({"buy": steps}, background=True)


@dataclass(slots=True)
class StartedJob:
    """A job that a call or an event has created.

    Attributes:
        of: What started it: equal calls and deliveries have the same.
        is_protected: Whether its start was stored before.
        calls: How many calls of tools its workers have made.
    """

    task_id: str
    process: Process
    of: str
    is_protected: bool
    calls: int = 0


class JobStartJudge(StartJudge):
    def __init__(self, world: "JobStartWorld") -> None:
        super().__init__(world)
        self.jobs: dict[str, StartedJob] = {}
        self.workflow_tasks: dict[str, str] = {}
        """The task of its workflow, by job."""

    def open_jobs(self) -> list[str]:
        now_ms = self.world.scheduler.now_ms
        jobs = {task_id for task_id in self.workflow_tasks if self._living(task_id, now_ms) is not None}
        return sorted(task_id for task_id in jobs if is_open(self.tasks[task_id]))

    # Writes.

    def _note_holder(self, number: int, task_id: str, change: Change, process: Process | None) -> None:
        after = change.after or {}
        if change.before is None and "allowed" in after and process is not None:
            self.workflow_tasks[task_id] = str(decoded(variables_of(after)[WORKFLOW_TASK]))
            self._note_job(number, task_id, process)

    def _note_job(self, _number: int, task_id: str, process: Process) -> None:
        if process.kind in ARGUMENTS:
            is_protected = any(start.task_id == task_id for start in self.starts)
            self.jobs[task_id] = StartedJob(task_id, process, process.kind, is_protected)

    def _repeats(self, start: Item, now_ms: float) -> str | None:
        task_id = str(start["task"]["S"])
        task = self._living(task_id, now_ms)
        if task is None:
            is_early = int(start["until"]["N"]) - now_ms > MARGIN_MS
            return "whose job may still be created" if is_early else None
        if self._is_known(task_id) or self._is_late(task_id, start):
            return None
        if is_open(task):
            return "whose job has not ended"
        ended_ms = ended_ms_of(task)
        is_slow = ended_ms - int(start["asked"]["N"]) >= SLOW_REPLY_MS + MARGIN_MS
        return "whose job was slow" if is_slow and now_ms - ended_ms < REPEATS_MS - MARGIN_MS else None

    def _living(self, task_id: str, now_ms: float) -> Item | None:
        task = self.tasks.get(task_id)
        return task if task is not None and expires_ms(task) > now_ms else None

    def _is_known(self, task_id: str, before_ms: float = math.inf) -> bool:
        """Whether a client has ended a job, or has named or ended the task of its workflow, before this time."""
        if super()._is_known(task_id, before_ms):
            return True
        workflow_task = self.workflow_tasks.get(task_id, "")
        # The task of the workflow may expire before the job does. Then it is not known who has ended it.
        is_found = before_ms == math.inf or self._living(workflow_task, self.world.scheduler.now_ms) is not None
        return is_found and super()._is_known(workflow_task, before_ms)

    # Calls and replies.

    def check_call(self, call: ToolCall) -> None:
        job = self.jobs.get(call.process.task_id) if call.process.kind == "work" else None
        if job is not None:
            job.calls += 1
            self._check_only(call, job)

    def _check_only(self, call: ToolCall, job: StartedJob) -> None:
        """Check that no other job of an equal call runs."""
        if not job.is_protected or self._clocks_differ() or self._is_known(job.task_id):
            return
        has_new = any(start.process.kind == NEW for start in self.starts)
        for other in self.jobs.values():
            is_equal = other is not job and other.of == job.of and other.is_protected and other.calls > 0
            task = self._living(other.task_id, self.world.scheduler.now_ms)
            if is_equal and task is not None and is_open(task) and not has_new and not self._is_known(other.task_id):
                self.wrong(27, f"{call.process.name} calls {call.tool} for {job.task_id}, and {other.task_id} is open")

    def check_stopped(self, process: Process) -> None:
        if process.kind in ARGUMENTS:
            super().check_stopped(process)

    def replied_task(self, process: Process) -> str:
        match process.answer:
            case {"taskId": str(task_id)} | {"task": {"taskId": str(task_id)}}:
                return task_id
            case _:
                return ""

    @staticmethod
    def _has_run(task: Item) -> bool:
        return not is_open(task)

    def describe(self, change: Change) -> str:
        if change.key[1].startswith(TASK) and change.after is not None and "allowed" in change.after:
            head = head_in(change.after)
            return f"job {head.status} run {head.holder[:6]} n={head.started} u={head.until_ms % 10**9}"
        return super().describe(change)

    def check_last(self) -> None:
        calls = [process for process in self.world.processes.values() if process.kind == EQUAL][-2:]
        for process in calls:
            if not self.replied_task(process):
                self.wrong(29, f"{process.name} starts no task, and replies with none: {process.answer}")
        if calls[-1].meta.get(REPEATS_KEY) is True:
            self.wrong(29, f"{calls[-1].name} repeats a call of more than two minutes ago")


class JobStartWorld(QueueWorld, StartWorld):
    start_kinds: tuple[str, ...] = CALL_KINDS
    judge: JobStartJudge
    judge_type: type[StartJudge] = JobStartJudge

    def _set_up(self) -> None:
        super()._set_up()
        rng = self.rng
        self.loss_chance, self.double_chance = rng.choice((0.0, 0.0, 0.3, 0.7)), rng.choice((0.0, 0.0, 0.3))
        self.retries = rng.choice((0, 2, 2))
        self.limits = replace(self.limits, default_ttl_ms=rng.choice(LIFETIMES_MS))
        self.dispatcher = Queue(self)

    def server(self, *, edited: bool) -> Server:  # noqa: ARG002 - this simulation has only one version of the workflow
        return background_server()

    def _end_jobs(self) -> None:
        """Run sweeps until all jobs have ended."""
        for _ in range(MOST_SWEEPS):
            if not self.judge.open_jobs():
                return
            self._last("sweep", MINUTE_MS)
        self.judge.wrong(29, f"sweeps do not end {self.judge.open_jobs()}")

    def message(self, _process: Process, trigger: Trigger) -> tuple[str, dict[str, Json]]:
        as_task: dict[str, Json] = {} if self.stateless else {"task": {}}
        if trigger.kind in ARGUMENTS:
            return "tools/call", {"name": "buy", "arguments": dict(ARGUMENTS[trigger.kind]), **as_task}
        if trigger.kind == "resume":
            workflow_tasks = sorted(set(self.judge.workflow_tasks.values()))
            task_id = self.rng.choice(workflow_tasks) if workflow_tasks else "0" * 24
            return "tools/call", {"name": "buy", "arguments": {"task_id": task_id}, **as_task}
        return task_message(self.rng.choice(self.known_ids) if self.known_ids else "0" * 24, trigger.kind)


def event(key: str = "A", start_id: str = "e-1", **members: Json) -> dict[str, Json]:
    return {"batonStart": {"workflow": "buy", "arguments": {"key": key}, "owner": OWNER, "id": start_id, **members}}


EVENTS: dict[str, Json] = {
    EVENT: event(),
    CONFLICT: event("B"),
    ARRAY: [event(start_id="e-2"), event(owner=""), event()],
}


class EventJudge(JobStartJudge):
    longest_ms = 8 * DAY_MS

    def __init__(self, world: "EventWorld") -> None:
        super().__init__(world)
        self.outcomes: dict[str, list[tuple[str, str]]] = {}
        """By process: the outcome and the task of each event that it has delivered."""
        self.refused: set[str] = set()
        """The processes whose events another delivery with other arguments has started."""
        self.began_ms = world.scheduler.now_ms
        self.ended_by_owner: set[str] = set()

    def _note_task(self, number: int, change: Change, process: Process | None, now_ms: float) -> None:
        super()._note_task(number, change, process, now_ms)
        if change.after is not None and status_of(change.after) == "cancelled" and process is not None:
            is_owner = process.kind not in EVENTS
            self.ended_by_owner |= {change.key[1].removeprefix(TASK)} if is_owner else set()

    def _note_job(self, number: int, task_id: str, process: Process) -> None:
        group = next((start.group for start in self.starts if start.task_id == task_id), None)
        if group is None:
            self.wrong(32, f"write #{number} of {process.name} creates {task_id}, whose start is not stored")
            return
        self.jobs[task_id] = StartedJob(task_id, process, group, is_protected=True)

    def _repeats(self, start: Item, now_ms: float) -> str | None:
        task_id = str(start["task"]["S"])
        if int(start["until"]["N"]) - now_ms > MARGIN_MS:
            return "whose job may still be created"
        if task_id in self.ended_by_owner:
            return "whose job its owner has ended"
        return "whose job has made calls" if task_id in self.jobs and self.jobs[task_id].calls else None

    def _check_only(self, call: ToolCall, job: StartedJob) -> None:
        others = [other.task_id for other in self.jobs.values() if other.of == job.of and other.calls]
        if others != [job.task_id] and not self._clocks_differ():
            self.wrong(32, f"{call.process.name} calls {call.tool} for {job.task_id}; the event has started {others}")

    def check_outcome(self, process: Process, outcome: JsonObject) -> None:
        members: Any = outcome.get("events", [outcome])
        outcomes = [(str(member["outcome"]), str(member["taskId"])) for member in members]
        self.outcomes[process.name] = outcomes
        for name, task_id in outcomes:
            self.world.incidents.add(f"an event was {name}")
            job = self.jobs.get(task_id)
            if job is None or (job.process is process) is not (name == "started"):
                self.wrong(33, f"{process.name} says that {task_id} was {name}, which is {job}")
            elif (job.process.kind == CONFLICT) is not (process.kind == CONFLICT):
                self.wrong(33, f"{process.name} says that {task_id} was {name}, which has other arguments")

    def check_error(self, process: Process, error: Exception) -> None:
        text = str(error)
        if "with other arguments" in text:
            self.world.incidents.add("an event had other arguments")
            self.refused.add(process.name)
        if process.kind == ARRAY and INVALID not in text:
            self.wrong(33, f"{process.name} does not name the invalid event: {text}")
        if process.kind != ARRAY and isinstance(error, EventError) and process.name not in self.refused:
            self.wrong(33, f"{process.name} refuses a valid event: {text}")

    def check_reply(self, process: Process) -> None:
        """Clients only poll and cancel."""

    def check_last(self) -> None:
        process = [process for process in self.world.processes.values() if process.kind == EVENT][-1]
        if process.name in self.refused:
            # Another event with the same id has started the workflow, and other arguments are refused each time.
            return
        match self.outcomes.get(process.name):
            case [(name, task_id)]:
                if name == "started" and self.world.scheduler.now_ms > self.began_ms + DAY_MS:
                    self.wrong(34, f"{process.name} starts the event again, six days later")
                if not self.jobs[task_id].calls and not self._has_ended(task_id):
                    self.wrong(34, f"{process.name} says that {task_id} was {name}, which has made no calls")
            case outcomes:
                self.wrong(34, f"{process.name} has delivered {outcomes}, and not one event")

    def _has_ended(self, task_id: str) -> bool:
        """Whether a job may have ended without a call: the owner has ended it or its workflow, one of them has expired,
        or the worker had no time left and the workflow is paused."""
        tasks = [self._living(task, self.world.scheduler.now_ms) for task in (task_id, self.workflow_tasks[task_id])]
        return self._is_known(task_id) or any(task is None or PAUSE_REASONS in variables_of(task) for task in tasks)


class EventWorld(JobStartWorld):
    """Deliveries of events: repeated, late and at once, also with other arguments and in arrays."""

    start_kinds = EVENT_KINDS
    first = EVENT
    judge: EventJudge
    judge_type = EventJudge

    def _handle(self, process: Process, trigger: Trigger) -> None:
        if trigger.kind not in EVENTS:
            super()._handle(process, trigger)
            return
        try:
            outcome = self.endpoint(process).start(EVENTS[trigger.kind], SimulatedExchange(self, process))
        except (EventError, StillStarting, StoreError) as error:
            self.note(process.actor, f"fails: {error}")
            self.judge.check_error(process, error)
            self._deliver_again(trigger)
        except Killed:
            self._deliver_again(trigger)
            raise
        else:
            self.note(process.actor, f"ends: {outcome}")
            self.judge.check_outcome(process, outcome)

    def _last_starts(self) -> None:
        self._last(EVENT, 2 * self.judge.lease_ms + self.fast_ms)
        self._end_jobs()
        self.judge.check_last()
        self._last(EVENT, 6 * DAY_MS)
        self._end_jobs()
        self.judge.check_last()
