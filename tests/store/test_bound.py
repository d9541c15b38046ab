"""A head stays within its bound, whatever a task has: the most of each thing, alone and together (docs/storage.md)."""

from collections.abc import Callable, Mapping
from itertools import batched
from typing import Any, Final

import pytest

from mcp_baton import Workflow
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.dynamodb.heads import head_bytes
from mcp_baton.tasks.dynamodb.items import Limits
from mcp_baton.tasks.dynamodb.task_items import stored_item
from mcp_baton.tasks.dynamodb.values import item_size
from mcp_baton.tasks.record import (
    APPROVAL_PREFIX,
    EARLY_PREFIX,
    EXTRA_PREFIX,
    LEASE_MS,
    MAX_JOBS_PER_TASK,
    PROGRESS,
    SALT,
    TRIED_PREFIX,
    WAIT_PREFIX,
    WAITING_JOBS,
    Claim,
    JobSpec,
    NewTask,
    StepStatus,
    TaskRecord,
)
from mcp_baton.tasks.store import Batch, ListResult, ListWrite, StepWrite, Timing
from mcp_baton.tasks.variables import MAX_VARIABLES_CHANGED
from mcp_baton.tools.outcomes import MAX_INVALID_FIELDS, InvalidField
from mcp_baton.workflow.checking import MAX_LIST_STEPS, MAX_STEP_NAME_CHARS, MAX_STEPS
from mcp_baton.workflow.list_elements import MAX_ELEMENTS
from mcp_baton.workflow.pause import (
    AnswersRequired,
    OpenQuestion,
    PauseReason,
    SchemaMismatch,
    StepFailed,
)
from mcp_baton.workflow.stored_pauses import stored_pauses
from tests.store.conftest import Clock
from tests.store.fixture_types import ON_MEMORY, Store, Stores

HOUR_MS: Final = 3_600_000
VALUE: Final = "v" * 2_000
FULL: Final = "é" * 10_000
"""Longer than any text may be in a head, with two bytes for each character."""

type Write = Callable[[Store, TaskRecord], TaskRecord]
"""Writes the most of one thing to a task."""


def name(index: int) -> str:
    return f"{index:03}".ljust(MAX_STEP_NAME_CHARS, "n")


def begin(store: Store, owner: str, steps: int) -> TaskRecord:
    goal = Workflow(name="w" * 64, description=FULL, steps=[]).progress([])["goal"]
    progress: Json = {
        "goal": goal,
        "steps": [{"name": name(index), "tool": "t" * 64, "status": "pending"} for index in range(steps)],
        "schemaVersion": 1,
    }
    variables: JsonObject = {PROGRESS: progress, SALT: "s" * 32, WAITING_JOBS: ["j" * 37] * MAX_JOBS_PER_TASK}
    new_task = NewTask(owner, variables, workflow="w" * 64, definition="d" * 64, arguments={"a": VALUE, "b": VALUE})
    return store.create(new_task)


def steps_of(task: TaskRecord) -> list[int]:
    progress: Any = task.variables[PROGRESS]
    return [index for index, step in enumerate(progress["steps"]) if step["status"] == "pending"]


def completion(index: int, value: Json | ListResult, call: JsonObject | None = None) -> StepWrite:
    timing = Timing(4_000_000_000_000 + 48 * HOUR_MS, 48 * HOUR_MS)
    return StepWrite(index, name(index), StepStatus.PENDING, StepStatus.COMPLETED, value, call, timing)


def write_results(store: Store, task: TaskRecord) -> TaskRecord:
    """Complete most steps by continuations. Their values are large, or too small to be moved."""
    for index in steps_of(task)[:-12]:
        value = VALUE if index % 2 else "v" * 90
        task = store.write(task, Batch(steps=(completion(index, value, {"a": value[:80]}),)))
    return task


def write_lists(store: Store, task: TaskRecord) -> TaskRecord:
    """Let every second element of each list be done, and complete some of the lists."""
    for index in steps_of(task)[:MAX_LIST_STEPS]:
        for first in range(0, MAX_ELEMENTS, 200):
            results = dict.fromkeys(range(first, first + 200, 2), "r" * 20)
            lists = {name(index): ListWrite(MAX_ELEMENTS, results, elements=list(range(MAX_ELEMENTS)))}
            task = store.write(task, Batch(lists=lists, same_version=True))
        lists = {name(index): ListWrite(MAX_ELEMENTS, dict.fromkeys(range(0, 64, 2), "r" * 20))}
        task = store.write(task, Batch(lists=lists, same_version=True))
        if index % 4 == 1:
            rest: dict[int, Json] = dict.fromkeys(range(1, MAX_ELEMENTS, 2), "r" * 9)
            lists = {name(index): ListWrite(MAX_ELEMENTS, rest)}
            steps = (completion(index, ListResult()),)
            task = store.write(task, Batch(steps=steps, lists=lists, same_version=True))
    return task


def write_waits(store: Store, task: TaskRecord) -> TaskRecord:
    kinds: JsonObject = {WAIT_PREFIX: 4_000_000_000_000, EARLY_PREFIX: True, TRIED_PREFIX: 99}
    for indexes in batched(steps_of(task), 15):
        variables: JsonObject = {f"{kind}{name(index)}": kinds[kind] for kind in kinds for index in indexes}
        task = store.write(task, Batch(variables=variables))
    return task


