"""Simulations of a step that needs an approval. Several people decide, at once, late and with stale digests.

All promises of runs and calls hold, and also: 20. A guarded tool runs only after its own attempt has marked an approval
of exactly this call as used. The approval was granted and had not expired by the clock of that process. 21. A decision
has at most one effect at a tool that honours its key. An approval is used again only if a later run resumes a run whose
outcome was not stored, and only once; or if the call failed cleanly, up to the attempts of the step's `Retry`. The
record counts the uses. 22. An approval is decided once, and a confirmed decision does not change. An approval is used
only after it was granted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from dataclasses import replace as changed
from datetime import timedelta
from functools import cache
from typing import Any

from msgspec.structs import replace

from mcp_baton import Approval, Argument, Context, Retry, Server, Step, Workflow, constant, prompt_arg, step_output
from mcp_baton.protocol.http import HttpRequest, HttpResponse
from mcp_baton.protocol.json import Json, dumps, loads
from mcp_baton.settings import Settings
from mcp_baton.tasks.approvals import ApprovalRecord, ApprovalState
from mcp_baton.tasks.dynamodb.approvals import PREFIX, to_approval
from tests.simulation.dynamodb.database import Change, Key
from tests.simulation.invariants import Judge
from tests.simulation.invocations import SETTINGS, SimulatedExchange, Trigger
from tests.simulation.journal import Process, ToolCall
from tests.simulation.scheduler import current_actor
from tests.simulation.servers import Plan, look, mail, pay
from tests.simulation.world import Rewrite, World

PEOPLE = ("kim", "lee")
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    *(("pay", {"amount": 7}),) * 3,
    ("pay", {"amount": 8}),
    ("mail", {"to": "ann"}),
)
KINDS = ("resume",) * 6 + ("call",) * 5 + ("decide",) * 9 + ("poll", "cancel", "complete")
LIVES_S = (20, 130, 600)
RETRIES = (None, None, Retry(attempts=3, first_s=1, jitter=False))
CHANGING = ("state", "decided_ms", "decided_by", "decided_from", "source", "reason", "used_ms", "used_by", "notify_ms")
USES = ("uses", "is_free", "is_repeated")
LATE_MS = 31_000
"""How long a client resends a request, milliseconds."""


@cache
def guarded_server(lives_s: int, retry: Retry | None) -> Server:
    server = Server("simulated")
    for tool in (look, mail):
        server.add_tool(tool)
    server.add_tool(pay, approval=Approval("refunds", expires=timedelta(seconds=lives_s)))
    steps = [
        Step("look", {"key": prompt_arg("key")}, tool=look, checkpoint=True),
        Step("pay", {"amount": step_output("look", "n")}, tool=pay, retry=retry),
        Step("mail", {"to": constant("ann")}, tool=mail),
    ]
    key = [Argument("key", "What to look up", required=True)]
    server.add_workflow(Workflow(name="refund", description="refund", arguments=key, steps=steps))
    server.check()
    return server


class ApprovalWorld(World):
    settings: Settings = replace(SETTINGS, approvers={"refunds": frozenset(PEOPLE)})

    def __init__(self, seed: int, *, rewrite: Rewrite | None = None, strict: bool = True) -> None:
        super().__init__(seed, rewrite=rewrite, strict=strict)
        self.plan = Plan("refund", CALLS)
        self.kinds = KINDS
        self.limits = replace(self.limits, audit_days=1)
        self.lives_s = self.rng.choice(LIVES_S)
        self.retry = self.rng.choice(RETRIES)
        self.deaths = self.rng.choice((0, 0, 0.7))
        self._other_invocations = self.rng.randrange(6, 18)
        self.judge: ApprovalJudge = ApprovalJudge(self, strict=strict)

    def server(self, *, edited: bool) -> Server:  # noqa: ARG002 - this simulation has only one version of the workflow
        return guarded_server(self.lives_s, self.retry)

    def _invoke(self, trigger: Trigger, after_ms: float = 0.0) -> None:
        person = self.rng.choice(PEOPLE) if trigger.kind == "decide" else trigger.owner
        super()._invoke(changed(trigger, owner=person), after_ms)

    def _handle(self, process: Process, trigger: Trigger) -> None:
        if trigger.kind == "decide":
            self._decide(process)
        else:
            super()._handle(process, trigger)

    def call_tool(self, tool: str, arguments: dict[str, Json], ctx: Context) -> dict[str, Json]:
        result = super().call_tool(tool, arguments, ctx)
        if tool == "pay" and not self.weather.is_over and self.rng.random() < self.deaths:
            self.kill(current_actor(), "killed after pay")
        return result

    def _decide(self, process: Process) -> None:
        """Read the list, wait, then decide one of its approvals, sometimes with a wrong digest."""
        response = self._send(process, "GET", "/approvals")
        reply: Any = loads(response.body.decode())
        approvals: list[Mapping[str, Any]] = reply.get("approvals", [])
        if not approvals:
            return
        approval = self.rng.choice(approvals)
        self.sleep(self.rng.choice((0, 0, 0.05, 15, self.lives_s - 1, self.lives_s)))
        approves, is_stale = self.rng.random() < 0.75, self.rng.random() < 0.1
        digest = "0" * 64 if is_stale else approval["digest"]
        body = {"decision": "approve" if approves else "deny", "digest": digest}
        status = self._send(process, "POST", f"/approvals/{approval['approvalId']}", body).status
        self.incidents.add(f"a decision was answered with {status}")
        if status == 200:
            state = ApprovalState.APPROVED if approves else ApprovalState.DENIED
            self.judge.check_decision(process, str(approval["approvalId"]), state)

    def _send(self, process: Process, method: str, path: str, body: Any = None) -> HttpResponse:
        headers = {"content-type": "application/json"}
        data = b"" if body is None else dumps(body).encode()
        request = HttpRequest(method, path, headers, data, process.owner)
        response = self.endpoint(process)(request, SimulatedExchange(self, process))
        assert response is not None
        self.note(process.actor, f"{method} {path[:20]} {body or ''} {response.status}")
        return response


@dataclass(slots=True)
class Use:
    """A use of an approval by one process, and the calls that this approval allowed.

    After a use by a run, a later run may use the approval once more. If the clocks differ, the first run may still be
    alive. Then both may make the call, with the same idempotency key.
    """

    key: Key
    record: ApprovalRecord
    process: Process
    is_open: bool = True
    calls: list[ToolCall] = field(default_factory=list)
    is_after_death: bool = False


class ApprovalJudge(Judge):
    world: ApprovalWorld

    def __init__(self, world: ApprovalWorld, *, strict: bool) -> None:
        super().__init__(world, strict=strict)
        self.approvals: dict[Key, ApprovalRecord] = {}
        self.uses: list[Use] = []

    def _check_write(self, change: Change, process: Process | None, now_ms: float) -> int:
        number = super()._check_write(change, process, now_ms)
        if change.key[0].startswith(PREFIX) and change.after is not None:
            item: Any = change.after
            self._check_approval(number, change, to_approval(item), process)
        return number

    def _check_approval(self, number: int, change: Change, after: ApprovalRecord, process: Process | None) -> None:
        before = self.approvals.get(change.key)
        self.approvals[change.key] = after
        if before is None:
            self.world.incidents.add("an approval was requested")
            return
        expected = replace(after, **{name: getattr(before, name) for name in (*CHANGING, *USES)})
        if expected != before:
            self.wrong(22, f"write #{number} changes what an approval is about: {before} to {after}")
        if before.state is not ApprovalState.WAITING and _decision(before) != _decision(after):
            self.wrong(22, f"write #{number} changes a decision: {before} to {after}")
        if (after.used_by, after.uses) != (before.used_by, before.uses) and process is not None:
            self._on_use(number, change.key, before, after, process)

    def _on_use(self, number: int, key: Key, before: ApprovalRecord, after: ApprovalRecord, process: Process) -> None:
        self.world.incidents.add("an approval was used")
        # A request that was sent before the expiry may arrive after it. The sender's clock decides.
        sent_ms = max(request.began_ms for request in process.requests) + process.skew_s * 1000
        if before.state is not ApprovalState.APPROVED or sent_ms - LATE_MS > after.until_ms:
            self.wrong(20, f"write #{number} uses an approval that is {before.state.value} or expired: {after}")
        earlier = [use for use in self.uses if use.key == key]
        if after.uses != before.uses + 1 or after.uses != len(earlier) + 1:
            self.wrong(
                21, f"write #{number} counts {after.uses} uses after {before.uses}: {len(earlier) + 1} were made"
            )
        calls = earlier[-1].calls if earlier else []
        if earlier and before.is_free:
            self.world.incidents.add("an approval was used again after a clean failure")
            attempts = self.world.retry.attempts if self.world.retry else 1
            if len(earlier) >= attempts or not (calls[-1].has_outcome and not calls[-1].has_result):
                self.wrong(
                    21, f"write #{number} uses an approval again after {calls[-1]}, {len(earlier)} of {attempts}"
                )
        elif earlier:
            self.world.incidents.add("an approval was used again after a run was killed")
            serials = [call.serial for call in calls if call.serial in self.placed]
            are_runs = [str(are_runs.used_by).startswith("run:") for are_runs in (before, after)]
            if serials or not all(are_runs) or any(use.is_after_death for use in earlier):
                self.wrong(21, f"write #{number} uses an approval again: {before.used_by}, {after.used_by}, {serials}")
        is_after_death = bool(earlier) and not before.is_free
        self.uses.append(Use(key, after, process, calls=calls, is_after_death=is_after_death))

    def check_call(self, call: ToolCall) -> None:
        super().check_call(call)
        if call.tool != "pay":
            return
        open_uses = [use for use in self.uses if use.process is call.process and use.is_open]
        fitting_uses = [use for use in open_uses if use.record.arguments == call.arguments]
        if not fitting_uses:
            self.wrong(20, f"call #{call.serial} {call.arguments} has no approval")
            return
        use = fitting_uses[0]
        use.is_open = False
        use.calls.append(call)
        if len({call.key for call in use.calls}) > 1:
            self.wrong(21, f"a decision has several effects: {[(call.serial, call.key) for call in use.calls]}")

    def check_decision(self, process: Process, approval_id: str, state: ApprovalState) -> None:
        record = next(approval for approval in self.approvals.values() if approval.approval_id == approval_id)
        if record.state is not state or record.decided_by not in PEOPLE:
            self.wrong(22, f"{process.name} gets the reply that it decided {state.value}, but the approval is {record}")


def _decision(record: ApprovalRecord) -> tuple[object, ...]:
    return record.state, record.decided_ms, record.decided_by, record.reason
