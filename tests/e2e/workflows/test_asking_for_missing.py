"""Workflows that ask the client's user for missing values (docs/workflows.md, Asking for what is missing)."""

import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Annotated, Any

import pytest
from msgspec.structs import replace
from pydantic import Field

from mcp_baton import (
    Argument,
    Ask,
    Context,
    Server,
    Step,
    ToolError,
    Workflow,
    WorkflowError,
    constant,
    prompt_arg,
    step_output,
    task_variable,
)
from mcp_baton.protocol.envelope import CAPABILITIES_KEY, TASKS_EXTENSION
from mcp_baton.workflow.engine import Engine
from mcp_baton.workflow.run import EndedRun, RunInput
from tests.e2e.conftest import MakeClient, Streaming
from tests.e2e.protocol.test_known_clients import handshake
from tests.e2e.protocol.test_questions import questions_in, respond
from tests.e2e.support import BOUND_S, Answer, Client, Clock, JsonDict, Sink, Table, naming
from tests.sent import Requests

CAPABLE: JsonDict = {"elicitation": {}, "extensions": {TASKS_EXTENSION: {}}}
INVALID_PARAMS, HELD = -32602, -32600


class Size(StrEnum):
    """A choice."""

    SMALL = "small"
    LARGE = "large"


@dataclass
class Made:
    """A server whose workflow asks for missing values.

    Attributes:
        calls: The calls of its tools.
        errors: The errors of the next calls of `refund`.
        meanwhile: Runs during each call of `refund`.
    """

    calls: list[JsonDict] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    meanwhile: Callable[[], object] = field(default=lambda: None)

    def server(self, **changes: Any) -> Server:
        server = Server("asking")

        @server.tool
        def fetch(order_id: str) -> dict[str, Any]:
            self.calls.append({"fetch": order_id})
            return {"id": order_id}

        @server.tool
        def refund(
            order_id: str,
            approved_by: Annotated[str, Field(description="Who approves it?", min_length=2)],
            size: Size,
            amount: float | None,
            sure: bool,
        ) -> str:
            self.calls.append({"order": order_id, "by": approved_by, "size": size, "amount": amount, "sure": sure})
            self.meanwhile()
            if self.errors:
                raise ToolError(self.errors.pop())
            return f"refunded by {approved_by}"

        @server.tool
        def mail(to: str, text: str = "done") -> str:
            self.calls.append({"mail": to})
            return to

        @server.tool
        def pack(lines: dict[str, int], to: str) -> str:
            return f"{to} {lines}"

        @server.tool
        def ask(ctx: Context) -> str:
            return str(ctx.elicit("Who?", str).data)

        made: dict[str, Any] = {
            "name": "flow",
            "description": "refund an order.",
            "arguments": [Argument("order_id", required=True)],
            "steps": [
                Step("fetch", tool="fetch", arguments={"order_id": prompt_arg("order_id")}),
                Step("refund", tool="refund", arguments={"order_id": step_output("fetch", "id")}),
                Step("mail", tool="mail", arguments={"to": constant("kim@example.com")}),
            ],
            "ask": True,
            **changes,
        }
        server.add_workflow(Workflow(**made))
        return server

    def take(self) -> list[JsonDict]:
        """Return the calls since the last `take`."""
        taken, self.calls = self.calls, []
        return taken


GIVEN: JsonDict = {"approved_by": "Ann", "size": "small", "amount": 3, "sure": True}


def accepted(**content: Any) -> JsonDict:
    """Return an accepted answer to a question, with this content."""
    return {"action": "accept", "content": content}


ACCEPTED = accepted(**GIVEN)
REFUND: JsonDict = {"order": "A-1", "by": "Ann", "size": Size.SMALL, "amount": 3.0, "sure": True}
FORM: JsonDict = {
    "type": "object",
    "properties": {
        "approved_by": {"type": "string", "description": "Who approves it?", "minLength": 2},
        "size": {"type": "string", "enum": ["small", "large"], "description": "A choice."},
        "amount": {"type": "number"},
        "sure": {"type": "boolean"},
    },
    "required": ["approved_by", "size", "amount", "sure"],
}


