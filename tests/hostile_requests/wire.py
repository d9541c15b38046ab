"""Checks that every answer must pass, whatever the request was."""

import json
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support.client import Answer, Client, Era, Table

BOUND_S = 60.0
"""The time limit of a request. No request takes that long unless it hangs."""

ORIGIN = "https://good.example"
"""The only origin whose pages may call the server."""

STATUSES = {200, 202, 204, 400, 403, 404, 405, 413, 415}
CODES = {-32700, -32600, -32601, -32602, -32002, -32020, -32021, -32022}
"""The allowed error codes: all but `-32603`, because no request may cause an internal error."""

BEFORE_THE_BODY = {403, 404, 405, 413, 415}
"""The statuses of requests that are refused before the body is read, so that their id is unknown. A 404 for an unknown
method is an exception: its body was read."""

_INTERNALS = re.compile(r'Traceback|File \\?"|mcp_baton[/.]|site-packages|botocore|moto|object at 0x|\.py\b')


@dataclass(slots=True)
class HostileClient:
    """A client of the server under test. It checks every answer."""

    client: Client
    table: Table
    writes: list[str] = field(default_factory=list)
    item_count: int = 0

    def record_write(self, event_name: str, **_: object) -> None:
        operation = event_name.rpartition(".")[2]
        if operation in {"PutItem", "UpdateItem", "DeleteItem"}:
            self.writes.append(operation)

    def recount(self) -> None:
        """Count the items in the table again, after the test itself has added some."""
        self.item_count = count(self.table)

    def post(self, body: str | None, headers: Mapping[str, str] | None = None, **changes: Any) -> Answer:
        answer = self._send(lambda: self.client.post(body, headers, **changes))
        check_origin(answer, {**(headers or {}), **(changes.get("multiValueHeaders") or {})})
        return answer

    def request(self, era: Era, method: str, params: dict[str, Any], meta: dict[str, Any] | None = None) -> Answer:
        """Send a request with arbitrary params and a correct envelope."""
        answer = self._send(lambda: self.client.in_era(era).request(method, params, meta))
        assert answer.messages[-1]["id"] == 1
        return answer

    def check_echo(self) -> None:
        for era in ("2025", "2026"):
            answer = self.client.in_era(era).call_tool("echo", {"text": "still here"})
            assert answer.result["structuredContent"] == {"result": "still here"}

    def _send(self, send: Callable[[], Answer]) -> Answer:
        self.writes.clear()
        answer = send_within_limit(send)
        check(answer)
        if self.writes:
            count_before, self.item_count = self.item_count, count(self.table)
            assert self.item_count == count_before or not is_refused(answer), "a refused request wrote an item"
        return answer


def send_within_limit(send: Callable[[], Answer]) -> Answer:
    """Return the answer. Fail if it does not come in time."""
    answers: list[Answer] = []
    errors: list[BaseException] = []

    def send_request() -> None:
        try:
            answers.append(send())
        except BaseException as error:  # noqa: BLE001 - raised again where the test can see it
            errors.append(error)

    thread = threading.Thread(target=send_request, daemon=True)
    thread.start()
    thread.join(BOUND_S)
    assert not thread.is_alive(), "the request hangs"
    if errors:
        raise errors[0]
    return answers[0]


def count(table: Table) -> int:
    return table.client.scan(TableName=table.name, Select="COUNT")["Count"]


def is_refused(answer: Answer) -> bool:
    return answer.status >= 400 or (answer.status == 200 and "error" in last_message(answer))


def last_message(answer: Answer) -> dict[str, Any]:
    """Return the message that answers the request."""
    return answer.messages[-1]


def check(answer: Answer) -> None:
    """Check what is true of every answer."""
    assert answer.status in STATUSES, answer
    assert not _INTERNALS.search(answer.body), answer.body
    answer.body.encode()
    if answer.status in {202, 204}:
        assert answer.body == ""
        return
    messages = answer.messages
    for message in messages[:-1]:
        assert message["jsonrpc"] == "2.0"
        assert isinstance(message["method"], str)
    check_reply(messages[-1])
    if answer.status != 200:
        assert "error" in messages[-1]


def check_origin(answer: Answer, request_headers: Mapping[str, str | list[str]]) -> None:
    """Check that only the page of the allowed origin can read the answer."""
    values = [value for name, value in request_headers.items() if name.lower() == "origin"]
    assert "Access-Control-Allow-Credentials" not in answer.headers
    if values in ([ORIGIN], [[ORIGIN]]):
        assert answer.headers["Access-Control-Allow-Origin"] == ORIGIN
        assert "Origin" in answer.headers["Vary"]
    else:
        assert [name for name in answer.headers if name.startswith("Access-Control-")] == []


def check_reply(message: dict[str, Any]) -> None:
    """Check what is true of every JSON-RPC reply."""
    assert message["jsonrpc"] == "2.0"
    assert isinstance(message["id"], str | int | None)
    if "result" in message:
        assert set(message) == {"jsonrpc", "id", "result"}
        assert isinstance(message["result"], dict)
        return
    assert set(message) == {"jsonrpc", "id", "error"}
    error = message["error"]
    assert error["code"] in CODES, message
    assert isinstance(error["message"], str)
    assert error["message"]


def check_id(answer: Answer, body: bytes) -> None:
    """Check that a reply has its request's id wherever the server could read the id."""
    try:
        request = json.loads(body.decode())
    except ValueError:
        assert answer.status == 400
        assert last_message(answer)["id"] is None
        return
    if not isinstance(request, dict) or answer.status == 202:
        return
    identifier = request.get("id")
    is_valid = isinstance(identifier, str | int) and not isinstance(identifier, bool)
    was_read = answer.status not in BEFORE_THE_BODY or "Method not found" in answer.body
    is_too_deep = last_message(answer).get("error", {}).get("code") in {-32700, -32600}
    if was_read and not is_too_deep:
        assert last_message(answer)["id"] == (identifier if is_valid else None)
