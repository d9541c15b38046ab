"""Random plans whose functions are killed: they end as without kills, with at most the repetitions that docs allow.

The plans have no failing tools and no missing values, so each run makes the same calls. Everybody answers, approves and
calls back. A kill may repeat the calls that were open at the last write of the run (docs/workflows.md, When a run is
killed), each time with the same idempotency key. A task in the background continues within two leases and a sweep.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from datetime import datetime
from random import Random
from typing import Any

from mcp_baton import BatonError
from mcp_baton.testing import Killed
from mcp_baton.testing.client import Client
from tests.model.driver import Difference, connected
from tests.model.language import Task
from tests.model.plan import HOUR, PIN, Plan, World, key_of
from tests.model.random_plans import random_plan
from tests.model.tools import Tools
from tests.model.views import Views

MOST_EVENTS, MOST_RUNS = 120, 60
MOST_KILLS = 2
"""After the third kill without progress, a call in the background ends."""

LEASE_S, SWEEP_S = 45.0, 60.0
LIVENESS_S = 2 * LEASE_S + SWEEP_S + 1


def random_plan_to_kill(seed: int) -> tuple[Plan, World]:
    """Return the plan and the world of a seed, without failures, missing values, denials and late decisions."""
    plan, world = deepcopy(random_plan(seed))
    world.kills = 1 + seed % MOST_KILLS
    world.denied = world.expiring = world.early = ()
    world.changes, world.meanwhile, world.form = 0, "", False
    world.unreadable = {}
    world.arguments.setdefault("b", 3)
    for tool in plan.tools.values():
        tool.fails = 0
    for approval in [*(tool.approval for tool in plan.tools.values()), *(line.approval for line in plan.lines)]:
        if approval is not None:
            approval.expires_s = 48 * HOUR  # no approval expires while a wait ends
    for line in plan.lines:
        if line.kind == "tool":
            line.arguments.setdefault("x", ("constant", 7))
    return plan, world


def ideal_end(plan: Plan, world: World) -> Task | None:
    """Return the task at its end if no function is killed and everybody does what is needed; `None` if it does not
    complete."""
    task, now = Task(plan, world, in_background=plan.way == "task"), 0.0
    for name, value in world.answers.items():
        task.answer(name, value)
    for _ in range(MOST_RUNS):
        task.run(now)
        if task.status == "completed":
            return task
        requests = task.waiting_requests(now)
        for request in requests:
            task.decide(request, "approved")
        callbacks = [name for name in waiting_callbacks(task) if name not in world.silent]
        for name in callbacks:
            task.call_back(name, body_for(name))
        if not requests and not callbacks:
            due = task.due(now)
            if due is None:
                return None
            now = due + 1
    return None


def waiting_callbacks(task: Task) -> list[str]:
    """The steps that wait for callbacks, and whose addresses other systems have."""
    names = [
        stop.step for stop in task.stops if task.plan.line(stop.step).kind == "callback" and stop.type == "waiting"
    ]
    return [name for name in names if any(task.plan.tools[tool].callback == name for tool, _ in task.calls)]


def body_for(step: str) -> int:
    return int(step.removeprefix("s"))


def drive_with_kills(plan: Plan, world: World, *, trace: Callable[[str], None] = lambda _: None) -> bool:
    """Run a plan to its end, and kill its functions. Returns whether the plan completes without kills."""
    ideal = ideal_end(plan, world)
    if ideal is None:
        return False
    with connected(plan, world) as (client, tools):
        KillDriver(client, tools, ideal, trace).run()
    return True


class KillDriver:
    """Everybody around one plan, and who kills its functions."""

    def __init__(self, client: Client, tools: Tools, ideal: Task, trace: Callable[[str], None]) -> None:
        self.client, self.tools, self.ideal, self.trace = client, tools, ideal, trace
        self.plan, self.world = ideal.plan, ideal.world
        self.people = client.as_owner("ada", scopes=["people"])
        self.rng = Random(f"kills {self.world.seed}")
        self.left = self.world.kills
        self.kills = 0
        self.approved = 0
        self.task_id = ""
        self.called_back: set[str] = set()

    def run(self) -> None:
        self.client.answers(None)
        for _ in range(MOST_EVENTS):
            self.task_id = self.task_id or self.find_task()
            if not self.task_id:
                self.kill_during(self.start)
                continue
            task = self.client.task(self.task_id)
            if task.status != "working":
                self.check_end(task)
                return
            if not self.call_back():
                self.kill_during(self.do_something)
        raise Difference(f"kills: the plan does not end; {self.client.task(self.task_id)!r}")

    def find_task(self) -> str:
        listed: Any = self.client.call_tool("flow", {"task_action": "list"}).structured
        return next((str(task["task_id"]) for task in listed["tasks"]), "")

    def kill_during(self, act: Callable[[], None]) -> None:
        """Do something, and perhaps kill the function that it invokes, after a write or a tool."""
        if self.left == 0 or self.rng.random() < 0.4:
            act()
            return
        what = self.rng.choice(["UpdateItem", "UpdateItem", "PutItem", *self.plan.tools])
        self.trace(f"kill: after {what}")
        killed = self.client.killed_after(what)
        with suppress(Killed):
            act()
        if not killed.happened:
            with suppress(AssertionError), killed:
                pass  # it is disarmed
            return
        self.left -= 1
        self.kills += 1
        self.trace("killed")
        self.client.clock.advance(LIVENESS_S if self.plan.way == "task" else LEASE_S + 1)
        self.check_alive()

    def check_alive(self) -> None:
        """After a kill, a call in the background has ended, or its workflow waits for somebody."""
        if not (task_id := self.task_id or self.find_task()):
            return
        views = Views(self.client, task_id)
        for text in views.contradictions():
            raise Difference(f"views: {text}")
        pause = views.meta.get("_workflow.pause_reason")
        is_interrupted = pause is not None and pause["type"] == "interrupted"
        if self.plan.way == "task" and is_interrupted and views.got["status"] == "working":
            raise Difference(f"kills: two leases and a sweep after a kill, the task does not continue: {views.got}")

    def start(self) -> None:
        self.trace("start")
        pin = {"pin": PIN} if self.plan.secret else {}
        self.call({**self.world.arguments, **pin})

    def call(self, arguments: dict[str, Any]) -> None:
        answers = {"answers": self.world.answers} if self.world.answers and self.plan.way != "prompt" else {}
        if self.plan.way == "task":
            self.client.start_task("flow", {**arguments, **answers})
        elif self.plan.way == "prompt" and "task_id" not in arguments:
            self.client.get_prompt("flow", {name: str(value) for name, value in arguments.items()})
        else:
            answers = {"answers": self.world.answers} if self.world.answers else {}
            run = self.client.call_workflow("flow", {**arguments, **answers})
            if run.is_error:
                raise Difference(f"kills: the workflow's tool returned an error: {run.text}")

    def do_something(self) -> None:
        """Approve, call back, let time pass, or let the server continue."""
        approvals = self.people.approvals()
        task = self.client.task(self.task_id)
        if approvals:
            self.approved += 1
            # In the order of the steps, as without kills: which call comes last decides the task variable that all set.
            first = min(approvals, key=lambda approval: str(approval["step"]))
            self.trace(f"person: approves {first['step']}")
            self.people.approve(first["approvalId"])
        else:
            if task.paused and task.pause.type == "waiting":
                left_s = datetime.fromisoformat(task.pause.until).timestamp() - self.client.clock.now_ms() / 1000
                seconds = min(HOUR, max(left_s, 0) + 1)  # a callback is waited for longer than an hour
                self.trace(f"clock: {seconds:.0f} s pass")
                self.client.clock.advance(seconds)
                if self.client.task(self.task_id).status != "working":
                    return
            # A kill before the call's task was created leaves the workflow to its client.
            if self.plan.way != "task" or not task.paused or task.pause.type != "waiting" or self.rng.random() < 0.1:
                self.trace("continue")
                self.call({"task_id": self.task_id, **({"pin": PIN} if self.plan.secret else {})})
        if self.plan.way == "task":
            self.client.clock.advance(SWEEP_S)

    def call_back(self) -> bool:
        """Let another system use an address that it has. Returns whether it has used one."""
        for line in self.plan.lines:
            if line.kind == "callback" and line.name not in {*self.world.silent, *self.called_back}:
                with suppress(ValueError, BatonError):  # there is no address yet, or the step was skipped
                    self.client.send_callback(self.task_id, line.name, body_for(line.name))
                    self.trace(f"callback: for {line.name}")
                    self.called_back.add(line.name)
                    return True
        return False

    def check_end(self, task: Any) -> None:
        if task.status != "completed" or dict(task.steps) != self.ideal.statuses:
            raise Difference(f"kills: the model ends with {self.ideal.statuses}, the server with {task!r}")
        values = {name: task.variables.get(f"_workflow.result.{name}") for name in self.ideal.values}
        if key_of(values) != key_of(self.ideal.values):
            raise Difference(f"kills: the model has the values {self.ideal.values}, the server {values}")
        self.check_calls()

    def check_calls(self) -> None:
        """Each call is made, and at most once more for each kill. A repetition has the same idempotency key."""
        ideal = Counter(map(key_of, self.ideal.calls))
        real = Counter(map(key_of, self.tools.calls))
        calls_by_key = dict(zip(self.tools.keys, map(key_of, self.tools.calls), strict=True))
        keys = Counter(calls_by_key.values())
        for call in ideal.keys() | real.keys():
            if not ideal[call] <= real[call] <= ideal[call] * (1 + self.kills):
                raise Difference(f"kills: {call} was made {real[call]} times, and without kills {ideal[call]} times")
            if keys[call] != ideal[call]:
                raise Difference(f"kills: {call} had {keys[call]} idempotency keys; it is made {ideal[call]} times")
        # Two runs may use an approval. If both are killed, each of their parallel calls needs another one.
        if self.approved > len(self.ideal.requests) * (1 + self.kills // 2):
            raise Difference(f"kills: {self.approved} approvals, and without kills {len(self.ideal.requests)}")
