"""Simulations of a workflow with a callback and a sleep (docs/waiting.md), in the foreground and in the background.
Callbacks come early, late, twice, with other bodies, at the timeout, and after the end.

All promises for workflows hold, or those for workflows in the background, and also: 23. A wait ends once: by the write
of a callback, or by a run whose clock has reached its time. The end does not change. 24. An accepted callback (200) is
the step's result, and each repetition of it is accepted. Another reply has a reason: another callback came first (409),
the wait or the task is over (410), or the address is unknown (404). 25. Each later step and each reader sees the same
end. 26. When the faults end, sweeps alone continue a workflow in the background, within two minutes after the callback
or the time. Another workflow continues at its next resume. 27. A run that ends before its last step says why: its last
write leaves a pause reason.
"""

from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any, Literal

from msgspec.structs import replace

from mcp_baton import Argument, Callback, Context, Server, Step, Workflow, constant, first_of, prompt_arg, step_output
from mcp_baton.protocol.http import HttpRequest
from mcp_baton.protocol.json import Json, dumps
from mcp_baton.server.access import CALLBACKS
from mcp_baton.settings import Settings
from mcp_baton.tasks.record import FIRST_DISPATCH_MS, LONGEST_DISPATCH_MS, PAUSE_REASON, RESULT_PREFIX, WAIT_PREFIX
from tests.simulation.client import SentRequest
from tests.simulation.dynamodb.database import Change
from tests.simulation.dynamodb.paths import Item
from tests.simulation.heads import SETTLED, TERMINAL, claim_of, status_of, steps_of, value_of, variables_of
from tests.simulation.invariants import TASK, Judge
from tests.simulation.invocations import OWNER, SETTINGS, SimulatedExchange, Trigger
from tests.simulation.jobs.background import ATTEMPTS, BackgroundJudge, BackgroundWorld, FlowJudge
from tests.simulation.jobs.heads import Head, head_in
from tests.simulation.jobs.tools import JobPlan
from tests.simulation.journal import Process, ToolCall
from tests.simulation.scheduler import current_actor
from tests.simulation.servers import Plan, look, mail, pay
from tests.simulation.world import Rewrite, World

SIGNED, NIGHT = "signed", "night"
DEFAULT = 0
"""The amount of the last step if no callback came."""

BODIES, KEYS = (7, 7, 7, 8), (None, None, "k1", "k2")
WITHIN_S, SLEEPS_S = (20, 100, 400), (5, 60, 200)
CALLS: tuple[tuple[str, dict[str, Json]], ...] = (
    ("look", {"key": "A"}),
    ("mail", {"to": "ann"}),
    ("pay", {"amount": 7}),
)
KINDS = ("resume",) * 5 + ("callback",) * 5 + ("call",) * 2 + ("poll",) * 2 + ("cancel", "complete")
EARLY_MS = (0, 0, 20, 500, 5_000, 30_000)
AROUND_MS = (-1_000, -20, -5, 0, 0, 5, 20, 1_000, 130_000)
"""When callbacks and resumes come, relative to a wait's end, milliseconds."""

BASE_URL = "https://simulated.test"
FORGED = "forged"


@dataclass(frozen=True, slots=True)
class Waits:
    """A workflow with two waits.

    Attributes:
        is_early: Whether the address is created long before the run waits for the callback.
    """

    within_s: int
    sleep_s: int
    on_timeout: Literal["fail", "skip"]
    is_early: bool
    background: bool


@dataclass(frozen=True, slots=True)
class Post:
    token: str
    body: Json
    key: str | None = None

    def repeats(self, other: "Post | None") -> bool:
        """Return whether the other callback has the same body or the same key."""
        return other is not None and (self.body == other.body or (self.key is not None and self.key == other.key))


@cache
def waiting_server(waits: Waits) -> Server:
    server = Server("simulated")
    for tool in (look, pay, mail):
        server.add_tool(tool)
    amount = step_output(SIGNED)
    wait = Callback(int, timedelta(seconds=waits.within_s), waits.on_timeout)
    lookup = Step("look", {"key": prompt_arg("key")}, tool=look, checkpoint=True)
    signed, night = Step(SIGNED, callback=wait), Step(NIGHT, sleep=timedelta(seconds=waits.sleep_s))
    payment = Step(
        "pay", {"amount": first_of(amount, constant(DEFAULT)) if waits.on_timeout == "skip" else amount}, tool=pay
    )
    ann = Step("mail", {"to": constant("ann")}, tool=mail)
    steps = [lookup, ann, night, signed, payment] if waits.is_early else [lookup, signed, payment, night, ann]
    key = [Argument("key", "What to look up", required=True)]
    server.add_workflow(
        Workflow(name="sign", description="sign", arguments=key, steps=steps, background=waits.background)
    )
    server.check()
    return server


