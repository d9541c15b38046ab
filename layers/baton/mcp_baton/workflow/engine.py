"""The engine: runs the steps of a workflow and then writes all results at once (docs/workflows.md).

Read it from top to bottom: start or resume, the steps, the write, then repeated calls and resources. Decisions are pure
functions (`Workflow.ready`, `Known.decide`, `run_batch`). The effects are here: create or claim the task, fetch, call,
write.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from msgspec import Struct, structs

from mcp_baton.exceptions import (
    ClaimLost,
    OutcomeUnknown,
    StoreBusy,
    StoreError,
    StoreUnavailable,
    TaskFinished,
    TaskNotFound,
    ToolError,
    ValueLost,
)
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.ids import new_token
from mcp_baton.tasks.keys import Key, own_key, step_key
from mcp_baton.tasks.record import (
    ELEMENTS_PREFIX,
    ITEMS_PREFIX,
    RESULT_PREFIX,
    TRIED_PREFIX,
    WAIT_PREFIX,
    Claim,
    StepStatus,
    TaskRecord,
    statuses_of,
    timestamp,
)
from mcp_baton.tasks.store import Batch, TaskStore, Timing, write_decided
from mcp_baton.tasks.values import read_ahead
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.tools.approval import AFTER_WAITS_MS, denied_call
from mcp_baton.tools.calls import ToolCall
from mcp_baton.tools.outcomes import Failed, Failure, FetchedResource, Outcome, Prepared, ResourceUnavailable, Succeeded
from mcp_baton.workflow.batch import merged_items, run_batch
from mcp_baton.workflow.definition import Workflow
from mcp_baton.workflow.definition_changes import move_to, statuses_under
from mcp_baton.workflow.host import Host, Skip, Skipped, Threads
from mcp_baton.workflow.items import Items, item_name
from mcp_baton.workflow.lease import Lease, Over, StartTime, Superseded, TaskOver, ThreadLease, lease_end, release_claim
from mcp_baton.workflow.pause import DeadlineExceeded, PauseReason, Remedy, Waiting, approval_pause, pause_after
from mcp_baton.workflow.remaining import RemainingCalls, uris_of
from mcp_baton.workflow.repeats import Repeat, open_repeats, repeat
from mcp_baton.workflow.resolve import Known, Ready
from mcp_baton.workflow.run import (
    Blocked,
    CallEnded,
    Content,
    EndedRun,
    OpenRun,
    RunInput,
    StepCall,
    StepTrace,
    Stop,
    UnreadResource,
    new_task,
)
from mcp_baton.workflow.secrets import hidden_in
from mcp_baton.workflow.steps.list_step import ListStep
from mcp_baton.workflow.steps.question import Question
from mcp_baton.workflow.steps.retry import random_fraction
from mcp_baton.workflow.steps.step import Step
from mcp_baton.workflow.steps.tool_step import ToolStep
from mcp_baton.workflow.steps.wait import Callback, Wait
from mcp_baton.workflow.stored_calls import shown_call, stored_call

logger = logging.getLogger(__name__)

INTERNAL: Final = "internal error; the server's log has the details"
WRITE_ATTEMPTS: Final = 10
"""How often a run tries to write. Each lost race means that a continuation wrote in between."""


class Engine:
    """Runs workflows for one request.

    Args:
        store: The task store; `None` if the server has none.
        sleep: Waits the given number of seconds before a write is tried again.
    """

    def __init__(
        self,
        host: Host,
        store: TaskStore | None,
        clock: Callable[[], float] = time.monotonic,
        rng: Callable[[], float] = random_fraction,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._host = host
        self._store = store
        self._clock = clock
        self._rng = rng
        self._sleep = sleep

    # Start and resume

    def start(self, workflow: Workflow, run_input: RunInput) -> EndedRun:
        """Run a workflow from its first step. Create a task if the workflow is durable and there is a store.

        Raises:
            StoreBusy: the store is overloaded. Nothing was run.
        """
        lease = self._create(workflow, run_input) if workflow.durable else None
        statuses = {step.name: StepStatus.PENDING for step in workflow.steps}
        variables = TaskVariables(lease.task.variables if lease else {})
        return self._finish(OpenRun(workflow, run_input, lease, variables, statuses))

    def _create(self, workflow: Workflow, run_input: RunInput) -> Lease | None:
        if self._store is None or run_input.owner is None:
            cause = "there is no task store" if self._store is None else "the caller has no identity"
            logger.warning("workflow %s runs without a task: %s", workflow.name, cause)
            return None
        claim = self._claim(self._store)
        if run_input.start is not None:
            claim = structs.replace(claim, until_ms=run_input.start.until_ms)
        task = new_task(workflow, run_input, run_input.owner, claim)
        try:
            return self._begin_lease(self._store, self._store.create(task), run_input)
        except StoreBusy:
            raise
        except StoreError as error:
            if isinstance(error, OutcomeUnknown) and error.current:
                logger.exception("task %s: whether it was created is not known", error.current.task_id)
                return self._begin_lease(self._store, error.current, run_input, unsure=True)
            logger.exception("workflow %s runs without a task: it could not be created", workflow.name)
            return None

    def _begin_lease(self, store: TaskStore, task: TaskRecord, run_input: RunInput, *, unsure: bool = False) -> Lease:
        lease = self._lease(store, task, unsure=unsure)
        if run_input.start is not None and not lease.lasts():
            # The function stood still. An equal call may have found no task, and may have started another run. Or it
            # has taken over this task, which is then left to it.
            try:
                store.cancel(task.owner, task.task_id, lease.current_claim)
            except StoreError:
                logger.warning("task %s was created too late and is not cancelled", task.task_id, exc_info=True)
            raise StoreBusy("the task was created too late")
        return lease

    def take(
        self, workflow: Workflow, owner: str, task_id: str, *, named: bool = False, takes_over: bool = False
    ) -> TaskRecord:
        """Claim a task of this workflow for a resume, and read it.

        Args:
            named: Whether a call that names the task resumes it.
            takes_over: Whether the task is only taken from a run that has died.

        Raises:
            StoreError: as `TaskStore.take`, or there is no store. Nothing was run.
        """
        if self._store is None:
            raise TaskNotFound
        claim = structs.replace(self._claim(self._store), named=named, takes_over=takes_over)
        return self._store.take(owner, task_id, workflow.name, claim)

    def release_claim(self, task: TaskRecord) -> None:
        """Release a claim under which nothing was run."""
        if self._store is not None:
            release_claim(self._store, task)

    def resume(self, workflow: Workflow, run_input: RunInput, task: TaskRecord) -> EndedRun:
        """Continue from a task's stored state. Settled steps are not run again; later steps use their results.

        The caller has claimed the task and checked that its completed steps are the same in this definition.

        Raises:
            StoreUnavailable: a result that is stored outside the item cannot be read now. Nothing was run.
        """
        lease = self._lease(self._store, task) if self._store else None
        statuses = statuses_under(task, workflow)
        run = OpenRun(workflow, run_input, lease, TaskVariables(task.variables), statuses, move=move_to(workflow, task))
        completed = [step for step in workflow.steps if statuses[step.name] is StepStatus.COMPLETED]
        steps = [step for step in workflow.steps if not statuses[step.name].settled]
        lists = [f"{prefix}{step.name}" for step in steps for prefix in (ELEMENTS_PREFIX, ITEMS_PREFIX)]
        lists = [name for name in lists if name in task.variables]
        read_ahead(task.variables, [*(f"{RESULT_PREFIX}{step.name}" for step in completed), *lists])
        for name in lists:
            with suppress(ValueLost):  # `decide_items` reports it
                task.variables[name]
        for step in completed:
            self._replay(run, step)
        for step in workflow.steps:
            if statuses[step.name] is StepStatus.SKIPPED:
                run.traces.append(StepTrace(step, None, (), Skipped(_why_skipped(step, task)), replayed=True))
        run.written = len(run.traces)
        run.hold_early()
        return self._finish(run)

    def _replay(self, run: OpenRun, step: Step) -> None:
        value: Json
        try:
            value = run.variables.get(f"{RESULT_PREFIX}{step.name}")
        except ValueLost as lost:
            value = {"error": str(lost)}
            run.lost_results[step.name] = str(lost)
        else:
            run.outputs[step.name] = value
        arguments = self._replayed_arguments(run, step) if type(step) is ToolStep else None
        resources = () if step.tool else fetch_all(step.resources, step, run.known, self._host)
        run.traces.append(StepTrace(step, arguments, resources, Succeeded(value), replayed=True))

    def _replayed_arguments(self, run: OpenRun, step: Step) -> JsonObject:
        """The arguments of a completed step's call, which a continuation or an earlier run made."""
        try:
            arguments = shown_call(run.variables, step.name)
        except ValueLost:
            arguments = None
        return RemainingCalls(run.known, self._host).arguments(step) if arguments is None else arguments

    def _claim(self, store: TaskStore) -> Claim:
        by_worker = self._host.job_id is not None
        return Claim(new_token(), lease_end(store, self._host.left_ms), by_worker=by_worker)

    def _lease(self, store: TaskStore, task: TaskRecord, *, unsure: bool = False) -> Lease:
        lease = Lease(store, task, self._host.left_ms, self._clock, unsure=unsure)
        self._host.pulse = lease.pulse
        return lease

    # The steps, then the last write

    def _finish(self, run: OpenRun) -> EndedRun:
        run.take_answers()
        while True:
            self._run_steps(run)
            run.note_job(self._host.job_id)
            over = run.over
            if over is not None:
                run.note_write_failed(over=True)
                break
            over = self._write(run, last=True)
            if over is None and self._take_settled(run):
                continue
            # If the task has expired or was deleted, the pauses are kept: the client can still make the other calls.
            over = None if over == TaskOver(None) else over
            break
        return self._with_repeats(run, run.ended(over))

    def _take_settled(self, run: OpenRun) -> bool:
        """Take the results of stopped steps that callbacks and continuations have completed until the last write, which
        has kept the claim for them. Returns whether the run goes on."""
        lease = run.lease
        if lease is None or lease.released or not run.stored:
            return False
        try:
            for step in run.settled_meanwhile(lease.task):
                run.variables.get(f"{RESULT_PREFIX}{step.name}")  # raises before anything has changed
                run.forget_stop(step)
                self._replay(run, step)
                run.note_replayed(step)
        except StoreUnavailable:
            logger.warning("task %s: a new result cannot be read now", lease.task.task_id, exc_info=True)
            self.release_claim(lease.task)
            lease.released = True
            return False
        return True

    def _run_steps(self, run: OpenRun) -> None:
        """Make all calls that can be made. Steps that could not be settled are in `run.stops`."""
        threads = self._host.threads() if run.workflow.is_parallel else None
        try:
            while True:
                call = self._next_call(run)
                if call is not None and threads is not None and not isinstance(call.step, Question):
                    self._start(run, call, threads)
                elif call is not None:
                    self._end(run, self._make(run, call, self._host, run.lease))
                elif threads is not None and run.running:
                    self._end(run, threads.next())
                else:
                    run.update_questions(self._host)
                    return
        finally:
            if threads is not None:
                threads.close()

    def _next_call(self, run: OpenRun) -> StepCall | None:
        """The next call, whether of a step or of an element of a list; `None` if none can start now."""
        while not run.is_over:
            step: Step | None = run.list_with_room() if run.lists else None
            if step is None and run.running_steps < run.workflow.parallel:
                step = next(run.workflow.ready(run.statuses, run.started, run.first_open()), None)
            if step is None:
                return None
            try:
                call = self._begin(run, step) if step.name not in run.lists else self._begin_item(run, step)
            except Exception as error:  # noqa: BLE001 - `_internal_error` logs it
                self._end(run, self._internal_error(run, StepCall(step), error))
                continue
            if call is not None:
                return call
        return None

    def _begin(self, run: OpenRun, step: Step) -> StepCall | None:
        """The call of a step; `None` if the step is skipped, cannot start, or has a list."""
        run.started.add(step.name)
        decision = run.known.decide_condition(step)
        if decision is False:
            run.skip(step)
            return None
        if decision is not True:
            run.stop_at(step, decision, Blocked(step, (), frozenset()))
            return None
        if run.use_early(step):
            return None
        if step.retry is not None and (until_ms := self._next_attempt_ms(run, step)):
            run.stop_at(step, Waiting(step.name, "time", timestamp(until_ms), ""))
            return None
        start = None if isinstance(step, Wait) else self._check_start(step, self._host, run.lease)
        if not isinstance(start, StartTime | None):
            run.stop_at(step, start)
            return None
        if self._host.announces:
            number = sum(status.settled for status in run.statuses.values()) + run.running_steps + 1
            task_id = run.lease.task.task_id if run.lease else None
            self._host.announce(number, len(run.workflow.steps), step.name, task_id)
        if isinstance(step, Wait):
            self._wait(run, step)
        elif isinstance(step, ListStep):
            self._begin_list(run, step, StepCall(step, start))
        else:
            return StepCall(step, start)
        return None

    def _wait(self, run: OpenRun, step: Wait) -> None:
        """Settle a step that waits, or stop at it. When the wait ends is stored with the run's own write."""
        call, now_ms = StepCall(step), self._now_ms()
        until_ms = run.known.decide_wait(step, now_ms)
        if isinstance(until_ms, int) and until_ms > now_ms:
            until_ms = self._end_of_wait(run, until_ms, now_ms)
        if isinstance(until_ms, str):
            self._end(run, self._failed(run, call, Failed(until_ms), ""))
        elif not isinstance(until_ms, int):
            run.stop_at(step, until_ms.without_secrets(run.secrets.hide_text), Blocked(step, (), frozenset()))
        elif until_ms > now_ms:
            run.variables.note(f"{WAIT_PREFIX}{step.name}", until_ms)
            run.stop_at(step, Waiting(step.name, step.waits_for, timestamp(until_ms), ""))
        elif step.callback is None:
            self._end(run, CallEnded(call, StepTrace(step, None, (), Succeeded(None))))
        else:
            self._time_out(run, step, step.callback, until_ms)

    def _time_out(self, run: OpenRun, step: Wait, callback: Callback, until_ms: int) -> None:
        """End a wait for a callback that has timed out.

        This is written at once: if a callback came first, the run continues with it. Later steps never see an end that
        is not stored.
        """
        call = StepCall(step)
        if callback.on_timeout == "skip":
            result = CallEnded(call, StepTrace(step, None, (), Skipped(Skip.NO_CALLBACK)))
        else:
            result = self._failed(run, call, Failed(callback.timed_out), "")
        self._end(run, result)
        over = self._write(run, last=False)
        if over is not None:
            run.stop_at(step, over)
            return
        is_completed = run.task is not None and statuses_of(run.task).get(step.name) is StepStatus.COMPLETED
        if run.stored and not is_completed:
            return
        run.reopen(step)
        run.stop_at(step, Waiting(step.name, step.waits_for, timestamp(until_ms), ""))
        if run.stored:
            with suppress(StoreError):  # the next run reads the callback
                self._replay(run, step)
                run.note_replayed(step)

    def _next_attempt_ms(self, run: OpenRun, step: Step) -> int | None:
        """When the next attempt of a step begins, if it must not begin now, epoch milliseconds."""
        until_ms = run.known.waits().get(step.name)
        return until_ms if until_ms and until_ms > self._now_ms() else None

    def _end_of_wait(self, run: OpenRun, until_ms: int, now_ms: int) -> int | str:
        """The end of a wait if the task lives longer, extended if necessary; otherwise the error of the step."""
        if self._store is None or run.lease is None:
            return until_ms
        with suppress(StoreError):  # the run's write finds out if the task is over
            ttl_ms = until_ms - now_ms + AFTER_WAITS_MS
            least_ms = ttl_ms - AFTER_WAITS_MS // 2  # most tasks were created with a sufficient lifetime
            run.lease.task = self._store.jobs.extend(run.lease.task, ttl_ms, least_ms)
        task = run.lease.task
        ends_ms = task.created_ms + task.ttl_ms
        if until_ms < ends_ms:
            return until_ms
        return f"it waits until {timestamp(until_ms)}, and its task ends at {timestamp(ends_ms)}; give it a longer ttl"

    def _begin_list(self, run: OpenRun, step: ListStep, call: StepCall) -> None:
        items = run.known.decide_items(step)
        if isinstance(items, str):
            self._end(run, self._failed(run, call, Failed(items), step.tool))
        elif isinstance(items, Items):
            run.begin_list(step, call, items)
            self._end_list(run, step)
        else:
            run.stop_at(step, items.without_secrets(run.secrets.hide_text), Blocked(step, (), frozenset()))

    def _begin_item(self, run: OpenRun, step: Step) -> StepCall | None:
        """The call of the next element of a list; `None` if it cannot start, or if a continuation has its result."""
        list_run = run.lists[step.name]
        if list_run.waiting[0] in list_run.items.done:
            del list_run.waiting[0]
            self._end_list(run, step)
            return None
        until_ms = list_run.retry_ms(list_run.waiting[0])
        if until_ms > self._now_ms():
            del list_run.waiting[0]
            list_run.note_stop(Waiting(step.name, "time", timestamp(until_ms), ""))
            self._end_list(run, step)
            return None
        start = self._check_start(step, self._host, run.lease)
        if isinstance(start, StartTime | None):
            return StepCall(step, start, list_run.waiting.pop(0))
        run.stop_at(step, start)
        return None

    def _check_start(self, step: Step, host: Host, lease: Lease | ThreadLease | None) -> StartTime | Stop | None:
        """The start time of a call; `None` without a task. If the call cannot start now, the reason: too little time is
        left, or another run has the task or could take it soon."""
        if not host.may_start():
            return DeadlineExceeded(step.name, step.tool or "")
        if lease is None:
            return None
        return lease.begin() or DeadlineExceeded(step.name, step.tool or "")

    def _start(self, run: OpenRun, call: StepCall, threads: Threads) -> None:
        """Make a call in another thread."""
        run.running[call.step.name] = run.running.get(call.step.name, 0) + 1
        if run.lease is None:
            threads.start(lambda host: self._make(run, call, host, None), None)
            return
        call = structs.replace(call, variables=run.variables.branch())
        lease = ThreadLease(run.lease, threads.ask)
        threads.start(lambda host: self._make(run, call, host, lease), lease.pulse)

    def _make(self, run: OpenRun, call: StepCall, host: Host, lease: Lease | ThreadLease | None) -> CallEnded:
        """Make a call, perhaps in another thread. This does not change the run. Even an internal error of Baton becomes
        a pause reason, so that earlier results are still written."""
        try:
            return self._perform(run, call, host, lease)
        except Exception as error:  # noqa: BLE001 - `_internal_error` logs it
            return self._internal_error(run, call, error)

    def _internal_error(self, run: OpenRun, call: StepCall, error: Exception) -> CallEnded:
        step = call.step
        text = run.secrets.hide_text(self._host.words(step.tool or step.name, error))
        logger.error("workflow %s: step %s: %s", run.workflow.name, step.name, text, exc_info=error)
        return self._failed(run, call, Failed(text, error_id=self._host.error_id(error)), step.tool or "")

    def _perform(self, run: OpenRun, call: StepCall, host: Host, lease: Lease | ThreadLease | None) -> CallEnded:
        step, known = call.step, run.known_at(call)
        fetched = fetch_before(step, known, host) if step.resources else NOTHING_FETCHED
        if fetched.error is not None:
            failed = Failed(fetched.error, error_id=fetched.error_id)
            return self._failed(run, call, failed, step.tool or "", fetched=fetched)
        decision: Ready | Stop = known.decide(step, host)
        if step.resources and lease is not None and not lease.is_safe():
            # Reading the resources took so long that the claim may have ended. The tool starts only if it is renewed.
            start = self._check_start(step, host, lease)
            decision = decision if isinstance(start, StartTime | None) else start
        if isinstance(decision, TaskOver | Superseded):
            return CallEnded(call, stop=decision)
        if not isinstance(decision, Ready):
            if call.index is not None:
                cause = decision.without_secrets(run.secrets.hide_text).as_error()
                # The same call would lack the value again, also if the step is retryable.
                return CallEnded(call, failed=Failed(cause, cause=ToolError(cause, retryable=False)))
            blocked = Blocked(step, fetched.contents, fetched.read_resources)
            return CallEnded(call, stop=_missing_value(run, step, decision), blocked=blocked)
        if decision.call is None:
            trace = StepTrace(step, None, fetched.contents, Succeeded(None), timing=self._timing(call))
            return CallEnded(call, trace)
        prepared, rng = decision.call, self._rng
        variables = call.variables or (run.variables if lease else None)
        tool_call = _tool_call(run, call, self._key(run, call, prepared))
        result = attempt(step, host, prepared, tool_call, variables, lease, rng)
        stop = _stop_before(step, result)
        if stop is not None:
            return CallEnded(call, stop=stop, blocked=Blocked(step, fetched.contents, fetched.read_resources))
        if isinstance(result.outcome, Failed):
            arguments, over = prepared.arguments, result.over
            failure = self._failed(run, call, result.outcome, prepared.name, arguments, fetched, result.attempts, over)
            return structs.replace(failure, retry_s=None if host.job_id is None else result.wait_s)
        call_record, timing = _call_to_store(run, step, prepared.arguments), self._timing(call)
        outcome, attempts = result.outcome, result.attempts
        _warn_of_secrets(run, step, outcome.value)
        trace = StepTrace(step, prepared.arguments, fetched.contents, outcome, attempts, call_record, timing)
        if step.resources:
            # The tool has run. A resource that cannot be fetched now must not cause a second call.
            later_resources = [resource for resource in step.resources if step.read_after(resource)]
            later_contents = fetch_all(later_resources, step, known.after(step, outcome.value), host)
            trace = structs.replace(trace, after=later_contents, timing=self._timing(call))
        return CallEnded(call, trace)

    def _now_ms(self) -> int:
        return self._store.now_ms() if self._store else time.time_ns() // 1_000_000

    def _failed(
        self,
        run: OpenRun,
        call: StepCall,
        failed: Failed,
        tool: str,
        arguments: Mapping[str, Json] | None = None,
        fetched: "Fetched | None" = None,
        attempts: int = 0,
        over: Over | None = None,
    ) -> CallEnded:
        step, fetched = call.step, fetched or NOTHING_FETCHED
        # The error is stored, and it may quote the arguments.
        failed = structs.replace(failed, error=run.secrets.hide_text(failed.error))
        call_record, timing, outcome = _call_to_store(run, step, arguments), self._timing(call), Failed(failed.error)
        contents, read, uri = fetched.contents, fetched.read_resources, fetched.uri
        trace = StepTrace(
            step, arguments, contents, outcome, attempts, call_record, timing, read_resources=read, unread=uri
        )
        pause = (
            None
            if call.index is not None
            else pause_after(failed, step, step.name, tool, uri, self._shown_key(run, trace))
        )
        return CallEnded(call, trace, over or pause, failed=failed)

    def _shown_key(self, run: OpenRun, trace: StepTrace) -> str | None:
        """The idempotency key of a step's call, for texts."""
        if run.task_id is None or trace.arguments is None:
            return None
        return repeat(trace.step, trace.arguments, run.known, run.task_id, self._host.canonical).key

    def _end(self, run: OpenRun, result: CallEnded) -> None:
        """Note how a call ended. A checkpoint is written."""
        step = result.call.step
        if step.name in run.running:
            run.running[step.name] -= 1
            if not run.running[step.name]:
                del run.running[step.name]
        if result.call.variables is not None:
            run.variables.merge(result.call.variables)
        is_postponed = result.failed is not None and step.retry is not None and self._postpone_attempt(run, result)
        if result.call.index is not None:
            if not is_postponed:
                run.end_item(result)
            self._end_list(run, step)
            return
        if is_postponed:
            return
        if result.trace is not None:
            run.settle(result.trace)
        if result.stop is not None:
            run.stop_at(step, result.stop, result.blocked)
        elif step.checkpoint:
            self._checkpoint(run, step)

    def _postpone_attempt(self, run: OpenRun, result: CallEnded) -> bool:
        """Stop at a step, or at an element of its list, if a worker can make its next attempt later and the task lives
        long enough. Otherwise it fails, and a resume has all attempts again."""
        step, now_ms, attempts = result.call.step, self._now_ms(), result.trace.attempts if result.trace else 0
        until_ms: int | str = ""
        if result.retry_s is not None and run.lease is not None:
            until_ms = self._end_of_wait(run, now_ms + round(result.retry_s * 1000), now_ms)
        if isinstance(until_ms, str):
            if result.call.index is None and _earlier_attempts(run, result.call):
                run.variables.note(f"{TRIED_PREFIX}{step.name}", 0)
            return False
        stop = Waiting(step.name, "time", timestamp(until_ms), "")
        if result.call.index is not None:
            run.note_retry(step, result.call.index, attempts, until_ms)
            run.lists[step.name].note_stop(stop)
            return True
        run.variables.note(f"{WAIT_PREFIX}{step.name}", until_ms)
        run.variables.note(f"{TRIED_PREFIX}{step.name}", attempts)
        run.stop_at(step, stop)
        return True

    def _end_list(self, run: OpenRun, step: Step) -> None:
        """Settle a step whose calls have all ended. A list with a checkpoint is also written from time to time."""
        list_run = run.lists[step.name]
        width = list_run.step.parallel
        if list_run.waiting or step.name in run.running or step.name in run.stops:
            # The results of a list grow, so not each of them is written at once.
            if step.checkpoint and list_run.unwritten >= width:
                self._checkpoint(run, step)
            return
        if list_run.stop is not None and not list_run.failed:
            run.stop_at(step, list_run.stop, Blocked(step, (), frozenset()))
            return
        timing = self._timing(list_run.call)
        attempts, calls = list_run.attempts, list_run.calls
        trace = StepTrace(step, None, (), list_run.outcome(), attempts, timing=timing, calls=calls)
        stop = list_run.pause()
        self._end(run, CallEnded(StepCall(step), trace, stop))

    def _checkpoint(self, run: OpenRun, step: Step) -> None:
        over = self._write(run, last=False)
        if over is not None:
            run.stop_at(step, over)

    def _timing(self, call: StepCall) -> Timing | None:
        """The timing of a call that has ended; `None` for a run without a task."""
        start = call.start
        return None if start is None else Timing(start.at_ms, round((self._clock() - start.at_s) * 1000))

    def _key(self, run: OpenRun, call: StepCall, prepared: Prepared) -> Key | None:
        """The idempotency key of all attempts of a call; `None` for a single call of a run without a task, which gets
        a key of its own."""
        step = call.step
        if run.task_id is None:
            return own_key() if step.retry else None
        name = step.name if call.index is None else item_name(step.name, call.index)
        return step_key(run.task_id, name, partial(self._host.canonical, prepared.name, prepared.arguments))

    def _with_repeats(self, run: OpenRun, ended_run: EndedRun) -> EndedRun:
        """The ended run, with the steps that it may have repeated and those that another run may repeat."""
        lease = run.lease
        if lease is None or not (lease.current_claim.interrupted or run.unrecorded):
            return ended_run
        known, task_id, canonical = run.known, lease.task.task_id, self._host.canonical

        def repeats_of(traces: Iterable[StepTrace]) -> tuple[Repeat, ...]:
            calls = (trace for trace in traces if trace.attempts)
            return tuple(repeat(trace.step, trace.arguments, known, task_id, canonical) for trace in calls)

        unrecorded = repeats_of(run.unrecorded)
        if not lease.current_claim.interrupted:
            return structs.replace(ended_run, unrecorded=unrecorded)
        repeated = repeats_of(trace for trace in run.traces if not trace.replayed)
        may_repeat = open_repeats(known, task_id, canonical)
        return structs.replace(ended_run, unrecorded=unrecorded, repeated=repeated, open_repeats=may_repeat)

    # The write

    def _write(self, run: OpenRun, *, last: bool) -> Over | None:
        """Write what has not been written; the last write releases the claim.

        If the write fails, the client still gets the reply (docs/workflows.md, Without a task).

        Returns:
            Why the run cannot write to its task any more; `None` if it can.
        """
        lease = run.lease
        if lease is None or self._store is None:
            return None

        traces: list[StepTrace] = []
        items: dict[str, Items] = {}
        releases = last

        def decide_batch(task: TaskRecord) -> Batch:
            nonlocal releases
            # A callback or a continuation may have completed the step at which the run has stopped. Then it goes on.
            releases = last and not run.settled_meanwhile(task)
            # The last write releases the claim, so it need not renew it.
            claim = lease.current_claim if releases else lease.claim()
            traces[:] = run.unwritten(task)
            items.clear()
            items.update(merged_items(task, run.unwritten_items()))
            return run_batch(
                task,
                traces,
                run.pauses,
                run.variables,
                last=last,
                move=run.move,
                claim=claim,
                release=releases,
                items=items,
                same_version=bool(items or run.unsure),
            )

        # A continuation can change each element once.
        attempts = WRITE_ATTEMPTS + sum(len(step_items.elements) for step_items in run.unwritten_items().values())
        try:
            task = write_decided(
                self._store, lease.task, decide_batch, attempts=attempts, sleep=self._sleep, rng=self._rng
            )
        except StoreError as error:
            return self._not_written(run, lease, error)
        if releases:
            lease.task, lease.released = task, True
        else:
            lease.note_written(task)
        run.note_written(task, traces, items)
        run.note_oversized(task)
        return None

    def _not_written(self, run: OpenRun, lease: Lease, error: StoreError) -> Over | None:
        over = isinstance(error, ClaimLost | TaskFinished)
        run.note_write_failed(unknown=isinstance(error, OutcomeUnknown), over=over)
        match error:
            case TaskFinished():
                lease.task = error.current
                return TaskOver(error.current.status)
            case ClaimLost():
                lease.task = error.current
                return Superseded()
            case TaskNotFound() if lease.unsure:
                logger.error("task %s: it was not created", lease.task.task_id)
                run.lease = None
                return None
            case TaskNotFound():
                return TaskOver(None)
        logger.error("task %s: the run could not be written", lease.task.task_id, exc_info=error)
        return None


