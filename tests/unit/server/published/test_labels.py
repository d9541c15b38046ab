"""Labels: titles, descriptions, icons, annotations and `_meta` of what is published."""

import pytest

from mcp_baton import Server
from mcp_baton.protocol.json import Json
from mcp_baton.server.published.labels import Labels
from mcp_baton.server.published.prompt import definition_of_prompt

ICON: dict[str, Json] = {"src": "https://example.com/a.png", "mimeType": "image/png", "sizes": ["48x48"]}
ALL = Labels("A", "It.", [ICON], {"readOnlyHint": True}, {"example.com/a": 1})


def test_labels_have_the_names_of_the_wire() -> None:
    assert ALL.to_json() == {
        "title": "A",
        "description": "It.",
        "icons": [ICON],
        "annotations": {"readOnlyHint": True},
        "_meta": {"example.com/a": 1},
    }


def test_what_is_not_said_is_not_there() -> None:
    assert Labels().to_json() == {}
    assert Labels(title="", description="", icons=[], annotations={}, meta={}).to_json() == {}


def test_hints_that_say_no_are_said() -> None:
    assert Labels(annotations={"destructiveHint": False}).to_json() == {"annotations": {"destructiveHint": False}}


@pytest.mark.parametrize(("given", "shown"), [(None, "Of its own."), ("Given.", "Given."), ("", "")])
def test_a_description_that_is_given_goes_before_the_functions_own(given: str | None, shown: str) -> None:
    def function() -> None:
        """Of its own."""

    labelled = Labels(title="A", description=given).of(function)

    assert (labelled.description, labelled.title) == (shown, "A")


def test_tools_resources_and_prompts_show_their_labels() -> None:
    server = Server("s")

    @server.tool(title="T", icons=[ICON], annotations={"idempotentHint": True}, meta={"a": 1})
    def work() -> None:
        """Work."""

    @server.resource("docs://a", title="R", annotations={"priority": 1.0}, mime_type="text/plain")
    def page() -> str:
        """A page."""
        return ""

    @server.resource("docs://all/{name}", icons=[ICON])
    def pages(name: str) -> str:
        return name

    @server.prompt(title="P", icons=[ICON], meta={"b": 2})
    def ask() -> str:
        """Ask."""
        return ""

    tool = {**server.tools["work"].definition}
    del tool["inputSchema"]
    prompt = server.prompts["ask"]
    assert tool == {
        "name": "work",
        "title": "T",
        "description": "Work.",
        "icons": [ICON],
        "annotations": {"idempotentHint": True},
        "_meta": {"a": 1},
    }
    assert server.resources["docs://a"].definition == {
        "uri": "docs://a",
        "name": "page",
        "title": "R",
        "description": "A page.",
        "annotations": {"priority": 1.0},
        "mimeType": "text/plain",
    }
    assert server.resources["docs://all/{name}"].definition == {
        "uriTemplate": "docs://all/{name}",
        "name": "pages",
        "icons": [ICON],
    }
    assert definition_of_prompt("ask", prompt.labels, prompt.arguments) == {
        "name": "ask",
        "title": "P",
        "description": "Ask.",
        "icons": [ICON],
        "_meta": {"b": 2},
        "arguments": [],
    }


def test_a_schema_of_ones_own_is_published_and_the_signature_still_binds() -> None:
    server = Server("s")
    own: dict[str, Json] = {"type": "object", "properties": {"a": {"type": "integer", "maximum": 9}}}

    @server.tool(input_schema=own)
    def work(a: int) -> int:
        return a

    assert server.tools["work"].definition["inputSchema"] == own
    assert server.tools["work"].input.bind({"a": 10}) == {"a": 10}
