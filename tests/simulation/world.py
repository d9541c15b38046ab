"""One simulation: a table, some invocations around one task, faults, and a judge that looks at every write."""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, cast

from mcp_baton import Step
from mcp_baton.exceptions import ToolError
from mcp_baton.protocol.json import Json
from mcp_baton.server.context import Context
from mcp_baton.server.running.worker import Mail, Raised, Returned
from mcp_baton.tasks.dynamodb.expressions import SPAN_MS
from mcp_baton.tasks.dynamodb.items import Limits
from mcp_baton.tasks.dynamodb.store import DynamoDBTaskStore
from tests.simulation.bucket import PlainBucket, SimulatedBucket
from tests.simulation.client import PlainClient, Sent, SimulatedClient
from tests.simulation.dynamodb.database import Change, Database
from tests.simulation.faults import KILLS, STALLS, Fault, Weather
from tests.simulation.heads import serial_in
from tests.simulation.invariants import Judge
from tests.simulation.invocations import OWNER, Ask, invoke
from tests.simulation.journal import Called, Process
from tests.simulation.scheduler import Actor, Killed, Scheduler, current
from tests.simulation.servers import PLANS, Plan, constants_of, server

BEGIN_MS = 1_800_000_000_000.0 // SPAN_MS * SPAN_MS
STOOD_STILL_MS = 2_000
INTO_A_SPAN_MS = (0, 30_000, SPAN_MS - 2_000, SPAN_MS - 100)
DELAYS_MS = (0, 0, 0, 5, 50, 500, 5_000, 20_000, 44_000, 50_000, 130_000)
KINDS = ("resume",) * 7 + ("call",) * 8 + ("poll",) * 2 + ("cancel", "complete")
TIMES_S = (None, None, 29.0, 60.0, 900.0)
TTLS_MS = (*(None,) * 9, 30_000, 100_000, 300_000)

type Rewrite = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]
"""What a mutant makes of a request: its name, its parameters."""


