"""Mutants: Baton with one guard removed. They prove that simulations find missing guards.

Each mutant must break an invariant within `MOST_SEEDS` seeds.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import pytest
from msgspec import structs

from mcp_baton import Callback, Workflow
from mcp_baton.approvals import gate
from mcp_baton.approvals.decisions import Approvals
from mcp_baton.approvals.gate import _Gate
from mcp_baton.approvals.record import ApprovalRecord, UseAgain
from mcp_baton.background import creating, start_events, sweep, waiting, workflow_worker
from mcp_baton.background import items as jobs
from mcp_baton.background.job import JobExecution
from mcp_baton.background.start_events import StartEvent
from mcp_baton.background.waiting import Waits, Write
from mcp_baton.callbacks import endpoint as callbacks
from mcp_baton.exceptions import StoreError, TaskNotFound
from mcp_baton.present import mcp_task, recording, view
from mcp_baton.present.mcp_task import ViewOptions
from mcp_baton.present.recording import recorded_meta
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.server.methods import prompts, subscriptions, tasks, workflow_tools
from mcp_baton.tasks.callbacks import CallbackTarget
from mcp_baton.tasks.dynamodb import expressions, items, table
from mcp_baton.tasks.dynamodb.counting import LiveTasks
from mcp_baton.tasks.dynamodb.lists import ListRecord
from mcp_baton.tasks.dynamodb.starts import DynamoDBStartStore
from mcp_baton.tasks.dynamodb.table import RetryPolicy
from mcp_baton.tasks.record import RESULT_PREFIX, Claim, NewTask, StepStatus, TaskRecord, TaskStanding, epoch_ms
from mcp_baton.tasks.starts import Start
from mcp_baton.tasks.store import TaskStore
from mcp_baton.tools.outcomes import Failed
from mcp_baton.tools.schema.prompt_arguments import ArgumentRefused
from mcp_baton.workflow import dispatching, repetitions, run_task, runs
from mcp_baton.workflow import run as running
from mcp_baton.workflow.host import Host, Skip, Skipped
from mcp_baton.workflow.lease import Lease
from mcp_baton.workflow.repetitions import RepeatedCall, Starter
from mcp_baton.workflow.resolve import KnownValues
from mcp_baton.workflow.run import WorkflowRun
from mcp_baton.workflow.run_input import RunInput, new_task
from mcp_baton.workflow.services import Services
from mcp_baton.workflow.step_run import StepRun
from mcp_baton.workflow.steps.step import Step
from mcp_baton.workflow.steps.wait import Wait
from mcp_baton.workflow.workflow_tool import WorkflowTool
from mcp_baton.workflow.write import RunWriter
from tests.simulation.approvals import ApprovalWorld
from tests.simulation.harness import Outcome, simulate, simulating
from tests.simulation.job_starts import EventWorld, JobStartWorld
from tests.simulation.jobs.background import BackgroundWorld
from tests.simulation.jobs.world import JobWorld
from tests.simulation.lists import ListWorld
from tests.simulation.questions import QuestionWorld
from tests.simulation.rewriting import without_action, without_condition
from tests.simulation.starts import StartWorld
from tests.simulation.waits import BackgroundWaitWorld, WaitWorld
from tests.simulation.world import Rewrite, World

MOST_SEEDS = 3_000
_task_view, _run_meta, _pause_s = mcp_task.task_view, view.run_meta, RetryPolicy.pause_s
_suspend = waiting.suspend
_outbox_entry, _not_written = items.outbox_entry, RunWriter._not_written  # noqa: SLF001
_job_of, _was_started = creating.new_job, start_events._was_started  # noqa: SLF001
_begin, _new_task, _answer_repeated = DynamoDBStartStore.begin, new_task, workflow_tools._answer_repeated  # noqa: SLF001

type Patch = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True, slots=True)
class Mutant:
    """Baton with one guard removed.

    Attributes:
        is_rare: Whether finding the mutant takes hundreds of seeds.
    """

    name: str
    rewrite: Rewrite | None = None
    patch: Patch | None = None
    is_rare: bool = False
    kind: type[World] = World


def killed_by(mutant: Mutant, seeds: range = range(MOST_SEEDS)) -> Outcome | None:
    """Return the first simulation that breaks an invariant, or `None`."""
    with simulating(), pytest.MonkeyPatch.context() as patch:
        if mutant.patch:
            mutant.patch(patch)
        for seed in seeds:
            outcome = simulate(seed, mutant.kind, rewrite=mutant.rewrite)
            if outcome.broken:
                return outcome
    return None


def replaced(target: object, **values: object) -> Patch:
    """Return a patch that replaces these members of a module or class."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        for name, value in values.items():
            patch.setattr(target, name, value)

    return apply


