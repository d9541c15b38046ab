"""The engine: steps run in order, everything is written at once, and no stop is silent.

The host is a script, as the engine sees a server only through that port; the store is the real one over a
DynamoDB in memory, with faults put in front of it where it could not be made to fail by itself.
"""

import dataclasses
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from mcp_baton.exceptions import ClaimLost, OutcomeUnknown, StoreError, StoreUnavailable, ValueNotKept
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.tasks.dynamodb.store import DynamoDBTaskStore
from mcp_baton.tasks.dynamodb.table import Connection, TaskTable
from mcp_baton.tasks.dynamodb.task_items import TaskItems
from mcp_baton.tasks.record import (
    LEASE_MS,
    RENEW_MS,
    Claim,
    NewTask,
    StepStatus,
    TaskRecord,
    TaskStatus,
    pause_of,
    steps_of,
)
from mcp_baton.tasks.store import Batch, TaskStore, Written
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.testing.connecting import TABLE
from mcp_baton.workflow.continuation import ContinuationCall, continuation_batch
from mcp_baton.workflow.definition import Argument, Step, Workflow
from mcp_baton.workflow.engine import Engine
from mcp_baton.workflow.host import (
    Failed,
    FetchedResource,
    InvalidField,
    Mismatch,
    Outcome,
    ResourceUnavailable,
    Succeeded,
)
from mcp_baton.workflow.lease import Over, Superseded, TaskOver
from mcp_baton.workflow.pause import (
    DeadlineExceeded,
    SchemaMismatch,
    StepFailed,
    UnresolvableParams,
    UnresolvedDependency,
)
from mcp_baton.workflow.run import Blocked, EndedRun, Invocation, Persisted, UnreadResource
from mcp_baton.workflow.sources import Source, prompt_arg, step_output, task_variable
from tests.fakes import Behaviour, RecordingStore, ScriptedHost, plan_of
from tests.memory_dynamodb import memory_database
from tests.noise import noise

PENDING, COMPLETED, FAILED, SKIPPED = StepStatus
OWNER = "kim"


@pytest.fixture(scope="module")
def client() -> Any:
    return memory_database()


@pytest.fixture
def store(client: Any) -> DynamoDBTaskStore:
    return DynamoDBTaskStore(TaskItems(TaskTable(TABLE, Connection(lambda: client))))


def workflow(*steps: Step, durable: bool = True) -> Workflow:
    return Workflow(
        name="w",
        description="do it",
        arguments=[Argument("id"), Argument("amount", type=float)],
        steps=steps,
        durable=durable,
    )


THREE = workflow(
    Step("a", tool="make", arguments={"id": prompt_arg("id")}),
    Step("b", tool="change", arguments={"it": step_output("a")}),
    Step("c", tool="finish", arguments={"it": step_output("b", "from")}),
)
CHECKED = workflow(*(replace(step, checkpoint=step.name == "a") for step in THREE.steps))
INVOCATION = Invocation({"id": "7"}, {"id": "7"}, OWNER)


def fail(error: str) -> Behaviour:
    return lambda _arguments, _variables: Failed(error)


def give(value: Json) -> Behaviour:
    return lambda _arguments, _variables: Succeeded(value)


def text_at(uri: str, text: str) -> FetchedResource:
    return FetchedResource(uri, "text/plain", text=text)


def stored(store: TaskStore, run: EndedRun) -> TaskRecord:
    assert run.task is not None
    return store.get(OWNER, run.task.task_id)


def statuses(task: TaskRecord) -> list[str]:
    return [step["status"] for step in steps_of(task)]


def test_a_run_is_one_create_the_steps_in_order_and_one_write(store: DynamoDBTaskStore) -> None:
    host = ScriptedHost()
    recording = RecordingStore(store, host)
    given = Invocation({"id": "7", "amount": "30.00"}, {"id": "7", "amount": 30.0}, OWNER, 60_000)

    run = Engine(host, recording).start(THREE, given)

    [created] = recording.created
    assert (created.status, dict(created.variables)) == (
        TaskStatus.WORKING,
        {"_workflow.progress": THREE.progress([PENDING] * 3)},
    )
    assert (created.workflow, created.definition) == ("w", THREE.fingerprint)
    assert (created.arguments, created.ttl_ms) == ({"id": "7", "amount": "30.00"}, 60_000)
    assert host.log == [
        "create",
        "announce 1/3 a",
        "call make {'id': '7'}",
        "announce 2/3 b",
        "call change {'it': {'from': 'make'}}",
        "announce 3/3 c",
        "call finish {'it': 'change'}",
        "write",
    ]
    task = stored(store, run)
    assert (run.pause, run.persisted, run.task) == (None, True, task)
    assert (task.status, task.result) == (TaskStatus.COMPLETED, {"completed": True, "steps_completed": 3})
    assert statuses(task) == ["completed"] * 3
    assert task.variables["_workflow.result.b"] == {"from": "change"}
    assert "_workflow.pause_reason" not in task.variables


