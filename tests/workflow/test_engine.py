"""The engine runs steps in order, writes their results and always gives a reason when it stops.

The host is scripted. The store is the real one over an in-memory DynamoDB, with injected faults.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from msgspec import structs

from mcp_baton import Fetch, ToolStep
from mcp_baton.exceptions import OutcomeUnknown, StoreUnavailable
from mcp_baton.protocol.json import Json, JsonObject
from mcp_baton.stores import DynamoDBStore
from mcp_baton.tasks.dynamodb.table import LazyClient, TaskTable
from mcp_baton.tasks.record import (
    LEASE_MS,
    RENEW_MS,
    Claim,
    StepStatus,
    TaskRecord,
    TaskStatus,
    pauses_of,
    steps_of,
)
from mcp_baton.tasks.store import Batch, TaskStore
from mcp_baton.tasks.variables import TaskVariables
from mcp_baton.testing.store import TABLE
from mcp_baton.tools.arguments import Argument
from mcp_baton.tools.content import ResourceContent
from mcp_baton.tools.outcomes import Failed, Mismatch, Outcome, ResourceUnavailable, Succeeded
from mcp_baton.workflow.continuation import ContinuationCall, MadeCall, matching_step
from mcp_baton.workflow.definition import Workflow
from mcp_baton.workflow.ended_run import EndedRun, Persisted
from mcp_baton.workflow.lease import Over, Superseded, TaskOver
from mcp_baton.workflow.pause import (
    DeadlineExceeded,
    SchemaMismatch,
    StepFailed,
    UnresolvableParams,
    UnresolvedDependency,
)
from mcp_baton.workflow.resolve import KnownValues
from mcp_baton.workflow.run import WorkflowRun
from mcp_baton.workflow.run_task import new_task, take_task
from mcp_baton.workflow.sources import Source, prompt_arg, step_output
from mcp_baton.workflow.step_run import UnreadResource
from mcp_baton.workflow.steps.step import Step
from tests.fakes import Behaviour, RecordingStore, ScriptedHost, plan_of
from tests.memory_dynamodb import memory_database

PENDING, COMPLETED, FAILED, SKIPPED = StepStatus
OWNER = "kim"


@pytest.fixture(scope="module")
def client() -> Any:
    return memory_database()


@pytest.fixture
def store(client: Any) -> DynamoDBStore:
    return DynamoDBStore(TaskTable(TABLE, LazyClient(lambda: client)))


def workflow(*steps: Step, durable: bool = True) -> Workflow:
    return Workflow(
        name="w",
        description="do it",
        arguments=[Argument("id"), Argument("amount", type=float)],
        steps=steps,
        durable=durable,
    )


THREE = workflow(
    ToolStep("a", tool="make", arguments={"id": prompt_arg("id")}),
    ToolStep("b", tool="change", arguments={"it": step_output("a")}),
    ToolStep("c", tool="finish", arguments={"it": step_output("b", "from")}),
)
CHECKED = workflow(*(step.replace(checkpoint=step.name == "a") for step in THREE.steps))


def known(definition: Workflow) -> KnownValues:
    return KnownValues.before_run(definition, {"id": "7"}, {"id": "7"})


def start(host: ScriptedHost, store: TaskStore, definition: Workflow, **options: Any) -> EndedRun:
    values = known(definition)
    return WorkflowRun(host, store, values, **options).start(new_task(values, OWNER))


def fail(error: str) -> Behaviour:
    return lambda _arguments, _variables: Failed(error)


def give(value: Json) -> Behaviour:
    return lambda _arguments, _variables: Succeeded(value)


def text_at(uri: str, text: str) -> ResourceContent:
    return ResourceContent(uri, text, "text/plain")


def stored_task(store: TaskStore, run: EndedRun) -> TaskRecord:
    assert run.task is not None
    return store.get(OWNER, run.task.task_id)


def statuses(task: TaskRecord) -> list[str]:
    return [step["status"] for step in steps_of(task)]


@pytest.mark.parametrize(
    ("arguments", "locator", "producer", "reason"),
    [
        pytest.param({"it": step_output("a", "gone")}, "docs://2", COMPLETED, UnresolvableParams, id="a path"),
        pytest.param({"it": step_output("a")}, "docs://2", SKIPPED, UnresolvedDependency, id="a producer"),
        pytest.param({}, "docs://2", COMPLETED, SchemaMismatch, id="the schema"),
        pytest.param({}, "docs://{amount}", COMPLETED, UnresolvableParams, id="another resource"),
    ],
)
def test_the_resources_of_a_blocked_step_are_fetched(
    store: DynamoDBStore, arguments: dict[str, Source], locator: str, producer: StepStatus, reason: type
) -> None:
    host = ScriptedHost(
        resources={"docs://1": "one", "docs://2": "two", "docs://3": "three"}, mismatches={"change": Mismatch(("x",))}
    )
    step = ToolStep("b", tool="change", arguments=arguments, resources=["docs://1", locator, "docs://3"])
    definition = workflow(ToolStep("a", tool="make"), step)
    task = with_status(paused_task(store, host, definition), 0, producer, definition)

    run = WorkflowRun(host, store, known(definition)).resume(task)

    assert isinstance(run.pause, reason)
    assert host.calls == []
    uris = [uri for uri in step.resources if uri in host.resources]
    [blocked] = run.blocked
    assert blocked.resources == tuple(text_at(uri, host.resources[uri]) for uri in uris)
    assert blocked.read_resources == frozenset(uris)
    assert [trace.step.name for trace in run.traces if not trace.replayed] == []


@pytest.mark.parametrize("tool", [None, "make"])
@pytest.mark.parametrize("error", [ResourceUnavailable("gone"), RuntimeError("secret detail")])
def test_an_unreadable_resource_fails_its_step_but_earlier_resources_stay(
    store: DynamoDBStore, monkeypatch: pytest.MonkeyPatch, tool: str | None, error: Exception
) -> None:
    host = ScriptedHost(resources={"docs://1": "one"})
    original = host.read

    def failing_read(uri: str) -> Sequence[ResourceContent]:
        if uri != "docs://1":
            raise error
        return original(uri)

    monkeypatch.setattr(host, "read", failing_read)

    uris = ["docs://1", "docs://2", "docs://3"]
    step = Fetch("a", uris) if tool is None else ToolStep("a", tool=tool, resources=uris)

    run = start(host, store, workflow(step))

    assert isinstance(run.pause, StepFailed)
    assert (run.pause.step, run.pause.suggested_tool, run.pause.retryable) == ("a", tool or "", False)
    assert ("gone" in run.pause.error, "secret" in run.pause.error) == (isinstance(error, ResourceUnavailable), False)
    assert (statuses(stored_task(store, run)), host.calls) == (["failed"], [])
    assert run.traces[0].resources == (text_at("docs://1", "one"),)
    assert run.read_resources == {"a": frozenset({"docs://1"})}


OWN_OUTPUT = workflow(
    ToolStep("a", tool="make", resources=["docs://{t}", "docs://1"], template_bindings={"t": step_output("a", "from")}),
    ToolStep("b", tool="change"),
)


def test_a_resource_that_needs_the_tools_output_is_fetched_after_the_tool(store: DynamoDBStore) -> None:
    host = ScriptedHost(resources={"docs://1": "one", "docs://make": "made"})

    run = start(host, store, OWN_OUTPUT)

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
def test_an_unreadable_resource_after_the_tool_does_not_fail_the_step(
    store: DynamoDBStore, output: Json, unread: UnreadResource
) -> None:
    host = ScriptedHost({"make": give(output)}, resources={"docs://1": "one"})

    run = start(host, store, OWN_OUTPUT)

    assert (run.pause, run.traces[0].after) == (None, (unread,))
    assert stored_task(store, run).status is TaskStatus.COMPLETED


READ_FIRST = workflow(Fetch("r", resources=["docs://{id}", "docs://b"]), ToolStep("b", tool="change"))


def test_a_resume_without_time_fetches_nothing_again(store: DynamoDBStore) -> None:
    host = ScriptedHost({"change": fail("no")}, resources={"docs://7": "seven", "docs://b": "b"})
    task = paused_task(store, host, READ_FIRST)
    host.starts = 0

    run = WorkflowRun(host, store, known(READ_FIRST)).resume(task)

    assert run.pause == DeadlineExceeded("b", "change")
    assert host.log == []
    assert run.traces[0].resources == tuple(
        UnreadResource(uri, "too little time is left") for uri in ("docs://7", "docs://b")
    )


def test_a_failed_checkpoint_is_written_with_the_last_write(store: DynamoDBStore) -> None:
    host = ScriptedHost()
    recording = RecordingStore(store, host, {2: StoreUnavailable("down")})

    run = start(host, recording, workflow(ToolStep("a", tool="make", checkpoint=True), ToolStep("b", tool="b")))

    assert (run.persisted, stored_task(store, run).status) == (True, TaskStatus.COMPLETED)
    assert [[write.name for write in batch.steps] for batch in recording.batches] == [["a"], ["a", "b"]]


UNKNOWN = OutcomeUnknown("no answer came")


@pytest.mark.parametrize(("result", "persisted"), [("mine", True), ("theirs", "unknown")])
def test_an_uncertain_write_stays_unknown_if_the_task_has_another_result(
    store: DynamoDBStore, result: str, persisted: Persisted
) -> None:
    """The later writes succeed, but that does not tell whether the first one was made."""

    def complete_meanwhile(_arguments: JsonObject, _variables: TaskVariables | None) -> Outcome:
        task = store.get(OWNER, recording.created[0].task_id)
        store.write(task, continuation(task, "make", Succeeded(result)))
        return Succeeded(None)

    host = ScriptedHost({"make": give("mine"), "change": complete_meanwhile})
    recording = RecordingStore(store, host, {2: UNKNOWN})
    steps = workflow(
        ToolStep("a", tool="make", checkpoint=True),
        ToolStep("b", tool="change", checkpoint=True),
        ToolStep("c", tool="finish"),
    )

    run = start(host, recording, steps)

    task = stored_task(store, run)
    assert (run.persisted, run.stored, run.over, task.status) == (persisted, True, None, TaskStatus.COMPLETED)
    assert task.variables["_workflow.result.a"] == result


@pytest.mark.parametrize(
    ("changes", "stop"),
    [
        ({"claim": Claim("other", 9_999_999_999_999, 2)}, Superseded()),
        ({"status": TaskStatus.CANCELLED}, TaskOver(TaskStatus.CANCELLED)),
    ],
    ids=["taken over", "cancelled"],
)
def test_a_run_stops_if_a_late_checkpoint_response_shows_another_run(
    store: DynamoDBStore, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], stop: Over
) -> None:
    host = ScriptedHost()
    recording = RecordingStore(store, host)
    write = recording.write

    def write_late(task: TaskRecord, batch: Batch) -> TaskRecord:
        return structs.replace(write(task, batch), **changes)

    monkeypatch.setattr(recording, "write", write_late)
    run = start(host, recording, CHECKED)

    assert (run.over, run.persisted) == (stop, True)
    assert verbs(host) == ["create", "call", "write"]


def test_results_of_a_checkpoint_are_written_once(store: DynamoDBStore) -> None:
    """A continuation may change the variable before the next write."""
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
    steps = workflow(ToolStep("a", tool="set", checkpoint=True), ToolStep("b", tool="meanwhile"))

    run = start(host, recording, steps)

    assert run.persisted
    assert stored_task(store, run).variables["color"] == "blue"


BROKEN = [RuntimeError("secret detail"), KeyError("x"), ResourceUnavailable("odd"), RecursionError()]


@pytest.mark.parametrize("error", BROKEN, ids=repr)
@pytest.mark.parametrize("failing_method", ["announce", "prepare", "run", "read"])
def test_an_internal_error_becomes_a_pause_reason_and_results_are_written(
    store: DynamoDBStore, monkeypatch: pytest.MonkeyPatch, failing_method: str, error: Exception
) -> None:
    def raise_error(*arguments: object) -> Any:
        if failing_method == "announce" and arguments[0] == 1:
            return None
        raise error

    host = ScriptedHost(resources={"docs://x": "x"})
    steps = workflow(Fetch("a", resources=["docs://x"]), ToolStep("b", tool="make", resources=["docs://y"]))
    if failing_method != "read":
        host.resources["docs://y"] = "y"
        monkeypatch.setattr(host, failing_method, raise_error)
    else:
        original = host.read
        monkeypatch.setattr(host, "read", lambda uri: original(uri) if uri == "docs://x" else raise_error())

    run = start(host, store, steps)

    task = stored_task(store, run)
    assert isinstance(run.pause, StepFailed)
    assert (run.pause.step, "secret" in run.pause.error) == ("b", False)
    assert statuses(task) == ["completed", "failed"]
    assert pauses_of(task) == (run.pause.to_json(),)


def paused_task(store: DynamoDBStore, host: ScriptedHost, definition: Workflow = THREE) -> TaskRecord:
    """Return a paused task that a resume has claimed."""
    run = start(host, store, definition)
    assert run.pause
    assert run.task
    claimed_task = take_task(host, store, definition, OWNER, run.task.task_id)
    host.log.clear()
    host.tools.clear()
    host.starts = 1000
    return claimed_task


def continuation(task: TaskRecord, tool: str, outcome: Outcome, arguments: JsonObject | None = None) -> Batch:
    plan, call = plan_of(task, THREE), ContinuationCall(tool, arguments or {})
    return MadeCall(plan, call, outcome, TaskVariables({}), matching_step(plan, tool, call.arguments)).batch()


def with_status(task: TaskRecord, index: int, status: StepStatus, definition: Workflow = THREE) -> TaskRecord:
    step_statuses = [StepStatus(step["status"]) for step in steps_of(task)]
    step_statuses[index] = status
    variables: dict[str, Any] = {**task.variables, "_workflow.progress": definition.progress(step_statuses)}
    return structs.replace(task, variables=variables)


def test_a_run_that_has_ended_does_not_renew_its_claim(store: DynamoDBStore, monkeypatch: pytest.MonkeyPatch) -> None:
    host = ScriptedHost()
    recording = RecordingStore(store, host)
    start(host, recording, THREE)
    request_count = recording.requests
    monkeypatch.setattr(recording, "now_ms", lambda: store.now_ms() + LEASE_MS)
    assert host.lease is not None
    assert host.lease.pulse() == RENEW_MS / 1000
    assert recording.requests == request_count


@dataclass
class Clock:
    """A clock that only tools advance, seconds."""

    s: float = 50.0

    def __call__(self) -> float:
        return self.s

    def passing(self, seconds: float) -> Behaviour:
        """Return a tool that takes this long."""

        def work(_arguments: JsonObject, _variables: TaskVariables | None) -> Outcome:
            self.s += seconds
            return Succeeded({"from": "it"})

        return work


def verbs(host: ScriptedHost) -> list[str]:
    return [entry.split()[0] for entry in host.log if not entry.startswith("announce")]


def test_a_run_whose_claim_cannot_be_renewed_starts_no_further_step(
    store: DynamoDBStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    host = ScriptedHost({"make": clock.passing(LEASE_MS / 1000 - 4)})
    monkeypatch.setattr(RecordingStore, "now_ms", lambda _store: store.now_ms() + round(clock() * 1000))

    run = start(host, RecordingStore(store, host, {2: StoreUnavailable("down")}), THREE, clock=clock)

    assert verbs(host) == ["create", "call", "renew", "write"]
    assert (run.pause, run.persisted) == (DeadlineExceeded("b", "change"), True)
