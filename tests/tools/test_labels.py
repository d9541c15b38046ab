"""Labels of tools, resources and prompts, and the scopes that callers need."""

from typing import Any

import pytest

from mcp_baton import RegistrationError, Server
from mcp_baton.protocol.json import Json
from mcp_baton.tools.labels import Labels, scopes_in
from mcp_baton.tools.prompt import definition_of_prompt

ICON: dict[str, Json] = {"src": "https://example.com/a.png", "mimeType": "image/png", "sizes": ["48x48"]}
HINTS: dict[str, Json] = {"readOnlyHint": True}
SHOWN: dict[str, Any] = {
    "title": "A",
    "description": "It.",
    "icons": [ICON],
    "annotations": HINTS,
    "_meta": {"example.com/a": 1},
}


def test_missing_labels_are_left_out_and_false_hints_are_kept() -> None:
    assert Labels().to_json() == {}
    assert Labels(title="", description="", icons=[], annotations={}, meta={}).to_json() == {}
    assert Labels(annotations={"destructiveHint": False}).to_json() == {"annotations": {"destructiveHint": False}}


@pytest.mark.parametrize(("description", "shown_description"), [(None, "Of its own."), ("Given.", "Given."), ("", "")])
def test_a_given_description_replaces_the_docstring(description: str | None, shown_description: str) -> None:
    def function() -> None:
        """Of its own."""

    labels = Labels(title="A", description=description).for_function(function)

    assert (labels.description, labels.title) == (shown_description, "A")


def test_tools_resources_and_prompts_show_their_labels() -> None:
    server = Server("s")
    labels: dict[str, Any] = {"title": "A", "description": "It.", "icons": [ICON], "meta": SHOWN["_meta"]}

    @server.tool(**labels, annotations=HINTS)
    @server.resource("docs://a", **labels, annotations=HINTS, mime_type="text/plain")
    @server.prompt(**labels)
    def page() -> None:
        """Not shown."""

    @server.resource("docs://all/{name}")
    def pages(name: str) -> str:
        """The docstring of the function."""
        return name

    tool, prompt = server.tools["page"].definition, server.prompts["page"]
    assert tool == {"name": "page", **SHOWN, "inputSchema": tool["inputSchema"]}
    assert [resource.definition for resource in server.resources.values()] == [
        {"uri": "docs://a", "name": "page", **SHOWN, "mimeType": "text/plain"},
        {"uriTemplate": "docs://all/{name}", "name": "pages", "description": "The docstring of the function."},
    ]
    assert definition_of_prompt("page", prompt.labels, prompt.arguments) == {
        "name": "page",
        **{name: value for name, value in SHOWN.items() if name != "annotations"},
        "arguments": [],
    }


def test_a_given_schema_is_published_but_the_signature_binds_the_arguments() -> None:
    server = Server("s")
    input_schema: dict[str, Json] = {"type": "object", "properties": {"a": {"type": "integer", "maximum": 9}}}

    @server.tool(input_schema=input_schema)
    def work(a: int) -> int:
        return a

    assert server.tools["work"].definition["inputSchema"] == input_schema
    assert server.tools["work"].input.bind({"a": 10}) == {"a": 10}


@pytest.mark.parametrize(
    ("claims", "scopes"),
    [
        ({}, set()),
        ({"scope": "orders:read  orders:write"}, {"orders:read", "orders:write"}),
        ({"scp": ["orders:read", "orders:write", 7]}, {"orders:read", "orders:write"}),
        ({"scp": "orders:read orders:write"}, {"orders:read", "orders:write"}),
        ({"scp": "[orders:read orders:write]"}, {"[orders:read", "orders:write]"}),
        ({"scopes": ["orders:read"]}, {"orders:read"}),
        ({"scope": "a", "scp": ["b"]}, {"a", "b"}),
        ({"scope": None, "scp": {"a": "b"}, "groups": "c"}, set()),
    ],
)
def test_scopes_are_read_from_all_known_claims(claims: dict[str, Any], scopes: set[str]) -> None:
    assert scopes_in(claims) == scopes


@pytest.mark.parametrize(
    ("requires", "cause"),
    [("orders:write", r"requires=\['orders:write'\]"), (["a b"], "'a b'"), ([""], "''"), ([7], "7")],
)
def test_invalid_scopes_are_refused(requires: Any, cause: str) -> None:
    server = Server("shop")
    for register in (
        server.tool(name="refund", requires=requires),
        server.resource("docs://a", name="a", requires=requires),
        server.prompt(name="ask", requires=requires),
    ):
        with pytest.raises(RegistrationError, match=cause):
            register(lambda: "")
