"""Clients change URIs before they send them (RFC 3986): a listed resource can be read by every form of its URI."""

from typing import Any

import pytest

from mcp_baton import Context, ResourceLink, Server, fetch
from tests.support.client import Client, Era
from tests.support.handler import MakeClient

URI, SENT = "Docs://Manual/über uns", "docs://manual/%C3%BCber%20uns"
TEMPLATE, SENT_PAGE = "Docs://Manual/Seiten für {name}", "docs://manual/Seiten%20f%C3%BCr%20J%C3%B6rg"


def manual() -> Server:
    """Return a server with a fixed resource and a template, and one function for each way to read them."""
    server = Server("manual")

    @server.resource(URI)
    def about() -> str:
        return "about us"

    @server.resource(TEMPLATE)
    def pages(name: str) -> str:
        return f"pages for {name}"

    @server.tool
    def link() -> ResourceLink:
        return ResourceLink(URI, "about")

    @server.tool
    def read(ctx: Context, uri: str) -> str:
        return str(ctx.read_resource(uri)[0].content)

    @server.workflow
    def look() -> None:
        fetch("fixed", SENT)
        fetch("page", "DOCS://MANUAL/Seiten für {name}", name="Jörg")

    return server


@pytest.fixture
def client(make_client: MakeClient, era: Era) -> Client:
    return make_client(manual(), era=era)


def content(client: Client, uri: str) -> dict[str, Any]:
    (contents,) = client.request("resources/read", {"uri": uri}).result["contents"]
    return dict(contents)


@pytest.mark.parametrize("uri", [SENT, "DOCS://manual/%c3%bcber%20uns"])
def test_a_resource_is_read_by_the_form_that_was_sent_and_the_reply_repeats_it(client: Client, uri: str) -> None:
    assert content(client, uri) == {"uri": uri, "mimeType": "text/plain", "text": "about us"}


@pytest.mark.parametrize(("uri", "text"), [(SENT, "about us"), (SENT_PAGE, "pages for Jörg")])
def test_tools_and_workflows_read_it_by_that_form_too(client: Client, uri: str, text: str) -> None:
    assert client.call_tool("read", {"uri": uri}).result["content"][0]["text"] == text
    assert content(client, uri)["text"] == text
    conversation = str(client.get_prompt("look").conversation)
    assert text in conversation
    assert "failed" not in conversation


def test_listed_uris_and_those_of_links_are_percent_encoded_and_can_be_read_as_they_are(client: Client) -> None:
    (listed,) = client.request("resources/list").result["resources"]
    (block,) = client.call_tool("link").result["content"]
    assert listed["uri"] == block["uri"] == "Docs://Manual/%C3%BCber%20uns"
    assert content(client, listed["uri"])["text"] == "about us"


def test_a_subscription_accepts_that_form_in_2025(make_client: MakeClient) -> None:
    assert make_client(manual()).request("resources/subscribe", {"uri": SENT}).result == {}
