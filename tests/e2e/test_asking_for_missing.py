"""A workflow that asks the client's user for what it lacks (docs/workflows.md, Asking for what is missing)."""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

import pytest
from pydantic import Field

from mcp_baton import (
    Argument,
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
from mcp_baton.testing import connect
from tests.e2e.conftest import MakeClient, Streaming
from tests.e2e.support import BOUND_S, Answer, Client, Clock, Era, JsonDict, Sink, Table, naming
from tests.e2e.test_known_clients import handshake
from tests.e2e.test_questions import questions_in, respond
from tests.sent import Requests

CAPABLE: JsonDict = {"elicitation": {}, "extensions": {TASKS_EXTENSION: {}}}
INVALID_PARAMS, HELD = -32602, -32600


class Size(StrEnum):
    """A choice."""

    SMALL = "small"
    LARGE = "large"


@dataclass
class Made:
    """A server that asks, and what its tools were called with."""

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
        """The calls since the last look."""
        taken, self.calls = self.calls, []
        return taken


GIVEN: JsonDict = {"approved_by": "Ann", "size": "small", "amount": 3, "sure": True}
ACCEPTED: JsonDict = {"action": "accept", "content": GIVEN}
REFUND: JsonDict = {"order": "A-1", "by": "Ann", "size": Size.SMALL, "amount": 3.0, "sure": True}
FORM: JsonDict = {
    "type": "object",
    "properties": {
        "approved_by": {"type": "string", "description": "Who approves it?", "minLength": 2},
        "size": {"type": "string", "enum": ["small", "large"], "title": "Size", "description": "A choice."},
        "amount": {"type": "number"},
        "sure": {"type": "boolean"},
    },
    "required": ["approved_by", "size", "amount", "sure"],
}


@dataclass
class Asked:
    """A workflow whose client can be asked, in the 2026 era."""

    client: Client
    arguments: JsonDict = field(default_factory=lambda: {"order_id": "A-1"})
    method: str = "prompts/get"
    capabilities: JsonDict = field(default_factory=lambda: CAPABLE)

    def send(self, state: str | None = None, responses: JsonDict | None = None, task: str | None = None) -> Answer:
        """The request; again if there is a state."""
        params: JsonDict = {"name": "flow", "arguments": self.arguments}
        params |= {} if state is None else {"requestState": state}
        params |= {} if responses is None else {"inputResponses": responses}
        return self.client.request(self.method, params, {CAPABILITIES_KEY: self.capabilities, **naming(task)})


def question_in(answer: Answer) -> tuple[str, str, JsonDict]:
    """Of an answer that asks: the state, the question's key, and its params."""
    assert answer.result["resultType"] == "input_required", answer.body
    ((key, asked),) = answer.result["inputRequests"].items()
    assert asked["method"] == "elicitation/create"
    return answer.result["requestState"], key, asked["params"]


def asked(make_client: MakeClient, made: Made, **changes: Any) -> Asked:
    return Asked(make_client(made.server(**changes), era="2026"))


def test_the_client_is_asked_and_the_workflow_goes_on_with_the_answers(make_client: MakeClient, table: Table) -> None:
    made = Made()
    flow = asked(make_client, made)

    state, key, params = question_in(flow.send())
    assert params["message"] == "To refund an order, step 'refund' needs what is not known yet."
    assert params["requestedSchema"]["properties"]["approved_by"] == FORM["properties"]["approved_by"]
    assert params["requestedSchema"]["properties"]["size"]["enum"] == ["small", "large"]
    assert params["requestedSchema"]["properties"]["amount"] == {"type": "number"}
    assert params["requestedSchema"]["required"] == FORM["required"]
    assert (made.take(), table.statuses) == ([{"fetch": "A-1"}], ["working"])

    done = flow.send(state, {key: ACCEPTED})
    assert done.meta["task_status"] == "completed"
    assert made.take() == [REFUND, {"mail": "kim@example.com"}]
    texts = [text for _, text in done.conversation]
    assert any(text.startswith('Calling refund with {"order_id": "A-1", "approved_by": "Ann"') for text in texts)
    variables = flow.client.variables(done.task_id)
    assert variables["_workflow.call.refund"] == {"order_id": "A-1", **GIVEN}
    everything = "".join(map(repr, (value for name, value in variables.items() if name != "_workflow.call.refund")))
    assert "Ann" not in everything.replace("refunded by Ann", "")


def test_the_twin_asks_as_well(make_client: MakeClient) -> None:
    made = Made()
    flow = asked(make_client, made)
    flow.method = "tools/call"

    state, key, _ = question_in(flow.send())
    done = flow.send(state, {key: ACCEPTED})

    assert done.result["structuredContent"]["task_status"] == "completed"
    assert made.take() == [{"fetch": "A-1"}, REFUND, {"mail": "kim@example.com"}]


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_who_declines_leaves_it_paused(make_client: MakeClient, action: str) -> None:
    made = Made()
    flow = asked(make_client, made)
    state, key, _ = question_in(flow.send())

    answer = flow.send(state, {key: {"action": action}})

    assert answer.meta["task_status"] == "working"
    assert answer.meta["pause_reason"]["missingFields"] == ["approved_by", "size", "amount", "sure"]
    assert made.take() == [{"fetch": "A-1"}]
    done = flow.send(state, {key: ACCEPTED})
    assert done.meta["task_status"] == "completed"


@pytest.mark.parametrize("responses", [None, {}, {"other": ACCEPTED}])
def test_a_round_without_an_answer_asks_again(make_client: MakeClient, responses: JsonDict | None) -> None:
    made = Made()
    flow = asked(make_client, made)
    state, key, _ = question_in(flow.send())

    again, same_key, _ = question_in(flow.send(state, responses))

    assert same_key == key
    assert flow.send(again, {key: ACCEPTED}).meta["task_status"] == "completed"
    assert made.take().count({"fetch": "A-1"}) == 1


def test_what_was_answered_is_not_asked_again(make_client: MakeClient) -> None:
    made = Made()
    flow = asked(make_client, made)
    state, key, _ = question_in(flow.send())

    state, key, params = question_in(flow.send(state, {key: {"action": "accept", "content": {"approved_by": "Ann"}}}))
    assert params["requestedSchema"]["required"] == ["size", "amount", "sure"]
    rest = {"action": "accept", "content": {"size": "small", "amount": 3, "sure": True, "approved_by": "Bob"}}
    assert flow.send(state, {key: rest}).meta["task_status"] == "completed"
    assert made.take()[1] == REFUND


def test_an_answer_that_the_tool_refuses_leaves_it_paused(make_client: MakeClient) -> None:
    made = Made()
    flow = asked(make_client, made)
    state, key, _ = question_in(flow.send())

    answer = flow.send(state, {key: {"action": "accept", "content": {**GIVEN, "amount": "much"}}})

    assert [item["field"] for item in answer.meta["pause_reason"]["invalidFields"]] == ["amount"]
    assert made.take() == [{"fetch": "A-1"}]


def test_an_answer_fills_in_what_was_asked_for_and_nothing_else(make_client: MakeClient) -> None:
    made = Made()
    flow = asked(make_client, made)
    state, key, _ = question_in(flow.send())

    content = {**GIVEN, "order_id": "B-2", "_workflow.x": 1}
    done = flow.send(state, {key: {"action": "accept", "content": content}})

    assert done.meta["task_status"] == "completed"
    assert made.take()[1] == REFUND


def test_a_step_that_fails_with_the_answers_says_what_it_was_called_with(make_client: MakeClient) -> None:
    made = Made(errors=["no money"])
    flow = asked(make_client, made)
    state, key, _ = question_in(flow.send())

    failed = flow.send(state, {key: ACCEPTED})

    assert failed.meta["pause_reason"]["error"] == "no money"
    assert 'Call refund with {"order_id": "A-1", "approved_by": "Ann"' in failed.handoff
    assert flow.client.variables(failed.task_id)["_workflow.call.refund"] == {"order_id": "A-1", **GIVEN}


def test_a_state_that_is_sent_twice_does_nothing_twice(make_client: MakeClient) -> None:
    made = Made()
    flow = asked(make_client, made)
    state, key, _ = question_in(flow.send())
    flow.send(state, {key: ACCEPTED})
    made.take()

    again = flow.send(state, {key: ACCEPTED})

    assert again.refusal == (400, INVALID_PARAMS)
    assert "completed" in again.error["message"]
    assert made.take() == []


def test_a_state_that_is_late_does_not_replace_what_was_done_meanwhile(make_client: MakeClient) -> None:
    made = Made()
    flow = asked(make_client, made)
    state, key, _ = question_in(flow.send())
    other = {"order_id": "A-1", **GIVEN, "approved_by": "Bob"}
    task_id = state_task(flow, state)
    assert flow.client.call_tool("refund", other, task=task_id).meta["recorded"] is True
    made.take()

    done = flow.send(state, {key: ACCEPTED})

    assert done.meta["task_status"] == "completed"
    assert made.take() == [{"mail": "kim@example.com"}]
    assert flow.client.variables(task_id)["_workflow.result.refund"] == "refunded by Bob"
    assert flow.client.variables(task_id)["_workflow.call.refund"]["approved_by"] == "Bob"


def state_task(flow: Asked, state: str) -> str:
    """The task that a state names, as a paused reply tells it."""
    return flow.send(state, {question_in(flow.send(state))[1]: {"action": "decline"}}).task_id


@pytest.mark.parametrize("crossed", ["owner", "arguments", "task", "method", "signature", "kind"])
def test_a_state_is_good_for_its_own_caller_and_request_alone(make_client: MakeClient, crossed: str) -> None:
    made = Made()
    flow = asked(make_client, made)
    state, key, _ = question_in(flow.send())
    made.take()
    task = None
    match crossed:
        case "owner":
            flow.client = flow.client.as_owner("mallory")
        case "arguments":
            flow.arguments = {"order_id": "B-2"}
        case "task":
            task = state_task(Asked(flow.client), state)
        case "method":
            flow.method = "tools/call"
        case "signature":
            state = state[:-1] + ("A" if state[-1] != "A" else "B")
        case "kind":
            state = "x.y"

    refused = flow.send(state, {key: ACCEPTED}, task=task)

    assert refused.error["code"] == INVALID_PARAMS
    assert "requestState" in refused.error["message"]
    assert made.take() == []


def test_a_tools_own_state_is_not_a_workflows(make_client: MakeClient) -> None:
    flow = asked(make_client, Made())
    params: JsonDict = {"name": "ask", "arguments": {}}
    own = flow.client.request("tools/call", params, {CAPABILITIES_KEY: CAPABLE}).result["requestState"]

    assert flow.send(own, {}).error["code"] == INVALID_PARAMS


def test_each_of_two_tasks_goes_on_with_its_own_answer(make_client: MakeClient) -> None:
    made = Made()
    flow = asked(make_client, made)
    (one, one_key, _), (two, two_key, _) = question_in(flow.send()), question_in(flow.send())
    assert one_key != two_key
    answers = {one_key: ACCEPTED, two_key: {"action": "accept", "content": {**GIVEN, "approved_by": "Bob"}}}
    made.take()

    second, first = flow.send(two, answers), flow.send(one, answers)

    assert first.task_id != second.task_id
    assert [call["by"] for call in made.take() if "by" in call] == ["Bob", "Ann"]
    # The answer of the one says nothing to the other.
    third, _, _ = question_in(flow.send())
    question_in(flow.send(third, {one_key: ACCEPTED}))


def test_while_somebody_else_runs_the_task_nothing_is_run_and_the_state_stays_good(
    make_client: MakeClient,
) -> None:
    made = Made()
    flow = asked(make_client, made)
    state, key, _ = question_in(flow.send())
    raced: list[Answer] = []
    made.meanwhile = lambda: raced.append(flow.send(state, {key: ACCEPTED}))
    done = flow.send(state, {key: ACCEPTED})

    assert done.meta["task_status"] == "completed"
    assert raced[0].error["code"] == HELD
    assert len([call for call in made.calls if "by" in call]) == 1


def test_the_state_lives_as_long_as_the_task(make_client: MakeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    flow = Asked(make_client(Made().server(), era="2026", default_ttl_ms=7_200_000))
    state, key, _ = question_in(flow.send())
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 7_100)
    question_in(flow.send(state, {}))
    monkeypatch.setattr(time, "time", lambda: real() + 7_300)

    assert "expired" in flow.send(state, {key: ACCEPTED}).error["message"]


def fields_of(**changes: Any) -> JsonDict:
    return {"arguments": [], **changes}


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"ask": False}, id="it does not ask"),
        pytest.param(
            fields_of(steps=[Step("a", tool="pack")], arguments=[Argument("order_id")]), id="not all are primitive"
        ),
        pytest.param(
            fields_of(
                steps=[Step("a", tool="mail", arguments={"to": prompt_arg("to")})],
                arguments=[Argument("order_id"), Argument("to", secret=True)],
            ),
            id="a secret one",
        ),
        pytest.param(
            fields_of(
                steps=[Step("a", tool="mail", arguments={"text": constant(5)})], arguments=[Argument("order_id")]
            ),
            id="another one is invalid",
        ),
    ],
)
def test_where_not_all_can_be_asked_for_nobody_is_asked(make_client: MakeClient, changes: JsonDict) -> None:
    answer = asked(make_client, Made(), **changes).send()

    assert answer.meta["pause_reason"]["type"] == "schemaMismatch"