def _no_statuses(_task: object, workflow: Workflow) -> dict[str, StepStatus]:
    return {step.name: StepStatus.PENDING for step in workflow.steps}


def _another_status(task: TaskRecord, options: ViewOptions) -> dict[str, Json]:
    shown = _task_view(task, options)
    return shown | {"status": "working" if shown["status"] == "completed" else shown["status"]}


def _without_variables(task: TaskRecord, options: ViewOptions) -> dict[str, Json]:
    return _task_view(task, structs.replace(options, values=mcp_task.NONE))


def _all_completed(*args: Any) -> dict[str, Json]:
    meta = recorded_meta(*args)
    steps = cast("list[dict[str, Json]]", meta["steps"])
    return meta | {"steps": [step | {"status": "completed"} for step in steps]}


def _throttled_once(policy: RetryPolicy, *args: Any, throttled: bool) -> float | None:
    return None if throttled else _pause_s(policy, *args, throttled=throttled)


def _refuse_repeats(
    _workflow: Workflow, task: TaskRecord, answers: Mapping[str, JsonObject]
) -> Mapping[str, JsonObject]:
    if any(RESULT_PREFIX + name in task.variables for name in answers):
        raise ArgumentRefused("the answer cannot be changed")
    return answers


def _expiry(expires: Callable[[int], int]) -> Rewrite:
    """Return a rewrite that changes the expiry of values outside the tasks' items."""

    def rewrite(operation: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        item = request.get("Item", {})
        if operation != "PutItem" or not item["pk"]["S"].startswith("VALUE#"):
            return request
        return {**request, "Item": {**item, "expires_at": {"N": str(expires(int(item["expires_at"]["N"])))}}}

    return rewrite


def _overwritten_chunks(operation: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
    is_chunk = operation == "PutItem" and "by" in request["Item"]
    return without_condition("", "PutItem")(operation, request) if is_chunk else request


def _stale_reads(operation: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**request, "ConsistentRead": False} if operation in {"GetItem", "Query"} else request


def _one_owner(_operation: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", _renamed(request))


def _renamed(value: object) -> object:
    if isinstance(value, Mapping):
        return {name: _renamed(member) for name, member in value.items()}
    return re.sub("^OWNER#p$", "OWNER#o", value) if isinstance(value, str) else value


def _unconditional_counts(operation: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
    return without_condition("")(operation, request) if request.get("Key", {}).get("sk") == {"S": "COUNT"} else request


def _timed_out(step: Wait, run: WorkflowRun, this: StepRun, callback: Callback, _until_ms: int) -> None:
    if callback.on_timeout == "skip":
        this.outcome = Skipped(Skip.CONDITION)
    else:
        run.fail(this, Failed(callback.timed_out))
    step.end(run, this)


def _never_refused(task: TaskRecord, pointer: CallbackTarget, *_: object) -> bool:
    return f"{RESULT_PREFIX}{pointer.step}" not in task.variables


def _from_now(_known: KnownValues, step: Step, now_ms: int) -> int:
    return now_ms + step.longest_wait_ms


def _workers_claim(claim_id: str, until_ms: int, **_: object) -> Claim:
    return Claim(claim_id, until_ms, by_worker=True)


def _unlisted_callback(operation: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
    is_callback = "wakes" in request.get("ExpressionAttributeNames", {}).values()
    return without_action("SET listed_")(operation, request) if is_callback else request


def _free_at_once(operation: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Mark an approval as free with its first use, as if the call had failed cleanly already."""
    names, expression = request.get("ExpressionAttributeNames", {}), request.get("UpdateExpression", "")
    used_by = next((name for name, attribute in names.items() if attribute == "used_by"), None)
    if operation != "UpdateItem" or f"SET {used_by}=" not in expression:
        return request
    values = {**request["ExpressionAttributeValues"], ":free": {"N": "1"}}
    return {
        **request,
        "UpdateExpression": expression.replace(f"SET {used_by}=", f"SET #free=:free,{used_by}="),
        "ExpressionAttributeNames": {**names, "#free": "free"},
        "ExpressionAttributeValues": values,
    }


def _forgets_task(writer: RunWriter, *args: Any) -> object:
    run: Any = writer._run  # noqa: SLF001
    result = _not_written(writer, *args)
    run.task_id = run.task_id if run.lease else None
    return result


def _suspend_at_first_stop(execution: JobExecution, lease: Lease, waits: Waits, write: Write) -> str:
    return _suspend(execution, lease, structs.replace(waits, pauses=waits.pauses[:1]), write)


def _asker(_approvals: Approvals, record: ApprovalRecord) -> list[str]:
    return [] if record.job_id is None else [record.job_id]


def _without_wakes(services: Services, store: TaskStore, task: TaskRecord) -> bool:
    return dispatching.redispatch_if_due(services, store, task) is not task


class Unknown(StoreError):
    """Is never raised."""


def _changed_ms(task: TaskRecord) -> int:
    return epoch_ms(task.updated_at)


def _ended_start(store: DynamoDBStartStore, *args: Any) -> Start | None:
    found = _begin(store, *args)
    return found and structs.replace(found, until_ms=0)


def _begin_any_lease(
    host: Host,
    store: TaskStore,
    task: TaskRecord,
    _input: RunInput,
    clock: Callable[[], float],
    *,
    unsure: bool = False,
) -> Lease:
    return Lease(store, task, host.left_ms, clock, unsure=unsure)


def _other_id(workflow: Workflow, run_input: RunInput, *args: Any) -> object:
    return _new_task(workflow, structs.replace(run_input, start=None), *args)


def _expires_early(
    store: DynamoDBStartStore, owner: str, digest: str, start: Start, instead_of: Start | None, _lives_ms: object = None
) -> Start | None:
    return _begin(store, owner, digest, start, instead_of, 60_000)


def _timed_after_read(starter: Starter, start: Start) -> TaskRecord | None:
    task = starter._read(start.task_id)  # noqa: SLF001
    now_ms = starter._store.now_ms()  # noqa: SLF001
    if task is None and now_ms < start.until_ms:
        raise RepeatedCall(start, None, now_ms - start.asked_ms, is_running=True)
    return task


def _started_after_read(store: TaskStore, event: StartEvent, found: Start, call: str) -> bool:
    """Take the time after the read of the task."""
    try:
        store.get(event.owner, found.task_id)
    except TaskNotFound:
        if store.now_ms() >= found.until_ms and not found.created:
            return False
    return _was_started(store, event, found, call)


def _job_with_own_id(*args: Any, **spec: Any) -> NewTask:
    return structs.replace(_job_of(*args, **spec), task_id=None)


def _no_takeover(*args: Any, **options: Any) -> RepeatedCall:
    return RepeatedCall(*args, **{**options, "takes_over": False})


def _always_take_over(
    request: Any, tool: Any, arguments: JsonObject, repeated: RepeatedCall, **options: Any
) -> JsonObject:
    repeated.takes_over = repeated.task is not None
    return _answer_repeated(request, tool, arguments, repeated, **options)


MOVED = r"variables\.(?!_workflow\.(progress|pause_reason))"
OLD_SET = replaced(expressions, old_set_at=lambda now_ms: expressions.set_at(now_ms - expressions.TOKEN_SET_MS))
POLL = replaced(tasks, task_view=_another_status)
NO_MARK = replaced(mcp_task, facts_of=lambda _task: {}, result_mark=lambda _task: {})
EACH_MARK = replaced(
    mcp_task,
    facts_of=lambda _task: {"result_by": "client"},
    result_mark=lambda _task: {view.RESULT_BY_KEY: "client"},
)
UNKNOWN_CALL = replaced(recording, recorded_meta=lambda *args: recorded_meta(*args) | {"recorded": "unknown"})
UNKNOWN_RUN = replaced(
    prompts, run_meta=lambda *args, **options: _run_meta(*args, **options) | {"persisted": "unknown"}
)
NO_CHECK = replaced(Lease, begin=lambda self: self._store.now_ms(), pulse=lambda _self: 15.0)
LATE_ENTRIES = replaced(items, outbox_entry=lambda task_id, at_ms: _outbox_entry(task_id, at_ms + 1_000))
USE, DECIDE = "used_by=", "decided="
"""Patterns of the writes that use an approval and that decide it."""

WITHDRAW = r"^SET state=[^,]+,listed_in="
CALLBACK = r"variables\._workflow\.call\.signed="
NAMES_JOB = r"SET variables\._workflow\.job="
STEP = r"variables\._workflow\.progress\.steps\[\d+\]\.status="

MUTANTS = (
    Mutant("repeated writes are applied again", without_condition(r"NOT contains\(w")),
    Mutant("writes store no token", without_action("ADD w")),
    Mutant("each write drops the tokens of the last minute", patch=OLD_SET, is_rare=True),
    Mutant(
        "a write that landed is not recognised by its token",
        patch=replaced(table, has_token=lambda _item, _token: False),
    ),
    Mutant("an ended task can be written to", without_condition("status IN")),
    Mutant("an expired task can be written to", without_condition("expires_at>"), is_rare=True),
    Mutant("a new task replaces another", without_condition(r"attribute_not_exists\(pk", "PutItem")),
    Mutant("a step is written without a check of its status", without_condition(STEP)),
    Mutant("progress is replaced without a check", without_condition(r"variables\._workflow\.progress="), is_rare=True),
    Mutant("a run writes without its claim", without_condition(r"run\.id=")),
    Mutant("a live claim can be taken", without_condition(r"\(run\.until<")),
    Mutant("claims are not counted", without_action(r"SET run\.number=")),
    Mutant("a run does not release its claim", without_action(r"SET run\.until=")),
    Mutant("a poll shows another status", patch=POLL),
    Mutant("a poll of a job shows another status", patch=POLL, kind=JobWorld),
    Mutant("a poll shows no variables", patch=replaced(tasks, task_view=_without_variables)),
    Mutant("a result that a client supplied is not marked", patch=NO_MARK),
    Mutant("a job's result that a client supplied is not marked", patch=NO_MARK, kind=JobWorld),
    Mutant("every result is marked as a client's", patch=EACH_MARK),
    Mutant("a continuation calls all steps completed", patch=replaced(recording, recorded_meta=_all_completed)),
    Mutant("a continuation is always uncertain", patch=UNKNOWN_CALL),
    Mutant("a run is always uncertain", patch=UNKNOWN_RUN),
    Mutant("values never expire, because their expiry is in milliseconds", _expiry(lambda seconds: seconds * 1000)),
    Mutant("values expire before their task", _expiry(lambda seconds: seconds - 2 * 86_400)),
    Mutant("a value that was changed is moved", without_condition(MOVED, context="kept_until"), is_rare=True),
    Mutant("a chunk of a list replaces another", _overwritten_chunks, kind=ListWorld, is_rare=True),
    Mutant(
        "a result of a list is not noted", patch=replaced(ListRecord, including=lambda self, _: self), kind=ListWorld
    ),
    Mutant("reads of tasks are stale", _stale_reads),
    Mutant("streams show stale reads", _stale_reads, kind=JobWorld),
    Mutant("owners see each other's tasks", _one_owner),
    Mutant("a list does not show the state of tasks", patch=replaced(mcp_task, listed_meta=lambda _view: {})),
    Mutant("an owner may have any number of tasks", patch=replaced(LiveTasks, enter=lambda *_: None), is_rare=True),
    Mutant("ended tasks count against the limit", patch=replaced(LiveTasks, leave=lambda *_: None)),
    Mutant("tasks that were never counted are subtracted", _unconditional_counts),
    Mutant(
        "a stream does not show that its task has ended",
        patch=replaced(subscriptions, _notified_state=lambda _task: "as it was"),
    ),
    Mutant("a run begins calls without checking its claim", patch=NO_CHECK, is_rare=True),
    Mutant("a run without its task forgets the task's keys", patch=replaced(RunWriter, _not_written=_forgets_task)),
    Mutant(
        "a run stops for an older claim than its own",
        patch=replaced(TaskStanding, claim=property(lambda _self: Claim("another", 0, 1_000))),
    ),
    Mutant("throttled requests are not retried", patch=replaced(RetryPolicy, pause_s=_throttled_once)),
    *(
        Mutant(name, rewrite, kind=JobWorld, is_rare=is_rare)
        for name, rewrite, is_rare in (
            ("a claimed job can be claimed", without_condition(r"\(run\.until<"), False),
            ("a job that waits for its client can be claimed", without_condition("status="), False),
            ("a job has unlimited attempts", without_condition(r"run\.number<allowed"), False),
            ("attempts are not counted", without_action(r"SET run\.number="), False),
            ("a job is dispatched again before it is due", without_condition("due<"), True),
            ("a dispatched job stays due", without_action("SET due="), False),
            ("a claimed job is dispatched again or given up", without_condition(r"run\.until<"), True),
            ("a job with attempts left is given up", without_condition(r"run\.number>="), True),
            ("a worker writes without its claim", without_condition(r"run\.id="), False),
            ("a worker writes after it released its claim", without_condition(r"run\.until>"), True),
            ("an ended job can be written to", without_condition("status IN"), False),
            ("answers are decided on an old version", without_condition("version="), False),
            ("an answer allows no new attempts", without_action("SET allowed="), False),
            ("repeated writes of jobs are applied again", without_condition(r"NOT contains\(w"), True),
        )
    ),
    *(
        Mutant(name, rewrite, patch, is_rare=is_rare, kind=JobWorld)
        for name, rewrite, patch, is_rare in (
            ("an answered job is not in the outbox", without_action("SET listed_in="), None, False),
            ("an ended job stays in the outbox", without_action("REMOVE listed_in"), None, False),
            ("sweeps find a job too late", None, LATE_ENTRIES, False),
            ("sweeps do nothing", None, replaced(sweep, redispatch_if_due=lambda *args: args[-1]), False),
            ("sweeps read only one shard", None, replaced(jobs, OUTBOX_SHARDS=1), False),
            ("sweeps ignore differences between clocks", None, replaced(jobs, CLOCK_DIFFERENCE_MS=0), True),
        )
    ),
    Mutant("a worker hands over and keeps its claim", without_action(r"SET run\.until="), kind=BackgroundWorld),
    Mutant(
        "a worker runs completed steps again",
        patch=replaced(running, statuses_under=_no_statuses),
        kind=BackgroundWorld,
    ),
    Mutant(
        "an answer is replaced after it was used",
        patch=replaced(runs, _new_answers=lambda _workflow, _task, answers: dict(answers)),
        kind=QuestionWorld,
    ),
    Mutant(
        "answers are accepted and not stored",
        patch=replaced(WorkflowRun, _take_answers=lambda _self: None),
        kind=QuestionWorld,
    ),
    Mutant("an equal answer is refused", patch=replaced(runs, _new_answers=_refuse_repeats), kind=QuestionWorld),
    Mutant("a run with answers writes without its claim", without_condition(r"run\.id="), kind=QuestionWorld),
    *(
        Mutant(name, rewrite, is_rare=is_rare, kind=ApprovalWorld)
        for name, rewrite, is_rare in (
            ("an approval is used without a check of its state", without_condition("state=", context=USE), False),
            ("an approval is used after its expiry", without_condition("until>", context=USE), True),
            (
                "an approval is used by any attempt",
                without_condition(r"attribute_not_exists\(used", context=USE),
                False,
            ),
            ("an approval is used again after each death", without_action("SET repeated="), False),
            ("uses of an approval are not counted", without_action("ADD uses"), False),
            ("an approval is used again after any failure", _free_at_once, False),
            ("an approval is decided without a check of its state", without_condition("state=", context=DECIDE), False),
            (
                "an approval is withdrawn without a check of its state",
                without_condition("state=", context=WITHDRAW),
                True,
            ),
        )
    ),
    *(
        Mutant(name, patch=patch, is_rare=is_rare, kind=ApprovalWorld)
        for name, patch, is_rare in (
            (
                "any attempt may use an approval",
                replaced(_Gate, _may_use_again=lambda *_: UseAgain.AFTER_DEATH),
                False,
            ),
            ("a failed call may be made any number of times", replaced(_Gate, _most_uses=99), False),
            ("a use is not recorded", replaced(gate, _note=lambda *_: None), True),
        )
    ),
    *(
        Mutant(name, rewrite, patch, is_rare=is_rare, kind=WaitWorld)
        for name, rewrite, patch, is_rare in (
            ("a callback is stored without a check of its step", without_condition(STEP, context=CALLBACK), None, True),
            ("a run continues before its timeout is stored", None, replaced(Wait, _time_out=_timed_out), True),
            ("a callback is accepted after the time", None, replaced(callbacks, WAIT_PREFIX="no wait "), False),
            ("a repeated callback is refused", None, replaced(callbacks, CALL_PREFIX="no call "), False),
            ("any callback is accepted after the first one", None, replaced(callbacks, _is_new=_never_refused), False),
            (
                "a run ends although a callback has come",
                None,
                replaced(WorkflowRun, settled_meanwhile=lambda *_: []),
                False,
            ),
            ("a wait begins again with each run", None, replaced(KnownValues, decide_wait=_from_now), False),
        )
    ),
    *(
        Mutant(name, rewrite, patch, is_rare=is_rare, kind=BackgroundWaitWorld)
        for name, rewrite, patch, is_rare in (
            ("a callback is not in the outbox", _unlisted_callback, None, False),
            ("sweeps ignore callbacks", None, replaced(sweep, _check=_without_wakes), False),
            ("any run removes a callback from the outbox", None, replaced(run_task, Claim=_workers_claim), True),
            (
                "a repeated event starts a job that waits",
                without_condition(r"\(attribute_not_exists\(run\.dispatch"),
                None,
                True,
            ),
            ("a waiting workflow does not store its job", without_action(NAMES_JOB), None, True),
            ("a waiting job keeps the number of its event", without_action("SET run.dispatch=dispatches"), None, True),
            ("a decision wakes only the job that asked", None, replaced(Approvals, _waiting_jobs=_asker), False),
            ("only the first stop counts", None, replaced(workflow_worker, suspend=_suspend_at_first_stop), False),
            ("no check after the release", None, replaced(waiting, _can_continue=lambda *_: False), True),
            ("each run wakes the jobs that wait", None, replaced(runs, Succeeded=object), True),
        )
    ),
    *(
        Mutant(name, rewrite, patch, is_rare=is_rare, kind=StartWorld)
        for name, rewrite, patch, is_rare in (
            ("any call replaces a start", without_condition(r"\(attribute_not_exists\(task"), None, False),
            ("a start without a task does not wait", None, replaced(DynamoDBStartStore, begin=_ended_start), False),
            ("a task that is created too late runs", None, replaced(run_task, begin_lease=_begin_any_lease), True),
            ("a task has another id than its start", None, replaced(run_task, new_task=_other_id), False),
            ("slow calls are not repeated", None, replaced(repetitions, SLOW_REPLY_MS=10**9), False),
            ("fast calls are repeated", None, replaced(repetitions, SLOW_REPLY_MS=0), False),
            ("a named task is repeated", None, replaced(repetitions, _is_clients=lambda _task: False), False),
            ("a run that died is not continued", None, replaced(repetitions, RepeatedCall=_no_takeover), False),
            ("a takeover takes any claim", without_condition(r"run\.until>", context="lapsed="), None, True),
            ("each repetition resumes", None, replaced(workflow_tools, _answer_repeated=_always_take_over), False),
            ("a cancelled task is repeated", None, replaced(repetitions, _is_clients=lambda task: task.named), True),
            ("a start without a task stays", None, replaced(Starter, forget=lambda *_: None), False),
            ("a start expires before its task", None, replaced(DynamoDBStartStore, begin=_expires_early), False),
            ("a start is judged by a late clock", None, replaced(Starter, _task=_timed_after_read), True),
        )
    ),
    *(
        Mutant(name, rewrite, patch, is_rare=is_rare, kind=JobStartWorld)
        for name, rewrite, patch, is_rare in (
            ("any background call replaces a start", without_condition(r"\(attribute_not_exists\(task"), None, False),
            ("a start without a job does not wait", None, replaced(DynamoDBStartStore, begin=_ended_start), False),
            ("a job that is created too late runs", None, replaced(creating, lasts=lambda *_: True), True),
            ("a job has another id than its start", None, replaced(creating, new_job=_job_with_own_id), True),
            ("an open job is not repeated", None, replaced(repetitions, _end_of_run=_changed_ms), False),
            ("slow jobs are not repeated", None, replaced(repetitions, SLOW_REPLY_MS=10**9), False),
            ("fast jobs are repeated", None, replaced(repetitions, SLOW_REPLY_MS=0), False),
            ("a cancelled job is repeated", None, replaced(repetitions, _is_clients=lambda task: task.named), False),
            (
                "a job whose workflow was named is repeated",
                None,
                replaced(Starter, _has_named_workflow=lambda *_: False),
                False,
            ),
            ("a start without a job stays", None, replaced(Starter, forget=lambda *_: None), False),
            ("a job of an unknown outcome is forgotten", None, replaced(creating, OutcomeUnknown=Unknown), True),
            ("a start expires before its job", None, replaced(DynamoDBStartStore, begin=_expires_early), False),
            ("a start without a job is judged by a late clock", None, replaced(Starter, _task=_timed_after_read), True),
        )
    ),
    *(
        Mutant(name, rewrite, patch, is_rare=is_rare, kind=EventWorld)
        for name, rewrite, patch, is_rare in (
            ("any event replaces a start", without_condition(r"\(attribute_not_exists\(task"), None, False),
            ("a delivery does not wait", None, replaced(DynamoDBStartStore, begin=_ended_start), False),
            ("a job of an event that is created too late runs", None, replaced(creating, lasts=lambda *_: True), True),
            ("a job of an event has another id", None, replaced(creating, new_job=_job_with_own_id), False),
            ("other arguments are repeated", None, replaced(WorkflowTool, canonical=lambda *_: {}), False),
            ("an event is not confirmed", None, replaced(DynamoDBStartStore, confirm=lambda *_: None), False),
            ("an event is known for an hour", None, replaced(start_events, REPEATS_KNOWN_MS=3_600_000), False),
            ("each start has started its event", None, replaced(start_events, _was_started=lambda *_: True), False),
            ("a cancelled event starts again", None, replaced(start_events, TOO_LATE=None), True),
            ("an event of an unknown outcome is forgotten", None, replaced(start_events, OutcomeUnknown=Unknown), True),
            (
                "a start of an event is judged by a late clock",
                None,
                replaced(start_events, _was_started=_started_after_read),
                True,
            ),
        )
    ),
)
