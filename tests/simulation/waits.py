"""Simulations of a workflow with a callback and a sleep (docs/waiting.md), in the foreground and in the background.
Callbacks come early, late, twice, with other bodies, at the timeout, and after the end. In the background, the workflow
may also have a step with an approval, parallel steps, and a second call that waits with the same task.
"""

import math
from dataclasses import dataclass
from dataclasses import replace as changed
from datetime import timedelta
from functools import cache
from typing import Any, Literal

from msgspec.structs import replace

from mcp_baton import (
    Approval,
    Callback,
    Context,
    Server,
    ToolStep,
    Wait,
    constant,
    first_of,
    prompt_arg,
    step_output,
)
from mcp_baton.approvals.record import ApprovalState
from mcp_baton.callbacks.items import callback_key
from mcp_baton.protocol.http import CALLBACKS_PATH, HttpRequest
from mcp_baton.protocol.json import Json, JsonObject, dumps
from mcp_baton.settings import Settings
from mcp_baton.tasks.ids import text_digest
from mcp_baton.tasks.record import FIRST_DISPATCH_MS, MAX_DISPATCH_MS, RESULT_PREFIX, WAIT_PREFIX
from mcp_baton.workflow.steps.step import Step
from tests.simulation.approvals import APPROVERS, AUDIENCE, PEOPLE, ApprovalChecks, People
from tests.simulation.client import SentRequest
from tests.simulation.dynamodb.database import Change, Key, key_of
from tests.simulation.dynamodb.paths import Item
from tests.simulation.heads import (
    SETTLED,
    TERMINAL,
    claim_of,
    expires_ms,
    reasons_of,
    status_of,
    steps_of,
    value_of,
    variables_of,
)
from tests.simulation.invariants import TASK, Judge
from tests.simulation.invocations import SETTINGS, SimulatedExchange, Trigger
from tests.simulation.jobs.background import ATTEMPTS, BackgroundJudge, BackgroundWorld, FlowJudge
from tests.simulation.jobs.heads import Head, head_in
from tests.simulation.jobs.tools import JobPlan
from tests.simulation.jobs.world import MINUTE_MS, MOST_LATE_MS
from tests.simulation.journal import Process, ToolCall
from tests.simulation.scheduler import current_actor
from tests.simulation.servers import Plan, look, mail, pay, server_of, weigh
from tests.simulation.world import World

