"""Simulations of a step that needs an approval. Several people decide, at once, late and with stale digests. Runs are
killed between the effect of the call and their last write, calls fail, and a client resumes soon after.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import replace as changed
from datetime import timedelta
from functools import cache
from typing import Any, NoReturn

from msgspec.structs import replace

from mcp_baton import Approval, Context, Retry, Server, ToolStep, constant, prompt_arg, step_output
from mcp_baton.approvals.items import APPROVAL_ITEM_PREFIX, to_approval
from mcp_baton.approvals.record import ApprovalRecord, ApprovalState
from mcp_baton.exceptions import ToolError
from mcp_baton.protocol.http import HttpRequest, HttpResponse
from mcp_baton.protocol.json import Json, JsonObject, dumps, loads
from mcp_baton.settings import Settings
from mcp_baton.workflow.steps.step import Step
from tests.simulation.dynamodb.database import Change, Key
from tests.simulation.heads import serial_in
from tests.simulation.invariants import Judge
from tests.simulation.invocations import SETTINGS, SimulatedExchange, Trigger
from tests.simulation.journal import Process, ToolCall
from tests.simulation.scheduler import Actor, current_actor
from tests.simulation.servers import Plan, look, mail, pay, server_of
from tests.simulation.world import World

PEOPLE = ("kim", "lee")
AUDIENCE = "refunds"
APPROVERS = {AUDIENCE: frozenset(PEOPLE)}
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    *(("pay", {"amount": 7}),) * 3,
    ("pay", {"amount": 8}),
    ("mail", {"to": "ann"}),
)
KINDS = ("resume",) * 6 + ("call",) * 5 + ("decide",) * 9 + ("poll", "cancel", "complete")
LIVES_S = (20, 130, 600, 600)
RETRIES = (None, None, Retry(attempts=2, first_s=1, jitter=False), Retry(attempts=3, first_s=1, jitter=False))
MOST_RESUMES = 8
"""How often a client resumes soon after a decision, a death or a failure."""

CHANGING = ("state", "decided_ms", "decided_by", "decided_from", "source", "reason", "used_ms", "used_by", "notify_ms")
USES = ("uses", "is_free", "is_repeated")
LATE_MS = 31_000
"""How long a client resends a request, milliseconds."""


@cache
def guarded_server(lives_s: int, retry: Retry | None, *, retryable: bool) -> Server:
    steps: list[Step] = [
        ToolStep("look", {"key": prompt_arg("key")}, tool=look, checkpoint=True),
        ToolStep("pay", {"amount": step_output("look", "n")}, tool=pay, retry=retry, retryable=retryable),
        ToolStep("mail", {"to": constant("ann")}, tool=mail),
    ]
    return server_of({"refund": steps}, {"pay": Approval(AUDIENCE, expires=timedelta(seconds=lives_s))})


class People:
    """People who decide approvals."""

    def __init__(self, world: World, lives_s: int) -> None:
        self._world = world
        self._lives_s = lives_s

    def decide(self, process: Process, checks: "ApprovalChecks", *, last: bool = False) -> ApprovalRecord | None:
        """Read the list, wait, then decide one of its approvals, sometimes with a wrong digest. With `last`, approve at
        once. Returns the approval if the decision was confirmed."""
        world, rng = self._world, self._world.rng
        response = self._send(process, "GET", "/approvals")
        reply: Any = loads(response.body.decode())
        approvals: list[Mapping[str, Any]] = reply.get("approvals", [])
        if not approvals:
            return None
        approval = rng.choice(approvals)
        approves, is_stale = rng.random() < 0.75 or last, rng.random() < 0.1 and not last
        world.sleep(0 if last else rng.choice((0, 0, 0, 0, 0.05, 15, self._lives_s - 1, self._lives_s)))
        digest = "0" * 64 if is_stale else approval["digest"]
        body = {"decision": "approve" if approves else "deny", "digest": digest}
        status = self._send(process, "POST", f"/approvals/{approval['approvalId']}", body).status
        world.incidents.add(f"a decision was answered with {status}")
        if status != 200:
            return None
        state = ApprovalState.APPROVED if approves else ApprovalState.DENIED
        return checks.check_decision(process, str(approval["approvalId"]), state)

    def _send(self, process: Process, method: str, path: str, body: Any = None) -> HttpResponse:
        headers = {"content-type": "application/json"}
        data = b"" if body is None else dumps(body).encode()
        request = HttpRequest(method, path, headers, data, process.owner)
        response = self._world.endpoint(process)(request, SimulatedExchange(self._world, process))
        assert response is not None
        self._world.note(process.actor, f"{method} {path[:20]} {body or ''} {response.status}")
        return response


@dataclass(slots=True)
class Use:
    """A use of an approval by one process, and the call that it allowed.

    After a use by a run, a later run may use the approval once more. If the clocks differ, the first run may still be
    alive. Then both may make the call, with the same idempotency key.
    """

    key: Key
    record: ApprovalRecord
    process: Process
    is_after_death: bool
    call: ToolCall | None = None


class ApprovalChecks:
    """Checks the approvals in the table, and the calls of the guarded tool.

    Args:
        attempts: How often a call that fails cleanly may be made with one approval.
    """

    def __init__(self, judge: Judge, tool: str, attempts: int) -> None:
        self._judge = judge
        self._tool = tool
        self._attempts = attempts
        self.records: dict[Key, ApprovalRecord] = {}
        self.uses: list[Use] = []
        self.failed_cleanly: set[int] = set()
        """The calls whose tool has said that they may be tried again."""
        self.unrepeated = set[Key]()
        """The approvals whose second use, after a run was killed, did not start."""

    def wrong(self, number: int, description: str) -> None:
        self._judge.wrong(number, description)

    def check_write(self, number: int, change: Change, process: Process | None) -> bool:
        """Check a write. Return whether it requests an approval."""
        if not change.key[0].startswith(APPROVAL_ITEM_PREFIX) or change.after is None:
            return False
        item: Any = change.after
        after, before = to_approval(item), self.records.get(change.key)
        self.records[change.key] = after
        if before is None:
            self._judge.world.incidents.add("an approval was requested")
            return True
        expected = replace(after, **{name: getattr(before, name) for name in (*CHANGING, *USES)})
        if expected != before:
            self.wrong(22, f"write #{number} changes what an approval is about: {before} to {after}")
        if before.state is not ApprovalState.WAITING and _decision(before) != _decision(after):
            self.wrong(22, f"write #{number} changes a decision: {before} to {after}")
        if process is not None and after.is_free and not before.is_free:
            self._check_freed(number, change.key, before, after)
        elif process is not None and _use(after) != _use(before):
            self._check_use(number, change.key, before, after, process)
        return False

    def _check_freed(self, number: int, key: Key, before: ApprovalRecord, after: ApprovalRecord) -> None:
        """Check that the last call with an approval failed cleanly, or did not start."""
        use = next(reversed(self._uses_of(key)), None)
        if use is None:
            self.wrong(21, f"write #{number} frees an approval that was not used: {after}")
        elif use.call is None:
            self._judge.world.incidents.add("a use of an approval did not start")
            self.uses.remove(use)
            self.unrepeated.update([key] if use.is_after_death else [])
        elif self._attempts < 2 or not self._has_failed_cleanly(use.call):
            self.wrong(21, f"write #{number} frees an approval after call #{use.call.serial}")
        if after.uses != len(self._uses_of(key)):
            self.wrong(21, f"write #{number} counts {after.uses} uses: {len(self._uses_of(key))} were made")
        if after.used_by != before.used_by:
            self.wrong(21, f"write #{number} frees the approval of another attempt: {before} to {after}")

    def _has_failed_cleanly(self, call: ToolCall) -> bool:
        return call.has_outcome and not call.has_result and call.serial in self.failed_cleanly

    def _check_use(
        self, number: int, key: Key, before: ApprovalRecord, after: ApprovalRecord, process: Process
    ) -> None:
        incidents = self._judge.world.incidents
        incidents.add("an approval was used")
        # A request that was sent before the expiry may arrive after it. The sender's clock decides.
        sent_ms = max(request.began_ms for request in process.requests) + process.skew_s * 1000
        if before.state is not ApprovalState.APPROVED or sent_ms - LATE_MS > after.until_ms:
            self.wrong(20, f"write #{number} uses an approval that is {before.state.value} or expired: {after}")
        earlier = self._uses_of(key)
        if after.uses != before.uses + 1 or after.uses != len(earlier) + 1:
            self.wrong(
                21, f"write #{number} counts {after.uses} uses after {before.uses}: {len(earlier) + 1} were made"
            )
        is_after_death = bool(earlier) and (not before.is_free or key in self.unrepeated)
        if is_after_death and before.is_free:
            self.unrepeated.remove(key)
        elif is_after_death:
            incidents.add("an approval was used again after a run was killed")
            self._check_use_after_death(number, before, after, earlier)
        elif earlier:
            incidents.add("an approval was used again after a clean failure")
            call = earlier[-1].call
            if len(earlier) >= self._attempts or (call is not None and not self._has_failed_cleanly(call)):
                self.wrong(21, f"write #{number} uses an approval again after {len(earlier)} of {self._attempts} calls")
        self.uses.append(Use(key, after, process, is_after_death))

    def _check_use_after_death(
        self, number: int, before: ApprovalRecord, after: ApprovalRecord, earlier: list[Use]
    ) -> None:
        """Check that the earlier attempt was a run that has not made its last write, if it has made the call, and that
        this is the only time. Calls that failed cleanly before may be stored."""
        calls = [use.call for use in earlier if use.call and not self._has_failed_cleanly(use.call)]
        placed = [call.serial for call in calls if call.serial in self._judge.placed]
        are_runs = [str(record.used_by).startswith("run:") for record in (before, after)]
        holder = self._judge.claims.holders.get(earlier[-1].process.name)
        has_ended = earlier[-1].call is not None and holder is not None and holder.released_ms < float("inf")
        if placed or not all(are_runs) or has_ended or any(use.is_after_death for use in earlier):
            self.wrong(21, f"write #{number} uses an approval again: {before.used_by}, {after.used_by}, {placed}")

    @property
    def is_waiting(self) -> bool:
        """Whether an approval waits for its decision."""
        return any(record.waits_at(int(self._judge.world.scheduler.now_ms)) for record in self.records.values())

    def was_decided(self, process: Process, clock_ms: float) -> bool:
        """Return whether an approval was decided or has expired since a process began."""
        for key, record in self.records.items():
            first, *_ = self._judge.world.database.since(key, process.writes)
            item: Any = first.item
            was_waiting = item is None or to_approval(item).state is ApprovalState.WAITING
            if was_waiting and (record.state is not ApprovalState.WAITING or record.until_ms <= clock_ms):
                return True
        return False

    def _uses_of(self, key: Key) -> list[Use]:
        return [use for use in self.uses if use.key == key]

    def check_call(self, call: ToolCall) -> None:
        if call.tool != self._tool:
            return
        open_uses = [use for use in self.uses if use.process is call.process and use.call is None]
        use = next((use for use in open_uses if use.record.arguments == call.arguments), None)
        if use is None:
            self.wrong(20, f"call #{call.serial} {call.arguments} has no approval")
            return
        use.call = call
        calls = [other.call for other in self._uses_of(use.key) if other.call is not None]
        if len({call.key for call in calls}) > 1:
            self.wrong(21, f"a decision has several effects: {[(call.serial, call.key) for call in calls]}")

    def check_decision(self, process: Process, approval_id: str, state: ApprovalState) -> ApprovalRecord:
        record = next(approval for approval in self.records.values() if approval.approval_id == approval_id)
        if record.state is not state or record.decided_by not in PEOPLE:
            self.wrong(22, f"{process.name} gets the reply that it decided {state.value}, but the approval is {record}")
        return record

    def shown_pauses(self, process: Process, pause: JsonObject, clock_ms: tuple[float, float]) -> list[JsonObject]:
        """Return how a reply may show a stored pause reason: with the decision, or that the approval has expired.

        Polls, lists, subscriptions and calls that name a task read the approval. A call also shows a reason that its
        own run has just stored. `clock_ms` has the first and the last time that the process's clock may have shown.
        """
        if pause.get("type") != "approvalRequired" or not process.kind.startswith(("list", "listen", "poll", "call")):
            return [pause]
        key = next(key for key, record in self.records.items() if record.approval_id == pause["approvalId"])
        shown = [pause] if process.faults or process.kind == "call" else []
        for version in self._judge.world.database.since(key, process.writes):
            item: Any = version.item
            record = None if item is None else to_approval(item)
            if record is None or record.state is ApprovalState.WITHDRAWN:
                shown.append(pause)
            elif record.state is ApprovalState.DENIED:
                shown.append({**pause, "type": "approvalDenied", "reason": record.reason or ""})
            else:
                is_approved = record.state is ApprovalState.APPROVED
                open_pause: JsonObject = {**pause, "type": "approvalGranted"} if is_approved else pause
                shown += [open_pause] * (record.until_ms > clock_ms[0])
                shown += [{**pause, "type": "approvalExpired"}] * (record.until_ms <= clock_ms[1])
        return shown


class ApprovalJudge(Judge):
    world: "ApprovalWorld"

    def __init__(self, world: "ApprovalWorld") -> None:
        super().__init__(world)
        self.approvals = ApprovalChecks(self, "pay", world.attempts)

    def _check_write(self, change: Change, process: Process | None, now_ms: float) -> int:
        number = super()._check_write(change, process, now_ms)
        if self.approvals.check_write(number, change, process):
            self.world.on_request()
        return number

    def check_call(self, call: ToolCall) -> None:
        super().check_call(call)
        self.approvals.check_call(call)

    def shown_pauses(self, process: Process, pause: JsonObject, clock_ms: tuple[float, float]) -> list[JsonObject]:
        return self.approvals.shown_pauses(process, pause, clock_ms)


class ApprovalWorld(World):
    settings: Settings = replace(SETTINGS, approvers=APPROVERS)
    judge: ApprovalJudge
    judge_type = ApprovalJudge

    def _set_up(self) -> None:
        super()._set_up()
        self.plan = Plan("refund", CALLS)
        self.kinds = KINDS
        self.limits = replace(self.limits, audit_days=1)
        self.lives_s = self.rng.choice(LIVES_S)
        self.retry, self.retryable = self.rng.choice(RETRIES), self.rng.random() < 0.5
        self.deaths = self.rng.choice((0, 0.7))
        self.is_eager = self.rng.random() < 0.8
        self.people = People(self, self.lives_s)
        self._resumes_left = MOST_RESUMES if self.is_eager else 0
        self._other_invocations = self.rng.randrange(6, 18)

    @property
    def attempts(self) -> int:
        """How often a call that fails cleanly may be made with one approval."""
        return self.retry.attempts if self.retry else 1 + self.retryable

    def server(self, *, edited: bool) -> Server:  # noqa: ARG002 - this simulation has only one version of the workflow
        return guarded_server(self.lives_s, self.retry, retryable=self.retryable)

    def _invoke(self, trigger: Trigger, after_ms: float = 0.0) -> None:
        person = self.rng.choice(PEOPLE) if trigger.kind == "decide" else trigger.owner
        super()._invoke(changed(trigger, owner=person), after_ms)

    def _handle(self, process: Process, trigger: Trigger) -> None:
        if trigger.kind != "decide":
            super()._handle(process, trigger)
        elif self.people.decide(process, self.judge.approvals) is not None:
            self._resume_after(self.rng.choice((0, 20, 500)))

    def on_request(self) -> None:
        """After an approval was requested, a person decides soon."""
        if self.is_eager and not self.weather.is_over:
            self._invoke(Trigger("decide"), self.rng.choice((5, 50, 1_000)))

    def call_tool(self, tool: str, arguments: dict[str, Json], ctx: Context) -> dict[str, Json]:
        """Call a tool. A client resumes soon after a failure, and after a run that was killed when it had paid."""
        try:
            result = super().call_tool(tool, arguments, ctx)
        except ToolError as error:
            if error.retryable:
                self.judge.approvals.failed_cleanly.add(serial_in({"error": str(error)}) or 0)
            self._resume_after(self.rng.choice((20, 500, 20_000)))
            raise
        if tool == "pay" and not self.weather.is_over and self.rng.random() < self.deaths:
            self.kill(current_actor(), "killed after pay")
        return result

    def kill(self, actor: Actor, description: str) -> NoReturn:
        if self.processes[actor.process.name].is_run:
            self._resume_after(self.judge.lease_ms + self.rng.choice((1, 100, 700)))
        super().kill(actor, description)

    def _resume_after(self, after_ms: float) -> None:
        if self._resumes_left and not self.weather.is_over:
            self._resumes_left -= 1
            self._invoke(Trigger("resume"), after_ms)


def _decision(record: ApprovalRecord) -> tuple[object, ...]:
    return record.state, record.decided_ms, record.decided_by, record.reason


def _use(record: ApprovalRecord) -> tuple[object, ...]:
    return record.used_by, record.used_ms, record.uses, record.is_free