def test_a_tool_error_stops_the_run_and_leaves_later_steps_pending(store: DynamoDBTaskStore) -> None:
    host = ScriptedHost({"change": fail("no route")})

    run = Engine(host, store).start(THREE, INVOCATION)

    task = stored(store, run)
    assert run.pause == StepFailed("b", "no route", False, "change")
    assert (task.status, statuses(task)) == (TaskStatus.WORKING, ["completed", "failed", "pending"])
    assert task.variables["_workflow.result.b"] == {"error": "no route"}
    assert "_workflow.result.c" not in task.variables
    assert pause_of(task) == run.pause.to_json()
    assert host.calls == ["call make {'id': '7'}", "call change {'it': {'from': 'make'}}"]


def test_a_step_that_is_blocked_stays_pending_and_is_not_called(store: DynamoDBTaskStore) -> None:
    mismatch = Mismatch(("x",), (InvalidField("y", "bad"),))
    host = ScriptedHost(mismatches={"change": mismatch})

    run = Engine(host, store).start(THREE, INVOCATION)

    assert run.pause == SchemaMismatch("b", ("x",), (InvalidField("y", "bad"),), "change")
    assert statuses(stored(store, run)) == ["completed", "pending", "pending"]
    assert len(host.calls) == 1
    assert [trace.step.name for trace in run.traces] == ["a"]


@pytest.mark.parametrize("starts", [0, 1, 2])
def test_too_little_time_blocks_the_next_step_unannounced_and_unread(store: DynamoDBTaskStore, starts: int) -> None:
    host = ScriptedHost(starts=starts, resources={"docs://x": "x"})
    steps = [dataclasses.replace(step, resources=["docs://x"]) for step in THREE.steps]

    run = Engine(host, store).start(workflow(*steps), INVOCATION)

    blocked = THREE.steps[starts]
    late = DeadlineExceeded(blocked.name, blocked.tool or "")
    assert (run.pause, run.blocked) == (late, None)
    assert pause_of(stored(store, run)) == late.to_json()
    assert [entry.split()[0] for entry in host.log] == ["announce", "read", "call"] * starts


def test_a_resource_only_step_completes_with_null_and_what_it_fetched(store: DynamoDBTaskStore) -> None:
    host = ScriptedHost(resources={"docs://7": "seven", "docs://b": "b"})

    run = Engine(host, store).start(workflow(Step("r", resources=["docs://{id}", "docs://b"])), INVOCATION)

    task = stored(store, run)
    assert run.traces[0].resources == (text_at("docs://7", "seven"), text_at("docs://b", "b"))
    assert task.variables["_workflow.result.r"] is None
    assert statuses(task) == ["completed"]


@pytest.mark.parametrize(
    ("arguments", "locator", "producer", "reason"),
    [
        pytest.param({"it": step_output("a", "gone")}, "docs://2", COMPLETED, UnresolvableParams, id="a path"),
        pytest.param({"it": step_output("a")}, "docs://2", SKIPPED, UnresolvedDependency, id="a producer"),
        pytest.param({}, "docs://2", COMPLETED, SchemaMismatch, id="the schema"),
        pytest.param({}, "docs://{amount}", COMPLETED, UnresolvableParams, id="another resource"),
    ],
)
def test_the_resources_of_a_step_that_is_blocked_are_fetched_all_the_same(
    store: DynamoDBTaskStore, arguments: dict[str, Source], locator: str, producer: StepStatus, reason: type
) -> None:
    host = ScriptedHost(
        resources={"docs://1": "one", "docs://2": "two", "docs://3": "three"}, mismatches={"change": Mismatch(("x",))}
    )
    step = Step("b", tool="change", arguments=arguments, resources=["docs://1", locator, "docs://3"])
    definition = workflow(Step("a", tool="make"), step)
    task = with_status(paused(store, host, definition), 0, producer, definition)

    run = Engine(host, store).resume(definition, INVOCATION, task)

    assert isinstance(run.pause, reason)
    assert host.calls == []
    read = [uri for uri in step.resources if uri in host.resources]
    assert run.blocked == Blocked(step, tuple(text_at(uri, host.resources[uri]) for uri in read), frozenset(read))
    assert [trace.step.name for trace in run.traces if not trace.replayed] == []


