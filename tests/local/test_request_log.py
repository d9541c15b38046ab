"""The log lines of `baton serve` for requests and errors."""

import io
import json
import logging
import sys
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mcp_baton import Argument, Context, Server, ToolStep, Workflow, prompt_arg
from mcp_baton.aws import compose, dynamodb_store
from mcp_baton.local.dynamodb import create_table, embedded_client
from mcp_baton.local.gateway import InvocationContext
from mcp_baton.local.log import Entry, Status, TerminalHandler, one_line, user_frames, without_token
from mcp_baton.local.request_log import logged_call, outcome_of, with_refusal_log
from mcp_baton.settings import Settings


def shop() -> Server:
    server = Server("shop", version="1", reply_budget_s=20)

    @server.tool
    def fetch(order: str) -> dict[str, str]:
        return {"order": order}

    @server.tool
    def refund(order: str, approved_by: str) -> str:
        return f"{order} {approved_by}"

    @server.tool
    def broken(ctx: Context) -> None:
        raise RuntimeError(ctx.owner)

    steps = [
        ToolStep("fetch", tool="fetch", arguments={"order": prompt_arg("order")}),
        ToolStep("refund", tool="refund", arguments={"order": prompt_arg("order")}),
    ]
    arguments = [Argument("order", "id", required=True)]
    server.add_workflow(Workflow(name="refunds", description="refund", arguments=arguments, steps=steps))
    return server