class WaitWorld(World):
    settings: Settings = replace(SETTINGS, base_url=BASE_URL)
    background = False

    def __init__(self, seed: int, *, rewrite: Rewrite | None = None, strict: bool = True) -> None:
        super().__init__(seed, rewrite=rewrite, strict=strict)
        rng, self.tokens, self.posts = self.rng, list[str](), dict[str, Post]()
        on_timeout: Literal["fail", "skip"] = rng.choice(("fail", "skip"))
        within_s, sleep_s, is_early = rng.choice(WITHIN_S), rng.choice(SLEEPS_S), rng.random() < 0.4
        self.waits = Waits(within_s, sleep_s, on_timeout, is_early, self.background)
        self.limits = replace(self.limits, max_ttl_ms=86_400_000, max_tasks_per_owner=None)
        self.plan = Plan("sign", CALLS)
        self.failure_chance = min(self.failure_chance, 0.2)
        self._callback_count = rng.choice((0, 2, 4, 8))
        self.weather.skewed = rng.random() < 0.5
        self._set_up(strict=strict)

    def _set_up(self, *, strict: bool) -> None:
        self.kinds, self._other_invocations = KINDS, self.rng.randrange(4, 14)
        self.judge = WaitJudge(self, strict=strict)

    @property
    def wait_judge(self) -> "WaitJudge":
        """The judge of the workflow's task."""
        assert isinstance(self.judge, WaitJudge)
        return self.judge

    def server(self, *, edited: bool) -> Server:  # noqa: ARG002 - this simulation has only one version of the workflow
        return waiting_server(self.waits)

    # The course of a simulation.

    def run(self) -> None:
        """Run the simulation, let all waits end, and repeat the accepted callback."""
        super().run()
        judge = self.wait_judge
        for _ in range(3):
            if not judge.lives or steps_of(judge.head or {})[SIGNED] == "failed":
                break
            longest_s = max(self.waits.within_s, self.waits.sleep_s)
            self.scheduler.now_ms += 2 * judge.lease_ms + longest_s * 1000 + self.fast_ms
            self._invoke(Trigger("resume", last=True))
            self.scheduler.run()
        judge.check_waits_ended()
        if judge.accepted is not None:
            self._invoke(Trigger("callback", last=True))
            self.scheduler.run()

    def call_tool(self, tool: str, arguments: dict[str, Json], ctx: Context) -> dict[str, Json]:
        """Create an address in the first step. Callbacks may come at once."""
        result = super().call_tool(tool, arguments, ctx)
        if tool == "look" and ctx.task is not None:
            self.tokens.append(ctx.callback_url(SIGNED).removeprefix(BASE_URL + CALLBACKS))
            for _ in range(0 if self.weather.is_over else self.rng.choice((0, 0, 1, 3))):
                self._invoke(Trigger("callback"), self.rng.choice(EARLY_MS))
        return result

    def waits_until(self, until_ms: int) -> None:
        """Schedule callbacks and resumes near the end of a wait, by their own clocks."""
        end_ms = until_ms - self.scheduler.now_ms + self.rng.choice((-300_000, 0, 0, 0, 300_000))
        at_once_ms = self.rng.choice(AROUND_MS)
        for _ in range(0 if self.weather.is_over else self._callback_count):
            after_ms = end_ms + self.rng.choice((at_once_ms, at_once_ms, *AROUND_MS))
            self._invoke(Trigger(self.rng.choice(("callback", "callback", "resume"))), max(after_ms, 0.0))

    def _handle(self, process: Process, trigger: Trigger) -> None:
        if trigger.kind == "callback":
            self._post(process, last=trigger.last)
        else:
            super()._handle(process, trigger)

    def _post(self, process: Process, *, last: bool) -> None:
        rng, accepted = self.rng, self.wait_judge.accepted
        if not self.tokens:
            return
        token = FORGED if rng.random() < 0.05 else rng.choice(self.tokens)
        post = accepted if last and accepted else Post(token, rng.choice(BODIES), rng.choice(KEYS))
        self.posts[process.name] = post
        headers = {"content-type": "application/json", **({"idempotency-key": post.key} if post.key else {})}
        request = HttpRequest("POST", CALLBACKS + post.token, headers, dumps(post.body).encode(), None)
        self.note(process.actor, f"posts {post.body} with the key {post.key}")
        reply = self.endpoint(process)(request, SimulatedExchange(self, process))
        assert reply is not None
        self.note(process.actor, f"is answered {reply.status}")
        self.incidents.add(f"a callback was answered with {reply.status}")
        self.wait_judge.check_callback_reply(process, post, reply.status)


