"""Servers with erroneous, malformed or hostile answers: what the commands print, and when they stop reading."""

import json
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from mcp_baton.cli.app import main
from mcp_baton.testing import mcp_client

BATON = Path(sys.executable).parent / "baton"

ATTACK = "a\x1b]0;title\x07b\x1b[31mc\x9b2Jd\u202ee\u200bf\ud800g\u2028h"
"""OSC, CSI and C1 sequences, a bidi override, a zero-width space, a lone surrogate and a line separator."""

TASK = {"taskId": "0" * 37, "status": ATTACK, "statusMessage": ATTACK, "createdAt": ATTACK, "lastUpdatedAt": ATTACK}
DEEP = "[" * 100_000 + "]" * 100_000

type Answer = Callable[[dict[str, Any]], httpx.Response]
URL = "https://api.example.com/mcp"


class Hostile:
    """A server. `answer` creates the response to each message."""

    url = URL

    def __init__(self) -> None:
        self.answer: Answer = result({})

    def __call__(self, request: httpx.Request) -> httpx.Response:
        return self.answer(json.loads(request.content))


@pytest.fixture
def hostile(monkeypatch: pytest.MonkeyPatch) -> Hostile:
    client_class, server = httpx.Client, Hostile()
    monkeypatch.setattr(
        httpx, "Client", lambda **options: client_class(**options, transport=httpx.MockTransport(server))
    )
    return server


def body(status: int, value: Any) -> Answer:
    text = value if isinstance(value, str) else json.dumps(value)
    return lambda _: httpx.Response(status, text=text)


def result(value: Any) -> Answer:
    return body(200, {"jsonrpc": "2.0", "id": 1, "result": value})


def error(value: Any) -> Answer:
    return body(200, {"jsonrpc": "2.0", "id": 1, "error": value})


def events(*texts: str) -> Answer:
    return lambda _: stream(text.encode() for text in texts)


def stream(pieces: Iterator[bytes]) -> httpx.Response:
    return httpx.Response(200, headers={"Content-Type": "text/event-stream"}, content=pieces)


def reply(answer: Any) -> Answer:
    """Return the answers of a server with one tool, whose calls have this result."""

    def respond(message: dict[str, Any]) -> httpx.Response:
        tools = {"tools": [{"name": "look", "inputSchema": {"type": "object"}}]}
        return result(tools if message["method"] == "tools/list" else answer)(message)

    return respond


def unsafe(text: str) -> str:
    """Return the characters of a text that must not reach a terminal."""
    categories = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return "".join(char for char in text if unicodedata.category(char) in categories and char not in "\n\t")


DOWN_ERROR = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "down"}}


