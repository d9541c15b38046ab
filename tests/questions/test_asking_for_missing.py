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
    Context,
    Question,
    Server,
    ToolError,
    ToolStep,
    Workflow,
    WorkflowError,
    constant,
    prompt_arg,
    step_output,
    task_variable,
)
from mcp_baton.protocol.envelope import CAPABILITIES_KEY, TASKS_EXTENSION
from mcp_baton.workflow.ended_run import EndedRun
from mcp_baton.workflow.run import WorkflowRun
from tests.questions.test_asked_by_tools import questions_in, respond
from tests.sent import Requests
from tests.server.test_known_clients import handshake
from tests.support.client import Answer, Client, Clock, JsonDict, Sink, Table, task_meta
from tests.support.handler import MakeClient, Submit

CAPABLE: JsonDict = {"elicitation": {}, "extensions": {TASKS_EXTENSION: {}}}
INVALID_PARAMS, INVALID_REQUEST = -32602, -32600


class Size(StrEnum):
    """A choice."""

    SMALL = "small"
    LARGE = "large"


@dataclass
class AskingShop:
    """A server whose workflow asks for missing values."""

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

        options: dict[str, Any] = {
            "name": "flow",
            "description": "refund an order.",
            "arguments": [Argument("order_id", required=True)],
            "steps": [
                ToolStep("fetch", tool="fetch", arguments={"order_id": prompt_arg("order_id")}),
                ToolStep("refund", tool="refund", arguments={"order_id": step_output("fetch", "id")}),
                ToolStep("mail", tool="mail", arguments={"to": constant("kim@example.com")}),
            ],
            "ask": True,
            **changes,
        }
        server.add_workflow(Workflow(**options))
        return server

    def take(self) -> list[JsonDict]:
        """Return the calls since the last `take`."""
        calls, self.calls = self.calls, []
        return calls


ANSWERS: JsonDict = {"approved_by": "Ann", "size": "small", "amount": 3, "sure": True}


def accept(**content: Any) -> JsonDict:
    """Return an accepted answer to a question, with this content."""
    return {"action": "accept", "content": content}


ACCEPTED = accept(**ANSWERS)
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
class Flow:
    """A workflow in the 2026 era, and a client that can be asked."""

    client: Client
    shop: AskingShop
    arguments: JsonDict = field(default_factory=lambda: {"order_id": "A-1"})
    method: str = "prompts/get"
    capabilities: JsonDict = field(default_factory=lambda: CAPABLE)

    def send(self, state: str | None = None, responses: JsonDict | None = None, task: str | None = None) -> Answer:
        """Send the request. A later round also sends the state and the responses."""
        params: JsonDict = {"name": "flow", "arguments": self.arguments}
        params |= {} if state is None else {"requestState": state}
        params |= {} if responses is None else {"inputResponses": responses}
        return self.client.request(self.method, params, {CAPABILITIES_KEY: self.capabilities, **task_meta(task)})

    def begin(self) -> tuple[str, str]:
        """Send the first round. Return its state and the key of its question."""
        state, key, _ = question_in(self.send())
        return state, key


def question_in(answer: Answer) -> tuple[str, str, JsonDict]:
    """Return the state, the question's key and the question's params of an answer that asks."""
    assert answer.result["resultType"] == "input_required", answer.body
    ((key, question),) = answer.result["inputRequests"].items()
    assert question["method"] == "elicitation/create"
    return answer.result["requestState"], key, question["params"]


def make_flow(make_client: MakeClient, **changes: Any) -> Flow:
    shop = AskingShop()
    return Flow(make_client(shop.server(**changes), era="2026"), shop)


@pytest.fixture
def flow(make_client: MakeClient) -> Flow:
    return make_flow(make_client)


