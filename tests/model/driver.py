"""Drives the real handler and the model through the same events, and compares them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from datetime import datetime
from functools import partial
from random import Random
from typing import Any

import pytest

from mcp_baton import BatonError, Server
from mcp_baton.settings import Settings
from mcp_baton.testing import connect, connecting, wire
from mcp_baton.testing.client import Client, StartedTask
from mcp_baton.testing.function import Clock
from mcp_baton.testing.wire import response_in
from tests.model.changes import changed_plan
from tests.model.code import code_of
from tests.model.database import DirectClient
from tests.model.language import Failed, Request, Stopped, Task
from tests.model.plan import PIN, Line, Plan, Value, World, key_of
from tests.model.tools import Tools
from tests.model.views import COMPUTED, JOB_MESSAGES, Views

MOST_EVENTS = 150
SETTLE_S = 70.0
"""How long a task in the background may take to continue, seconds."""

LATE_S = 65.0
"""How late a sweep may be, seconds."""

SWEEP_DELAY_S = 0.001
"""How long after a wait's end a sweep finds it, seconds: a wait that ends now has not been noticed."""

EXPIRY_S = 660.0
"""How late a task in the background may notice that an approval has expired, seconds."""

MOST_READS = 20_000
"""How often the clock may be read before time passes."""

DAY_MS = 86_400_000

LONGEST_S = 16 * 86_400.0
"""After this time the client ends the task, before it expires, seconds."""


class Difference(AssertionError):
    """The package does something else than the model."""


class VirtualClock(Clock):
    """A clock that only moves when it is advanced, so that a seed always does the same."""

    BEGIN_MS = 1_800_000_000_000
    _reads = 0

    def sleep(self, seconds: float) -> None:
        with self._lock:
            self._advanced_s += seconds
            self._reads = 0

    def now_ms(self) -> int:
        with self._lock:
            self._reads += 1
            if self._reads > MOST_READS:
                raise Difference("something runs again and again, and no time passes")
            return self.BEGIN_MS + round(self._advanced_s * 1000)

    def monotonic_s(self) -> float:
        return self._advanced_s


STORED = {shown: stored for stored, kinds in COMPUTED.items() for shown in kinds}
"""The stored pause reason, by what a view shows after a decision."""

SENT: list[str] = []
"""What the server has sent to clients of plans with a secret since the last check."""


def note_sent(messages: list[Any]) -> Any:
    SENT.append(repr(messages))
    return response_in(messages)