SIGNED, NIGHT, GIVE = "signed", "night", "give"
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
        parallel: How many steps run at once.
        lives_s: How long the approval of a third step lives, seconds; `None` if there is no such step.
    """

    within_s: int
    sleep_s: int
    on_timeout: Literal["fail", "skip"]
    is_early: bool
    background: bool
    parallel: int = 1
    lives_s: int | None = None


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
    amount = step_output(SIGNED)
    wait = Callback(int, timedelta(seconds=waits.within_s), waits.on_timeout)
    lookup = ToolStep("look", {"key": prompt_arg("key")}, tool=look, checkpoint=True)
    signed, night = Wait(SIGNED, callback=wait), Wait(NIGHT, sleep=timedelta(seconds=waits.sleep_s))
    payment = ToolStep(
        "pay", {"amount": first_of(amount, constant(DEFAULT)) if waits.on_timeout == "skip" else amount}, tool=pay
    )
    ann = ToolStep("mail", {"to": constant("ann")}, tool=mail)
    steps: list[Step] = (
        [lookup, ann, night, signed, payment] if waits.is_early else [lookup, signed, payment, night, ann]
    )
    guarded = None
    if waits.lives_s is not None:
        guarded = {"weigh": Approval(AUDIENCE, expires=timedelta(seconds=waits.lives_s))}
        steps.insert(steps.index(night), ToolStep(GIVE, {"of": constant(1)}, tool=weigh))
    return server_of({"sign": steps}, guarded, background=waits.background, parallel=waits.parallel)


class WaitJudge(Judge):
    world: "WaitWorld"

    def __init__(self, world: "WaitWorld") -> None:
        super().__init__(world)
        self.accepted: Post | None = None
        self.accepted_at = 0
        """The number of writes when the callback was stored."""
        self.accepted_ms = 0.0
        self.accepted_by = ""
        """The process that stored it."""
        self.is_unread = False
        """Whether no worker has claimed the task since the callback was stored."""
        self.timed_out: ToolCall | None = None
        """A call that a run made because no callback came."""

    @property
    def lives(self) -> bool:
        head, now_ms = self.head, self.world.scheduler.now_ms
        return head is not None and status_of(head) not in TERMINAL and expires_ms(head) > now_ms

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
                self.world.waits_until(until_ms)

    def _check_reason(self, number: int, before: Item | None, after: Item) -> None:
        """Check that the last write of a run says why it stopped. A release without a write does not change the
        version."""
        claims = claim_of(before) if before else None, claim_of(after)
        if claims[0] is None or claims[1] is None or claims[0][0] != claims[1][0] or before is None:
            return
        is_last = claims[0][2] > 0 and claims[1][2] == 0 and before["version"] != after["version"]
        is_open = status_of(after) == "working" and not set(steps_of(after).values()) <= SETTLED
        if is_last and is_open and not reasons_of(after):
            self.wrong(27, f"write #{number} ends a run before its last step without a reason: {steps_of(after)}")

    def _wait_ended(self, number: int, wait: str, new: str, change: Change, process: Process, now_ms: float) -> None:
        before, after = change.before, change.after
        assert after is not None
        until_ms = self._value(before, WAIT_PREFIX + wait)
        if wait == SIGNED and new == "completed":
            self.world.incidents.add(f"a callback ended a wait{'' if until_ms else ' before it began'}")
            self._accepted(number, after, process, now_ms)
            return
        self.world.incidents.add(f"a time ended a wait: {new}")
        is_over = isinstance(until_ms, int) and until_ms <= process.wall_clock_ms(now_ms)
        if not process.is_run or not is_over or (wait == NIGHT and new != "completed"):
            self.wrong(23, f"write #{number} of {process.name} makes {wait} {new}, which ends at {until_ms}")

    def _known_until_ms(self, process: Process) -> float:
        """Return when the wait for the callback ends, epoch milliseconds, as a process could read it when it began."""
        until_ms = self._value(self.versions(process)[0], WAIT_PREFIX + SIGNED)
        return until_ms if isinstance(until_ms, int) else math.inf

    def _accepted(self, number: int, after: Item, process: Process, now_ms: float) -> None:
        post = self.world.posts.get(process.name)
        value = self._value(after, RESULT_PREFIX + SIGNED)
        if post is None or post.token == FORGED or value != post.body:
            self.wrong(24, f"write #{number} stores {value!r} as the callback of {process.name}, but that was {post}")
            return
        # A run may store only now when the wait ends. A callback that has read the task before is in time.
        if self._known_until_ms(process) <= process.began_ms + process.fast_ms:
            self.wrong(23, f"write #{number} accepts a callback that came after the time")
        if self.timed_out is not None:
            self.wrong(25, f"write #{number} accepts a callback after call #{self.timed_out.serial} saw the timeout")
        self.accepted, self.accepted_at, self.accepted_ms = post, self.world.database.writes, now_ms + process.fast_ms
        self.accepted_by = process.name
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
        repeats = post.repeats(self.accepted)
        was_there = repeats and self.accepted_at <= process.writes
        versions = self.versions(process)
        items = [item for item in versions if item is not None]
        clocks_ms = process.began_ms + process.fast_ms, process.wall_clock_ms(self.world.scheduler.now_ms) + 1
        has_expired = len(items) < len(versions) or expires_ms(items[0]) <= clocks_ms[1]
        # An address may expire before its task, which lives longer if an approval is requested again.
        has_expired = has_expired or self._address_until_ms(post.token) <= clocks_ms[1]
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

    def _address_until_ms(self, token: str) -> int:
        """Return when a callback's address expires, epoch milliseconds; 0 if it is unknown."""
        key: Any = callback_key(text_digest(token))
        item = self.world.database.items.get(key_of(key))
        return 0 if item is None else expires_ms(item)

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
        timed_out = steps[SIGNED] == "failed" and self.world.waits.on_timeout == "fail"
        if self.is_denied():
            return
        if not timed_out or self.accepted is not None:
            self.wrong(26, f"all waits have ended, but the task has the steps {steps}")

    def is_denied(self) -> bool:
        """Return whether a person has denied a step, which then never runs."""
        return False

    def _value(self, item: Item | None, name: str) -> Json:
        if item is None or name not in variables_of(item):
            return None
        return value_of(item, name, self.world.stored)


