"""Each request to the store fails in turn: no prompt and no tool call fails because of it (docs/workflows.md).

The faults are injected into botocore's client, which makes one attempt for each request, as in a deployment. So the
store's own retries are tested too. Its handling of each fault is tested in tests/store.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import pytest
from botocore.exceptions import EndpointConnectionError, ReadTimeoutError
from msgspec.structs import replace

from mcp_baton import Server, ToolStep, Workflow
from mcp_baton.aws import dynamodb_store
from mcp_baton.server.endpoint import Endpoint
from mcp_baton.server.methods import prompts
from mcp_baton.settings import Settings
from mcp_baton.telemetry import RECORDINGS_LOST, Collector
from mcp_baton.testing.store import refusal
from mcp_baton.transport.adapter import LambdaAdapter
from mcp_baton.workflow.ended_run import EndedRun
from mcp_baton.workflow.run import WorkflowRun
from mcp_baton.workflow.runs import answer_with_run
from tests.fakes import Pauses, services_of
from tests.support.client import Answer, Client, Script, Table
from tests.support.handler import MakeClient

type Kind = Literal["unreachable", "lost", "throttled", "broken"]
type Extent = Literal["once", "one call", "from then on"]

REFUSALS = {"throttled": "ProvisionedThroughputExceededException", "broken": "InternalServerError"}


def flow_server(script: Script) -> Server:
    """Return a server with a workflow of three steps that is written after the first step and at the end."""
    server = Server("s")

    @server.tool
    def first() -> int:
        return script.play("first", 1)

    @server.tool
    def second() -> int:
        return script.play("second", 2)

    @server.tool
    def third() -> int:
        return script.play("third", 3)

    steps = [
        ToolStep("one", tool="first", checkpoint=True),
        ToolStep("two", tool="second"),
        ToolStep("three", tool="third"),
    ]
    server.add_workflow(Workflow(name="flow", description="count", steps=steps))
    return server


@dataclass(slots=True)
class Fault:
    """Handlers of botocore's events that let requests fail.

    Attributes:
        call: The first call that fails, counted from 1.
        extent: What fails: the call's first attempt, all its attempts, or the call and all later calls.
    """

    call: int
    kind: Kind
    extent: Extent
    has_occurred: bool = False
    _calls: list[bytes] = field(default_factory=list)
    _losing: bool = False

    def before_call(self, params: dict[str, Any], **_: object) -> object:
        """Handle botocore's `before-call`. A return value replaces the server's response."""
        self._losing = False
        if not self._fails(params["body"]):
            return None
        self.has_occurred = True
        if self.kind == "unreachable":
            raise EndpointConnectionError(endpoint_url="")
        self._losing = self.kind == "lost"
        return None if self._losing else refusal(REFUSALS[self.kind])

    def after_call(self, **_: object) -> None:
        if self._losing:
            raise ReadTimeoutError(endpoint_url="")

    def _fails(self, body: bytes) -> bool:
        # The store retries a write unchanged, with the same token.
        is_retry = self._calls[-1:] == [body]
        if not is_retry:
            self._calls.append(body)
        number = len(self._calls)
        if self.extent == "from then on":
            return number >= self.call
        return number == self.call and not (is_retry and self.extent == "once")


@dataclass(frozen=True, slots=True)
class Flow:
    client: Client
    script: Script
    table: Table

    @contextmanager
    def broken_at(self, call: int, kind: Kind, extent: Extent = "one call") -> Iterator[None]:
        """Let a call to the table fail. Calls are counted from now."""
        fault, events = Fault(call, kind, extent), cast("Any", self.table.client.meta.events)
        events.register_last("before-call.dynamodb", fault.before_call)
        events.register_first("after-call.dynamodb", fault.after_call)
        try:
            yield
        finally:
            events.unregister("before-call.dynamodb", fault.before_call)
            events.unregister("after-call.dynamodb", fault.after_call)
        assert fault.has_occurred

    def run(self, error: str | None = None) -> tuple[Answer, list[str]]:
        """Run the workflow. Return the reply and the status that each step must have. With `error`, the last step
        fails."""
        self.script.errors = {"third": error} if error else {}
        answer = self.client.get_prompt("flow")
        assert self.script.take() == ["first", "second", "third"]
        texts = [text for _, text in answer.conversation]
        assert {"Result from first: 1", "Result from second: 2"} <= set(texts)
        if error:
            assert any(text.endswith("1. Call third with {}") for text in texts[-3:])
        else:
            assert "Result from third: 3" in texts[-3:]
        return answer, ["completed", "completed", "failed" if error else "completed"]

    def paused_task(self) -> str:
        self.script.errors = {"second": "no"}
        task = self.client.get_prompt("flow").task_id
        self.script.errors = {}
        self.script.take()
        return task

    def stored_statuses(self) -> tuple[str, list[str]]:
        [item] = self.table.items
        steps = item["variables"]["M"]["_workflow.progress"]["M"]["steps"]["L"]
        return item["status"]["S"], [step["M"]["status"]["S"] for step in steps]


@pytest.fixture
def flow(make_client: MakeClient, script: Script, table: Table) -> Flow:
    return Flow(make_client(flow_server(script)), script, table)


def reported_statuses(answer: Answer) -> tuple[str, list[str]]:
    return answer.meta["task_status"], answer.statuses


kinds = pytest.mark.parametrize("kind", ["unreachable", "lost", "throttled", "broken"])

UNKNOWN_KINDS = {"lost", "broken"}
"""The kinds of faults after which it is unknown whether a write was applied."""


def write_outcome(kind: Kind) -> bool | str:
    """Return the value of `persisted` or `recorded` after all attempts of a write failed in this way."""
    return "unknown" if kind in UNKNOWN_KINDS else False


@kinds
@pytest.mark.parametrize(
    ("call", "extent", "error"),
    [(1, "once", None), (2, "once", "no"), (3, "once", None), (3, "once", "no"), (2, "one call", None)],
)
def test_a_run_does_not_report_a_fault_that_a_retry_or_a_later_write_corrects(
    flow: Flow, kind: Kind, call: int, extent: Extent, error: str | None
) -> None:
    """If a checkpoint cannot be written, the next write includes it."""
    with flow.broken_at(call, kind, extent):
        answer, statuses = flow.run(error)
    assert "persisted" not in answer.meta
    assert reported_statuses(answer) == flow.stored_statuses() == ("working" if error else "completed", statuses)
    assert ("pause_reason" in answer.meta) is (error is not None)
    variables = flow.client.variables(answer.task_id)
    assert ("_workflow.pause_reason" in variables) is (error is not None)
    assert (variables["_workflow.result.one"], variables["_workflow.result.two"]) == (1, 2)


@pytest.mark.parametrize(
    ("kind", "extent", "error"),
    [("unreachable", "one call", None), ("unreachable", "from then on", "no"), ("broken", "one call", None)],
)
def test_a_run_continues_without_a_task_if_its_task_was_not_created(
    flow: Flow, kind: Kind, extent: Extent, error: str | None
) -> None:
    with flow.broken_at(1, kind, extent):
        answer, _ = flow.run(error)
    assert (answer.meta, flow.table.items) == ({}, [])


def test_a_run_is_refused_as_busy_before_anything_runs_if_its_creation_is_throttled(flow: Flow) -> None:
    with flow.broken_at(1, "throttled"):
        answer = flow.client.get_prompt("flow")
    assert answer.refusal == (200, -32603)
    assert answer.error["message"] == "busy; nothing was run"
    assert answer.error["data"]["retryAfterMs"] >= 1_000
    assert (flow.script.take(), flow.table.items) == ([], [])


def test_a_run_writes_to_its_task_even_if_the_outcome_of_its_creation_is_unknown(flow: Flow) -> None:
    with flow.broken_at(1, "lost"):
        answer, statuses = flow.run()
    assert "persisted" not in answer.meta
    assert reported_statuses(answer) == flow.stored_statuses() == ("completed", statuses)


@pytest.mark.parametrize("kind", sorted(UNKNOWN_KINDS))
def test_a_run_reports_that_it_does_not_know_the_state_of_its_task(flow: Flow, kind: Kind) -> None:
    """All responses are lost, from the task's creation on."""
    with flow.broken_at(1, kind, "from then on"):
        answer, statuses = flow.run()
    assert answer.meta["persisted"] == "unknown"
    assert answer.statuses == statuses
    hint = f'call flow with {{"task_id": "{answer.task_id}", "task_action": "show"}} to see what is recorded.'
    assert answer.conversation[-2][1].endswith(hint)
    assert len(flow.table.items) == (1 if kind == "lost" else 0)