def test_the_client_is_asked_and_the_workflow_continues(flow: Flow, table: Table, requests: Requests) -> None:
    state, key, params = question_in(flow.send())
    assert requests.take() == ["PutItem", "UpdateItem"]
    assert params["message"] == "To refund an order, step 'refund' needs these values."
    assert params["requestedSchema"] == FORM
    assert (flow.shop.take(), table.statuses) == ([{"fetch": "A-1"}], ["working"])

    answer = flow.send(state, {key: ACCEPTED})
    assert answer.meta["task_status"] == "completed"
    assert flow.shop.take() == [REFUND, {"mail": "kim@example.com"}]
    texts = [text for _, text in answer.conversation]
    assert any(text.startswith('Calling refund with {"order_id": "A-1", "approved_by": "Ann"') for text in texts)
    variables = flow.client.variables(answer.task_id)
    assert variables["_workflow.call.refund"] == {"order_id": "A-1", **ANSWERS}
    other_values = "".join(map(repr, (value for name, value in variables.items() if name != "_workflow.call.refund")))
    assert "Ann" not in other_values.replace("refunded by Ann", "")


@pytest.mark.parametrize(
    ("response", "list_name", "names"),
    [
        ({"action": "decline"}, "missingFields", FORM["required"]),
        ({"action": "cancel"}, "missingFields", FORM["required"]),
        (accept(approved_by=" "), "missingFields", FORM["required"]),
        (accept(**ANSWERS | {"amount": "much"}), "invalidFields", ["amount"]),
    ],
    ids=["declined", "cancelled", "an empty text", "refused by the tool"],
)
def test_the_workflow_stays_paused_without_a_valid_answer(
    flow: Flow, response: JsonDict, list_name: str, names: list[str]
) -> None:
    state, key = flow.begin()
    answer = flow.send(state, {key: response})
    assert answer.meta["task_status"] == "working"
    fields = answer.meta["pause_reason"][list_name]
    assert [field["field"] if list_name == "invalidFields" else field for field in fields] == names
    assert flow.shop.take() == [{"fetch": "A-1"}]
    assert flow.send(state, {key: ACCEPTED}).meta["task_status"] == "completed"


def test_a_step_that_fails_with_the_answers_shows_its_arguments(flow: Flow) -> None:
    flow.shop.errors = ["no money"]
    state, key = flow.begin()
    answer = flow.send(state, {key: ACCEPTED})
    assert answer.meta["pause_reason"]["error"] == "no money"
    assert 'Call refund with {"order_id": "A-1", "approved_by": "Ann"' in answer.handoff
    assert flow.client.variables(answer.task_id)["_workflow.call.refund"] == {"order_id": "A-1", **ANSWERS}


@pytest.mark.parametrize("difference", ["arguments", "task", "method", "a tool's"])
def test_a_state_is_valid_only_for_its_request(flow: Flow, difference: str) -> None:
    state, key = flow.begin()
    task = None
    if difference == "arguments":
        flow.arguments = {"order_id": "B-2"}
    elif difference == "task":
        task = flow.send(state, {key: {"action": "decline"}}).task_id
    elif difference == "method":
        flow.method = "tools/call"
    else:
        params: JsonDict = {"name": "ask", "arguments": {}}
        state = flow.client.request("tools/call", params, {CAPABILITIES_KEY: CAPABLE}).result["requestState"]
    flow.shop.take()

    answer = flow.send(state, {key: ACCEPTED}, task=task)

    assert answer.error["code"] == INVALID_PARAMS
    assert "requestState" in answer.error["message"]
    assert flow.shop.take() == []