class WaitWorld(World):
    settings: Settings = replace(SETTINGS, base_url=BASE_URL, approvers=APPROVERS)
    judge_type: type[Judge] = WaitJudge
    background = False
    is_last_resumed = False
    """Whether only the resumes of a client continue the workflow, because all calls have ended."""

    def _set_up(self) -> None:
        super()._set_up()
        rng, self.tokens, self.posts = self.rng, list[str](), dict[str, Post]()
        on_timeout: Literal["fail", "skip"] = rng.choice(("fail", "skip"))
        within_s, sleep_s, is_early = rng.choice(WITHIN_S), rng.choice(SLEEPS_S), rng.random() < 0.4
        self.waits = Waits(within_s, sleep_s, on_timeout, is_early, self.background)
        self.limits = replace(self.limits, max_ttl_ms=86_400_000, max_tasks_per_owner=None)
        self.plan = Plan("sign", CALLS)
        self.failure_chance = min(self.failure_chance, 0.2)
        self._callback_count = rng.choice((0, 2, 4, 8))
        self.weather.skewed = rng.random() < 0.5
        if not self.background:
            self.kinds, self._other_invocations = KINDS, rng.randrange(4, 14)

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
        self.is_last_resumed = True
        judge = self.wait_judge
        for _ in range(6):
            if not judge.lives or steps_of(judge.head or {})[SIGNED] == "failed":
                break
            longest_s = max(self.waits.within_s, self.waits.sleep_s)
            self.scheduler.now_ms += 2 * judge.lease_ms + longest_s * 1000 + self.fast_ms
            self._invoke(Trigger("resume", last=True))
            self.scheduler.run()
            self._decide_last()
        judge.check_waits_ended()
        if judge.accepted is not None:
            self._invoke(Trigger("callback", last=True))
            self.scheduler.run()

    def _decide_last(self) -> None:
        """Let the people approve what still waits for them."""

    def call_tool(self, tool: str, arguments: dict[str, Json], ctx: Context) -> dict[str, Json]:
        """Create an address in the first step. Callbacks may come at once."""
        result = super().call_tool(tool, arguments, ctx)
        if tool == "look" and ctx.task is not None:
            self.tokens.append(ctx.callback_url(SIGNED).removeprefix(BASE_URL + CALLBACKS_PATH))
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
        request = HttpRequest("POST", CALLBACKS_PATH + post.token, headers, dumps(post.body).encode(), None)
        self.note(process.actor, f"posts {post.body} with the key {post.key}")
        reply = self.endpoint(process)(request, SimulatedExchange(self, process))
        assert reply is not None
        self.note(process.actor, f"is answered {reply.status}")
        self.incidents.add(f"a callback was answered with {reply.status}")
        self.wait_judge.check_callback_reply(process, post, reply.status)