@dataclass
class Asked:
    """A workflow in the 2026 era, and a client that can be asked."""

    client: Client
    made: Made
    arguments: JsonDict = field(default_factory=lambda: {"order_id": "A-1"})
    method: str = "prompts/get"
    capabilities: JsonDict = field(default_factory=lambda: CAPABLE)

    def send(self, state: str | None = None, responses: JsonDict | None = None, task: str | None = None) -> Answer:
        """Send the request. A later round also sends the state and the responses."""
        params: JsonDict = {"name": "flow", "arguments": self.arguments}
        params |= {} if state is None else {"requestState": state}
        params |= {} if responses is None else {"inputResponses": responses}
        return self.client.request(self.method, params, {CAPABILITIES_KEY: self.capabilities, **naming(task)})

    def begin(self) -> tuple[str, str]:
        """Send the first round. Return its state and the key of its question."""
        state, key, _ = question_in(self.send())
        return state, key


def question_in(answer: Answer) -> tuple[str, str, JsonDict]:
    """Return the state, the question's key and the question's params of an answer that asks."""
    assert answer.result["resultType"] == "input_required", answer.body
    ((key, asked),) = answer.result["inputRequests"].items()
    assert asked["method"] == "elicitation/create"
    return answer.result["requestState"], key, asked["params"]


def asked(make_client: MakeClient, **changes: Any) -> Asked:
    made = Made()
    return Asked(make_client(made.server(**changes), era="2026"), made)


@pytest.fixture
def flow(make_client: MakeClient) -> Asked:
    return asked(make_client)


def test_the_client_is_asked_and_the_workflow_continues_with_the_answers(
    flow: Asked, table: Table, requests: Requests
) -> None:
    state, key, params = question_in(flow.send())
    assert requests.take() == ["PutItem", "UpdateItem"]
    assert params["message"] == "To refund an order, step 'refund' needs these values."
    assert params["requestedSchema"] == FORM
    assert (flow.made.take(), table.statuses) == ([{"fetch": "A-1"}], ["working"])

    done = flow.send(state, {key: ACCEPTED})
    assert done.meta["task_status"] == "completed"
    assert flow.made.take() == [REFUND, {"mail": "kim@example.com"}]
    texts = [text for _, text in done.conversation]
    assert any(text.startswith('Calling refund with {"order_id": "A-1", "approved_by": "Ann"') for text in texts)
    variables = flow.client.variables(done.task_id)
    assert variables["_workflow.call.refund"] == {"order_id": "A-1", **GIVEN}
    everything = "".join(map(repr, (value for name, value in variables.items() if name != "_workflow.call.refund")))
    assert "Ann" not in everything.replace("refunded by Ann", "")


def test_the_workflow_tool_asks_too(flow: Asked) -> None:
    flow.method = "tools/call"
    state, key = flow.begin()
    done = flow.send(state, {key: ACCEPTED})
    assert done.result["structuredContent"]["task_status"] == "completed"
    assert flow.made.take() == [{"fetch": "A-1"}, REFUND, {"mail": "kim@example.com"}]


@pytest.mark.parametrize(
    ("response", "wrong", "named"),
    [
        ({"action": "decline"}, "missingFields", FORM["required"]),
        ({"action": "cancel"}, "missingFields", FORM["required"]),
        (accepted(**GIVEN | {"amount": "much"}), "invalidFields", ["amount"]),
    ],
    ids=["declined", "cancelled", "refused by the tool"],
)
def test_the_workflow_stays_paused_without_a_valid_answer(
    flow: Asked, response: JsonDict, wrong: str, named: list[str]
) -> None:
    state, key = flow.begin()
    answer = flow.send(state, {key: response})
    assert answer.meta["task_status"] == "working"
    fields = answer.meta["pause_reason"][wrong]
    assert [field["field"] if wrong == "invalidFields" else field for field in fields] == named
    assert flow.made.take() == [{"fetch": "A-1"}]
    assert flow.send(state, {key: ACCEPTED}).meta["task_status"] == "completed"


@pytest.mark.parametrize("responses", [None, {}, {"other": ACCEPTED}])
def test_a_round_without_an_answer_asks_again(flow: Asked, responses: JsonDict | None) -> None:
    state, key = flow.begin()
    again, same_key, _ = question_in(flow.send(state, responses))
    assert same_key == key
    assert flow.send(again, {key: ACCEPTED}).meta["task_status"] == "completed"
    assert flow.made.take().count({"fetch": "A-1"}) == 1


