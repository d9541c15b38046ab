"""Secret arguments: Baton does not store, show or log them (docs/workflows.md, Secret arguments)."""

import json
import logging
from typing import Any

import pytest

from mcp_baton import (
    Argument,
    Context,
    Fetch,
    Server,
    ToolError,
    ToolStep,
    Workflow,
    WorkflowError,
    constant,
    prompt_arg,
    step_output,
)
from mcp_baton.protocol.json import Json
from mcp_baton.tools.secrets import Secrets, is_hidden, secrets_of, shown_texts, stored_arguments
from mcp_baton.workflow.secrets import contains_argument, hidden_in, secrets_in_call
from mcp_baton.workflow.sources import FirstOf, Source
from mcp_baton.workflow.steps.step import Step
from tests.support.client import Answer, Era, JsonDict, Table
from tests.support.handler import MakeClient

PIN = "hunter2-4711"
ARGUMENTS = {"account": "A-1", "pin": PIN}


def secret_server(calls: list[JsonDict], errors: list[str] | None = None, **changes: Any) -> Server:
    """Return a server with a workflow that uses its secret argument in every place where an argument can be used."""
    server, remaining_errors = Server("bank"), [] if errors is None else errors

    @server.tool
    def login(account: str, pin: str) -> dict[str, str]:
        calls.append({"account": account, "pin": pin})
        return {"session": f"S-{account}"}

    @server.tool
    def pay(session: str, headers: dict[str, Any], note: str, ctx: Context) -> str:
        calls.append({"session": session, "headers": headers, "note": note, "key": ctx.idempotency_key})
        if remaining_errors:
            raise ToolError(remaining_errors.pop())
        return "paid"

    @server.tool
    def sign(pin: str, code: str) -> str:
        calls.append({"pin": pin, "code": code})
        if remaining_errors:
            raise ToolError(remaining_errors.pop())
        return f"signed {code}"

    workflow: dict[str, Any] = {
        "name": "flow",
        "description": "pay a bill",
        "arguments": [
            Argument("account", required=True),
            Argument("pin", "The bank's PIN.", required=True, secret=True),
        ],
        "steps": [
            ToolStep("login", tool="login", arguments={"account": prompt_arg("account"), "pin": prompt_arg("pin")}),
            ToolStep(
                "pay",
                tool="pay",
                guidance="Never say {pin}.",
                arguments={
                    "session": step_output("login", "session"),
                    "headers": constant({"auth": ["Pin {pin}"]}),
                    "note": constant("for {account}"),
                },
            ),
            ToolStep("sign", tool="sign", arguments={"pin": prompt_arg("pin")}),
        ],
        **changes,
    }
    server.add_workflow(Workflow(**workflow))
    return server


def assert_hidden(answer: Answer) -> None:
    assert PIN not in answer.body
    assert "hunter2" not in answer.body


def assert_not_stored(table: Table) -> None:
    assert table.items
    assert "hunter2" not in repr(table.items)