class WaitJudge(Judge):
    """The judge of a task with waits."""

    def __init__(self, world: WaitWorld, *, strict: bool) -> None:
        super().__init__(world, strict=strict)
        self.wait_world = world
        self.accepted: Post | None = None
        self.accepted_at = 0
        """The number of writes when the callback was stored."""
        self.accepted_ms = 0.0
        self.is_unread = False
        """Whether no worker has claimed the task since the callback was stored."""
        self.timed_out: ToolCall | None = None
        """A call that a run made because no callback came."""

    @property
    def lives(self) -> bool:
        head, now_ms = self.head, self.world.scheduler.now_ms
        return head is not None and status_of(head) not in TERMINAL and int(head["expires_at"]["N"]) * 1000 > now_ms

    def _check_head(self, number: int, change: Change, process: Process | None, now_ms: float) -> None:
        super()._check_head(number, change, process, now_ms)
        before, after = change.before, change.after
        assert after is not None
        claim_ids = [claim and claim[0] for claim in (claim_of(before) if before else None, claim_of(after))]
        is_workers = process is not None and process.kind == "work"
        self.is_unread = self.is_unread and not (is_workers and claim_ids[0] != claim_ids[1])
        self._check_reason(number, before, after)
        for wait in (SIGNED, NIGHT):
            old, new = (steps_of(item).get(wait) if item else None for item in (before, after))
            if before is not None and old != "pending":
                ends = [
                    (status, self._value(item, RESULT_PREFIX + wait)) for status, item in ((old, before), (new, after))
                ]
                if ends[0] != ends[1]:
                    self.wrong(23, f"write #{number} changes the end of {wait} from {ends[0]} to {ends[1]}")
            elif new != "pending" and process is not None:
                self._wait_ended(number, wait, str(new), change, process, now_ms)
            until_ms = self._value(after, WAIT_PREFIX + wait)
            if isinstance(until_ms, int) and self._value(before, WAIT_PREFIX + wait) != until_ms:
                if before is not None and self._value(before, WAIT_PREFIX + wait) is not None:
                    self.wrong(23, f"write #{number} changes when {wait} ends")
                self.wait_world.waits_until(until_ms)

    def _check_reason(self, number: int, before: Item | None, after: Item) -> None:
        """Check that the last write of a run says why it stopped. A release without a write does not change the
        version."""
        claims = claim_of(before) if before else None, claim_of(after)
        if claims[0] is None or claims[1] is None or claims[0][0] != claims[1][0] or before is None:
            return
        is_last = claims[0][2] > 0 and claims[1][2] == 0 and before["version"] != after["version"]
        is_open = status_of(after) == "working" and not set(steps_of(after).values()) <= SETTLED
        if is_last and is_open and self._value(after, PAUSE_REASON) is None:
            self.wrong(27, f"write #{number} ends a run before its last step without a reason: {steps_of(after)}")

    def _wait_ended(self, number: int, wait: str, new: str, change: Change, process: Process, now_ms: float) -> None:
        before, after = change.before, change.after
        assert after is not None
        until_ms = self._value(before, WAIT_PREFIX + wait)
        if wait == SIGNED and new == "completed":
            self.world.incidents.add(f"a callback ended a wait{'' if until_ms else ' before it began'}")
            self._accepted(number, after, until_ms, process, now_ms)
            return
        self.world.incidents.add(f"a time ended a wait: {new}")
        is_over = isinstance(until_ms, int) and until_ms <= process.wall_clock_ms(now_ms)
        if not process.is_run or not is_over or (wait == NIGHT and new != "completed"):
            self.wrong(23, f"write #{number} of {process.name} makes {wait} {new}, which ends at {until_ms}")

    def _accepted(self, number: int, after: Item, until_ms: Json, process: Process, now_ms: float) -> None:
        post = self.wait_world.posts.get(process.name)
        value = self._value(after, RESULT_PREFIX + SIGNED)
        if post is None or post.token == FORGED or value != post.body:
            self.wrong(24, f"write #{number} stores {value!r} as the callback of {process.name}, but that was {post}")
            return
        if isinstance(until_ms, int) and until_ms <= process.began_ms + process.fast_ms:
            self.wrong(23, f"write #{number} accepts a callback that came after the time")
        if self.timed_out is not None:
            self.wrong(25, f"write #{number} accepts a callback after call #{self.timed_out.serial} saw the timeout")
        self.accepted, self.accepted_at, self.accepted_ms = post, self.world.database.writes, now_ms + process.fast_ms
        self.is_unread = True

    def check_call(self, call: ToolCall) -> None:
        super().check_call(call)
        if call.tool != "pay" or not call.process.is_run:
            return
        if call.arguments["amount"] == DEFAULT:
            self.timed_out = call
        body = self.accepted.body if self.accepted else DEFAULT
        if call.arguments["amount"] != body:
            self.wrong(25, f"{call.process.name} pays {call.arguments['amount']}, but the callback was {self.accepted}")

    def check_callback_reply(self, process: Process, post: Post, status: int) -> None:
        """Check the reply to a callback."""
        repeats = post.repeats(self.accepted)
        was_there = repeats and self.accepted_at <= process.writes
        versions = self.world.database.since(
            (f"OWNER#{OWNER}#{self.task_id[10:12]}", TASK + self.task_id), process.writes
        )
        items = [version.item for version in versions if version.item is not None]
        clocks_ms = process.began_ms + process.fast_ms, process.wall_clock_ms(self.world.scheduler.now_ms) + 1
        has_expired = len(items) < len(versions) or int(items[0]["expires_at"]["N"]) * 1000 <= clocks_ms[1]
        match status:
            case 200:
                fits = repeats
            case 409:
                fits = self.accepted is not None and not repeats
            case 410:
                fits = not was_there and any(self._is_over(item, clocks_ms[1]) for item in items)
            case 404:
                fits = post.token == FORGED or has_expired
            case 503:
                fits = bool(process.faults) or process.stalled
            case _:
                fits = False
        if not fits:
            self.wrong(24, f"{process.name} gets {status} for {post}; the accepted callback is {self.accepted}")

    def _is_over(self, item: Item, now_ms: float) -> bool:
        until_ms = self._value(item, WAIT_PREFIX + SIGNED)
        timed_out = isinstance(until_ms, int) and until_ms <= now_ms
        return timed_out or status_of(item) in TERMINAL or steps_of(item)[SIGNED] != "pending"

    def check_waits_ended(self) -> None:
        """Check the end: the faults have stopped, all times have passed and the task was resumed, so it has ended or
        its wait has timed out."""
        if not self.lives or self.head is None:
            return
        steps = steps_of(self.head)
        timed_out = steps[SIGNED] == "failed" and self.wait_world.waits.on_timeout == "fail"
        if not timed_out or self.accepted is not None:
            self.wrong(26, f"all waits have ended, but the task has the steps {steps}")

    def _value(self, item: Item | None, name: str) -> Json:
        if item is None or name not in variables_of(item):
            return None
        return value_of(item, name, self.world.stored)