@pytest.mark.parametrize("tool", [None, "make"])
@pytest.mark.parametrize("error", [ResourceUnavailable("gone"), RuntimeError("secret detail")])
def test_a_resource_that_cannot_be_fetched_fails_its_step_which_keeps_what_was_fetched_before(
    store: DynamoDBTaskStore, monkeypatch: pytest.MonkeyPatch, tool: str | None, error: Exception
) -> None:
    host = ScriptedHost(resources={"docs://1": "one"})
    original = host.read

    def read(uri: str) -> Sequence[FetchedResource]:
        if uri != "docs://1":
            raise error
        return original(uri)

    monkeypatch.setattr(host, "read", read)

    run = Engine(host, store).start(
        workflow(Step("a", tool=tool, resources=["docs://1", "docs://2", "docs://3"])), INVOCATION
    )

    assert isinstance(run.pause, StepFailed)
    assert (run.pause.step, run.pause.suggested_tool, run.pause.retryable) == ("a", tool or "", False)
    assert ("gone" in run.pause.error, "secret" in run.pause.error) == (isinstance(error, ResourceUnavailable), False)
    assert (statuses(stored(store, run)), host.calls) == (["failed"], [])
    assert run.traces[0].resources == (text_at("docs://1", "one"),)
    assert run.read == {"docs://1"}


OWN_OUTPUT = workflow(
    Step(
        "a",
        tool="make",
        resources=["docs://{t}", "docs://1"],
        template_bindings={"t": step_output("a", "from")},
    ),
    Step("b", tool="change"),
)


def test_a_resource_that_needs_the_steps_own_output_is_fetched_after_its_tool(store: DynamoDBTaskStore) -> None:
    host = ScriptedHost(resources={"docs://1": "one", "docs://make": "made"})

    run = Engine(host, store).start(OWN_OUTPUT, INVOCATION)

    assert host.log == [
        "announce 1/2 a",
        "read docs://1",
        "call make {}",
        "read docs://make",
        "announce 2/2 b",
        "call change {}",
    ]
    assert run.traces[0].after == (text_at("docs://make", "made"),)


@pytest.mark.parametrize(
    ("output", "unread"),
    [
        ({"from": "x"}, UnreadResource("docs://x", "there is no resource docs://x")),
        ({}, UnreadResource("docs://<field 'from' from make>", "a value in its URI is not known")),
    ],
)
def test_a_resource_that_cannot_be_fetched_after_its_tool_does_not_undo_the_call(
    store: DynamoDBTaskStore, output: Json, unread: UnreadResource
) -> None:
    host = ScriptedHost({"make": give(output)}, resources={"docs://1": "one"})

    run = Engine(host, store).start(OWN_OUTPUT, INVOCATION)

    assert (run.pause, run.traces[0].after) == (None, (unread,))
    assert stored(store, run).status is TaskStatus.COMPLETED


READ_FIRST = workflow(Step("r", resources=["docs://{id}", "docs://b"]), Step("b", tool="change"))


def test_a_resume_fetches_the_resources_of_resource_only_steps_again(store: DynamoDBTaskStore) -> None:
    host = ScriptedHost({"change": fail("no")}, resources={"docs://7": "seven", "docs://b": "b"})
    task = paused(store, host, READ_FIRST)
    host.resources = {"docs://b": "b, changed"}

    run = Engine(host, store).resume(READ_FIRST, INVOCATION, task)

    assert (run.pause, run.traces[0].replayed) == (None, True)
    assert run.traces[0].resources == (
        UnreadResource("docs://7", "there is no resource docs://7"),
        text_at("docs://b", "b, changed"),
    )


def test_a_resume_without_time_fetches_nothing_again(store: DynamoDBTaskStore) -> None:
    host = ScriptedHost({"change": fail("no")}, resources={"docs://7": "seven", "docs://b": "b"})
    task = paused(store, host, READ_FIRST)
    host.starts = 0

    run = Engine(host, store).resume(READ_FIRST, INVOCATION, task)

    assert run.pause == DeadlineExceeded("b", "change")
    assert host.log == []
    assert run.traces[0].resources == tuple(
        UnreadResource(uri, "too little time is left") for uri in ("docs://7", "docs://b")
    )


def test_a_tool_that_wants_to_be_called_by_itself_is_told_apart(store: DynamoDBTaskStore) -> None:
    run = Engine(ScriptedHost({"make": lambda *_: Failed("ask", asks_client=True)}), store).start(THREE, INVOCATION)

    assert run.pause == StepFailed("a", "ask", True, "make", asks_client=True)