def test_the_state_expires_with_the_task(make_client: MakeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = Flow(make_client(AskingShop().server(), era="2026", default_ttl_ms=7_200_000), AskingShop())
    state, key = flow.begin()
    real_time = time.time
    monkeypatch.setattr(time, "time", lambda: real_time() + 7_100)
    question_in(flow.send(state, {}))
    monkeypatch.setattr(time, "time", lambda: real_time() + 7_300)
    assert "expired" in flow.send(state, {key: ACCEPTED}).error["message"]


def test_a_run_that_is_not_stored_does_not_ask(make_client: MakeClient) -> None:
    client = make_client(AskingShop().server(), era="2026", table_name="no-such-table")
    assert "Call refund with" in Flow(client, AskingShop()).send().handoff


@pytest.mark.parametrize("is_stored", [True, False])
def test_a_run_asks_only_after_its_last_write(flow: Flow, monkeypatch: pytest.MonkeyPatch, is_stored: bool) -> None:
    start = WorkflowRun.start

    def unsure(run: WorkflowRun, *args: Any) -> EndedRun:
        return replace(start(run, *args), stored=is_stored, persisted="unknown")

    monkeypatch.setattr(WorkflowRun, "start", unsure)
    assert ("inputRequests" in flow.send().result) is is_stored


@pytest.mark.parametrize("source", [task_variable("who"), step_output("first", "to")])
def test_a_value_that_a_source_does_not_have_can_be_asked_for(make_client: MakeClient, source: Any) -> None:
    steps = [
        ToolStep("first", tool="fetch", arguments={"order_id": prompt_arg("order_id")}),
        ToolStep("mail", tool="mail", arguments={"to": source}),
    ]
    flow = make_flow(make_client, steps=steps)
    state, key, params = question_in(flow.send())
    assert list(params["requestedSchema"]["properties"]) == ["to"]
    answer = flow.send(state, {key: accept(to="ann@example.com")})
    assert answer.meta["task_status"] == "completed"
    assert flow.shop.take() == [{"fetch": "A-1"}, {"mail": "ann@example.com"}]


def test_a_workflow_without_tasks_cannot_ask() -> None:
    with pytest.raises(WorkflowError, match="ask=True needs a stored task"):
        AskingShop().server(durable=False).check()


def test_an_answer_to_a_question_costs_one_resume(make_client: MakeClient, requests: Requests) -> None:
    shop = AskingShop()
    steps = [
        Question("to", "Who gets the mail?", of="user"),
        ToolStep("mail", tool="mail", arguments={"to": step_output("to")}),
    ]
    flow = Flow(make_client(shop.server(ask=False, steps=steps), era="2026"), shop)
    state, key, _ = question_in(flow.send())
    requests.take()

    answer = flow.send(state, {key: accept(to="ann@example.com")})

    assert answer.meta["task_status"] == "completed"
    assert requests.take() == ["UpdateItem", "UpdateItem"]  # the claim and the end of the run


# The 2025 era: questions on the request's stream


class StreamFlow:
    """A workflow whose requests are streamed, in the 2025 era."""

    def __init__(
        self,
        make_client: MakeClient,
        submit: Submit,
        capabilities: JsonDict | None = None,
        remaining_ms: Callable[[], int] = lambda: 30_000,
    ) -> None:
        self.shop, self.sink, self.submit = AskingShop(), Sink(), submit
        self.client = make_client(self.shop.server(), remaining_ms=remaining_ms)
        self.headers = handshake(self.client, {"elicitation": {}} if capabilities is None else capabilities)

    def send(self, method: str = "prompts/get", **options: Any) -> Future[Answer]:
        """Send the request without waiting for its result."""
        params = {"name": "flow", "arguments": {"order_id": "A-1"}}
        request = partial(self.client.request, method, params, headers=self.headers, **options)
        return self.submit(self.sink, request)

    def question(self, method: str = "prompts/get") -> JsonDict:
        """Send the request and return its first message, a question."""
        self.send(method)
        question = self.sink.next()
        assert question["method"] == "elicitation/create"
        return question

    def result(self) -> JsonDict:
        result: JsonDict = self.sink.next()["result"]
        return result


@pytest.fixture
def stream(make_client: MakeClient, submit: Submit) -> StreamFlow:
    return StreamFlow(make_client, submit)


def test_over_a_stream_the_server_stops_waiting_before_the_functions_time_ends(
    make_client: MakeClient, submit: Submit, table: Table
) -> None:
    clock = Clock(30_000)
    stream = StreamFlow(make_client, submit, remaining_ms=clock)

    class LateSink(Sink):
        """Lets the function's time end with the first message, which is the question."""

        def write(self, data: bytes) -> None:
            super().write(data)
            clock.ms = 5_000

    stream.sink = LateSink()
    stream.question()
    assert stream.result()["_meta"]["pause_reason"]["type"] == "schemaMismatch"
    assert questions_in(table) == 0


def test_a_task_that_another_request_has_continued_is_not_changed(stream: StreamFlow, table: Table) -> None:
    question = stream.question()
    (item,) = (item for item in table.items if item["sk"]["S"] not in {"QUESTION", "START"})
    task_id = item["sk"]["S"].removeprefix("TASK#")
    assert stream.client.task("cancel", task_id).result
    respond(stream.client, question, result=ACCEPTED)
    assert stream.result()["_meta"]["task_id"] == task_id
    assert stream.shop.take() == [{"fetch": "A-1"}]