def test_a_client_that_cannot_be_asked_gets_the_handoff(make_client: MakeClient) -> None:
    flow = asked(make_client, Made())
    flow.capabilities = {"elicitation": {"url": {}}}

    assert "approved_by" in flow.send().handoff


def test_a_run_that_is_not_stored_asks_nobody(make_client: MakeClient) -> None:
    made = Made()
    flow = Asked(make_client(made.server(), era="2026", table_name="no-such-table"))

    assert "Call refund with" in flow.send().handoff


@pytest.mark.parametrize("source", [task_variable("who"), step_output("first", "to")])
def test_a_value_that_was_not_found_can_be_asked_for(make_client: MakeClient, source: Any) -> None:
    made = Made()
    steps = [
        Step("first", tool="fetch", arguments={"order_id": prompt_arg("order_id")}),
        Step("mail", tool="mail", arguments={"to": source}),
    ]
    flow = asked(make_client, made, steps=steps)

    state, key, params = question_in(flow.send())
    assert list(params["requestedSchema"]["properties"]) == ["to"]
    done = flow.send(state, {key: {"action": "accept", "content": {"to": "ann@example.com"}}})

    assert done.meta["task_status"] == "completed"
    assert made.take() == [{"fetch": "A-1"}, {"mail": "ann@example.com"}]