def test_a_checkpoint_is_written_right_after_its_step_and_the_rest_at_the_end(store: DynamoDBTaskStore) -> None:
    host = ScriptedHost({"finish": fail("no")})
    recording = RecordingStore(store, host)
    steps = workflow(
        Step("a", tool="make"), Step("b", tool="change", checkpoint=True), Step("c", tool="finish", checkpoint=True)
    )

    run = Engine(host, recording).start(steps, INVOCATION)

    verbs = [entry for entry in host.log if not entry.startswith("announce")]
    assert verbs == ["create", "call make {}", "call change {}", "write", "call finish {}", "write"]
    assert [[write.name for write in batch.steps] for batch in recording.batches] == [["a", "b"], ["c"]]
    assert statuses(stored(store, run)) == ["completed", "completed", "failed"]


def test_a_checkpoint_that_was_lost_is_written_with_the_rest(store: DynamoDBTaskStore) -> None:
    host = ScriptedHost()
    recording = RecordingStore(store, host, {2: StoreUnavailable("down")})

    run = Engine(host, recording).start(
        workflow(Step("a", tool="make", checkpoint=True), Step("b", tool="b")), INVOCATION
    )

    assert (run.persisted, stored(store, run).status) == (True, TaskStatus.COMPLETED)
    assert [[write.name for write in batch.steps] for batch in recording.batches] == [["a"], ["a", "b"]]


UNKNOWN = OutcomeUnknown("no answer came")


@pytest.mark.parametrize(("result", "persisted"), [("mine", True), ("theirs", "unknown")])
def test_what_may_have_been_written_stays_unknown_to_the_end_where_another_result_stands(
    store: DynamoDBTaskStore, result: str, persisted: Persisted
) -> None:
    """The later writes succeed: they say nothing about the one whose answer was lost."""

    def completed_meanwhile(_arguments: JsonObject, _variables: TaskVariables | None) -> Outcome:
        task = store.get(OWNER, recording.created[0].task_id)
        store.write(task, called(task, "make", Succeeded(result)))
        return Succeeded(None)

    host = ScriptedHost({"make": give("mine"), "change": completed_meanwhile})
    recording = RecordingStore(store, host, {2: UNKNOWN})
    steps = workflow(
        Step("a", tool="make", checkpoint=True), Step("b", tool="change", checkpoint=True), Step("c", tool="finish")
    )

    run = Engine(host, recording).start(steps, INVOCATION)

    task = stored(store, run)
    assert (run.persisted, run.stored, run.stop, task.status) == (persisted, True, None, TaskStatus.COMPLETED)
    assert task.variables["_workflow.result.a"] == result


def test_what_is_written_again_is_known_to_be_written_though_it_gave_way_to_its_size(
    store: DynamoDBTaskStore,
) -> None:
    host = ScriptedHost({"a": give({"from": noise(6_500_000)})})
    recording = RecordingStore(store, host, {2: UNKNOWN})
    steps = workflow(*(Step(name, tool=name, checkpoint=True) for name in "abc"))

    run = Engine(host, recording).start(steps, INVOCATION)

    assert [[write.name for write in batch.steps] for batch in recording.batches] == [["a"], ["a", "b"], ["c"], []]
    assert (run.persisted, run.oversized) == (True, ("_workflow.result.a",))


@pytest.mark.parametrize(
    ("last", "lost", "persisted"),
    [("a", {2: UNKNOWN}, "unknown"), ("b", {2: UNKNOWN, 3: StoreUnavailable("down")}, False)],
)
def test_of_a_task_that_was_cancelled_it_is_unknown_what_may_have_been_written(
    store: DynamoDBTaskStore, last: str, lost: dict[int, Exception], persisted: Persisted
) -> None:
    def cancelled(_arguments: JsonObject, _variables: TaskVariables | None) -> Outcome:
        store.cancel(OWNER, recording.created[0].task_id)
        clock.s += 2
        return Succeeded(None)

    clock = Clock()
    host = ScriptedHost({last: cancelled})
    recording = RecordingStore(store, host, lost)
    steps = workflow(*(Step(name, tool=name, checkpoint=True) for name in "abc"))

    run = Engine(host, recording, clock).start(steps, INVOCATION)

    assert (run.persisted, run.stop) == (persisted, TaskOver(TaskStatus.CANCELLED))