class World:
    """A simulation of one seed.

    Attributes:
        runs: The kinds of invocations that run a workflow.

    Args:
        seed: What everything is drawn from.
        rewrite: What happens to each request before it is sent.
        strict: Whether the first broken invariant ends the simulation.
    """

    runs: frozenset[str] = frozenset({"start", "resume"})

    def __init__(self, seed: int, *, rewrite: Rewrite | None = None, strict: bool = True) -> None:
        self.rng = Random(seed)
        rng = self.rng
        self.weather = Weather.drawn(rng)
        self.plan: Plan = rng.choice(PLANS)
        self.ttl_ms = rng.choice(TTLS_MS)
        self.failing = rng.choice((0.0, 0.2, 0.5))
        by_priority = seed % 2 == 1
        began_ms = BEGIN_MS + rng.choice(INTO_A_SPAN_MS)
        self.deployed_ms = began_ms + rng.choice((0, 40, 400, 60_000)) if rng.random() < 0.25 else None
        self.scheduler = Scheduler(rng, began_ms, by_priority=by_priority, tick_ms=rng.choice((1.0, 5.0, 50.0, 400.0)))
        self.database = Database(changed=self._changed)
        self.bucket: dict[str, bytes] | None = {} if rng.random() < 0.3 else None
        self.trace: list[tuple[float, str, str]] = []
        self.processes: dict[str, Process] = {}
        self.task_id: str | None = None
        self.calls: list[Called] = []
        self.judging = False
        self.limits = Limits(max_ttl_ms=3_600_000)
        self.struck: set[str] = set()
        self.judge: Judge = Judge(self, strict=strict)
        self._rewrite = rewrite
        self._writing: tuple[Process, Sent] | None = None
        self._others = rng.randrange(7)

    # What simulations do.

    def run(self) -> None:
        """Run it to its end, and then see what the task can still do without faults."""
        self._invoke(Ask("start"))
        self.scheduler.run()
        self.weather.over = True
        self.judge.settled()
        if self.task_id is not None:
            self.scheduler.now_ms += 2 * self.judge.lease_ms + self.fast_ms
            self._invoke(Ask("poll", last=True))
            self.scheduler.run()
            self._invoke(Ask("resume", last=True))
            head = self.judge.head
            self.scheduler.run()
            self.judge.ended(head)

    def _invoke(self, ask: Ask, after_ms: float = 0.0) -> None:
        name = f"{ask.kind}{len(self.processes)}"
        begins_ms = self.scheduler.now_ms + after_ms
        actor = Actor(name, lambda: None, begins_ms)
        skew_s = 0.0 if ask.last else self.weather.skew_s()
        if skew_s:
            self.struck.add(f"a clock was {abs(skew_s):g} s off")
        time_s = None if ask.last else self._times_s(ask)
        ends_ms = None if time_s is None else begins_ms + time_s * 1000
        process = Process(ask.kind, actor, skew_s, ends_ms, begins_ms, ask.kind in self.runs)
        self.processes[name] = process
        actor.run = lambda: self._answer(process, ask)
        self.scheduler.add(actor)

    def _times_s(self, _ask: Ask) -> float | None:
        """How much time Lambda gives an invocation, seconds."""
        return self.rng.choice(TIMES_S)

    def _answer(self, process: Process, ask: Ask) -> None:
        """What an invocation does."""
        invoke(self, process, ask)

    def stored(self, task_id: str, name: str) -> Json:
        """A variable as it stands, read by a process that nothing can happen to, whose clock stands at 0.

        Raises:
            StoreError: it cannot be read.
        """
        client: Any = PlainClient(self.database)
        objects = None if self.bucket is None else PlainBucket(self.bucket)
        store = DynamoDBTaskStore("tasks", lambda: client, objects=objects, now_ms=lambda: 0)
        self.judging = True
        try:
            return store.get(OWNER, task_id).variables[name]
        finally:
            self.judging = False

    def meant_by(self, call: Called) -> str | None:
        """The step that makes this very call: all of its arguments are constants."""
        for step in self.steps():
            constants = constants_of(step)
            made = (constants, constants | {"text": ""})  # a text that is not given is empty
            if step.tool == call.tool and len(constants) == len(step.arguments) and call.arguments in made:
                return step.name
        return None

    def steps(self) -> Sequence[Step]:
        """The steps of the workflow, as it is deployed."""
        return server(mended=self.mended).workflows[self.plan.name].steps

    def created(self, task_id: str) -> None:
        """A task was created: others can name it now."""
        if self.task_id is None:
            self.task_id = task_id
            for _ in range(self._others):
                self._invoke(Ask(self.rng.choice(KINDS)), self.rng.choice(DELAYS_MS))

    @property
    def fast_ms(self) -> float:
        """How far the fastest clock of all processes is ahead: by so much longer others may wait for its claims."""
        return max(0.0, *(process.skew_s for process in self.processes.values())) * 1000

    @property
    def mended(self) -> bool:
        """Whether the deployment has happened."""
        return self.deployed_ms is not None and self.scheduler.now_ms >= self.deployed_ms

    # What the client asks for.

    def rewritten(self, operation: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """A request as it is sent."""
        return request if self._rewrite is None else self._rewrite(operation, request)

    def sending(self, actor: Actor, operation: str) -> Sent:
        """A request begins."""
        sent = Sent(operation, self.scheduler.now_ms)
        self.processes[actor.process.name].requests.append(sent)
        return sent

    def strikes(self, _actor: Actor, _operation: str) -> Fault | None:
        """The fault that befalls a process' next request, if one does."""
        return self.weather.strikes()

    def make(self, actor: Actor, operation: str, request: Mapping[str, Any], sent: Sent) -> dict[str, Any]:
        """Make a request, now.

        Raises:
            Refusal: it is refused.
        """
        process = self.processes[actor.process.name]
        self._writing = process, sent
        process.asked_ms = self.scheduler.now_ms
        answer = self.database.request(operation, request)
        self.judge.requested(process, operation, request)
        return answer

    def _changed(self, change: Change) -> None:
        process, sent = self._writing if self._writing and change.operation != "expire" else (None, None)
        number = self.judge.changed(change, process, self.scheduler.now_ms)
        if sent is not None and process is not None:
            self.judge.sent(change, process, sent.began_ms)
            sent.written = [*(sent.written or ()), number]
        if process is not None:
            self.note(process.actor, f"{change.operation} #{number} {self.judge.told(change)}")
        expires = change.after.get("expires_at") if change.after else None
        if expires is not None and (change.before is None or change.before.get("expires_at") != expires):
            self._expires(change, int(expires["N"]) * 1000)

    def _expires(self, change: Change, at_ms: int) -> None:
        """DynamoDB deletes what has expired, at once or later."""
        if at_ms - self.scheduler.now_ms < 400_000:
            key, wait_ms = change.key, at_ms - self.scheduler.now_ms + self.rng.choice((1_000, 30_000))
            self.later(None, wait_ms / 1000, lambda: self._expire(key))

    def _expire(self, key: tuple[str, str]) -> None:
        item = self.database.items.get(key)
        if item is not None and int(item["expires_at"]["N"]) * 1000 <= self.scheduler.now_ms:
            self.trace.append((self.scheduler.now_ms, "-", f"{key[1]} is deleted"))
            self.struck.add("what had expired was deleted")
            self.database.expire(key)

    # Time and chance.

    def point(self, actor: Actor) -> None:
        """Give way to others."""
        due_ms = max(actor.wake_ms, self.scheduler.now_ms)
        self.scheduler.point(actor)
        self._came_back(actor, due_ms)

    def sleep(self, seconds: float) -> None:
        """Let time pass for the actor whose thread this is."""
        actor = current()
        assert actor is not None
        due_ms = self.scheduler.now_ms + seconds * 1000
        self.scheduler.sleep(actor, seconds)
        self._came_back(actor, due_ms)

    def stall(self, actor: Actor, seconds: float | None = None) -> None:
        """Let the actor's whole process stand still, for so long or as long as the weather says."""
        self.struck.add("a process stood still")
        seconds = self.weather.stall_s() if seconds is None else seconds
        process = actor.process
        for one in (process, *process.children):
            one.wake_ms = max(one.wake_ms, self.scheduler.now_ms + seconds * 1000)
        due_ms = self.scheduler.now_ms
        # Whichever of its actors goes on first.
        stood = self.processes.get(process.name)
        if stood is not None and seconds * 1000 > STOOD_STILL_MS:
            stood.stalled, stood.stalled_ms = True, due_ms + seconds * 1000
        self.scheduler.point(actor)
        self._came_back(actor, due_ms)

    def _came_back(self, actor: Actor, due_ms: float) -> None:
        """An actor goes on, later than by itself if it stood still. Lambda stops what has no time left."""
        process = self.processes.get(actor.process.name)
        if process is None:
            return
        if self.scheduler.now_ms - due_ms > STOOD_STILL_MS:
            process.stalled, process.stalled_ms = True, self.scheduler.now_ms
        # Baton knows what an attempt may take, and not that this machine is so slow besides. Nobody waits for workers.
        slow_ms = 0 if process.kind == "work" else 2 * self.scheduler.tick_ms
        if process.ends_ms is not None and self.scheduler.now_ms > process.ends_ms + slow_ms:
            self.note(actor, "is stopped by Lambda")
            self.judge.stopped(process)
            actor.process.kill()
            raise Killed

    def later(self, actor: Actor | None, seconds: float, what: Callable[[], None]) -> None:
        """Something happens after so many seconds, whatever has become of the actor by then."""
        name = f"{actor.process.name if actor else ''}~{self.scheduler.points}"
        self.scheduler.add(Actor(name, what, self.scheduler.now_ms + seconds * 1000))

    def note(self, actor: Actor, what: str) -> None:
        """Write down what happens."""
        self.trace.append((self.scheduler.now_ms, actor.name, what))

    # What a process has.

    def store(self, process: Process) -> DynamoDBTaskStore:
        """A store as a process has it."""
        scheduler, skew_ms = self.scheduler, process.skew_s * 1000
        client = SimulatedClient(self, process.actor)
        return DynamoDBTaskStore(
            "tasks",
            cast("Any", lambda: client),
            limits=self.limits,
            objects=SimulatedBucket(self, process.actor) if self.bucket is not None else None,
            now_ms=lambda: int(scheduler.now_ms + skew_ms),
            monotonic=lambda: scheduler.now_ms / 1000,
            sleep=self.sleep,
            random=self.rng.random,
        )

    def called(self, tool: str, arguments: dict[str, Json], ctx: Context) -> dict[str, Json]:
        """What a tool does when it is called."""
        actor = current()
        assert actor is not None
        process = self.processes[actor.process.name]
        self._maybe_killed(actor, Fault.KILLED_BEFORE, f"killed before {tool}")
        key = getattr(ctx, "idempotency_key", None)
        call = Called(len(self.calls) + 1, process, tool, arguments, key, self.scheduler.now_ms)
        self.calls.append(call)
        process.calls.append(call)
        self.note(actor, f"calls {tool} {arguments} #{call.serial}")
        self.judge.began(call)
        self._takes_time(actor)
        if ctx.task is not None and self.rng.random() < 0.3:
            ctx.task[f"last_{tool}"] = call.serial
        self._maybe_killed(actor, Fault.KILLED_AFTER, f"killed after {tool}")
        if not self.weather.over and self.rng.random() < self.failing:
            raise ToolError(f"failed #{call.serial}", retryable=self.rng.random() < 0.7)
        pad = self.rng.randbytes(self.rng.choice((200, 800, 3_000))).hex() if tool == "weigh" else ""
        return {"serial": call.serial, "n": 7, "pad": pad}

    def heard(self, mail: Mail | None) -> None:
        """Who waited for a tool has heard how it ended."""
        match mail:
            case Returned(value):
                serial = serial_in(cast("Json", value))
            case Raised(error):
                serial = serial_in({"error": str(error)})
            case _:
                return
        if serial is not None:
            call = self.calls[serial - 1]
            call.heard, call.returned = True, isinstance(mail, Returned)

    def _takes_time(self, actor: Actor) -> None:
        """A tool does what it does."""
        if self.weather.among(STALLS):
            self._busy(actor)

    def _busy(self, actor: Actor) -> None:
        """The tool takes its time, or its process stands still."""
        if self.rng.random() < 0.5:
            self.note(actor, "stands still")
            self.stall(actor)
        else:
            seconds = self.weather.stall_s()
            self.note(actor, f"takes {seconds:g} s")
            self.sleep(seconds)

    def _maybe_killed(self, actor: Actor, fault: Fault, what: str) -> None:
        self.point(actor)
        if fault in KILLS and self.weather.among((fault,)):
            self.struck.add(fault.told)
            self.note(actor, what)
            actor.process.kill()
            raise Killed