def test_a_workflow_without_tasks_cannot_ask() -> None:
    server = Made().server(durable=False)

    with pytest.raises(WorkflowError, match="ask=True needs a task"):
        server.check()


# The 2025 era: over the request's stream.


@dataclass
class Streamed:
    """A workflow that runs on a stream."""

    client: Client
    sink: Sink
    headers: Mapping[str, str]
    method: str = "prompts/get"

    def send(self, streaming: Streaming, **more: Any) -> Future[Answer]:
        """The request, not waited for."""
        params = {"name": "flow", "arguments": {"order_id": "A-1"}}
        return streaming(self.sink, lambda: self.client.request(self.method, params, headers=self.headers, **more))


def streamed(make_client: MakeClient, made: Made, capabilities: JsonDict | None = None, **settings: Any) -> Streamed:
    client = make_client(made.server(), **settings)
    return Streamed(client, Sink(), handshake(client, {"elicitation": {}} if capabilities is None else capabilities))


@pytest.mark.parametrize("method", ["prompts/get", "tools/call"])
def test_over_a_stream_the_same_request_goes_on_with_the_answers(
    make_client: MakeClient, streaming: Streaming, table: Table, method: str
) -> None:
    made = Made()
    flow = streamed(make_client, made)
    flow.method = method

    flow.send(streaming)
    question = flow.sink.next()
    assert question["method"] == "elicitation/create"
    assert question["params"]["requestedSchema"]["required"] == FORM["required"]
    (item,) = (item for item in table.items if item["sk"]["S"] != "QUESTION")
    assert item["status"]["S"] == "working"
    assert item["run"]["M"]["u"]["N"] == "0"  # its claim is given up
    assert respond(flow.client, question, result=ACCEPTED).status == 202
    result = flow.sink.next()["result"]

    told = result["_meta"] if method == "prompts/get" else result["structuredContent"]
    assert told["task_status"] == "completed"
    assert made.take() == [{"fetch": "A-1"}, REFUND, {"mail": "kim@example.com"}]
    assert flow.client.variables(told["task_id"])["_workflow.call.refund"] == {"order_id": "A-1", **GIVEN}
    assert questions_in(table) == 0