class WaitFlowJudge(WaitJudge, FlowJudge):
    """The judge of the workflow's own task."""

    world: "BackgroundWaitWorld"

    def __init__(self, world: "BackgroundWaitWorld") -> None:
        super().__init__(world)
        self.last_items: dict[str, Item] = {}
        """By process: the task after its last write."""
        self.settlers: set[str] = set()
        """The processes that have completed or skipped a step."""
        self.ended_by = ""
        """The process that has ended the task."""

    def _check_head(self, number: int, change: Change, process: Process | None, now_ms: float) -> None:
        super()._check_head(number, change, process, now_ms)
        before, after = change.before, change.after
        if process is None or before is None or after is None:
            return
        self.last_items[process.name] = after
        if any(status in SETTLED and steps_of(before).get(step) != status for step, status in steps_of(after).items()):
            self.settlers.add(process.name)
        if status_of(after) in TERMINAL:
            self.ended_by = process.name

    def pending_waits(self, process: Process) -> list[str]:
        """Return the waits that were open after the last write of a process."""
        steps = steps_of(self.last_items[process.name]) if process.name in self.last_items else {}
        return [wait for wait in (SIGNED, NIGHT) if steps.get(wait) == "pending"]

    def until_ms(self, item: Item, wait: str) -> int | None:
        """Return when a wait ends, epoch milliseconds; `None` if it has not begun."""
        until_ms = self._value(item, WAIT_PREFIX + wait)
        return until_ms if isinstance(until_ms, int) else None

    def is_denied(self) -> bool:
        records = self.world.judge.approvals.records.values()
        return any(record.state is ApprovalState.DENIED for record in records)


