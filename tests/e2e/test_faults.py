"""A store that fails at each of its calls in turn fails no prompt and no tool call (docs/workflows.md).

The faults are put into botocore's client, which makes one attempt as a deployed one does, so that what the store sends
again and what it gives up on is part of what is tested. What it makes of each fault is held by tests/store.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest
from botocore.exceptions import EndpointConnectionError, ReadTimeoutError

from mcp_baton import Server, Step, Workflow
from mcp_baton.testing.store import refusal
from tests.e2e.conftest import Engine, MakeClient
from tests.e2e.support import Answer, Client, Script, Table

type Kind = Literal["unreachable", "lost", "throttled", "broken"]
type Extent = Literal["once", "one call", "from then on"]

REFUSALS = {"throttled": "ProvisionedThroughputExceededException", "broken": "InternalServerError"}


@dataclass(slots=True)
class Wire:
    """What lies between the store and the engine.

    Attributes:
        fails_at: The call that a fault begins with, counted from 1; `None` while nothing fails.
        struck: Whether anything has failed.
    """

    fails_at: int | None = None
    kind: Kind = "unreachable"
    extent: Extent = "once"
    struck: bool = False
    _calls: list[bytes] = field(default_factory=list)
    _losing: bool = False

    def break_at(self, call: int, kind: Kind, extent: Extent) -> None:
        """Fail at this call from now: its first attempt alone, all its attempts, or those and every later call."""
        self.fails_at, self.kind, self.extent = call, kind, extent
        self._calls = []

    def heal(self) -> None:
        """Fail no more."""
        self.fails_at = None

    def before(self, params: dict[str, Any], **_: object) -> object:
        """A handler of botocore's `before-call`, whose answer is taken for the server's."""
        self._losing = False
        if not self._fails(params["body"]):
            return None
        self.struck = True
        if self.kind == "unreachable":
            raise EndpointConnectionError(endpoint_url="")
        self._losing = self.kind == "lost"
        return None if self._losing else refusal(REFUSALS[self.kind])

    def after(self, **_: object) -> None:
        """A handler of botocore's `after-call`."""
        if self._losing:
            raise ReadTimeoutError(endpoint_url="")

    def _fails(self, body: bytes) -> bool:
        if self.fails_at is None:
            return False
        # What is sent again is sent as it was: a write with the same token.
        is_retry = self._calls[-1:] == [body]
        if not is_retry:
            self._calls.append(body)
        number = len(self._calls)
        if self.extent == "from then on":
            return number >= self.fails_at
        return number == self.fails_at and not (is_retry and self.extent == "once")


@pytest.fixture
def wire(engine: Engine) -> Iterator[Wire]:
    """A wire to the engine, on which nothing fails yet."""
    wire = Wire()
    events: Any = engine.client.meta.events
    events.register_last("before-call.dynamodb", wire.before)
    events.register_first("after-call.dynamodb", wire.after)
    yield wire
    events.unregister("before-call.dynamodb", wire.before)
    events.unregister("after-call.dynamodb", wire.after)


@pytest.fixture
def client(make_client: MakeClient, script: Script) -> Client:
    """A client of `flow`."""
    return make_client(flow_server(script))


def flow_server(script: Script) -> Server:
    """Three steps, written after the first and at the end."""
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

    steps = [Step("one", tool="first", checkpoint=True), Step("two", tool="second"), Step("three", tool="third")]
    server.add_workflow(Workflow(name="flow", description="count", steps=steps))
    return server


def stored(table: Table) -> tuple[str, list[str]]:
    """The one task's status and its steps'."""
    [item] = table.items
    steps = item["variables"]["M"]["_workflow.progress"]["M"]["steps"]["L"]
    return item["status"]["S"], [step["M"]["status"]["S"] for step in steps]


def told(answer: Answer) -> tuple[str, list[str]]:
    """The same, as the reply has it."""
    return answer.meta["task_status"], answer.statuses


kinds = pytest.mark.parametrize("kind", ["unreachable", "lost", "throttled", "broken"])

UNKNOWN = {"lost", "broken"}
"""The kinds after which nobody knows whether a write was applied."""


def written(kind: Kind) -> bool | str:
    """What is said of a write that failed in this way to the end."""
    return "unknown" if kind in UNKNOWN else False


