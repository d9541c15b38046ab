"""Simulations of calls that start a workflow: equal and different ones, at once, later and with `"new"`
(docs/workflows.md, Repeated calls).
"""

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

from msgspec.structs import replace

from mcp_baton import Server, ToolStep, constant, prompt_arg
from mcp_baton.exceptions import ProtocolError
from mcp_baton.protocol.json import Json
from mcp_baton.tasks.dynamodb.items import BY_CLIENT, NAMED
from mcp_baton.tasks.dynamodb.starts import START_PREFIX
from mcp_baton.tasks.record import epoch_ms
from mcp_baton.workflow.lease import LEASE_SAFETY_MS
from mcp_baton.workflow.repetitions import REPEATS_KEY, SLOW_REPLY_MS
from mcp_baton.workflow.steps.step import Step
from tests.simulation.client import SentRequest
from tests.simulation.dynamodb.database import Change
from tests.simulation.dynamodb.paths import Item
from tests.simulation.faults import Fault
from tests.simulation.heads import TERMINAL, claim_of, status_of
from tests.simulation.invariants import TASK, Judge
from tests.simulation.invocations import Trigger, task_message
from tests.simulation.journal import Process, ToolCall
from tests.simulation.replies import SHORT_MS
from tests.simulation.scheduler import Actor
from tests.simulation.servers import Plan, look, pay, server_of
from tests.simulation.world import World

EQUAL, OTHER, NEW = "equal", "other", "new"
ARGUMENTS: dict[str, dict[str, Json]] = {
    EQUAL: {"key": "A"},
    OTHER: {"key": "B"},
    NEW: {"key": "A", "task_id": "new"},
}
KINDS = (EQUAL,) * 10 + (OTHER, OTHER, NEW, "resume", "resume", "poll", "cancel", "complete")
DELAYS_MS = (0, 0, 0, 5, 50, 500, 2_000, 5_000, 20_000, 44_000, 46_000, 50_000, 130_000, 170_000, 200_000)
CALL_TIMES_S = (0, 0, 0, 1, 5, 20)
REPEATS_MS = 120_000
MARGIN_MS = 2_500
"""How much clocks may differ, and how long a read may be older than the write that follows it, milliseconds."""

LONG_STALL_S = 150
"""A run that stood still for this long may continue after an equal call has started another one."""


@cache
def starting_server() -> Server:
    steps: list[Step] = [
        ToolStep("look", {"key": prompt_arg("key")}, tool=look),
        ToolStep("pay", {"amount": constant(7)}, tool=pay),
        ToolStep("again", {"amount": constant(8)}, tool=pay, checkpoint=True),
    ]
    return server_of({"buy": steps})


@dataclass(slots=True)
class StoredStart:
    """A start as a process has stored it.

    Attributes:
        number: The number of the write.
        group: The partition of the item. Equal calls have the same.
    """

    number: int
    process: Process
    task_id: str
    group: str


