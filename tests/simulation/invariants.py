"""The judge of a task. It checks the promises of README.md after each write, each tool call and each reply."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mcp_baton.exceptions import ProtocolError, StoreError, ValueNotKept
from mcp_baton.protocol.json import Json, JsonObject, dumps
from mcp_baton.protocol.jsonrpc import INVALID_REQUEST
from mcp_baton.tasks.record import EXTRA_PREFIX, LEASE_MS, RESULT_PREFIX
from mcp_baton.tools.running.runner import NOT_STARTED
from tests.simulation.claims import Claims
from tests.simulation.dynamodb.database import Change
from tests.simulation.dynamodb.paths import Item
from tests.simulation.heads import (
    SETTLED,
    TERMINAL,
    decoded,
    expires_ms,
    is_waiting,
    paused_at,
    pointer_of,
    reasons_of,
    serial_in,
    status_of,
    steps_of,
    value_of,
    variables_of,
)
from tests.simulation.invocations import OWNER
from tests.simulation.journal import BrokenInvariant, Process, ToolCall

if TYPE_CHECKING:
    from tests.simulation.world import World

TASK = "TASK#"
REPEATS_MS = 31_000
CHANGED = "The workflow has changed since the task was started"


class Violation(Exception):
    """A broken invariant."""

    def __init__(self, broken: BrokenInvariant) -> None:
        super().__init__(str(broken))
        self.broken = broken


class Judge:
    """Checks everything that happens in a simulation."""

    lease_ms: int = LEASE_MS
    longest_ms: int = 3 * 86_400_000
    """No item of a simulation is needed for longer."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.broken: list[BrokenInvariant] = []
        self.changes: list[tuple[Change, Process | None]] = []
        self.head: Item | None = None
        self.placed: dict[int, list[tuple[int, str]]] = {}
        self.keys: dict[str, tuple[str, str]] = {}
        self.step_keys: dict[tuple[str, str], str] = {}
        self.stopped_early: list[Process] = []
        self.claims = Claims(self)
        self.task_id = ""

    def wrong(self, number: int, description: str) -> None:
        broken = BrokenInvariant(number, description)
        self.broken.append(broken)
        if self.world.is_strict:
            self.world.scheduler.fail(Violation(broken))

    # Events.

    def check_write(self, change: Change, process: Process | None, now_ms: float) -> int:
        """Check a write and return its number. An exception of the judge ends the simulation, so that it does not look
        like an error of Baton."""
        try:
            return self._check_write(change, process, now_ms)
        except Exception as error:  # noqa: BLE001 - Baton would catch it
            self.world.scheduler.fail(error)

    def _check_write(self, change: Change, process: Process | None, now_ms: float) -> int:
        number = len(self.changes)
        self.changes.append((change, process))
        self._check_item(change, now_ms)
        if self._is_mine(change, process):
            self.head = change.after
            if change.after is not None:
                self._check_head(number, change, process, now_ms)
        return number

    def _is_mine(self, change: Change, process: Process | None) -> bool:
        is_task = change.key[1].startswith(TASK)
        if is_task and not self.task_id and process is not None and not process.is_unrelated:
            self.task_id = change.key[1].removeprefix(TASK)
        return is_task and change.key[1] == TASK + self.task_id

    def _check_item(self, change: Change, now_ms: float) -> None:
        """Check that each item expires after the task that needs it, and soon after that. DynamoDB's expiry is in
        seconds."""
        after = change.after
        if after is None:
            return
        if change.key[0].startswith("VALUE#"):
            self.world.incidents.add("a value was kept outside its task's item")
        lives_ms = expires_ms(after) - now_ms if "expires_at" in after else float("inf")
        if lives_ms > self.longest_ms:
            self.wrong(7, f"{change.key[1][:40]} of {change.key[0][:20]} is kept for {lives_ms / 3_600_000:g} h")
        if change.key[1].startswith(TASK):
            for name, expires_s in self.world.values_of(change.key, after):
                if expires_s < int(after["expires_at"]["N"]):
                    self.wrong(7, f"{name} expires {int(after['expires_at']['N']) - expires_s} s before its task")
        if change.key[1] == "COUNT":
            negative = [name for name, value in after.items() if int(value.get("N", 0)) < 0]
            if negative:
                self.wrong(17, f"the count of {negative} is below zero")

    def _check_head(self, number: int, change: Change, process: Process | None, now_ms: float) -> None:
        before, after = change.before, change.after
        assert after is not None
        if before is None:
            self._on_creation()
        elif before.get("definition") != after.get("definition"):
            self.world.incidents.add("a task continued with a changed workflow")
        if before is not None and status_of(before) in TERMINAL:
            self.wrong(2, f"write #{number} changes a task that is {status_of(before)}")
        self._check_steps(before, after)
        if before is not None:
            self._check_pause(before, after)
        for path in change.values:
            if len(path) == 2 and path[0] == "variables" and path[1] in variables_of(after):
                self._check_value(number, before, after, str(path[1]))
        if process is not None:
            self.claims.check_write(number, change, process, now_ms)

    def _on_creation(self) -> None:
        self.world.on_creation(self.task_id)

    def check_expiry(self, change: Change, process: Process, began_ms: float) -> None:
        """Check the expiry of a task at a write. `began_ms` is when the request was sent, or first sent if it was
        repeated."""
        if change.before is None or not change.key[1].startswith(TASK):
            return
        late_ms = began_ms + process.skew_s * 1000 - expires_ms(change.before)
        if late_ms > REPEATS_MS:
            self.wrong(2, f"{process.name} changes a task that expired {late_ms / 1000:.0f} s before")

    def _check_pause(self, before: Item, after: Item) -> None:
        paused_step = paused_at(before)
        if paused_step is None or paused_at(after) is not None or status_of(after) in TERMINAL:
            return
        if steps_of(after).get(paused_step, "completed") not in SETTLED:
            self.wrong(5, f"the pause reason was deleted, but its step {paused_step} is {steps_of(after)[paused_step]}")

    def _check_steps(self, before: Item | None, after: Item) -> None:
        old_steps, new_steps = steps_of(before) if before else {}, steps_of(after)
        for name, status in old_steps.items():
            if status == "completed" and new_steps.get(name) != "completed":
                self.wrong(1, f"the completed step {name} becomes {new_steps.get(name)}")
        for name, status in new_steps.items():
            has_stored_result = RESULT_PREFIX + name in variables_of(after)
            if has_stored_result is not (status in {"completed", "failed"}):
                self.wrong(1, f"the step {name} is {status}, but has {'a' if has_stored_result else 'no'} result")
        for stopped_step, _ in reasons_of(after):
            if new_steps.get(stopped_step) == "completed" and not is_waiting(after, stopped_step):
                self.wrong(1, f"a pause reason names the completed step {stopped_step}")
        if status_of(after) == "completed" and "result" not in after:
            self.wrong(1, "a completed task has no result")

    def _check_value(self, number: int, before: Item | None, after: Item, name: str) -> None:
        try:
            value = value_of(after, name, self.world.stored)
        except ValueNotKept:
            return
        except StoreError as error:
            self.wrong(7, f"{name} was just written and cannot be read: {error}")
            return
        if not name.startswith((RESULT_PREFIX, EXTRA_PREFIX)) or self._is_moved(before, after, name, value):
            return
        step = name.removeprefix(RESULT_PREFIX)
        has_failed = isinstance(value, Mapping) and "error" in value
        if step in steps_of(after) and has_failed is not (steps_of(after)[step] == "failed"):
            self.wrong(1, f"the step {step} is {steps_of(after)[step]}, but its result is {dumps(value)[:80]}")
        serial = serial_in(value)
        if serial is not None:
            self._check_place(serial, number, before, name)

    def _is_moved(self, before: Item | None, after: Item, name: str, value: Json) -> bool:
        """Return whether a write has only moved a stored value out of the head."""
        old, new = variables_of(before).get(name) if before else None, variables_of(after)[name]
        if before is None or old is None or pointer_of(old) or not pointer_of(new):
            return False
        is_moved = decoded(old) == value
        if is_moved:
            self.world.incidents.add("a stored value was moved out of the head")
        return is_moved

    def _check_place(self, serial: int, number: int, before: Item | None, name: str) -> None:
        places = self.placed.setdefault(serial, [])
        if places:
            self.wrong(4, f"call #{serial} is written to {name} by write #{number}, but was written before: {places}")
        places.append((number, name))
        call = self.world.calls[serial - 1]
        named_step = call.process.named_step
        if before is not None and named_step in steps_of(before):
            if name.startswith(RESULT_PREFIX) and name != RESULT_PREFIX + named_step:
                self.wrong(4, f"call #{serial} names {named_step}, and is written to {name}")
            return
        open_step = self.world.step_of_call(call)
        if call.process.is_run or before is None or open_step is None or name == RESULT_PREFIX + open_step:
            return
        if name.startswith(RESULT_PREFIX) and steps_of(before).get(open_step) not in {None, *SETTLED}:
            self.wrong(
                4, f"call #{serial} of {call.tool} {call.arguments} is written to {name}, but {open_step} is open"
            )

    def check_call(self, call: ToolCall) -> None:
        self.claims.check_call(call)
        if call.key is None:
            return
        tool_and_arguments = call.tool, dumps(call.arguments, sort_keys=True)
        if self.keys.setdefault(call.key, tool_and_arguments) != tool_and_arguments:
            self.wrong(8, f"the key of {self.keys[call.key]} is given to {tool_and_arguments}")
        step = self.world.step_of_call(call)
        if step is not None and call.process.is_run:
            key = self.step_keys.setdefault((step, tool_and_arguments[1]), call.key)
            if key != call.key:
                self.wrong(8, f"{call.process.name} gives {step} another key than an earlier run")

    def check_stopped(self, process: Process) -> None:
        """Check a process that Lambda stopped because its time was over."""
        self.claims.note_end(process)
        if not process.stalled and process.answer is None:
            self.wrong(11, f"{process.name} did not answer within its time")

    def check_reply(self, process: Process) -> None:
        self.claims.note_end(process)
        self.check_stored(process)

    def check_stored(self, process: Process) -> None:
        """Check a reply when it is sent: acknowledged data is stored."""
        if "unknown" in {process.meta.get("recorded"), process.meta.get("persisted")}:
            self.world.incidents.add("a reply said that it is unknown what is stored")
        match process.kind:
            case "call":
                self._check_continuation(process)
            case "start" | "resume" | "work":
                self._check_run(process)

    def _check_last(self, process: Process) -> None:
        """Check after all late writes: data that was reported as not recorded is not stored."""
        if process.kind == "call" and process.meta.get("recorded") is False:
            for call in process.calls:
                if call.serial in self.placed:
                    self.wrong(6, f"{process.name} gets the reply that call #{call.serial} is not recorded, but it is")
        # If no time was left for a call, the last write has no result of a call.
        has_called_last = NOT_STARTED not in dumps(process.meta.get("pause_reason"))
        if process.is_run and process.meta.get("persisted") is False and process.calls and has_called_last:
            last_call = process.calls[-1]
            for number, place in self.placed.get(last_call.serial, ()):
                index = next(
                    (index for index, request in enumerate(process.requests) if number in request.write_numbers), None
                )
                if index is None or not any(
                    request.has_outcome and request.operation == "UpdateItem" for request in process.requests[index:]
                ):
                    self.wrong(
                        6, f"{process.name} gets the reply that {place} is not stored, but write #{number} stored it"
                    )

    def _check_continuation(self, process: Process) -> None:
        if process.meta.get("recorded") is True and not process.meta.get("oversized"):
            self._check_placed(process, [call for call in process.calls if call.has_outcome])

    def _check_run(self, process: Process) -> None:
        meta = process.meta
        if isinstance(process.answer, ProtocolError):
            if process.answer.code == INVALID_REQUEST:
                self.claims.check_refusal(process)
            if process.calls:
                self.wrong(11, f"{process.name} is refused, but called tools")
            return
        if "task_id" not in meta or meta.get("persisted") in {False, "unknown"} or meta.get("oversized"):
            return
        self._check_placed(process, [call for call in process.calls if call.has_result])

    def _check_placed(self, process: Process, calls: list[ToolCall]) -> None:
        for call in calls:
            if call.serial not in self.placed:
                self.wrong(
                    5, f"{process.name} gets the reply that call #{call.serial} of {call.tool} is stored, but it is not"
                )

    def versions(self, process: Process) -> list[Item | None]:
        """Return the versions of the task that were current since a process began."""
        versions = self.world.database.since((f"OWNER#{OWNER}", TASK + self.task_id), process.writes)
        return [version.item for version in versions]

    def shown_pauses(
        self,
        process: Process,  # noqa: ARG002 - for judges of tasks with approvals
        pause: JsonObject,
        clock_ms: tuple[float, float],  # noqa: ARG002
    ) -> list[JsonObject]:
        """Return how a reply may show a stored pause reason. `clock_ms` has the first and the last time that the
        process's clock may have shown."""
        return [pause]

    def check_settled(self) -> None:
        if self.head is not None:
            self._check_readable(self.head)
        for process in self.world.processes.values():
            if process.answer is not None and not process.is_unrelated:
                self._check_last(process)

    def _check_readable(self, head: Item) -> None:
        for name in variables_of(head):
            try:
                value_of(head, name, self.world.stored)
            except StoreError as error:
                self.wrong(7, f"{name} cannot be read in the end: {error}")

    def check_end(self, head: Item | None) -> None:
        """Check the task after the faults have stopped, two leases have passed, and a client has polled and resumed
        it."""
        *_, poll, resume = [process for process in self.world.processes.values() if not process.is_unrelated]
        if head is None or status_of(head) in TERMINAL or isinstance(poll.answer, ProtocolError):
            return
        is_open = any(status not in SETTLED for status in steps_of(head).values())
        if (
            is_open
            and self.claims.was_abandoned_before(resume)
            and not any(name.endswith("pause_reason") for name in poll.meta)
        ):
            self.wrong(10, "the last run was killed and steps are open, but a poll does not show it")
        # If the workflow's author changed a completed step afterwards, only the author can undo that.
        if isinstance(resume.answer, ProtocolError) and CHANGED not in resume.answer.message:
            self.wrong(10, f"the task cannot be resumed: {resume.answer.message}")

    # Traces.

    def describe(self, change: Change) -> str:
        """Return a short description of a write."""
        if change.after is None or not change.key[1].startswith(TASK):
            return change.key[1][:40]
        steps = ",".join(f"{name}={status[:4]}" for name, status in steps_of(change.after).items())
        variables = [str(path[1]) for path in change.values if len(path) == 2 and path[0] == "variables"]
        return f"{status_of(change.after)} {steps} {self.claims.describe(change.after)} puts {variables}"
