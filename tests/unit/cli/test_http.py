"""What answers of servers mean for a command."""

import httpx
import pytest

from mcp_baton.cli.app import main

URL = "https://api.example.com/mcp"


@pytest.mark.parametrize(
    ("answer", "code", "complaint"),
    [
        (httpx.Response(401, json={"message": "Unauthorized"}), 4, f"{URL} answered 401 (Unauthorized)"),
        (httpx.Response(403, json={"Message": "no"}), 4, f"{URL} answered 403 (no)"),
        (httpx.Response(404, text="<html>"), 4, f"there is no MCP endpoint at {URL}"),
        (httpx.Response(502, json={"message": "bad gateway"}), 4, "is no MCP endpoint: it answered 502 (bad gateway)"),
        (httpx.Response(200, text="hello"), 4, "is no MCP endpoint: it answered 200"),
        (httpx.Response(200, json={"jsonrpc": "2.0", "id": 1}), 4, "ended before it was whole"),
        (
            httpx.Response(200, text=": keep-alive\n\n", headers={"content-type": "text/event-stream"}),
            4,
            "ended before it was whole",
        ),
        (
            httpx.Response(500, json={"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "down"}}),
            1,
            "the server refused the request: down (-32603)",
        ),
    ],
)
def test_the_exit_code_says_whose_fault_it_is(
    answer: httpx.Response,
    code: int,
    complaint: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    made, sent = httpx.Client, httpx.MockTransport(lambda _: answer)
    monkeypatch.setattr(httpx, "Client", lambda **options: made(**options, transport=sent))
    assert main(["tasks", URL, "--api-key", "s3cret"]) == code
    captured = capsys.readouterr()
    assert complaint in captured.err
    assert "s3cret" not in captured.err + captured.out


def test_without_httpx_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "httpx", None)
    monkeypatch.delitem(sys.modules, "mcp_baton.cli.remote.http", raising=False)
    assert main(["tasks", URL]) == 2
    assert "install mcp-baton[local]" in capsys.readouterr().err