@pytest.mark.parametrize(
    ("since", "stop"),
    [
        ({"claim": Claim("other", 9_999_999_999_999, 2)}, Superseded()),
        ({"status": TaskStatus.CANCELLED}, TaskOver(TaskStatus.CANCELLED)),
    ],
    ids=["taken over", "cancelled"],
)
def test_a_run_that_hears_late_of_its_checkpoint_begins_nothing_in_a_task_that_is_not_its_own_any_more(
    store: DynamoDBTaskStore, monkeypatch: pytest.MonkeyPatch, since: dict[str, Any], stop: Over
) -> None:
    host = ScriptedHost()
    recording = RecordingStore(store, host)
    write = recording.write

    def late(task: TaskRecord, batch: Batch) -> Written:
        return Written(replace(write(task, batch).task, **since))

    monkeypatch.setattr(recording, "write", late)
    run = Engine(host, recording).start(CHECKED, INVOCATION)

    assert (run.stop, run.persisted) == (stop, True)
    assert verbs(host) == ["create", "call", "write"]


@pytest.mark.parametrize("kept", [True, False])
def test_a_run_that_ends_in_a_task_that_is_not_its_own_any_more_says_whether_all_it_did_was_kept(
    store: DynamoDBTaskStore, kept: bool
) -> None:
    """Its checkpoint was written; for another step there was no time."""
    others = store.create(NewTask(OWNER, {}))
    host = ScriptedHost(starts=1 if kept else 2)

    run = Engine(host, RecordingStore(store, host, {3: ClaimLost(others)})).start(CHECKED, INVOCATION)

    assert (run.stop, run.persisted) == (Superseded(), kept)


def test_what_a_checkpoint_has_written_is_not_written_again(store: DynamoDBTaskStore) -> None:
    """A continuation may have changed the variable by the time of the next write."""
    recording: RecordingStore

    def set_color(_arguments: JsonObject, variables: TaskVariables | None) -> Outcome:
        assert variables is not None
        variables["color"] = "red"
        return Succeeded(None)

    def change_meanwhile(_arguments: JsonObject, variables: TaskVariables | None) -> Outcome:
        assert variables is not None
        assert variables["color"] == "red"
        store.write(store.get(OWNER, recording.created[0].task_id), Batch(variables={"color": "blue"}))
        return Succeeded(None)

    host = ScriptedHost({"set": set_color, "meanwhile": change_meanwhile})
    recording = RecordingStore(store, host)
    steps = workflow(Step("a", tool="set", checkpoint=True), Step("b", tool="meanwhile"))

    run = Engine(host, recording).start(steps, INVOCATION)

    assert run.persisted
    assert stored(store, run).variables["color"] == "blue"


BROKEN = [RuntimeError("secret detail"), KeyError("x"), ResourceUnavailable("odd"), RecursionError()]


@pytest.mark.parametrize("error", BROKEN, ids=repr)
@pytest.mark.parametrize("where", ["announce", "prepare", "run", "read"])
def test_a_fault_of_batons_own_leaves_a_reason_and_the_batch_is_written(
    store: DynamoDBTaskStore, monkeypatch: pytest.MonkeyPatch, where: str, error: Exception
) -> None:
    def broken(*arguments: object) -> Any:
        if where == "announce" and arguments[0] == 1:
            return None
        raise error

    host = ScriptedHost(resources={"docs://x": "x"})
    steps = workflow(Step("a", resources=["docs://x"]), Step("b", tool="make", resources=["docs://y"]))
    if where != "read":
        host.resources["docs://y"] = "y"
        monkeypatch.setattr(host, where, broken)
    else:
        original = host.read
        monkeypatch.setattr(host, "read", lambda uri: original(uri) if uri == "docs://x" else broken())

    run = Engine(host, store).start(steps, INVOCATION)

    task = stored(store, run)
    assert isinstance(run.pause, StepFailed)
    assert (run.pause.step, "secret" in run.pause.error) == ("b", False)
    assert statuses(task) == ["completed", "failed"]
    assert pause_of(task) == run.pause.to_json()