class BackgroundWaitWorld(WaitWorld, BackgroundWorld):
    """The same workflow in the background: a callback or a sweep wakes its job."""

    background = True

    def _set_up(self, *, strict: bool) -> None:  # noqa: ARG002 - the base class calls it
        self.job = JobPlan("sign", ATTEMPTS)
        self.limits = replace(self.limits, default_ttl_ms=3_600_000)
        self._disturbance_count = self.rng.choice((0, 0, 0, 2, 5))
        self._other_invocations = self.rng.randrange(8)
        self._callback_count = self._callback_count if self.rng.random() < 0.5 else 0

    def _judge(self, *, strict: bool) -> "BackgroundWaitJudge":
        self.background_judge = self.background_wait_judge = BackgroundWaitJudge(self, strict=strict)
        return self.background_wait_judge

    @property
    def wait_judge(self) -> WaitJudge:
        return self.background_wait_judge.wait_judge

    def register_request(self, operation: str, partition: str) -> SentRequest:
        """Register a request. When the faults have ended, only sweeps wake a job after a callback."""
        request = super().register_request(operation, partition)
        updates = [update for update in request.process.requests if update.operation == "UpdateItem"]
        if self.weather.is_over and request.process.kind == "callback" and len(updates) > 1:
            self.kill(current_actor(), "killed before it wakes the job")
        return request

    def _wait_for_result(self, item: dict[str, Any]) -> None:
        """Run only sweeps. They wake the job after a callback, when a wait has ended, or when the job is due."""
        judge = self.background_wait_judge
        if judge.is_asleep and self.wait_judge.accepted is None and self.rng.random() < 0.9:
            self._invoke(Trigger("callback", last=True))
            self.scheduler.run()
            if self.rng.random() < 0.3:
                self._invoke(Trigger("resume", last=True))
                self.scheduler.run()
        head, now_ms = head_in(item), self.scheduler.now_ms
        longest_ms = max(LONGEST_DISPATCH_MS, self.waits.within_s * 1000) + self.fast_ms
        if head.until_ms - now_ms > judge.lease_ms + self.fast_ms or head.due_ms - now_ms > longest_ms:
            judge.wrong(26, f"the job of a worker that has ended is {head}")
        free_ms = max(now_ms, head.until_ms + 1)
        if judge.is_asleep and self.wait_judge.is_unread and self.wait_judge.lives:
            self.incidents.add("only the clock could wake a workflow after a callback")
            ready_ms = max(free_ms, self.wait_judge.accepted_ms + FIRST_DISPATCH_MS)
        else:
            ready_ms = free_ms if head.started >= head.allowed else max(free_ms, head.due_ms + 1)
        self._sweep_until(head, ready_ms)
        self.scheduler.run()
        if int(item["expires_at"]["N"]) * 1000 <= self.scheduler.now_ms:
            judge.head = None