@pytest.mark.parametrize(
    ("answer", "code", "complaint"),
    [
        (body(401, {"message": "Unauthorized"}), 4, f"{URL} answered 401 (Unauthorized)"),
        (body(403, {"Message": "no"}), 4, f"{URL} answered 403 (no)"),
        (body(404, "<html>"), 4, f"there is no MCP endpoint at {URL}"),
        (body(502, {"message": "bad gateway"}), 4, "answered 502 (bad gateway): the server or its gateway failed"),
        (body(200, "hello"), 4, "is not an MCP endpoint: it answered 200"),
        (body(200, {"jsonrpc": "2.0", "id": 1}), 4, "is incomplete"),
        (events(": keep-alive\n\n"), 4, "is incomplete"),
        (body(500, DOWN_ERROR), 1, "the server rejected the request: down (-32603)"),
    ],
)
def test_the_exit_code_and_the_message_depend_on_the_answer(
    hostile: Hostile, answer: Answer, code: int, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile.answer = answer
    assert main(["tasks", URL, "--api-key", "s3cret"]) == code
    captured = capsys.readouterr()
    assert complaint in captured.err
    assert "s3cret" not in captured.err + captured.out


@pytest.mark.parametrize("json_", [False, True])
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (error({"code": -32602, "message": ATTACK, "data": ATTACK}), ["tasks"]),
        (body(401, {"message": ATTACK}), ["tasks"]),
        (body(403, {"Message": ATTACK}), ["tasks"]),
        (body(404, {"message": ATTACK}), ["tasks"]),
        (body(500, {"error": {"message": ATTACK}}), ["tasks"]),
        (body(502, {"message": ATTACK}), ["tasks"]),
        (error({"code": ATTACK, "message": ATTACK}), ["tasks"]),
        (result({"tasks": [{**TASK, "_meta": {"workflow": ATTACK, "step": ATTACK}}]}), ["tasks"]),
        (result({**TASK, "_meta": {ATTACK: 1, "pause_reason": {"type": ATTACK, "error": ATTACK}}}), ["show", "0" * 37]),
        (result({**TASK, "status": "failed", "error": {"message": ATTACK}}), ["show", "0" * 37]),
        (result({**TASK, "status": "completed", "result": ATTACK}), ["show", "0" * 37]),
        (result({"prompts": [{"name": ATTACK}]}), ["run", "look"]),
        (result({"tools": [{"name": ATTACK}]}), ["call", "look"]),
        (reply({"content": [{"type": "text", "text": ATTACK}]}), ["call", "look"]),
        (reply({"isError": True, "content": [{"type": ATTACK, "mimeType": ATTACK}]}), ["call", "look"]),
        (
            reply({"content": [], "_meta": {"recorded": False, "record_error": ATTACK, "next": [{"tool": ATTACK}]}}),
            ["call", "look"],
        ),
        (reply({"resultType": "task", "taskId": ATTACK, "status": "failed"}), ["call", "look"]),
        (
            events(f"data: {json.dumps({'method': 'notifications/progress', 'params': {'message': ATTACK}})}\n\n"),
            ["tasks"],
        ),
    ],
)
def test_no_text_of_a_server_controls_the_terminal(
    hostile: Hostile, answer: Answer, words: list[str], json_: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile.answer = answer
    command, *arguments = words
    main([command, hostile.url, *arguments, *(["--json"] if json_ else [])])

    captured = capsys.readouterr()
    assert captured.out + captured.err
    assert unsafe(captured.out + captured.err) == ""
    if json_:
        json.loads(captured.out)


def test_with_json_the_text_is_complete_and_escaped(hostile: Hostile, capsys: pytest.CaptureFixture[str]) -> None:
    hostile.answer = error({"code": -32602, "message": "no", "data": f"é {ATTACK}\U000e0041"})

    assert main(["tasks", hostile.url, "--json"]) == 2

    out = capsys.readouterr().out
    assert json.loads(out)["error"]["data"] == f"é {ATTACK}\U000e0041"
    assert "é" in out
    assert all(text in out for text in (r"\u001b]0;", r"\u009b2J", r"\u202e", r"\ud800", r"\u2028", r"\udb40\udc41"))


def endless(start: str, piece: str) -> Answer:
    def pieces() -> Iterator[bytes]:
        yield start.encode()
        while True:
            yield piece.encode()

    return lambda _: stream(pieces()) if start.startswith("data") else httpx.Response(200, content=pieces())


def cursors(message: dict[str, Any]) -> httpx.Response:
    """Return a page of a list that never ends."""
    page = int(message["params"].get("cursor", 0))
    return result({"tasks": [], "nextCursor": str(page + 1)})(message)


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (cursors, "the list of tasks/list does not end: 7 pages"),
        (result({"tasks": [{}] * 100_001, "nextCursor": "1"}), "the list of tasks/list does not end"),
        (endless("data: ", "x" * 65_536), "sent an answer of more than 67,108,864 bytes"),
        (endless('{"jsonrpc": "', "x" * 65_536), "sent an answer of more than 67,108,864 bytes"),
        (endless("data: {}\n\n", "data: {}\n\n" * 10_000), "sent more than 100,000 events in one answer"),
        (body(403, DEEP), "nested too deep"),
        (body(200, DEEP), "nested too deep"),
        (events(f"data: {DEEP}\n\n"), "nested too deep"),
        (result({"tasks": [json.loads("[" * 300 + "]" * 300)]}), "nested deeper than 220 levels"),
        (events("data: no\n\n"), "sent an event that is not a JSON-RPC message"),
        (events("data: []\n\n"), "sent an event that is not a JSON-RPC message"),
        (error({"code": "-32602", "message": "no"}), "gave an answer that cannot be used (TypeError"),
        (error({"message": "no"}), "gave an answer that cannot be used (TypeError"),
        (error("no"), "gave an answer that cannot be used (TypeError"),
        (result("no"), "gave an answer that cannot be used (TypeError"),
        (result({"tasks": ["no"]}), "gave an answer that cannot be used (AttributeError"),
        (result({"tasks": [{}]}), "gave an answer that cannot be used (KeyError: "),
        (result({"resultType": "input_required", "inputRequests": [1]}), "gave an answer that cannot be used"),
    ],
)
def test_an_endless_or_malformed_answer_ends_the_command_with_two_lines(
    hostile: Hostile,
    answer: Answer,
    complaint: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mcp_client, "MAX_PAGES", 7)
    hostile.answer = answer

    assert main(["tasks", hostile.url, "--all"]) == 4

    problem, remedy = capsys.readouterr().err.splitlines()
    assert complaint in problem
    assert remedy == "The server is faulty or hostile. The rest of its answer was not read; tell its operator"