class BackgroundWaitJudge(BackgroundJudge):
    """The judge of the workflow's task and the task of one call.

    Attributes:
        slept_at: The number of the write that let the job wait; `None` if an event was sent or a worker has claimed
            the job since then, or the job has ended.
        sleeper: The worker that made it.
        others: The judges of further calls of the workflow that name its task, by their task.
    """

    world: "BackgroundWaitWorld"
    flow: WaitFlowJudge

    def __init__(self, world: "BackgroundWaitWorld", first: "BackgroundWaitJudge | None" = None) -> None:
        super().__init__(world)
        self.slept_at: int | None = None
        self.sleeper, self.sleepers = "", set[str]()
        self.others: dict[str, BackgroundWaitJudge] = {}
        self.flow = WaitFlowJudge(world) if first is None else first.flow
        self.approvals: ApprovalChecks = ApprovalChecks(self.flow, "weigh", 1) if first is None else first.approvals
        self.decided_at: dict[str, tuple[int, Key]] = {} if first is None else first.decided_at
        """By process: the number of its last decision, and the approval."""
        if first is not None:
            self.changes, self.broken = first.changes, first.broken
        self.flow.changes, self.flow.broken = self.changes, self.broken

    @property
    def is_asleep(self) -> bool:
        """Whether the job waits, and nothing has woken it yet."""
        return self.slept_at is not None

    def _check_write(self, change: Change, process: Process | None, now_ms: float) -> int:
        item, task_id = change.after or change.before or {}, change.key[1].removeprefix(TASK)
        is_job = change.key[1].startswith(TASK) and "allowed" in item
        if is_job and self.task_id and task_id != self.task_id and task_id not in self.others and process is not None:
            other = self.others[task_id] = BackgroundWaitJudge(self.world, self)
            other.task_id = task_id
            self.world.incidents.add("a second call waited with a task")
        if task_id in self.others:
            return self.others[task_id].check_write(change, process, now_ms)
        number = super()._check_write(change, process, now_ms)
        before = self.approvals.records.get(change.key)
        if self.approvals.check_write(number, change, process):
            self.world.on_request()
        elif (
            process is not None
            and before is not None
            and before.task_id is not None  # the decision of a call without a task wakes no job
            and before.state is not self.approvals.records[change.key].state
        ):
            self.decided_at[process.name] = number, change.key
        return number

    def check_call(self, call: ToolCall) -> None:
        other = self.others.get(call.process.task_id) if call.process.kind == "work" else None
        if other is not None:
            other.check_call(call)
            return
        super().check_call(call)
        self.approvals.check_call(call)

    def shown_pauses(self, process: Process, pause: JsonObject, clock_ms: tuple[float, float]) -> list[JsonObject]:
        return self.approvals.shown_pauses(process, pause, clock_ms)

    def _check_head(self, number: int, change: Change, process: Process | None, now_ms: float) -> None:
        super()._check_head(number, change, process, now_ms)
        assert change.after is not None
        if change.before is None:
            return
        before, after = head_in(change.before), head_in(change.after)
        if after.dispatches != before.dispatches or after.holder != before.holder or after.status != "working":
            self.slept_at = None
        elif before.until_ms and not after.until_ms and after.allowed != before.allowed and after.status == "working":
            self.world.incidents.add("a workflow waited without a worker")
            self.slept_at, self.sleeper = number, process.name if process else ""
            self.sleepers.add(self.sleeper)
            if process is not None:
                self._check_due(number, process, after, now_ms)

    def _check_due(self, number: int, process: Process, after: Head, now_ms: float) -> None:
        """Check when a sweep finds a job that waits: when the first of the waits that its worker knew ends; if it waits
        for an approval, within ten minutes."""
        item = self.flow.last_items.get(process.name)
        if item is None:
            return
        ends_ms = [self.flow.until_ms(item, wait) for wait in self.flow.pending_waits(process)]
        late = [until_ms for until_ms in ends_ms if until_ms is not None and after.due_ms > until_ms]
        longest_ms = process.wall_clock_ms(now_ms) + MAX_DISPATCH_MS
        if late or (self.approvals.is_waiting and after.due_ms > longest_ms):
            self.wrong(26, f"write #{number} lets a job wait until {after.due_ms}, but its waits end at {ends_ms}")

    # Wake-ups.

    def _is_wake_up(self, process: Process, before: Head, after: Head) -> bool:
        """Return whether a write dispatches a job that waits for a reason other than its time."""
        is_dispatch = after.dispatches == before.dispatches + 1 and before.holder == after.holder
        return is_dispatch and self._may_wake(process)

    def _may_wake(self, process: Process) -> bool:
        """Return whether a process may wake the job: it has decided, has ended the workflow's task, or has settled a
        step and now waits; a callback has come that no worker has read; or it has just let the job wait, and one of the
        stopped steps can continue."""
        flow = self.flow
        match process.kind:
            case "decide":
                return process.name in self.decided_at
            case "callback" | "sweep":
                return any(item is not None and "wakes" in item for item in flow.versions(process))
            case "cancel own" | "complete own":
                return flow.ended_by == process.name
            case "work" if process.task_id == self.task_id:
                # Another worker may have let the job wait again, while this one read whether it can continue. If it
                # cannot read that, it wakes the job.
                return process.name in self.sleepers and (self._can_continue(process) or bool(process.faults))
            case "resume" | "work":
                # A run that finds the task ended wakes its jobs, too.
                return bool(flow.ended_by) or self._has_continued(process)
            case _:
                return False

    def _has_continued(self, process: Process) -> bool:
        """Return whether a call has failed in a run, or the run has continued the workflow and its last write says that
        it waits."""
        item = self.flow.last_items.get(process.name)
        reasons = [] if item is None else [reason for _, reason in reasons_of(item)]
        if any(reason["type"]["S"] == "toolError" and reason["suggestedTool"]["S"] for reason in reasons):
            return True
        types = {reason["type"]["S"] for reason in reasons}
        return process.name in self.flow.settlers and bool(types) and types <= {"waiting", "approvalRequired"}

    def _can_continue(self, process: Process) -> bool:
        """Return whether a step can continue that stopped in a worker's run, or the workflow's task has ended."""
        flow, clock_ms = self.flow, process.wall_clock_ms(self.world.scheduler.now_ms)
        if flow.head is None or status_of(flow.head) in TERMINAL:
            return True
        ends_ms = [flow.until_ms(flow.last_items[process.name], wait) for wait in flow.pending_waits(process)]
        has_timed_out = any(until_ms is not None and until_ms <= clock_ms for until_ms in ends_ms)
        settled = any(steps_of(flow.head)[wait] in SETTLED for wait in flow.pending_waits(process))
        return has_timed_out or settled or self.approvals.was_decided(process, clock_ms)

    def check_woken(self, process: Process) -> None:
        """Check that no job still waits for what a process has brought, or for what had come before the process let it
        wait."""
        flow = self.flow
        if process.faults or process.stalled or not flow.lives:
            return
        for judge in (self, *self.others.values()):
            slept_at = judge.slept_at
            if slept_at is None or judge.head is None or expires_ms(judge.head) <= self.world.scheduler.now_ms:
                continue
            decided_at = self.decided_at[process.name][0] if process.name in self.decided_at else -1
            stored_at = flow.accepted_at if flow.accepted_by == process.name else -1
            if max(decided_at, stored_at) > slept_at:
                self.wrong(28, f"{process.name} has brought what a job waits for, but does not wake {judge.task_id}")
            if judge.sleeper == process.name:
                judge.check_sleep(process, slept_at)

    def check_sleep(self, process: Process, slept_at: int) -> None:
        """Check that nothing had come before the worker let its job wait."""
        flow = self.flow
        settled = [wait for wait in flow.pending_waits(process) if flow.head and steps_of(flow.head)[wait] in SETTLED]
        if SIGNED in settled and process.writes < flow.accepted_at < slept_at:
            self.wrong(28, f"{process.name} lets its job wait, but the callback has come")
        for decided_at, key in self.decided_at.values():
            record = self.approvals.records[key]
            is_unused = record.state is ApprovalState.APPROVED and record.used_by is None
            if process.writes < decided_at < slept_at and is_unused and steps_of(flow.head or {})[GIVE] == "pending":
                self.wrong(28, f"{process.name} lets its job wait, but the approval was decided by write #{decided_at}")

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