def run(client: Client, script: Script, error: str | None) -> tuple[Answer, list[str]]:
    """Run the workflow, with its last step failing or not: the reply, and how each step must have ended."""
    script.errors = {"third": error} if error else {}
    answer = client.get_prompt("flow")
    assert script.take() == ["first", "second", "third"]
    texts = [text for _, text in answer.conversation]
    assert [f"Result from {name}: {value}" in texts for name, value in (("first", 1), ("second", 2))] == [True, True]
    if error:
        assert any(text.endswith("1. Call third with {}") for text in texts[-2:])
    else:
        assert "Result from third: 3" in texts[-2:]
    return answer, ["completed", "completed", "failed" if error else "completed"]


@kinds
@pytest.mark.parametrize(
    ("call", "extent", "error"),
    [(1, "once", None), (2, "once", "no"), (3, "once", None), (3, "once", "no"), (2, "one call", None)],
)
def test_a_fault_that_passes_or_is_made_up_for_leaves_no_trace_in_a_run(
    client: Client, script: Script, table: Table, wire: Wire, kind: Kind, call: int, extent: Extent, error: str | None
) -> None:
    """A checkpoint that cannot be written is made up for at the end."""
    wire.break_at(call, kind, extent)
    answer, ended = run(client, script, error)
    assert wire.struck
    wire.heal()
    assert "persisted" not in answer.meta
    assert told(answer) == stored(table) == ("working" if error else "completed", ended)
    assert ("pause_reason" in answer.meta) is (error is not None)
    variables = client.variables(answer.task_id)
    assert ("_workflow.pause_reason" in variables) is (error is not None)
    assert (variables["_workflow.result.one"], variables["_workflow.result.two"]) == (1, 2)


@pytest.mark.parametrize(
    ("kind", "extent", "error"),
    [("unreachable", "one call", None), ("unreachable", "from then on", "no"), ("broken", "one call", None)],
)
def test_a_task_that_was_not_created_leaves_the_run_without_one(
    client: Client, script: Script, table: Table, wire: Wire, kind: Kind, extent: Extent, error: str | None
) -> None:
    wire.break_at(1, kind, extent)
    answer, _ = run(client, script, error)
    wire.heal()
    assert (answer.meta, table.items) == ({}, [])


def test_a_task_whose_creation_is_throttled_is_refused_as_busy_before_anything_runs(
    client: Client, script: Script, table: Table, wire: Wire
) -> None:
    wire.break_at(1, "throttled", "one call")
    answer = client.get_prompt("flow")
    wire.heal()
    assert answer.refusal == (200, -32603)
    assert answer.error["message"] == "busy; nothing was run"
    assert answer.error["data"]["retryAfterMs"] >= 1_000
    assert (script.take(), table.items) == ([], [])


def test_a_task_whose_creation_is_unknown_is_written_to_all_the_same(
    client: Client, script: Script, table: Table, wire: Wire
) -> None:
    wire.break_at(1, "lost", "one call")
    answer, ended = run(client, script, None)
    wire.heal()
    assert "persisted" not in answer.meta
    assert told(answer) == stored(table) == ("completed", ended)


@pytest.mark.parametrize("kind", sorted(UNKNOWN))
def test_a_run_says_what_is_not_known_of_its_task(
    client: Client, script: Script, table: Table, wire: Wire, kind: Kind
) -> None:
    """Neither the answer to its creation came, nor one to a later write."""
    wire.break_at(1, kind, "from then on")
    answer, ended = run(client, script, None)
    wire.heal()
    assert answer.meta["persisted"] == "unknown"
    assert answer.statuses == ended
    assert "Look at the task before any of its steps is repeated." in answer.conversation[-1][1]
    assert len(table.items) == (1 if kind == "lost" else 0)


@kinds
@pytest.mark.parametrize(
    ("call", "extent", "error"), [(2, "from then on", None), (3, "one call", None), (3, "one call", "no")]
)
def test_a_batch_that_cannot_be_written_is_told_from_memory_and_said_not_to_be_kept(
    client: Client,
    script: Script,
    table: Table,
    wire: Wire,
    kind: Kind,
    call: int,
    extent: Extent,
    error: str | None,
) -> None:
    wire.break_at(call, kind, extent)
    answer, ended = run(client, script, error)
    wire.heal()
    assert answer.meta["persisted"] == written(kind)
    assert told(answer) == ("working", ended)
    assert ("pause_reason" in answer.meta) is (error is not None)
    if kind != "lost":
        kept = ["completed", "pending", "pending"] if call == 3 else ["pending"] * 3
        assert stored(table) == ("working", kept)
        assert "_workflow.pause_reason" not in client.variables(answer.task_id)


