"""Requests of web pages, through the real handler: pages of an allowed origin can read answers, and no others can."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from mcp_baton import Context, Server
from tests.fakes import Wire, listening
from tests.support.client import Answer, Client, Era, events_in
from tests.support.handler import MakeClient

PAGE = "https://app.example.com"
FOREIGN = ["https://evil.example", "null", "", f"{PAGE}.evil.example", f"{PAGE}, {PAGE}"]
READABLE = {"Access-Control-Allow-Origin": PAGE, "Vary": "Origin"}


@pytest.fixture
def client(make_client: MakeClient, era: Era) -> Client:
    server = Server("s")

    @server.tool
    def echo(text: str, ctx: Context) -> str:
        ctx.report_progress(1, 1)
        return text

    @server.prompt
    def breaks() -> str:
        raise LookupError("the secret cause")

    return make_client(server, era=era, allowed_origins=frozenset({PAGE}), max_body_bytes=2_000)


def cors(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.startswith("Access-Control-") or name == "Vary"}


def readable(headers: Mapping[str, str]) -> bool:
    """Return whether only the page of the allowed origin can read an answer with these headers."""
    cors_headers = cors(headers)
    return cors_headers.pop("Access-Control-Expose-Headers", "") != "" and cors_headers == READABLE


def preflight(client: Client, origin: str | None = PAGE, **changes: Any) -> Answer:
    headers = {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type,mcp-param-region",
        **({} if origin is None else {"Origin": origin}),
    }
    # A browser sends no credentials, no body and no content type.
    return client.as_owner(None).post(None, {"Content-Type": "", **headers}, httpMethod="OPTIONS", **changes)


@pytest.mark.parametrize("origin", FOREIGN)
def test_a_call_from_another_origin_is_forbidden_and_has_no_cors_headers(client: Client, origin: str) -> None:
    for answer in (preflight(client, origin), client.request("tools/list", headers={"Origin": origin})):
        assert (answer.status, cors(answer.headers)) == (403, {})


def test_an_answer_to_a_request_without_an_origin_has_no_cors_headers(client: Client) -> None:
    answer = client.request("tools/list")

    assert answer.status == 200
    assert cors(answer.headers) == {}
    assert preflight(client, None).status == 405


FROM_PAGE = {"Origin": PAGE}
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
NOTIFICATION = {"jsonrpc": "2.0", "method": "notifications/initialized"}
ANSWERS: dict[str, tuple[int, str, Callable[[Client], Answer]]] = {
    "a result": (200, '"tools":', lambda client: client.request("tools/list", headers=FROM_PAGE)),
    "an error": (0, "-32602", lambda client: client.request("tools/call", {"name": "nothing"}, headers=FROM_PAGE)),
    "a fault": (200, "-32603", lambda client: client.request("prompts/get", {"name": "breaks"}, headers=FROM_PAGE)),
    "a refusal": (400, "-32600", lambda client: client.post(json.dumps([PING, PING]), FROM_PAGE)),
    "a notification's": (202, "", lambda client: client.post(json.dumps(NOTIFICATION), FROM_PAGE)),
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_a_page_can_read_a_whole_answer(client: Client, kind: str) -> None:
    status, part, ask = ANSWERS[kind]
    answer = ask(client)
    # Clients of the 2025 era treat other HTTP statuses as transport errors.
    assert answer.status == (status or (200 if client.era == "2025" else 400))
    assert part in answer.body
    assert readable(answer.headers)


def test_a_page_can_read_an_event_stream_that_is_sent_in_pieces_or_at_once(client: Client) -> None:
    call = {"name": "echo", "arguments": {"text": "here"}}
    answer = client.request("tools/call", call, {"progressToken": "p"}, {"Origin": PAGE})
    with listening(Wire()) as wire:
        client.request("tools/call", call, {"progressToken": "p"}, {"Origin": PAGE})

    assert [list(message)[1] for message in answer.messages] == ["method", "id"]
    assert readable(answer.headers)
    [(status, headers)] = wire.heads
    assert (status, readable(headers)) == (200, True)
    assert [list(message)[1] for message in events_in(wire.data.decode())] == ["method", "id"]
