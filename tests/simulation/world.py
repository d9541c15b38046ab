"""One simulation: a table, two owners, invocations on one task, faults, and a judge that checks every write."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any, NoReturn, cast

from msgspec.structs import replace

from mcp_baton import Server
from mcp_baton.exceptions import ToolError
from mcp_baton.features import AllFeatures
from mcp_baton.protocol.envelope import TASK_ID_KEY
from mcp_baton.protocol.json import Json
from mcp_baton.protocol.state import seal_of
from mcp_baton.server.endpoint import Endpoint
from mcp_baton.stores import DynamoDBStore
from mcp_baton.tasks.dynamodb.expressions import TOKEN_SET_MS
from mcp_baton.tasks.dynamodb.items import LARGE_ATTRIBUTES, Limits
from mcp_baton.tasks.dynamodb.lists import record_in
from mcp_baton.tasks.dynamodb.outside import chunk_sort_key, list_partition, piece_key
from mcp_baton.tasks.dynamodb.table import LazyClient, TaskTable
from mcp_baton.tasks.jobs import Dispatcher
from mcp_baton.tools.context import Context
from mcp_baton.tools.running.tool_threads import Mail, Raised, Returned
from mcp_baton.workflow.services import Services
from mcp_baton.workflow.steps.step import Step
from tests.simulation.client import PlainClient, SentRequest, SimulatedClient
from tests.simulation.dynamodb.database import Change, Key, key_of
from tests.simulation.dynamodb.paths import Item
from tests.simulation.dynamodb.versions import VersionedDatabase
from tests.simulation.faults import HOT_MS, KILLS, SKEWS_S, STALLS, Fault, Weather
from tests.simulation.heads import expires_ms, pointer_of, serial_in, variables_of
from tests.simulation.invariants import TASK, Judge
from tests.simulation.invocations import (
    HANDSHAKE_ONLY,
    OTHER_OWNER,
    OWNER,
    SETTINGS,
    STATELESS_ONLY,
    Trigger,
    invoke,
    listen_message,
    task_message,
)
from tests.simulation.journal import Container, Process, ToolCall
from tests.simulation.replies import Replies
from tests.simulation.scheduler import Actor, Killed, Scheduler, current_actor
from tests.simulation.servers import PLANS, Plan, constants_of, workflow_server

BEGIN_MS = 1_800_000_000_000.0 // TOKEN_SET_MS * TOKEN_SET_MS
STALL_MS = 2_000
SPAN_OFFSETS_MS = (0, 30_000, TOKEN_SET_MS - 2_000, TOKEN_SET_MS - 100)
DELAYS_MS = (0, 0, 0, 5, 50, 500, 5_000, 20_000, 44_000, 50_000, 130_000)
KINDS = ("resume",) * 7 + ("call",) * 8 + ("poll",) * 3 + ("list", "listen", "begin", "result", "cancel", "complete")
SHARED_VALUE = Random(0).randbytes(3_000).hex()
"""A value that several tasks have."""
UNRELATED_KINDS = frozenset({"begin", "list", "listen", "result"})
CROWD_KINDS = ("begin",) * 9 + ("list",) * 4 + ("listen", "resume", "call", "cancel", "complete")
"""The requests of clients that create many tasks."""
QUOTAS = (None, None, 1, 2)
TIME_LIMITS_S = (None, None, 29.0, 60.0, 900.0)
TTLS_MS = (*(None,) * 9, 30_000, 100_000, 300_000)

type Rewrite = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]
"""How a mutant changes a request: receives its operation and its parameters."""


class World:
    """A simulation of one seed.

    Attributes:
        stateless: Whether clients use the 2026 revision for methods that exist in both.

    Args:
        rewrite: Changes each request before it is sent.
        strict: Whether the first broken invariant ends the simulation.
    """

    judge: Judge
    judge_type: type[Judge] = Judge

    settings = SETTINGS
    runs: frozenset[str] = frozenset({"start", "resume"})
    stateless = False
    most_pages = 10
    delays_ms: tuple[int, ...] = DELAYS_MS

    def __init__(self, seed: int, *, rewrite: Rewrite | None = None, strict: bool = True) -> None:
        self.seed, self.is_strict = seed, strict
        self.rng = rng = Random(seed)
        self.weather = Weather.choose(rng)
        self.plan: Plan = rng.choice(PLANS)
        self.ttl_ms = rng.choice(TTLS_MS)
        self.failure_chance = rng.choice((0.0, 0.2, 0.5))
        by_priority = seed % 2 == 1
        began_ms = BEGIN_MS + rng.choice(SPAN_OFFSETS_MS)
        self.deployed_ms = began_ms + rng.choice((0, 40, 400, 60_000)) if rng.random() < 0.25 else None
        self.scheduler = Scheduler(rng, began_ms, by_priority=by_priority, tick_ms=rng.choice((1.0, 5.0, 50.0, 400.0)))
        self.database = VersionedDatabase(
            on_write=self._on_write, now_ms=lambda: self.scheduler.now_ms, lag_ms=self._lag_ms
        )
        hot_ms = began_ms + rng.choice((0, 50, 2_000))
        self.hot = hot_ms, hot_ms + rng.choice(HOT_MS)
        self.known_ids: list[str] = []
        self.trace: list[tuple[float, str, str]] = []
        self.processes: dict[str, Process] = {}
        self.task_id: str | None = None
        self.calls: list[ToolCall] = []
        self.is_judging = False
        quota = rng.choice(QUOTAS)
        self.limits = Limits(max_ttl_ms=3_600_000, max_tasks_per_owner=quota, page_size=rng.choice((1, 2, 50)))
        self.uncounted = self.deployed_ms is not None and rng.random() < 0.5
        self.incidents: set[str] = set()
        self.replies = Replies(self)
        self.containers: list[Container] = []
        self._reuse_chance = rng.choice((0.0, 0.5, 0.9))
        self._rewrite = rewrite
        self._current_request: SentRequest | None = None
        self.dispatcher: Dispatcher | None = None
        self.kinds: tuple[str, ...] = CROWD_KINDS if rng.random() < 0.15 else KINDS
        self._other_invocations = rng.randrange(7)
        # Another generator chooses this, so that earlier seeds keep their course.
        self._creation_is_late = Random(f"late creation {seed}").random() < 0.03
        self._names = Random(f"names {seed}")
        self._names_steps = self._names.random() < 0.3
        self._set_up()
        self.judge = self.judge_type(self)

    def _set_up(self) -> None:
        """Choose what only this kind of simulation has. Kinds that extend another one choose after it."""

    # The course of a simulation.

    def run(self) -> None:
        """Run the simulation. Then check that the task can be polled and resumed without faults."""
        self._invoke(Trigger("start"))
        self.scheduler.run()
        self.weather.is_over = True
        self.judge.check_settled()
        if self.task_id is not None:
            self._resume_at_the_end(self.judge, "poll")

    def _resume_at_the_end(self, judge: Judge, poll: str) -> None:
        """Poll the judge's task when every claim has ended, and resume it."""
        self.scheduler.now_ms += 2 * judge.lease_ms + self.fast_ms
        self._invoke(Trigger(poll, last=True))
        self.scheduler.run()
        self._invoke(Trigger("resume", last=True))
        head = judge.head
        self.scheduler.run()
        judge.check_end(head)

    def _invoke(self, trigger: Trigger, after_ms: float = 0.0) -> None:
        name = f"{trigger.kind}{len(self.processes)}"
        actor = Actor(name, lambda: None, self.scheduler.now_ms + after_ms)
        is_unrelated = trigger.kind in UNRELATED_KINDS or trigger.owner != OWNER
        is_run = trigger.kind in self.runs and not is_unrelated
        process = Process(trigger.kind, actor, None, actor.wake_ms, is_run, trigger.owner, is_unrelated)
        self.processes[name] = process
        actor.run = lambda: self._serve(process, trigger)
        self.scheduler.add(actor)

    def _serve(self, process: Process, trigger: Trigger) -> None:
        """Run an invocation in a container, which is free again afterwards."""
        container, time_s = self._take_container(trigger), None if trigger.last else self._time_limit_s(trigger)
        process.container, process.began_ms, process.writes = container, self.scheduler.now_ms, self.database.writes
        process.ends_ms = None if time_s is None else process.began_ms + time_s * 1000
        process.fast_ms = container.skew_s * 1000
        container.processes.append(process)
        container.freeze(frozen=False)
        self._handle(process, trigger)
        process.ended_writes = self.database.writes
        container.freeze(frozen=True)
        self.containers.append(container)

    def _take_container(self, trigger: Trigger) -> Container:
        """Return a free container, or a new one. A deployment replaces all containers."""
        free = [container for container in self.containers if container.edited is self.edited]
        if free and not trigger.last and self.rng.random() < self._reuse_chance:
            self.incidents.add("a container was used again")
            reused_container = self.rng.choice(free)
            self.containers.remove(reused_container)
            return reused_container
        skew_s = 0.0 if trigger.last else self.weather.skew_s()
        if skew_s:
            self.incidents.add(f"a clock was {abs(skew_s):g} s off")
        is_uncounted = self.uncounted and not self.edited
        container = Container(
            self.edited, replace(self.limits, max_tasks_per_owner=None) if is_uncounted else self.limits, skew_s
        )
        container.store = self._store(container)
        return container

    def _time_limit_s(self, _trigger: Trigger) -> float | None:
        return self.rng.choice(TIME_LIMITS_S)

    def _handle(self, process: Process, trigger: Trigger) -> None:
        invoke(self, process, trigger)

    def stored(self, task_id: str, name: str) -> Json:
        """Read a stored variable."""
        with self.store_without_faults() as store:
            return store.get(OWNER, task_id).variables[name]

    @contextmanager
    def store_without_faults(self) -> Iterator[DynamoDBStore]:
        """The store of a process without faults, whose clock shows 0."""
        client: Any = PlainClient(self.database)
        table = TaskTable("tasks", LazyClient(lambda: client), clock_ms=lambda: 0)
        self.is_judging = True
        try:
            yield DynamoDBStore(table)
        finally:
            self.is_judging = False

    def values_of(self, key: Key, head: Item) -> Iterator[tuple[str, float]]:
        """Yield the values outside a task's item, with the expiry of the items that store them, epoch seconds."""
        owner = key[0].removeprefix("OWNER#")
        large_attributes = {name: head[name] for name in LARGE_ATTRIBUTES if name in head}
        for name, attribute in {**variables_of(head), **large_attributes}.items():
            task_id = key[1].removeprefix(TASK)
            record = record_in(cast("Any", attribute))
            for number in record.chunks if record else ():
                partition = list_partition(owner, task_id, record.id if record else "")
                piece = self.database.items.get((partition, chunk_sort_key(number, 0)))
                yield name, 0.0 if piece is None else int(piece["expires_at"]["N"])
            pointer = pointer_of(attribute)
            if pointer is None:
                continue
            key_item: Any = piece_key(owner, task_id, pointer.bundle, 0)
            piece = self.database.items.get(key_of(key_item))
            yield name, 0.0 if piece is None else int(piece["expires_at"]["N"])

    def step_of_call(self, call: ToolCall) -> str | None:
        """Return the step that makes exactly this call with constant arguments only, as its process knows it."""
        container = call.process.container
        for step in self.steps(edited=container.edited if container else None):
            constants = constants_of(step)
            equal_arguments = (constants, {"text": "", **constants})  # an omitted text is empty
            if step.tool == call.tool and len(constants) == len(step.arguments) and call.arguments in equal_arguments:
                return step.name
        return None

    def steps(self, *, edited: bool | None = None) -> Sequence[Step]:
        workflow = self.server(edited=self.edited if edited is None else edited).workflows.get(self.plan.name)
        return workflow.steps if workflow else ()

    def on_creation(self, task_id: str) -> None:
        if self.task_id is None:
            self.task_id = task_id
            for _ in range(self._other_invocations):
                owner = OTHER_OWNER if self.rng.random() < 0.1 else OWNER
                self._invoke(Trigger(self.rng.choice(self.kinds), owner=owner), self.rng.choice(self.delays_ms))

    @property
    def fast_ms(self) -> float:
        """How far the fastest clock is ahead, milliseconds. Other processes may have to wait this much longer for its
        claims."""
        return max(0.0, *(process.fast_ms for process in self.processes.values()))

    @property
    def edited(self) -> bool:
        return self.deployed_ms is not None and self.scheduler.now_ms >= self.deployed_ms

    # Requests.

    def rewrite_request(self, operation: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        return request if self._rewrite is None else self._rewrite(operation, request)

    def message(self, process: Process, trigger: Trigger) -> tuple[str, dict[str, Json]]:
        meta: dict[str, Json] = {"_meta": {TASK_ID_KEY: self.task_id}}
        match trigger.kind:
            case "listen":
                return listen_message(self.task_id, self.known_ids)
            case "start" | "begin":
                ttl: dict[str, Json] = {"task": {"ttl": self.ttl_ms}} if self.ttl_ms else {}
                return "prompts/get", {"name": self.plan.name, "arguments": {"key": "A"}, **ttl}
            case "resume":
                return "prompts/get", {"name": self.plan.name, "arguments": {}, **meta}
            case "call":
                tool, arguments = self.rng.choice(self.plan.calls)
                if self._names_steps and self._names.random() < 0.6:
                    process.named_step = self._names.choice([*self.names_of(tool), "gone"])
                    self.incidents.add("a call named its step")
                    meta = {"_meta": {TASK_ID_KEY: f"{self.task_id}/{process.named_step}"}}
                return "tools/call", {"name": tool, "arguments": arguments, **meta}
            case _:
                return task_message(self.task_id, trigger.kind)

    def names_of(self, tool: str) -> list[str]:
        """Return how a call of a tool may name its step."""
        return [step.name for step in self.steps() if step.tool == tool]

    def is_stateless(self, method: str) -> bool:
        if method in STATELESS_ONLY or method in HANDSHAKE_ONLY:
            return method in STATELESS_ONLY
        return self.stateless or (method == "tasks/get" and self.rng.random() < 0.3)

    def register_request(self, operation: str, partition: str) -> SentRequest:
        process = self.processes[current_actor().process.name]
        request = SentRequest(operation, partition, process, self.scheduler.now_ms)
        process.requests.append(request)
        return request

    def choose_fault(self, request: SentRequest) -> Fault | None:
        creates = request.operation == "PutItem" and request.partition.startswith("OWNER#")
        if creates and request.process.kind == "start" and self._creation_is_late:
            return Fault.LATE
        from_ms, to_ms = self.hot
        is_hot = from_ms <= self.scheduler.now_ms < to_ms and request.partition.startswith("OWNER#")
        if is_hot and not self.weather.is_over:
            return Fault.HOT
        return self.weather.next_fault()

    def make_request(self, operation: str, params: Mapping[str, Any], request: SentRequest) -> dict[str, Any]:
        self._current_request = request
        request.process.asked_ms = self.scheduler.now_ms
        return self.database.request(operation, params)

    def _lag_ms(self) -> float:
        """Choose the age of the data that an eventually consistent read returns, milliseconds."""
        lag_ms = 0.0 if self.is_judging else self.weather.lag_ms()
        if lag_ms:
            self.incidents.add("a read may have been stale")
        return lag_ms

    def _on_write(self, change: Change) -> None:
        self.database.keep(change)
        request = None if change.operation == "expire" else self._current_request
        process = request.process if request else None
        if process is not None and change.before is None and change.key[1].startswith(TASK):
            process.created = change.key[1]
            self.known_ids.append(change.key[1].removeprefix(TASK))
        number = self.judge.check_write(change, process, self.scheduler.now_ms)
        if request is not None:
            self.judge.check_expiry(change, request.process, request.began_ms)
            request.write_numbers.append(number)
        if process is not None:
            self.note(process.actor, f"{change.operation} #{number} {self.judge.describe(change)}")
        expires = change.after.get("expires_at") if change.after else None
        if expires is not None and (change.before is None or change.before.get("expires_at") != expires):
            self._schedule_expiry(change, int(expires["N"]) * 1000)

    def _schedule_expiry(self, change: Change, at_ms: int) -> None:
        """Schedule the deletion of an expired item, at once or later."""
        if at_ms - self.scheduler.now_ms < 400_000:
            key, wait_ms = change.key, at_ms - self.scheduler.now_ms + self.rng.choice((1_000, 30_000))
            self.run_later(None, wait_ms / 1000, lambda: self._expire(key))

    def _expire(self, key: tuple[str, str]) -> None:
        item = self.database.items.get(key)
        if item is not None and expires_ms(item) <= self.scheduler.now_ms:
            self.trace.append((self.scheduler.now_ms, "-", f"{key[1]} is deleted"))
            self.incidents.add("an expired item was deleted")
            self.database.expire(key)

    # Time and faults.

    def point(self, actor: Actor) -> None:
        due_ms = max(actor.wake_ms, self.scheduler.now_ms)
        self.scheduler.point(actor)
        self.continue_actor(actor, due_ms)

    def sleep(self, seconds: float) -> None:
        """Let time pass for the current actor."""
        actor = current_actor()
        due_ms = self.scheduler.now_ms + seconds * 1000
        self.scheduler.sleep(actor, seconds)
        self.continue_actor(actor, due_ms)

    def stall(self, actor: Actor, seconds: float | None = None) -> None:
        """Stall the whole process of an actor, for this long or as long as the weather chooses."""
        self.incidents.add("a process stalled")
        seconds = self.weather.stall_s() if seconds is None else seconds
        process = self._running_process(actor)
        actors = [actor] if process is None or process.container is None else process.container.actors
        for stalled_actor in actors:
            stalled_actor.wake_ms = max(stalled_actor.wake_ms, self.scheduler.now_ms + seconds * 1000)
        due_ms = self.scheduler.now_ms
        # Set before the point, because any of its actors may continue first.
        if process is not None and seconds * 1000 > STALL_MS:
            process.stalled, process.stalled_ms = True, due_ms + seconds * 1000
            if process.is_run and seconds * 1000 > self.judge.lease_ms:
                self._invoke(Trigger("resume"), self.judge.lease_ms + self.rng.choice((1, 100, 700)))
        if process is not None and process.container is not None and self.weather.freezes:
            self._stop_clocks(process.container, seconds)
        self.scheduler.point(actor)
        self.continue_actor(actor, due_ms)

    def _stop_clocks(self, container: Container, seconds: float) -> None:
        """Stop the container's monotonic clock for this time. The wall clock may stop, too."""
        self.incidents.add("a clock stopped")
        container.stopped_s += seconds
        if self.rng.random() < 0.5 and container.skew_s - seconds >= min(SKEWS_S):
            container.skew_s -= seconds

    def _running_process(self, actor: Actor) -> Process | None:
        """Return the invocation that currently runs in the actor's container. Another invocation may have started the
        actor."""
        process = self.processes.get(actor.process.name)
        return process if process is None or process.container is None else process.container.processes[-1]

    def continue_actor(self, actor: Actor, due_ms: float) -> None:
        """Let an actor continue. Note a stall if it is late. Stop the process if its time is over."""
        process = self._running_process(actor)
        if process is None:
            return
        if self.scheduler.now_ms - due_ms > STALL_MS:
            # A thread of an earlier invocation may continue during a later one.
            for late_process in (process, self.processes[actor.process.name]):
                late_process.stalled, late_process.stalled_ms = True, self.scheduler.now_ms
        # Baton plans for the time of an attempt, but not for slow ticks. Workers have no client that waits.
        slow_ms = 0 if process.kind == "work" else 2 * self.scheduler.tick_ms
        if process.ends_ms is not None and self.scheduler.now_ms > process.ends_ms + slow_ms:
            if not process.is_unrelated:
                self.judge.check_stopped(process)
            self.kill(actor, "is stopped by Lambda")

    def kill(self, actor: Actor, description: str) -> NoReturn:
        self.note(actor, description)
        process = self.processes[actor.process.name]
        assert process.container is not None
        process.container.kill()
        raise Killed

    def run_later(self, actor: Actor | None, seconds: float, function: Callable[[], None]) -> None:
        """Run a function after this many seconds, even if the actor has ended by then."""
        name = f"{actor.process.name if actor else ''}~{self.scheduler.points}"
        self.scheduler.add(Actor(name, function, self.scheduler.now_ms + seconds * 1000))

    def note(self, actor: Actor, text: str) -> None:
        self.trace.append((self.scheduler.now_ms, actor.name, text))

    # A process's parts.

    def monotonic(self) -> float:
        process = self.processes.get(current_actor().process.name)
        stopped_s = process.container.stopped_s if process and process.container else 0.0
        return self.scheduler.now_ms / 1000 - stopped_s

    def _clock_ms(self, container: Container) -> int:
        process, shown_ms = container.processes[-1], int(self.scheduler.now_ms + container.skew_s * 1000)
        process.clock_read_ms, process.shown_ms = self.scheduler.now_ms, max(process.shown_ms, shown_ms)
        return shown_ms

    def _store(self, container: Container) -> DynamoDBStore:
        client = SimulatedClient(self)
        table = TaskTable(
            "tasks",
            LazyClient(cast("Any", lambda: client)),
            clock_ms=lambda: self._clock_ms(container),
            monotonic=self.monotonic,
            sleep=self.sleep,
            rng=self.rng.random,
        )
        return DynamoDBStore(table, container.limits)

    def server(self, *, edited: bool) -> Server:
        return workflow_server(edited=edited)

    def endpoint(self, process: Process) -> Endpoint:
        container = process.container
        assert container is not None
        return Endpoint(
            Services(
                server=self.server(edited=container.edited).full_view,
                store=container.store,
                settings=self.settings,
                seal=seal_of(self.settings),
                features=AllFeatures(),
                clock=self.monotonic,
                sleep=self.sleep,
                dispatcher=self.dispatcher,
            )
        )

    def call_tool(self, tool: str, arguments: dict[str, Json], ctx: Context) -> dict[str, Json]:
        actor = current_actor()
        process, began_ms = self.processes[actor.process.name], self.scheduler.now_ms
        self._maybe_kill(actor, Fault.KILLED_BEFORE, f"killed before {tool}")
        key = getattr(ctx, "idempotency_key", None)
        call = ToolCall(len(self.calls) + 1, process, tool, arguments, key, began_ms)
        self.calls.append(call)
        process.calls.append(call)
        self.note(actor, f"calls {tool} {arguments} #{call.serial}")
        self.judge.check_call(call)
        self._take_time(actor)
        if ctx.task is not None and self.rng.random() < (0.7 if tool == "weigh" else 0.3):
            ctx.task[f"last_{tool}"] = SHARED_VALUE if tool == "weigh" else call.serial
        self._maybe_kill(actor, Fault.KILLED_AFTER, f"killed after {tool}")
        if not self.weather.is_over and self.rng.random() < self.failure_chance:
            raise ToolError(f"failed #{call.serial}", retryable=self.rng.random() < 0.7)
        pad = self.rng.randbytes(self.rng.choice((200, 800, 3_000))).hex() if tool == "weigh" else ""
        return {"serial": call.serial, "n": 7, "pad": pad}

    def note_outcome(self, mail: Mail | None) -> None:
        """Note that the caller of a tool has received its outcome."""
        match mail:
            case Returned(value):
                serial = serial_in(cast("Json", value))
            case Raised(error):
                serial = serial_in({"error": str(error)})
            case _:
                return
        if serial is not None:
            call = self.calls[serial - 1]
            call.has_outcome, call.has_result = True, isinstance(mail, Returned)

    def _take_time(self, actor: Actor) -> None:
        if self.weather.happens(STALLS):
            self._stall_or_sleep(actor)

    def _stall_or_sleep(self, actor: Actor) -> None:
        """Take some time, or stall the process."""
        if self.rng.random() < 0.5:
            self.note(actor, "stalls")
            self.stall(actor)
        else:
            seconds = self.weather.stall_s()
            self.note(actor, f"takes {seconds:g} s")
            self.sleep(seconds)

    def _maybe_kill(self, actor: Actor, fault: Fault, description: str) -> None:
        self.point(actor)
        if fault in KILLS and self.weather.happens((fault,)):
            self.incidents.add(fault.description)
            self.kill(actor, description)


class ParallelWorld(World):
    """The same workflows with up to three parallel steps."""

    def server(self, *, edited: bool) -> Server:
        return workflow_server(edited=edited, parallel=3)
