"""Simulations of a workflow in the background: two tasks, the call's and the workflow's, and workers that hand over."""

from functools import cache
from random import Random
from typing import ClassVar, cast

from mcp_baton import Retry, Server, ToolStep, constant, prompt_arg, step_output
from mcp_baton.protocol.envelope import TASK_ID_KEY
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.workflow.steps.step import Step
from tests.simulation.dynamodb.database import Change
from tests.simulation.heads import TERMINAL, claim_of, status_of, steps_of
from tests.simulation.invariants import TASK, Judge
from tests.simulation.invocations import Trigger, task_message
from tests.simulation.jobs.heads import Head
from tests.simulation.jobs.judge import JobJudge
from tests.simulation.jobs.tools import JobPlan
from tests.simulation.jobs.world import DELAYS_MS, JobWorld
from tests.simulation.journal import Process, ToolCall
from tests.simulation.servers import Plan, constants_of, look, mail, pay, server_of, weigh

ATTEMPTS = 3
NAMES = ("walk", "walk", "careful")
DISTURBANCES = ("call",) * 3 + ("cancel own", "complete own", "poll own", "poll own", "resume", "resume")


WORKFLOWS: dict[str, list[Step]] = {
    "walk": [
        ToolStep("look", tool=look, arguments={"key": prompt_arg("key")}),
        ToolStep("pay", tool=pay, arguments={"amount": step_output("look", "n")}),
        ToolStep("heavy", tool=weigh, arguments={"of": constant(1)}),
        ToolStep("ann", tool=mail, arguments={"to": constant("ann")}),
        ToolStep("bob", tool=mail, arguments={"to": constant("bob")}),
    ],
    "careful": [
        ToolStep("first", tool=pay, arguments={"amount": constant(1)}, checkpoint=True, retry=Retry(3, first_s=1.0)),
        ToolStep("second", tool=pay, arguments={"amount": constant(2)}, checkpoint=True),
        ToolStep("third", tool=pay, arguments={"amount": constant(3)}, retry=Retry(2, first_s=20.0)),
    ],
}


@cache
def background_server() -> Server:
    return server_of(WORKFLOWS, background=True)


class FlowJudge(Judge):
    def __init__(self, world: "BackgroundWorld") -> None:
        super().__init__(world)
        self.completed: dict[str, Process] = {}
        """The process that completed each step."""

    def _on_creation(self) -> None:
        """Do nothing: clients know only the call's task."""

    def _check_head(self, number: int, change: Change, process: Process | None, now_ms: float) -> None:
        super()._check_head(number, change, process, now_ms)
        if process is None or change.after is None:
            return
        before = steps_of(change.before) if change.before else {}
        for step, status in steps_of(change.after).items():
            if status == "completed" and before.get(step) != "completed":
                self.completed[step] = process