def _stop_before(step: Step, result: "AttemptResult") -> Stop | None:
    """Why a tool was not called at all, if its step stays open."""
    if result.over and not result.attempts:
        return result.over
    approval = result.outcome.not_approved if isinstance(result.outcome, Failed) else None
    return None if approval is None else approval_pause(step.name, approval)


def _missing_value(run: OpenRun, step: Step, reason: PauseReason) -> PauseReason:
    """Why a step stops whose call is not known. If the model has made the call and a person has denied it, the model is
    not asked for the values again."""
    denied = denied_call(run.variables, step.name) if reason.remedy is Remedy.VALUES else None
    return reason.without_secrets(run.secrets.hide_text) if denied is None else approval_pause(step.name, denied)


def _why_skipped(step: Step, task: TaskRecord) -> Skip:
    """Why an earlier run has skipped a step. A step that has waited was skipped at the end of its wait. Without a
    condition, it can have been skipped for nothing else."""
    has_waited = step.when is None or f"{WAIT_PREFIX}{step.name}" in task.variables
    return Skip.NO_CALLBACK if isinstance(step, Wait) and step.callback is not None and has_waited else Skip.CONDITION


def _tool_call(run: OpenRun, call: StepCall, key: Key | None) -> ToolCall:
    step, lease = call.step, run.lease
    name = step.name if call.index is None else item_name(step.name, call.index)
    task, attempt_name = (None, "") if lease is None else (lease.task, f"run:{lease.current_claim.number}")
    return ToolCall(
        run.workflow,
        step,
        name,
        task,
        is_turn=True,
        is_item=call.index is not None,
        by=attempt_name,
        secrets=run.secrets,
        number=1 + _earlier_attempts(run, call),
        key=key,
    )


