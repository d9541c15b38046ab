"""A store that fails at each of its calls in turn fails no prompt and no tool call (docs/workflows.md).

The faults are put between botocore and the engine, on a client that makes one attempt as a deployed one does, so that
what the store sends again and what it gives up on is part of what is tested.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import boto3
import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.compat import HTTPHeaders
from botocore.config import Config
from botocore.exceptions import EndpointConnectionError, ReadTimeoutError
from moto.core.botocore_stubber import MockRawResponse

from mcp_baton import Server, Step, ToolError, Workflow
from mcp_baton.clients import ATTEMPTS
from mcp_baton.local.dynamodb import REGION
from tests.e2e.conftest import Engine, MakeClient
from tests.e2e.support import Answer, Client, Script, Table
from tests.memory_dynamodb import MemoryDynamoDB

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

type Kind = Literal["unreachable", "lost", "throttled", "broken"]
type Extent = Literal["once", "one call", "from then on"]
type Deliver = Callable[[AWSPreparedRequest], AWSResponse]

REFUSALS = {"throttled": (400, "ProvisionedThroughputExceededException"), "broken": (500, "InternalServerError")}


@dataclass(slots=True)
class Wire:
    """What lies between botocore and an engine.

    Attributes:
        deliver: Brings a request to the engine.
        fails_at: The call that a fault begins with, counted from 1; `None` while nothing fails.
    """

    deliver: Deliver
    fails_at: int | None = None
    kind: Kind = "unreachable"
    extent: Extent = "once"
    _calls: list[str] = field(default_factory=list)
    _struck: int = 0

    def break_at(self, call: int, kind: Kind, extent: Extent) -> None:
        """Fail at this call from now: its first attempt alone, all its attempts, or those and every later call."""
        self.fails_at, self.kind, self.extent = call, kind, extent
        self._calls, self._struck = [], 0

    def heal(self) -> None:
        """Fail no more."""
        self.fails_at = None

    @property
    def struck(self) -> bool:
        """Whether anything has failed."""
        return self._struck > 0

    def send(self, request: AWSPreparedRequest, **_: object) -> AWSResponse:
        """Deliver a request, or do not: a handler of botocore's `before-send` event."""
        if not self._fails(str(request.body)):
            return self.deliver(request)
        self._struck += 1
        if self.kind == "unreachable":
            raise EndpointConnectionError(endpoint_url=request.url)
        if self.kind == "lost":
            self.deliver(request)
            raise ReadTimeoutError(endpoint_url=request.url)
        status, code = REFUSALS[self.kind]
        body = json.dumps({"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": "no"}).encode()
        return AWSResponse(request.url, status, HTTPHeaders(), MockRawResponse(body))

    def _fails(self, body: str) -> bool:
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


def wired(url: str, deliver: Deliver) -> "tuple[Wire, DynamoDBClient]":
    """A client with the retries of a deployed one whose requests all go through a wire."""
    wire = Wire(deliver)
    session = boto3.Session(aws_access_key_id="local", aws_secret_access_key="local", region_name=REGION)
    config = Config(retries={"mode": "standard", "total_max_attempts": ATTEMPTS})
    client = session.client("dynamodb", endpoint_url=url, config=config)
    # botocore takes the answer of a `before-send` handler for the server's; its stubs say that handlers have none.
    send: Any = wire.send
    client.meta.events.register("before-send.dynamodb", send)
    return wire, client


@pytest.fixture(scope="module")
def memory() -> MemoryDynamoDB:
    """The engine at the end of the wire. What a client does about a fault does not depend on it; what the store sends
    is held against every engine by tests/store."""
    return MemoryDynamoDB()


@pytest.fixture(scope="module")
def wire_and_client(memory: MemoryDynamoDB) -> "Iterator[tuple[Wire, DynamoDBClient]]":
    """A wire to it."""
    wire, client = wired(f"https://dynamodb.{REGION}.amazonaws.com", memory.answer)
    with closing(client):
        yield wire, client


@pytest.fixture
def wire(wire_and_client: "tuple[Wire, DynamoDBClient]") -> Iterator[Wire]:
    """A wire on which nothing fails yet."""
    wire, _ = wire_and_client
    yield wire
    wire.heal()