def test_a_value_with_the_maximum_nesting_is_printed(hostile: Hostile, capsys: pytest.CaptureFixture[str]) -> None:
    value = json.loads("[" * 200 + "]" * 200)
    hostile.answer = reply({"content": [], "structuredContent": {"result": value}})

    assert main(["call", hostile.url, "look", "--json"]) == 0

    assert json.loads(capsys.readouterr().out)["structuredContent"]["result"] == value


def test_an_event_may_arrive_in_any_pieces_and_contain_any_line_separator(
    hostile: Hostile, capsys: pytest.CaptureFixture[str]
) -> None:
    text = json.dumps({"id": 1, "result": {"tasks": [], "note": "a\u2028b\x85c"}}, ensure_ascii=False)
    hostile.answer = events(": alive\r\n\r\nda", "ta: ", text[:5], f"{text[5:]}\r", "\n\r", "\n")

    assert main(["tasks", hostile.url]) == 0
    assert capsys.readouterr().out == "no tasks\n"


def test_a_server_can_choose_the_poll_interval_within_limits(hostile: Hostile, monkeypatch: pytest.MonkeyPatch) -> None:
    intervals = iter([1e300, -5, 1])
    sleeps: list[float] = []
    monkeypatch.setattr("time.sleep", sleeps.append)
    task = {"resultType": "task", "taskId": "1", "status": "working"}

    def respond(message: dict[str, Any]) -> httpx.Response:
        interval = next(intervals, None)
        completed_task = {"status": "completed", "result": {"content": []}}
        working_task = {"status": "working", "pollIntervalMs": interval}
        return result(completed_task if interval is None else working_task)(message)

    hostile.answer = lambda message: respond(message) if message["method"] == "tasks/get" else reply(task)(message)

    assert main(["call", hostile.url, "look"]) == 0
    assert sleeps == [1, 60, 0.1, 0.1]


def test_an_error_of_a_tool_in_this_process_does_not_control_the_terminal(tmp_path: Path) -> None:
    app = tmp_path / "tickets_app.py"
    app.write_text(
        "from mcp_baton import Server\n"
        "server = Server('tickets')\n"
        "@server.tool\n"
        "def broken() -> str:\n"
        "    '''Read a ticket.'''\n"
        f"    raise ValueError({ATTACK!a})\n"
    )

    process = subprocess.run([BATON, "call", app, "broken"], capture_output=True, text=True, check=False)

    assert process.returncode == 1
    assert "title" in process.stderr
    assert unsafe(process.stdout + process.stderr) == ""