@contextmanager
def fast_connections() -> Iterator[None]:
    """Let `connect` use the fast database and the virtual clock."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connecting, "_database", DirectClient)
        patch.setattr(wire, "response_in", note_sent)
        patch.setattr(connecting, "Clock", VirtualClock)
        yield


def drive(plan: Plan, world: World, *, trace: Callable[[str], None] = lambda _: None) -> "Driver":
    """Run a plan in a world to its end."""
    with connected(plan, world) as (client, tools):
        driver = Driver(client, plan, world, tools, trace)
        driver.run()
        return driver


@contextmanager
def connected(plan: Plan, world: World) -> Iterator[tuple[Client, Tools]]:
    """A client of a new server with the workflow of a plan, and what its tools do."""
    SENT.clear()
    tools = Tools(plan, world)
    settings = Settings(default_ttl_ms=20 * DAY_MS, max_ttl_ms=30 * DAY_MS)
    with connect(server_of(plan, tools), owner="kim", era=plan.era, settings=settings) as client:
        yield client, tools


def server_of(plan: Plan, tools: Tools) -> Server:
    namespace: dict[str, Any] = {"world": tools, "__name__": "shop"}
    exec(code_of(plan), namespace)  # noqa: S102 - the code is made here
    server: Server = namespace["server"]
    return server


class Driver:
    """The client's model, the people, the other systems and the clock of one plan."""

    def __init__(self, client: Client, plan: Plan, world: World, tools: Tools, trace: Callable[[str], None]) -> None:
        self.client, self.plan, self.world, self.tools, self.trace = client, plan, world, tools, trace
        self.people = client.as_owner("ada", scopes=["people"])
        self.rng = Random(world.seed)
        self.task = Task(plan, world, in_background=plan.way == "task")
        self.job: StartedTask | None = None
        self.task_id = ""
        self.replies: list[Any] = []
        self.recorded = 0
        """How many calls of the client succeeded."""
        self.began = self.now
        self.has_called = False
        self.made_meanwhile: Line | None = None
        self.requests: dict[str, Request | None] = {}
        """The requests of the approvals that wait, by their ids."""
        self.changes_left = world.changes
        self.is_fresh = True
        """Whether a run has followed the last event."""

    # The loop

    def run(self) -> None:
        users = [line.name for line in self.plan.lines if line.kind == "user"]
        self.client.answers({name: self.world.answers[name] for name in users} if self.world.form else None)
        self.start()
        for _ in range(MOST_EVENTS):
            self.compare()
            if self.task.status != "working":
                self.check_end()
                return
            self.do_something()
        raise Difference(f"the plan does not end in {MOST_EVENTS} events; the model has {self.task.stops}")

    def do_something(self) -> None:
        """Let somebody do what a paused workflow needs: one event, chosen by the seed."""
        if self.now - self.began > LONGEST_S:
            self.cancel()
            return
        requests = [request for request in self.task.waiting_requests(self.now) if not self.expires(request)]
        callbacks = [line for line in self.plan.lines if line.kind == "callback" and self.can_call_back(line)]
        events: list[Callable[[], None]] = [partial(self.decide, request) for request in requests]
        events += [partial(self.call_back, line) for line in callbacks]
        if self.changes_left and self.rng.random() < 0.3:
            self.changes_left -= 1
            self.deploy()
            return
        is_idle = not events
        if self.is_working_alone:
            if is_idle or self.rng.random() < 0.2:
                events.append(self.wait)
        else:
            if is_idle or not self.task.suspends or self.rng.random() < 0.3:
                events.append(self.follow)
            if self.task.due(self.now):
                events.append(self.wait)
        self.rng.choice(events)()

    @property
    def now(self) -> float:
        return self.client.clock.now_ms() / 1000

    @property
    def is_working_alone(self) -> bool:
        """Whether a background task of the workflow has not ended."""
        return self.job is not None and not self.job.poll().over

    # The client's model

    def arguments(self) -> dict[str, Any]:
        return {**self.world.arguments, **self.pin()}

    def start(self) -> None:
        arguments = self.arguments()
        early = {name: self.world.answers[name] for name in self.world.early}
        for name, value in early.items():
            self.task.answer(name, value)
        self.call_workflow({**arguments, **({"answers": early} if early else {})}, "start")

    def call_workflow(self, arguments: dict[str, Any], note: str) -> None:
        """Call the workflow in the plan's way: as a prompt, as a tool, or as a background task."""
        self.trace(f"{note}: flow {key_of(arguments)} as a {self.plan.way}")
        began = self.now
        if self.is_fresh:  # a task that moves to another definition has its old steps during the run
            self.plan_meanwhile()
        as_prompt = self.plan.way == "prompt" and "answers" not in arguments
        if self.plan.way == "task":
            self.job = self.client.start_task("flow", arguments)
            meta: Any = self.client.request("tasks/get", {"taskId": self.job.task_id})["_meta"]
            self.task_id = meta["_workflow.task_id"]
        elif as_prompt:
            task_id = arguments.get("task_id")
            texts = {name: str(value) for name, value in arguments.items() if name != "task_id"}
            run = self.client.get_prompt("flow", texts, task_id)
            self.task_id = run.task_id
            self.replies = [run]
        else:
            run = self.client.call_workflow("flow", arguments)
            if run.is_error:
                raise Difference(f"the workflow's tool returned an error: {run.text}")
            self.task_id = run.task_id
            self.replies = [run]
        self.run_model(began)

    def plan_meanwhile(self) -> None:
        """Let something happen in the next call of a tool: a call of the client, or a callback."""
        # A form that is answered within a request starts a second run. The call must be in a known one.
        asks = self.world.form and any(
            line.kind == "user" and not self.task.is_settled(line.name) for line in self.plan.lines
        )
        if self.world.meanwhile == "call" and not asks:
            lines = [line for line in self.plan.lines if self.can_be_called_meanwhile(line)]
            if lines and self.task_id:
                line = self.rng.choice(lines)
                self.tools.meanwhile = (line.tool, partial(self.call_meanwhile, line))
        elif self.world.meanwhile == "callback":
            lines = [line for line in self.plan.lines if line.kind == "callback" and self.can_call_back(line)]
            if lines and self.task_id:
                self.tools.meanwhile = ("", partial(self.call_back_meanwhile, lines[0], self.rng.randint(0, 9)))

    def can_be_called_meanwhile(self, line: Line) -> bool:
        """Whether a step is called in a simple way, so that its call during a run can only be that step's."""
        if line.kind != "tool" or line.each is not None or line.when is not None or line.approval is not None:
            return False
        tool, sources = self.plan.tools[line.tool], line.arguments
        is_alone = sum(other.tool == line.tool for other in self.plan.lines) == 1
        is_known = "x" in sources and all(source[0] == "constant" for source in sources.values())
        is_plain = not (tool.approval or tool.only_in or tool.fails or tool.callback or tool.sets)
        return is_alone and is_known and is_plain and not self.task.is_settled(line.name)

    def call_meanwhile(self, line: Line) -> None:
        arguments = self.task.arguments_of(line, None)
        self.trace(f"during the run: {line.tool} {key_of(arguments)} of the task")
        self.made_meanwhile = line
        result = self.client.call_tool(line.tool, arguments, self.task_id)
        self.expect(bool(result.recorded), f"the call of {line.tool} during a run is not recorded: {result.meta}")

    def call_back_meanwhile(self, line: Line, body: int) -> None:
        self.trace(f"during the run: callback {body} for {line.name}")
        self.client.send_callback(self.task_id, line.name, body)
        self.task.call_back(line.name, body)

    def deploy(self) -> None:
        """Deploy another definition. The next run moves the task to it, or is refused."""
        plan = changed_plan(self.rng, self.task)
        self.use(plan)
        self.trace(f"deploy: {code_of(plan).partition('def flow')[2]}")
        if not deepcopy(self.task).move(plan):
            run = self.client.call_workflow("flow", {"task_id": self.task_id, **self.pin()})
            self.expect(run.is_error, f"a completed step has changed, and the task is not refused: {run.text}")
            self.use(self.task.plan)
            return
        self.task.move(plan)
        self.plan, self.is_fresh = plan, False
        if not self.is_working_alone:
            self.call_workflow({"task_id": self.task_id, **self.pin()}, "continue")

    def use(self, plan: Plan) -> None:
        self.tools.plan = plan
        self.client = self.client.deployed(server_of(plan, self.tools))
        self.people = self.client.as_owner("ada", scopes=["people"])

    def pin(self) -> dict[str, Any]:
        return {"pin": PIN} if self.plan.secret else {}

    def run_model(self, now: float) -> None:
        self.tools.meanwhile = None
        self.task.run(now, self.made_meanwhile)
        self.made_meanwhile = None
        self.is_fresh, self.has_called = True, False
        self.catch_up()

    def catch_up(self) -> None:
        """Let a task in the background continue, at most a minute after what it waited for."""
        if self.job is not None and (self.is_working_alone or self.task.suspends):
            self.advance(SETTLE_S)

    def advance(self, seconds: float) -> None:
        """Let time pass. A task in the background continues at the end of each wait."""
        began, is_alone = self.now - SWEEP_DELAY_S, self.is_working_alone
        self.client.clock.advance(seconds)
        now = self.now - SWEEP_DELAY_S
        requests = len(self.task.requests)
        while is_alone and self.task.suspends and (due := self.task.due(began)) is not None and due <= now:
            began = due
            self.task.run(due)
        if len(self.task.requests) > requests and seconds < EXPIRY_S:
            self.advance(EXPIRY_S)
        if is_alone and self.task.suspends and (due := self.task.due(now)) is not None and due - now < SETTLE_S:
            self.advance(SETTLE_S)

    def follow(self) -> None:
        """Do what the handoff suggests: its first call, or its last one, which lets the server continue."""
        if self.task.is_stuck:
            self.cancel()
            return
        entries = self.next_calls()
        if not entries:
            raise Difference(f"nothing is suggested; the model has {self.task.stops}")
        entry = entries[0] if self.rng.random() < 0.7 else entries[-1]
        if "resource" in entry:
            self.read(entry["resource"])
        elif entry["tool"] == "flow":
            self.resume(entry["arguments"])
        else:
            self.call(entry["tool"], entry["arguments"], self.name_of(entry))

    def name_of(self, entry: dict[str, Any]) -> str:
        """The step that the client names: as suggested, or none, or any other."""
        chance = self.rng.random()
        if chance < 0.7:
            return str(entry["task_id"]).partition("/")[2]
        if chance < 0.8:
            return ""
        names = [line.name for line in self.plan.lines]
        elements = [f"{name}/{index}" for name in names for index in range(3)]
        same = [line.name for line in self.plan.lines if line.tool == entry["tool"]]
        return self.rng.choice([self.rng.choice(same), self.rng.choice(elements), self.rng.choice([*names, "nothing"])])

    def next_calls(self) -> list[dict[str, Any]]:
        meta: Any = self.client.request("tasks/get", {"taskId": self.task_id}, {"mcp-baton/next": True})["_meta"]
        entries: list[dict[str, Any]] = meta.get("mcp-baton/next", [])
        return entries

    def resume(self, suggested: dict[str, Any]) -> None:
        arguments: dict[str, Any] = {"task_id": self.task_id}
        if suggested.get("task_action") == "cancel":
            self.cancel()
            return
        if "answers" in suggested:
            names = list(suggested["answers"])
            some = [name for name in names if self.rng.random() < 0.7] or names[:1]
            arguments["answers"] = {name: self.world.answers[name] for name in some}
            for name in some:
                self.task.answer(name, self.world.answers[name])
        self.call_workflow({**arguments, **self.pin()}, "continue")

    def call(self, tool: str, suggested: dict[str, Any], step: str) -> None:
        arguments = dict(suggested)
        for name, value in arguments.items():
            if value == "<secret pin>":
                arguments[name] = PIN
            elif isinstance(value, str) and value.startswith("<"):
                arguments[name] = self.missing_value
        task_id = f"{self.task_id}/{step}" if step else self.task_id
        self.trace(f"call: {tool} {key_of(arguments)} of {step or 'the task'}")
        result = self.client.call_tool(tool, {**arguments, "task_id": task_id})
        if PIN in arguments.values():
            SENT.pop()  # the error of a call may quote the call's own arguments
        self.is_fresh = self.has_called = True
        try:
            recorded_in = self.task.client_calls(tool, arguments, self.now, step)
        except (Failed, Stopped) as error:
            self.expect(result.is_error, f"the call of {tool} should fail ({error!r}); it returned {result.text}")
            return
        self.expect(not result.is_error, f"the call of {tool} is that of step {recorded_in}; it returned {result.text}")
        self.recorded += 1

    @property
    def missing_value(self) -> int:
        """The value that the client's model gives in place of a missing one: another one after each call that was
        recorded or denied. (A call that equals a recorded one repeats it.)"""
        if self.world.gives is not None:
            return self.world.gives
        return 50 + self.recorded + sum(request.state == "denied" for request in self.task.requests)

    def read(self, uri: str) -> None:
        self.trace(f"read: {uri}")
        step = uri.removeprefix("doc://").partition("/")[0]
        self.task.reads[step] = self.task.reads.get(step, 0) + 1
        try:
            self.client.read_resource(uri)
        except BatonError:
            return

    def cancel(self) -> None:
        self.trace("cancel: the task")
        self.client.cancel(self.task_id)
        self.task.cancel()

    # People, other systems and the clock

    def decide(self, request: Request) -> None:
        is_denied = self.is_first(request) and request.place.partition("[")[0] in self.world.denied
        decision = "denied" if is_denied else "approved"
        approvals = self.waiting_approvals()
        approval = next((approval for approval, wanted in approvals if wanted is request), None)
        if approval is None:
            waiting = [(approval["step"], approval["arguments"]) for approval, _ in approvals]
            raise Difference(f"no approval waits for {request}; there are {waiting}")
        is_alone = self.is_working_alone
        self.trace(f"person: {decision} {request.place} {key_of(request.arguments)}")
        if decision == "approved":
            self.people.approve(approval["approvalId"])
        else:
            self.people.deny(approval["approvalId"], reason="no")
        self.task.decide(request, decision)
        self.happened(is_alone=is_alone)

    def waiting_approvals(self) -> list[tuple[dict[str, Any], Request | None]]:
        """The approvals that wait, each with its request. After a deployment, a changed step may request an approval
        that looks the same. So each keeps the request for which it was found first."""
        approvals = self.people.approvals()
        requests = {approval["approvalId"]: self.requests.get(approval["approvalId"]) for approval in approvals}
        for approval in approvals:
            taken = [id(request) for request in requests.values()]
            new = (request for request in self.task.waiting_requests(self.now) if id(request) not in taken)
            if requests[approval["approvalId"]] is None:
                requests[approval["approvalId"]] = next((each for each in new if self.is_same(approval, each)), None)
        self.requests = requests
        return [(approval, requests[approval["approvalId"]]) for approval in approvals]

    def is_same(self, approval: dict[str, Any], request: Request) -> bool:
        place = str(approval.get("step") or "").partition("[")[0]
        if approval["tool"] != request.tool or place != request.place.partition("[")[0]:
            return False
        shown = {"y": 0, **approval["arguments"]}
        return shown.keys() == request.arguments.keys() and all(
            shown[name] in self.shown_values(name, value, request) for name, value in request.arguments.items()
        )

    def shown_values(self, name: str, value: Value, request: Request) -> list[Value]:
        """What people may see of an argument. If it is secret in another step with the same tool, it is hidden unless
        its value is that of its own step; and so is each argument with the same value
        (docs/reference/workflow-rules.md, Secrets)."""
        lines = [line for line in self.plan.lines if line.tool == request.tool]
        secret_in = {
            line.name: {key for key, source in line.arguments.items() if source == ("secret",)} for line in lines
        }
        if value == PIN or name in secret_in.get(request.place.partition("[")[0], ()):
            return ["<secret>"]
        secret_names = set[str]().union(*secret_in.values())
        may_be_secret = any(request.arguments.get(secret_name) == value for secret_name in secret_names)
        return [value, "<secret>"] if may_be_secret else [value]

    def expires(self, request: Request) -> bool:
        """Whether people decide a request too late."""
        return self.is_first(request) and request.place.partition("[")[0] in self.world.expiring

    def is_first(self, request: Request) -> bool:
        return request is next(other for other in self.task.requests if other.place == request.place)

    def can_call_back(self, line: Line) -> bool:
        """Whether another system has the address of a callback, and has not used it."""
        has_address = any(self.plan.tools[tool].callback == line.name for tool, _ in self.succeeded_calls())
        is_open = not self.task.is_settled(line.name) and line.name not in self.task.early
        in_time = self.now < self.task.ends.get(line.name, self.now + 1) and self.task.statuses[line.name] != "failed"
        return has_address and is_open and in_time and line.name not in self.world.silent

    def succeeded_calls(self) -> list[tuple[str, Value]]:
        done = {key_of(call) for call in self.task.calls}
        return [
            (tool, arguments)
            for tool, arguments in self.task.calls
            if key_of([tool, arguments]) in done
            and self.task.failures[key_of([tool, arguments])] > self.plan.tools[tool].fails
        ]

    def call_back(self, line: Line) -> None:
        body, is_alone = self.rng.randint(0, 9), self.is_working_alone
        self.trace(f"callback: {body} for {line.name}")
        self.client.send_callback(self.task_id, line.name, body)
        self.task.call_back(line.name, body)
        self.happened(is_alone=is_alone)

    def happened(self, *, is_alone: bool) -> None:
        """After an event, a task in the background continues by itself; another one when its client calls."""
        self.is_fresh = False
        if is_alone:
            self.run_model(self.now)

    def wait(self) -> None:
        due = self.task.due(self.now)
        if due is None:
            raise Difference(f"the task waits for nothing; the model has {self.task.stops}")
        is_expiry = any(request.until == due for request in self.task.requests)
        seconds = due - self.now + (EXPIRY_S if is_expiry and self.job else SETTLE_S)
        self.trace(f"clock: {seconds:.0f} s pass")
        is_alone = self.is_working_alone
        self.advance(seconds)
        self.is_fresh = is_alone

    # Checks

    def expect(self, holds: bool, text: str) -> None:
        if not holds:
            raise Difference(text)

    def compare(self) -> None:
        """Compare the calls, and after a run the task, with those of the model."""
        model = sorted(map(key_of, self.task.calls))
        real = sorted(key_of(call) for call in self.tools.calls)
        self.expect(model == real, f"calls: the model has {self.task.calls}, the server {self.tools.calls}")
        self.compare_views()
        self.find_secrets()
        if not self.is_fresh:
            return
        task = self.client.task(self.task_id)
        self.expect(task.status == self.task.status, f"status: the model has {self.task.status}, the server {task!r}")
        for step, status in self.task.statuses.items():
            self.compare_step(step, status, task)
        for tool, value in self.task.extras.items():
            extra: Any = task.variables.get(f"_workflow.extra.{tool}")
            is_equal = "error" in extra if value is None else key_of(extra) == key_of(value)
            self.expect(is_equal, f"extra call of {tool}: the model has {value}, the server {extra}")
        if self.task.status == "working":
            self.compare_pause(task)
        self.compare_ends(task)

    def compare_views(self) -> None:
        """All views of the task say the same, and so does the call's task."""
        views = Views(self.client, self.task_id)
        for text in views.contradictions():
            raise Difference(f"views: {text}")
        if views.is_live and any(pause["type"] == "answersRequired" for pause in views.pauses):
            asked = list(self.task.questions)
            self.expect(views.suggested_answers == asked, f"next: the model asks {asked}, the server {views.next}")
        if self.job is None or self.has_called or not self.is_fresh:
            return
        state = self.job.poll()
        self.expect(state.over is not self.task.suspends, f"call: it is {state!r}; the model has {self.task.stops}")
        if self.task.suspends:
            for stop in self.task.stops:
                begin = JOB_MESSAGES.get(stop.type) or JOB_MESSAGES[self.plan.line(stop.step).kind]
                is_told = any(text.startswith(begin) for text in str(state.status_message).split("; "))
                self.expect(is_told, f"call: it says {state.status_message!r}; the model has {self.task.stops}")

    def find_secrets(self) -> None:
        """The secret argument is neither stored nor sent."""
        if self.plan.secret:
            database: Any = self.client.store.client
            stored = [repr(item) for item in database.database.items.values()]
            found = [text for text in [*SENT, *stored] if PIN in text]
            self.expect(not found, f"secret: it is stored or sent: {found[:1]}")
        SENT.clear()

    def compare_ends(self, task: Any) -> None:
        """Each wait ends when the model says, or up to a minute later: a sweep may have begun it late."""
        for step, end in self.task.ends.items():
            real = task.variables.get(f"_workflow.wait.{step}")
            if any(stop.step == step and stop.type == "waiting" for stop in self.task.stops) and real is not None:
                self.expect(-1 < real / 1000 - end < LATE_S, f"step {step}: it waits until {real}, in the model {end}")
                self.task.ends[step] = real / 1000
        for approval, request in self.waiting_approvals() if self.task.requests else ():
            if request is not None and approval["expiresAt"]:
                real_end = datetime.fromisoformat(approval["expiresAt"]).timestamp()
                request.until = max(request.until, min(real_end, request.until + LATE_S))

    def compare_step(self, step: str, status: str, task: Any) -> None:
        real = task.steps[step]
        text = f"step {step}: the model has {status}, the server {real}; {task!r}"
        # A value that came early is shown, and not used yet.
        is_shown = status == "pending" and step in self.task.early and real == "completed"
        self.expect(real == status or is_shown, text)
        if status == "completed":
            value = task.variables.get(f"_workflow.result.{step}")
            text = f"step {step}: the model has the value {self.task.values[step]}, the server {value}"
            self.expect(key_of(value) == key_of(self.task.values[step]), text)

    def compare_pause(self, task: Any) -> None:
        real = [(STORED.get(pause.type, pause.type), pause.step) for pause in task.pauses]
        model = [(STORED.get(stop.type, stop.type), stop.step) for stop in self.task.stops]
        self.expect(model == real, f"pauses: the model has {model}, the server {task!r}")
        for stop, pause in zip(self.task.stops, task.pauses, strict=True):
            if stop.type == "answersRequired":
                texts = {question["name"]: question["question"] for question in pause.questions}
                expected = {name: self.task.ahead.question_text(self.plan.line(name)) for name in stop.questions}
                self.expect(texts == expected, f"questions: the model has {expected}, the server {texts}")

    def check_end(self) -> None:
        waiting = self.people.approvals()
        self.expect(not waiting, f"the task is {self.task.status}, and approvals wait: {waiting}")
        if self.job is not None and self.task.status == "completed":
            state = self.job.poll()
            self.expect(state.status == "completed", f"the workflow is completed, and its call is {state!r}")