def _call_to_store(run: OpenRun, step: Step, arguments: Mapping[str, Json] | None) -> JsonObject | None:
    """The arguments to store with the result: none, unless a person has given some of them."""
    if arguments is None or step.name not in run.input.answers:
        return None
    return stored_call(arguments, hidden_in(arguments, step.arguments, run.workflow.secrets))


def _warn_of_secrets(run: OpenRun, step: Step, value: Json) -> None:
    if run.secrets.hide(value) != value:
        text = "workflow %s, step %s: the result of %s has a secret argument in it and is stored; leave it out"
        logger.warning(text, run.workflow.name, step.name, step.tool)


def _earlier_attempts(run: OpenRun, call: StepCall) -> int:
    """How often earlier runs called the tool of a step, or of an element of its list, before the wait for the next
    attempt."""
    step = call.step
    if call.index is not None:
        return run.lists[step.name].retries.get(call.index, (0, 0))[0]
    tries = run.variables.get(f"{TRIED_PREFIX}{step.name}") if step.retry else None
    return tries if isinstance(tries, int) else 0


# Attempts


class AttemptResult(Struct, frozen=True):
    """How the calls of a step's tool ended.

    Attributes:
        over: Why the run cannot write to its task any more, so that there was no further attempt.
        wait_s: The wait before the next attempt, if it is too long for this invocation.
    """

    outcome: Outcome
    attempts: int
    over: Over | None = None
    wait_s: float | None = None


