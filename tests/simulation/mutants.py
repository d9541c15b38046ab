"""Mutants: Baton with one guard removed. They prove that simulations find missing guards.

Each mutant must break an invariant within `MOST_SEEDS` seeds.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
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
from mcp_baton.present import mcp_task, recording, stored_task, view
from mcp_baton.present.recording import recorded_meta
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.server.methods import prompts, subscriptions, tasks, workflow_tools
from mcp_baton.tasks.dynamodb import expressions, items, table
from mcp_baton.tasks.dynamodb.counting import LiveTasks
from mcp_baton.tasks.dynamodb.lists import ListRecord
from mcp_baton.tasks.dynamodb.retries import RetryPolicy
from mcp_baton.tasks.dynamodb.starts import DynamoDBStartStore
from mcp_baton.tasks.record import RESULT_PREFIX, Claim, NewTask, StepStatus, TaskRecord, TaskStanding, epoch_ms
from mcp_baton.tasks.store import CallbackTarget, Start, TaskStore
from mcp_baton.tools.outcomes import Failed
from mcp_baton.tools.schema.prompt_arguments import ArgumentRefused
from mcp_baton.workflow import dispatching, repetitions, run_task, runs
from mcp_baton.workflow import run as running
from mcp_baton.workflow.host import Host, Skip, Skipped
from mcp_baton.workflow.lease import Lease
from mcp_baton.workflow.repetitions import RepeatedCall, Starter
from mcp_baton.workflow.request import Request
from mcp_baton.workflow.resolve import KnownValues
from mcp_baton.workflow.run import WorkflowRun
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
_task_view, _run_meta, _pause_s = mcp_task.task_view, stored_task.run_meta, RetryPolicy.pause_s
_suspend = waiting.suspend
_outbox_entry, _not_written = items.outbox_entry, RunWriter._not_written  # noqa: SLF001
_job_of, _has_task = creating.new_job, start_events._has_task  # noqa: SLF001
_begin, _claimed, _answer_repeated = DynamoDBStartStore.begin, run_task._claimed, workflow_tools._answer_repeated  # noqa: SLF001

type Patch = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True, slots=True)
class Mutant:
    """Baton with one guard removed.

    Attributes:
        is_rare: Whether finding the mutant takes hundreds of seeds.
        seed: One that notices the mutant. It is tried first.
    """

    name: str
    rewrite: Rewrite | None = None
    patch: Patch | None = None
    is_rare: bool = False
    kind: type[World] = World
    seed: int = 0


def of(kind: type[World], *mutants: Mutant) -> Iterator[Mutant]:
    """Yield mutants that only this kind of simulation can notice."""
    yield from (replace(mutant, kind=kind) for mutant in mutants)


def killed_by(mutant: Mutant, seeds: range = range(MOST_SEEDS)) -> Outcome | None:
    """Return the first simulation that breaks an invariant, or `None`."""
    with simulating(), pytest.MonkeyPatch.context() as patch:
        if mutant.patch:
            mutant.patch(patch)
        for seed in (mutant.seed, *seeds):
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


def _another_status(task: TaskRecord, request: Request, *_: Any, **options: Any) -> dict[str, Json]:
    shown = _task_view(task, request, **options)
    return shown | {"status": "working" if shown["status"] == "completed" else shown["status"]}


def _without_variables(task: TaskRecord, request: Request, *_: Any, **options: Any) -> dict[str, Json]:
    return _task_view(task, request, **{**options, "values": mcp_task.NONE})


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
    _start: Start | None,
    clock: Callable[[], float],
    *,
    unsure: bool = False,
) -> Lease:
    return Lease(store, task, host.left_ms, clock, unsure=unsure)


def _other_id(*args: Any) -> object:
    return structs.replace(_claimed(*args), task_id=None)


def _expires_early(
    store: DynamoDBStartStore, owner: str, digest: str, start: Start, instead_of: Start | None, _lives_ms: object = None
) -> Start | None:
    return _begin(store, owner, digest, start, instead_of, 60_000)


def _timed_after_read(starter: Starter, start: Start) -> TaskRecord | None:
    task = starter._read(start.task_id)  # noqa: SLF001
    now_ms = starter.store.now_ms()
    if task is None and now_ms < start.until_ms:
        raise RepeatedCall(start, None, now_ms - start.asked_ms, is_running=True)
    return task


def _looked_after_read(store: TaskStore, event: StartEvent, found: Start) -> bool:
    """Take the time after the read of the task."""
    try:
        store.get(event.owner, found.task_id)
    except TaskNotFound:
        if store.now_ms() >= found.until_ms:
            return False
    return _has_task(store, event, found)


def _job_with_own_id(*args: Any, **spec: Any) -> NewTask:
    return structs.replace(_job_of(*args, **spec), task_id=None)


def _no_takeover(*args: Any, **options: Any) -> RepeatedCall:
    return RepeatedCall(*args, **{**options, "takes_over": False})


def _always_take_over(
    request: Any, tool: Any, arguments: JsonObject, repeated: RepeatedCall, **options: Any
) -> JsonObject:
    repeated.takes_over = repeated.task is not None
    return _answer_repeated(request, tool, arguments, repeated, **options)


def patched(name: str, target: object, *, is_rare: bool = False, seed: int = 0, **values: object) -> Mutant:
    """Return a mutant in which these members of a module or class are replaced."""
    return Mutant(name, patch=replaced(target, **values), is_rare=is_rare, seed=seed)


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
    Mutant("repeated writes are applied again", without_condition(r"NOT contains\(w"), seed=506),
    Mutant("writes store no token", without_action("ADD w")),
    Mutant("each write drops the tokens of the last minute", patch=OLD_SET, is_rare=True),
    patched("a write that landed is not recognised by its token", table, has_token=lambda _item, _token: False),
    Mutant("an ended task can be written to", without_condition("status IN")),
    Mutant("an expired task can be written to", without_condition("expires_at>"), is_rare=True),
    Mutant("a new task replaces another", without_condition(r"attribute_not_exists\(pk", "PutItem"), seed=73),
    Mutant("a step is written without a check of its status", without_condition(STEP)),
    Mutant("progress is replaced without a check", without_condition(r"variables\._workflow\.progress="), is_rare=True),
    Mutant("a run writes without its claim", without_condition(r"run\.id="), seed=22),
    Mutant("a live claim can be taken", without_condition(r"\(run\.until<")),
    Mutant("claims are not counted", without_action(r"SET run\.number=")),
    Mutant("a run does not release its claim", without_action(r"SET run\.until="), seed=35),
    Mutant("a poll shows another status", patch=POLL),
    patched("a poll shows no variables", tasks, task_view=_without_variables),
    Mutant("a result that a client supplied is not marked", patch=NO_MARK),
    Mutant("every result is marked as a client's", patch=EACH_MARK),
    patched("a continuation calls all steps completed", recording, recorded_meta=_all_completed),
    Mutant("a continuation is always uncertain", patch=UNKNOWN_CALL),
    Mutant("a run is always uncertain", patch=UNKNOWN_RUN),
    Mutant("values never expire, because their expiry is in milliseconds", _expiry(lambda seconds: seconds * 1000)),
    Mutant("values expire before their task", _expiry(lambda seconds: seconds - 2 * 86_400)),
    Mutant("a value that was changed is moved", without_condition(MOVED, context="kept_until"), is_rare=True),
    Mutant("reads of tasks are stale", _stale_reads, seed=22),
    Mutant("owners see each other's tasks", _one_owner),
    patched("a list does not show the state of tasks", mcp_task, listed_meta=lambda _view: {}),
    patched("an owner may have any number of tasks", LiveTasks, enter=lambda *_: None, is_rare=True),
    patched("ended tasks count against the limit", LiveTasks, leave=lambda *_: None, seed=50),
    Mutant("tasks that were never counted are subtracted", _unconditional_counts, seed=40),
    patched(
        "a stream does not show that its task has ended",
        subscriptions,
        _notified_state=lambda _task: "as it was",
        seed=101,
    ),
    Mutant("a run begins calls without checking its claim", patch=NO_CHECK, is_rare=True),
    patched("a run without its task forgets the task's keys", RunWriter, _not_written=_forgets_task, seed=807),
    patched(
        "a run stops for an older claim than its own",
        TaskStanding,
        claim=property(lambda _self: Claim("another", 0, 1_000)),
        seed=27,
    ),
    patched("throttled requests are not retried", RetryPolicy, pause_s=_throttled_once, seed=106),
    *of(
        JobWorld,
        Mutant("a poll of a job shows another status", patch=POLL),
        Mutant("a job's result that a client supplied is not marked", patch=NO_MARK),
        Mutant("streams show stale reads", _stale_reads),
        Mutant("a claimed job can be claimed", without_condition(r"\(run\.until<"), seed=41),
        Mutant("a job that waits for its client can be claimed", without_condition("status="), seed=31),
        Mutant("a job has unlimited attempts", without_condition(r"run\.number<allowed"), seed=26),
        Mutant("attempts are not counted", without_action(r"SET run\.number=")),
        Mutant("a job is dispatched again before it is due", without_condition("due<"), is_rare=True),
        Mutant("a dispatched job stays due", without_action("SET due=")),
        Mutant("a claimed job is dispatched again or given up", without_condition(r"run\.until<"), is_rare=True),
        Mutant("a job with attempts left is given up", without_condition(r"run\.number>="), is_rare=True),
        Mutant("a worker writes without its claim", without_condition(r"run\.id=")),
        Mutant("a worker writes after it released its claim", without_condition(r"run\.until>"), is_rare=True),
        Mutant("an ended job can be written to", without_condition("status IN")),
        Mutant("answers are decided on an old version", without_condition("version="), seed=69),
        Mutant("an answer allows no new attempts", without_action("SET allowed=")),
        Mutant("repeated writes of jobs are applied again", without_condition(r"NOT contains\(w"), is_rare=True),
        Mutant("an answered job is not in the outbox", without_action("SET listed_in=")),
        Mutant("an ended job stays in the outbox", without_action("REMOVE listed_in")),
        Mutant("sweeps find a job too late", patch=LATE_ENTRIES),
        patched("sweeps do nothing", sweep, redispatch_if_due=lambda *args: args[-1], seed=44),
        patched("sweeps read only one shard", jobs, OUTBOX_SHARDS=1, seed=44),
        patched("sweeps ignore differences between clocks", jobs, CLOCK_DIFFERENCE_MS=0, is_rare=True),
    ),
    *of(
        ListWorld,
        Mutant("a chunk of a list replaces another", _overwritten_chunks, is_rare=True),
        patched("a result of a list is not noted", ListRecord, including=lambda self, _: self),
    ),
    *of(
        BackgroundWorld,
        Mutant("a worker hands over and keeps its claim", without_action(r"SET run\.until=")),
        patched("a worker runs completed steps again", running, statuses_under=_no_statuses, seed=25),
    ),
    *of(
        QuestionWorld,
        patched(
            "an answer is replaced after it was used",
            runs,
            _new_answers=lambda _workflow, _task, answers: dict(answers),
            seed=207,
        ),
        patched("answers are accepted and not stored", WorkflowRun, _take_answers=lambda _self: None),
        patched("an equal answer is refused", runs, _new_answers=_refuse_repeats),
        Mutant("a run with answers writes without its claim", without_condition(r"run\.id="), seed=28),
    ),
    *of(
        ApprovalWorld,
        Mutant("an approval is used without a check of its state", without_condition("state=", context=USE)),
        Mutant("an approval is used after its expiry", without_condition("until>", context=USE), is_rare=True),
        Mutant(
            "an approval is used by any attempt", without_condition(r"attribute_not_exists\(used", context=USE), seed=94
        ),
        Mutant("an approval is used again after each death", without_action("SET repeated="), seed=94),
        Mutant("uses of an approval are not counted", without_action("ADD uses"), seed=65),
        Mutant("an approval is used again after any failure", _free_at_once),
        Mutant("an approval is decided without a check of its state", without_condition("state=", context=DECIDE)),
        Mutant(
            "an approval is withdrawn without a check of its state",
            without_condition("state=", context=WITHDRAW),
            is_rare=True,
        ),
        patched("any attempt may use an approval", _Gate, _may_use_again=lambda *_: UseAgain.AFTER_DEATH, seed=46),
        patched("a failed call may be made any number of times", _Gate, _most_uses=99, seed=141),
        patched("a use is not recorded", gate, _note=lambda *_: None, is_rare=True),
    ),
    *of(
        WaitWorld,
        Mutant(
            "a callback is stored without a check of its step", without_condition(STEP, context=CALLBACK), is_rare=True
        ),
        patched("a run continues before its timeout is stored", Wait, _time_out=_timed_out, is_rare=True),
        patched("a callback is accepted after the time", callbacks, WAIT_PREFIX="no wait "),
        patched("a repeated callback is refused", callbacks, CALL_PREFIX="no call "),
        patched("any callback is accepted after the first one", callbacks, _is_new=_never_refused),
        patched("a run ends although a callback has come", WorkflowRun, settled_meanwhile=lambda *_: []),
        patched("a wait begins again with each run", KnownValues, decide_wait=_from_now),
    ),
    *of(
        BackgroundWaitWorld,
        Mutant("a callback is not in the outbox", _unlisted_callback),
        patched("sweeps ignore callbacks", sweep, _check=_without_wakes),
        patched("any run removes a callback from the outbox", run_task, Claim=_workers_claim, is_rare=True),
        Mutant(
            "a repeated event starts a job that waits",
            without_condition(r"\(attribute_not_exists\(run\.dispatch"),
            is_rare=True,
        ),
        Mutant("a waiting workflow does not store its job", without_action(NAMES_JOB), is_rare=True),
        Mutant(
            "a waiting job keeps the number of its event", without_action("SET run.dispatch=dispatches"), is_rare=True
        ),
        patched("a decision wakes only the job that asked", Approvals, _waiting_jobs=_asker),
        patched("only the first stop counts", workflow_worker, suspend=_suspend_at_first_stop),
        patched("no check after the release", waiting, _can_continue=lambda *_: False, is_rare=True),
        patched("each run wakes the jobs that wait", runs, Succeeded=object, is_rare=True),
    ),
    *of(
        StartWorld,
        Mutant("any call replaces a start", without_condition(r"\(attribute_not_exists\(task")),
        patched("a start without a task does not wait", DynamoDBStartStore, begin=_ended_start),
        patched("a task that is created too late runs", run_task, begin_lease=_begin_any_lease, is_rare=True),
        patched("a task has another id than its start", run_task, _claimed=_other_id, seed=110),
        patched("slow calls are not repeated", repetitions, SLOW_REPLY_MS=10**9),
        patched("fast calls are repeated", repetitions, SLOW_REPLY_MS=0),
        patched("a named task is repeated", repetitions, _is_clients=lambda _task: False),
        patched("a run that died is not continued", repetitions, RepeatedCall=_no_takeover),
        Mutant("a takeover takes any claim", without_condition(r"run\.until>", context="lapsed="), is_rare=True),
        patched("each repetition resumes", workflow_tools, _answer_repeated=_always_take_over),
        patched("a cancelled task is repeated", repetitions, _is_clients=lambda task: task.named, is_rare=True),
        patched("a start without a task stays", Starter, forget=lambda *_: None),
        patched("a start expires before its task", DynamoDBStartStore, begin=_expires_early),
        patched("a start is judged by a late clock", Starter, _task=_timed_after_read, is_rare=True),
    ),
    *of(
        JobStartWorld,
        Mutant("any background call replaces a start", without_condition(r"\(attribute_not_exists\(task")),
        patched("a start without a job does not wait", DynamoDBStartStore, begin=_ended_start),
        patched("a job that is created too late runs", creating, lasts=lambda *_: True, is_rare=True),
        patched("a job has another id than its start", creating, new_job=_job_with_own_id, is_rare=True),
        patched("an open job is not repeated", repetitions, _end_of_run=_changed_ms),
        patched("slow jobs are not repeated", repetitions, SLOW_REPLY_MS=10**9),
        patched("fast jobs are repeated", repetitions, SLOW_REPLY_MS=0),
        patched("a cancelled job is repeated", repetitions, _is_clients=lambda task: task.named),
        patched("a job whose workflow was named is repeated", Starter, _has_named_workflow=lambda *_: False),
        patched("a start without a job stays", Starter, forget=lambda *_: None),
        patched("a job of an unknown outcome is forgotten", creating, OutcomeUnknown=Unknown, is_rare=True),
        patched("a start expires before its job", DynamoDBStartStore, begin=_expires_early),
        patched("a start without a job is judged by a late clock", Starter, _task=_timed_after_read, is_rare=True),
    ),
    *of(
        EventWorld,
        Mutant("any event replaces a start", without_condition(r"\(attribute_not_exists\(task")),
        patched("a delivery does not wait", DynamoDBStartStore, begin=_ended_start),
        patched("a job of an event that is created too late runs", creating, lasts=lambda *_: True, is_rare=True),
        patched("a job of an event has another id", creating, new_job=_job_with_own_id),
        patched("other arguments are repeated", WorkflowTool, canonical=lambda *_: {}),
        patched("an event is not confirmed", DynamoDBStartStore, confirm=lambda *_: None),
        patched("an event is known for an hour", start_events, REPEATS_KNOWN_MS=3_600_000),
        patched("each start has started its event", start_events, _has_task=lambda *_: True),
        patched("a cancelled event starts again", start_events, TOO_LATE=None, is_rare=True),
        patched("an event of an unknown outcome is forgotten", start_events, OutcomeUnknown=Unknown, is_rare=True),
        patched(
            "a start of an event is judged by a late clock",
            start_events,
            _has_task=_looked_after_read,
            is_rare=True,
        ),
    ),
)