class WaitFlowJudge(WaitJudge, FlowJudge):
    """The judge of the workflow's own task."""


class BackgroundWaitJudge(BackgroundJudge):
    """The judge of both tasks.

    Attributes:
        is_asleep: Whether the job waits and no event was sent since the wait began.
    """

    def __init__(self, world: BackgroundWaitWorld, *, strict: bool) -> None:
        super().__init__(world, strict=strict)
        self.flow = self.wait_judge = WaitFlowJudge(world, strict=strict)
        self.flow.changes, self.flow.broken = self.changes, self.broken
        self.is_asleep = False
        self.suspended: set[str] = set()
        """The workers that have let the job wait."""

    def _check_head(self, number: int, change: Change, process: Process | None, now_ms: float) -> None:
        super()._check_head(number, change, process, now_ms)
        assert change.after is not None
        if change.before is None:
            return
        before, after = head_in(change.before), head_in(change.after)
        if after.dispatches != before.dispatches:
            self.is_asleep = False
        elif before.until_ms and not after.until_ms and after.allowed != before.allowed and after.status == "working":
            self.world.incidents.add("a workflow waited without a worker")
            self.is_asleep = True
            self.suspended.add(process.name if process else "")

    def _is_wake_up(self, process: Process, before: Head, after: Head) -> bool:
        """Return whether a write dispatches a job because a callback has arrived, or because a client has ended the
        workflow's task. A worker that has just let its job wait dispatches it itself if a wait has ended in the
        meantime."""
        has_callback = self.wait_judge.accepted is not None and process.kind in {"callback", "sweep"}
        is_over = self.flow.head is not None and status_of(self.flow.head) in TERMINAL
        was_ended_by_client = is_over and process.kind in {"cancel own", "complete own", "resume"}
        # A client's run that has continued the workflow lets the job wait for what it waits for now.
        has_continued = process.kind == "resume" and sum(len(sent.write_numbers) for sent in process.requests) > 1
        fits = has_callback or was_ended_by_client or has_continued or process.name in self.suspended
        return fits and after.dispatches == before.dispatches + 1 and before.holder == after.holder

    def _check_writer(self, number: int, process: Process, before: Head, after: Head, clock_ms: float) -> None:
        if not self._is_wake_up(process, before, after):
            super()._check_writer(number, process, before, after, clock_ms)

    def _check_dispatch(self, process: Process, before: Head, after: Head, clock_ms: float) -> None:
        if not self._is_wake_up(process, before, after):
            super()._check_dispatch(process, before, after, clock_ms)
            return
        self.world.incidents.add(f"a {process.kind} woke a workflow")
        if before.status != "working" or before.started >= before.allowed or before.until_ms >= clock_ms:
            self.wrong(12, f"{process.name} wakes a job that is {before}")