def test_an_answered_question_is_not_asked_again(flow: Asked) -> None:
    state, key = flow.begin()
    part = accepted(approved_by="Ann", order_id="B-2", **{"_workflow.x": 1})
    state, key, params = question_in(flow.send(state, {key: part}))
    assert params["requestedSchema"]["required"] == ["size", "amount", "sure"]
    assert flow.send(state, {key: accepted(**GIVEN | {"approved_by": "Bob"})}).meta["task_status"] == "completed"
    assert flow.made.take()[1] == REFUND


def test_a_step_that_fails_with_the_answers_shows_its_arguments(flow: Asked) -> None:
    flow.made.errors = ["no money"]
    state, key = flow.begin()
    failed = flow.send(state, {key: ACCEPTED})
    assert failed.meta["pause_reason"]["error"] == "no money"
    assert 'Call refund with {"order_id": "A-1", "approved_by": "Ann"' in failed.handoff
    assert flow.client.variables(failed.task_id)["_workflow.call.refund"] == {"order_id": "A-1", **GIVEN}


def test_a_late_state_does_not_replace_newer_results(flow: Asked) -> None:
    state, key = flow.begin()
    task_id = flow.send(state, {key: {"action": "decline"}}).task_id
    other = {"order_id": "A-1", **GIVEN, "approved_by": "Bob"}
    assert flow.client.call_tool("refund", other, task=task_id).meta["recorded"] is True
    flow.made.take()

    assert flow.send(state, {key: ACCEPTED}).meta["task_status"] == "completed"

    assert flow.made.take() == [{"mail": "kim@example.com"}]
    assert flow.client.variables(task_id)["_workflow.result.refund"] == "refunded by Bob"
    assert flow.client.variables(task_id)["_workflow.call.refund"]["approved_by"] == "Bob"


@pytest.mark.parametrize("crossed", ["arguments", "task", "method", "a tool's"])
def test_a_state_is_valid_only_for_its_request(flow: Asked, crossed: str) -> None:
    state, key = flow.begin()
    task = None
    if crossed == "arguments":
        flow.arguments = {"order_id": "B-2"}
    elif crossed == "task":
        task = flow.send(state, {key: {"action": "decline"}}).task_id
    elif crossed == "method":
        flow.method = "tools/call"
    else:
        params: JsonDict = {"name": "ask", "arguments": {}}
        state = flow.client.request("tools/call", params, {CAPABILITIES_KEY: CAPABLE}).result["requestState"]
    flow.made.take()

    refused = flow.send(state, {key: ACCEPTED}, task=task)

    assert refused.error["code"] == INVALID_PARAMS
    assert "requestState" in refused.error["message"]
    assert flow.made.take() == []


def test_each_of_two_tasks_uses_its_own_answer(flow: Asked) -> None:
    (one, one_key), (two, two_key) = flow.begin(), flow.begin()
    assert one_key != two_key
    answers = {one_key: ACCEPTED, two_key: accepted(**GIVEN | {"approved_by": "Bob"})}
    second, first = flow.send(two, answers), flow.send(one, answers)
    assert first.task_id != second.task_id
    assert [call["by"] for call in flow.made.take() if "by" in call] == ["Bob", "Ann"]


def test_a_state_stays_valid_while_another_run_holds_the_task(flow: Asked) -> None:
    state, key = flow.begin()
    raced: list[Answer] = []
    flow.made.meanwhile = lambda: raced.append(flow.send(state, {key: ACCEPTED}))
    assert flow.send(state, {key: ACCEPTED}).meta["task_status"] == "completed"
    assert raced[0].error["code"] == HELD
    assert len([call for call in flow.made.calls if "by" in call]) == 1


def test_the_state_expires_with_the_task(make_client: MakeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = Asked(make_client(Made().server(), era="2026", default_ttl_ms=7_200_000), Made())
    state, key = flow.begin()
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 7_100)
    question_in(flow.send(state, {}))
    monkeypatch.setattr(time, "time", lambda: real() + 7_300)
    assert "expired" in flow.send(state, {key: ACCEPTED}).error["message"]