def attempt(
    step: Step,
    host: Host,
    call: Prepared,
    tool_call: ToolCall,
    variables: TaskVariables | None,
    lease: Lease | ThreadLease | None,
    rng: Callable[[], float] = random_fraction,
) -> AttemptResult:
    """Call a step's tool until it succeeds, or until it must not or cannot be called again.

    Args:
        variables: The task's variables; `None` without a task.
    """
    outcome = host.run(call, variables, tool_call)
    if _was_not_called(outcome):
        # The claim is renewed just before a call. The renewal may show that the task is over or has another run.
        return AttemptResult(outcome, 0, lease.over if lease else None)
    result = AttemptResult(outcome, tool_call.number)
    while isinstance(result.outcome, Failed) and _may_retry(step, result.outcome, result.attempts):
        wait_s = step.retry.wait_s(result.attempts, rng) if step.retry else 0.0
        if not host.may_start(wait_s):
            return structs.replace(result, wait_s=wait_s)
        host.wait(wait_s)
        over = lease.check() if lease else None
        if over or not host.may_start() or (lease and not lease.is_safe()):
            return AttemptResult(result.outcome, result.attempts, over)
        outcome = host.run(call, variables, structs.replace(tool_call, number=result.attempts + 1))
        if isinstance(outcome, Failed) and outcome.not_approved is not None:
            return AttemptResult(outcome, result.attempts)  # the approval has expired, or was used up
        if _was_not_called(outcome):
            break
        result = AttemptResult(outcome, result.attempts + 1)
    return result


