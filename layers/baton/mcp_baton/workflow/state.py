"""What a run of a workflow knows while it runs: statuses, outputs, variables, and which steps have stopped.

The kinds of steps note in it how they start and end (`OpenRun`).
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from msgspec import structs

from mcp_baton.exceptions import StoreError, ToolError
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.keys import Key, own_key, step_key
from mcp_baton.tasks.record import EARLY_PREFIX, StepStatus, TaskRecord, epoch_ms, is_early, statuses_of, timestamp
from mcp_baton.tasks.store import TaskStore, Timing
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.tools.approval import AFTER_WAITS_MS, denied_call
from mcp_baton.tools.calls import ToolCall
from mcp_baton.tools.outcomes import Failed, Failure, Prepared, Succeeded
from mcp_baton.workflow import resources
from mcp_baton.workflow.definition_changes import Move
from mcp_baton.workflow.host import Host, Skip, Skipped, status_of
from mcp_baton.workflow.lease import Lease, Over, Superseded, TaskOver
from mcp_baton.workflow.list_elements import ListElements, item_name
from mcp_baton.workflow.pause import (
    AnswersRequired,
    ApprovalRequired,
    DeadlineExceeded,
    PauseReason,
    Remedy,
    approval_pause,
    pause_after,
)
from mcp_baton.workflow.repeats import repeat
from mcp_baton.workflow.resolve import KnownValues
from mcp_baton.workflow.secrets import hidden_in
from mcp_baton.workflow.step_run import StepRun, Stop
from mcp_baton.workflow.steps.list_step import ListRun, ListStep
from mcp_baton.workflow.steps.question import Question
from mcp_baton.workflow.steps.step import Step
from mcp_baton.workflow.stored_calls import stored_call

logger = logging.getLogger(__name__)


class State:
    """The state of a run. Only the thread that answers the request changes it.

    Args:
        store: The task store; `None` if the server has none.
        known: What is known before the run.

    Attributes:
        lease: The run's claim on its task; `None` for a run without a task.
        task_id: The id of the task, for idempotency keys. It stays when the run continues without its task, because a
            late request may still create that task.
        known: What is known: arguments, statuses, outputs and variables.
        lost_results: Why the stored result of a completed step is not available, by step.
        traces: The steps that are settled.
        started: The steps that this run has started.
        running: How many calls of a step run in other threads, by step.
        stops: The steps that could not be settled, each with the reason.
        is_over: Whether the run cannot write to its task any more.
        lists: The calls of lists, by step.
        early: The answers and callbacks that came before their steps were reached, by step.
    """

    def __init__(
        self,
        host: Host,
        store: TaskStore | None,
        known: KnownValues,
        clock: Callable[[], float],
        rng: Callable[[], float],
    ) -> None:
        self.host = host
        self.rng = rng
        self._store = store
        self._clock = clock
        self.workflow = known.workflow
        self.secrets = known.secrets
        self.lease: Lease | None = None
        self.task_id: str | None = None
        self.move: Move | None = None
        self.statuses = dict(known.statuses)
        self.outputs: dict[str, Json] = {}
        self.lost_results: dict[str, str] = {}
        self.traces: list[StepRun] = []
        self.started: set[str] = set()
        self.running: dict[str, int] = {}
        self.stops: dict[str, StepRun] = {}
        self.is_over = False
        self.lists: dict[str, ListRun] = {}
        self.items: dict[str, ListElements] = {}
        self.early: dict[str, Json] = {}
        self.variables = TaskVariables({})
        self.known = structs.replace(
            known,
            statuses=self.statuses,
            outputs=self.outputs,
            variables=self.variables,
            lost_results=self.lost_results,
            items=self.items,
        )

    def use_variables(self, variables: TaskVariables) -> None:
        self.variables = variables
        self.known = structs.replace(self.known, variables=variables)

    @property
    def task(self) -> TaskRecord | None:
        """The task as it was last read or written."""
        return self.lease.task if self.lease else None

    def known_to(self, this: StepRun) -> KnownValues:
        """What is known to a call: for that of an element, also the element."""
        return self.known if this.index is None else self.known.at(self.items[this.step.name].elements[this.index])

    def now_ms(self) -> int:
        return self._store.now_ms() if self._store else time.time_ns() // 1_000_000

    # Which steps run

    @property
    def _running_steps(self) -> int:
        """How many steps have started and not ended."""
        if not self.lists:
            return len(self.running)
        waiting = {name for name, list_run in self.lists.items() if list_run.waiting}
        return len(self.running.keys() | waiting - self.stops.keys())

    def _list_with_room(self) -> ListStep | None:
        """The first list of which another call can begin now."""
        for name, list_run in self.lists.items():
            step = list_run.step
            if list_run.waiting and name not in self.stops and self.running.get(name, 0) < step.parallel:
                return step
        return None

    def settle(self, this: StepRun) -> None:
        """Note how a step ended."""
        name = this.step.name
        self.statuses[name] = status_of(this.outcome)
        if isinstance(this.outcome, Succeeded):
            self.outputs[name] = this.outcome.value
        self.traces.append(this)

    def _discard(self, step: Step) -> None:
        """Remove the record of a step, which gets another one."""
        self.traces = [this for this in self.traces if this.step.name != step.name]

    def stop_at(self, this: StepRun) -> None:
        """Note that a step could not be settled."""
        self.stops[this.step.name] = this
        self.is_over = self.is_over or isinstance(this.stop, TaskOver | Superseded)

    @property
    def over(self) -> Over | None:
        """Why the run cannot write to its task any more."""
        return next((this.stop for this in self.stops.values() if isinstance(this.stop, TaskOver | Superseded)), None)

    @property
    def pauses(self) -> list[PauseReason]:
        """Why steps have stopped, in the order of the steps."""
        stops = (self.stops[step.name].stop for step in self.workflow.steps if step.name in self.stops)
        return [stop for stop in stops if stop is not None and not isinstance(stop, TaskOver | Superseded)]

    def _update_questions(self, host: Host) -> None:
        """Let the first stopped question ask all questions whose values are known now, and the others only themselves.
        Steps that ran at the same time may have ended after the run has stopped at the first question."""
        steps = (self.stops[step.name] for step in self.workflow.steps if step.name in self.stops)
        for number, this in enumerate(this for this in steps if isinstance(this.stop, AnswersRequired)):
            pause = self.known.answers_pause(this.step, host)
            if isinstance(pause, AnswersRequired) and number:
                own_questions = tuple(question for question in pause.questions if question.name == this.step.name)
                pause = structs.replace(pause, questions=own_questions)
            this.stop = pause

    def settled_meanwhile(self, task: TaskRecord) -> list[Step]:
        """The stopped steps that callbacks or continuations have completed, in a task of this definition."""
        if self.is_over or not self.stops or (self.move and self.move.concerns(task)):
            return []
        statuses = statuses_of(task)
        steps = (step for step in self.workflow.steps if step.name in self.stops)
        steps = (step for step in steps if statuses.get(step.name) is StepStatus.COMPLETED)
        # A value that came early stays unused as long as the condition of its step has no result.
        return [step for step in steps if not is_early(task.variables, step.name) or self.known.may_settle(step)]

    # How a step begins, calls its tool, and ends

    def begin(self, this: StepRun, host: Host) -> Stop | None:
        """Note when a call begins. If it cannot begin now, return why: too little time is left, or another run has the
        task or could take it soon."""
        if not host.may_start():
            return DeadlineExceeded(this.step.name, this.step.tool or "")
        if host.lease is None:
            return None
        begun_ms = host.lease.begin()
        if isinstance(begun_ms, int):
            this.begun_ms, this.begun_s = begun_ms, self._clock()
            return None
        return begun_ms or DeadlineExceeded(this.step.name, this.step.tool or "")

    def check_claim(self, step: Step, host: Host) -> Stop | None:
        """Why a step that has waited for something must not go on; `None` if it can."""
        return None if host.lease is None or host.lease.is_safe() else self.begin(StepRun(step), host)

    def fetch_before(self, this: StepRun, host: Host) -> Failed | None:
        return resources.fetch_before(this, self.known_to(this), host)

    def fetch_again(self, this: StepRun) -> None:
        this.resources = resources.fetch_all(this.step.resources, this.step, self.known, self.host)

    def fetch_after(self, this: StepRun, uris: Sequence[str], known: KnownValues, host: Host) -> None:
        this.after = resources.fetch_all(uris, this.step, known, host)
        this.timing = self.timing(this)

    def stop_before(self, this: StepRun, stop: Stop) -> None:
        """Note why a tool is not called."""
        if isinstance(stop, TaskOver | Superseded):
            this.stop = stop
            return
        reason = stop.without_secrets(self.secrets.hide_text)
        if this.index is not None:
            # The same call would lack the value again, also if the step is retryable.
            cause, refused = ToolError(reason.as_error(), retryable=False), tuple(sorted(reason.refused_arguments))
            this.failed = Failed(reason.as_error(), cause=cause, refused=refused)
            return
        # If the model has made the call and a person has denied it, the model is not asked for the values again.
        denied = denied_call(self.variables, this.step.name) if stop.remedy is Remedy.VALUES else None
        this.stop = reason if denied is None else approval_pause(this.step.name, denied)

    def tool_call(self, this: StepRun, prepared: Prepared, earlier_attempts: int) -> ToolCall:
        """Which call this is, at its first attempt in this run."""
        step, lease, index = this.step, self.lease, this.index
        name = step.name if index is None else item_name(step.name, index)
        task, attempt_name = (None, "") if lease is None else (lease.task, f"run:{lease.current_claim.number}")
        return ToolCall(
            self.workflow,
            step,
            name,
            task,
            is_turn=True,
            is_item=index is not None,
            by=attempt_name,
            secrets=self.secrets,
            number=1 + earlier_attempts,
            key=self._key(step, name, prepared),
            variables=None if lease is None else self.variables if this.variables is None else this.variables,
        )

    def _key(self, step: Step, name: str, prepared: Prepared) -> Key | None:
        """The idempotency key of all attempts of a call; `None` for a single call of a run without a task, which gets
        a key of its own."""
        if self.task_id is None:
            return own_key() if step.retry else None
        return step_key(self.task_id, name, partial(self.host.canonical, prepared.name, prepared.arguments))

    def next_attempt_ms(self, this: StepRun) -> int | None:
        """When a worker makes the next attempt of a failed call, epoch milliseconds; `None` if none can be made."""
        if this.retry_s is None or self.lease is None:
            return None
        now_ms = self.now_ms()
        until_ms = self.end_of_wait(now_ms + round(this.retry_s * 1000), now_ms)
        return until_ms if isinstance(until_ms, int) else None

    def succeed(self, this: StepRun, value: Json, arguments: JsonObject | None = None) -> None:
        """Note the result of a step."""
        if self.secrets.hide(value) != value:
            text = "workflow %s, step %s: the result of %s has a secret argument in it and is stored; leave it out"
            logger.warning(text, self.workflow.name, this.step.name, this.step.tool)
        this.arguments, this.outcome = arguments, Succeeded(value)
        this.stored_call, this.timing = self._call_to_store(this), self.timing(this)

    def fail(self, this: StepRun, failed: Failed, arguments: Mapping[str, Json] | None = None) -> None:
        """Note the failure of a step. The error is stored, and it may quote the arguments. A step whose call has not
        started when the time was over stays open."""
        if failed.kind is Failure.OUT_OF_TIME:
            this.stop = DeadlineExceeded(this.step.name, this.step.tool or "")
            return
        this.failed = failed = structs.replace(failed, error=self.secrets.hide_text(failed.error))
        this.arguments, this.outcome = arguments, Failed(failed.error)
        this.stored_call, this.timing = self._call_to_store(this), self.timing(this)
        if this.index is None and this.stop is None:
            step = this.step
            this.stop = pause_after(failed, step, step.name, step.tool or "", this.unread, self._shown_key(this))

    def _shown_key(self, this: StepRun) -> str | None:
        """The idempotency key of a step's call, for texts."""
        if self.task_id is None or this.arguments is None:
            return None
        return repeat(this.step, this.arguments, self.known, self.task_id, self.host.canonical).key

    def _call_to_store(self, this: StepRun) -> JsonObject | None:
        """The arguments to store with the result: none, unless a person has given some of them."""
        if this.arguments is None or this.step.name not in self.known.answers:
            return None
        return stored_call(this.arguments, hidden_in(this.arguments, this.step.arguments, self.workflow.secrets))

    def timing(self, this: StepRun) -> Timing | None:
        """The timing of a step that has ended; `None` for a run without a task."""
        if this.begun_ms is None:
            return None
        return Timing(this.begun_ms, round((self._clock() - this.begun_s) * 1000))

    def end_of_wait(self, until_ms: int, now_ms: int) -> int | str:
        """The end of a wait if the task lives longer, extended if necessary; otherwise the error of the step."""
        if self._store is None or self.lease is None:
            return until_ms
        with suppress(StoreError):  # the run's write finds out if the task is over
            ttl_ms = until_ms - now_ms + AFTER_WAITS_MS
            least_ms = ttl_ms - AFTER_WAITS_MS // 2  # most tasks were created with a sufficient lifetime
            self.lease.task = self._store.jobs.extend(self.lease.task, ttl_ms, least_ms)
        task = self.lease.task
        ends_ms = task.created_ms + task.ttl_ms
        if until_ms < ends_ms:
            return until_ms
        return f"it waits until {timestamp(until_ms)}, and its task ends at {timestamp(ends_ms)}; give it a longer ttl"

    def _live_until_decisions(self) -> None:
        """Let the task live as long as the approvals for which it waits can be decided."""
        pauses = [pause for pause in self.pauses if isinstance(pause, ApprovalRequired)]
        ends = [pause.expires_at for pause in pauses] + [
            call.expires_at for pause in pauses for call in pause.unapproved
        ]
        if ends:
            self.end_of_wait(max(map(epoch_ms, ends)), self.now_ms())

    # Answers and callbacks that come early

    def _take_answers(self) -> None:
        """Settle the questions that this invocation answers. An answer counts as the step's result.

        An answer to a question that is skipped is ignored. One whose question is not reached is stored, and waits.
        """
        for name, arguments in self.known.answers.items():
            step = self.workflow.step(name)
            if not isinstance(step, Question) or self.known.decide_condition(step) is False:
                continue
            is_reached = self.known.may_settle(step)
            users = tuple(user.name for user in self.workflow.steps if user.uses(step.binding))
            self._discard(step)
            self.settle(StepRun(step, outcome=Succeeded(arguments[name]), users=users))
            self._note_early(step, is_early=not is_reached)
        self._hold_early()

    def _hold_early(self) -> None:
        """Reopen the steps whose values came before their conditions were decided, or before the steps that they need
        were settled. No step uses such a value earlier."""
        for step in self.workflow.steps:
            if not is_early(self.variables, step.name) or step.name not in self.outputs:
                continue
            if self.known.may_settle(step):
                self._note_early(step, is_early=False)
                continue
            self.early[step.name] = self.outputs.pop(step.name)
            self.statuses[step.name] = StepStatus.PENDING

    def _skip(self, step: Step) -> None:
        """Skip a step whose condition is false. A value that came before is dropped."""
        self.early.pop(step.name, None)
        self._note_early(step, is_early=False)
        self._discard(step)
        self.settle(StepRun(step, outcome=Skipped(Skip.CONDITION)))

    def _use_early(self, step: Step) -> bool:
        """Settle a step whose condition holds by the value that came before. Returns whether there is one."""
        if step.name not in self.early:
            return False
        self.outputs[step.name] = self.early.pop(step.name)
        self.statuses[step.name] = StepStatus.COMPLETED
        self._note_early(step, is_early=False)
        return True

    def _note_early(self, step: Step, *, is_early: bool) -> None:
        name = f"{EARLY_PREFIX}{step.name}"
        if is_early or name in self.variables:
            self.variables.note(name, is_early)