ORDER = Argument("order_id")


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"ask": False, "arguments": [ORDER]}, id="ask is off"),
        pytest.param({"steps": [Step("a", tool="pack")], "arguments": [ORDER]}, id="not all values are primitive"),
        pytest.param(
            {
                "steps": [Step("a", tool="mail", arguments={"to": prompt_arg("to")})],
                "arguments": [ORDER, Argument("to", secret=True)],
            },
            id="a secret value",
        ),
        pytest.param(
            {"steps": [Step("a", tool="mail", arguments={"text": constant(5)})], "arguments": [ORDER]},
            id="another value is invalid",
        ),
    ],
)
def test_the_user_is_not_asked_if_a_missing_value_cannot_be_asked_for(
    make_client: MakeClient, changes: JsonDict
) -> None:
    assert asked(make_client, **changes).send().meta["pause_reason"]["type"] == "schemaMismatch"


def test_a_client_without_elicitation_gets_the_handoff(flow: Asked) -> None:
    flow.capabilities = {"elicitation": {"url": {}}}
    assert "approved_by" in flow.send().handoff


def test_a_run_that_is_not_stored_does_not_ask(make_client: MakeClient) -> None:
    client = make_client(Made().server(), era="2026", table_name="no-such-table")
    assert "Call refund with" in Asked(client, Made()).send().handoff


@pytest.mark.parametrize("stored", [True, False])
def test_a_run_asks_only_if_its_last_write_was_made(flow: Asked, monkeypatch: pytest.MonkeyPatch, stored: bool) -> None:
    start = Engine.start

    def unsure(engine: Engine, workflow: Workflow, invocation: RunInput) -> EndedRun:
        return replace(start(engine, workflow, invocation), persisted="unknown", stored=stored)

    monkeypatch.setattr(Engine, "start", unsure)
    assert ("inputRequests" in flow.send().result) is stored


@pytest.mark.parametrize("source", [task_variable("who"), step_output("first", "to")])
def test_a_value_that_a_source_does_not_have_can_be_asked_for(make_client: MakeClient, source: Any) -> None:
    steps = [
        Step("first", tool="fetch", arguments={"order_id": prompt_arg("order_id")}),
        Step("mail", tool="mail", arguments={"to": source}),
    ]
    flow = asked(make_client, steps=steps)
    state, key, params = question_in(flow.send())
    assert list(params["requestedSchema"]["properties"]) == ["to"]
    done = flow.send(state, {key: accepted(to="ann@example.com")})
    assert done.meta["task_status"] == "completed"
    assert flow.made.take() == [{"fetch": "A-1"}, {"mail": "ann@example.com"}]


def test_a_workflow_without_tasks_cannot_ask() -> None:
    with pytest.raises(WorkflowError, match="ask=True needs a task"):
        Made().server(durable=False).check()


def test_an_answer_to_a_question_costs_one_resume(make_client: MakeClient, requests: Requests) -> None:
    made = Made()
    steps = [
        Step("to", ask=Ask("Who gets the mail?", of="user")),
        Step("mail", tool="mail", arguments={"to": step_output("to")}),
    ]
    flow = Asked(make_client(made.server(ask=False, steps=steps), era="2026"), made)
    state, key, _ = question_in(flow.send())
    requests.take()

    done = flow.send(state, {key: accepted(to="ann@example.com")})

    assert done.meta["task_status"] == "completed"
    assert requests.take() == ["UpdateItem", "UpdateItem"]  # the claim and the end of the run


# The 2025 era: questions on the request's stream


class Streamed:
    """A workflow whose requests are streamed, in the 2025 era."""

    def __init__(
        self,
        make_client: MakeClient,
        streaming: Streaming,
        capabilities: JsonDict | None = None,
        remaining_ms: Callable[[], int] = lambda: 30_000,
    ) -> None:
        self.made, self.sink, self.streaming = Made(), Sink(), streaming
        self.client = make_client(self.made.server(), remaining_ms=remaining_ms)
        self.headers = handshake(self.client, {"elicitation": {}} if capabilities is None else capabilities)

    def send(self, method: str = "prompts/get", **more: Any) -> Future[Answer]:
        """Send the request without waiting for its result."""
        params = {"name": "flow", "arguments": {"order_id": "A-1"}}
        request = partial(self.client.request, method, params, headers=self.headers, **more)
        return self.streaming(self.sink, request)

    def question(self, method: str = "prompts/get") -> JsonDict:
        """Send the request and return its first message, a question."""
        self.send(method)
        question = self.sink.next()
        assert question["method"] == "elicitation/create"
        return question

    def result(self) -> JsonDict:
        """Return the result of the request."""
        result: JsonDict = self.sink.next()["result"]
        return result