def write_approvals(store: Store, task: TaskRecord) -> TaskRecord:
    """Note a used approval for each step, a denied one for some, and one for elements of a list."""
    used: JsonObject = {"digest": "d" * 43, "repeat": 1_000, "by": "run:1000"}
    denied: JsonObject = {**used, "denied": {"state": "denied", "reason": "r" * 500, "message": FULL}}
    names = [*map(name, steps_of(task)), *(f"{name(0)}/{element}" for element in range(MAX_ELEMENTS // 4))]
    for some in batched(names, 40):
        variables = {f"{APPROVAL_PREFIX}{each}": used if index % 5 else denied for index, each in enumerate(some)}
        task = store.write(task, Batch(variables=variables))
    return task


def write_variables(store: Store, task: TaskRecord) -> TaskRecord:
    """Set variables of tools, and the results of extra calls."""
    for count in range(6):
        variables: JsonObject = {f"{count}{index}".ljust(64, "v"): VALUE for index in range(MAX_VARIABLES_CHANGED)}
        task = store.write(task, Batch(variables=variables))
        extras: JsonObject = {
            f"{EXTRA_PREFIX}{count}{index}".ljust(81, "x"): "e" * 90 for index in range(MAX_VARIABLES_CHANGED)
        }
        task = store.write(task, Batch(variables=extras))
    return task


REASONS: Mapping[str, Callable[[str, int], PauseReason]] = {
    "an error": lambda step, _: StepFailed(step, "e" * 10_000, retryable=False, suggested_tool="t" * 64),
    "wrong arguments": lambda step, _: SchemaMismatch(
        step, (FULL,) * MAX_INVALID_FIELDS, (InvalidField(FULL, FULL),) * MAX_INVALID_FIELDS, suggested_tool="t" * 64
    ),
    "questions": lambda step, steps: AnswersRequired(
        step,
        tuple(OpenQuestion(name(index), FULL, {"enum": [FULL] * 9}, "user") for index in range(steps)),
        suggested_tool="t" * 64,
    ),
}


def write_reasons(kind: str) -> Write:
    """Stop one step, or all open ones, with the longest reason of a kind."""

    def write(store: Store, task: TaskRecord) -> TaskRecord:
        open_steps = steps_of(task)
        stopped = open_steps[-1:] if kind == "questions" else open_steps
        reasons = stored_pauses([REASONS[kind](name(index), len(open_steps)).to_json() for index in stopped])
        assert reasons
        return store.write(task, Batch(pauses=reasons))

    return write


def write_message(store: Store, task: TaskRecord) -> TaskRecord:
    return store.write(task, Batch(message="🎉" * 2_000, wakes=("j" * 37,) * MAX_JOBS_PER_TASK))


def together(store: Store, task: TaskRecord) -> TaskRecord:
    for write in (write_lists, write_results, write_waits, write_approvals, write_variables, write_message):
        task = write(store, task)
    return write_reasons("an error")(store, task)


def write_message_and_reason(store: Store, task: TaskRecord) -> TaskRecord:
    return write_reasons("an error")(store, write_message(store, task))


WRITES: Mapping[str, Write] = {
    "results": write_results,
    "lists": write_lists,
    "waits": write_waits,
    "approvals": write_approvals,
    "variables": write_variables,
    "a message": write_message_and_reason,
    **{kind: write_reasons(kind) for kind in REASONS},
    "together": together,
}


@ON_MEMORY
@pytest.mark.parametrize("steps", [1, MAX_LIST_STEPS, MAX_STEPS])
@pytest.mark.parametrize("kind", WRITES)
def test_the_head_of_a_workflow_stays_within_its_bound(stores: Stores, owner: str, kind: str, steps: int) -> None:
    store = stores(limits=Limits(compress_over_bytes=10**9))
    task = WRITES[kind](store, begin(store, owner, steps))
    head = stored_item(store.get(owner, task.task_id))

    assert item_size(head) <= head_bytes(head, 8_192)
    assert kind != "together" or item_size(head) > head_bytes(head, 0) / 3, "the test writes too little"


@ON_MEMORY
def test_the_head_of_a_background_call_stays_within_its_bound(stores: Stores, owner: str, clock: Clock) -> None:
    store = stores(limits=Limits(compress_over_bytes=10**9))
    answers: dict[str, JsonObject] = {f"early {index}": {"text": VALUE} for index in range(100)}
    spec = JobSpec("t" * 64, "r" * 36, scopes=("orders:write",) * 50, capabilities={"roots": FULL}, answers=answers)
    job = store.create(NewTask(owner, {}, arguments={"a": VALUE}, work=spec, task_id=None))
    assert store.get(owner, job.task_id).job == job.job
    assert job.job is not None
    assert job.job.work == spec
    for attempt in range(3):
        task = store.jobs.claim(owner, job.task_id, Claim(str(attempt), clock.ms + LEASE_MS), attempt + 1)
        assert task.claim
        task = store.jobs.report(task, task.claim, FULL)
        asked: dict[str, JsonObject] = {f"{attempt}-{index}": {"m": "q" * 2_000} for index in range(20)}
        assert task.claim
        store.jobs.ask(task, task.claim, asked)
        store.jobs.answer(owner, job.task_id, {key: {"text": VALUE} for key in asked})
    head = stored_item(store.get(owner, job.task_id))

    assert item_size(head) <= head_bytes(head, 8_192)
    assert item_size(head) > 4_000, "the test writes too little"
