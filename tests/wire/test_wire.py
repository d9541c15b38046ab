"""The validation of messages, tested with messages that are wrong on purpose."""

import json
from typing import Any

import pytest

from mcp_baton import Context, Server
from mcp_baton.aws import handler
from mcp_baton.protocol.json import JsonObject
from mcp_baton.server import endpoint
from mcp_baton.settings import Settings
from tests.processes import missing
from tests.support.client import Client, Era, JsonDict
from tests.wire import schemas
from tests.wire.message import ServerMessage
from tests.wire.tap import TAP

OLD, NEW = "2025-11-25", "2026-07-28"
NEVER = "2026-01-01T00:00:00.000Z"
TASK = {"taskId": "t", "status": "working", "createdAt": NEVER, "lastUpdatedAt": NEVER}
META = {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "1"}}


@pytest.fixture
def installed() -> None:
    """Skip without the conformance suite, which contains the schemas."""
    if schemas.official() is None:
        missing("the conformance suite is not installed; `make test` does it")


def message(body: JsonDict, method: str | None, revision: str = OLD, **params: Any) -> ServerMessage:
    return ServerMessage({"jsonrpc": "2.0", **body}, revision, method, params)


def answer(result: JsonDict, method: str, revision: str = OLD, **params: Any) -> ServerMessage:
    return message({"id": 1, "result": result}, method, revision, **params)


def notification(task: JsonDict) -> ServerMessage:
    return message({"method": "notifications/tasks", "params": task}, "subscriptions/listen", NEW)


RIGHT = [
    pytest.param(answer({}, "ping"), id="empty"),
    pytest.param(answer({"tools": []}, "tools/list"), id="a list"),
    pytest.param(answer({"content": [{"type": "text", "text": "x"}]}, "tools/call"), id="a tool's result"),
    pytest.param(
        answer({"content": [], "resultType": "complete", "_meta": META}, "tools/call", NEW), id="a result of 2026"
    ),
    pytest.param(
        answer({"resultType": "input_required", "requestState": "x", "_meta": META}, "tools/call", NEW), id="a question"
    ),
    pytest.param(answer({**TASK, "ttl": 1, "pollInterval": 1}, "tasks/get"), id="a task of 2025"),
    pytest.param(answer({"task": {**TASK, "ttl": 1}}, "tools/call", task={}), id="a new task of 2025"),
    pytest.param(answer({**TASK, "resultType": "complete", "ttlMs": 1}, "tasks/get", NEW), id="a task of 2026"),
    pytest.param(answer({**TASK, "resultType": "task", "ttlMs": None}, "tools/call", NEW), id="a new task of 2026"),
    pytest.param(answer({"resultType": "complete"}, "tasks/cancel", NEW), id="an acknowledgement"),
    pytest.param(notification({**TASK, "ttlMs": 1}), id="a notification of a task"),
    pytest.param(message({"id": 1, "error": {"code": -32601, "message": "m"}}, "tools/list", NEW), id="an error"),
    pytest.param(message({"id": None, "error": {"code": -32700, "message": "m"}}, None, NEW), id="an unread id"),
    pytest.param(
        message({"method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}}, "tools/call"),
        id="a notification",
    ),
    pytest.param(message({"id": "q", "method": "roots/list", "params": {}}, "tools/call"), id="a question of 2025"),
]

WRONG = [
    pytest.param(answer({"tools": {}}, "tools/list"), id="not a list"),
    pytest.param(answer({"tools": [{"name": "t"}]}, "tools/list"), id="a tool without a schema"),
    pytest.param(answer({"content": [{"type": "text"}]}, "tools/call"), id="text without a text"),
    pytest.param(answer({"messages": [{"role": "system", "content": {}}]}, "prompts/get"), id="no such role"),
    pytest.param(answer({"resultType": "complete", "tools": []}, "tools/list", NEW), id="a list without a lifetime"),
    pytest.param(answer({**TASK, "pollInterval": 1}, "tasks/get"), id="a task without a lifetime"),
    pytest.param(answer({**TASK, "status": "done", "ttl": 1}, "tasks/get"), id="no such status"),
    pytest.param(answer({"task": {"taskId": "t"}}, "tools/call", task={}), id="a new task that says nothing"),
    pytest.param(message({"id": 1, "error": {"message": "m"}}, "tools/list", NEW), id="an error without a code"),
    pytest.param(message({"id": [], "result": {}}, "ping"), id="a list as an id"),
    pytest.param(message({"method": "notifications/progress", "params": {"progress": 1}}, "tools/call"), id="no token"),
    pytest.param(message({"method": "notifications/news"}, "tools/call"), id="no such notification"),
    pytest.param(message({"id": 1, "method": "roots/list"}, "tools/call", NEW), id="a question of 2025 in 2026"),
    pytest.param(answer({**TASK, "resultType": "complete", "ttl": 1}, "tasks/get", NEW), id="the other era's words"),
    pytest.param(
        answer({**TASK, "status": "completed", "resultType": "complete", "ttlMs": 1}, "tasks/get", NEW),
        id="completed without a result",
    ),
    pytest.param(answer({**TASK, "resultType": "complete"}, "tasks/cancel", NEW), id="a task in an acknowledgement"),
    pytest.param(answer({"tasks": []}, "tasks/list", NEW), id="no such method"),
    pytest.param(notification({**TASK, "ttlMs": 1, "resultType": "complete"}), id="a notification that is a result"),
    pytest.param(notification({**TASK, "ttlMs": 1, "status": "completed"}), id="an end without a result"),
]


pytestmark = pytest.mark.usefixtures("installed")


@pytest.mark.parametrize("right", RIGHT)
def test_a_valid_message_passes(right: ServerMessage) -> None:
    assert schemas.complaints(right) == []


@pytest.mark.parametrize("wrong", WRONG)
def test_an_invalid_message_is_noticed(wrong: ServerMessage) -> None:
    assert schemas.complaints(wrong)


def test_every_revision_has_a_schema() -> None:
    official = schemas.official()
    assert official is not None
    assert official.keys() == {"2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}
    assert all(len(schema.names) > 80 and len(schema.messages) > 20 for schema in official.values())


server = Server("wire", version="1.0.0")


@server.tool
def report(ctx: Context) -> int:
    """Report progress."""
    ctx.report_progress(1)
    return 1


@pytest.fixture
def client() -> Client:
    return Client(handler(server, settings=Settings()))


@pytest.mark.parametrize("era", ["2025", "2026"])
def test_every_message_of_a_stream_is_validated(client: Client, era: Era) -> None:
    count_before = TAP.judged
    client.in_era(era).call_tool("report", meta={"progressToken": "p"})
    assert TAP.judged - count_before == 2
    assert TAP.take() == []


def test_an_invalid_response_is_reported(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def unfinished(_: object, result: JsonObject) -> JsonObject:
        return {**result, "tools": [{"name": "nameless"}]}

    monkeypatch.setattr(endpoint, "complete_result", unfinished)
    client.in_era("2026").request("tools/list")
    (reported,) = TAP.take()
    assert reported.startswith("answer to tools/list:")
    assert "2026-07-28: ListToolsResult" in reported
    assert "resultType" in reported


def test_an_error_before_the_request_is_read_is_validated_too(client: Client) -> None:
    count_before = TAP.judged
    assert client.post("{").refusal == (400, -32700)
    assert client.post(json.dumps([]), {"MCP-Protocol-Version": "2025-11-25"}).refusal == (400, -32600)
    assert TAP.judged - count_before == 2