class StartJudge(Judge):
    """Checks starts only. Other simulations check the promises for each task."""

    world: "StartWorld"

    def __init__(self, world: "StartWorld") -> None:
        super().__init__(world)
        self.tasks: dict[str, Item] = {}
        self.starts: list[StoredStart] = []
        self.stored: dict[str, Item] = {}
        """The stored start, by its partition."""
        self.held: dict[str, str] = {}
        """The task that a process has created or claimed, by the process's name."""
        self.protected: dict[str, bool] = {}
        """Whether the start and the task of a process were stored at its first call."""
        self.created_ms: dict[str, float] = {}
        """When each task was created, by the clock of its process."""
        self.named: dict[str, str] = {}
        self.known_at_ms: dict[str, float] = {}
        """When a client has named or ended a task, or the task has failed."""
        self.asked_ms: dict[str, int] = {}

    # Events.

    def _check_write(self, change: Change, process: Process | None, now_ms: float) -> int:
        number = len(self.changes)
        self.changes.append((change, process))
        self._check_item(change, now_ms)
        if change.key[0].startswith(START_PREFIX) and change.after:
            self.stored[change.key[0]] = change.after
        if change.key[1].startswith(TASK):
            created_ms = now_ms if process is None else process.wall_clock_ms(now_ms)
            self.created_ms.setdefault(change.key[1].removeprefix(TASK), created_ms)
            self._note_task(number, change, process, now_ms)
            if change.after is not None:
                self._check_lifetime(change.key[1].removeprefix(TASK), change.after)
        elif change.key[0].startswith(START_PREFIX) and process is not None and change.after and "task" in change.after:
            self._check_start(number, change, process, now_ms)
        return number

    def _check_lifetime(self, task_id: str, task: Item) -> None:
        """Check that the start of a task is kept as long as the task."""
        for start in self.stored.values():
            if "task" in start and start["task"]["S"] == task_id and not self._is_late(task_id, start):
                shorter_s = int(task["expires_at"]["N"]) - int(start["expires_at"]["N"])
                if shorter_s > 0:
                    self.wrong(31, f"the start of {task_id} expires {shorter_s} s before the task")

    def _is_late(self, task_id: str, start: Item) -> bool:
        """Whether a task was created when its claim had almost ended. Its process cancels it, and runs nothing."""
        return self.created_ms.get(task_id, 0.0) > int(start["until"]["N"]) - LEASE_SAFETY_MS - MARGIN_MS

    def _note_task(self, number: int, change: Change, process: Process | None, now_ms: float) -> None:
        task_id, after = change.key[1].removeprefix(TASK), change.after
        if after is None:
            self.tasks.pop(task_id, None)
            return
        self.tasks[task_id] = after
        if NAMED in after or BY_CLIENT in after or status_of(after) in {"cancelled", "failed"}:
            self.known_at_ms.setdefault(task_id, now_ms)
        self._note_holder(number, task_id, change, process)

    def _note_holder(self, number: int, task_id: str, change: Change, process: Process | None) -> None:
        before_claim, claim = (claim_of(item) if item else None for item in (change.before, change.after))
        if process is None or claim is None or (before_claim and before_claim[0] == claim[0]):
            return
        self.held[process.name] = task_id
        if before_claim and process.kind in ARGUMENTS:
            self.world.incidents.add("an equal call took over a task")
            if before_claim[2] == 0:
                self.wrong(28, f"write #{number} of {process.name} takes a task whose run has ended")

    def _check_start(self, number: int, change: Change, process: Process, now_ms: float) -> None:
        after: Any = change.after
        task_id = str(after["task"]["S"])
        self.asked_ms[task_id] = int(after["asked"]["N"])
        before = change.before
        if before is not None and "task" in before and before["task"]["S"] == task_id:
            return
        self.starts.append(StoredStart(number, process, task_id, change.key[0]))
        if before is None or "task" not in before:
            return
        if process.kind == NEW:
            self.world.incidents.add('"new" started a task')
            return
        self.world.incidents.add("a start was replaced")
        problem = None if self._clocks_differ() else self._repeats(before, now_ms)
        if problem:
            self.wrong(27, f"write #{number} of {process.name} replaces the start of {before['task']['S']}, {problem}")

    def _repeats(self, start: Item, now_ms: float) -> str | None:
        """Return why a call of this time repeats the call of a start; `None` if it does not."""
        task = self.tasks.get(str(start["task"]["S"]))
        if task is None:
            is_early = int(start["until"]["N"]) - now_ms > MARGIN_MS
            return "whose task may still be created" if is_early else None
        claim = claim_of(task)
        if self._is_late(str(start["task"]["S"]), start):
            return None
        is_clients = NAMED in task or BY_CLIENT in task or status_of(task) in {"cancelled", "failed"}
        if claim is None or claim[1] > 1 or is_clients:
            return None
        if is_open(task) and claim[2] > 0:
            age_ms = now_ms - claim[2]
            return f"whose claim ended {age_ms:.0f} ms ago" if age_ms < REPEATS_MS - MARGIN_MS else None
        ended_ms = ended_ms_of(task)
        is_slow = ended_ms - int(start["asked"]["N"]) >= SLOW_REPLY_MS + MARGIN_MS
        return "whose run was slow" if is_slow and now_ms - ended_ms < REPEATS_MS - MARGIN_MS else None

    def check_call(self, call: ToolCall) -> None:
        process = call.process
        if process.kind not in {EQUAL, OTHER}:
            return
        task_id = self.held.get(process.name)
        has_start = any(start.process is process for start in self.starts)
        is_protected = self.protected.setdefault(process.name, has_start and task_id in self.tasks)
        if not is_protected or self._clocks_differ() or self._is_clients(self.tasks.get(task_id or "")):
            return
        for other in self.world.processes.values():
            if other is not process and other.kind == process.kind and self._is_live(other, task_id, process):
                self.wrong(27, f"{process.name} calls {call.tool} for {task_id}, and {other.name} runs an equal call")

    def _is_live(self, other: Process, task_id: str | None, process: Process) -> bool:
        """Whether another run of an equal call makes calls for another task."""
        other_id = self.held.get(other.name)
        task = self.tasks.get(other_id or "")
        if not self.protected.get(other.name) or other_id == task_id or task is None:
            return False
        if other.answer is not None or other.actor.killed or self._is_clients(task):
            return False
        claim = claim_of(task)
        if claim is None or claim[2] == 0 or claim[1] > 1:
            return False
        stalled_s = max(self.world.stalled_s.get(each.name, 0) for each in (process, other))
        return stalled_s < LONG_STALL_S and not any(start.process.kind == NEW for start in self.starts)

    @staticmethod
    def _is_clients(task: Item | None) -> bool:
        """Whether a client has named or ended the task, or it has ended."""
        return task is None or not is_open(task) or NAMED in task

    def check_stopped(self, process: Process) -> None:
        if not process.stalled and process.answer is None:
            self.wrong(11, f"{process.name} did not answer within its time")

    def check_nothing_run(self, process: Process) -> None:
        """Check that a call that says that nothing was run has left no start, unless a fault hit its removal, or its
        function had no time left."""
        has_no_time = process.ends_ms is not None and process.ends_ms - self.world.scheduler.now_ms < SHORT_MS
        is_error = isinstance(process.answer, ProtocolError) or (process.answer or {}).get("isError") is True
        if not is_error or "othing was run" not in str(process.answer) or has_no_time:
            return
        requests = [request for request in process.requests if request.partition.startswith(START_PREFIX)]
        for start in self.starts:
            stored = self.stored[start.group].get("task")
            is_left = start.process is process and stored is not None and stored["S"] == start.task_id
            if is_left and requests[-1].has_outcome:
                self.wrong(30, f"{process.name} says that nothing was run, and leaves the start of {start.task_id}")

    def check_reply(self, process: Process) -> None:
        self.check_nothing_run(process)
        if process.meta.get(REPEATS_KEY) is not True:
            return
        self.world.incidents.add("a call was a repetition")
        task_id = self.replied_task(process)
        if process.created is not None:
            self.wrong(28, f"{process.name} repeats a call, and creates {process.created}")
        if process.calls and self.held.get(process.name) != task_id:
            self.wrong(28, f"{process.name} repeats a call, and calls {process.calls[0].tool}")
        began_ms, task = process.began_ms - MARGIN_MS, self.tasks.get(task_id)
        if process.kind == NEW:
            self.wrong(28, f'{process.name} is "new", and repeats a call')
        if self._is_known(task_id, began_ms):
            self.wrong(28, f"{process.name} repeats the call of {task_id}, which a client has named or ended")
        if task is None or self.held.get(process.name) == task_id or self._clocks_differ():
            return
        claim = claim_of(task)
        if "task_status" in process.meta and claim is not None and 0 < claim[2] < began_ms and is_open(task):
            self.wrong(
                28, f"{process.name} repeats the call of {task_id}, whose run has died, and does not continue it"
            )
        if self._has_run(task):
            ended_ms = ended_ms_of(task)
            if ended_ms < began_ms and ended_ms - self.asked_ms[task_id] < SLOW_REPLY_MS:
                self.wrong(28, f"{process.name} repeats the call of {task_id}, which was fast")

    def replied_task(self, process: Process) -> str:
        """Return the id of the task in a reply, or an empty string."""
        return str(process.meta.get("task_id", ""))

    def _is_known(self, task_id: str, before_ms: float = math.inf) -> bool:
        """Whether a client has named or ended a task before this time, or it has failed."""
        return self.known_at_ms.get(task_id, math.inf) < before_ms

    @staticmethod
    def _has_run(task: Item) -> bool:
        """Whether the last run of a task has ended."""
        claim = claim_of(task)
        return not is_open(task) or (claim is not None and claim[2] == 0)

    def check_settled(self) -> None:
        """Nothing more is checked."""

    def check_last(self) -> None:
        """Check the two equal calls after all faults."""
        for process in list(self.world.processes.values())[-2:]:
            if isinstance(process.answer, ProtocolError) or "task_status" not in process.meta:
                self.wrong(29, f"{process.name} starts no task, and replies with none: {process.answer}")
        if process.meta.get(REPEATS_KEY) is True:
            self.wrong(29, f"{process.name} repeats a call of more than two minutes ago")

    def _clocks_differ(self) -> bool:
        return any(abs(process.skew_s) > 1 for process in self.world.processes.values())

    def describe(self, change: Change) -> str:
        if change.key[0].startswith(START_PREFIX):
            item: Any = change.after or {}
            return f"start {item.get('task', {}).get('S')}"
        return super().describe(change)


