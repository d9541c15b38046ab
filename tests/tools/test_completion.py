"""Completion: the form of requests, and the suggestions."""

from typing import Any

import pytest

from mcp_baton import ProtocolError
from mcp_baton.protocol.jsonrpc import INVALID_PARAMS
from mcp_baton.server.methods.completion import MAX_SUGGESTIONS, completion_params, suggestions

PROMPT = {"type": "ref/prompt", "name": "ask"}
ARGUMENT = {"name": "tone", "value": "k"}


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
        ({"ref": PROMPT, "argument": ARGUMENT, "context": []}, "context"),
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