def test_progress_still_grows_when_a_step_is_tried_again(make_client: MakeClient, streaming: Streaming) -> None:
    flow = streamed(make_client, Made())

    flow.send(streaming, meta={"progressToken": "p"})
    seen: list[float] = []
    while "result" not in (message := flow.sink.next()):
        if message["method"] == "elicitation/create":
            respond(flow.client, message, result=ACCEPTED)
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
def test_over_a_stream_who_does_not_answer_leaves_it_paused(
    make_client: MakeClient, streaming: Streaming, said: JsonDict
) -> None:
    made = Made()
    flow = streamed(make_client, made)

    flow.send(streaming)
    respond(flow.client, flow.sink.next(), **said)
    meta = flow.sink.next()["result"]["_meta"]

    assert (meta["task_status"], meta["pause_reason"]["type"]) == ("working", "schemaMismatch")
    assert made.take() == [{"fetch": "A-1"}]


def test_over_a_stream_an_answer_is_waited_for_no_longer_than_the_limit(
    make_client: MakeClient, streaming: Streaming, table: Table
) -> None:
    flow = streamed(make_client, Made(), question_ms=1)

    flow.send(streaming)
    assert flow.sink.next()["method"] == "elicitation/create"

    assert flow.sink.next()["result"]["_meta"]["task_status"] == "working"
    assert questions_in(table) == 0