@pytest.mark.parametrize(
    ("call", "lost_count"), [(2, 0), (3, 1)], ids=["a checkpoint that is written later", "the last write"]
)
def test_a_run_counts_as_lost_if_its_last_write_failed(flow: Flow, call: int, lost_count: int) -> None:
    collector, settings, pauses = Collector(), Settings(table=flow.table.name), Pauses()
    times: dict[str, Any] = {"monotonic": pauses.monotonic, "sleep": pauses.sleep}
    store = dynamodb_store(flow.table.name, settings, connect=lambda: flow.table.client, **times)
    endpoint = Endpoint(services_of(flow_server(flow.script), store, settings, telemetry=collector))
    with flow.broken_at(call, "unreachable"):
        Client(LambdaAdapter(endpoint, allow_anonymous=False, streaming=False)).get_prompt("flow")
    values = [entry.value for entry in collector.take().measurements if entry.metric is RECORDINGS_LOST]
    assert sum(values) == lost_count


def test_a_run_whose_last_write_succeeded_shows_the_stored_task_even_if_an_earlier_write_is_unknown(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsure(*arguments: Any) -> EndedRun:
        return replace(answer_with_run(*arguments), persisted="unknown")

    def complete_third() -> None:
        [item] = flow.table.items
        flow.client.call_tool("third", task=item["sk"]["S"].removeprefix("TASK#"))
        flow.script.errors = {"third": "no"}

    monkeypatch.setattr(prompts, "answer_with_run", unsure)
    flow.script.meanwhile["third"] = complete_third
    answer = flow.client.get_prompt("flow")
    assert answer.meta["persisted"] == "unknown"
    # The run goes on with the call that another client has recorded, and completes the task.
    assert reported_statuses(answer) == flow.stored_statuses() == ("completed", ["completed"] * 3)


@kinds
@pytest.mark.parametrize(
    ("call", "extent", "error"), [(2, "from then on", None), (3, "one call", None), (3, "one call", "no")]
)
def test_a_batch_that_cannot_be_written_is_shown_from_memory_as_not_recorded(
    flow: Flow, kind: Kind, call: int, extent: Extent, error: str | None
) -> None:
    with flow.broken_at(call, kind, extent):
        answer, statuses = flow.run(error)
    assert answer.meta["persisted"] == write_outcome(kind)
    assert reported_statuses(answer) == ("working", statuses)
    assert ("pause_reason" in answer.meta) is (error is not None)
    if kind != "lost":
        expected = ["completed", "pending", "pending"] if call == 3 else ["pending"] * 3
        assert flow.stored_statuses() == ("working", expected)
        assert "_workflow.pause_reason" not in flow.client.variables(answer.task_id)


@kinds
@pytest.mark.parametrize(
    ("call", "extent", "error"), [(1, "from then on", "no"), (2, "one call", None), (2, "one call", "no")]
)
def test_a_continuations_result_does_not_depend_on_its_record(
    flow: Flow, kind: Kind, call: int, extent: Extent, error: str | None
) -> None:
    task = flow.paused_task()
    item_before = flow.table.item(task)
    flow.script.errors = {"third": error} if error else {}
    plain_result = flow.client.call_tool("third").result
    with flow.broken_at(call, kind, extent):
        answer = flow.client.call_tool("third", task=task)
    assert flow.script.take() == ["third", "third"]
    assert {**answer.result, "_meta": None} == {**plain_result, "_meta": None}
    assert answer.meta["task_id"] == task
    assert answer.meta["recorded"] == (write_outcome(kind) if call == 2 else False)
    assert "record_error" in answer.meta
    if kind == "lost" and call == 2:
        assert flow.stored_statuses() == ("working", ["completed", "failed", "failed" if error else "completed"])
    else:
        assert flow.table.item(task) == item_before


@kinds
def test_a_resume_whose_task_cannot_be_read_runs_nothing(flow: Flow, kind: Kind) -> None:
    task = flow.paused_task()
    item_before = flow.table.item(task)
    with flow.broken_at(1, kind):
        answer = flow.client.get_prompt("flow", task=task)
    assert answer.refusal == (200, -32603)
    assert ("retryAfterMs" in answer.error.get("data", {})) is (kind == "throttled")
    assert flow.script.take() == []
    assert kind == "lost" or flow.table.item(task) == item_before


@pytest.mark.parametrize("kind", ["unreachable", "throttled"])
@pytest.mark.parametrize("method", ["get", "result", "cancel", "update", "list"])
def test_a_task_method_reports_a_failed_store_without_details(flow: Flow, kind: Kind, method: str) -> None:
    task = flow.paused_task()
    with flow.broken_at(1, kind, "from then on"):
        if method == "update":
            answer = flow.client.in_era("2026").task(method, task, inputResponses={})
        else:
            answer = flow.client.task(method, task)
    assert answer.refusal == (200, -32603)
    assert not any(word in answer.body.lower() for word in ("dynamodb", "http", "exception", "endpoint", "timeout"))


def test_a_run_whose_task_was_not_created_does_not_name_it(flow: Flow) -> None:
    """The creation failed with an unknown outcome, and the first update finds no task."""
    flow.script.errors = {"second": "no"}
    with flow.broken_at(2, "broken"):  # the first request stores the start
        answer = flow.client.call_tool("flow")
    assert [item["sk"]["S"] for item in flow.table.items] == ["START"]
    text = answer.result["content"][0]["text"]
    assert text.endswith("This run has no task, so the server cannot continue it: make the calls yourself.")
    assert "recorded" not in text


@pytest.mark.parametrize("is_stored", [True, False])
def test_a_task_is_named_and_its_results_are_linked_only_if_the_last_write_was_made(
    make_client: MakeClient, script: Script, monkeypatch: pytest.MonkeyPatch, is_stored: bool
) -> None:
    start = WorkflowRun.start

    def unsure(run: WorkflowRun, *args: Any) -> EndedRun:
        return replace(start(run, *args), stored=is_stored, persisted="unknown")

    monkeypatch.setattr(WorkflowRun, "start", unsure)
    server = Server("text", task_ids="text")

    @server.tool
    def write() -> str:
        return "x" * 3_000

    @server.tool
    def send() -> str:
        return script.play("send", "")

    script.errors = {"send": "no"}
    server.add_workflow(
        Workflow(name="flow", description="d", steps=[ToolStep("a", tool=write), ToolStep("b", tool=send)])
    )
    client = make_client(server)
    prompt = client.get_prompt("flow")
    next_call = f'Then call flow with {{"task_id": "{prompt.task_id}"}} to let the server continue.'
    assert any(next_call in message for _, message in prompt.conversation) is is_stored
    content = client.call_tool("flow").result["structuredContent"]
    assert ("uri" in content["results"]["a"] if isinstance(content["results"]["a"], dict) else False) is is_stored
