"""Completion: the form of requests, and the suggestions."""

from typing import Any

import pytest

from mcp_baton import Argument, ProtocolError, RegistrationError, Server, ToolStep, Workflow
from mcp_baton.protocol.jsonrpc import INVALID_PARAMS
from mcp_baton.server.methods.completion import MAX_SUGGESTIONS, completion_params, suggestions
from mcp_baton.tools.completion import completion_of

PROMPT = {"type": "ref/prompt", "name": "ask"}
ARGUMENT = {"name": "tone", "value": "k"}


def test_a_request_has_a_reference_a_name_a_value_and_known_arguments() -> None:
    template = {"type": "ref/resource", "uri": "docs://{topic}"}
    params = {"ref": PROMPT, "argument": ARGUMENT}

    assert completion_params(params) == completion_params({**params, "context": {}}) == ("ask", "tone", "k", {})
    assert completion_params({**params, "ref": template}) == ("docs://{topic}", "tone", "k", {})
    assert completion_params({**params, "context": {"arguments": {"name": "Kim"}}})[3] == {"name": "Kim"}


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"argument": ARGUMENT}, "ref.type"),
        ({"ref": "ask", "argument": ARGUMENT}, "ref.type"),
        ({"ref": {"type": "ref/tool", "name": "ask"}, "argument": ARGUMENT}, "ref.type"),
        ({"ref": {"type": ["ref/prompt"], "name": "ask"}, "argument": ARGUMENT}, "ref.type"),
        ({"ref": {"type": "ref/prompt"}, "argument": ARGUMENT}, "ref.name"),
        ({"ref": {"type": "ref/prompt", "name": 5}, "argument": ARGUMENT}, "ref.name"),
        ({"ref": {"type": "ref/resource", "name": "ask"}, "argument": ARGUMENT}, "ref.uri"),
        ({"ref": PROMPT}, "argument"),
        ({"ref": PROMPT, "argument": "tone"}, "argument"),
        ({"ref": PROMPT, "argument": {"name": "tone"}}, "argument.value"),
        ({"ref": PROMPT, "argument": {"name": 5, "value": "k"}}, "argument.name"),
        ({"ref": PROMPT, "argument": {"name": "tone", "value": 5}}, "argument.value"),
        ({"ref": PROMPT, "argument": ARGUMENT, "context": []}, "context.arguments"),
        ({"ref": PROMPT, "argument": ARGUMENT, "context": {"arguments": [1]}}, "context.arguments"),
    ],
    ids=str,
)
def test_a_malformed_request_is_refused_with_the_name_of_its_field(params: dict[str, Any], field: str) -> None:
    with pytest.raises(ProtocolError) as error_info:
        completion_params(params)

    assert error_info.value.code == INVALID_PARAMS
    assert f"`{field}`" in error_info.value.message


@pytest.mark.parametrize("count", [0, 1, MAX_SUGGESTIONS - 1, MAX_SUGGESTIONS, MAX_SUGGESTIONS + 1, 250])
def test_the_shown_suggestions_are_limited_and_all_are_counted(count: int) -> None:
    result = suggestions(str(number) for number in range(count))

    assert result == {
        "completion": {
            "values": [str(number) for number in range(min(count, MAX_SUGGESTIONS))],
            "total": count,
            "hasMore": count > MAX_SUGGESTIONS,
        }
    }


def test_a_completer_takes_the_text_and_optionally_the_known_arguments() -> None:
    assert not completion_of(lambda value: [value], "c").wants_arguments
    assert completion_of(lambda value, arguments: [value, *arguments], "c").wants_arguments


@pytest.fixture
def server() -> Server:
    shop = Server("shop")

    @shop.prompt
    def ask(tone: str) -> str:
        return tone

    @shop.resource("docs://{topic}")
    def docs(topic: str) -> str:
        return topic

    @shop.tool
    def work() -> None: ...

    shop.add_workflow(
        Workflow(name="flow", description="d", arguments=[Argument("size")], steps=[ToolStep("s", tool="work")])
    )
    return shop


@pytest.mark.parametrize(("name", "argument"), [("ask", "tone"), ("docs://{topic}", "topic"), ("flow", "size")])
def test_the_arguments_of_prompts_workflows_and_templates_can_be_completed_once(
    server: Server, name: str, argument: str
) -> None:
    @server.completion(name, argument)
    def complete(value: str) -> list[str]:
        return [value]

    assert complete("a") == ["a"]
    assert server.completions[name, argument].function is complete
    with pytest.raises(RegistrationError, match=argument):
        server.completion(name, argument)(complete)