class StartWorld(World):
    runs = frozenset()
    first = EQUAL
    start_kinds: tuple[str, ...] = KINDS
    judge: StartJudge
    judge_type: type[StartJudge] = StartJudge

    def _set_up(self) -> None:
        super()._set_up()
        self.plan = Plan("buy", (("pay", {"amount": 7}),))
        self.limits = replace(self.limits, max_tasks_per_owner=None)
        self.deployed_ms = None
        self.stateless = self.rng.random() < 0.5
        self.stalled_s: dict[str, float] = {}
        # Most errors need a call that stands still before it creates its task, or after it has read another one's.
        self.freeze_chance = self.rng.choice((0.0, 0.0, 0.4))

    def run(self) -> None:
        self._invoke(Trigger(self.first))
        for _ in range(self.rng.randrange(1, 9)):
            self._invoke(Trigger(self.rng.choice(self.start_kinds)), self.rng.choice(DELAYS_MS))
        self.scheduler.run()
        self.weather.is_over = True
        self.failure_chance = 0
        self._last_starts()

    def _last_starts(self) -> None:
        for wait_ms in (2 * self.judge.lease_ms + self.fast_ms, REPEATS_MS + MARGIN_MS + self.fast_ms):
            self._last(EQUAL, wait_ms)
            self._end_jobs()
        self.judge.check_last()

    def _last(self, kind: str, wait_ms: float) -> None:
        self.scheduler.now_ms += wait_ms
        self._invoke(Trigger(kind, last=True))
        self.scheduler.run()

    def _end_jobs(self) -> None:
        """Let the jobs that the calls have started end."""

    def server(self, *, edited: bool) -> Server:  # noqa: ARG002 - this simulation has only one version of the workflow
        return starting_server()

    def message(self, process: Process, trigger: Trigger) -> tuple[str, dict[str, Json]]:
        if trigger.kind in ARGUMENTS:
            return "tools/call", {"name": "buy", "arguments": dict(ARGUMENTS[trigger.kind])}
        task_id = self.rng.choice(self.known_ids) if self.known_ids else "0" * 24
        if trigger.kind == "resume":
            self.judge.named.setdefault(task_id, process.name)
            return "tools/call", {"name": "buy", "arguments": {"task_id": task_id}}
        return task_message(task_id, trigger.kind)

    def stall(self, actor: Actor, seconds: float | None = None) -> None:
        seconds = self.weather.stall_s() if seconds is None else seconds
        process = self._running_process(actor)
        if process is not None:
            self.stalled_s[process.name] = self.stalled_s.get(process.name, 0) + seconds
        super().stall(actor, seconds)

    def choose_fault(self, request: SentRequest) -> Fault | None:
        is_first_call = request.process.kind in ARGUMENTS and request.partition.startswith("OWNER#")
        fault = {"PutItem": Fault.STALLED_BEFORE, "GetItem": Fault.STALLED_AFTER}.get(request.operation)
        if fault and is_first_call and not self.weather.is_over and self.rng.random() < self.freeze_chance:
            return fault
        return super().choose_fault(request)

    def _take_time(self, actor: Actor) -> None:
        super()._take_time(actor)
        self.sleep(self.rng.choice(CALL_TIMES_S))


def is_open(task: Item) -> bool:
    return status_of(task) not in TERMINAL


def ended_ms_of(task: Item) -> int:
    """Return when the run of a task ended, epoch milliseconds."""
    ended: Any = task["run"]["M"].get("ended", {"N": "0"})
    return int(ended["N"]) if is_open(task) else epoch_ms(str(task["updated_at"]["S"]))