def paused(client: Client, script: Script) -> str:
    """A task whose second step has failed."""
    script.errors = {"second": "no"}
    task = client.get_prompt("flow").task_id
    script.errors = {}
    script.take()
    return task


@kinds
@pytest.mark.parametrize(
    ("call", "extent", "error"),
    [(1, "from then on", "no"), (2, "one call", None), (2, "one call", "no")],
)
def test_a_continuations_result_is_the_same_whatever_becomes_of_its_record(
    client: Client,
    script: Script,
    table: Table,
    wire: Wire,
    kind: Kind,
    call: int,
    extent: Extent,
    error: str | None,
) -> None:
    task = paused(client, script)
    before = table.item(task)
    script.errors = {"third": error} if error else {}
    plain = client.call_tool("third").result
    wire.break_at(call, kind, extent)
    answer = client.call_tool("third", task=task)
    wire.heal()
    assert script.take() == ["third", "third"]
    assert {**answer.result, "_meta": None} == {**plain, "_meta": None}
    assert answer.meta["task_id"] == task
    assert answer.meta["recorded"] == (written(kind) if call == 2 else False)
    assert "record_error" in answer.meta
    if kind == "lost" and call == 2:
        assert stored(table) == ("working", ["completed", "failed", "failed" if error else "completed"])
    else:
        assert table.item(task) == before


@kinds
def test_a_call_that_is_made_again_after_its_record_was_lost_does_no_harm(
    client: Client, script: Script, table: Table, wire: Wire, kind: Kind
) -> None:
    task = paused(client, script)
    wire.break_at(2, kind, "one call")
    assert client.call_tool("second", task=task).meta["recorded"] == written(kind)
    wire.heal()
    answer = client.call_tool("second", task=task)
    assert answer.meta["recorded"] is True
    assert told(answer) == stored(table) == ("working", ["completed", "completed", "pending"])
    assert "pause_reason" not in answer.meta


@kinds
def test_a_resume_whose_task_cannot_be_read_runs_nothing(
    client: Client, script: Script, table: Table, wire: Wire, kind: Kind
) -> None:
    task = paused(client, script)
    before = table.item(task)
    wire.break_at(1, kind, "one call")
    answer = client.get_prompt("flow", task=task)
    wire.heal()
    assert answer.refusal == (200, -32603)
    assert ("retryAfterMs" in answer.error.get("data", {})) is (kind == "throttled")
    assert script.take() == []
    assert kind == "lost" or table.item(task) == before


@kinds
def test_a_resume_whose_batch_cannot_be_written_answers_all_the_same(
    client: Client, script: Script, table: Table, wire: Wire, kind: Kind
) -> None:
    task = paused(client, script)
    before = table.item(task)
    wire.break_at(2, kind, "one call")
    answer = client.get_prompt("flow", task=task)
    wire.heal()
    assert script.take() == ["second", "third"]
    assert ("user", "Result from third: 3") in answer.conversation[-2:]
    assert answer.statuses == ["completed"] * 3
    assert (answer.meta["persisted"], answer.meta["task_status"]) == (written(kind), "working")
    # The claim was taken, and is not given up.
    assert kind == "lost" or table.item(task)["variables"] == before["variables"]


@pytest.mark.parametrize("kind", ["unreachable", "throttled"])
@pytest.mark.parametrize("method", ["get", "result", "cancel", "update", "list"])
def test_a_task_method_says_that_the_store_failed_and_nothing_of_how(
    client: Client, script: Script, wire: Wire, kind: Kind, method: str
) -> None:
    task = paused(client, script)
    wire.break_at(1, kind, "from then on")
    if method == "update":
        answer = client.in_era("2026").task(method, task, inputResponses={})
    else:
        answer = client.task(method, task)
    assert answer.refusal == (200, -32603)
    assert not any(word in answer.body.lower() for word in ("dynamodb", "http", "exception", "endpoint", "timeout"))