class BackgroundJudge(JobJudge):
    def __init__(self, world: "BackgroundWorld") -> None:
        super().__init__(world)
        self.flow = FlowJudge(world)
        self.flow.changes, self.flow.broken = self.changes, self.broken

    def _check_write(self, change: Change, process: Process | None, now_ms: float) -> int:
        if is_workflows(change):
            return self.flow.check_write(change, process, now_ms)
        return super()._check_write(change, process, now_ms)

    def _check_dispatch(self, process: Process, before: Head, after: Head, clock_ms: float) -> None:
        if process.kind != "work":
            super()._check_dispatch(process, before, after, clock_ms)
            return
        self.world.incidents.add("a worker handed over to another")
        is_handover = after.until_ms == 0 and after.dispatches == before.dispatches + 1
        if not is_handover or after.allowed != after.started + ATTEMPTS:
            self.wrong(12, f"{process.name} hands over a job that was {before} and then is {after}")

    def _check_result(self, process: Process, value: Json) -> None:
        if self.flow.head is None:
            return
        match value:
            case {"structuredContent": {"steps": list()} as structure}:
                process.answer = cast("JsonObject", value)
                self.flow.check_stored(process)
                state = cast("JsonObject", structure)
                self.world.replies.check_state(process, state, certain="persisted" not in process.meta)
            case {"isError": True} if not process.calls:
                self.world.incidents.add("a workflow could not be run")
            case _:
                self.wrong(5, f"the call's result does not show the workflow: {str(value)[:200]}")

    def check_call(self, call: ToolCall) -> None:
        self.flow.check_call(call)
        process, head = call.process, self.flow.head
        if process.kind != "work" or not self._check_holder(call):
            return
        holder, step = self.flow.claims.holders.get(process.name), self.world.step_of_call(call)
        if head is None or holder is None or step is None or status_of(head) in TERMINAL:
            return
        claim = claim_of(head)
        if claim and claim[0] == holder.claim and steps_of(head).get(step) == "completed":
            completer = self.flow.completed[step]
            self.world.incidents.add("a call completed a step while a worker ran it")
            if completer.kind != "call":
                self.wrong(1, f"{process.name} calls {call.tool} for the step {step}, which {completer.name} completed")

    def check_reply(self, process: Process) -> None:
        if process.kind in {"resume", "call"}:
            self.flow.check_reply(process)
        elif process.kind not in {"cancel own", "complete own"}:
            super().check_reply(process)

    def check_stopped(self, process: Process) -> None:
        self.flow.claims.note_end(process)
        super().check_stopped(process)

    def check_settled(self) -> None:
        super().check_settled()
        self.flow.check_settled()

    def describe(self, change: Change) -> str:
        return self.flow.describe(change) if is_workflows(change) else super().describe(change)


class BackgroundWorld(JobWorld):
    runs = frozenset({"work", "resume"})
    arguments: ClassVar[JsonObject] = {"key": "A"}
    judge: BackgroundJudge
    judge_type: type[JobJudge] = BackgroundJudge

    def _set_up(self) -> None:
        super()._set_up()
        rng: Random = self.rng
        self.job = JobPlan(rng.choice(NAMES), ATTEMPTS)
        self.plan = Plan(self.job.tool, ())
        self._disturbance_count = rng.choice((0, 0, 1, 3, 6))

    def server(self, *, edited: bool) -> Server:  # noqa: ARG002 - this simulation has only one version of the workflows
        return background_server()

    def run(self) -> None:
        """Run until the call's task has ended. Then check that the workflow's task has ended or can be resumed."""
        super().run()
        self._end_other_calls()
        flow = self.judge.flow
        if flow.head is not None and status_of(flow.head) not in TERMINAL:
            self._resume_at_the_end(flow, "poll own")

    def _end_other_calls(self) -> None:
        """Let further calls of the workflow end."""

    def on_creation(self, task_id: str) -> None:
        if self.task_id is None:
            for _ in range(self._disturbance_count):
                self._invoke(Trigger(self.rng.choice(DISTURBANCES)), self.rng.choice(DELAYS_MS))
        super().on_creation(task_id)

    def message(self, process: Process, trigger: Trigger) -> tuple[str, dict[str, Json]]:
        flow_meta: dict[str, Json] = {"_meta": {TASK_ID_KEY: self.judge.flow.task_id}}
        match trigger.kind:
            case "poll own" | "cancel own" | "complete own":
                return task_message(self.judge.flow.task_id, trigger.kind.removesuffix(" own"))
            case "resume":
                return "prompts/get", {"name": self.job.tool, "arguments": {}, **flow_meta}
            case "call":
                step = self.rng.choice([step for step in self.steps() if constants_of(step)])
                return "tools/call", {"name": step.tool, "arguments": constants_of(step), **flow_meta}
            case _:
                return super().message(process, trigger)

    def _handle(self, process: Process, trigger: Trigger) -> None:
        super()._handle(process, trigger)
        self.judge.flow.claims.note_end(process)


def is_workflows(change: Change) -> bool:
    item = change.after or change.before or {}
    return change.key[1].startswith(TASK) and "workflow" in item