def test_over_a_stream_nobody_is_asked_once_the_functions_time_is_nearly_over(
    make_client: MakeClient, streaming: Streaming
) -> None:
    clock = Clock(30_000)
    flow = streamed(make_client, Made(), remaining_ms=clock)

    class Late(Sink):
        """The function's time is over with the question."""

        def write(self, data: bytes) -> None:
            super().write(data)
            clock.ms = 5_000

    flow.sink = Late()
    flow.send(streaming)
    assert flow.sink.next()["method"] == "elicitation/create"

    assert flow.sink.next()["result"]["_meta"]["pause_reason"]["type"] == "schemaMismatch"


@pytest.mark.parametrize("known", [True, False])
def test_a_2025_client_that_has_not_declared_it_is_not_asked(
    make_client: MakeClient, streaming: Streaming, known: bool
) -> None:
    flow = streamed(make_client, Made(), {"sampling": {}})
    if not known:
        flow.headers = {}

    answer = flow.send(streaming).result(BOUND_S)

    assert "Call refund with" in answer.handoff


def test_a_task_that_somebody_has_gone_on_with_meanwhile_is_left_to_them(
    make_client: MakeClient, streaming: Streaming, table: Table
) -> None:
    made = Made()
    flow = streamed(make_client, made)
    flow.send(streaming)
    question = flow.sink.next()
    (item,) = (item for item in table.items if item["sk"]["S"] != "QUESTION")
    task_id = item["task_id"]["S"] if "task_id" in item else item["sk"]["S"].rpartition("#")[2]

    assert flow.client.task("cancel", task_id).result
    respond(flow.client, question, result=ACCEPTED)
    result = flow.sink.next()["result"]

    assert result["_meta"]["task_id"] == task_id
    assert made.take() == [{"fetch": "A-1"}]


def test_asking_costs_no_request_to_the_store(make_client: MakeClient, requests: Requests) -> None:
    question_in(asked(make_client, Made()).send())

    assert requests.take() == ["PutItem", "UpdateItem"]


@pytest.mark.parametrize("era", ["2025", "2026"])
def test_the_testing_client_answers_what_a_workflow_asks(era: Era) -> None:
    made = Made()
    with connect(made.server(), era=era) as client:
        client.answers({"To refund an order, step 'refund' needs what is not known yet.": GIVEN})

        assert client.get_prompt("flow", {"order_id": "A-1"}).completed
        assert client.call_workflow("flow", {"order_id": "A-1"}).completed
        client.answers(None)
        assert client.get_prompt("flow", {"order_id": "A-1"}).paused
    assert made.take()[:3] == [{"fetch": "A-1"}, REFUND, {"mail": "kim@example.com"}]