class LoggedHandler:
    """The handler of `baton serve`, with the entries that it logs."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO, "baton.requests")
        self._log = caplog
        client = embedded_client()
        create_table(client, "baton")
        server_settings = Settings(table="baton", allow_anonymous=True)
        store = dynamodb_store("baton", server_settings, connect=lambda: client)
        self._handler = with_refusal_log(compose(shop(), server_settings, store=store, call_method=logged_call))

    def post(self, body: object, **headers: str) -> Any:
        event = {
            "httpMethod": "POST",
            "path": "/mcp",
            "headers": {"Content-Type": "application/json", **headers},
            "body": json.dumps(body),
            "isBase64Encoded": False,
            "requestContext": {"requestId": "r-1"},
        }
        return json.loads(self._handler(event, InvocationContext(60.0, "id-1"))["body"])

    def send(self, event: dict[str, Any]) -> dict[str, Any]:
        return self._handler(event, InvocationContext(60.0, "id-1"))

    def call(self, method: str, **params: Any) -> Any:
        return self.post({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})

    @property
    def last_entry(self) -> Entry:
        entry = getattr(self._log.records[-1], "entry", None)
        assert isinstance(entry, Entry)
        return entry

    def summary(self) -> tuple[str, str, Status, str]:
        return self.last_entry.method, self.last_entry.name, self.last_entry.status, self.last_entry.words


@pytest.fixture
def handler(caplog: pytest.LogCaptureFixture) -> LoggedHandler:
    return LoggedHandler(caplog)


def test_a_pause_is_logged_with_its_step_and_reason(handler: LoggedHandler) -> None:
    meta = handler.call("prompts/get", name="refunds", arguments={"order": "A-1"})["result"]["_meta"]
    pause = ("prompts/get", "refunds", Status.WAITING, "paused at refund: missing approved_by")
    assert handler.summary() == pause
    assert handler.last_entry.task == meta["task_id"]
    assert handler.last_entry.short_task == f"…{meta['task_id'][-8:]}"


def test_a_continuation_is_logged_with_its_step(handler: LoggedHandler) -> None:
    task = handler.call("prompts/get", name="refunds", arguments={"order": "A-1"})["result"]["_meta"]["task_id"]
    arguments = {"order": "A-1", "approved_by": "kim"}
    handler.call("tools/call", name="refund", arguments=arguments, _meta={"_task_id": task})
    assert handler.summary() == ("tools/call", "refund", Status.DONE, "recorded, 2 of 2 steps done")
    assert handler.last_entry.task == task
    handler.call("tools/call", name="broken", arguments={}, _meta={"_task_id": task})
    assert handler.last_entry.words == "recorded, failed: internal error in broken (id r-1)"
    handler.call("tools/call", name="fetch", arguments={"order": "B"}, _meta={"_task_id": "unknown"})
    assert handler.summary() == ("tools/call", "fetch", Status.FAILED, "not recorded: unknown task")


def test_other_requests_are_logged_with_their_outcome(handler: LoggedHandler) -> None:
    handler.call("tools/list")
    assert handler.summary() == ("tools/list", "", Status.DONE, "4 tools")
    handler.call("prompts/list")
    assert handler.last_entry.words == "1 prompt"
    handler.call("resources/templates/list")
    assert handler.last_entry.words == "0 templates"
    handler.call("tools/call", name="fetch", arguments={"order": "B"})
    assert handler.summary() == ("tools/call", "fetch", Status.DONE, "done")
    handler.call("tools/call", name="broken", arguments={})
    assert handler.summary() == ("tools/call", "broken", Status.FAILED, "internal error in broken (id r-1)")
    handler.call("tools/call", name="absent", arguments={})
    assert handler.summary() == ("tools/call", "absent", Status.FAILED, "Unknown tool: absent")
    client = {"name": "claude-code", "version": "1"}
    handler.call("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=client)
    assert handler.summary() == ("initialize", "claude-code", Status.DONE, "done")


def test_a_refused_request_is_logged_with_the_reason(handler: LoggedHandler) -> None:
    handler.post({}, **{"Content-Type": "text/plain"})
    words = "415 Unsupported media type: send application/json"
    assert handler.summary() == ("POST /mcp", "", Status.FAILED, words)


@pytest.mark.parametrize("path", ["/callbacks/", "/prod/callbacks/", "/approve/"])
def test_a_request_line_is_logged_without_the_token_in_its_path(path: str) -> None:
    assert without_token(f"GET {path}s3-cret?a=b HTTP/1.1") == f"GET {path}…?a=b HTTP/1.1"


@pytest.mark.parametrize(
    ("event", "report"),
    [
        ({"batonSweep": {}}, {"woken": 0}),
        ({"batonTask": {"owner": "kim", "taskId": "unknown", "dispatch": 1}}, {"outcome": "not found"}),
    ],
)
def test_an_event_that_is_no_http_request_is_handled(
    handler: LoggedHandler, event: dict[str, Any], report: dict[str, Any]
) -> None:
    assert handler.send(event).items() >= report.items()


def test_a_ping_is_logged_at_the_debug_level_only(handler: LoggedHandler, caplog: pytest.LogCaptureFixture) -> None:
    handler.call("ping")
    assert caplog.records == []
    caplog.set_level(logging.DEBUG, "baton.requests")
    handler.call("ping")
    assert handler.summary() == ("ping", "", Status.DONE, "done")


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        ({"task": {"taskId": "1", "status": "working"}}, (Status.WAITING, "working")),
        ({"taskId": "1", "status": "failed", "statusMessage": "no"}, (Status.FAILED, "failed: no")),
        ({"resultType": "input_required", "inputRequests": {"ok": {}}}, (Status.WAITING, "asks for ok")),
        ({"_meta": {"task_status": "completed"}}, (Status.DONE, "completed")),
        ({"_meta": {"task_status": "completed", "persisted": False}}, (Status.FAILED, "completed; not saved")),
        ({"_meta": {"recorded": "unknown", "record_error": "lost"}}, (Status.FAILED, "may not be recorded: lost")),
        # A client may complete a task with any result.
        ({"isError": True, "content": ["text"]}, (Status.FAILED, "failed")),
        ({"_meta": {"task_status": []}}, (Status.DONE, "?")),
    ],
)
def test_the_outcome_is_read_from_the_result(result: dict[str, Any], outcome: tuple[Status, str]) -> None:
    assert outcome_of("tools/call", result) == outcome


def test_a_text_of_a_client_becomes_one_short_line() -> None:
    assert one_line("a\nb\tc") == "a b c"
    assert one_line("x" * 300) == f"{'x' * 200} …"


def error_in_user_code(tmp_path: Path) -> Exception:
    """Return an error that the standard library raised for a user's file."""
    file = tmp_path / "tools.py"
    file.write_text("import json\n\ndef read():\n    return json.loads('{')\n")
    code: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), code)  # noqa: S102 - code of this test
    try:
        code["read"]()
    except ValueError as error:
        return error
    raise AssertionError


