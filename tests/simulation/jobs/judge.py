"""The judge of a job. It checks the promises of ../README.md after each write, each tool call and each reply."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from mcp_baton.exceptions import ProtocolError, StoreError
from mcp_baton.protocol.json import Json, dumps
from mcp_baton.tasks.record import FIRST_DISPATCH_MS
from mcp_baton.tools.running.runner import NOT_STARTED, TIMED_OUT
from tests.simulation.dynamodb.database import Change
from tests.simulation.dynamodb.paths import Item
from tests.simulation.heads import TERMINAL, expires_ms, status_of
from tests.simulation.invariants import TASK, Judge
from tests.simulation.invocations import OWNER
from tests.simulation.jobs.heads import Head, head_in
from tests.simulation.journal import Process, ToolCall

if TYPE_CHECKING:
    from tests.simulation.jobs.world import JobWorld

_SERIAL = re.compile(r'(?:"serial\\*": *|failed #)(\d+)')


class JobJudge(Judge):
    world: "JobWorld"

    def __init__(self, world: "JobWorld") -> None:
        super().__init__(world)
        self.started: dict[str, tuple[str, int]] = {}
        """By worker that has started an attempt: its claim, and how many questions were answered at that time."""
        self.attempts = Counter[int]()
        self.starts = Counter[int]()

    # Writes.

    def _check_head(self, number: int, change: Change, process: Process | None, now_ms: float) -> None:
        assert change.after is not None
        after = head_in(change.after)
        self._check_outbox(after, is_over=expires_ms(change.after) <= now_ms)
        if change.before is None:
            self.world.on_creation(self.task_id)
            return
        before = head_in(change.before)
        if before.status in TERMINAL:
            self.wrong(2, f"write #{number} changes a task that is {before.status}")
        if process is None:
            return
        clock_ms = process.wall_clock_ms(now_ms)
        if after.started != before.started or after.holder != before.holder:
            self._check_attempt(process, before, after, clock_ms)
        else:
            self._check_writer(number, process, before, after, clock_ms)
        if after.dispatches != before.dispatches:
            self._check_dispatch(process, before, after, clock_ms)
        self._check_questions(number, before, after)
        if after.status in TERMINAL:
            self._check_end(process, change.after, after)
        elif after.status != before.status and after.status == "input_required":
            self.world.schedule_answers()

    def _check_outbox(self, after: Head, *, is_over: bool) -> None:
        if (after.listed_ms is not None) is not (after.status == "working") and not is_over:
            self.wrong(20, f"the job is {after.status}; in the outbox: {after.listed_ms is not None}")
        if after.listed_ms is not None and after.listed_ms > after.due_ms:
            self.wrong(20, f"sweeps find the job {after.listed_ms - after.due_ms} ms after it is due")

    def _check_attempt(self, process: Process, before: Head, after: Head, clock_ms: float) -> None:
        self.started[process.name] = after.holder, len(before.answers)
        self.attempts[len(before.answers)] += 1
        self.world.schedule_polls(after.until_ms)
        if before.until_ms:
            self.world.incidents.add("a job restarted after its worker was lost")
        if before.status != "working":
            self.wrong(3, f"{process.name} claims a job that is {before.status}")
        if before.until_ms >= clock_ms:
            self.wrong(3, f"{process.name} takes a claim that lasts {before.until_ms - clock_ms:.0f} ms longer")
        if after.started != before.started + 1:
            self.wrong(3, f"{process.name} counts attempts from {before.started} to {after.started}")
        if before.started >= before.allowed:
            self.wrong(9, f"{process.name} begins attempt {after.started} of {before.allowed}")

    def _check_writer(self, number: int, process: Process, before: Head, after: Head, clock_ms: float) -> None:
        attempt = self.started.get(process.name)
        if attempt is not None:
            if before.holder != attempt[0] or not before.until_ms:
                self.wrong(3, f"{process.name} makes write #{number} without holding the claim")
            return
        if after.status == "failed":
            self.world.incidents.add("a job was given up")
            if before.until_ms >= clock_ms or before.started < before.allowed or before.status != "working":
                self.wrong(12, f"{process.name} gives up a job that is {before}")
            if self.attempts[len(before.answers)] < self.world.job.attempts:
                self.wrong(12, f"{process.name} gives up a job after {self.attempts} attempts since the last answer")
        elif process.kind == "work":
            self.wrong(3, f"{process.name} makes write #{number} without an attempt")

    def _check_dispatch(self, process: Process, before: Head, after: Head, clock_ms: float) -> None:
        if after.dispatches != before.dispatches + 1:
            self.wrong(12, f"{process.name} counts dispatches from {before.dispatches} to {after.dispatches}")
        if before.status == "input_required":
            return
        self.world.incidents.add("a job was dispatched again")
        is_free = before.until_ms < clock_ms and before.started < before.allowed
        if before.due_ms >= clock_ms or not is_free or before.status != "working":
            self.wrong(12, f"{process.name} dispatches a job again that is {before}")
        if after.due_ms < before.due_ms + 2 * FIRST_DISPATCH_MS:
            self.wrong(12, f"{process.name} dispatches a job again, due {after.due_ms - before.due_ms} ms later")

    def _check_questions(self, number: int, before: Head, after: Head) -> None:
        for kind, old, new in (
            ("question", before.questions, after.questions),
            ("answer", before.answers, after.answers),
        ):
            changed_keys = sorted(key for key in old if new.get(key) != old[key])
            if changed_keys:
                self.wrong(13, f"write #{number} changes the {kind} of {changed_keys}")
        new_answers = after.answers.keys() - before.answers.keys()
        if new_answers - before.open_keys:
            self.wrong(13, f"write #{number} answers {sorted(new_answers)}, but {sorted(before.open_keys)} are open")
        if after.status == "input_required" and not after.open_keys:
            self.wrong(13, f"after write #{number} the task waits, but every question is answered")
        if after.status == "working" and after.open_keys:
            self.wrong(13, f"after write #{number} the task continues, but {sorted(after.open_keys)} have no answer")
        if after.status == "input_required" and after.until_ms:
            self.wrong(3, f"after write #{number} the task waits, but is claimed")

    def _check_end(self, process: Process, item: Item, after: Head) -> None:
        if after.status == "failed" and "error" not in item:
            self.wrong(4, "the task has failed without an error")
        if after.status != "completed" or process.kind == "complete":
            return
        try:
            with self.world.store_without_faults() as store:
                result = store.get(OWNER, item["sk"]["S"].removeprefix(TASK)).result
        except StoreError as error:
            self.wrong(7, f"the result that was just written cannot be read: {error}")
            return
        self._check_result(process, result)

    def _check_result(self, process: Process, value: Json) -> None:
        result = dumps(value)
        match = _SERIAL.search(result)
        serials = {str(call.serial) for call in process.calls}
        # A tool that timed out has no result, although it may have run. A tool that was not started has none either.
        has_no_result = match is None and (TIMED_OUT in result or NOT_STARTED in result)
        if not has_no_result and (match is None or match[1] not in serials):
            self.wrong(4, f"{process.name} has made the calls {serials}, but the result is {result[:120]}")

    # Calls and replies.

    def check_call(self, call: ToolCall) -> None:
        super().check_call(call)
        if self._check_holder(call):
            answer_count = self.started[call.process.name][1]
            self.starts[answer_count] += 1
            if self.starts[answer_count] > self.world.job.attempts:
                self.wrong(9, f"{call.tool} is started {self.starts[answer_count]} times with {answer_count} answers")

    def _check_holder(self, call: ToolCall) -> bool:
        """Return whether the calling worker has started an attempt. Check that no other worker holds the job."""
        attempt, head = self.started.get(call.process.name), self.head
        if attempt is None:
            self.wrong(3, f"{call.process.name} calls {call.tool} without an attempt")
            return False
        if head is None or status_of(head) in TERMINAL:
            return True
        current_head = head_in(head)
        has_stalled = call.process.stalled_ms > call.process.checked_ms
        is_off = call.process.skew_s or self.world.fast_ms > 1_000
        if current_head.holder != attempt[0] and not has_stalled and not is_off:
            self.wrong(3, f"{call.process.name} calls {call.tool}, and another worker has taken the job over")
        return True

    def check_stopped(self, process: Process) -> None:
        """Check a process that Lambda stopped because its time was over. A worker's tool may take longer than the
        invocation, and no client waits for a sweep."""
        if process.kind not in {"work", "sweep"}:
            super().check_stopped(process)

    def check_reply(self, process: Process) -> None:
        if not isinstance(process.answer, Mapping):
            return
        match process.kind:
            case "start" if self.world.task_id is None:
                self.wrong(5, "a task was acknowledged, but does not exist")
            case "cancel" | "complete" if self.head is not None and status_of(self.head) not in TERMINAL:
                self.wrong(
                    5, f"{process.name} gets the reply that the task has ended, but it is {status_of(self.head)}"
                )
            case "update" if self.head is not None and status_of(self.head) not in TERMINAL:
                lost_keys = self.world.given_answers[process.name] - head_in(self.head).answers.keys()
                if lost_keys:
                    self.wrong(
                        5, f"{process.name} gets the reply that its answers are stored, but not {sorted(lost_keys)}"
                    )

    def check_settled(self) -> None:
        for process in self.world.processes.values():
            answer = process.answer
            was_nothing_run = isinstance(answer, ProtocolError) and "nothing was run" in answer.message
            if process.kind == "start" and was_nothing_run and any(map(self._belongs_to_start, self.world.calls)):
                self.wrong(6, "the client gets the reply that nothing was run, but a tool was called")

    def _belongs_to_start(self, call: ToolCall) -> bool:
        """Return whether a call was made for the request that has created the job. Other clients know the workflow's
        task only from the simulation."""
        process = call.process
        return process.kind == "start" or (process.kind == "work" and process.task_id in {"", self.task_id})

    # Traces.

    def describe(self, change: Change) -> str:
        if change.after is None or not change.key[1].startswith(TASK):
            return change.key[1][:40]
        head = head_in(change.after)
        claim = f"run {head.holder[:6]} n={head.started}/{head.allowed} u={head.until_ms % 10**9}"
        return f"{head.status} {claim} d={head.dispatches} due={head.due_ms % 10**9} open={sorted(head.open_keys)}"