def _was_not_called(outcome: Outcome) -> bool:
    return isinstance(outcome, Failed) and outcome.kind is Failure.NOT_STARTED


def _may_retry(step: Step, failed: Failed, attempts: int) -> bool:
    """Whether the call may be made again. A call that timed out may have happened: only a retryable step repeats it."""
    if step.retry is None or attempts >= step.retry.attempts or failed.asks_client:
        return False
    match failed.kind:
        case Failure.RAISED:
            return isinstance(failed.cause, step.retry.on) and not failed.is_final
        case Failure.TIMED_OUT:
            return step.retryable
        case _:
            return False


# Resources


class Fetched(Struct, frozen=True):
    """The resources that were fetched before a step's tool.

    Attributes:
        error: Why the next one could not be fetched; `None` if all were fetched.
        uri: The URI of the resource that could not be fetched.
        error_id: Identifies the error in the server's log, if its text is hidden from clients.
    """

    contents: tuple[FetchedResource, ...] = ()
    read_resources: frozenset[str] = frozenset()
    error: str | None = None
    uri: str | None = None
    error_id: str | None = None


NOTHING_FETCHED: Final = Fetched()


def fetch_before(step: Step, known: Known, host: Host) -> Fetched:
    """Fetch the resources that do not need the tool's output, up to the first one that fails.

    A resource whose URI is not known yet is left out; `decide` says why.
    """
    contents: list[FetchedResource] = []
    read_resources: set[str] = set()
    for resource in step.resources:
        uri = None if step.read_after(resource) else known.uri_of(resource, step)
        if not isinstance(uri, str):
            continue
        result = _read(uri, host)
        if isinstance(result, ResourceUnavailable):
            return Fetched(tuple(contents), frozenset(read_resources), str(result), uri, result.error_id)
        contents.extend(result)
        read_resources.add(resource)
    return Fetched(tuple(contents), frozenset(read_resources))


def fetch_all(resources: Sequence[str], step: Step, known: Known, host: Host) -> tuple[Content, ...]:
    """Fetch these resources of a step whose tool has run. A resource that cannot be read is replaced by the reason."""
    contents: list[Content] = []
    for resource in resources:
        uri = known.uri_of(resource, step)
        if not isinstance(uri, str):
            contents.append(UnreadResource(uris_of(step, known)[resource], "a value in its URI is not known"))
            continue
        result = _read(uri, host) if host.may_start() else ResourceUnavailable("too little time is left")
        contents.extend([UnreadResource(uri, str(result))] if isinstance(result, ResourceUnavailable) else result)
    return tuple(contents)


def _read(uri: str, host: Host) -> Sequence[FetchedResource] | ResourceUnavailable:
    try:
        return host.read(uri)
    except ResourceUnavailable as error:
        return error
    except Exception:
        logger.exception("reading the resource %s failed", uri)
        return ResourceUnavailable(INTERNAL)