def test_a_secret_reaches_only_the_tools(
    make_client: MakeClient, table: Table, era: Era, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[JsonDict] = []
    client = make_client(secret_server(calls), era=era)
    with caplog.at_level(logging.DEBUG, "mcp_baton"):
        answer = client.get_prompt("flow", ARGUMENTS, meta={"progressToken": "p"})

    assert [call.get("pin") for call in calls] == [PIN, None]
    assert calls[1]["headers"] == {"auth": [f"Pin {PIN}"]}
    assert_hidden(answer)
    assert_not_stored(table)
    assert "hunter2" not in caplog.text
    assert "hunter2" not in calls[1]["key"]
    conversation = dict.fromkeys(text for _, text in answer.conversation)
    assert "I want to pay a bill.\n\nArguments:\n- account: A-1\n- pin: <secret pin>" in conversation
    assert 'Calling login with {"account": "A-1", "pin": "<secret pin>"}' in conversation
    assert 'Never say "<secret pin>".' in conversation
    assert '"headers": {"auth": ["Pin <secret pin>"]}' in "\n".join(conversation)
    assert 'Call sign with {"pin": "<secret pin>", "code": "<missing: code>"}' in answer.handoff


def test_a_resume_needs_the_secret_again(make_client: MakeClient, table: Table) -> None:
    calls: list[JsonDict] = []
    client = make_client(secret_server(calls))
    task = client.get_prompt("flow", ARGUMENTS).task_id
    calls.clear()

    answer = client.get_prompt("flow", {}, task=task)
    assert answer.error["code"] == -32602
    assert answer.error["message"] == (
        "Invalid params: secret arguments are not stored; give them again to resume the task: 'pin'"
    )
    assert calls == []

    client.call_tool("sign", {"pin": PIN, "code": "9"}, task=task)
    resumed_answer = client.get_prompt("flow", {"pin": PIN}, task=task)
    assert resumed_answer.meta["task_status"] == "completed"
    assert_hidden(resumed_answer)
    assert_not_stored(table)


def test_an_optional_secret_must_be_given_again_only_if_it_was_given(make_client: MakeClient) -> None:
    arguments = [Argument("account", required=True), Argument("pin", secret=True)]
    client = make_client(secret_server([], arguments=arguments))
    task_with_pin, task_without_pin = (
        client.get_prompt("flow", values).task_id for values in (ARGUMENTS, {"account": "A-1"})
    )

    assert client.get_prompt("flow", {}, task=task_with_pin).error["code"] == -32602
    assert client.get_prompt("flow", {}, task=task_without_pin).meta["pause_reason"]["missingFields"] == ["pin"]
    for values, secret in [({"account": "A-1"}, ""), (ARGUMENTS, ', "pin": "<secret pin>"')]:
        answer = client.call_tool("flow", values)
        suggested = f'all flow with {{"task_id": "{answer.task_id}"{secret}}} to let'
        assert suggested in answer.result["structuredContent"]["message"]


def test_a_secret_in_a_continuation_is_not_stored(make_client: MakeClient, table: Table) -> None:
    calls: list[JsonDict] = []
    client = make_client(secret_server(calls))
    task = client.get_prompt("flow", ARGUMENTS).task_id

    call = {"pin": PIN, "code": "9"}
    for _ in range(2):
        continuation = client.call_tool("sign", call, task=task)
        assert continuation.meta["recorded"] is True
    variables = client.variables(task)
    assert variables["_workflow.call.sign"] == {"pin": {"_workflow.secret": True}, "code": "9"}
    assert [name for name in variables if name.startswith("_workflow.extra")] == []
    assert_not_stored(table)

    answer = client.get_prompt("flow", {"pin": PIN}, task=task)
    assert 'Calling sign with {"pin": "<secret pin>", "code": "9"}' in [text for _, text in answer.conversation]
    assert_hidden(answer)


def test_remaining_calls_name_a_secret_without_its_value(make_client: MakeClient) -> None:
    client = make_client(secret_server([], ["no route"]))
    task = client.get_prompt("flow", ARGUMENTS).task_id

    answer = client.call_tool("login", ARGUMENTS, task=task)
    resume_call = {"tool": "flow", "arguments": {"task_id": task, "pin": "<secret pin>"}}
    assert answer.meta["next"] == [resume_call]  # the call of `pay` would fail again
    assert client.request("tasks/get", {"taskId": task}, {"mcp-baton/next": True}).meta["mcp-baton/next"] == [
        {
            "tool": "pay",
            "arguments": {"session": "S-A-1", "headers": {"auth": ["Pin <secret pin>"]}, "note": "for A-1"},
            "task_id": f"{task}/pay",
            "guidance": 'Never say "<secret pin>".',
        },
        resume_call,
    ]


def test_errors_that_quote_the_secret_are_stored_and_shown_without_it(make_client: MakeClient, table: Table) -> None:

    answer = make_client(secret_server([], [f"no such pin: {PIN}"])).get_prompt("flow", ARGUMENTS)
    assert answer.meta["pause_reason"]["error"] == "no such pin: <secret pin>"
    assert_hidden(answer)
    assert_not_stored(table)


def test_a_continuations_error_that_quotes_a_secret_is_stored_without(make_client: MakeClient, table: Table) -> None:
    errors: list[str] = []
    client = make_client(secret_server([], errors))
    task = client.get_prompt("flow", ARGUMENTS).task_id

    errors.append(f"wrong: {PIN}")
    answer = client.call_tool("sign", {"pin": PIN, "code": "9"}, task=task)
    assert answer.result["content"][0]["text"] == f"wrong: {PIN}"
    assert answer.meta["pause_reason"]["error"] == "wrong: <secret pin>"
    assert_not_stored(table)


def test_a_secret_that_does_not_convert_is_not_quoted(make_client: MakeClient) -> None:
    arguments = [Argument("account", required=True), Argument("pin", type=int, secret=True)]

    answer = make_client(secret_server([], arguments=arguments)).get_prompt("flow", ARGUMENTS)
    assert answer.error["message"] == "Invalid params: the argument 'pin' does not convert to its type"


@pytest.mark.parametrize(
    ("step", "arguments", "message"),
    [
        (Fetch("s", resources=["docs://{pin}"]), [Argument("pin", secret=True)], "into a URI"),
        (
            Fetch("s", resources=["docs://{x}"], template_bindings={"x": constant("a{pin}")}),
            [Argument("pin", secret=True)],
            "into a URI",
        ),
        (Fetch("s", resources=["docs://x"]), [Argument("pin", secret=True, default="1234")], "no default"),
    ],
)
def test_secrets_in_a_uri_or_with_a_default_are_refused(step: Step, arguments: list[Argument], message: str) -> None:
    server = Server("s")
    server.add_workflow(Workflow(name="flow", description="d", arguments=arguments, steps=[step]))

    with pytest.raises(WorkflowError, match=message):
        server.check()


def test_the_workflow_tool_shows_no_secret_and_needs_it_again(make_client: MakeClient, table: Table) -> None:
    client = make_client(secret_server([], ["no route"]))

    first_answer = client.call_tool("flow", ARGUMENTS)
    assert_hidden(first_answer)
    assert_not_stored(table)
    structure = first_answer.result["structuredContent"]
    assert '"pin": "<secret pin>"' in structure["message"]
    assert structure["message"].endswith("continue. Give pin again with it: secrets are not stored.")
    second_answer = client.call_tool("flow", {"task_id": structure["task_id"]})
    assert second_answer.result["isError"] is True
    text = second_answer.result["content"][0]["text"]
    assert text.startswith("Secret arguments are not stored; give them again to resume the task: 'pin'.")
    third_answer = client.call_tool("flow", {"task_id": structure["task_id"], "pin": PIN})
    assert third_answer.statuses == ["completed", "completed", "pending"]
    (workflow_tool,) = (tool for tool in client.request("tools/list").result["tools"] if tool["name"] == "flow")
    assert "Secret: it is not stored" in workflow_tool["inputSchema"]["properties"]["pin"]["description"]
    prompt = client.request("prompts/list").result["prompts"][0]
    assert prompt["arguments"][1]["description"] == (
        "The bank's PIN. Secret: it is not stored, and must be given again when the task is resumed."
    )


@pytest.mark.parametrize(
    ("kind", "secret", "problem"),
    [
        (str, "x" * 65_537, "has more than 65,536 characters; shorten it"),
        (list[int], json.dumps(list(range(100))), "has more than 100 values; shorten it"),
    ],
)
def test_a_secret_that_is_too_large_to_be_searched_for_is_refused(
    make_client: MakeClient, kind: Any, secret: str, problem: str
) -> None:
    calls: list[JsonDict] = []
    server = Server("bank", task_ids="text")

    @server.tool
    def look(account: str) -> str:
        raise ToolError("no")

    @server.tool
    def sign(keys: Any) -> str:
        calls.append({"keys": keys})
        return "signed"

    server.add_workflow(
        Workflow(
            name="flow",
            description="sign",
            arguments=[Argument("keys", required=True, secret=True, type=kind)],
            steps=[
                ToolStep("look", tool="look", arguments={"account": constant("A-1")}),
                ToolStep("sign", tool="sign", arguments={"keys": prompt_arg("keys")}),
            ],
        )
    )
    client = make_client(server)

    assert f"the argument 'keys' is secret, and {problem}" in client.get_prompt("flow", {"keys": secret}).body
    task = client.get_prompt("flow", {"keys": "[4711]"}).task_id
    continuation = client.call_tool("sign", {"keys": json.loads(secret) if secret[0] == "[" else secret}, task=task)
    assert f"The argument 'keys' is secret, and {problem}." in continuation.body
    assert calls == []


PINS = secrets_of({"pin"}, {"pin": "4711", "to": "ann"}, {"pin": 4711, "to": "ann"})
CVV = secrets_of({"cvv"}, {"cvv": "123"}, {"cvv": "123"})
BOTH = secrets_of({"a", "b"}, {"a": "hunter2", "b": "hunter22"}, {})
LOGIN = secrets_of(
    {"login"}, {"login": '{"user": "kim", "key": "s3cr3t"}'}, {"login": {"user": "kim", "key": "s3cr3t"}}
)
QUOTED = secrets_of({"q"}, {"q": 'say "hi"'}, {"q": 'say "hi"'})
SAME = secrets_of({"secret"}, {"secret": "secret"}, {"secret": "secret"})
EMPTY = secrets_of({"pin"}, {"pin": ""}, {"pin": ""})
NULL = secrets_of({"pin"}, {"pin": "null"}, {"pin": None})


@pytest.mark.parametrize(
    ("secrets", "value", "result"),
    [
        (PINS, "4711", "<secret pin>"),
        (PINS, 4711, "<secret pin>"),
        (PINS, "Bearer 4711!", "Bearer <secret pin>!"),
        (PINS, {"deep": [{"x4711": "a 4711"}]}, {"deep": [{"x<secret pin>": "a <secret pin>"}]}),
        (PINS, [4712, True, None, 4711.5, "ann"], [4712, True, None, 4711.5, "ann"]),
        (CVV, "123", "<secret cvv>"),
        (CVV, 123, "<secret cvv>"),
        (CVV, "call 12345", "call 12345"),
        (BOTH, "hunter22 and hunter2", "<secret b> and <secret a>"),
        (LOGIN, {"user": "kim", "key": "s3cr3t"}, "<secret login>"),
        (LOGIN, "the key s3cr3t", "the key <secret login>"),
        (QUOTED, '{"text": "say \\"hi\\""}', '{"text": "<secret q>"}'),
        (SAME, "a secret, a secret", "a <secret secret>, a <secret secret>"),
        (EMPTY, ["", "a"], ["", "a"]),
        (NULL, "null", "null"),
    ],
)
def test_secrets_of_four_characters_are_hidden_inside_texts(secrets: Secrets, value: Json, result: Json) -> None:
    assert secrets.hide(value) == result


def test_secrets_are_hidden_in_other_arguments() -> None:
    assert shown_texts({"pin": "4711", "note": "pin is 4711"}, PINS) == {
        "pin": "<secret pin>",
        "note": "pin is <secret pin>",
    }


def test_only_the_presence_of_a_secret_is_stored() -> None:
    stored_values = stored_arguments({"pin": "4711", "to": "ann", "at": None}, {"pin"})

    assert stored_values == {"pin": {"_workflow.secret": True}, "to": "ann", "at": None}
    assert [name for name, value in stored_values.items() if is_hidden(value)] == ["pin"]


@pytest.mark.parametrize(
    ("source", "contains_secret"),
    [
        (prompt_arg("pin"), True),
        (prompt_arg("to"), False),
        (constant({"headers": ["Pin {pin}"]}), True),
        (constant("{to}"), False),
        (step_output("pin"), False),
    ],
)
def test_a_source_mentions_a_secret_if_it_names_it(source: Source, contains_secret: bool) -> None:
    assert contains_argument(source, {"pin"}) is contains_secret


def test_arguments_that_contain_a_secret_are_hidden() -> None:
    sources: dict[str, Source] = {"pin": prompt_arg("pin"), "header": constant("Pin {pin}"), "to": prompt_arg("to")}
    call: dict[str, Json] = {"pin": "4711", "header": "x", "to": "ann", "note": "use 4711", "free": "4712"}

    assert hidden_in(call, sources, {"pin"}) == {"pin", "header", "note"}
    assert hidden_in(call, sources, frozenset()) == frozenset()


@pytest.mark.parametrize(
    ("call", "text", "shown"),
    [
        ({"pin": "hunter2", "again": "50-50"}, "no hunter2, no 50-50", "no <secret pin>, no <secret pin>"),
        ({"header": "Pin hunter2!"}, "no Pin hunter2!, no hunter2", "no Pin <secret pin>!, no <secret pin>"),
        ({"header": "hunter2"}, "no hunter2", "no <secret pin>"),
        ({"deep": {"auth": ["ann:hunter2"]}}, "no hunter2 of ann", "no <secret pin> of ann"),
        ({"deep": {"auth": ["hunter2"]}}, "no hunter2", "no <secret pin>"),
        ({"deep": ["hunter2"]}, "no hunter2", "no <secret pin>"),
        ({"either": "hunter2"}, "no hunter2", "no <secret pin>"),
        ({"to": "hunter2"}, "no hunter2", "no hunter2"),
    ],
)
def test_the_values_that_a_call_has_for_secrets_are_hidden(call: dict[str, Json], text: str, shown: str) -> None:
    sources: dict[str, Source] = {
        "pin": prompt_arg("pin"),
        "again": prompt_arg("pin"),
        "header": constant("Pin {pin}!"),
        "deep": constant({"auth": ["{to}:{pin}"]}),
        "either": FirstOf((step_output("s"), prompt_arg("pin"))),
        "to": prompt_arg("to"),
    }

    assert secrets_in_call(call, sources, {"pin"}).hide_text(text) == shown