@pytest.mark.parametrize("error", [StoreUnavailable("down"), StoreError("full")])
def test_a_store_that_takes_no_task_costs_the_task_and_nothing_else(
    store: DynamoDBTaskStore, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    host = ScriptedHost()
    recording = RecordingStore(store, host, {1: error})

    with caplog.at_level(logging.ERROR):
        run = Engine(host, recording).start(THREE, INVOCATION)

    assert (run.task, run.pause, len(host.calls), recording.requests) == (None, None, 3, 1)
    assert [record.levelname for record in caplog.records] == ["ERROR"]


@pytest.mark.parametrize("error", [StoreUnavailable("down"), StoreError("full")])
def test_a_batch_that_cannot_be_written_costs_durability_and_never_the_reply(
    store: DynamoDBTaskStore, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    host = ScriptedHost({"finish": fail("no")})

    with caplog.at_level(logging.ERROR):
        run = Engine(host, RecordingStore(store, host, {2: error})).start(THREE, INVOCATION)

    task = stored(store, run)
    assert (run.persisted, list(run.statuses.values())) == (False, [COMPLETED, COMPLETED, FAILED])
    assert run.pause == StepFailed("c", "no", False, "finish")
    assert (task.status, statuses(task)) == (TaskStatus.WORKING, ["pending"] * 3)
    assert [record.levelname for record in caplog.records] == ["ERROR"]


@pytest.mark.parametrize(
    ("definition", "owner", "has_store"),
    [(workflow(*THREE.steps, durable=False), OWNER, True), (THREE, None, True), (THREE, OWNER, False)],
    ids=["a plain workflow", "a caller without an identity", "no store"],
)
def test_without_a_task_the_steps_run_all_the_same(
    store: DynamoDBTaskStore, definition: Workflow, owner: str | None, has_store: bool
) -> None:
    seen: list[TaskVariables | None] = []

    def watch(_arguments: JsonObject, variables: TaskVariables | None) -> Outcome:
        seen.append(variables)
        return Succeeded({"from": "x"})

    host = ScriptedHost({"make": watch})
    recording = RecordingStore(store, host)

    run = Engine(host, recording if has_store else None).start(definition, Invocation({"id": "7"}, {"id": "7"}, owner))

    assert (run.task, run.pause, run.persisted) == (None, None, True)
    assert (recording.requests, len(host.calls), seen) == (0, 3, [None])


def test_what_a_tool_sets_is_seen_by_later_steps_and_written_with_the_batch(store: DynamoDBTaskStore) -> None:
    def remember(_arguments: JsonObject, variables: TaskVariables | None) -> Outcome:
        assert variables is not None
        variables["seen"] = {"count": 1}
        return Succeeded(None)

    host = ScriptedHost({"make": remember})
    steps = workflow(Step("a", tool="make"), Step("b", tool="b", arguments={"n": task_variable("seen", "count")}))

    run = Engine(host, store).start(steps, INVOCATION)

    assert host.calls[1] == "call b {'n': 1}"
    assert stored(store, run).variables["seen"] == {"count": 1}
    assert run.known.variables["seen"] == {"count": 1}


def test_a_tool_that_changes_its_arguments_changes_no_result(store: DynamoDBTaskStore) -> None:
    def spoil(arguments: JsonObject, _variables: TaskVariables | None) -> Outcome:
        spoilt: Any = arguments["it"]
        spoilt["from"] = "spoilt"
        return Succeeded({"from": "b"})

    run = Engine(ScriptedHost({"change": spoil}), store).start(THREE, INVOCATION)

    assert stored(store, run).variables["_workflow.result.a"] == {"from": "make"}


def test_one_large_result_costs_neither_the_others_nor_the_progress(store: DynamoDBTaskStore) -> None:
    host = ScriptedHost({"make": give({"from": noise(6_500_000)}), "change": give({"from": "small"})})

    run = Engine(host, store).start(THREE, INVOCATION)

    task = stored(store, run)
    assert run.oversized == ("_workflow.result.a",)
    assert (run.persisted, task.status) == (True, TaskStatus.COMPLETED)
    with pytest.raises(ValueNotKept, match="exceeds the task's size limit"):
        task.variables["_workflow.result.a"]
    assert task.variables["_workflow.result.b"] == {"from": "small"}
    assert host.calls[2] == "call finish {'it': 'small'}"


def paused(store: DynamoDBTaskStore, host: ScriptedHost, definition: Workflow = THREE) -> TaskRecord:
    """A task that has paused, as a resume has taken it."""
    engine = Engine(host, store)
    run = engine.start(definition, INVOCATION)
    assert run.pause
    assert run.task
    taken = engine.take(definition, OWNER, run.task.task_id)
    host.log.clear()
    host.tools.clear()
    host.starts = 1000
    return taken


def test_a_resume_runs_what_is_left_and_binds_what_is_stored(store: DynamoDBTaskStore) -> None:
    host = ScriptedHost({"make": give({"x": 2**60}), "change": fail("no")})
    task = paused(store, host)
    Engine(host, store).give_back(task)
    engine = Engine(host, RecordingStore(store, host))

    run = engine.resume(THREE, INVOCATION, engine.take(THREE, OWNER, task.task_id))

    assert host.log == [
        "take",
        "announce 2/3 b",
        f"call change {{'it': {{'x': {2**60}}}}}",
        "announce 3/3 c",
        "call finish {'it': 'change'}",
        "write",
    ]
    after = stored(store, run)
    assert (after.status, after.result) == (TaskStatus.COMPLETED, {"completed": True, "steps_completed": 3})
    assert pause_of(after) is None


def test_a_resume_shows_completed_steps_with_their_arguments_and_stored_results(store: DynamoDBTaskStore) -> None:
    host = ScriptedHost({"finish": fail("no")})
    task = paused(store, host)
    host.tools["finish"] = fail("again")

    run = Engine(host, store).resume(THREE, INVOCATION, task)

    assert [(trace.step.name, trace.replayed, trace.arguments) for trace in run.traces] == [
        ("a", True, {"id": "7"}),
        ("b", True, {"it": {"from": "make"}}),
        ("c", False, {"it": "change"}),
    ]
    assert [trace.outcome for trace in run.traces] == [
        Succeeded({"from": "make"}),
        Succeeded({"from": "change"}),
        Failed("again"),
    ]
    assert pause_of(stored(store, run)) == StepFailed("c", "again", False, "finish").to_json()


def test_a_resume_keeps_to_the_plans_order_when_a_later_step_was_completed_by_a_call(store: DynamoDBTaskStore) -> None:
    host = ScriptedHost({"change": fail("no")})
    task = paused(store, host)
    task = store.write(task, called(task, "finish", Succeeded("done"))).task

    run = Engine(host, store).resume(THREE, INVOCATION, task)

    assert host.calls == ["call change {'it': {'from': 'make'}}"]
    assert [trace.step.name for trace in run.traces] == ["a", "b", "c"]
    assert stored(store, run).status is TaskStatus.COMPLETED


def test_a_resume_of_a_task_with_every_step_completed_completes_it(store: DynamoDBTaskStore) -> None:
    host = ScriptedHost({"finish": fail("no")})
    task = paused(store, host)
    task = store.write(task, called(task, "finish", Succeeded(1))).task
    assert task.status is TaskStatus.WORKING

    run = Engine(host, store).resume(THREE, INVOCATION, task)

    assert (host.calls, run.pause, stored(store, run).status) == ([], None, TaskStatus.COMPLETED)


def called(task: TaskRecord, tool: str, outcome: Outcome, arguments: JsonObject | None = None) -> Batch:
    """What a continuation of a task of `THREE` writes."""
    return continuation_batch(plan_of(task, THREE), ContinuationCall(tool, arguments or {}), outcome, TaskVariables({}))


def with_status(task: TaskRecord, index: int, status: StepStatus, definition: Workflow = THREE) -> TaskRecord:
    """The task as it would be read if one of its steps had another status."""
    changed = [StepStatus(step["status"]) for step in steps_of(task)]
    changed[index] = status
    variables: dict[str, Any] = {**task.variables, "_workflow.progress": definition.progress(changed)}
    return dataclasses.replace(task, variables=variables)


def test_a_dependency_on_a_result_that_was_not_kept_is_unresolved(store: DynamoDBTaskStore) -> None:
    host = ScriptedHost({"make": give({"from": noise(6_500_000)}), "change": fail("no")})
    task = paused(store, host)

    run = Engine(host, store).resume(THREE, INVOCATION, task)

    lost = "result of 6500011 bytes exceeds the task's size limit"
    assert run.pause == UnresolvedDependency("b", "a", "a", "change", lost)
    assert pause_of(stored(store, run)) == run.pause.to_json()


def test_a_call_that_came_between_keeps_its_completed_step(store: DynamoDBTaskStore) -> None:
    def overtaken(_arguments: JsonObject, _variables: TaskVariables | None) -> Outcome:
        task = store.get(OWNER, recording.created[0].task_id)
        store.write(task, called(task, "change", Succeeded("theirs")))
        return Failed("ours")

    host = ScriptedHost({"change": overtaken})
    recording = RecordingStore(store, host)

    run = Engine(host, recording).start(THREE, INVOCATION)

    task = stored(store, run)
    assert statuses(task) == ["completed", "completed", "pending"]
    assert task.variables["_workflow.result.b"] == "theirs"
    assert pause_of(task) is None
    assert run.persisted
    assert len(recording.batches) == 2


def test_a_run_that_has_ended_renews_its_claim_no_more(
    store: DynamoDBTaskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = ScriptedHost()
    recording = RecordingStore(store, host)
    Engine(host, recording).start(THREE, INVOCATION)
    asked = recording.requests
    monkeypatch.setattr(recording, "now_ms", lambda: store.now_ms() + LEASE_MS)
    assert host.pulse() == RENEW_MS / 1000
    assert recording.requests == asked


def test_a_task_that_was_cancelled_meanwhile_stays_cancelled(store: DynamoDBTaskStore) -> None:
    def cancelled(_arguments: JsonObject, _variables: TaskVariables | None) -> Outcome:
        store.cancel(OWNER, recording.created[0].task_id)
        return Succeeded({"from": "x"})

    host = ScriptedHost({"make": cancelled})

    recording = RecordingStore(store, host)

    run = Engine(host, recording).start(THREE, INVOCATION)

    assert (run.persisted, run.stop) == (False, TaskOver(TaskStatus.CANCELLED))
    assert run.task is not None
    assert run.task.status is TaskStatus.CANCELLED
    assert statuses(stored(store, run)) == ["pending"] * 3


@dataclass
class Clock:
    """Seconds; stands still until a tool takes its time."""

    s: float = 50.0

    def __call__(self) -> float:
        return self.s

    def passing(self, seconds: float) -> Behaviour:
        """A tool that takes so long."""

        def work(_arguments: JsonObject, _variables: TaskVariables | None) -> Outcome:
            self.s += seconds
            return Succeeded({"from": "it"})

        return work


def verbs(host: ScriptedHost) -> list[str]:
    return [entry.split()[0] for entry in host.log if not entry.startswith("announce")]


@pytest.mark.parametrize(
    ("first_s", "second_s", "looks"),
    [(1.9, 0.0, []), (2.0, 0.0, ["b"]), (1.0, 1.0, ["c"]), (2.0, 1.9, ["b"]), (2.0, 2.0, ["b", "c"])],
)
def test_a_run_looks_at_its_task_when_it_has_not_heard_of_it_for_two_seconds(
    store: DynamoDBTaskStore, first_s: float, second_s: float, looks: list[str]
) -> None:
    clock = Clock()
    host = ScriptedHost({"make": clock.passing(first_s), "change": clock.passing(second_s)})

    run = Engine(host, RecordingStore(store, host), clock).start(THREE, INVOCATION)

    seen = [host.log[place + 1].split()[-1] for place, entry in enumerate(host.log) if entry == "read_status"]
    assert (seen, run.stop, run.persisted) == (looks, None, True)


def test_a_checkpoint_tells_that_the_task_is_live_and_renews_the_claim(
    store: DynamoDBTaskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    host = ScriptedHost({"make": clock.passing(5)})
    monkeypatch.setattr(RecordingStore, "now_ms", lambda _store: round(clock() * 1000))
    recording = RecordingStore(store, host)
    steps = workflow(Step("a", tool="make", checkpoint=True), Step("b", tool="change"))

    Engine(host, recording, clock).start(steps, INVOCATION)

    assert verbs(host) == ["create", "call", "write", "call", "write"]
    taken, (renewed, last) = recording.created[0].claim, recording.batches
    assert taken is not None
    assert renewed.claim == replace(taken, until_ms=taken.until_ms + 5_000)
    assert (renewed.release, last.release) == (False, True)


def test_a_run_whose_claim_may_end_and_cannot_be_renewed_begins_no_further_step(
    store: DynamoDBTaskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    host = ScriptedHost({"make": clock.passing(LEASE_MS / 1000 - 4)})
    monkeypatch.setattr(RecordingStore, "now_ms", lambda _store: store.now_ms() + round(clock() * 1000))

    run = Engine(host, RecordingStore(store, host, {2: StoreUnavailable("down")}), clock).start(THREE, INVOCATION)

    assert verbs(host) == ["create", "call", "renew", "write"]
    assert (run.pause, run.persisted) == (DeadlineExceeded("b", "change"), True)


def test_a_run_that_has_no_time_for_another_step_does_not_look(store: DynamoDBTaskStore) -> None:
    clock = Clock()
    host = ScriptedHost({"make": clock.passing(3)}, starts=1)

    Engine(host, RecordingStore(store, host), clock).start(THREE, INVOCATION)

    assert verbs(host) == ["create", "call", "write"]


def test_deeply_nested_values_bind_and_are_kept(store: DynamoDBTaskStore) -> None:
    value: Json = "leaf"
    for _ in range(400):
        value = {"in": [value]}

    run = Engine(ScriptedHost({"make": give(value)}), store).start(THREE, INVOCATION)

    assert run.pause is None
    assert stored(store, run).variables["_workflow.result.a"] == value