@pytest.fixture
def engine(wire_and_client: "tuple[Wire, DynamoDBClient]", memory: MemoryDynamoDB, memory_engine: Engine) -> Engine:
    """The engine at the end of the wire."""
    return Engine(wire_and_client[1], memory_engine.s3, memory.create)


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
@pytest.mark.parametrize(("call", "error"), [(1, None), (2, "no"), (3, None), (3, "no")])
def test_a_fault_that_passes_leaves_no_trace_in_a_run(
    client: Client, script: Script, table: Table, wire: Wire, kind: Kind, call: int, error: str | None
) -> None:
    wire.break_at(call, kind, "once")
    answer, ended = run(client, script, error)
    assert wire.struck
    wire.heal()
    assert "persisted" not in answer.meta
    assert told(answer) == stored(table) == ("working" if error else "completed", ended)
    assert ("pause_reason" in answer.meta) is (error is not None)
    variables = client.variables(answer.task_id)
    assert ("_workflow.pause_reason" in variables) is (error is not None)
    assert variables["_workflow.result.two"] == 2


@pytest.mark.parametrize(("extent", "error"), [("one call", None), ("from then on", "no")])
def test_a_task_that_cannot_be_created_leaves_the_run_without_one(
    client: Client, script: Script, table: Table, wire: Wire, extent: Extent, error: str | None
) -> None:
    wire.break_at(1, "unreachable", extent)
    answer, _ = run(client, script, error)
    wire.heal()
    assert answer.meta == {}
    assert table.items == []


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


def test_a_task_that_turns_out_not_to_have_been_created_leaves_the_run_without_one(
    client: Client, script: Script, table: Table, wire: Wire
) -> None:
    wire.break_at(1, "broken", "one call")
    answer, _ = run(client, script, None)
    wire.heal()
    assert (answer.meta, table.items) == ({}, [])


@kinds
def test_a_checkpoint_that_cannot_be_written_is_made_up_for_at_the_end(
    client: Client, script: Script, table: Table, wire: Wire, kind: Kind
) -> None:
    wire.break_at(2, kind, "one call")
    answer, ended = run(client, script, None)
    wire.heal()
    assert "persisted" not in answer.meta
    assert told(answer) == stored(table) == ("completed", ended)
    assert client.variables(answer.task_id)["_workflow.result.one"] == 1


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
    [(1, "once", None), (2, "once", "no"), (1, "from then on", "no"), (2, "one call", None), (2, "one call", "no")],
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
    not_recorded = written(kind) if call == 2 else False
    assert answer.meta["recorded"] == (True if extent == "once" else not_recorded)
    ended = ["completed", "failed", "failed" if error else "completed"]
    if extent == "once":
        assert told(answer) == stored(table) == ("working", ended)
    elif kind == "lost" and call == 2:
        assert stored(table) == ("working", ended)
    else:
        assert table.item(task) == before
    assert ("record_error" in answer.meta) is (extent != "once")


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
@pytest.mark.parametrize("extent", ["once", "one call"])
def test_a_resume_whose_batch_cannot_be_written_answers_all_the_same(
    client: Client, script: Script, table: Table, wire: Wire, kind: Kind, extent: Extent
) -> None:
    task = paused(client, script)
    before = table.item(task)
    wire.break_at(2, kind, extent)
    answer = client.get_prompt("flow", task=task)
    wire.heal()
    assert script.take() == ["second", "third"]
    assert ("user", "Result from third: 3") in answer.conversation[-2:]
    assert answer.statuses == ["completed"] * 3
    if extent == "once":
        assert told(answer) == stored(table) == ("completed", ["completed"] * 3)
        assert "persisted" not in answer.meta
    else:
        assert answer.meta["persisted"] == written(kind)
        assert answer.meta["task_status"] == "working"
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


@kinds
@pytest.mark.parametrize("result", [None, {"done": True}])
def test_a_cancellation_whose_first_answer_is_lost_still_happens_once(
    client: Client, script: Script, table: Table, wire: Wire, kind: Kind, result: dict[str, bool] | None
) -> None:
    task = paused(client, script)
    wire.break_at(1, kind, "once")
    answer = client.task("cancel", task, **({"result": result} if result else {}))
    assert wire.struck
    wire.heal()
    assert answer.result["status"] == ("completed" if result else "cancelled")
    assert table.statuses == [answer.result["status"]]


def test_a_tool_that_fails_beside_a_store_that_fails_is_told_of_as_ever(make_client: MakeClient, wire: Wire) -> None:
    server = Server("s")

    @server.tool
    def work() -> None:
        wire.break_at(1, "unreachable", "from then on")
        raise ToolError("both at once")

    server.add_workflow(Workflow(name="flow", description="work", steps=[Step("only", tool="work")]))
    answer = make_client(server).get_prompt("flow")
    assert answer.meta["persisted"] is False
    assert answer.meta["pause_reason"]["error"] == "both at once"
    assert answer.handoff.endswith("1. Call work with {}")