class BackgroundWaitWorld(WaitWorld, BackgroundWorld):
    """The same workflow in the background: a callback, a decision or a sweep wakes its job."""

    background = True
    most_rounds = 20
    judge: BackgroundWaitJudge
    judge_type = BackgroundWaitJudge

    def _set_up(self) -> None:
        super()._set_up()
        rng = self.rng
        self.job = JobPlan("sign", ATTEMPTS)
        self.limits = replace(self.limits, default_ttl_ms=3_600_000, audit_days=1)
        self._disturbance_count = rng.choice((0, 0, 0, 2, 5))
        self._other_invocations = rng.randrange(8)
        self._callback_count = self._callback_count if rng.random() < 0.5 else 0
        lives_s = rng.choice((None, 130, 900, 900))
        self.waits = changed(self.waits, parallel=rng.choice((1, 1, 3)), lives_s=lives_s)
        self.people = People(self, lives_s or 0)
        self._other_calls = rng.choice((0, 1, 2))
        # A request may ask for the approval before the worker does.
        self._early_resumes = rng.choice((0, 0, 1))
        self._decides_ms = rng.choice(((), (0, 20, 500), (5_000, 40_000, 200_000)))

    @property
    def wait_judge(self) -> WaitJudge:
        return self.judge.flow

    # The course of a simulation.

    def _end_other_calls(self) -> None:
        for judge in self.judge.others.values():
            self._end_job(judge)

    def _end_job(self, judge: "BackgroundWaitJudge") -> None:
        """Run sweeps until a further call has ended."""
        for _ in range(self.most_rounds):
            item = judge.head
            if item is None or status_of(item) in TERMINAL:
                return
            head, now_ms = head_in(item), self.scheduler.now_ms
            self.scheduler.now_ms = max(now_ms, head.until_ms + 1, head.due_ms + 1) + MINUTE_MS
            if expires_ms(item) <= self.scheduler.now_ms:
                return
            self._invoke(Trigger("sweep", last=True))
            self.scheduler.run()
            self._decide_last()
        judge.wrong(10, "a further call of the workflow does not end")

    def on_creation(self, task_id: str) -> None:
        if self.task_id is None:
            for kind, count in (("again", self._other_calls), ("resume", self._early_resumes)):
                for _ in range(count):
                    self._invoke(Trigger(kind), self.rng.choice((0, 50, 500, 5_000, 50_000)))
        super().on_creation(task_id)

    def on_request(self) -> None:
        """After an approval was requested, people may decide. When the faults have ended, they approve."""
        if self.weather.is_over:
            self._invoke(Trigger("decide", last=True), 1_000)
            return
        for after_ms in self._decides_ms:
            if self.rng.random() < 0.5:
                self._invoke(Trigger("decide"), after_ms)

    def _decide_last(self) -> None:
        if self.judge.approvals.is_waiting:
            self._invoke(Trigger("decide", last=True))
            self.scheduler.run()

    def _invoke(self, trigger: Trigger, after_ms: float = 0.0) -> None:
        person = self.rng.choice(PEOPLE) if trigger.kind == "decide" else trigger.owner
        super()._invoke(changed(trigger, owner=person), after_ms)

    def _handle(self, process: Process, trigger: Trigger) -> None:
        judge = self.judge
        if trigger.kind == "decide":
            is_decided = self.people.decide(process, judge.approvals, last=trigger.last) is not None
            if is_decided and self.is_last_resumed:
                self._invoke(Trigger("resume", last=True), 1_000)
        else:
            super()._handle(process, trigger)
        judge.check_woken(process)

    def message(self, process: Process, trigger: Trigger) -> tuple[str, dict[str, Json]]:
        if trigger.kind == "again":
            arguments: dict[str, Json] = {"task_id": self.judge.flow.task_id}
            return "tools/call", {"name": self.job.tool, "arguments": arguments}
        return super().message(process, trigger)

    def register_request(self, operation: str, partition: str) -> SentRequest:
        """Register a request. When the faults have ended, only sweeps wake a job after a callback, and after half of
        the decisions that live so long."""
        request = super().register_request(operation, partition)
        kind, update_count = (
            request.process.kind,
            sum(sent.operation == "UpdateItem" for sent in request.process.requests),
        )
        if not self.weather.is_over or operation != "UpdateItem":
            return request
        lives_long = (self.waits.lives_s or 0) * 1000 > MAX_DISPATCH_MS + MOST_LATE_MS
        is_lost = kind == "decide" and update_count > 2 and lives_long and self.rng.random() < 0.5
        if is_lost or (kind == "callback" and update_count > 1):
            self.kill(current_actor(), "killed before it wakes the job")
        return request

    def _wait_for_result(self, item: dict[str, Any]) -> None:
        """Run only sweeps. They wake the job after a callback, when a wait has ended, or when the job is due."""
        judge = self.judge
        if judge.is_asleep and self.wait_judge.accepted is None and self.rng.random() < 0.9:
            self._invoke(Trigger("callback", last=True))
            self.scheduler.run()
            if self.rng.random() < 0.3:
                self._invoke(Trigger("resume", last=True))
                self.scheduler.run()
        if judge.is_asleep and self.rng.random() < 0.9:
            self._decide_last()
        head, now_ms = head_in(item), self.scheduler.now_ms
        longest_ms = max(MAX_DISPATCH_MS, self.waits.within_s * 1000) + self.fast_ms
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
        if expires_ms(item) <= self.scheduler.now_ms:
            judge.head = None