@pytest.fixture
def streamed(make_client: MakeClient, streaming: Streaming) -> Streamed:
    return Streamed(make_client, streaming)


@pytest.mark.parametrize("method", ["prompts/get", "tools/call"])
def test_over_a_stream_the_same_request_continues_with_the_answers(
    streamed: Streamed, table: Table, method: str
) -> None:
    question = streamed.question(method)
    assert question["params"]["requestedSchema"]["required"] == FORM["required"]
    (item,) = (item for item in table.items if item["sk"]["S"] != "QUESTION")
    assert item["status"]["S"] == "working"
    assert item["run"]["M"]["until"]["N"] == "0"  # the claim was released
    assert respond(streamed.client, question, result=ACCEPTED).status == 202
    result = streamed.result()

    reported = result["_meta"] if method == "prompts/get" else result["structuredContent"]
    assert reported["task_status"] == "completed"
    assert streamed.made.take() == [{"fetch": "A-1"}, REFUND, {"mail": "kim@example.com"}]
    assert streamed.client.variables(reported["task_id"])["_workflow.call.refund"] == {"order_id": "A-1", **GIVEN}
    assert questions_in(table) == 0


def test_progress_still_increases_when_a_step_is_tried_again(streamed: Streamed) -> None:
    streamed.send(meta={"progressToken": "p"})
    seen: list[float] = []
    while "result" not in (message := streamed.sink.next()):
        if message["method"] == "elicitation/create":
            respond(streamed.client, message, result=ACCEPTED)
        else:
            seen.append(message["params"]["progress"])
    assert seen == [1, 2, 3]


@pytest.mark.parametrize(
    "said",
    [
        {"result": {"action": "decline"}},
        {"result": {"action": "accept", "content": {}}},
        {"result": {"action": "maybe"}},
        {"error": {"code": -1, "message": "no"}},
    ],
    ids=str,
)
def test_over_a_stream_an_unanswered_question_leaves_the_workflow_paused(streamed: Streamed, said: JsonDict) -> None:
    respond(streamed.client, streamed.question(), **said)
    meta = streamed.result()["_meta"]
    assert (meta["task_status"], meta["pause_reason"]["type"]) == ("working", "schemaMismatch")
    assert streamed.made.take() == [{"fetch": "A-1"}]


def test_over_a_stream_the_server_stops_waiting_before_the_functions_time_ends(
    make_client: MakeClient, streaming: Streaming, table: Table
) -> None:
    clock = Clock(30_000)
    streamed = Streamed(make_client, streaming, remaining_ms=clock)

    class Late(Sink):
        """Lets the function's time end with the first message, which is the question."""

        def write(self, data: bytes) -> None:
            super().write(data)
            clock.ms = 5_000

    streamed.sink = Late()
    streamed.question()
    assert streamed.result()["_meta"]["pause_reason"]["type"] == "schemaMismatch"
    assert questions_in(table) == 0


def test_a_2025_client_without_elicitation_is_not_asked(make_client: MakeClient, streaming: Streaming) -> None:
    streamed = Streamed(make_client, streaming, {"sampling": {}})
    assert "Call refund with" in streamed.send().result(BOUND_S).handoff


def test_a_task_that_another_request_has_continued_is_not_changed(streamed: Streamed, table: Table) -> None:
    question = streamed.question()
    (item,) = (item for item in table.items if item["sk"]["S"] != "QUESTION")
    task_id = item["sk"]["S"].removeprefix("TASK#")
    assert streamed.client.task("cancel", task_id).result
    respond(streamed.client, question, result=ACCEPTED)
    assert streamed.result()["_meta"]["task_id"] == task_id
    assert streamed.made.take() == [{"fetch": "A-1"}]