def test_a_traceback_has_the_users_frames_and_the_number_of_the_others(tmp_path: Path) -> None:
    trace = user_frames(error_in_user_code(tmp_path))
    assert user_frames(error_in_user_code(tmp_path), "").endswith("of Python left out)")
    assert f'File "{tmp_path / "tools.py"}", line 4, in read' in trace
    assert "decoder.py" not in trace
    assert trace.endswith("(3 frames of Baton, of packages and of Python left out; --log-level debug shows all)")


def test_causes_also_keep_the_users_frames(tmp_path: Path) -> None:
    try:
        raise RuntimeError("outer") from error_in_user_code(tmp_path)
    except RuntimeError as error:
        trace = user_frames(error)
    assert "direct cause" in trace
    assert trace.count("tools.py") == 1
    assert trace.count("left out") == 1


def test_a_chain_of_causes_may_be_longer_than_the_recursion_limit() -> None:
    error = ValueError("0")
    for number in range(1, sys.getrecursionlimit() + 100):
        try:
            raise ValueError(str(number)) from error
        except ValueError as raised_error:
            error = raised_error
    assert user_frames(error).endswith(f"ValueError: {number}")


def record(error: Exception | None = None, **extra: object) -> logging.LogRecord:
    info = (type(error), error, error.__traceback__) if error else None
    log_record = logging.LogRecord("shop", logging.ERROR, __file__, 1, "no %s", ("stock",), info)
    vars(log_record).update(extra)
    return log_record


def test_the_debug_level_shows_every_frame(tmp_path: Path) -> None:
    error = error_in_user_code(tmp_path)
    short_output, full_output = io.StringIO(), io.StringIO()
    TerminalHandler(short_output, in_full=False).handle(record(error))
    TerminalHandler(full_output, in_full=True).handle(record(error))
    assert "decoder.py" not in short_output.getvalue()
    assert "decoder.py" in full_output.getvalue()
    assert "shop: no stock" in full_output.getvalue()


ENTRY = Entry("tools/call", "[red]pay", "0123456789abcdef", 12.4, Status.FAILED, "no")


def test_a_line_has_colours_only_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    plain, coloured, uncoloured = io.StringIO(), Terminal(), Terminal()
    TerminalHandler(plain, in_full=False).handle(record(entry=ENTRY))
    TerminalHandler(coloured, in_full=False).handle(record(entry=ENTRY))
    monkeypatch.setenv("NO_COLOR", "1")
    TerminalHandler(uncoloured, in_full=False).handle(record(entry=ENTRY))
    assert plain.getvalue()[9:] == "tools/call   [red]pay …89abcdef 12 ms no\n"
    assert "\x1b[1;31mno" in coloured.getvalue()
    assert "31m" not in uncoloured.getvalue()


UNSAFE = ("\x1b]0;title\x07", "\x7f", "\x9b2J", "\u202e", "\u200b", "\ud800")
"""OSC, DEL, one-byte CSI, a bidi override, a zero-width space, a lone surrogate."""


def test_no_text_in_the_log_controls_the_terminal() -> None:
    text = "".join(UNSAFE)
    entry = replace(ENTRY, method=text, name=text, task=text, words=text)
    records = [record(entry=entry), record(ValueError(text)), record(), record()]
    records[2].msg, records[2].args = text, ()
    records[3].levelname = text
    log = io.StringIO()
    for log_record in records:
        TerminalHandler(log, in_full=True).handle(log_record)
    assert log.getvalue().count("�") > 4 * len(UNSAFE)
    assert [char for char in log.getvalue() if unicodedata.category(char) in ("Cc", "Cf", "Cs") and char != "\n"] == []
