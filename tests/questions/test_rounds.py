"""Questions to the client in the 2026 era: rounds with a signed state, through the handler (docs/http.md).

The details of rounds and of the state are tested in tests/questions and tests/protocol/test_state.py.
"""

from dataclasses import dataclass
from typing import Any

import pytest

from mcp_baton import Context, ProtocolError, Server, ToolStep, Workflow
from mcp_baton.protocol.envelope import CAPABILITIES_KEY, TASKS_EXTENSION
from tests.questions.test_asked_by_tools import ACCEPTED, FORM
from tests.support.client import Answer, Client, JsonDict
from tests.support.handler import MakeClient

OLD, NEW = b"o" * 32, b"n" * 32
INVALID_PARAMS, MISSING_CAPABILITY = -32602, -32021
CAPABLE: JsonDict = {"elicitation": {}, "sampling": {}, "roots": {}, "extensions": {TASKS_EXTENSION: {}}}


def asking_server(runs: list[str] | None = None) -> Server:
    """Return a server whose functions ask the client. `runs` gets the tool's name at each start of a tool."""
    server = Server("asking")
    calls = [] if runs is None else runs

    @server.tool
    def who(ctx: Context, greeting: str = "Hello") -> str:
        calls.append("who")
        answer = ctx.elicit("name", "Who?", FORM)
        return f"{greeting} {answer.content['name']}" if answer.accepted else answer.action

    @server.tool
    def marked(ctx: Context) -> str:
        assert ctx.task is not None
        calls.append("marked")
        ctx.task["asked"] = len(calls)
        return str(ctx.elicit("name", "Who?", FORM).content["name"])

    @server.tool
    def refusing() -> None:
        raise ProtocolError(-32099, "Not like this", {"a": 1})

    ask_elsewhere(server)
    return server


def ask_elsewhere(server: Server) -> None:
    @server.prompt
    def greet(ctx: Context, tone: str = "kind") -> str:
        return f"{tone} {ctx.elicit('name', 'Who?', FORM).content['name']}"

    @server.resource("docs://mine")
    def mine(ctx: Context) -> str:
        return str(ctx.elicit("name", "Who?", FORM).content["name"])

    @server.resource("docs://refusing")
    def refusing_page() -> str:
        raise ProtocolError(-32099, "Not like this")

    for tool in ("who", "marked", "refusing"):
        server.add_workflow(Workflow(name=f"{tool}-flow", description="ask", steps=[ToolStep("ask", tool=tool)]))
    page = ToolStep("read", tool="who", resources=["docs://refusing"])
    server.add_workflow(Workflow(name="page-flow", description="read", steps=[page]))


@dataclass
class Talk:
    client: Client
    method: str
    params: JsonDict
    meta: JsonDict

    def round(self, state: str | None = None, responses: JsonDict | None = None) -> Answer:
        """Send the request. A later round also sends the state and the responses."""
        round_params = {} if state is None else {"requestState": state, "inputResponses": responses}
        return self.client.request(self.method, {**self.params, **round_params}, self.meta)


def talk(client: Client, method: str = "tools/call", meta: JsonDict | None = None, **params: Any) -> Talk:
    return Talk(client, method, params, {CAPABILITIES_KEY: CAPABLE, **(meta or {})})


@pytest.fixture
def client(make_client: MakeClient) -> Client:
    return make_client(asking_server(), era="2026", state_key=NEW)


def text_of(answer: Answer) -> str:
    text: str = answer.result["content"][0]["text"]
    return text


def questions_and_state(answer: Answer) -> tuple[JsonDict, str]:
    result = answer.result
    assert result["resultType"] == "input_required"
    return result["inputRequests"], result["requestState"]


def test_a_tool_asks_and_is_run_again_with_the_answer(make_client: MakeClient) -> None:
    runs: list[str] = []
    call = talk(make_client(asking_server(runs), era="2026", state_key=NEW), name="who", arguments={"greeting": "Hi"})

    requests, state = questions_and_state(call.round())
    assert requests == {
        "name": {
            "method": "elicitation/create",
            "params": {"mode": "form", "message": "Who?", "requestedSchema": FORM},
        }
    }
    answer = call.round(state, {"name": ACCEPTED})

    assert (answer.result["resultType"], text_of(answer)) == ("complete", "Hi Kim")
    assert runs == ["who", "who"]
    # A question also ends an event stream.
    stream_answer = talk(call.client, name="who", meta={"progressToken": 1}).round()
    assert stream_answer.headers["Content-Type"] == "text/event-stream"
    assert questions_and_state(stream_answer)[0] == requests


@pytest.mark.parametrize(
    ("method", "params", "path"),
    [
        ("prompts/get", {"name": "greet", "arguments": {"tone": "warm"}}, ("messages", 0, "content", "text")),
        ("resources/read", {"uri": "docs://mine"}, ("contents", 0, "text")),
    ],
)
def test_prompts_and_resources_can_ask(client: Client, method: str, params: JsonDict, path: tuple[Any, ...]) -> None:
    call = talk(client, method, **params)
    requests, state = questions_and_state(call.round())
    assert list(requests) == ["name"]

    value: Any = call.round(state, {"name": ACCEPTED}).result
    for part in path:
        value = value[part]
    assert value == ("warm Kim" if method == "prompts/get" else "Kim")


def test_a_state_is_valid_in_every_process_with_the_key_and_after_a_rotation(make_client: MakeClient) -> None:
    _, state = questions_and_state(talk(make_client(asking_server(), era="2026", state_key=OLD), name="who").round())

    client_with_old_key = make_client(asking_server(), era="2026", state_key=NEW, state_key_previous=OLD)
    client_without_old_key = make_client(asking_server(), era="2026", state_key=NEW)

    assert text_of(talk(client_with_old_key, name="who").round(state, {"name": ACCEPTED})) == "Hello Kim"
    assert talk(client_without_old_key, name="who").round(state, {"name": ACCEPTED}).refusal == (400, INVALID_PARAMS)


def test_without_a_key_a_state_is_valid_in_one_process_only_which_logs_one_warning(
    make_client: MakeClient, caplog: pytest.LogCaptureFixture
) -> None:
    call, other_call = (talk(make_client(asking_server(), era="2026"), name="who") for _ in range(2))

    _, state = questions_and_state(call.round())
    questions_and_state(call.round())

    assert [record.levelname for record in caplog.records if "BATON_STATE_KEY" in record.message] == ["WARNING"]
    assert text_of(call.round(state, {"name": ACCEPTED})) == "Hello Kim"
    assert other_call.round(state, {"name": ACCEPTED}).refusal == (400, INVALID_PARAMS)


@pytest.mark.parametrize("workflow", ["refusing-flow", "page-flow"])
def test_a_protocol_error_within_a_workflow_fails_its_step(make_client: MakeClient, era: Any, workflow: str) -> None:
    answer = make_client(asking_server(), era=era).get_prompt(workflow)

    assert answer.statuses == ["failed"]
    assert answer.meta["pause_reason"]["type"] == "toolError"
    assert "Not like this" in answer.meta["pause_reason"]["error"]
